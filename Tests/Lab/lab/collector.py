"""The collector: an application on top of the guest's bluetoothd, as the gateway is one. It writes nothing down;
the capture beside it does."""
import asyncio
import os
import time

from dbus_fast import BusType, DBusError, Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.auth import AuthExternal
from dbus_fast.service import ServiceInterface, method

ADAPTER, DEVICE, CHARACTERISTIC = "org.bluez.Adapter1", "org.bluez.Device1", "org.bluez.GattCharacteristic1"
HCI0 = "/org/bluez/hci0"


class Agent(ServiceInterface):
    """Types in what the meter shows. BlueZ wants an agent for Just Works too."""

    def __init__(self, passkey):
        super().__init__("org.bluez.Agent1")
        self.passkey = passkey

    @method()
    def Release(self): pass

    @method()
    async def RequestPasskey(self, device: "o") -> "u":
        while (shown := self.passkey()) is None:
            await asyncio.sleep(0.05)
        return shown

    @method()
    def DisplayPasskey(self, device: "o", passkey: "u", entered: "q"): pass

    @method()
    def RequestConfirmation(self, device: "o", passkey: "u"): pass

    @method()
    def RequestAuthorization(self, device: "o"): pass

    @method()
    def AuthorizeService(self, device: "o", uuid: "s"): pass

    @method()
    def Cancel(self): pass


class Collector:
    def __init__(self, bus_address, passkey):
        self.bus_address, self.passkey = bus_address, passkey
        self.values = asyncio.Queue()

    async def open(self, timeout=120, agent=True):
        """Connects to the guest's bus, waits until the adapter is powered, and answers for whoever pairs (`agent`)."""
        end = time.monotonic() + timeout
        while True:
            try:       # qemu accepts before the guest listens: short time-outs, and again
                # The guest's bus sees a user with our number.
                bus = MessageBus(bus_address=self.bus_address, bus_type=BusType.SYSTEM, auth=AuthExternal(os.getuid()))
                self.bus = await asyncio.wait_for(bus.connect(), 1.5)
                if await self.get(HCI0, ADAPTER, "Powered", timeout=2):
                    break
                self.bus.disconnect()
            except Exception as error:      # whatever a half-open bus throws
                last = error
            if time.monotonic() > end:
                raise TimeoutError(f"bluetoothd did not come up: {last!r}")
            await asyncio.sleep(0.3)
        self.bus.add_message_handler(self.on_message)
        await self.bus.call(Message(destination="org.freedesktop.DBus", path="/org/freedesktop/DBus",
                                    interface="org.freedesktop.DBus", member="AddMatch", signature="s",
                                    body=["type='signal',sender='org.bluez'"]))
        if not agent:
            return
        self.bus.export("/agent", Agent(self.passkey))
        await self.call("/org/bluez", "org.bluez.AgentManager1", "RegisterAgent", "os", ["/agent", "KeyboardDisplay"])
        await self.call("/org/bluez", "org.bluez.AgentManager1", "RequestDefaultAgent", "o", ["/agent"])

    def close(self):
        self.bus.disconnect()

    def on_message(self, message):
        if (message.message_type == MessageType.SIGNAL and message.member == "PropertiesChanged"
                and message.body[0] == CHARACTERISTIC and "Value" in message.body[1]):
            self.values.put_nowait((message.path, bytes(message.body[1]["Value"].value)))

    async def call(self, path, interface, member, signature="", body=(), timeout=60):
        answer = await asyncio.wait_for(self.bus.call(Message(
            destination="org.bluez", path=path, interface=interface, member=member, signature=signature,
            body=list(body))), timeout)
        if answer.message_type == MessageType.ERROR:
            raise DBusError(answer.error_name, str(answer.body[0]) if answer.body else "")
        return answer.body[0] if answer.body else None

    async def get(self, path, interface, name, timeout=60):
        return (await self.call(path, "org.freedesktop.DBus.Properties", "Get", "ss", [interface, name], timeout)).value

    async def objects(self):
        return await self.call("/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")

    async def until(self, condition, what, timeout=40):
        end = time.monotonic() + timeout
        while not (result := await condition()):
            if time.monotonic() > end:
                raise TimeoutError(what)
            await asyncio.sleep(0.05)
        return result

    # ---- what a collector does

    async def find(self, name):
        """Scans until a device of that name shows; its object path."""
        await self.call(HCI0, ADAPTER, "SetDiscoveryFilter", "a{sv}", [{"Transport": Variant("s", "le")}])
        await self.call(HCI0, ADAPTER, "StartDiscovery")

        async def seen():
            for path, interfaces in (await self.objects()).items():
                device = interfaces.get(DEVICE, {})
                if device.get("Name") and device["Name"].value == name:
                    return path
        path = await self.until(seen, f"{name} does not advertise")
        await self.call(HCI0, ADAPTER, "StopDiscovery")
        return path

    async def resolved(self, path):
        await self.until(lambda: self.get(path, DEVICE, "ServicesResolved"), "services are not resolved")

    async def pair(self, path):
        await self.call(path, DEVICE, "Pair")
        await self.resolved(path)

    async def connect(self, path):
        """Right after a disconnect BlueZ may refuse: again."""
        for attempt in range(20):
            try:
                await self.call(path, DEVICE, "Connect")
                break
            except DBusError:
                await asyncio.sleep(0.3)
        await self.resolved(path)

    async def disconnect(self, path):
        if await self.get(path, DEVICE, "Connected"):
            await self.call(path, DEVICE, "Disconnect")

    async def characteristics(self, path):
        """Object paths by 16-bit number."""
        return {int(interfaces[CHARACTERISTIC]["UUID"].value[4:8], 16): each
                for each, interfaces in (await self.objects()).items()
                if each.startswith(path + "/") and CHARACTERISTIC in interfaces}

    async def read(self, path):
        """ServicesResolved can come before BlueZ is ready to read; it then says 0x0e without asking the device."""
        for attempt in range(10):
            try:
                return bytes(await self.call(path, CHARACTERISTIC, "ReadValue", "a{sv}", [{}]))
            except DBusError as error:
                if "0x0e" not in error.text or attempt == 9:
                    raise
                await asyncio.sleep(0.3)

    async def start_notify(self, path):
        await self.call(path, CHARACTERISTIC, "StartNotify")

    async def request(self, path, value):
        await self.call(path, CHARACTERISTIC, "WriteValue", "aya{sv}", [value, {"type": Variant("s", "request")}])

    async def command(self, path, value):
        await self.call(path, CHARACTERISTIC, "WriteValue", "aya{sv}", [value, {"type": Variant("s", "command")}])

    async def value(self, paths, timeout=15):
        """The next notification of one of these, whatever else comes is passed by."""
        while True:
            path, value = await asyncio.wait_for(self.values.get(), timeout)
            if path in paths:
                return path, value
