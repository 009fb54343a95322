"""An O2Ring: it shows its values when it is asked, and keeps what it records in a night, which its host opens, reads piece by
piece and closes.

Written from what owners have found and logged (o2r, viatom_o2ring, SomnoTrace), and from nothing of our gateway's. It can be
told to set its clock and to erase what it has, as a real one can: that the gateway never does so shows in the log and in the
memory's digest.
"""
import json
import random
from dataclasses import dataclass
from datetime import datetime

from . import own
from .meters import Properties
from .viatom import checksum

OPEN, DATA, CLOSE, INFORMATION, PING, SETTINGS, VALUES = 0x03, 0x04, 0x05, 0x14, 0x15, 0x16, 0x17
ERASES = (0x18, 0x19, 0x1A)
HEAD = 40


@dataclass
class Manners(own.Manners):
    """More faults of an answer: `another` (a name opens another recording than its own)."""
    refuses_pairing: bool = True    # it makes no bonds
    block: int = 512                # octets of a recording in an answer
    slots: int = 4                  # recordings that it has room for; then the newest takes the oldest one's place
    saturation: int = 97
    pulse: int = 61
    worn: bool = True


def message(payload=b"", status=0, block=0):
    body = bytes([0x55, status, status ^ 0xFF]) + block.to_bytes(2, "little") + len(payload).to_bytes(2, "little") + payload
    return body + bytes([checksum(body)])


def samples_of(seed, count):
    """A night's samples as (saturation, pulse, motion), None where it has no value."""
    source, saturation, pulse = random.Random(seed), 96, 60
    for _ in range(count):
        saturation = min(100, max(84, saturation + source.choice([-1, 0, 0, 0, 1])))
        pulse = min(110, max(44, pulse + source.choice([-2, -1, 0, 0, 1, 2])))
        off = source.random() < 0.01
        yield (None, None, 0) if off else (saturation, pulse, source.choice([0, 0, 0, 7, 126]))


@dataclass
class Night:
    start: datetime
    samples: list
    interval: int = 4
    version: int = 3
    seed: int = 1
    cut: int = 0                    # octets that are missing at its end, though its header counts them

    @property
    def name(self):
        return self.start.strftime("%Y%m%d%H%M%S")

    def octets(self):
        start, word = self.start, lambda number, count=2: number.to_bytes(count, "little")
        size = HEAD + 5 * len(self.samples)
        known = [each[0] for each in self.samples if each[0] is not None] or [0]
        head = (bytes([self.version, 0]) + word(start.year) + bytes([start.month, start.day, start.hour, start.minute, start.second])
                + word(size, 4) + word(self.interval * len(self.samples)) + bytes(2)
                + bytes([sum(known) // len(known), min(known)]) + bytes(6) + b"\x5f")
        body = b"".join(
            bytes([0xFF, 0xFF, 0xFF, motion, 0]) if saturation is None else bytes([saturation, pulse, 0, motion, 0])
            for saturation, pulse, motion in self.samples)
        whole = head.ljust(HEAD, b"\0") + body
        return whole[:len(whole) - self.cut]


class Ring(own.OwnProtocol):
    Manners = Manners
    SERVICE = "14839ac4-7d7e-415c-9a42-167340cf2339"
    REQUESTS = "8b00ace7-eb0b-49b0-bbe9-9aee0a26e1a3"
    ANSWERS = "0734594a-a8e7-4b1a-a6b1-cd5243059a57"
    MANUFACTURER_DATA = (62286).to_bytes(2, "little") + b"\0"
    BONDS = False

    def begin_link(self):
        super().begin_link()
        self.opened, self.asked = None, b""

    def ways_to_write(self):
        return Properties.WRITE_WITHOUT_RESPONSE

    # ---- its memory

    def erase(self):
        self.nights, self.slept, self.settings = [], [], b""

    def add(self, records):
        pass

    def act_sleep(self, start, count, seed=1, **more):
        """Somebody wore it, and took it off: the oldest recording makes room."""
        night = Night(datetime.fromisoformat(start), list(samples_of(seed, count)), seed=seed, **more)
        self.nights = [*self.nights, night][-self.behaviour.slots:]
        self.slept.append(night)
        return {"name": night.name}

    def act_wear_on(self, count):
        """It was put on again: the newest recording goes on to so many samples."""
        newest = self.nights[-1]
        newest.samples = list(samples_of(newest.seed, count))
        return {"name": newest.name}

    def act_mend(self):
        """Recordings that were cut are whole."""
        for each in self.nights:
            each.cut = 0
        return {}

    def act_nights(self):
        """What it ever recorded, whole ones only."""
        return {"nights": [{"start": each.start.isoformat(), "interval": each.interval,
                            "spo2": [saturation for saturation, _, _ in each.samples],
                            "heart_rate": [pulse for _, pulse, _ in each.samples]} for each in self.slept if not each.cut]}

    def memory(self):
        return b"".join(each.octets() for each in self.nights) + self.settings

    def act_memory(self):
        return super().act_memory() | {"is_open": self.opened is not None}

    # ---- questions

    async def take(self, connection, octets):
        """A question may come in pieces."""
        self.asked += octets
        while self.asked[:1] == b"\xAA" and len(self.asked) >= 8:
            length = 8 + int.from_bytes(self.asked[5:7], "little")
            if len(self.asked) < length:
                return
            asked, self.asked = self.asked[:length], self.asked[length:]
            if asked[2] != asked[1] ^ 0xFF or checksum(asked[:-1]) != asked[-1]:
                self.log("not_understood")
                continue
            fault = self.comes_next()
            await self.say(connection, self.answer_to(asked[1], int.from_bytes(asked[3:5], "little"), asked[7:-1], fault), fault)
        if self.asked[:1] not in (b"", b"\xAA"):
            self.asked = b""
            self.log("not_understood")

    def answer_to(self, command, block, payload, fault):
        if command == INFORMATION:
            shown = self.clock(self.meter.clock or 0).strftime("%Y-%m-%d,%H:%M:%S")
            names = "".join(each.name + "," for each in self.nights)
            text = json.dumps({"Region": "CE", "Model": "1652", "HardwareVer": "AA", "SN": "2512C54512", "CurTIME": shown,
                               "CurBAT": "97%", "CurBatState": "0", "FileList": names}, separators=(",", ":"))
            return message(text.encode().ljust(512, b"\0"))
        if command == VALUES:
            manners = self.behaviour
            return message(bytes([manners.saturation, manners.pulse, 0, 0, 0, 0, 0, 97, 0, 3, 11, manners.worn, 0]))
        if command == OPEN:
            if payload[-1:] != b"\0":
                return message(status=9)
            self.log("opens", hex=payload.hex())
            wanted = [each for each in self.nights if each.name.encode() == payload[:-1]]
            if fault.get("what") == "another":
                wanted = [each for each in self.nights if each not in wanted]
            if not wanted or self.behaviour.refuses:
                return message(status=1)
            self.opened = wanted[0].octets()
            return message(len(self.opened).to_bytes(4, "little"))
        if command == DATA:
            piece = (self.opened or b"")[block * self.behaviour.block:(block + 1) * self.behaviour.block]
            return message(piece, block=block) if piece else message(status=2, block=block)
        if command == CLOSE:
            self.opened = None
        elif command == SETTINGS:
            self.settings += payload
            self.log("set")
        elif command in ERASES:
            self.erase()
            self.log("erased")
        return message()
