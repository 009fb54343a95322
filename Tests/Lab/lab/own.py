"""What devices have in common that speak a protocol of their maker's: requests are written to one characteristic, answers
notified by another in pieces, and their memory shows whether a host has changed it."""
import asyncio
import hashlib
from dataclasses import dataclass, field

from bumble import att
from bumble.core import UUID, AdvertisingData
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service

from .live import Behaviour, LiveMeter
from .meters import READ, WRITE, Properties

# What anybody may read and write, without a bond.
OPEN = att.Attribute.READABLE | att.Attribute.WRITEABLE


@dataclass
class Manners(Behaviour):
    """What may go wrong. Faults are a list, each happens once: `{"answer": the how-manieth answer of a connection, "what":
    ...}`, where what is `lost` (the piece `piece` stays away, the second by default), `wrong` (an octet in the middle is
    another), `silent`, `late` (it comes when the next is asked for, before that answer), `foreign` (the answer before, or
    another that answers nothing, comes first), `twice`, `cut` (the link is lost in the middle of the answer), `grows` (it
    measures: `records`)."""
    faults: list = field(default_factory=list)
    answer_time: float = 0.01       # seconds from a request to its answer
    piece_time: float = 0.002       # seconds between the pieces of an answer
    measuring: bool = False
    refuses: bool = False


@dataclass
class Shown:
    """Records that are whole in a message."""
    records: list


class OwnProtocol(LiveMeter):
    """A device of a test; its kinds say how it is called, what it has and what it answers."""

    Manners = Manners
    SERVICE = REQUESTS = ANSWERS = None
    ADVERTISED = ()                 # services of 16 bits
    MANUFACTURER_DATA = None
    BONDS = True                    # whether its attributes want an encrypted link

    def __init__(self, meter, behaviour, air, clock=None, sent=None):
        super().__init__(meter, behaviour, air, clock, sent)
        records, self.ever = list(meter.records), []
        self.begin_link()
        self.erase()
        self.add(records)

    def begin_link(self):
        self.said, self.last, self.withheld, self.queue = 0, None, [], None

    # ---- the device

    def advertisement(self):
        if self.behaviour.advertising_data is not None:
            return bytes.fromhex(self.behaviour.advertising_data)
        parts = [(AdvertisingData.FLAGS, b"\x06")]
        if self.ADVERTISED:
            parts.append((AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS,
                          b"".join(each.to_bytes(2, "little") for each in self.ADVERTISED)))
        parts.append((AdvertisingData.COMPLETE_LOCAL_NAME, self.meter.name.encode()))
        if self.MANUFACTURER_DATA is not None:
            parts.append((AdvertisingData.MANUFACTURER_SPECIFIC_DATA, self.MANUFACTURER_DATA))
        return bytes(AdvertisingData(parts))

    def services(self):
        read, both = (READ, READ | WRITE) if self.BONDS else (OPEN, OPEN)
        texts = [(0x2A29, self.meter.manufacturer), (0x2A24, self.meter.model), (0x2A25, self.meter.serial)]
        texts = [self.text(number, text.encode(), read) for number, text in texts if text]
        if texts:
            yield Service(UUID.from_16_bits(0x180A), texts)
        requests = self.named(self.REQUESTS, self.ways_to_write(), both, CharacteristicValue(write=self.on_request))
        answers = self.named(self.ANSWERS, Properties.NOTIFY, 0, b"")
        answers.descriptors = [Descriptor(UUID.from_16_bits(0x2902), both,
                                          self.device.gatt_server.make_descriptor_value(answers))]
        self.device.gatt_server.on("characteristic_subscription", self.on_subscription)
        yield Service(UUID(self.SERVICE), [answers, requests])

    def ways_to_write(self):
        return Properties.WRITE | Properties.WRITE_WITHOUT_RESPONSE

    def text(self, number, octets, permissions):
        def read(connection):
            self.note(0x0B, number, octets)
            return octets
        return self.characteristic(number, Properties.READ, permissions, CharacteristicValue(read=read))

    def on_subscription(self, connection, characteristic, notify, indicate):
        pass

    def on_connection(self, connection):
        super().on_connection(connection)
        self.begin_link()
        self.queue = asyncio.Queue()
        work = asyncio.ensure_future(self.work(connection, self.queue))
        connection.on("disconnection", lambda reason: work.cancel())

    # ---- requests and answers

    def on_request(self, connection, value):
        self.log("asked", hex=bytes(value).hex())
        if self.queue is not None:
            self.queue.put_nowait(bytes(value))

    async def work(self, connection, queue):
        """Takes one request after the other."""
        while True:
            await self.take(connection, await queue.get())

    async def take(self, connection, octets):
        raise NotImplementedError

    def fault(self):
        for each in self.behaviour.faults:
            if each["answer"] == self.said:
                self.behaviour.faults.remove(each)
                self.log("fault", what=each["what"])
                return each
        return {}

    def stray(self):
        """What answers nothing."""
        return b""

    def comes_next(self):
        """The fault of the answer that is made now, before it is made: what it says may depend on that."""
        self.said += 1
        fault = self.fault()
        if fault.get("what") == "grows":
            from . import documents
            self.add(documents.records(fault["records"], self.meter.service))
        return fault

    async def say(self, connection, octets, fault, records=()):
        """Sends an answer in pieces; `records` are whole in it."""
        what, before, self.last = fault.get("what"), self.last, octets
        await asyncio.sleep(self.behaviour.answer_time)
        withheld, self.withheld = self.withheld, []
        if what == "silent":
            return
        if what == "late":
            self.withheld.append(octets)
            return
        for each in withheld + ([before or self.stray()] if what == "foreign" else []):
            await self.send_pieces(connection, each)
        if what == "wrong":
            middle = len(octets) // 2
            octets = octets[:middle] + bytes([octets[middle] ^ 0x10]) + octets[middle + 1:]
        await self.send_pieces(connection, octets, fault, Shown(list(records)) if records else None)
        if what == "twice":
            await self.send_pieces(connection, octets)

    def piece_length(self, connection):
        return 20

    async def send_pieces(self, connection, octets, fault={}, shown=None):
        length, what = self.piece_length(connection), fault.get("what")
        pieces = [octets[start:start + length] for start in range(0, len(octets), length)]
        for place, piece in enumerate(pieces):
            if what == "cut" and place == (len(pieces) + 1) // 2:
                self.log("drops")
                self.drop(self.behaviour.drop_way)
            if place:
                await asyncio.sleep(self.behaviour.piece_time)
            if what != "lost" or place != fault.get("piece", 1):
                await self.notify(connection, piece, shown if place == len(pieces) - 1 else None)

    async def notify(self, connection, octets, shown=None):
        attribute, server = self.characteristics[self.ANSWERS], self.device.gatt_server
        if self.connection is not connection:
            return
        if not server.subscribers.get(connection, {}).get(attribute.handle, b"\0\0")[0] & 1:
            return self.log("not_wanted", characteristic=self.ANSWERS)
        self.log("piece")
        self.note(0x1B, self.ANSWERS, octets, shown)
        await server.notify_subscriber(connection, attribute, octets)

    # ---- its memory

    def memory(self):
        """All that a host could change, as octets."""
        return b""

    async def measured(self):
        """Its radio is on for a while."""
        await self.press()

    async def begin_anew(self):
        self.erase()
        await super().begin_anew()

    def act_memory(self):
        return {"digest": hashlib.sha256(self.memory()).hexdigest()}
