"""The peer: bleak, whose callback decodes the same fields of each record."""
import asyncio
import json
import resource
import struct
from datetime import datetime, timezone

from bleak import BleakClient
from bleak.backends.device import BLEDevice

MEASUREMENT, CONTROL = ("0000%s-0000-1000-8000-00805f9b34fb" % each for each in ("2a18", "2a52"))
DEVICE = "/org/bluez/hci0/dev_C0_00_00_00_18_08"
SPECIAL = {0x07FF, 0x0800, 0x07FE, 0x0802, 0x0801}

count = total = 0


def decode(value):
    flags, sequence, year, month, day, hour, minute, second = struct.unpack_from("<BHHBBBBB", value)
    at, offset, mantissa = 10, 0, 0
    if flags & 0x01:
        (offset,) = struct.unpack_from("<h", value, at)
        at += 2
    if flags & 0x02:
        (raw,) = struct.unpack_from("<H", value, at)
        if raw not in SPECIAL:
            mantissa = raw & 0x0FFF
            if mantissa >= 0x0800:
                mantissa -= 0x1000
    time = int(datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp())
    return sequence, time, offset, mantissa


def received(_, value):
    global count, total
    count += 1
    total += sum(decode(value))


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


async def main():
    over = asyncio.Event()
    device = BLEDevice("C0:00:00:00:18:08", "meter", {"path": DEVICE, "props": {}})
    async with BleakClient(device) as client:
        await client.start_notify(MEASUREMENT, received)
        await client.start_notify(CONTROL, lambda _, value: over.set())
        before = cpu()
        await client.write_gatt_char(CONTROL, b"\x01\x01", response=True)
        await over.wait()
        used = cpu() - before
    print(json.dumps({"count": count, "sum": total, "microseconds": round(used)}))


asyncio.run(main())
