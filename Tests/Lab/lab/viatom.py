"""Viatom's own protocol: a BP2 whose list of blood pressures its host opens, reads piece by piece and closes.

Written from what an owner has found and logged with an LP-BP2W (viatom_bp2_ha), and from nothing of our gateway's. It can be
told to inflate, to erase, to reset and to show a password, as a real one can: that the gateway never does so shows in the log
and in the memory's digest.
"""
from dataclasses import dataclass
from datetime import datetime

from . import own
from .meters import Properties

INFORMATION, CLOCK, OPEN, DATA, CLOSE, CURVE = 0xE1, 0xEC, 0xF2, 0xF3, 0xF4, 0x08
REGISTERS, CONFIGURATION, BATTERY, FILES = 0x00, 0x06, 0x30, 0xF1
INFLATES, ERASES, RESETS, PASSWORD = (0x09, 0x0A, 0x24, 0x25, 0x39), (0x04, 0xE3), 0xE2, 0x13
LIST = b"bp2nibp.list"
EPOCH = datetime(1970, 1, 1)
IDLE, MEASURES = 3, 4
# The direction of a refusal, as for a list that was opened before on the same connection.
REFUSED = 0xE1


@dataclass
class Manners(own.Manners):
    """More faults of an answer with octets of the list: `short` (only `octets` of them), `empty`."""
    refuses_pairing: bool = True    # it makes no bonds
    chunk: int = 200                # the most octets of the list in an answer
    slots: int = 50                 # records that it has room for; then the newest takes the oldest one's place
    empty_slots: int = 0            # behind the records
    claims: int = 0                 # octets that it says the list has beyond those that it has
    sends_curves: bool = False      # of the cuff's pressure, unasked, before each answer


def checksum(octets):
    """CRC-8 with the polynomial 07."""
    value = 0
    for octet in octets:
        value ^= octet
        for _ in range(8):
            value = (value << 1 ^ 0x07 if value & 0x80 else value << 1) & 0xFF
    return value


def message(command, number, payload=b"", direction=1):
    body = bytes([0xA5, command, command ^ 0xFF, direction, number]) + len(payload).to_bytes(2, "little") + payload
    return body + bytes([checksum(body)])


def record(pressure):
    """A measurement as it stands in the list."""
    word = lambda text: (0 if text in (None, "NaN") else int(text)).to_bytes(2, "little")
    seconds = int((pressure.at - EPOCH).total_seconds()) if pressure.at else 0
    irregular = "irregular_pulse" in (pressure.status or ())
    return (seconds.to_bytes(4, "little") + (pressure.account or 0).to_bytes(4, "little") + bytes(5)
            + word(pressure.systolic) + word(pressure.diastolic) + word(pressure.mean) + word(pressure.pulse)[:1]
            + bytes([irregular]) + bytes(16))


class Monitor(own.OwnProtocol):
    """Its records are in `ring`, as they stand in the list."""

    Manners = Manners
    SERVICE = "14839ac4-7d7e-415c-9a42-167340cf2339"
    REQUESTS = "8b00ace7-eb0b-49b0-bbe9-9aee0a26e1a3"
    ANSWERS = "0734594a-a8e7-4b1a-a6b1-cd5243059a57"
    MANUFACTURER_DATA = (62286).to_bytes(2, "little") + b"\0"
    BONDS = False
    SERIAL = b"2523C00000"

    def begin_link(self):
        super().begin_link()
        self.is_open = self.was_opened = False
        self.asked = b""

    def ways_to_write(self):
        return Properties.WRITE_WITHOUT_RESPONSE

    def piece_length(self, connection):
        return connection.att_mtu - 3

    # ---- its memory

    def erase(self):
        self.meter.records[:] = []
        self.ring, self.next, self.clock_written = [], 0, b""

    def add(self, records):
        """It measures; the newest takes the oldest one's place where the list is full."""
        for each in records:
            if len(self.ring) < self.behaviour.slots:
                self.ring.append(each)
            else:
                gone, self.ring[self.next] = self.ring[self.next], each
                self.next = (self.next + 1) % self.behaviour.slots
                self.meter.records[:] = [kept for kept in self.meter.records if kept is not gone]
            self.meter.records.append(each)
            self.ever.append(each)

    def octets(self):
        return b"\x01\x01" + bytes(8) + b"".join(map(record, self.ring)) + bytes(37 * self.behaviour.empty_slots)

    def memory(self):
        return self.octets() + self.clock_written

    def act_memory(self):
        return super().act_memory() | {"is_open": self.is_open}

    # ---- requests

    async def take(self, connection, octets):
        """A request may come in pieces."""
        self.asked += octets
        while self.asked[:1] == b"\xA5" and len(self.asked) >= 8:
            length = 8 + int.from_bytes(self.asked[5:7], "little")
            if len(self.asked) < length:
                return
            asked, self.asked = self.asked[:length], self.asked[length:]
            if asked[2] != asked[1] ^ 0xFF or asked[3] != 0 or checksum(asked[:-1]) != asked[-1]:
                self.log("not_understood")
            else:
                await self.obey(connection, asked[1], asked[4], asked[7:-1])
        if self.asked[:1] not in (b"", b"\xA5"):
            self.asked = b""
            self.log("not_understood")

    async def obey(self, connection, command, number, payload):
        behaviour = self.behaviour
        if command in INFLATES:
            return self.log("inflates")
        if command == RESETS:
            return await connection.disconnect()
        if command == OPEN and behaviour.measuring:
            return self.log("not_heard")
        if command == DATA and not self.is_open:
            return self.log("not_heard")
        if behaviour.sends_curves:
            await self.send_pieces(connection, message(CURVE, 0, bytes([0, 1, 80]) + (131).to_bytes(2, "little") + bytes(27)))
        fault = self.comes_next()
        answer, shown = self.answer_to(command, payload, fault)
        if answer is None:
            return await self.say(connection, message(command, number, direction=REFUSED), fault)
        await self.say(connection, message(command, number, answer), fault, shown)

    def answer_to(self, command, payload, fault):
        """What it says, None where it refuses, and the records that are whole in that."""
        if command == INFORMATION:
            return self.information(), []
        if command == OPEN:
            if self.behaviour.refuses or self.was_opened or payload != LIST.ljust(20, b"\0"):
                return None, []
            self.is_open = self.was_opened = True
            return (len(self.octets()) + self.behaviour.claims).to_bytes(4, "little"), []
        if command == DATA:
            start, octets = int.from_bytes(payload, "little"), self.octets()
            count = {"short": fault.get("octets", 7), "empty": 0}.get(fault.get("what"), self.behaviour.chunk)
            end = min(start + count, len(octets))
            shown = [each for place, each in enumerate(self.ring) if start < 10 + (place + 1) * 37 <= end]
            return octets[start:end], shown
        if command == CLOSE:
            self.is_open = False
        elif command == CLOCK:
            self.clock_written = payload
        elif command in ERASES:
            self.erase()
        elif command == PASSWORD:
            self.log("password_shown")
            return b"network\0secret\0".ljust(63, b"\0"), []
        elif command == REGISTERS:
            return bytes(39) + bytes([MEASURES if self.behaviour.measuring else IDLE]), []
        elif command == CONFIGURATION:
            return bytes([MEASURES if self.behaviour.measuring else IDLE]) + bytes(8), []
        elif command == BATTERY:
            return bytes([0xCE, 0x0A]) + (3715).to_bytes(2, "little"), []
        elif command == FILES:
            return LIST.ljust(16, b"\0") + b"\x02" + b"bp2ecg.list".ljust(16, b"\0"), []
        return b"", []

    def information(self):
        """Model and serial number, and what its clock shows."""
        if self.meter.clock is None:       # it was never set
            shown = bytes(7)
        else:
            self.ticked = now = self.clock(self.meter.clock)
            shown = now.year.to_bytes(2, "little") + bytes([now.month, now.day, now.hour, now.minute, now.second])
        return (bytes.fromhex("420001010100000100") + b"32120011" + bytes.fromhex("05000022860301") + shown
                + bytes.fromhex("020100000000") + bytes([len(self.SERIAL)]) + self.SERIAL).ljust(60, b"\0")

    async def notify(self, connection, octets, shown=None):
        """What its clock showed goes with the piece that says so."""
        if self.last is not None and self.last[1] == INFORMATION and self.meter.clock is not None:
            now = self.ticked
            if bytes([now.day, now.hour, now.minute, now.second]) in octets:
                self.meter.shown[octets] = now
        await super().notify(connection, octets, shown)
