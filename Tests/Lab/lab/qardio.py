"""A QardioArm: a cuff that sends nothing until its host tells it to measure.

Written from what public code of its owners says (LibreArm, offline-qardio-app-ios, qardio), and from nothing of our gateway's. What is
written to it stands in the log as `told`; `inflated` says whether there is air in it, which goes when it is told to stop, when
it has measured, and after a while in any case.
"""
import asyncio
import struct
from dataclasses import dataclass

from bumble import att
from bumble.core import UUID
from bumble.gatt import CharacteristicValue, Descriptor, Service

from .live import Behaviour, LiveMeter
from .meters import READ, WRITE, Properties

CONTROL = "583cb5b3-875d-40ed-9098-c39eb0c1983d"
START, STOP = b"\xf1\x01", b"\xf1\x02"


@dataclass
class Manners(Behaviour):
    pressures: tuple = (20, 80, 140, 170, 150, 120, 90, 60)    # what is in the cuff while it measures, in mmHg
    value_time: float = 0.8         # seconds from one value to the next
    result: str = "1479005000600046000000"   # octets of 2A35; None: it falls silent
    results: int = 1                # how often it sends it
    drop_after_pressures: int = None    # the link is lost then, once


class Cuff(LiveMeter):
    Manners = Manners

    def __init__(self, meter, behaviour, air, clock=None, sent=None):
        super().__init__(meter, behaviour, air, clock, sent)
        self.inflated, self.measuring = False, None

    # ---- the table of attributes

    def services(self):
        for service in super().services():
            if service.uuid != UUID.from_16_bits(0x1810):
                yield service
        values = self.characteristic(0x2A35, Properties.NOTIFY, 0, b"")
        control = self.named(CONTROL, Properties.WRITE | Properties.NOTIFY, WRITE, CharacteristicValue(write=self.on_told))
        for each in (values, control):
            each.descriptors = [Descriptor(
                UUID.from_16_bits(0x2902), READ | WRITE, self.device.gatt_server.make_descriptor_value(each))]
        yield Service(UUID.from_16_bits(0x1810), [values, self.reads(0x2A49, self.meter.feature), control])

    def on_subscription(self, connection, characteristic, notify, indicate):
        """It sends nothing for that."""

    # ---- what it is told

    def on_told(self, connection, value):
        value = bytes(value)
        self.log("told", hex=value.hex())
        if value == START:
            self.end()
            self.inflated = True
            self.measuring = asyncio.ensure_future(self.measure(connection))
        elif value == STOP:
            self.end()
        else:
            raise att.ATT_Error(0x80)

    def end(self):
        self.inflated = False
        if self.measuring is not None:
            self.measuring.cancel()
            self.measuring = None

    async def measure(self, connection):
        behaviour = self.behaviour
        for place, pressure in enumerate(behaviour.pressures):
            await asyncio.sleep(behaviour.value_time)
            if place == behaviour.drop_after_pressures:
                behaviour.drop_after_pressures = None
                self.log("drops")
                self.drop(behaviour.drop_way)
                break
            await self.say(connection, struct.pack("<BHHH", 0, pressure, 0, 0))
        if behaviour.result is None or self.connection is not connection:
            await asyncio.sleep(120)
        else:
            await asyncio.sleep(behaviour.value_time)
            for _ in range(behaviour.results):
                await self.say(connection, bytes.fromhex(behaviour.result))
        self.inflated, self.measuring = False, None

    async def say(self, connection, octets):
        attribute, server = self.characteristics[0x2A35], self.device.gatt_server
        if self.connection is not connection:
            return
        if not server.subscribers.get(connection, {}).get(attribute.handle, b"\0\0")[0] & 1:
            return self.log("not_wanted", characteristic="2a35")
        self.log("sent", characteristic="2a35", hex=octets.hex())
        await server.notify_subscriber(connection, attribute, octets)

    async def begin_anew(self):
        self.end()
        await super().begin_anew()

    # ---- what a test asks

    def act_cuff(self):
        return {"inflated": self.inflated}
