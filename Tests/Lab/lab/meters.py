"""Emulated meters: a definition becomes a GATT server that bonds, encrypts and answers like the real thing."""
import asyncio
import os
import struct
import time
from dataclasses import dataclass

from bumble import att, hci
from bumble.controller import Controller
from bumble.core import UUID, AdvertisingData
from bumble.device import DeviceConfiguration
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service
from bumble.host import Host
from bumble.pairing import PairingConfig, PairingDelegate
from bumble.transport.common import AsyncPipeSink

from . import cgm, wire
from .radio import MeterDevice

Properties = Characteristic.Properties
READ = att.Attribute.READ_REQUIRES_ENCRYPTION | att.Attribute.READABLE
WRITE = att.Attribute.WRITE_REQUIRES_ENCRYPTION | att.Attribute.WRITEABLE

REPORT, DELETE, ABORT, COUNT, COUNT_ANSWER, ANSWER = 1, 2, 3, 4, 5, 6
SUCCESS, OPCODE_UNKNOWN, OPERATOR_INVALID, OPERATOR_UNKNOWN, OPERAND_INVALID, NO_RECORDS, OPERAND_UNKNOWN = 1, 2, 3, 4, 5, 6, 9


@dataclass
class Sent:
    """One value that left a meter: enough to find its packet in the capture by its octets."""
    at: float                       # our monotonic clock
    meter: object                   # definitions.Meter
    opcode: int                     # ATT: 0x0B, 0x1B, 0x1D
    handle: int
    characteristic: int
    value: bytes
    record: object = None           # definitions.Glucose or Pressure


class Delegate(PairingDelegate):
    def __init__(self, emulation):
        super().__init__(PairingDelegate.DISPLAY_OUTPUT_ONLY if emulation.meter.passkey
                         else PairingDelegate.NO_OUTPUT_NO_INPUT)
        self.emulation = emulation

    async def generate_passkey(self):
        return int.from_bytes(os.urandom(4), "little") % 1_000_000

    async def display_number(self, number, digits):
        self.emulation.shown_passkey = number

    async def accept(self):
        return True


class Emulation:
    """A meter on the air. `clock()` gives the guest's time as a naive local datetime; `sent` collects what leaves."""

    def __init__(self, meter, air, clock, sent):
        self.meter, self.air, self.clock, self.sent = meter, air, clock, sent
        self.shown_passkey = None
        self.paired = asyncio.Event()
        self.abort = False
        self.transfer = None

    async def start(self):
        meter = self.meter
        self.controller = Controller(meter.name, link=self.air.link, public_address=meter.address)
        configuration = DeviceConfiguration()
        configuration.name = meter.name
        configuration.address = hci.Address(meter.address, hci.Address.RANDOM_DEVICE_ADDRESS)
        configuration.irk = os.urandom(16)
        configuration.identity_address_type = hci.Address.RANDOM_DEVICE_ADDRESS
        configuration.le_privacy_enabled = meter.private
        self.host = Host(self.controller, AsyncPipeSink(self.controller))
        self.device = MeterDevice(name=meter.name, config=configuration, host=self.host)
        self.device.gatt_server.max_mtu = meter.mtu
        self.device.pairing_config_factory = lambda connection: self.pairing()
        self.device.on("connection", self.on_connection)
        self.characteristics = {}
        for service in self.services():
            self.device.add_service(service)
        await self.device.power_on()
        await self.advertise()

    def pairing(self):
        return PairingConfig(identity_address_type=PairingConfig.AddressType.RANDOM, sc=True, mitm=self.meter.passkey,
                             bonding=True, delegate=Delegate(self))

    def advertisement(self):
        return bytes(AdvertisingData([
            (AdvertisingData.FLAGS, b"\x06"),
            (AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, struct.pack("<H", self.meter.service)),
            (AdvertisingData.COMPLETE_LOCAL_NAME, self.meter.name.encode())]))

    async def advertise(self, restarts=True):
        await self.device.start_advertising(advertising_data=self.advertisement(), auto_restart=restarts,
                                            advertising_interval_min=100, advertising_interval_max=100)

    async def stop(self):
        await self.device.power_off()

    # ---- the table of attributes

    def characteristic(self, number, properties, permissions, value):
        made = Characteristic(UUID.from_16_bits(number), properties, permissions, value)
        self.characteristics[number] = made
        return made

    # What takes a new time; None where the clock cannot be written.
    on_time_written = None

    @property
    def access(self):
        """What reading and writing need."""
        return READ, WRITE

    def reads(self, number, value, write=None):
        """A readable characteristic; `value` is octets or a function that makes them. `write` takes what is written."""
        def read(connection):
            octets = value() if callable(value) else value
            self.note(0x0B, number, octets)
            return octets
        may_read, may_write = self.access
        if write is None:
            return self.characteristic(number, Properties.READ, may_read, CharacteristicValue(read=read))
        return self.characteristic(number, Properties.READ | Properties.WRITE, may_read | may_write,
                                   CharacteristicValue(read=read, write=write))

    def services(self):
        meter, number = self.meter, UUID.from_16_bits
        identity = [(0x2A29, meter.manufacturer), (0x2A24, meter.model), (0x2A25, meter.serial)]
        identity = [self.reads(uuid, text.encode()) for uuid, text in identity if text]
        if identity:
            yield Service(number(0x180A), identity)
        if meter.battery is not None:
            yield Service(number(0x180F), [self.reads(0x2A19, bytes([meter.battery]))])
        if meter.clock is not None and meter.service != 0x181F:
            yield Service(number(0x1805), [self.reads(0x2A2B, lambda: wire.current_time(self.clock(meter.clock)),
                                                      self.on_time_written)])
        # bumble would add a configuration descriptor that anybody may write: ours wants what the values want.
        for service, own in self.own_services():
            for one in own:
                if one.properties & (Properties.NOTIFY | Properties.INDICATE):
                    one.descriptors = [*one.descriptors, Descriptor(
                        number(0x2902), self.access[0] | self.access[1], self.device.gatt_server.make_descriptor_value(one))]
            yield Service(number(service), own)

    def own_services(self):
        """Each service of its kind with its characteristics."""
        meter = self.meter
        if meter.service == 0x181F:
            own = cgm.characteristics(self, self.characteristic(
                0x2A52, Properties.WRITE | Properties.INDICATE, WRITE, CharacteristicValue(write=self.on_access_point)))
        elif meter.service == 0x1808:
            own = [self.characteristic(0x2A18, Properties.NOTIFY, 0, b""),
                   self.characteristic(0x2A34, Properties.NOTIFY, 0, b""),
                   self.reads(0x2A51, meter.feature),
                   self.characteristic(0x2A52, Properties.WRITE | Properties.INDICATE, WRITE,
                                       CharacteristicValue(write=self.on_access_point))]
        else:
            own = [self.characteristic(0x2A35, Properties.INDICATE, 0, b"")]
            if any(record.intermediate for record in meter.records):
                own.append(self.characteristic(0x2A36, Properties.NOTIFY, 0, b""))
            own.append(self.reads(0x2A49, meter.feature))
            self.device.gatt_server.on("characteristic_subscription", self.on_subscription)
        yield meter.service, own

    # ---- events

    def on_connection(self, connection):
        connection.on("pairing", lambda keys: self.paired.set())
        connection.on("disconnection", lambda reason: self.transfer and self.transfer.cancel())

    def on_subscription(self, connection, characteristic, notify, indicate):
        """Enabling the indication of a cuff starts its transfer."""
        if characteristic is self.characteristics[0x2A35] and indicate:
            self.transfer = asyncio.ensure_future(self.send_records(connection, self.meter.records))

    def on_access_point(self, connection, value):
        value = bytes(value)
        busy = self.transfer is not None and not self.transfer.done()
        if value[:1] == bytes([ABORT]) and busy:
            self.abort = True
            return
        if busy:
            raise att.ATT_Error(0xFE)      # procedure already in progress
        self.transfer = asyncio.ensure_future(self.answer(connection, value))

    def on_clock_set(self, value):
        pass

    def log(self, event, **more):
        pass

    def name_of(self, record):
        return None

    # ---- record access control point

    async def answer(self, connection, value):
        opcode, operator, operand = value[0], value[1] if len(value) > 1 else 0, value[2:]
        code, chosen = SUCCESS, []
        if opcode == ABORT:
            pass
        elif opcode not in (REPORT, COUNT):
            code = OPCODE_UNKNOWN
        else:
            code, chosen = self.select(operator, operand)
        if opcode == COUNT and code in (SUCCESS, NO_RECORDS):
            count = len({id(record) for record in chosen})       # one that is sent twice is one
            await self.send(connection, 0x2A52, struct.pack("<BBH", COUNT_ANSWER, 0, count))
            return
        if opcode == REPORT and code == SUCCESS:
            self.abort = False
            if not await self.send_records(connection, chosen):
                await self.send(connection, 0x2A52, bytes([ANSWER, 0, ABORT, SUCCESS]))
                return
        await self.send(connection, 0x2A52, bytes([ANSWER, 0, opcode, code]))

    def select(self, operator, operand):
        """The records that a request means, or why it means none."""
        records = self.meter.records
        simple = {1: records, 5: records[:1], 6: records[-1:]}
        if operator in simple:
            chosen = simple[operator]
            if operand:
                return OPERAND_INVALID, []
        elif operator in (2, 3, 4):
            if operand[:1] != b"\x01":
                return OPERAND_UNKNOWN if operand else OPERAND_INVALID, []
            if len(operand) != (5 if operator == 4 else 3):
                return OPERAND_INVALID, []
            numbers = struct.unpack("<HH" if operator == 4 else "<H", operand[1:])
            low, high = {2: (0, numbers[0]), 3: (numbers[0], 0xFFFF), 4: (numbers[0], numbers[-1])}[operator]
            if low > high:
                return OPERAND_INVALID, []
            chosen = [record for record in records if low <= record.sequence <= high]
        else:
            return OPERATOR_INVALID if operator == 0 else OPERATOR_UNKNOWN, []
        return (SUCCESS if chosen else NO_RECORDS), chosen

    # ---- sending

    def note(self, opcode, characteristic, value, record=None):
        # bumble's characteristic.handle is the value handle
        handle = self.characteristics[characteristic].handle
        self.sent.append(Sent(time.monotonic(), self.meter, opcode, handle, characteristic, value, record))

    async def send(self, connection, characteristic, value, record=None):
        attribute, server = self.characteristics[characteristic], self.device.gatt_server
        configured = server.subscribers.get(connection, {}).get(attribute.handle, b"\0\0")[0]
        if attribute.properties & Properties.NOTIFY and configured & 1:
            self.note(0x1B, characteristic, value, record)
            await server.notify_subscriber(connection, attribute, value)
        elif attribute.properties & Properties.INDICATE and configured & 2:
            self.note(0x1D, characteristic, value, record)
            await server.indicate_subscriber(connection, attribute, value)

    def parcels(self, records):
        """What leaves the device together."""
        return cgm.together(self.meter, records) if self.meter.service == 0x181F else records

    async def send_records(self, connection, records):
        """Sends them; False if the collector aborted."""
        records = self.parcels(records)
        for count, record in enumerate(records):
            if count == self.meter.drop_after:
                await asyncio.sleep(0.3)           # what is on its way arrives
                await connection.disconnect()
                raise asyncio.CancelledError
            for characteristic, value in record.frames():
                if self.abort:
                    self.abort = False
                    return False
                await self.send(connection, characteristic, value, record)
                await asyncio.sleep(self.meter.pace)
        return True
