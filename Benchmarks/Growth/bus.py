"""The part of D-Bus that the emulated bluetoothd needs: a connection whose messages are written and read by signature.

Values of a signature are Python's: a variant is a pair (signature, value), a dictionary a dict.
"""
import os
import pathlib
import select
import socket
import struct
import subprocess

# As a system bus, it lets a connection have 512 match rules.
RULES = os.environ.get("GROWTH_MATCH_RULES", "512")
CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
  <limit name="max_match_rules_per_connection">{rules}</limit>
</busconfig>
"""
CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
FIXED = {"y": ("B", 1), "n": ("h", 2), "q": ("H", 2), "i": ("i", 4), "u": ("I", 4), "x": ("q", 8), "t": ("Q", 8), "d": ("d", 8)}
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE = range(1, 9)


def start_daemon(folder):
    """Starts a private bus: its process and its address."""
    folder = pathlib.Path(folder)
    (folder / "bus.conf").write_text(CONFIGURATION.format(folder=folder, rules=RULES))
    daemon = subprocess.Popen(["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--print-address=1"],
                              stdout=subprocess.PIPE, text=True)
    return daemon, daemon.stdout.readline().strip()


def first(signature):
    """The first complete type, and the rest."""
    if signature[0] == "a":
        element, rest = first(signature[1:])
        return "a" + element, rest
    if signature[0] in "({":
        depth = 0
        for index, each in enumerate(signature):
            depth += (each in "({") - (each in ")}")
            if depth == 0:
                return signature[:index + 1], signature[index + 1:]
    return signature[0], signature[1:]


def alignment(kind):
    return 8 if kind[0] in "({" else FIXED[kind[0]][1] if kind[0] in FIXED else 1 if kind[0] in "gv" else 4


def pad(out, size):
    out.extend(bytes(-len(out) % size))


def write(out, signature, values):
    """Appends values to a body that begins at an offset of a multiple of eight."""
    for value in values:
        kind, signature = first(signature)
        write_one(out, kind, value)


def write_one(out, kind, value):
    code = kind[0]
    if code in FIXED:
        pad(out, FIXED[code][1])
        out.extend(struct.pack("<" + FIXED[code][0], value))
    elif code == "b":
        pad(out, 4)
        out.extend(struct.pack("<I", bool(value)))
    elif code in "so":
        pad(out, 4)
        octets = value.encode()
        out.extend(struct.pack("<I", len(octets)) + octets + b"\0")
    elif code == "g":
        out.extend(bytes([len(value)]) + value.encode() + b"\0")
    elif code == "v":
        out.extend(bytes([len(value[0])]) + value[0].encode() + b"\0")
        write_one(out, value[0], value[1])
    elif code in "({":
        pad(out, 8)
        write(out, kind[1:-1], value)
    else:
        pad(out, 4)
        place = len(out)
        out.extend(bytes(4))
        pad(out, alignment(kind[1:]))
        begin = len(out)
        if kind == "ay":
            out.extend(bytes(value))
        else:
            for each in (value.items() if kind[1] == "{" else value):
                write_one(out, kind[1:], each)
        struct.pack_into("<I", out, place, len(out) - begin)


def read(data, position, signature):
    """The values of a signature, and where they end."""
    values = []
    while signature:
        kind, signature = first(signature)
        value, position = read_one(data, position, kind)
        values.append(value)
    return values, position


def read_one(data, position, kind):
    code = kind[0]
    size = alignment(kind)
    position += -position % size
    if code in FIXED:
        return struct.unpack_from("<" + FIXED[code][0], data, position)[0], position + FIXED[code][1]
    if code == "b":
        return bool(struct.unpack_from("<I", data, position)[0]), position + 4
    if code in "so":
        length = struct.unpack_from("<I", data, position)[0]
        return data[position + 4:position + 4 + length].decode(), position + 5 + length
    if code == "g":
        length = data[position]
        return data[position + 1:position + 1 + length].decode(), position + 2 + length
    if code == "v":
        inner, position = read_one(data, position, "g")
        value, position = read_one(data, position, inner)
        return (inner, value), position
    if code in "({":
        values, position = read(data, position, kind[1:-1])
        return tuple(values), position
    length = struct.unpack_from("<I", data, position)[0]
    position += 4
    position += -position % alignment(kind[1:])
    end = position + length
    if kind == "ay":
        return bytes(data[position:end]), end
    values = []
    while position < end:
        value, position = read_one(data, position, kind[1:])
        values.append(value)
    return (dict(values) if kind[1] == "{" else values), end


class Connection:
    """A connection to a bus. What is sent waits in a buffer until `flush`."""

    def __init__(self, address):
        path = next(each for each in address.split(":", 1)[1].split(",") if each.startswith("path=")).removeprefix("path=")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.serial, self.out, self.pending = 0, bytearray(), bytearray()
        user = str(os.getuid()).encode().hex()
        self.socket.sendall(f"\0AUTH EXTERNAL {user}\r\n".encode())
        answer = self.socket.recv(1024)
        assert answer.startswith(b"OK"), answer
        self.socket.sendall(b"BEGIN\r\n")
        self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")

    def send(self, kind, fields, signature="", values=(), flags=0):
        """Puts a message into the buffer.

        - Parameter fields: {field: (signature, value)}.
        """
        body = bytearray()
        write(body, signature, values)
        if signature:
            fields = {**fields, SIGNATURE: ("g", signature)}
        self.serial += 1
        header = bytearray(struct.pack("<cBBBII", b"l", kind, flags, 1, len(body), self.serial))
        write_one(header, "a(yv)", list(fields.items()))
        pad(header, 8)
        self.out += header
        self.out += body
        return self.serial

    def flush(self):
        self.socket.sendall(self.out)
        self.out.clear()

    def signal(self, path, interface, member, signature="", *values):
        self.send(SIGNAL, {PATH: ("o", path), INTERFACE: ("s", interface), MEMBER: ("s", member)}, signature, values, flags=1)

    def answer(self, message, signature="", *values):
        self.send(RETURN, {REPLY_SERIAL: ("u", message["serial"]), DESTINATION: ("s", message["fields"][SENDER])},
                  signature, values, flags=1)

    def refuse(self, message, name, text):
        self.send(ERROR, {ERROR_NAME: ("s", name), REPLY_SERIAL: ("u", message["serial"]),
                          DESTINATION: ("s", message["fields"][SENDER])}, "s", (text,), flags=1)

    def call(self, destination, path, interface, member, signature="", *values):
        """Calls a method and waits for its answer; what comes meanwhile is dropped."""
        serial = self.send(CALL, {PATH: ("o", path), INTERFACE: ("s", interface), MEMBER: ("s", member),
                                  DESTINATION: ("s", destination)}, signature, values)
        self.flush()
        while True:
            for message in self.messages(None):
                if message["fields"].get(REPLY_SERIAL) == serial:
                    assert message["kind"] == RETURN, message["body"]
                    return message["body"]

    def messages(self, timeout):
        """What has come, after a wait for it."""
        if not select.select([self.socket], [], [], timeout)[0]:
            return []
        octets = self.socket.recv(1 << 20)
        if not octets:
            raise EOFError("the bus is gone")
        self.pending += octets
        found = []
        while (message := self.parse()):
            found.append(message)
        return found

    def parse(self):
        if len(self.pending) < 16:
            return None
        _, kind, _, _, length, serial, fields = struct.unpack_from("<cBBBIII", self.pending)
        begin = 16 + fields + -fields % 8
        if len(self.pending) < begin + length:
            return None
        data = bytes(self.pending[:begin + length])
        del self.pending[:begin + length]
        found, _ = read_one(data, 12, "a(yv)")
        found = {key: value[1] for key, value in found}
        body, _ = read(data[begin:], 0, found.get(SIGNATURE, ""))
        return {"kind": kind, "serial": serial, "fields": found, "body": body}
