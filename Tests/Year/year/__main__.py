"""Plays the year and counts: see ../run."""
import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta

from bars import Bars
from lab.suite import boot

from . import Failed, figures, heap
from .bus import Bus
from .clock import Clock
from .gateway import Gateway
from .home import CONTACT, Home, told
from .places import Place
from .plan import Plan

# What is kept: days.
KEEP = 5
# Days from the horizon until the first pruning behind it is done.
WAIT = 2
# Of a pruned reading the store keeps what its documentation says, 150 octets, with its place in an index or two.
DISK_BAR = 300
# Days of a life from one look at its heap to the next.
LOOK = 15
# A reading's time may be wrong by so much: a clock that is less than two minutes wrong counts as right, and differences
# are rounded to minutes.
TIME_BAR = timedelta(minutes=3)


def say(text):
    print(text, flush=True)


class Year:
    def __init__(self, folder, days, seed, begin):
        self.folder, self.days, self.seed, self.first_day = folder, days, seed, begin
        self.lives, self.looks, self.counts, self.guest_since, self.page = [[]], [[]], Counter(), None, None
        self.guest = self.gateway = self.bus = self.places = None
        self.guest_spans, self.began, self.midnight = [], time.monotonic(), None

    async def start(self):
        self.clock = Clock(self.folder)
        if self.first_day:
            self.clock.leap(self.first_day)
        for attempt in range(3):
            try:
                self.guest = await boot()
                break
            except TimeoutError:
                # A busy machine boots slowly.
                if attempt == 2:
                    raise
        self.bus = Bus(f"{self.folder}/bus", self.guest.machine.bus_port)
        await self.bus.start()
        self.places = {name: Place(name, self.clock, told, f"{self.seed} {name}") for name in ("study", "clinic", "guest")}
        for each in self.places.values():
            await each.start()
        self.clock.busy = [self.bus.is_busy, *(each.is_busy for each in self.places.values())]
        self.home = Home(self.clock, self.guest, self.seed)
        await self.home.start()
        self.gateway = Gateway(self.folder, self.clock, self.bus.address,
                               [self.places[name] for name in ("study", "clinic")], KEEP)
        await self.gateway.start()
        for each in self.home.devices:
            await self.pair(each)

    async def pair(self, device):
        """What the meter shows is typed in."""
        await device.press()
        words = ["pair", device.address, "--json"]
        typed = f"{self.folder}/digits"
        open(typed, "w").close()
        if device.live.meter.passkey:
            words += ["--passkey-file", typed]
        pairing = asyncio.ensure_future(self.gateway.command(*words))
        silent = 0
        while not pairing.done():
            if device.live.shown_passkey is not None:
                with open(typed, "w") as file:
                    file.write(f"{device.live.shown_passkey:06d}")
            # To be proven it is looked for again, and its owner presses the button after a while.
            silent = silent + 1 if device.is_silent() else 0
            if silent == 10:
                silent = 0
                await device.press()
            await asyncio.wait([pairing], timeout=0.1)
        answer = json.loads(pairing.result())
        if not answer["paired"]:
            raise Failed(f"{device.address} is not paired: {answer}")
        device.forget()

    async def stop(self):
        """Ends everything that was started, also where something failed."""
        try:
            if self.page:
                self.page[0].close()
            if self.gateway:
                await self.gateway.stop(signal.SIGKILL)
        finally:
            for each in [self.bus, *(self.places or {}).values()]:
                if each:
                    each.stop()
            if self.guest:
                self.guest.collector.close()
                await self.guest.machine.stop()
                shutil.rmtree(self.guest.machine.folder, ignore_errors=True)

    async def play(self):
        self.midnight = self.clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        for moment, name, arguments in Plan(self.midnight, self.days, self.seed).events:
            if moment < self.end():
                await self.until(moment)
                await getattr(self, "do_" + name.replace(" ", "_"))(*arguments)
        await self.until(self.end())

    def end(self):
        return self.midnight + timedelta(days=self.days)

    def end_today(self):
        """What was played until tonight is counted."""
        if self.midnight:
            self.days = min(self.days, max(0, (self.clock.now() - self.midnight).days) + 1)
            say(f"year: ends with day {self.days}")

    async def until(self, moment):
        if self.clock.now() < moment:
            await self.clock.advance(moment, self.gateway.process)

    # ---- what happens

    async def do_visit(self, names):
        devices = [getattr(self.home, name) for name in names]
        now = self.clock.now()
        for each in devices:
            if each is self.home.sensor:
                each.catch_up()
            else:
                each.measure(now - timedelta(seconds=self.home.source.randint(20, 600)))
        await self.come(devices)

    async def come(self, devices):
        """In reach until everything is read; a contact that fails is tried again as time passes."""
        for _ in range(5):
            devices = await self.home.come(devices, self.gateway)
            if not devices:
                return
            self.counts["visits that took longer"] += 1
            await self.clock.pass_time(self.gateway.process, minutes=15)
        raise Failed(f"{', '.join(each.address for each in devices)}: not read in {5 * CONTACT} s, see {self.folder}/log")

    async def do_drift(self):
        for each in self.home.devices:
            each.drifts()

    async def do_fall_back(self, name):
        getattr(self.home, name).falls_back()
        self.counts["clocks that fell back"] += 1

    async def do_set_clocks(self):
        for each in self.home.devices:
            each.is_set()

    async def do_new_sensor(self):
        self.home.sensor.catch_up()
        await self.come([self.home.sensor])
        self.home.sensor.begin()
        self.counts["sensors"] += 1

    async def do_set_sensor(self, ahead):
        """Its time is set by another program, to a wrong one. By its first minutes alone a session is not told from another."""
        sensor = self.home.sensor
        if self.clock.now() - sensor.began < timedelta(hours=1):
            return
        sensor.catch_up()
        await self.come([sensor])
        sensor.is_set(ahead)
        self.counts["sensors set"] += 1

    async def do_lose_link(self, name):
        device = getattr(self.home, name)
        device.live.behaviour.change({"drop_after_records": 1} if name == "meter" else {"drop_at_indication": 1})
        for _ in range(3):
            device.measure(self.clock.now() - timedelta(seconds=self.home.source.randint(20, 600)))
        await self.come([device])
        self.counts["links lost"] += 1

    async def do_server(self, name, mode):
        await self.places[name].become(mode)
        self.counts["server failures"] += mode != "up"

    async def do_disable(self, name):
        await self.gateway.command("destination", "disable", name)
        self.counts["destinations disabled"] += 1

    async def do_enable(self, name):
        await self.gateway.command("destination", "enable", name)

    async def do_add_guest(self):
        place = self.places["guest"]
        await self.gateway.command(
            "settings", "set", "destinations.guest.kind", "webhook", "destinations.guest.url", place.url,
            "destinations.guest.allow_private", "true", "destinations.guest.backfill_days", "2",
            "--secret", "destinations.guest.secret", typed=place.secret.encode() + b"\n")
        await self.do_restart("TERM")
        self.guest_since = self.clock.now()
        self.counts["destinations added"] += 1

    async def do_remove_guest(self):
        if self.guest_since is None:
            return
        await self.until_delivered(["guest"])
        self.guest_spans.append((self.guest_since, self.clock.now()))
        self.guest_since = None
        await self.gateway.command("settings", "unset", "destinations.guest")
        await self.do_restart("TERM")

    async def do_reload(self):
        level = self.home.source.choice(["info", "notice"])
        await self.gateway.command("settings", "set", "log.level", level)
        self.gateway.process.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.3)
        self.counts["reloads"] += 1

    async def do_restart(self, how):
        await self.close_page()
        await self.gateway.stop(getattr(signal, "SIG" + how))
        self.clock.leap(self.clock.now() + timedelta(seconds=10))
        await self.gateway.start()
        self.lives.append([])
        self.looks.append([])
        self.counts["restarts" if how == "TERM" else "kills"] += 1

    async def do_bluetoothd(self):
        await self.guest.stop_bluetoothd()
        await self.clock.pass_time(self.gateway.process, seconds=self.home.source.choice([1, 60, 3600]))
        await self.guest.start_bluetoothd()
        await asyncio.sleep(2)
        self.counts["restarts of bluetoothd"] += 1

    async def do_page(self, minutes):
        await self.close_page()
        self.page = await self.gateway.open_page()
        await self.clock.pass_time(self.gateway.process, minutes=minutes)
        await self.close_page()

    async def close_page(self):
        if self.page:
            self.page[0].close()
            await asyncio.wait([self.page[1]])
            self.page = None

    async def do_sample(self, day):
        # Threads that were started for what was just due end when they have had nothing to do for five seconds.
        await self.clock.pass_time(self.gateway.process, seconds=10)
        sample = self.gateway.sample()
        self.lives[-1].append((day, sample))
        with open(f"{self.folder}/samples.jsonl", "a") as file:
            file.write(json.dumps({"day": day, "life": len(self.lives), "real": round(time.monotonic() - self.began), **sample}) + "\n")
        if len(self.lives[-1]) % LOOK == 0:
            self.looks[-1].append((day, heap.look(self.gateway.process.pid)))
            heap.keep(self.looks[-1][-1][1], f"{self.folder}/heap-{day}.json")
        if day % 10 == 0 or self.days <= 15:
            say(f"day {day}: {time.monotonic() - self.began:.0f} s, {len(self.home.measured())} measurements, "
                f"{sample['resident']:.1f} MiB, {sample['descriptors']} descriptors, store {sample['store']:.1f} MiB")

    # ---- the end

    async def until_delivered(self, names, days=3):
        """With servers that are up, until nothing waits."""
        for name in names:
            await self.places[name].become("up")
        for _ in range(days * 24):
            waiting = {each["name"]: each["waiting"] for each in (await self.gateway.asked("destination", "list"))["destinations"]}
            if not any(waiting[name] for name in names):
                return
            await self.clock.pass_time(self.gateway.process, hours=1)
        raise Failed(f"after {days} days with good servers readings still wait: {waiting}")

    async def check(self):
        """Everything that was measured is known once, everywhere."""
        await self.gateway.command("destination", "enable", "study")
        names = ["study", "clinic"]
        if self.guest_since:
            names.append("guest")
        await self.until_delivered(names)
        if self.guest_since:
            self.guest_spans.append((self.guest_since, self.clock.now()))
        # Past the next pruning.
        await self.clock.pass_time(self.gateway.process, days=1)
        measured = self.home.measured()
        self.same_everywhere(measured)
        stored = {}
        cursor = []
        while True:
            page = await self.gateway.asked("query", "--limit", "10000", *cursor)
            for reading in page["readings"]:
                if reading["excluded"] is not None:
                    raise Failed(f"{reading['id']} is excluded as {reading['excluded']}")
                self.enter(stored, told(reading), measured, "the store")
            if not page["more"]:
                break
            cursor = ["--cursor", page["cursor"]]
        statistics = await self.gateway.asked("store", "stats")
        gone = sum(each.get("readings", 0) for each in statistics["let_go"])
        # What is younger than the horizon is there, and what is gone was counted.
        oldest = self.clock.now() - timedelta(days=KEEP)
        missing = [key for key, moment in measured.items() if moment > oldest + TIME_BAR and key not in stored]
        if missing:
            raise Failed(f"{len(missing)} measurements are not in the store: {missing[:3]}")
        if len(stored) + gone != len(measured):
            raise Failed(f"{len(stored)} stored and {gone} pruned are not {len(measured)} measured")
        await self.gateway.command("store", "verify")
        await self.gateway.stop()
        return len(measured), len(stored), gone

    def enter(self, found, what, measured, where):
        key, given = what
        if key in found:
            raise Failed(f"{key} is twice in {where}")
        if key not in measured:
            raise Failed(f"{key} is in {where}, and nobody measured it")
        found[key] = given
        wrong = abs(datetime.fromisoformat(given.replace("Z", "+00:00")) - measured[key])
        self.counts["most seconds of error"] = max(self.counts["most seconds of error"], round(wrong.total_seconds()))
        if wrong > TIME_BAR:
            raise Failed(f"{key} was measured at {measured[key]}, and has the time {given} in {where}")

    def same_everywhere(self, measured):
        found = {}
        with open(self.gateway.lines) as lines:
            for line in lines:
                self.enter(found, told(json.loads(line)["reading"]), measured, "the file")
        arrived = {"the file": found}
        for name, place in self.places.items():
            if place.complaints:
                raise Failed(f"{name}: {len(place.complaints)} complaints, such as {place.complaints[:3]}")
            arrived[name] = {}
            for what in place.values.values():
                self.enter(arrived[name], what, measured, name)
        for name, keys in arrived.items():
            wanted = measured if name != "guest" else [
                key for key, moment in measured.items() if any(since < moment and moment < until - timedelta(days=1)
                                                               for since, until in self.guest_spans)]
            missing = [key for key in wanted if key not in keys]
            if missing:
                raise Failed(f"{len(missing)} of {len(wanted)} measurements never came to {name}: {missing[:3]}")

    def tell(self, totals):
        measured, stored, gone = totals
        bars = Bars("a simulated year")
        lines, grown, is_known = figures.table(self.lives, KEEP + WAIT, measured / self.days, DISK_BAR, bars)
        if is_known:
            bars.leave()
        again = sum(each.counts["again"] for each in self.places.values())
        counts = self.counts | Counter({"contacts": self.home.contacts, "links pressed again": self.home.drops,
                                         "links that could not be ended": self.home.stuck})
        say("\n" + "\n".join(lines) + "\n")
        looks = max(self.looks, key=len)
        if len(looks) > 1:
            (since, before), *_, (until, after) = looks
            say(f"what the memory of the longest life grew by, from day {since} to day {until}:")
            say("\n".join(heap.grown(before, after)) + "\n")
        say(", ".join(f"{count} {what}" for what, count in counts.items()))
        say(f"{measured} measurements: {stored} in the store and {gone} pruned, each once, and each once at every destination "
            f"({again} came again after an answer that was lost)")
        return grown, is_known



async def play(days, seed, begin):
    folder = tempfile.mkdtemp(prefix="healthrelay-year.")
    year = Year(folder, days, seed, begin)
    task, is_good = asyncio.current_task(), False
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, year.end_today)
    try:
        await year.start()
        await year.play()
        grown, is_known = year.tell(await year.check())
        minutes = (time.monotonic() - year.began) / 60
        if grown:
            raise Failed("; ".join(grown))
        growth = "nothing grows" if is_known else "too few days to say what grows"
        say(f"year: {year.days} days in {minutes:.0f} minutes: nothing lost, nothing twice, {growth}")
        is_good = True
        return 0
    except Failed as failure:
        print(f"year: FAILED at seed {seed}: {failure}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("year: stopped", file=sys.stderr)
        return 130
    finally:
        # Who is impatient must wait until everything is ended.
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, lambda: None)
        await year.stop()
        if is_good and not os.environ.get("HEALTHRELAY_YEAR_KEEP"):
            shutil.rmtree(folder)
        else:
            print(f"year: the log and the samples are in {folder}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(prog="run", description="Plays a home's year with a gateway, and counts.")
    parser.add_argument("days", nargs="?", type=int, default=365)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--from", dest="begin", metavar="DATE", type=lambda text: datetime.fromisoformat(text + "T00:00:00+00:00"))
    chosen = parser.parse_args()
    seed = random.randrange(1 << 30) if chosen.seed is None else chosen.seed
    logging.basicConfig(level=os.environ.get("HEALTHRELAY_LAB_LOG", "ERROR"))       # of bumble
    logging.getLogger("asyncio").setLevel("CRITICAL")
    say(f"year: {chosen.days} days, seed {seed}" + (f", from {chosen.begin:%Y-%m-%d} on" if chosen.begin else ""))
    sys.exit(asyncio.run(play(chosen.days, seed, chosen.begin)))


if __name__ == "__main__":
    main()
