"""The floor: a bare Python client of bluetoothd that pairs and reads one meter, storing and decoding nothing.
`client.py NAME`, with the lab on PYTHONPATH; prints the same line as read-benchmark."""
import asyncio
import json
import os
import resource
import sys
import time

from lab.collector import CHARACTERISTIC, DEVICE, Collector


async def main():
    collector = Collector(os.environ["DBUS_SYSTEM_BUS_ADDRESS"], lambda: None)
    await collector.open()
    path = await collector.find(sys.argv[1])
    await collector.pair(path)
    await collector.call(path, DEVICE, "Disconnect")
    while await collector.get(path, DEVICE, "Connected"):
        await asyncio.sleep(0.1)
    begun = time.monotonic()
    await collector.connect(path)
    found = await collector.characteristics(path)
    measurement, context, control = (found[number] for number in (0x2A18, 0x2A34, 0x2A52))
    for each in (measurement, context, control):
        await collector.start_notify(each)
    await collector.request(control, b"\x01\x01")
    records = 0
    while True:
        source, _ = await collector.value((measurement, control))
        if source == control:
            break
        records += 1
    for each in (measurement, context, control):
        await collector.call(each, CHARACTERISTIC, "StopNotify")
    returned = time.monotonic()
    await collector.call(path, DEVICE, "Disconnect")
    print(json.dumps({"begun": begun, "returned": returned, "disconnecting": 0, "records": records,
                      "resident_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


asyncio.run(main())
