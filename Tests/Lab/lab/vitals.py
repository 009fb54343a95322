"""What thermometers, oximeters and scales measure, in human values: the frames these become, and the readings that they must
give. The readings come from the human values alone, like those of expected.py."""
import random
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from . import wire

THERMOMETER, OXIMETER, STRAP, COMPOSITION_SCALE, SCALE = 0x1809, 0x1822, 0x180D, 0x181B, 0x181D


def measured(text, unit):
    """A value of a reading; null where it is no number."""
    return None if text is None or text in wire.SPECIALS else {"value": Decimal(text), "unit": unit}


def steps(text, step):
    """A number as so many steps of a characteristic's resolution."""
    count = Decimal(text) / Decimal(step)
    assert count == int(count), f"{text} is no multiple of {step}"
    return int(count)


class Vital:
    """A measurement; each kind says its `kind`, `values()`, `octets()` and `CHARACTERISTIC`."""

    def frames(self):
        return [(self.CHARACTERISTIC, self.octets())]

    def reading(self):
        at = None if getattr(self, "clock_not_set", False) else self.at
        return {"base_time": at.isoformat(timespec="seconds") if at else None, "device_time": at,
                "excluded": self.excluded(), **self.values()}

    def excluded(self):
        return None


@dataclass
class Temperature(Vital):
    """A 2A1C. What it shows before it is done comes as 2A1E (`intermediate`), and is no reading."""
    CHARACTERISTIC, kind = 0x2A1C, "temperature"
    SITES = [None, "armpit", "body", "ear", "finger", "gastrointestinal_tract", "mouth", "rectum", "toe", "tympanum"]

    value: str
    unit: str = "°C"
    at: datetime = None
    site: str = None
    intermediate: tuple = ()        # what is shown before

    def octets(self, value=None):
        flags = (0x01 if self.unit == "°F" else 0) | (0x02 if self.at else 0) | (0x04 if self.site else 0)
        return (bytes([flags]) + wire.float32(value or self.value) + (wire.date_time(self.at) if self.at else b"")
                + (bytes([self.SITES.index(self.site)]) if self.site else b""))

    def frames(self):
        return [(0x2A1E, self.octets(value)) for value in self.intermediate] + super().frames()

    def values(self):
        return {"temperature": measured(self.value, self.unit), "site": self.site}

    def excluded(self):
        return "not_a_number" if self.value in wire.SPECIALS else None


@dataclass
class Saturation(Vital):
    """A 2A5E, or with `octets_continuous` a 2A5F."""
    CHARACTERISTIC, kind = 0x2A5E, "spo2"
    # Of Measurement Status, then of Device and Sensor Status; each by its bit.
    MEASUREMENT = {"measurement_ongoing": 5, "early_estimated_data": 6, "validated_data": 7, "fully_qualified_data": 8,
                   "data_from_measurement_storage": 9, "data_for_demonstration": 10, "questionable_measurement": 14,
                   "invalid_measurement": 15}
    DEVICE = {"poor_signal": 4, "low_perfusion": 5, "sensor_unconnected_to_user": 11, "sensor_disconnected": 15}
    NO_VALUE = {"data_for_demonstration", "invalid_measurement", "sensor_unconnected_to_user", "sensor_disconnected"}
    DOUBTS = {"early_estimated_data", "questionable_measurement", "poor_signal", "low_perfusion"}

    value: str
    pulse: str
    at: datetime = None
    status: tuple = None            # None: neither status field
    amplitude: str = None           # the pulse amplitude index, in per cent
    clock_not_set: bool = False

    def fields(self):
        """Flags, saturation, pulse, and what stands behind a time stamp."""
        bits = lambda names: sum(1 << names[each] for each in self.status or () if each in names)
        flags, behind = 0, b""
        if self.status is not None:
            flags |= 0x06
            behind += struct.pack("<H", bits(self.MEASUREMENT)) + struct.pack("<I", bits(self.DEVICE))[:3]
        if self.amplitude:
            flags |= 0x08
            behind += wire.sfloat(self.amplitude)
        return flags, wire.sfloat(self.value) + wire.sfloat(self.pulse), behind

    def octets(self):
        flags, values, behind = self.fields()
        flags |= (0x01 if self.at else 0) | (0x10 if self.clock_not_set else 0)
        return bytes([flags]) + values + (wire.date_time(self.at) if self.at else b"") + behind

    def octets_continuous(self, fast=None):
        """As it is streamed: the flags have other places, and the fast response may come too."""
        flags, values, behind = self.fields()
        return (bytes([flags << 1 | (0x01 if fast else 0)]) + values
                + (wire.sfloat(fast[0]) + wire.sfloat(fast[1]) if fast else b"") + behind)

    def values(self):
        return {"spo2": measured(self.value, "%"), "pulse": measured(self.pulse, "bpm"),
                "status": ["questionable"] if self.DOUBTS & set(self.status or ()) else []}

    def excluded(self):
        return "error_record" if self.NO_VALUE & set(self.status or ()) else "not_a_number" if self.value in wire.SPECIALS else None


@dataclass
class Weight(Vital):
    """A 2A9D, and before it the 2A9C of the same person where there is a composition."""
    CHARACTERISTIC, kind = 0x2A9D, "weight"

    value: str                      # NaN: the measurement failed
    unit: str = "kg"
    at: datetime = None
    user: int = None                # 255: unknown
    body_mass_index: str = None     # always with a height
    height: str = None              # in metres, or inches
    composition: object = None

    @property
    def mass_step(self):
        return "0.01" if self.unit == "lb" else "0.005"

    def head(self):
        """The flags that both characteristics share, and what these stand for."""
        flags = (0x01 if self.unit == "lb" else 0) | (0x02 if self.at else 0) | (0x04 if self.user is not None else 0)
        return flags, (wire.date_time(self.at) if self.at else b"") + (bytes([self.user]) if self.user is not None else b"")

    def raw_weight(self):
        return 0xFFFF if self.value == "NaN" else steps(self.value, self.mass_step)

    def octets(self):
        flags, behind = self.head()
        if self.height:
            flags |= 0x08
            behind += struct.pack("<HH", steps(self.body_mass_index, "0.1"),
                                  steps(self.height, "0.1" if self.unit == "lb" else "0.001"))
        return struct.pack("<BH", flags, self.raw_weight()) + behind

    def frames(self):
        return ([(0x2A9C, self.composition.octets(self))] if self.composition else []) + super().frames()

    def values(self):
        imperial = self.unit == "lb"
        in_steps = lambda text, places: text if text is None or text == "NaN" else str(Decimal(text).quantize(Decimal(places)))
        return {"weight": measured(in_steps(self.value, "0.01" if imperial else "0.001"), self.unit),
                "body_mass_index": Decimal(self.body_mass_index) if self.body_mass_index else None,
                "height": measured(in_steps(self.height, "0.1" if imperial else "0.001"), "in" if imperial else "m"),
                "user": None if self.user == 255 else self.user}

    def excluded(self):
        return "error_record" if self.value == "NaN" else None

    def readings(self):
        """The reading of its composition stands beside its own."""
        return ([self.composition.reading(self)] if self.composition else []) + [("weight", self.reading())]


@dataclass
class Composition:
    """The 2A9C of a weight, which has its time and its user."""
    body_fat: str                   # NaN: the measurement failed
    basal_metabolism: str = None    # kJ
    muscle_percentage: str = None
    muscle_mass: str = None         # in the weight's unit, like the other masses
    body_water_mass: str = None
    impedance: str = None
    with_weight: bool = False       # the weight stands in it too

    def parts(self, weight):
        """Name, text, unit, step and bit of what is sent, in its order."""
        every = [("basal_metabolism", self.basal_metabolism, "kJ", "1", 3),
                 ("muscle_percentage", self.muscle_percentage, "%", "0.1", 4),
                 ("muscle_mass", self.muscle_mass, weight.unit, weight.mass_step, 5),
                 ("body_water_mass", self.body_water_mass, weight.unit, weight.mass_step, 8),
                 ("impedance", self.impedance, "Ω", "0.1", 9),
                 ("weight", weight.value if self.with_weight else None, weight.unit, weight.mass_step, 10)]
        return [each for each in every if each[1] is not None]

    def octets(self, weight):
        flags, behind = weight.head()
        for _, text, _, step, bit in self.parts(weight):
            flags |= 1 << bit
            behind += struct.pack("<H", steps(text, step))
        return struct.pack("<HH", flags, 0xFFFF if self.body_fat == "NaN" else steps(self.body_fat, "0.1")) + behind

    def reading(self, weight):
        names = ("basal_metabolism", "muscle_percentage", "muscle_mass", "fat_free_mass", "soft_lean_mass",
                 "body_water_mass", "impedance", "weight", "height")
        found = dict.fromkeys(names)
        for name, text, unit, step, _ in self.parts(weight):
            # Masses are sent in steps of 0.005 kg, and so have three places.
            places = step if step != "1" else "1"
            found[name] = {"value": Decimal(text).quantize(Decimal(places)), "unit": unit}
        value = weight.reading()
        shared = {key: value[key] for key in ("base_time", "device_time", "user")}
        return "body_composition", {**shared, "body_composition": measured(self.body_fat, "%"), "composition": found,
                                    "excluded": "error_record" if self.body_fat == "NaN" else None}


KINDS = {THERMOMETER: Temperature, OXIMETER: Saturation, SCALE: Weight, COMPOSITION_SCALE: Weight}
GENERIC = {THERMOMETER: "generic_thermometer", OXIMETER: "generic_pulse_oximeter", STRAP: "generic_heart_rate",
           COMPOSITION_SCALE: "generic_body_composition", SCALE: "generic_weight_scale"}


def readings(held):
    """(kind, reading) of each."""
    return [each for one in held for each in (one.readings() if isinstance(one, Weight) else [(one.kind, one.reading())])]


def generated(service, source: random.Random, count, start, step):
    """So many measurements, `step` minutes apart."""
    for index in range(count):
        at = start + timedelta(minutes=step * index, seconds=source.randint(0, 59))
        if service == THERMOMETER:
            yield Temperature(f"{source.randint(350, 410) / 10:.1f}", at=at, site=source.choice([None, "ear", "mouth"]))
        elif service == OXIMETER:
            yield Saturation(str(source.randint(80, 100)), str(source.randint(45, 140)), at=at,
                             status=source.choice([None, (), ("fully_qualified_data",)]))
        else:
            yield Weight(f"{source.randint(8000, 24000) * 0.005:.3f}", at=at, user=source.choice([1, 2, 3]))
