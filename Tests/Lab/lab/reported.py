"""A device as a report of `healthrelay devices report` describes it: it has the same table, and says what it said then.

A read is answered with what was read then. What is written decides what the device sends: that which followed the same write in
the report, and of a request for records, whatever its filter, that which followed the first one. What it sent when a
characteristic was enabled, it sends when that is enabled.
"""
import asyncio

from bumble import att
from bumble.core import UUID, AdvertisingData
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service

from .definitions import Meter
from .documents import Unclear
from .live import LiveMeter
from .meters import ANSWER, OPCODE_UNKNOWN, READ, REPORT, WRITE, Properties
from .own import OPEN

KIND, VERSION = "healthrelay.device_report", 1
ACCESS_POINT = "2a52"
NAMES = {"broadcast": Properties.BROADCAST, "read": Properties.READ, "write": Properties.WRITE,
         "write-without-response": Properties.WRITE_WITHOUT_RESPONSE, "notify": Properties.NOTIFY,
         "indicate": Properties.INDICATE}
READ_NOT_PERMITTED = 0x02
WRITES = ("write", "command")
# The longest that anything waits for its time in the report, in seconds.
LONGEST_PAUSE = 0.05


def uuid(text):
    return UUID.from_16_bits(int(text, 16)) if len(text) == 4 else UUID(text)


def definition(report, address=None):
    """What a report's device is called, and where it is."""
    if report.get("report") != KIND or report.get("version") != VERSION:
        raise Unclear(f"this is no {KIND} of version {VERSION}")
    advertised = report["advertisement"]
    services = [int(each, 16) for each in advertised["services"] if len(each) == 4]
    # Its address is made up, and random static whatever it was.
    address = address or advertised["address"] or "C0:00:00:00:00:01"
    address = f"{int(address[:2], 16) | 0xC0:02X}{address[2:]}"
    return Meter(name=advertised["name"] or "reported", address=address, service=(services or [0x1800])[0], records=[], mtu=247)


class Reported(LiveMeter):
    """A device of a test."""

    def __init__(self, report, behaviour, air, address=None):
        super().__init__(definition(report, address), behaviour, air)
        self.report, self.steps = report, report["steps"]
        self.names = {each["handle"]: each["uuid"] for each in report["characteristics"]}
        self.cursor = 0

    # ---- the device

    def advertisement(self):
        if self.behaviour.advertising_data is not None:
            return bytes.fromhex(self.behaviour.advertising_data)
        advertised = self.report["advertisement"]
        parts = [(AdvertisingData.FLAGS, b"\x06")]
        short = b"".join(int(each, 16).to_bytes(2, "little") for each in advertised["services"] if len(each) == 4)
        name = self.meter.name.encode()
        if short and len(short) + len(name) + 7 <= 31:
            parts.append((AdvertisingData.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS, short))
        parts.append((AdvertisingData.COMPLETE_LOCAL_NAME, name[:26]))
        return bytes(AdvertisingData(parts))

    def services(self):
        read, write = (READ, WRITE) if self.report["paired"] else (OPEN, OPEN)
        self.by_handle, table = {}, []
        for each in self.report["characteristics"]:
            if each["service"] in (None, "1800", "1801"):
                continue                       # the host's side of these is bumble's
            properties = Properties(0)
            for name in each["properties"] or ():
                properties |= NAMES.get(name, Properties(0))
            made = Characteristic(uuid(each["uuid"]), properties, read | write, self.value(each["handle"]))
            if properties & (Properties.NOTIFY | Properties.INDICATE):
                made.descriptors = [Descriptor(UUID.from_16_bits(0x2902), read | write,
                                               self.device.gatt_server.make_descriptor_value(made))]
            self.by_handle[each["handle"]] = made
            if not table or table[-1][0] != each["service"]:
                table.append((each["service"], []))
            table[-1][1].append(made)
        self.device.gatt_server.on("characteristic_subscription", self.on_subscription)
        for service, characteristics in table:
            yield Service(uuid(service), characteristics)

    def value(self, handle):
        return CharacteristicValue(read=lambda connection: self.on_read(handle),
                                   write=lambda connection, octets: self.on_write(connection, handle, bytes(octets)))

    def on_connection(self, connection):
        super().on_connection(connection)
        self.cursor = 0

    # ---- what it says

    def refused(self, step):
        if "refused" in step:
            raise att.ATT_Error(step["refused"])

    def on_read(self, handle):
        self.log("read", characteristic=self.names[handle])
        read = next((each for each in self.steps if each["do"] == "read" and each["handle"] == handle), {})
        self.refused(read)
        if "octets" not in read:
            raise att.ATT_Error(READ_NOT_PERMITTED)
        return bytes.fromhex(read["octets"])

    def find(self, wanted):
        """The next step that is wanted, or else the first; where it stands."""
        places = [place for place, each in enumerate(self.steps) if wanted(each)]
        return next((place for place in places if place >= self.cursor), places[0] if places else None)

    def on_write(self, connection, handle, octets):
        self.log("asked", hex=octets.hex(), characteristic=self.names[handle])
        is_report = self.names[handle] == ACCESS_POINT and octets[:1] == bytes([REPORT])
        writes = lambda each: each["do"] in WRITES and each["handle"] == handle
        place = self.find(lambda each: writes(each) and each["octets"] == octets.hex())
        if place is None and is_report:
            place = self.find(lambda each: writes(each) and each["octets"][:2] == f"{REPORT:02x}" and "refused" not in each)
        if place is None:
            if self.names[handle] == ACCESS_POINT:
                refusal = bytes([ANSWER, 0, octets[0] if octets else 0, OPCODE_UNKNOWN])
                self.follow(connection, [{"ms": 0, "handle": handle, "octets": refusal.hex()}])
            return
        self.refused(self.steps[place])
        self.cursor = place + 1
        self.follow(connection, self.values_behind(place))

    def values_behind(self, place):
        """What it sent behind a step, before it was asked for something else."""
        found = []
        for each in self.steps[place + 1:]:
            if each["do"] in WRITES:
                break
            if each["do"] == "value":
                found.append(each)
        return found

    def on_subscription(self, connection, characteristic, notify, indicate):
        handle = next((handle for handle, made in self.by_handle.items() if made is characteristic), None)
        if handle is None or not (notify or indicate):
            return
        place = self.find(lambda each: each["do"] == "enable" and each["handle"] == handle)
        if place is None:
            return
        # Of several that were enabled, each brings its own.
        self.follow(connection, [each for each in self.values_behind(place) if each["handle"] == handle])

    def follow(self, connection, values):
        if values:
            before = self.transfer
            self.transfer = asyncio.ensure_future(self.send_values(connection, values, before))

    async def send_values(self, connection, values, before):
        if before is not None and not before.done():
            await asyncio.wait([before])
        last = values[0]["ms"]
        for each in values:
            await asyncio.sleep(min(max(each["ms"] - last, 2) / 1000, LONGEST_PAUSE))
            last = each["ms"]
            if self.connection is not connection:
                return
            made, octets = self.by_handle[each["handle"]], bytes.fromhex(each["octets"])
            configured = self.device.gatt_server.subscribers.get(connection, {}).get(made.handle, b"\0\0")[0]
            if configured & 1 and made.properties & Properties.NOTIFY:
                await self.device.gatt_server.notify_subscriber(connection, made, octets)
            elif configured & 2:
                await self.device.gatt_server.indicate_subscriber(connection, made, octets)
            else:
                self.log("not_wanted", characteristic=self.names[each["handle"]])
                continue
            self.log("sent", characteristic=self.names[each["handle"]], hex=each["octets"])
