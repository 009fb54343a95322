"""Xiaomi's body-composition scale: it shows what it measures in its advertisements, and nobody need connect it."""
import asyncio
import struct
from datetime import datetime, timedelta

from bumble.core import UUID, AdvertisingData
from bumble.gatt import Service

from .live import LiveMeter

UNITS = {"kg": (0x02, 0x00, 200), "lb": (0x03, 0x00, 100), "jin": (0x02, 0x40, 100)}
STABLE, REMOVED, IMPEDANCE, WEIGHT = 0x20, 0x80, 0x02, 0x04


def service_data(weight, at, unit="kg", impedance=None, stable=True, removed=False):
    """Thirteen octets of 181B: weight as it is shown, the scale's clock, ohms."""
    first, second, steps = UNITS[unit]
    second |= WEIGHT | (STABLE if stable else 0) | (REMOVED if removed else 0) | (IMPEDANCE if impedance else 0)
    return struct.pack("<BBHBBBBBHH", first, second, at.year, at.month, at.day, at.hour, at.minute, at.second,
                       impedance or 0, round(float(weight) * steps))


class Scale(LiveMeter):
    """It advertises only once somebody has stepped onto it; `meter.clock` says how far its clock is ahead."""
    shown = None

    def services(self):
        yield Service(UUID.from_16_bits(0x181B), [])

    def advertisement(self):
        if self.shown is None or self.behaviour.advertising_data is not None:
            return super().advertisement()
        return bytes(AdvertisingData([
            (AdvertisingData.FLAGS, b"\x06"),
            (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, struct.pack("<H", 0x181B)),
            (AdvertisingData.SERVICE_DATA_16_BIT_UUID, struct.pack("<H", 0x181B) + self.shown),
            (AdvertisingData.COMPLETE_LOCAL_NAME, self.meter.name.encode())]))

    def act_show(self, weight, unit="kg", impedance=None, stable=True, removed=False, at=None, ago=0):
        """What it shows from now on. `at` is its clock's time, now without it, `ago` seconds earlier.

        Returns the time, for the same measurement to be shown again."""
        at = datetime.fromisoformat(at) if at else self.clock(self.meter.clock or 0) - timedelta(seconds=ago)
        self.shown = service_data(weight, at, unit, impedance, stable, removed)
        self.log("shows", hex=self.shown.hex())
        asyncio.ensure_future(self.advertise())
        return {"at": at.isoformat()}
