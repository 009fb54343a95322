#!/usr/bin/env python3
"""Stands for bluetoothd on a private bus, with bonded glucose meters and with strangers that advertise.

  bluetoothd.py ADDRESS METERS

Commands come as lines on standard input, and each is answered with a line of JSON when it is done:

  strangers RATE SECONDS NEW    RATE advertisements a second, NEW of a hundred from an address that is new. The others come from
                                strangers that the daemon knows. As many are known as came in five seconds, at least 200; for each
                                new one the oldest is forgotten.
  heard METER                   a bonded meter is heard; a gateway that listens connects to it. Answered when it has
                                disconnected, with the seconds that passed.

What it sends has the shape of bluetoothd 5.66: the address, the name and what a device advertises come with InterfacesAdded,
and a change of the signal's strength and of the manufacturer's data with PropertiesChanged.
"""
import collections
import datetime
import json
import os
import select
import sys
import time

import bus

OBJECTS, PROPERTIES = "org.freedesktop.DBus.ObjectManager", "org.freedesktop.DBus.Properties"
ADAPTER, DEVICE = "org.bluez.Adapter1", "org.bluez.Device1"
SERVICE, CHARACTERISTIC = "org.bluez.GattService1", "org.bluez.GattCharacteristic1"
HCI = "/org/bluez/hci0"
BASE = "-0000-1000-8000-00805f9b34fb"
# A meter's services: the first handle, the UUID, and its characteristics with handle, UUID, flags and value.
GATT = [
    (0x10, "180a", [(0x11, "2a29", ["read"], b"Roche"), (0x13, "2a24", ["read"], b"932"), (0x15, "2a25", ["read"], None)]),
    (0x18, "1808", [(0x19, "2a18", ["notify"], b""), (0x1C, "2a34", ["notify"], b""), (0x1F, "2a51", ["read"], b"\x7b\x04"),
                    (0x21, "2a52", ["write", "indicate"], b"")]),
]


def address(number, kind):
    """An address by its number: of a meter, or of a stranger."""
    return f"{kind}:{number >> 32 & 0xFF:02X}:{number >> 24 & 0xFF:02X}:" + ":".join(
        f"{number >> shift & 0xFF:02X}" for shift in (16, 8, 0))


def path(text):
    return f"{HCI}/dev_" + text.replace(":", "_")


class Daemon:
    def __init__(self, where, meters):
        self.connection = bus.Connection(where)
        self.objects = {"/org/bluez": {"org.bluez.AgentManager1": {}}, HCI: {ADAPTER: {
            "Address": ("s", "AA:BB:CC:00:00:01"), "AddressType": ("s", "public"), "Name": ("s", "bench"),
            "Powered": ("b", True), "Discovering": ("b", False)}}}
        self.meters = [path(address(number, "C0")) for number in range(meters)]
        for number, each in enumerate(self.meters):
            self.add_meter(number, each)
        self.commands, self.sent, self.ended = b"", 0, set()
        self.numbers = 0
        self.known = collections.deque()
        answer = self.connection.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
                                      "su", "org.bluez", 4)
        assert answer == [1], answer

    def add_meter(self, number, meter):
        text = address(number, "C0")
        self.objects[meter] = {DEVICE: {
            "Address": ("s", text), "AddressType": ("s", "random"), "Name": ("s", f"meter+{number:08}"),
            "Alias": ("s", f"meter+{number:08}"), "Paired": ("b", True), "Bonded": ("b", True), "Trusted": ("b", True),
            "Connected": ("b", False), "ServicesResolved": ("b", False), "Adapter": ("o", HCI),
            "UUIDs": ("as", [f"0000{service}{BASE}" for _, service, _ in GATT])}}
        # The daemon shows a bonded device's attributes as it has kept them.
        for handle, service, characteristics in GATT:
            place = f"{meter}/service{handle:04x}"
            self.objects[place] = {SERVICE: {"UUID": ("s", f"0000{service}{BASE}"), "Device": ("o", meter), "Primary": ("b", True)}}
            for own, uuid, flags, value in characteristics:
                self.objects[f"{place}/char{own:04x}"] = {CHARACTERISTIC: {
                    "UUID": ("s", f"0000{uuid}{BASE}"), "Service": ("o", place), "Flags": ("as", flags), "Notifying": ("b", False),
                    "Value": ("ay", f"{number:08}".encode() if value is None else value)}}

    # What is told.

    def change(self, place, interface, changed, invalidated=()):
        own = self.objects.get(place, {}).get(interface)
        if own is not None:
            own.update(changed)
            for name in invalidated:
                own.pop(name, None)
        self.connection.signal(place, PROPERTIES, "PropertiesChanged", "sa{sv}as", interface, changed, list(invalidated))

    def serve(self, until=None):
        """Answers until a moment, or until a command has come."""
        while True:
            self.connection.flush()
            rest = None if until is None else until - time.monotonic()
            if rest is not None and rest <= 0:
                return None
            sources = [self.connection.socket] + ([sys.stdin.fileno()] if until is None else [])
            if b"\n" in self.commands and until is None:
                line, self.commands = self.commands.split(b"\n", 1)
                return line.decode()
            ready = select.select(sources, [], [], rest)[0]
            if self.connection.socket in ready:
                for message in self.connection.messages(0):
                    if message["kind"] == bus.CALL:
                        self.take(message)
            if until is None and sys.stdin.fileno() in ready:
                octets = os.read(0, 4096)
                if not octets:
                    return None
                self.commands += octets

    def take(self, message):
        fields, body = message["fields"], message["body"]
        place, member = fields[bus.PATH], fields[bus.MEMBER]
        interface, answer = fields.get(bus.INTERFACE), self.connection.answer
        if member == "GetManagedObjects":
            return answer(message, "a{oa{sa{sv}}}", self.objects)
        if member == "Introspect":
            below = {each[len(place) + 1:].split("/")[0] for each in self.objects if each.startswith(place + "/")}
            return answer(message, "s", "<node>" + "".join(f'<node name="{each}"/>' for each in sorted(below)) + "</node>")
        if interface == PROPERTIES:
            own = self.objects.get(place, {}).get(body[0])
            if own is None:
                return self.connection.refuse(message, "org.freedesktop.DBus.Error.InvalidArgs", "No such interface")
            if member == "GetAll":
                return answer(message, "a{sv}", own)
            if member == "Get":
                if body[1] not in own:
                    return self.connection.refuse(message, "org.freedesktop.DBus.Error.InvalidArgs", "No such property")
                return answer(message, "v", own[body[1]])
            self.change(place, body[0], {body[1]: body[2]})
            return answer(message)
        if member in ("StartDiscovery", "StopDiscovery"):
            self.change(HCI, ADAPTER, {"Discovering": ("b", member == "StartDiscovery")})
        elif member == "Connect":
            self.change(place, DEVICE, {"Connected": ("b", True)})
            answer(message)
            return self.change(place, DEVICE, {"ServicesResolved": ("b", True)})
        elif member == "Disconnect":
            self.change(place, DEVICE, {"ServicesResolved": ("b", False)}, ["RSSI"])
            self.change(place, DEVICE, {"Connected": ("b", False)})
            self.ended.add(place)
        elif member == "ReadValue":
            return answer(message, "ay", self.objects[place][CHARACTERISTIC]["Value"][1])
        elif member in ("StartNotify", "StopNotify"):
            self.change(place, CHARACTERISTIC, {"Notifying": ("b", member == "StartNotify")})
        elif member == "WriteValue":
            answer(message)
            return self.records(place, body[0])
        return answer(message)

    def records(self, control, request):
        """Answers the record access control point: one new record, whose number is the contact's."""
        def tell(octets, where):
            self.connection.signal(where, PROPERTIES, "PropertiesChanged", "sa{sv}as", CHARACTERISTIC,
                                   {"Value": ("ay", octets)}, [])
        self.numbers += request[0] == 1
        if request[0] == 4:
            return tell(bytes([5, 0, 1, 0]), control)
        if request[0] != 1:
            return tell(bytes([6, 0, request[0], 2]), control)
        now = datetime.datetime.now() - datetime.timedelta(minutes=2)
        number = 1000 + self.numbers
        record = bytes([3, number & 0xFF, number >> 8, now.year & 0xFF, now.year >> 8, now.month, now.day, now.hour, now.minute,
                        now.second, 0, 0, 40 + self.numbers % 200, 0xB0, 0x11])
        tell(record, control.replace("char0021", "char0019"))
        tell(bytes([6, 0, 1, 1]), control)

    # Commands.

    def advertise(self, isNew):
        """One advertisement of a stranger."""
        self.sent += 1
        data = ("a{qv}", {0x004C: ("ay", self.sent.to_bytes(8, "little") + bytes(16))})
        rssi = ("n", -40 - self.sent % 50)
        if not isNew:
            place = self.known[self.sent % len(self.known)]
            return self.change(place, DEVICE, {"RSSI": rssi, "ManufacturerData": data})
        self.stranger += 1
        text = address(self.stranger, "5A")
        place = path(text)
        self.known.append(place)
        self.connection.signal("/", OBJECTS, "InterfacesAdded", "oa{sa{sv}}", place, {
            "org.freedesktop.DBus.Introspectable": {}, DEVICE: {
                "Address": ("s", text), "AddressType": ("s", "random"), "Alias": ("s", text.replace(":", "-")),
                "Paired": ("b", False), "Bonded": ("b", False), "Trusted": ("b", False), "Blocked": ("b", False),
                "LegacyPairing": ("b", False), "RSSI": rssi, "Connected": ("b", False), "UUIDs": ("as", []), "Adapter": ("o", HCI),
                "ManufacturerData": data, "ServicesResolved": ("b", False)}, PROPERTIES: {}})
        if len(self.known) > self.most:
            self.connection.signal("/", OBJECTS, "InterfacesRemoved", "oas", self.known.popleft(), [
                "org.freedesktop.DBus.Properties", "org.freedesktop.DBus.Introspectable", DEVICE])

    stranger = 0
    most = 200

    def strangers(self, rate, seconds, new):
        self.most = max(200, rate * 5 * new // 100)
        while len(self.known) < 200:
            self.advertise(True)
        self.sent = 0
        begin, latest, shares = time.monotonic(), 0.0, 0
        for number in range(rate * seconds):
            due = begin + number / rate
            latest = max(latest, time.monotonic() - due)
            if due > time.monotonic():
                self.serve(due)
            shares += new
            self.advertise(shares >= 100)
            shares %= 100
        self.connection.flush()
        return {"sent": self.sent, "seconds": time.monotonic() - begin, "latest": latest, "strangers": self.stranger}

    def heard(self, number):
        meter = self.meters[number]
        self.ended.discard(meter)
        begin = time.monotonic()
        self.change(meter, DEVICE, {"RSSI": ("n", -50)})
        while meter not in self.ended and time.monotonic() - begin < 30:
            self.serve(time.monotonic() + 0.02)
        return {"seconds": time.monotonic() - begin, "ended": meter in self.ended}

    def run(self):
        print(json.dumps({"ready": True}), flush=True)
        while (line := self.serve()) is not None:
            name, *given = line.split()
            done = getattr(self, {"strangers": "strangers", "heard": "heard"}[name])(*map(int, given))
            print(json.dumps(done), flush=True)


if __name__ == "__main__":
    Daemon(sys.argv[1], int(sys.argv[2])).run()
