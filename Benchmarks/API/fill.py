"""Writes a capture with COUNT glucose records: a recorded delivery, one of whose records comes COUNT times, each with a number
and a time of its own.

  fill.py CAPTURE OUT COUNT
"""
import datetime
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "Tests" / "Lab"))
from lab import btsnoop  # noqa: E402

source, out, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
datalink, records = btsnoop.parse(pathlib.Path(source).read_bytes())
begin = datetime.datetime(2024, 1, 1)


def is_record(record):
    """An ATT notification of at least a glucose measurement's length, with its flags saying time offset and value."""
    body = record.body
    return (record.kind == btsnoop.ACL_IN and len(body) >= 9 + 2 + 10 and body[8] == 0x1B
            and body[11] in (0x02, 0x03, 0x0B, 0x13, 0x1B, 0x07, 0x06))


def clone(record, number):
    body = bytearray(record.body)
    at = begin + datetime.timedelta(minutes=17 * number)
    struct.pack_into("<HHBBBBB", body, 12, number & 0xFFFF, at.year, at.month, at.day, at.hour, at.minute, at.second)
    return record.with_body(bytes(body))


written, copies = [], None
for record in records:
    written.append(record)
    if copies is None and is_record(record):
        copies = [clone(record, number) for number in range(1000, 1000 + count)]
        written += copies
assert copies, "the capture has no record to take"
with open(out, "wb") as file:
    file.write(struct.pack(">8sII", b"btsnoop\0", 1, datalink))
    for record in written:
        size = len(record.data)
        file.write(struct.pack(">IIIIq", size, size, record.flags, 0, record.microseconds + btsnoop.EPOCH_OFFSET))
        file.write(record.data)
