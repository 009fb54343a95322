"""The people's meters: when each measures, what it shows, and what the gateway must know of it in the end."""
import asyncio
import random
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from decimal import Decimal

from lab import wire
from lab.definitions import Continuous, Glucose, Meter, Pressure
from lab.makers import kind_of
from lab.radio import lose
from lab.vitals import SCALE, Weight

# The meters' clocks know no summer time.
ZONE = timezone(timedelta(hours=1))
SESSION = timedelta(days=14)
EVERY = 5                               # minutes from one of the sensor's values to the next
# How long a contact may take by the machine's clock, in seconds. A busy machine is slow.
CONTACT = 90
# How long a link may stay when everything was read, in the same seconds. A kernel that has just failed to call off a connection
# leaves the next wish to end it without an answer, until the device is out of reach.
LINK = 10


def number(text):
    return str(Decimal(text).normalize())


def told(document):
    """What tells measurements apart, of a reading's document; with the time that it was given."""
    kind, base = document["kind"], document["base_time"]
    parts = {"glucose": lambda: (document["glucose"]["value"],), "weight": lambda: (document["weight"]["value"],),
             "blood_pressure": lambda: [document["blood_pressure"][each]["value"] for each in ("systolic", "diastolic")]}[kind]()
    return (document["device"]["address"], document.get("sequence"), base, *map(lambda each: number(str(each)), parts)), document["time"]


class Device:
    """A meter of the home on the lab's air."""

    def __init__(self, home, definition, drift, **behaviour):
        self.home, self.drift = home, drift
        kind = kind_of(definition)
        manners = kind.Manners()
        manners.change({"advertises": "until_bonded"} | behaviour)
        self.live = kind(definition, manners, home.air, clock=self.shown)
        self.live.sent = Forgetful()
        # Several of a sensor's values leave it together.
        self.live.name_of = lambda record: [id(each) for each in getattr(record, "records", [record])]
        # What it has measured, as `told` says it, with the true time.
        self.measured = {}
        self.fresh = []

    @property
    def address(self):
        return self.live.meter.address

    def shown(self, ahead, moment=None):
        """What its clock shows: naive and local to it."""
        moment = moment or self.home.clock.now()
        return (moment.astimezone(ZONE) + timedelta(seconds=ahead)).replace(tzinfo=None, microsecond=0)

    def note(self, key, moment):
        if key in self.measured:
            raise AssertionError(f"the plan has {key} twice")
        self.measured[key] = moment

    def measure(self, moment):
        """A measurement at a moment of the past."""
        record, key = self.make(self.shown(self.live.meter.clock, moment))
        self.note((self.address, *key), moment)
        self.live.add([record])
        self.fresh.append(record)

    def make(self, shown):
        raise NotImplementedError

    async def press(self):
        """Its button. bumble fails where its advertising is being stopped already."""
        for _ in range(5):
            try:
                return await self.live.press()
            except KeyError:
                await asyncio.sleep(0.3)

    def is_silent(self):
        return self.live.connection is None and not self.live.awake and not self.live.device.is_advertising

    def forget(self):
        """What is long read leaves its memory."""
        held = self.live.meter.records
        self.live.meter.records[:] = held[-200:]
        self.live.ever[:] = self.live.meter.records
        self.live.events.clear()

    def drifts(self):
        self.live.meter.clock += self.drift

    def falls_back(self):
        """Its battery was changed: its clock begins with the year 2000."""
        self.live.meter.clock = round((datetime(2000, 1, 1) - self.shown(0)).total_seconds())

    def is_set(self):
        self.live.meter.clock = 0

    def has_given(self):
        """Whether everything new has left it, and the link is down again."""
        events = self.live.events
        sent = {name for each in events if each["event"] == "sent" for name in each.get("record", ())}
        return (all(id(each) in sent for each in self.fresh) and self.live.connection is None
                and any(each["event"] == "disconnected" for each in events))


class Forgetful(list):
    """The lab notes every value for its recordings. Nobody reads them here."""

    def append(self, each):
        pass


class GlucoseMeter(Device):
    def __init__(self, home):
        super().__init__(home, Meter(
            name="meter+12345678", address="C0:00:00:00:18:08", service=0x1808, records=[], manufacturer="Roche", model="925",
            serial="GM-0815", battery=80, clock=0, pace=0.002, passkey=True), drift=8)
        self.sequence = 0

    def make(self, shown):
        self.sequence += 1
        value = str(self.home.source.randint(60, 300))
        return Glucose(self.sequence, shown, value, offset=0, status=()), (self.sequence, shown.isoformat(), number(value))


class Cuff(Device):
    def __init__(self, home):
        super().__init__(home, Meter(
            name="Cuff upstairs", address="C0:00:00:00:18:10", service=0x1810, records=[], manufacturer="Example", model="UA-1",
            serial="BP-0815", battery=70, clock=0, pace=0.002), drift=-3, deletes_confirmed=True, leaves_when_done=True)

    def make(self, shown):
        high, low = str(self.home.source.randint(95, 180)), str(self.home.source.randint(50, 94))
        pulse = str(self.home.source.randint(45, 120))
        return Pressure(high, low, "NaN", at=shown, pulse=pulse), (None, shown.isoformat(), number(high), number(low))


class Balance(Device):
    def __init__(self, home):
        super().__init__(home, Meter(
            name="Scale", address="C0:00:00:00:18:1D", service=SCALE, records=[], manufacturer="Example", model="BC-1",
            serial="SC-0815", battery=60, clock=0, pace=0.002), drift=1, deletes_confirmed=True, leaves_when_done=True)

    def make(self, shown):
        value = str(Decimal(self.home.source.randint(14000, 17000)) * Decimal("0.005"))
        return Weight(value, at=shown), (None, shown.isoformat(), number(value))


class Sensor(Device):
    """A continuous glucose sensor: a session of fourteen days after the other, with the same transmitter."""

    def __init__(self, home):
        super().__init__(home, Meter(
            name="TestCGM", address="C0:00:00:00:18:1F", service=0x181F, records=[], manufacturer="Example", model="CGM-3",
            serial="CGM3-0815", battery=91, mtu=185, clock=0, checksums=True, together=3, pace=0.002,
            passkey=True), drift=0)
        self.began = self.known_start = None
        self.value = 120

    def begin(self):
        """A new sensor is put on."""
        self.began = self.home.clock.now().replace(second=0, microsecond=0)
        self.live.meter.session_start = self.known_start = self.shown(self.live.meter.clock, self.began)
        self.live.erase()
        self.live.ever[:] = []
        self.next = self.began + timedelta(minutes=EVERY)

    def catch_up(self):
        """Measures what it has until now."""
        now = self.home.clock.now()
        while self.next <= now - timedelta(minutes=1):
            self.value = min(350, max(45, self.value + self.home.source.randint(-9, 9)))
            minute = int((self.next - self.began).total_seconds()) // 60
            record = Continuous(minute, str(self.value), trend="0.2", quality="97")
            base = self.known_start + timedelta(minutes=minute)
            self.note((self.address, minute, base.isoformat(), number(str(self.value))), self.next)
            self.live.add([record])
            self.fresh.append(record)
            self.next += timedelta(minutes=EVERY)

    def is_set(self, ahead=0):
        """Its session's start moves, and the minutes go on being counted. What the gateway has read of the session keeps the start
        that it is known by, and what follows has the same."""
        self.live.meter.session_start += timedelta(seconds=ahead - self.live.meter.clock)
        self.live.meter.clock = ahead
        if self.next == self.began + timedelta(minutes=EVERY):
            self.known_start = self.live.meter.session_start

    def forget(self):
        self.live.ever[:] = self.live.meter.records
        self.live.events.clear()


class Home:
    def __init__(self, clock, guest, seed):
        self.clock, self.guest, self.air = clock, guest, guest.air
        self.source = random.Random(seed)
        # The lab keeps every packet for its tests.
        self.air.controller.tap = lambda direction, packet: None
        self.meter, self.cuff, self.scale, self.sensor = GlucoseMeter(self), Cuff(self), Balance(self), Sensor(self)
        self.devices = [self.meter, self.cuff, self.scale, self.sensor]
        self.contacts = self.drops = self.stuck = self.seconds = 0

    async def start(self):
        self.sensor.begin()
        for each in self.devices:
            await each.live.start()

    def measured(self):
        found = {}
        for each in self.devices:
            found |= each.measured
        return found

    async def come(self, devices, gateway):
        """Devices that have measured are in reach until the gateway has read them.

        Returns those that it has not read for too long."""
        began = time.monotonic()
        for each in devices:
            await each.press()
        waiting, idle = list(devices), Counter()
        while waiting:
            await asyncio.sleep(0.02)
            gateway.must_run()
            for each in list(waiting):
                if each.has_given():
                    waiting.remove(each)
                    each.fresh.clear()
                    each.forget()
                    self.contacts += 1
                elif each.is_silent():
                    # The link was lost. Its owner presses the button again after a while.
                    idle[each] += 1
                    if idle[each] == 50:
                        idle[each] = 0
                        self.drops += 1
                        await each.press()
            if time.monotonic() - began > CONTACT:
                break
        ended = time.monotonic()
        while self.air.controller.le_connections and time.monotonic() - ended < LINK:
            await asyncio.sleep(0.02)
        for link in list(self.air.controller.le_connections.values()):
            self.stuck += 1
            lose(self.air.controller, link)
        # The kernel and bluetoothd are done with the link, and discovery is on again.
        await asyncio.sleep(0.3)
        self.seconds += time.monotonic() - began
        return waiting
