"""Omron's own protocol: a cuff whose memory its host reads in frames.

Written from what owners of such cuffs have logged and published (omblepy, hass-omron), and from nothing of our gateway's:
what both understand alike is in the octets, not in shared code. It can be written to, as a real one: that the gateway never
does so shows in the log and in the memory's hash.
"""
import asyncio
import hashlib
import struct
import time
from dataclasses import dataclass, field

from bumble import att
from bumble.core import UUID, AdvertisingData
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service

from .live import Behaviour, LiveMeter
from .meters import READ, WRITE, Properties

TAIL = "-0002a5d5c51b"
KEY_SERVICE, BOND_SERVICE = "ecbe3980-c9a2-11e1-b1bd" + TAIL, "0000fe4a-0000-1000-8000-00805f9b34fb"
REQUESTS = [each + TAIL for each in ("db5b55e0-aee7-11e1-965e", "e0b8a060-aee7-11e1-92f4", "0ae12b00-aee8-11e1-a192",
                                     "10e1ba60-aee8-11e1-89e5")]
ANSWERS = [each + TAIL for each in ("49123040-aee8-11e1-a74d", "4d0bf320-aee8-11e1-a0d9", "5128ce60-aee8-11e1-b84b",
                                    "560f1420-aee8-11e1-8184")]
KEY = "b305b680-aee7-11e1-a730" + TAIL
COMPANY = 0x020E
NONE, WRAPPED = 0x8000, 0x4000
# Anybody may write there; what a link without encryption is worth is the cuff's own affair.
OPEN = att.Attribute.READABLE | att.Attribute.WRITEABLE


@dataclass(frozen=True)
class Layout:
    """Where things stand in the memory of a model."""
    stack: str                      # "key": four channels; "bond", "token": one
    order: str                      # of the octets of a word: "big", "little"
    length: int                     # of a record
    users: tuple                    # where each user's records begin
    count: int                      # slots of each user
    settings: int
    clock: tuple = (0x2C, 0x3C)     # from the settings
    longest: int = 0x38             # more octets in one read are refused
    has_time_service: bool = False  # 2A2B, whose writing is refused


LAYOUTS = {
    "7322T": Layout("key", "big", 14, (0x02AC, 0x0824), 100, 0x0260, (0x14, 0x1E)),
    "6161T": Layout("key", "big", 14, (0x02E8,), 30, 0x0260),
    "7361T": Layout("key", "little", 16, (0x0098, 0x06D8), 100, 0x0010, longest=0x10),
    "7143T1": Layout("bond", "little", 14, (0x02E8,), 30, 0x0260),
    "7140T1": Layout("token", "little", 14, (0x02E8,), 14, 0x0260),
    "7155T-MW3": Layout("token", "little", 16, (0x02E8, 0x06A8), 60, 0x0260, has_time_service=True),
    "7380T1": Layout("token", "little", 16, (0x01C4, 0x0804), 100, 0x0010),
}


@dataclass
class Manners(Behaviour):
    """What may go wrong. Faults of the transfer are a list, each happens once: `{"read": the how-manieth read of a
    connection, "what": ...}`, where what is `lost` (the chunk `chunk` stays away), `wrong` (an octet of the data is another),
    `silent`, `late` (the answer to the read before comes first), `twice`, `cut` (the link is lost in the middle of the
    answer), `refused` (with `code`), `reversed` (the chunks come in reverse order)."""
    pairing_mode: bool = True       # until the next disconnect; also when its button is held
    unencrypted_answers: int = 0    # so many times it says that the link is not encrypted, though it is
    faults: list = field(default_factory=list)
    refused: dict = field(default_factory=dict)     # addresses in hexadecimal → code, for good
    half_written: bool = False      # the end of its newest record is not there yet
    stops_later_links: bool = False # ends each link but the one on which it was bonded
    settles: float = 0.0            # seconds after notifications were enabled in which it hears nothing
    answer_time: float = 0.0        # seconds from a request to its answer
    chunk_time: float = 0.0         # seconds between the chunks of an answer


@dataclass
class Shown:
    """Records that leave it in one message."""
    records: list


def words(values, order):
    return struct.pack((">" if order == "big" else "<") + f"{len(values)}H", *values)


def record(pressure, layout, number):
    """A measurement as it stands in the memory."""
    status, at = set(pressure.status or ()), pressure.at
    second = pressure.second_in_memory if pressure.second_in_memory is not None else at.second
    position = 1 if "improper_position" in status else 0
    values = [
        int(pressure.diastolic) << 8 | int(pressure.systolic) - 25,
        at.year - 2000 << 8 | int(pressure.pulse or 0),
        ("body_movement" in status) << 15 | ("irregular_pulse" in status) << 14 | at.month << 10 | at.day << 5 | at.hour,
        position << 14 | pressure.unknown_bit << 13 | ("cuff_too_loose" not in status) << 12
        | at.minute << 6 | second,
        0x0280 if "irregular_pulse" in status else 0x0080, number & 0xFFFF]
    values += [0] * (layout.length // 2 - 1 - len(values))
    body = words(values, layout.order)
    return body + words([(sum(body) & 0xFF ^ 0xFF) << 8 | sum(body) & 0xFF], layout.order)


def frame(kind, address, count, data=b"", status=0):
    body = bytes([len(data) + 8]) + struct.pack(">HHB", kind, address, count) + data + bytes([status])
    return body + bytes([xor(body)])


def xor(octets):
    value = 0
    for octet in octets:
        value ^= octet
    return value


class Monitor(LiveMeter):
    """A cuff of a test. Its records are in `memory`; `meter.records` are those that still stand there."""

    Manners = Manners

    def __init__(self, meter, behaviour, air, clock=None, sent=None):
        self.layout = LAYOUTS[meter.layout]
        super().__init__(meter, behaviour, air, clock, sent)
        records, self.ever, self.key = list(meter.records), [], None
        self.erase()
        self.add(records)
        self.forget_session()

    def forget_session(self):
        self.is_open, self.is_unlocked, self.read_count, self.last_answer = False, False, 0, None
        self.configured_at, self.answering, self.is_programming = 0.0, None, False

    # ---- its memory

    def erase(self):
        """As it was new; records that its owner saw go with it."""
        self.memory, self.numbers = bytearray(b"\xff" * 0x10000), [0] * len(self.layout.users)
        self.meter.records[:] = []
        self.slots = [[None] * self.layout.count for _ in self.layout.users]
        self.put(self.layout.settings, words([NONE] * 4 + [0] * 4, self.layout.order))

    def put(self, address, octets):
        self.memory[address:address + len(octets)] = octets

    def word(self, place):
        at = self.layout.settings + 2 * place
        return struct.unpack((">" if self.layout.order == "big" else "<") + "H", self.memory[at:at + 2])[0]

    def set_word(self, place, value):
        self.put(self.layout.settings + 2 * place, words([value], self.layout.order))

    def add(self, records):
        """It measures: the next slot of whoever measures, where the oldest record goes when all are used."""
        for each in records:
            user = (each.user or 1) - 1
            number, layout = self.numbers[user], self.layout
            slot = number % layout.count
            self.put(layout.users[user] + slot * layout.length, record(each, layout, number + 1))
            if self.slots[user][slot] is not None:
                old = self.slots[user][slot]
                self.meter.records[:] = [held for held in self.meter.records if held is not old]
            self.slots[user][slot] = each
            self.numbers[user] = number + 1
            # Where each user's next record is written, then what Omron's own app has not fetched of each user.
            self.set_word(user, (slot + 1) % layout.count | (WRAPPED if number + 1 >= layout.count else 0))
            unread = self.word(2 + user)
            self.set_word(2 + user, min((0 if unread & NONE else unread) + 1, layout.count))
            if layout.stack != "key" and user == 0:
                self.set_word(4, number + 1)    # the newest record's own number
            self.meter.records.append(each)
            self.ever.append(each)

    def tick(self):
        """The clock's octets, as they stand there now: words before their sum in the model's order."""
        start, end = self.layout.clock
        self.ticked = now = self.clock(self.meter.clock or 0)
        six = [now.month << 8 | now.year - 2000, now.hour << 8 | now.day, now.second << 8 | now.minute]
        before = b"\xc8\xa8".ljust(end - start - 8, b"\0")
        body = before + words(six, self.layout.order)
        self.put(self.layout.settings + start, body + words([sum(body) & 0xFF], self.layout.order))

    def digest(self):
        """Of everything but the clock."""
        start, end = (self.layout.settings + each for each in self.layout.clock)
        return hashlib.sha256(self.memory[:start] + self.memory[end:]).hexdigest()

    def seen(self, address, count):
        """What a read shows."""
        self.tick()
        shown = bytearray(self.memory)
        if self.behaviour.half_written and self.meter.records:
            newest = self.meter.records[-1]
            for user, slots in enumerate(self.slots):
                for slot, each in enumerate(slots):
                    if each is newest:
                        at, half = self.layout.users[user] + slot * self.layout.length, self.layout.length // 2
                        shown[at + half:at + self.layout.length] = b"\xff" * (self.layout.length - half)
        return bytes(shown[address:address + count])

    # ---- the device

    def advertisement(self):
        if self.behaviour.advertising_data is not None:
            return bytes.fromhex(self.behaviour.advertising_data)
        return bytes(AdvertisingData([
            (AdvertisingData.FLAGS, b"\x06"),
            (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, struct.pack("<H", 0x1810)),
            (AdvertisingData.COMPLETE_LOCAL_NAME, self.meter.name.encode())]))

    def scan_response(self):
        """Beside the name: whether it is in its pairing mode, and the number of each user's newest measurement."""
        status = len(self.layout.users) - 1 | (8 if self.behaviour.pairing_mode else 0)
        news = b"".join(struct.pack("<HB", number & 0xFFFF, min(number, self.layout.count)) for number in self.numbers)
        return bytes(AdvertisingData([(
            AdvertisingData.MANUFACTURER_SPECIFIC_DATA, struct.pack("<HBB", COMPANY, 1, status) + news)]))

    async def advertise(self, restarts=False):
        self.air.controller.scan_responses[str(self.device.random_address)] = self.scan_response()
        await super().advertise(restarts)

    def on_connection(self, connection):
        super().on_connection(connection)
        self.forget_session()
        self.may_stay = not self.behaviour.stops_later_links

        def ended(reason):
            if self.is_open:
                self.log("error_shown")
            if self.answering:
                self.answering.cancel()
            self.behaviour.pairing_mode = False

        connection.on("disconnection", ended)

    def log(self, event, **more):
        if event == "pairing_asked":
            self.may_stay = True               # the link on which it is bonded
        super().log(event, **more)

    def on_encryption(self, connection):
        super().on_encryption(connection)
        if self.behaviour.stops_later_links:
            asyncio.ensure_future(self.leave(connection))

    async def leave(self, connection):
        """Some end each link but that of their pairing as soon as it is encrypted."""
        await asyncio.sleep(0.02)
        if not self.may_stay and self.connection is connection:
            self.log("stops_link")
            await connection.disconnect()

    # ---- the table of attributes

    def services(self):
        for service in super().services():
            if service.uuid == UUID.from_16_bits(0x1805) and not self.layout.has_time_service:
                continue
            yield service
        layout, count = self.layout, 4 if self.layout.stack == "key" else 1
        needs = OPEN if layout.stack == "key" else READ | WRITE

        def requests(uuid, channel):
            return self.named(uuid, Properties.WRITE_WITHOUT_RESPONSE | Properties.WRITE, needs,
                              CharacteristicValue(write=lambda connection, value: self.on_request(connection, channel, value)))

        def notifying(made):
            made.descriptors = [Descriptor(UUID.from_16_bits(0x2902), needs,
                                           self.device.gatt_server.make_descriptor_value(made))]
            return made

        own = [requests(uuid, channel) for channel, uuid in enumerate(REQUESTS[:count])]
        own += [notifying(self.named(uuid, Properties.NOTIFY, 0, b"")) for uuid in ANSWERS[:count]]
        if layout.stack != "bond":
            own.append(notifying(self.named(KEY, Properties.WRITE | Properties.NOTIFY, needs,
                                            CharacteristicValue(write=self.on_key))))
        yield Service(UUID(KEY_SERVICE if layout.stack == "key" else BOND_SERVICE), own)

    def on_subscription(self, connection, characteristic, notify, indicate):
        own = {self.characteristics[uuid] for uuid in (*ANSWERS, KEY) if uuid in self.characteristics}
        if characteristic in own:
            self.configured_at = time.monotonic()
            if notify and not connection.is_encrypted:
                connection.request_pairing()
        elif characteristic is self.characteristics[0x2A35] and indicate and self.meter.records:
            # By the standard service only the newest.
            self.transfer = asyncio.ensure_future(self.send_records(connection, self.meter.records[-1:]))

    # ---- the key

    def on_key(self, connection, value):
        value = bytes(value)
        self.log("key_written", hex=value.hex())
        asyncio.ensure_future(self.notify(connection, KEY, self.key_answer(connection, value)))

    def key_answer(self, connection, value):
        if self.layout.stack == "token":
            self.is_unlocked = len(value) == 20 and value[0] == 0x11
            return b"\x91\x00" + value[1:5] if self.is_unlocked else b"\0\0"
        if len(value) != 17:
            return b"\0\0"
        if value[0] == 2:
            if self.behaviour.unencrypted_answers > 0:
                self.behaviour.unencrypted_answers -= 1
                return b"\x82\x0f"
            self.is_programming = connection.is_encrypted and self.behaviour.pairing_mode
            return b"\x82\x00" if self.is_programming else b"\x82\x0f"
        if value[0] == 0:
            if not self.is_programming:
                return b"\x80\x0f"
            self.key, self.is_unlocked = value[1:], True
            return b"\x80\x00"
        if value[0] == 1:
            self.is_unlocked = self.key is not None and value[1:] == self.key
            return b"\x81\x00" if self.is_unlocked else b"\x81\x04"
        return b"\0\0"

    # ---- requests

    def on_request(self, connection, channel, value):
        value = bytes(value)
        self.log("asked", hex=value.hex(), channel=channel)
        if self.answering and not self.answering.done():
            return self.log("not_heard")
        if time.monotonic() - self.configured_at < self.behaviour.settles:
            return self.log("too_soon")
        if channel == 0:
            self.answering = asyncio.ensure_future(self.respond(connection, value))

    async def respond(self, connection, value):
        if len(value) < 8 or value[0] > len(value) or xor(value[:value[0]]):
            return
        kind, address, count = struct.unpack(">HHB", value[1:6])
        if self.layout.stack != "bond" and not self.is_unlocked:
            return self.log("locked")
        await asyncio.sleep(self.behaviour.answer_time)
        if kind == 0x0000:
            self.is_open = True
            about = bytes.fromhex("00000094041311020778" + "5a00ffff954d") if self.layout.stack == "key" else b""
            await self.send_frame(connection, frame(0x8000, 0, len(about), about))
        elif kind == 0x0F00:
            self.is_open = False
            await self.send_frame(connection, frame(0x8F00, 0, 0))
        elif not self.is_open:
            await self.send_frame(connection, frame(0x8F00, 0, 0, status=3))
        elif kind == 0x01C0:
            self.put(address, value[6:6 + count])
            await self.send_frame(connection, frame(0x81C0, address, count, value[6:6 + count]))
        elif kind == 0x0100:
            await self.answer_read(connection, address, count)
        else:
            await self.send_frame(connection, frame(0x8F00, 0, 0, status=3))

    def records_in(self, address, count):
        """Those that a read shows, in the order of their slots."""
        length = self.layout.length
        return [each for user, slots in zip(self.layout.users, self.slots) for slot, each in enumerate(slots)
                if each is not None and address <= user + slot * length and user + (slot + 1) * length <= address + count]

    def note_clock(self, address, answer):
        """What its clock showed goes with the first octets that say so."""
        if address == self.layout.settings + self.layout.clock[0]:
            self.meter.shown[answer[:16] if self.layout.stack == "key" else answer] = self.ticked

    def fault(self):
        """What goes wrong with this read; it does only once."""
        for each in self.behaviour.faults:
            if each["read"] == self.read_count:
                self.behaviour.faults.remove(each)
                self.log("fault", what=each["what"])
                return each
        return {"what": None}

    async def answer_read(self, connection, address, count):
        self.read_count += 1
        fault = self.fault()
        code = self.behaviour.refused.get(f"{address:04x}")
        code = code if code is not None else fault.get("code", 0xE3) if fault["what"] == "refused" else None
        if code is None and count > self.layout.longest:
            code = 0xE3
        answer = frame(0x8100, address, count, status=code) if code is not None else frame(
            0x8100, address, count, self.seen(address, count))
        before, self.last_answer = self.last_answer, answer
        if fault["what"] == "silent":
            return
        if fault["what"] == "late" and before:
            await self.send_frame(connection, before)
        if fault["what"] == "wrong":
            answer = answer[:9] + bytes([answer[9] ^ 0x10]) + answer[10:]
        shown = self.records_in(address, count) if code is None else []
        self.note_clock(address, answer)
        await self.send_frame(connection, answer, fault, Shown(shown) if shown else None)
        if fault["what"] == "twice":
            await self.send_frame(connection, answer)

    async def send_frame(self, connection, octets, fault={"what": None}, shown=None):
        """`shown`: the records in it."""
        if self.layout.stack != "key":
            if fault["what"] == "lost":
                return
            if fault["what"] == "cut":
                return self.cut()
            return await self.notify(connection, ANSWERS[0], octets, shown)
        octets += bytes(-len(octets) % 16)
        chunks = [(channel, octets[16 * channel:16 * channel + 16]) for channel in range(len(octets) // 16)]
        if fault["what"] == "reversed":
            chunks.reverse()
        for place, (channel, chunk) in enumerate(chunks):
            if fault["what"] == "cut" and place == 1:
                return self.cut()
            if place:
                await asyncio.sleep(self.behaviour.chunk_time)
            if fault["what"] != "lost" or channel != fault.get("chunk", 1):
                await self.notify(connection, ANSWERS[channel], chunk, shown if place == len(chunks) - 1 else None)

    def cut(self):
        self.log("drops")
        self.drop(self.behaviour.drop_way)

    async def notify(self, connection, uuid, octets, shown=None):
        """A notification, if the host wants it."""
        attribute, server = self.characteristics[uuid], self.device.gatt_server
        if self.connection is not connection:
            return
        if not server.subscribers.get(connection, {}).get(attribute.handle, b"\0\0")[0] & 1:
            return self.log("not_wanted", characteristic=uuid)
        self.note(0x1B, uuid, octets, shown)
        await server.notify_subscriber(connection, attribute, octets)

    # ---- what a test asks

    async def measured(self):
        """Its radio is on for a while."""
        await self.press()

    async def begin_anew(self):
        self.erase()
        await super().begin_anew()

    def act_memory(self):
        """What its owner would see changed, and the key."""
        return {"digest": self.digest(), "unread": [self.word(2 + user) for user in range(len(self.layout.users))],
                "key": self.key.hex() if self.key else None, "session_open": self.is_open}

    def act_store_key(self, key):
        """Another host pairs it and stores a key."""
        self.key = bytes.fromhex(key)

    def act_hold(self):
        """Its button is held until P blinks."""
        self.behaviour.pairing_mode = True
        asyncio.ensure_future(self.press())
