"""What a disk may hold after a power cut, from the log that `faulty.c` records.

The model is the harshest that POSIX allows. Writes are on the disk once the file was synchronised. Of the writes since
then each 512-byte sector may be there or not, in any combination, and the file may have grown without its data. A name
that was made, replaced or removed is certain once its directory was synchronised. Of the changes since then any may be
there. A rename is one step: a file always has one of its names.
"""
import os
import struct

HEAD = struct.Struct("<cIQI")
SECTOR = 512
# What survives of the changes since the last synchronisation.
KINDS = ("nothing", "names", "data", "prefix", "sectors", "everything")


class Node:
    """A file's or directory's content: what is durable, and the changes since."""

    def __init__(self, content=b"", is_directory=False):
        self.durable = content
        self.pending = []
        self.is_directory = is_directory

    def synchronise(self):
        self.durable = apply(self.durable, self.pending)
        self.pending = []


def apply(content, changes):
    content = bytearray(content)
    for offset, data in changes:
        if data is None:
            content = content[:offset].ljust(offset, b"\0")
            continue
        if len(content) < offset:
            content = content.ljust(offset, b"\0")
        content[offset:offset + len(data)] = data
    return bytes(content)


def read_log(path):
    """The entries of a log: (kind, opening, number, data)."""
    with open(path, "rb") as file:
        octets = file.read()
    entries, at = [], 0
    while at < len(octets):
        kind, opening, number, length = HEAD.unpack_from(octets, at)
        at += HEAD.size
        entries.append((kind.decode(), opening, number, octets[at:at + length]))
        at += length
    return entries


def tree(root):
    """The files and directories below a folder, by path."""
    found = {}
    for folder, names, files in os.walk(root):
        for name in names:
            found[os.path.join(folder, name)] = None
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = file.read()
    return found


class Disk:
    """A disk that follows a log, entry by entry."""

    def __init__(self, root, before):
        self.root = root
        self.names = {path: Node(content or b"", content is None) for path, content in before.items()}
        self.names[root] = Node(is_directory=True)
        self.durable_names = dict(self.names)
        self.pending_names = []
        self.openings = {}
        self.said = {1: b"", 2: b""}

    def tell(self, entry):
        kind, opening, number, data = entry
        if kind == "p":
            self.said[opening] += data
        elif kind in "oc":
            self.open(data[:-1].decode(), opening, kind == "c", number == 1)
        elif kind in "wt":
            self.openings[opening].pending.append((number, data if kind == "w" else None))
        elif kind == "s":
            self.synchronise(self.openings[opening])
        elif kind == "m":
            self.change([(data[:-1].decode(), Node(is_directory=True))])
        elif kind == "u":
            self.change([(data[:-1].decode(), None)])
        elif kind == "r":
            first, second = (path.decode() for path in data[:-1].split(b"\0"))
            if self.names[first].is_directory:
                raise ValueError(f"the model knows no renaming of directories: {first}")
            self.change([(second, self.names[first]), (first, None)])

    def open(self, path, opening, is_new, truncates):
        if is_new:
            self.change([(path, Node())])
        node = self.openings[opening] = self.names[path]
        node.path = path
        if truncates and not is_new:
            node.pending.append((0, None))

    def change(self, steps):
        for path, node in steps:
            self.set(self.names, path, node)
        self.pending_names.append(steps)

    @staticmethod
    def set(names, path, node):
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node

    def synchronise(self, node):
        if not node.is_directory:
            return node.synchronise()
        rest = []
        for steps in self.pending_names:
            if any(os.path.dirname(path) == node.path for path, _ in steps):
                for path, child in steps:
                    self.set(self.durable_names, path, child)
            else:
                rest.append(steps)
        self.pending_names = rest

    def image(self, kind, random, in_flight=None):
        """The files after a cut: {path: content}, None for a directory.

        in_flight: the entry that was under way; if it is a write, some of its sectors may be there.
        """
        names = dict(self.durable_names)
        share = random.random()
        kept = {"nothing": 0, "data": 0, "names": 1, "everything": 1, "prefix": share, "sectors": share}[kind]
        changes = self.pending_names
        if kind == "prefix":
            changes = changes[:random.randint(0, len(changes))]
            kept = 1
        for steps in changes:
            if random.random() < kept:
                for path, node in steps:
                    self.set(names, path, node)
        torn = None
        if in_flight and in_flight[0] == "w" and kind != "nothing":
            torn = (self.openings[in_flight[1]], (in_flight[2], in_flight[3]))
        files = {}
        for path in sorted(names):
            # A file is gone with the name of its directory.
            if path != self.root and os.path.dirname(path) not in files:
                continue
            node = names[path]
            if node.is_directory:
                files[path] = None
            elif path.endswith("-shm"):
                # Shared memory is written without a call, so anything may be there. It must not matter.
                files[path] = random.choice([b"", bytes(32768), random.randbytes(32768)])
            else:
                pending = node.pending + ([torn[1]] if torn and torn[0] is node else [])
                files[path] = survived(node.durable, pending, kind, share, random)
        return files


def survived(durable, pending, kind, share, random):
    if kind in ("nothing", "names") or not pending:
        return durable
    if kind in ("data", "everything"):
        return apply(durable, pending)
    if kind == "prefix":
        return apply(durable, pending[:random.randint(0, len(pending))])
    changes, longest = [], len(durable)
    for offset, data in pending:
        if data is None:
            if random.random() < share:
                changes.append((offset, None))
            continue
        longest = max(longest, offset + len(data))
        start = offset
        while start < offset + len(data):
            end = min((start // SECTOR + 1) * SECTOR, offset + len(data))
            if random.random() < share:
                changes.append((start, data[start - offset:end - offset]))
            start = end
    content = apply(durable, changes)
    if len(content) < longest and random.random() < 0.3:
        content = content.ljust(longest, b"\0")
    return content


def make(files, root, place):
    """Writes an image of one folder into another."""
    for path, content in files.items():
        path = place + path[len(root):]
        if content is None:
            os.makedirs(path, 0o700, exist_ok=True)
        else:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
