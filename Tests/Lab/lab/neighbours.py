"""Who else is in the air: strangers that advertise, and a second host that pairs with a meter of ours."""
import asyncio
import os
import random
import struct

from bumble import hci, ll
from bumble.controller import Controller
from bumble.core import AdvertisingData
from bumble.device import Device, DeviceConfiguration
from bumble.host import Host
from bumble.pairing import PairingConfig, PairingDelegate
from bumble.transport.common import AsyncPipeSink


class Strangers:
    """Devices that only advertise: no more of them exists than what reaches the guest's controller."""

    def __init__(self, air):
        self.air, self.task = air, None

    def start(self, count, interval=1.0, seed=1, malformed=False):
        """Each is heard once in `interval` seconds; `malformed`: what they say is no list of advertising data."""
        self.stop()
        source = random.Random(seed)
        packets = [ll.AdvInd(hci.Address(bytes(source.randbytes(5)) + bytes([0xC0 | source.randint(0, 0x3F)]),
                                         hci.Address.RANDOM_DEVICE_ADDRESS),
                             self.rubbish(source) if malformed else self.data(index, source)) for index in range(count)]
        self.task = asyncio.ensure_future(self.run(packets, interval))

    @staticmethod
    def data(index, source):
        return bytes(AdvertisingData([
            (AdvertisingData.FLAGS, b"\x06"), (AdvertisingData.COMPLETE_LOCAL_NAME, f"Stranger {index}".encode()),
            (AdvertisingData.MANUFACTURER_SPECIFIC_DATA, struct.pack("<H", 0x004C) + source.randbytes(6))]))

    @staticmethod
    def rubbish(source):
        """Lengths that reach beyond the end, zero lengths, names that are no UTF-8, half of a service's number."""
        return source.choice([
            source.randbytes(source.randint(0, 31)), b"\x1f\x09", b"\x00" * 31, b"\x02\x01", b"\x05\x09\xff\xfe\xc0\x80",
            b"\x02\x03\x08", b"\x04\x03\x08\x18\x10", b"\x03\x19\xff\xff\x01", b"\x1e\xff" + source.randbytes(29)])

    async def run(self, packets, interval):
        while True:
            for packet in packets:
                self.air.controller.on_ll_advertising_pdu(packet)
                await asyncio.sleep(interval / len(packets))

    def stop(self):
        if self.task:
            self.task.cancel()
            self.task = None


class Phone(PairingDelegate):
    """Its user types what the meter shows."""

    def __init__(self, meter):
        super().__init__(PairingDelegate.DISPLAY_OUTPUT_AND_KEYBOARD_INPUT)
        self.meter = meter

    async def get_number(self):
        while self.meter.shown_passkey is None:
            await asyncio.sleep(0.02)
        return self.meter.shown_passkey


async def pair_with_second_host(air, meter, timeout=30):
    """Bonds a meter with a phone, and leaves."""
    address = f"F0:00:00:00:00:{os.urandom(1).hex().upper()}"
    controller = Controller("phone", link=air.link, public_address=address)
    configuration = DeviceConfiguration(name="phone", address=hci.Address(address, hci.Address.RANDOM_DEVICE_ADDRESS),
                                        irk=os.urandom(16))
    phone = Device(name="phone", config=configuration, host=Host(controller, AsyncPipeSink(controller)))
    phone.pairing_config_factory = lambda connection: PairingConfig(
        identity_address_type=PairingConfig.AddressType.RANDOM, delegate=Phone(meter))
    try:
        await phone.power_on()
        connection = await asyncio.wait_for(phone.connect(
            hci.Address(meter.meter.address, hci.Address.RANDOM_DEVICE_ADDRESS)), timeout)
        await asyncio.wait_for(connection.pair(), timeout)
        await connection.disconnect()
    finally:
        await phone.power_off()
        air.link.remove_controller(controller)
