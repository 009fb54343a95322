"""Straps, oximeters, thermometers and scales by the standard services: the emulated devices.

Written from the services' specifications, and from nothing of our gateway's."""
import asyncio
import random
import struct
from dataclasses import dataclass

from bumble.core import UUID
from bumble.gatt import CharacteristicValue

from . import vitals
from .live import Behaviour, LiveMeter
from .meters import READ, WRITE, Properties
from .own import OPEN


@dataclass
class Manners(Behaviour):
    bonds: bool = True              # False: everything is readable without a bond, and none is made
    stores: bool = True             # of an oximeter: spot checks wait until they are asked for
    finger: bool = True             # in the oximeter
    contact: object = True          # of a strap: None if it cannot tell
    wide: bool = False              # of a strap: two octets for a rate that needs one
    sends_intervals: bool = True
    every: float = 1.0              # seconds from one value of a stream to the next


class Sensor(LiveMeter):
    """Sends what it has measured as soon as `MAIN` is enabled, and streams when `STREAM` is."""

    Manners = Manners
    MAIN = STREAM = None

    def __init__(self, meter, behaviour, air, clock=None, sent=None):
        super().__init__(meter, behaviour, air, clock, sent)
        self.flow = None
        behaviour.refuses_pairing |= not behaviour.bonds

    @property
    def access(self):
        return (READ, WRITE) if self.behaviour.bonds else (OPEN, OPEN)

    def own_services(self):
        self.device.gatt_server.on("characteristic_subscription", self.on_subscription)
        yield from ((number, list(characteristics)) for number, characteristics in self.tables())

    def on_subscription(self, connection, characteristic, notify, indicate):
        if not (notify or indicate):
            return
        if characteristic is self.characteristics.get(self.STREAM):
            if self.flow:
                self.flow.cancel()
            self.flow = flow = asyncio.ensure_future(self.stream(connection))
            connection.on("disconnection", lambda reason: flow.cancel())
        busy = self.transfer is not None and not self.transfer.done()
        if characteristic is self.characteristics.get(self.MAIN) and self.sends_at_once() and not busy:
            self.transfer = asyncio.ensure_future(self.send_all(connection))

    def sends_at_once(self):
        return True

    async def stream(self, connection):
        self.log("streams")
        turn = 0
        while self.connection is connection:
            value = self.value(turn)
            if value is not None:
                await self.send(connection, self.STREAM, value)
            turn += 1
            await asyncio.sleep(self.behaviour.every)

    def value(self, turn):
        raise NotImplementedError


class Thermometer(Sensor):
    MAIN = 0x2A1C

    def tables(self):
        yield 0x1809, [self.characteristic(0x2A1C, Properties.INDICATE, 0, b""),
                       self.characteristic(0x2A1E, Properties.NOTIFY, 0, b""),
                       self.reads(0x2A1D, b"\x02")]


class Oximeter(Sensor):
    """Its spot checks are asked for like a meter's records; what it measures now is streamed while a finger is in it."""
    MAIN, STREAM = 0x2A5E, 0x2A5F

    def tables(self):
        table = [self.characteristic(0x2A5E, Properties.INDICATE, 0, b""),
                 self.characteristic(0x2A5F, Properties.NOTIFY, 0, b""),
                 self.reads(0x2A60, struct.pack("<H", 0x0007))]
        if self.behaviour.stores:
            table.append(self.characteristic(0x2A52, Properties.WRITE | Properties.INDICATE, self.access[1],
                                             CharacteristicValue(write=self.on_access_point)))
        yield 0x1822, table

    def sends_at_once(self):
        return not self.behaviour.stores

    def value(self, turn):
        if not self.behaviour.finger:
            return vitals.Saturation("NaN", "NaN", status=("sensor_unconnected_to_user",)).octets_continuous()
        status = ("early_estimated_data",) if turn < 2 else ("validated_data",)
        shown = vitals.Saturation("97", "64", status=status, amplitude="6.8")
        return shown.octets_continuous(fast=("96", "65") if turn % 2 else None)


class Scale(Sensor):
    """Of the two services of a body-composition scale, the composition is sent before its weight."""
    MAIN = 0x2A9D

    def tables(self):
        if self.meter.service == vitals.COMPOSITION_SCALE:
            yield 0x181B, [self.characteristic(0x2A9C, Properties.INDICATE, 0, b""),
                           self.reads(0x2A9B, struct.pack("<I", 0x1F7F))]
        yield 0x181D, [self.characteristic(0x2A9D, Properties.INDICATE, 0, b""),
                       self.reads(0x2A9E, struct.pack("<I", 0x0F))]


class Strap(Sensor):
    """It counts beats whether anybody listens or not, and sends the intervals that ended since it last sent; every tenth
    value says what was expended."""
    STREAM = 0x2A37

    def tables(self):
        self.beats, self.due, self.clock_of_beats, self.energy, self.sent_values = random.Random(37), 0, 0, 0, []
        yield 0x180D, [self.characteristic(0x2A37, Properties.NOTIFY, 0, b""),
                       self.reads(0x2A38, b"\x01"),
                       self.characteristic(0x2A39, Properties.WRITE, self.access[1],
                                           CharacteristicValue(write=self.on_control_point))]

    def on_control_point(self, connection, value):
        self.log("written", hex=bytes(value).hex())

    def value(self, turn):
        manners, intervals = self.behaviour, []
        self.clock_of_beats += round(1024 * manners.every)
        while self.due <= self.clock_of_beats:
            intervals.append(self.beats.randint(780, 900))
            self.due += intervals[-1]
        touches = manners.contact is not False
        rate = round(60 * 1024 * len(intervals) / sum(intervals)) if intervals and touches else 72 if touches else 0
        intervals = intervals if touches and manners.sends_intervals else []
        flags = (0x01 if manners.wide else 0) | (0 if manners.contact is None else 0x06 if touches else 0x04)
        octets = struct.pack("<H" if manners.wide else "<B", rate)
        if turn % 10 == 9:
            flags, self.energy = flags | 0x08, self.energy + 4
            octets += struct.pack("<H", self.energy)
        if intervals:
            flags |= 0x10
            octets += b"".join(struct.pack("<H", each) for each in intervals)
        self.sent_values.append({"bpm": rate, "intervals": intervals, "contact": manners.contact})
        return bytes([flags]) + octets

    def act_sent(self):
        """What it has sent, in human values."""
        return {"values": self.sent_values}


KINDS = {vitals.THERMOMETER: Thermometer, vitals.OXIMETER: Oximeter, vitals.COMPOSITION_SCALE: Scale, vitals.SCALE: Scale,
         vitals.STRAP: Strap}
