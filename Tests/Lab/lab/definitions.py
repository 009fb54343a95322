"""What a scenario is made of: meters and their records in human values, and the frames these become."""
import struct
from dataclasses import dataclass, field
from datetime import datetime

from . import wire


@dataclass
class Context:
    """A 2A34 of a record. Amounts as (name, digits, unit): ("breakfast", "0.045", "kg")."""
    carbohydrate: tuple = None
    meal: str = None
    tester: str = None
    health: str = None
    exercise: tuple = None          # (seconds, percent)
    medication: tuple = None
    hba1c: str = None
    extended: int = None            # an extended flags octet
    meal_number: int = None         # a reserved meal

    def frame(self, sequence):
        flags, body = 0, b""
        if self.extended is not None:
            flags |= 0x80
            body += bytes([self.extended])
        if self.carbohydrate:
            flags |= 0x01
            body += bytes([wire.CARBOHYDRATES.index(self.carbohydrate[0])]) + wire.sfloat(self.carbohydrate[1])
        if self.meal or self.meal_number is not None:
            flags |= 0x02
            body += bytes([self.meal_number if self.meal_number is not None else wire.MEALS.index(self.meal)])
        if self.tester or self.health:
            flags |= 0x04
            body += bytes([wire.TESTERS[self.tester] | wire.HEALTHS[self.health] << 4])
        if self.exercise:
            flags |= 0x08
            body += struct.pack("<HB", *self.exercise)
        if self.medication:
            flags |= 0x10 | (0x20 if self.medication[2] == "L" else 0)
            body += bytes([wire.MEDICATIONS.index(self.medication[0])]) + wire.sfloat(self.medication[1])
        if self.hba1c:
            flags |= 0x40
            body += wire.sfloat(self.hba1c)
        return struct.pack("<BH", flags, sequence) + body


@dataclass
class Glucose:
    """A 2A18. `value` None: a record without concentration. `offset` None: without offset; "unknown": 7FFF."""
    sequence: int
    base: datetime                  # None: the clock was never set
    value: str = None
    unit: str = "mg/dL"
    offset: object = None
    type: str = "capillary_whole_blood"
    location: str = "finger"
    status: tuple = None            # None: no status field
    context: Context = None
    context_first: bool = False     # 2A34 is sent before 2A18
    context_missing: bool = False   # bit 4 is set and nothing comes
    type_number: int = None         # a reserved type
    status_reserved: int = 0
    flags_reserved: int = 0
    extra: bytes = b""
    cut_to: int = None              # only so many octets are sent: a malformed frame
    month_13: bool = False          # its January is sent as month 13
    is_partner: bool = False        # the empty record that some meters send behind each
    never_measured: bool = False    # a "high" that a full memory adds

    def frame(self):
        flags = self.flags_reserved
        date = bytearray(wire.date_time(self.base))
        if self.month_13:
            date[2] = 13
        body = struct.pack("<H", self.sequence) + bytes(date)
        if self.offset is not None:
            flags |= 0x01
            body += struct.pack("<h", 0x7FFF if self.offset == "unknown" else self.offset)
        if self.value is not None:
            molar = self.unit == "mmol/L"
            flags |= 0x02 | (0x04 if molar else 0)
            number = self.type_number if self.type_number is not None else wire.SAMPLE_TYPES.index(self.type)
            body += wire.sfloat(self.value, -3 if molar else -5)
            body += bytes([number | wire.SAMPLE_LOCATIONS[self.location] << 4])
        if self.status is not None or self.status_reserved:
            flags |= 0x08
            bits = sum(1 << wire.GLUCOSE_STATUS.index(name) for name in self.status or ())
            body += struct.pack("<H", bits | self.status_reserved)
        if self.context or self.context_missing:
            flags |= 0x10
        return (bytes([flags]) + body + self.extra)[:self.cut_to]

    def frames(self):
        """(characteristic, octets) in the order in which the meter sends them."""
        sent = [(0x2A18, self.frame())]
        if self.context:
            sent.insert(0 if self.context_first else 1, (0x2A34, self.context.frame(self.sequence)))
        return sent


@dataclass
class Continuous:
    """A value of a 2AA7. `status`: names of the annunciation's bits; the octets that none of them is in are left out."""
    sequence: int                   # the minute of the session
    value: str
    trend: str = None               # mg/dL per minute
    quality: str = None             # per cent
    status: tuple = ()
    empty_octets: tuple = ()        # of the annunciation: sent though no bit is set
    wrong_checksum: bool = False

    def octets(self, checksums):
        flags, body = 0, wire.sfloat(self.value) + struct.pack("<H", self.sequence)
        for place, (names, flag) in enumerate(zip(wire.CGM_STATUS, (0x80, 0x40, 0x20))):
            bits = sum(1 << names.index(name) for name in self.status if name in names)
            if bits or place in self.empty_octets:
                flags |= flag
                body += bytes([bits])
        if self.trend:
            flags |= 0x01
            body += wire.sfloat(self.trend)
        if self.quality:
            flags |= 0x02
            body += wire.sfloat(self.quality)
        whole = bytes([2 + len(body) + (2 if checksums else 0), flags]) + body
        checksum = wire.cgm_checksum(whole) if checksums else b""
        return whole + (bytes([checksum[0] ^ 0x55, checksum[1]]) if self.wrong_checksum else checksum)


@dataclass
class Together:
    """Values of a continuous sensor that leave it in one notification."""
    records: list
    checksums: bool

    def frames(self):
        return [(0x2AA7, b"".join(record.octets(self.checksums) for record in self.records))]


@dataclass
class Pressure:
    """A 2A35, or with `intermediate` a 2A36 (only `systolic` has a value there)."""
    systolic: str
    diastolic: str = "NaN"
    mean: str = "NaN"
    unit: str = "mmHg"
    at: datetime = None
    pulse: str = None
    user: int = None
    status: tuple = None
    status_reserved: int = 0
    flags_reserved: int = 0
    intermediate: bool = False
    big_endian: bool = False        # pulse and status are, and the user between them is not flagged
    second_in_memory: int = None    # of an Omron's memory, where no clock has such a second
    unknown_bit: bool = False       # of an Omron's record: nobody knows what it says
    fibrillation: bool = False      # what a Microlife says of an irregular pulse
    account: int = None             # whose it is at Viatom, where `user` is the slot that stands for it

    def frame(self):
        flags, body = self.flags_reserved, b"".join(map(wire.sfloat, (self.systolic, self.diastolic, self.mean)))
        if self.unit == "kPa":
            flags |= 0x01
        if self.at:
            flags |= 0x02
            body += wire.date_time(self.at)
        order = (lambda octets: octets[::-1]) if self.big_endian else bytes
        if self.pulse:
            flags |= 0x04
            body += order(wire.sfloat(self.pulse))
        if self.user is not None:
            flags |= 0 if self.big_endian else 0x08
            body += bytes([self.user])
        if self.status is not None or self.status_reserved:
            flags |= 0x10
            body += order(struct.pack("<H", sum(wire.CUFF_STATUS[name] for name in self.status or ()) | self.status_reserved))
        return bytes([flags]) + body

    def frames(self):
        return [(0x2A36 if self.intermediate else 0x2A35, self.frame())]


@dataclass
class Meter:
    """A device: what it is called, how it pairs, what it answers, what it holds."""
    name: str
    address: str                    # its identity address, random static
    service: int                    # 0x1808, 0x1810 or 0x181F
    records: list
    passkey: bool = False           # shows six digits; else Just Works
    manufacturer: str = None
    model: str = None
    serial: str = None
    battery: int = None
    clock: int = None               # seconds that its readable clock (2A2B, or a maker's own) is ahead; None: no clock to read
    feature: bytes = b"\x00\x00"    # 2A51 or 2A49
    mtu: int = 23
    private: bool = False           # advertises and connects by a resolvable private address
    drop_after: int = None          # drops the link after so many measurements
    pace: float = 0.01              # seconds between frames
    numbers_by_age: bool = False    # its records' numbers are none of theirs
    protocol: str = None            # "and": A&D's clock and commands beside 1810; "onetouch": its own in place of 1808;
                                    # makers.py has others
    layout: str = None              # of an Omron's memory: a key of omron.LAYOUTS
    said: str = None                # the model that a person says it is, by the catalogue's id
    behaviour: dict = field(default_factory=dict)  # of live.Behaviour, where our own gateway reads it
    # of a continuous sensor
    session_start: datetime = None  # local to it; None: its time was never set
    session_began: datetime = None  # when it really did, where that is another
    sample: tuple = ("interstitial_fluid", "subcutaneous_tissue")
    checksums: bool = False
    together: int = 1               # values in a notification
    shown: dict = field(default_factory=dict)      # what its status said → its clock then


class Step:
    """A command that our own gateway is given for a meter, and what is done at the meter before."""

    def __init__(self, *command, meter=0, add=(), behaviour=None, settings=None, status=0):
        self.command = command      # its words; the meter's address follows
        self.meter = meter          # its place in the scenario
        self.add = add              # records that it makes before
        self.behaviour = behaviour or {}    # how it behaves from then on
        self.settings = settings or {}      # by the names of their environment
        self.status = status        # the exit status that is expected


@dataclass
class Scenario:
    name: str
    starts_at: datetime             # UTC, when the guest is switched on; None: now
    meters: list
    datalink: int = 2001            # or 1002: H4, tapped at the host's side of the HCI transport
    request: bytes = b"\x01\x01"    # what the collector asks of the RACP
    reconnect: bool = False         # the capture holds only the second, bonded connection, and a handle map is written
    together: bool = False          # all meters are connected at the same time
    steps: list = None              # our own gateway holds the conversation, and this is what it is told
    notes: str = ""
    zone: str = field(default="Europe/Berlin")
