"""Captures of a clinic: the recorded first delivery of a glucose meter, told by as many meters as wanted with as many records."""
import datetime
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "Tests" / "Lab"))
from lab import btsnoop  # noqa: E402

FIXTURE = pathlib.Path(__file__).resolve().parents[2] / "Fixtures" / "glucose-first-delivery.btsnoop"
ADDRESS, NUMBER = bytes.fromhex("0818000000c0"), b"00001808"
BEGIN = datetime.datetime(2024, 1, 1)


def is_record(record):
    """A notification of a glucose measurement with a time offset and a value."""
    body = record.body
    return (record.kind == btsnoop.ACL_IN and len(body) >= 21 and body[8] == 0x1B and body[11] in (0x02, 0x03, 0x0B, 0x13, 0x1B))


def write(path, meters, records):
    """Writes a capture in which each meter tells `records` records more than were recorded.

    - Returns: how many records are in it.
    """
    datalink, recorded = btsnoop.parse(FIXTURE.read_bytes())
    place = next(index for index, each in enumerate(recorded) if is_record(each))
    took = recorded[-1].microseconds - recorded[0].microseconds + 1_000_000
    with open(path, "wb") as file:
        file.write(struct.pack(">8sII", b"btsnoop\0", 1, datalink))

        def put(data, flags, microseconds):
            file.write(struct.pack(">IIIIq", len(data), len(data), flags, 0, microseconds + btsnoop.EPOCH_OFFSET) + data)

        for meter in range(meters):
            # As the emulated bluetoothd names its meters.
            address, number = meter.to_bytes(5, "little") + b"\xc0", b"%08d" % meter
            shift = meter * took
            for index, record in enumerate(recorded):
                put(record.data.replace(ADDRESS, address).replace(NUMBER, number), record.flags, record.microseconds + shift)
                if index != place:
                    continue
                for sequence in range(1000, 1000 + records):
                    body = bytearray(record.body)
                    at = BEGIN + datetime.timedelta(minutes=17 * sequence)
                    struct.pack_into("<HHBBBBB", body, 12, sequence & 0xFFFF, at.year, at.month, at.day, at.hour, at.minute,
                                     at.second)
                    put(record.with_body(bytes(body)).data, record.flags, record.microseconds + shift)
    return meters * (records + sum(is_record(each) for each in recorded))
