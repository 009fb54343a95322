"""The peer: bleak finds, pairs and reads one meter, keeping what comes in memory. `bleak_client.py NAME`."""
import asyncio
import json
import resource
import sys
import time

from bleak import BleakClient, BleakScanner

MEASUREMENT, CONTEXT, CONTROL = ("0000%s-0000-1000-8000-00805f9b34fb" % each for each in ("2a18", "2a34", "2a52"))


async def main():
    device = await BleakScanner.find_device_by_name(sys.argv[1], timeout=30)
    async with BleakClient(device) as client:
        await client.pair()
        begun, records, answered = time.monotonic(), [], asyncio.Event()
        await client.start_notify(MEASUREMENT, lambda _, value: records.append(bytes(value)))
        await client.start_notify(CONTEXT, lambda _, value: None)
        await client.start_notify(CONTROL, lambda _, value: answered.set())
        await client.write_gatt_char(CONTROL, b"\x01\x01", response=True)
        await asyncio.wait_for(answered.wait(), 60)
        for each in (MEASUREMENT, CONTEXT, CONTROL):
            await client.stop_notify(each)
        returned = time.monotonic()
    print(json.dumps({"begun": begun, "returned": returned, "disconnecting": 0, "records": len(records),
                      "resident_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


asyncio.run(main())
