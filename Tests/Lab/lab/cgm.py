"""Continuous glucose sensors by the standard service (181F): a session, a clock of minutes, several values together."""
import struct
from datetime import datetime, timedelta

from bumble import att
from bumble.gatt import Characteristic, CharacteristicValue

from . import wire
from .definitions import Together

Properties = Characteristic.Properties
FEATURES = {"trend": 1 << 15, "quality": 1 << 16, "checksums": 1 << 12}
INVALID_CHECKSUM = 0x81


def sealed(meter, octets):
    return octets + (wire.cgm_checksum(octets) if meter.checksums else b"")


def feature(meter):
    bits = FEATURES["trend"] | FEATURES["quality"] | (FEATURES["checksums"] if meter.checksums else 0)
    kind, place = wire.SAMPLE_TYPES.index(meter.sample[0]), wire.CGM_LOCATIONS[meter.sample[1]]
    octets = struct.pack("<I", bits)[:3] + bytes([kind | place << 4])
    return octets + (wire.cgm_checksum(octets) if meter.checksums else b"\xff\xff")


def status(meter, now):
    """The minute the session is in; what the sensor's clock shows then is noted beside it."""
    began = meter.session_start or meter.session_began
    minutes = int((now - began).total_seconds() // 60)
    octets = sealed(meter, struct.pack("<H", minutes) + bytes(3))
    if meter.session_start:
        meter.shown[octets] = meter.session_start + timedelta(minutes=minutes, seconds=30)
    return octets


def start(meter):
    return sealed(meter, wire.date_time(meter.session_start) + bytes([4, 0]))


def on_time_written(emulation, value):
    """The present: the session's age is taken off it. The minutes go on being counted from when it began."""
    meter, value = emulation.meter, bytes(value)
    if meter.checksums and value[-2:] != wire.cgm_checksum(value[:-2]):
        raise att.ATT_Error(INVALID_CHECKSUM)
    year, *rest = struct.unpack("<HBBBBB", value[:7])
    ahead = datetime(year, *rest) - emulation.clock(meter.clock or 0)
    meter.session_start = (meter.session_start or meter.session_began) + ahead
    meter.clock = (meter.clock or 0) + round(ahead.total_seconds())
    emulation.on_clock_set(value)


def characteristics(emulation, access):
    """The service's characteristics; `access` is its record access control point."""
    meter, clock = emulation.meter, lambda: emulation.clock(emulation.meter.clock or 0)
    session = emulation.reads(0x2AAA, lambda: start(meter))
    session.properties |= Properties.WRITE
    session.permissions |= att.Attribute.WRITE_REQUIRES_ENCRYPTION | att.Attribute.WRITEABLE
    session.value = CharacteristicValue(
        read=session.value.read, write=lambda connection, value: on_time_written(emulation, value))
    return [emulation.characteristic(0x2AA7, Properties.NOTIFY, 0, b""), emulation.reads(0x2AA8, lambda: feature(meter)),
            emulation.reads(0x2AA9, lambda: status(meter, clock())), session,
            emulation.reads(0x2AAB, lambda: sealed(meter, struct.pack("<H", 336))), access]


def together(meter, records):
    """Records as they leave the sensor."""
    return [Together(records[place:place + meter.together], meter.checksums)
            for place in range(0, len(records), meter.together)]
