"""Meters that do otherwise than the profiles say, as those that people own do: numbering by age, empty records behind
others, subscriptions lost that come too soon, A&D's own commands, OneTouch's own protocol. Each is a field of
live.Behaviour, or the definition's `protocol`."""
import asyncio
import struct
from datetime import datetime

from bumble.core import UUID, AdvertisingData
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service

from . import wire
from .meters import READ, WRITE, Emulation, Properties

ONE_TOUCH = "af9df7a{}-e595-11e3-96b4-0002a5d5c51b"
AND = "233bf00{}-5a34-1b6d-975c-000d5690abe4"
EPOCH = datetime(1999, 12, 31, 23, 59, 59)


def checksum(octets):
    """CRC-16/CCITT-FALSE."""
    value = 0xFFFF
    for octet in octets:
        value ^= octet << 8
        for _ in range(8):
            value = (value << 1 ^ 0x1021 if value & 0x8000 else value << 1) & 0xFFFF
    return value


def framed(payload):
    body = bytes([2, len(payload) + 7, 0, 3]) + payload + b"\x03"
    return b"\x01" + body + struct.pack("<H", checksum(body))


class Oddities(Emulation):
    """What a live meter does by its behaviour or its protocol."""

    def advertisement(self):
        """OneTouch's service is not advertised."""
        if self.meter.protocol != "onetouch":
            return super().advertisement()
        return bytes(AdvertisingData([(AdvertisingData.FLAGS, b"\x06"),
                                      (AdvertisingData.COMPLETE_LOCAL_NAME, self.meter.name.encode())]))

    # ---- the table of attributes

    def named(self, uuid, properties, permissions, value):
        made = Characteristic(UUID(uuid), properties, permissions, value)
        self.characteristics[uuid] = made
        return made

    def services(self):
        if self.meter.protocol == "onetouch":
            yield from self.one_touch_services()
            return
        for service in super().services():
            if self.meter.protocol == "and" and service.uuid == UUID.from_16_bits(0x1805):
                continue                       # its clock stands in its own service
            if self.meter.protocol == "and" and service.uuid == UUID.from_16_bits(0x1810):
                service.characteristics.append(self.characteristic(
                    0x2A08, Properties.READ | Properties.WRITE, READ | WRITE,
                    CharacteristicValue(read=self.on_date_read, write=self.on_date_written)))
            yield service
        if self.meter.protocol == "and":
            yield Service(UUID(AND.format(0)), [self.named(
                AND.format(1), Properties.WRITE, WRITE, CharacteristicValue(write=self.on_command))])

    def one_touch_services(self):
        serial = self.reads(0x2A25, (self.meter.serial or "").encode())
        yield Service(UUID.from_16_bits(0x180A), [serial])
        questions = self.named(ONE_TOUCH.format(2), Properties.WRITE_WITHOUT_RESPONSE | Properties.WRITE, WRITE,
                               CharacteristicValue(write=self.on_question))
        answers = self.named(ONE_TOUCH.format(3), Properties.NOTIFY, 0, b"")
        answers.descriptors = [Descriptor(UUID.from_16_bits(0x2902), READ | WRITE,
                                          self.device.gatt_server.make_descriptor_value(answers))]
        yield Service(UUID(ONE_TOUCH.format(1)), [questions, answers])

    # ---- OneTouch

    def on_question(self, connection, value):
        self.log("asked", hex=bytes(value).hex())
        asyncio.ensure_future(self.answer_question(connection, bytes(value)))

    async def answer_question(self, connection, value):
        if value == b"\x81":
            return
        answers, server = self.characteristics[ONE_TOUCH.format(3)], self.device.gatt_server
        replies = [b"\x81"]
        if value[:2] != b"\x01\x02" or len(value) < 8 or framed(value[5:-3]) != value:
            replies.append(framed(b"\x09"))
        else:
            replies.append(framed(self.one_touch_answer(value[5:-3])))
        record = self.one_touch_record(value[5:-3])
        for reply in replies:
            self.note(0x1B, ONE_TOUCH.format(3), reply, record if len(reply) > 1 else None)
            await server.notify_subscriber(connection, answers, reply)

    def one_touch_record(self, question):
        """The record that a question is about."""
        if question[:1] != b"\xb3" or len(question) != 3:
            return None
        return next((each for each in self.meter.records if each.sequence == struct.unpack("<H", question[1:])[0]), None)

    def one_touch_answer(self, question):
        records = self.meter.records
        seconds = lambda moment: int((moment - EPOCH).total_seconds())
        if question == b"\x20\x02":
            shown = self.clock(self.meter.clock or 0)
            answer = b"\x06" + struct.pack("<I", seconds(shown))
            self.meter.shown[framed(answer)] = shown
            return answer
        if question[:2] == b"\x20\x01" and len(question) == 6:
            shown = struct.unpack("<I", question[2:])[0]
            self.meter.clock = shown - seconds(self.clock(0))
            self.log("clock_set")
            return b"\x06"
        if question == b"\x0a\x02\x06":
            return b"\x06" + struct.pack("<I", records[-1].sequence if records else 0)
        if question == b"\x27\x00":
            return b"\x06" + struct.pack("<H", len(records))
        if question[:1] == b"\xb3" and len(question) == 3:
            number = struct.unpack("<H", question[1:])[0]
            for each in records:
                if each.sequence == number:
                    self.log("sent", characteristic="a3", record=self.name_of(each))
                    control = each.type == "control_solution"
                    return b"\x06" + struct.pack("<IHB4x", seconds(each.base), int(float(each.value)), control)
            return b"\x08"
        return b"\x09"

    # ---- A&D

    def on_date_read(self, connection):
        shown = self.clock(self.meter.clock or 0)
        octets = wire.date_time(shown)
        self.meter.shown[octets] = shown
        self.note(0x0B, 0x2A08, octets)
        return octets

    def on_date_written(self, connection, value):
        self.log("clock_set", hex=bytes(value).hex())
        year, *rest = struct.unpack("<HBBBBB", bytes(value))
        self.meter.clock = round((datetime(year, *rest) - self.clock(0)).total_seconds())

    def on_command(self, connection, value):
        self.log("command", hex=bytes(value).hex())
        if bytes(value[:3]) == b"\x02\x00\xe1":
            self.meter.records[:] = list(self.ever)

    # ---- records

    def numbered(self, records):
        """By age, where the meter numbers so: the newest is 0."""
        if self.behaviour.numbers_by_age:
            for age, record in enumerate(reversed(self.meter.records)):
                record.sequence = age
        return records

    async def send_partner(self, connection):
        """The empty record behind another."""
        if self.behaviour.empty_partners:
            await self.send(connection, 0x2A18, b"\x00\xff\xff" + bytes(7))
