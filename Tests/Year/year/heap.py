"""What lies on a running process's heap: blocks of glibc's malloc, told apart by their size and by what their first word
points at, which for an object of Swift is its type. It is read through /proc while the process runs on, so that a block
that changes meanwhile may be counted wrongly. Two looks tell what grows:

    PYTHONPATH=Tests/Year python3 -m year.heap PID FILE             keeps a look
    PYTHONPATH=Tests/Year python3 -m year.heap FILE LATER-FILE      says what the later one has more of
"""
import argparse
import bisect
import functools
import json
import re
import struct
import subprocess
import sys
from collections import Counter

# glibc maps an arena's heaps at multiples of this; each begins with its arena, the heap before it and its size.
HEAP = 64 << 20
# Behind a block's size (malloc/malloc.c): the block before it is used, the block was mapped on its own, its arena is not the main one.
FLAGS = 7
IS_BEFORE_USED = 1
SMALLEST = 32
# Where a heap's first block may begin: behind its head, and in an arena's first heap behind the arena too.
HEAD, ARENA = 0x30, 0xA00


def mappings(pid):
    """(first address, end, may be written, offset, name, private dirty octets)."""
    found = []
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ \S+ *(.*)", line)
            if head:
                found.append([int(head[1], 16), int(head[2], 16), "w" in head[3], int(head[4], 16), head[5], 0])
            elif line.startswith("Private_Dirty:"):
                found[-1][5] = int(line.split()[1]) << 10
    return found


def blocks(octets, place):
    """(place, size, is used) of block after block; ends where none can be."""
    while place + 16 <= len(octets):
        size = struct.unpack_from("<Q", octets, place + 8)[0] & ~FLAGS
        behind = place + size
        if size < SMALLEST or size % 16 or behind + 16 > len(octets):
            return
        yield place, size, struct.unpack_from("<Q", octets, behind + 8)[0] & IS_BEFORE_USED
        place = behind


def first_block(octets):
    """The place from which the most can be walked."""
    # The place is a multiple of 16; what is before the first block says nothing, so that each must be tried.
    return max(range(HEAD, min(ARENA, len(octets)), 16), key=lambda place: sum(size for _, size, _ in blocks(octets, place)))


def look(pid):
    """Octets and blocks of each kind: {(size, file, offset): (octets, blocks)}; a kind of no block has the size 0."""
    maps, counted = mappings(pid), Counter()
    bases = {}
    for begin, _, _, offset, name, _ in maps:
        if name.startswith("/") and offset == 0:
            bases.setdefault(name, begin)
    begins = [each[0] for each in maps]

    def pointed_at(word):
        place = bisect.bisect_right(begins, word) - 1
        if place >= 0 and word < maps[place][1] and maps[place][4] in bases:
            return maps[place][4], word - bases[maps[place][4]]
        return "", 0

    octets_of = Counter()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for begin, end, is_written, _, name, dirty in maps:
            is_main, is_other = name == "[heap]", name == "" and is_written and begin % HEAP == 0
            if not (is_main or is_other):
                octets_of[0, "mapped from files" if name.startswith("/") else "stacks and what was mapped on its own", 0] += dirty
                continue
            memory.seek(begin)
            octets = memory.read(end - begin)
            used = 0
            for place, size, is_used in blocks(octets, 0 if is_main else first_block(octets)):
                if is_used:
                    used += size
                    kind = size, *pointed_at(struct.unpack_from("<Q", octets, place + 16)[0])
                    octets_of[kind] += size
                    counted[kind] += 1
            octets_of[0, "free on heaps, and not walked", 0] += dirty - used
    return {kind: (size, counted[kind]) for kind, size in octets_of.items()}


@functools.cache
def symbols(file):
    found = []
    for option in ([], ["--dynamic"]):
        printed = subprocess.run(["nm", *option, file], capture_output=True, text=True, check=False).stdout
        found += [(int(address, 16), name) for address, name in re.findall(r"^([0-9a-f]+) \w (.+)$", printed, re.M)]
    return sorted(found)


def named(kinds):
    """What people call them, if nm and Swift's demangler are there."""
    names = []
    for size, file, offset in kinds:
        table = symbols(file) if size and file else []
        place = bisect.bisect_right(table, (offset, "\U0010FFFF")) - 1
        names.append(table[place][1] if place >= 0 else file or "data")
    try:
        printed = subprocess.run(["swift", "demangle", "--simplified"], input="\n".join(names), capture_output=True, text=True,
                                 check=True).stdout.splitlines()
        return printed if len(printed) == len(names) else names
    except (OSError, subprocess.CalledProcessError):
        return names


def grown(before, after, most=12):
    """Lines for people: the kinds that grew by the most octets."""
    more = {kind: (octets - before.get(kind, (0, 0))[0], count - before.get(kind, (0, 0))[1]) for kind, (octets, count) in after.items()}
    kinds = [kind for kind in sorted(more, key=lambda kind: -more[kind][0])[:most] if more[kind][0] > 0]
    lines = [f"{'more octets':>12} {'more blocks':>12} {'octets each':>12}  of"]
    for kind, name in zip(kinds, named(kinds)):
        lines.append(f"{more[kind][0]:>12} " + (f"{more[kind][1]:>12} {kind[0]:>12}" if kind[0] else " " * 25) + f"  {name[:120]}")
    return lines


def keep(look, path):
    with open(path, "w") as file:
        json.dump([[*kind, *sizes] for kind, sizes in look.items()], file)


def kept(path):
    with open(path) as file:
        return {(size, name, offset): (octets, count) for size, name, offset, octets, count in json.load(file)}


def main():
    parser = argparse.ArgumentParser(prog="year.heap", description="Keeps a look at a process's heap, or compares two.")
    parser.add_argument("first", metavar="PID|FILE")
    parser.add_argument("second", metavar="FILE")
    chosen = parser.parse_args()
    if chosen.first.isdigit():
        keep(look(int(chosen.first)), chosen.second)
    else:
        print("\n".join(grown(kept(chosen.first), kept(chosen.second))))


if __name__ == "__main__":
    main()
