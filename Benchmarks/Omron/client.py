"""The floor: a bare Python client of bluetoothd that reads a whole Omron memory, storing and decoding nothing. It makes the
requests that the gateway makes, in its order and with its pause. `client.py PATH KEY`, where PATH is the bonded device's, with
the lab on PYTHONPATH."""
import asyncio
import os
import sys

from dbus_fast import Variant
from lab.collector import CHARACTERISTIC, DEVICE, Collector
from lab.omron import ANSWERS, KEY, REQUESTS, frame, xor

USERS, COUNT, LENGTH, BLOCK, SETTINGS, CLOCK = (0x02AC, 0x0824), 100, 14, 4, 0x0260, (0x14, 10)
# What the gateway waits after notifications were enabled: without it some monitors do not hear the first request.
PAUSE = 0.75


class Client:
    async def open(self, path):
        self.collector = Collector(os.environ["DBUS_SYSTEM_BUS_ADDRESS"], lambda: None)
        await self.collector.open()
        await self.collector.connect(path)
        self.at = {interfaces[CHARACTERISTIC]["UUID"].value: each
                   for each, interfaces in (await self.collector.objects()).items()
                   if each.startswith(path + "/") and CHARACTERISTIC in interfaces}
        self.channels = [self.at[uuid] for uuid in ANSWERS]
        for each in (*self.channels, self.at[KEY]):
            await self.collector.start_notify(each)
        await asyncio.sleep(PAUSE)

    async def write(self, uuid, octets, kind):
        await self.collector.call(self.at[uuid], CHARACTERISTIC, "WriteValue", "aya{sv}", [octets, {"type": Variant("s", kind)}])

    async def ask(self, request):
        await self.write(REQUESTS[0], request, "command")
        pieces, length = {}, None
        while length is None or len(pieces) < (length + 15) // 16:
            path, piece = await self.collector.value(self.channels, timeout=5)
            pieces[self.channels.index(path)] = piece
            length = pieces[0][0] if 0 in pieces else None
        answer = b"".join(pieces[channel] for channel in range(len(pieces)))[:length]
        assert xor(answer) == 0 and answer[-2] == 0, answer.hex()
        return answer

    async def read_everything(self, key):
        await self.write(KEY, b"\x01" + key, "request")
        _, answer = await self.collector.value([self.at[KEY]])
        assert answer[:2] == b"\x81\x00", answer.hex()
        await self.ask(frame(0x0000, 0, 0x10))
        await self.ask(frame(0x0100, SETTINGS, 16))
        await self.ask(frame(0x0100, SETTINGS + CLOCK[0], CLOCK[1]))
        records = 0
        for user in USERS:
            for last in range(COUNT, 0, -BLOCK):
                first = last - BLOCK
                answer = await self.ask(frame(0x0100, user + first * LENGTH, BLOCK * LENGTH))
                records += (len(answer) - 8) // LENGTH
        await self.ask(frame(0x0F00, 0, 0))
        return records


async def main():
    path, key = sys.argv[1], bytes.fromhex(sys.argv[2])
    client = Client()
    await client.open(path)
    print(await client.read_everything(key))
    for each in (*client.channels, client.at[KEY]):
        await client.collector.call(each, CHARACTERISTIC, "StopNotify")
    await client.collector.call(path, DEVICE, "Disconnect")


asyncio.run(main())
