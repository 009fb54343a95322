#!/usr/bin/env python3
"""Says what makes a release of the gateway large: by its sections, and by the symbols that the linker leaves in them.

  executable.py HEALTHRELAY

Code of generic types of the standard library that is specialised for another module counts as the standard library's.
"""
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from bars import Bars  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEGABYTE = 1_000_000
# Half of what code and read-only data were beside ICU's data when this was first asked.
BAR = 12
# Swift's own modules whose names begin with no underscore.
SWIFT = {"Swift", "Foundation", "FoundationEssentials", "FoundationInternationalization", "CoreFoundation", "Dispatch",
         "Synchronization"}


def words(*command):
    return [line.split() for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]


def sections(path):
    """The sizes of what is loaded, by section."""
    loaded = [each for each in words("size", "-A", "-d", path) if len(each) == 3 and each[2].isdigit() and each[2] != "0"]
    return {name: int(size) for name, size, _ in loaded if name not in (".bss", ".tbss")}


def origin(symbol):
    """The module that a symbol is of, or what else brings it; None where its name doesn't say."""
    if swift := re.match(r"\$s(\d+)(.*)", symbol):
        return swift[2][:int(swift[1])]
    if boring := re.search("CNIOBoringSSL|CCryptoBoringSSL", symbol):
        return boring[0]
    if re.search(r"icu|_7\d(_|$)|^_?_?CF|^\$s|swift|dispatch", symbol):
        return "Swift"
    return None


def code(path):
    """The sizes of functions, by what brings them."""
    found, seen = collections.Counter(), set()
    for each in words("nm", "-S", "--defined-only", path):
        if len(each) == 4 and each[2] in "tTwW" and each[0] not in seen:
            seen.add(each[0])
            found[origin(each[3])] += int(each[1], 16)
    return found


def is_swifts(name):
    return name is None or name in SWIFT or name.startswith("_") and not name.startswith(("_NIO", "_Crypto"))


def main():
    path = sys.argv[1]
    own = {each.name for each in (ROOT / "Sources").iterdir()}
    sizes, functions = sections(path), code(path)
    if not functions:
        sys.exit(f"{path} has no symbols: it needs an executable that wasn't stripped")
    icu = next((int(each[1], 16) for each in words("nm", "-S", path) if len(each) == 4 and each[3].startswith("icudt")), 0)

    def total(pattern):
        return sum(size for name, size in sizes.items() if re.match(pattern, name))

    groups = {"the gateway": collections.Counter(), "packages": collections.Counter(), "Swift": collections.Counter()}
    for name, size in functions.items():
        groups["the gateway" if name in own else "Swift" if is_swifts(name) else "packages"][name or "C"] += size
    print("| part | MB |\n|---|---|")

    def row(part, size):
        print(f"| {part} | {size / MEGABYTE:.1f} |")

    row("ICU's data", icu)
    code_size = total(r"\.text")
    row("code", code_size)
    for group, found in groups.items():
        most = ", ".join(f"{name} {size / MEGABYTE:.1f}" for name, size in found.most_common(6))
        row(f"– of {group}: {most}", found.total())
    row("– between functions, and functions without a name", code_size - functions.total())
    row("tables by which the stack is unwound", total(r"\.eh_frame|\.gcc_except"))
    row("other read-only data", total(r"\.rodata") - icu)
    row("what Swift knows of types at run time", total(r"\.?swift"))
    row("constants that the loader relocates, and variables", total(r"\.data|\.got|\.cfstr"))
    row("everything that is loaded", sum(sizes.values()))
    chosen = (groups["the gateway"].total() + groups["packages"].total()) / MEGABYTE
    bars = Bars("executable")
    bars.add("the executable: code of the gateway and of packages", "–", f"{chosen:.1f} MB", "all that is loaded: "
             f"{sum(sizes.values()) / MEGABYTE:.1f} MB, ICU's data {icu / MEGABYTE:.1f}", bar=BAR, unit=" MB", value=chosen)
    bars.leave()
    print(f"code of the gateway and of packages: {chosen:.1f} MB, bar {BAR}: {'kept' if chosen <= BAR else 'not kept'}")


main()
