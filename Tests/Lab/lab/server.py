"""The lab's server: one JSON object a line on a Unix socket, `{"id": 1, "do": "add", ...}`, answered by
`{"id": 1, "ok": {...}}` or `{"id": 1, "error": "..."}` when it is done; requests may overlap. README.md lists them."""
import asyncio
import itertools
import json
import pathlib
import sys
import time
import traceback

from . import documents
from .collector import ADAPTER, DEVICE
from .documents import Unclear
from .expected import dump
from .makers import kind_of
from .neighbours import Strangers, pair_with_second_host
from .reported import Reported

ATT_CHANNEL = 4


class Server:
    def __init__(self, guest):
        self.guest, self.air = guest, guest.air
        self.meters, self.names = {}, itertools.count(1)
        self.strangers = Strangers(self.air)

    async def serve(self, path):
        self.server = await asyncio.start_unix_server(self.attend, path, limit=1 << 24)

    async def attend(self, reader, writer):
        async def answer(line):
            request = {}
            try:
                request = json.loads(line)
                act = getattr(self, "do_" + str(request.get("do")), None)
                if act is None:
                    raise Unclear(f"nothing is called {request.get('do')}")
                given = {name: value for name, value in request.items() if name not in ("id", "do")}
                result = {"ok": await act(**given) or {}}
            except (Unclear, TimeoutError, asyncio.TimeoutError, TypeError) as error:
                result = {"error": f"{request.get('do')}: {error or type(error).__name__}"}
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                result = {"error": f"{request.get('do')}: {error!r}"}
            writer.write((dump({"id": request.get("id")} | result) + "\n").encode())

        answers = []
        while line := await reader.readline():
            answers.append(asyncio.ensure_future(answer(line)))
        await asyncio.gather(*answers)         # who sends no more may still listen
        writer.close()

    def meter(self, name):
        if name not in self.meters:
            raise Unclear(f"there is no meter {name}; there are {', '.join(self.meters) or 'none'}")
        return self.meters[name]

    # ---- meters

    async def do_add(self, meter, behaviour=None):
        """A meter comes on the air."""
        definition = documents.meter(meter)
        kind = kind_of(definition)
        manners = kind.Manners()
        manners.change(behaviour or {})
        live, name = kind(definition, manners, self.air), f"meter-{next(self.names)}"
        self.meters[name] = live
        await live.start()
        return {"meter": name, "address": definition.address, "zone": documents.ZONE}

    async def do_add_reported(self, path, behaviour=None):
        """The device of a report comes on the air, at an address of its own."""
        report = json.loads(pathlib.Path(path).read_text())
        manners = Reported.Manners()
        manners.change(behaviour or {})
        live, name = Reported(report, manners, self.air), f"meter-{next(self.names)}"
        self.meters[name] = live
        await live.start()
        return {"meter": name, "address": live.meter.address, "zone": documents.ZONE}

    async def do_remove(self, meter):
        live = self.meter(meter)
        del self.meters[meter]
        await live.stop()

    async def do_change(self, meter, behaviour):
        live = self.meter(meter)
        live.behaviour.change(behaviour)
        if live.connection is None and {"advertises", "advertising_data", "rssi", "pairing_mode"} & set(behaviour):
            await live.advertise()

    async def do_records(self, meter, add=(), replace=None):
        """More records, or others instead."""
        live = self.meter(meter)
        if replace is not None:
            live.erase()
        live.add(documents.records(replace if replace is not None else add, live.meter.service))
        await live.measured()

    async def do_act(self, meter, act, given=None):
        """Something that only meters of its kind can be asked."""
        return getattr(self.meter(meter), "act_" + act)(**given or {})

    async def do_clock(self, meter, ahead):
        self.meter(meter).meter.clock = ahead

    async def do_state(self, meter):
        live = self.meter(meter)
        return {"connected": live.connection is not None, "passkey": live.shown_passkey, "bonds": await live.bonds(),
                "advertising": bool(live.device.is_advertising), "held": [live.name_of(each) for each in live.meter.records]}

    async def do_readings(self, meter, ever=False):
        """What the records it holds (or ever held) must be printed as, in their order."""
        live = self.meter(meter)
        return {"readings": documents.readings(live.ever if ever else live.meter.records, live.meter)}

    async def do_log(self, meter, since=0):
        events = self.meter(meter).events
        return {"events": events[since:], "next": len(events)}

    async def do_wait(self, meter, event, count=1, since=0, timeout=60):
        """Until its log, from `since` on, has so many events of that name; the last of them."""
        live = self.meter(meter)
        find = lambda: [each for each in live.events[since:] if each["event"] == event]
        async with live.changed:
            try:
                await asyncio.wait_for(live.changed.wait_for(lambda: len(find()) >= count), timeout)
            except (TimeoutError, asyncio.TimeoutError):
                seen = [each["event"] for each in live.events[since:]]
                raise Unclear(f"{len(find())} of {count} {event} after {timeout} s; its log: {seen[-30:]}") from None
        return find()[count - 1]

    async def do_passkey(self, meter, timeout=60):
        """What it shows, once it does."""
        live, end = self.meter(meter), time.monotonic() + timeout
        while live.shown_passkey is None:
            if time.monotonic() > end:
                raise Unclear(f"no passkey is shown after {timeout} s")
            await asyncio.sleep(0.02)
        return {"passkey": live.shown_passkey}

    async def do_type(self, meter, number):
        """At its keys; a number that is null is its cancel key."""
        self.meter(meter).typed.put_nowait(number)

    async def do_press(self, meter):
        await self.meter(meter).press()

    async def do_drop(self, meter, way="lost"):
        self.meter(meter).drop(way)

    async def do_forget(self, meter):
        """Its bonds are gone."""
        await self.meter(meter).forget()

    async def do_second_host(self, meter):
        await pair_with_second_host(self.air, self.meter(meter))

    async def do_strangers(self, count, interval=1.0, seed=1, malformed=False):
        if count:
            self.strangers.start(count, interval, seed, malformed)
        else:
            self.strangers.stop()

    async def do_reset(self, keep=()):
        """No strangers, an adapter that is up, no meters and no devices in bluetoothd; but the meters to keep are there
        with their bonds, well-behaved, empty and without a past."""
        self.strangers.stop()
        for name, live in list(self.meters.items()):
            if name in keep:
                await live.begin_anew()
            else:
                await self.do_remove(name)
        await self.guest.reset([live.meter.address for live in self.meters.values()])

    # ---- the gateway's machine

    async def do_guest(self, command, timeout=60):
        status, output = await self.guest.shell(command, timeout)
        return {"status": status, "output": output}

    async def do_bluetoothd(self, action):
        if action in ("kill", "restart"):
            await self.guest.stop_bluetoothd()
        if action in ("start", "restart"):
            await self.guest.start_bluetoothd()

    async def do_adapter(self, action):
        guest = self.guest
        await {"off": lambda: guest.power(False), "on": lambda: guest.power(True), "remove": guest.pull_out,
               "return": guest.plug_in, "block": lambda: guest.block(True), "unblock": lambda: guest.block(False)}[action]()

    async def do_bonds(self):
        return {"bonds": await self.guest.bonds()}

    async def do_lose_bond(self, address):
        await self.guest.lose_bond(address)

    async def do_run(self, program, arguments=(), environment=None):
        return {"job": await self.guest.run(program, arguments, environment)}

    async def do_end(self, job, signal=None, timeout=60):
        status = await self.guest.end(job, signal, timeout)
        return {"status": status, "output": await self.guest.fetch(f"{job}.out"),
                "errors": await self.guest.fetch(f"{job}.err")}

    async def do_fetch(self, path):
        return {"path": await self.guest.fetch(path)}

    # ---- the air

    async def do_now(self):
        """This machine's CLOCK_MONOTONIC, in seconds: the time of logs and packets."""
        return {"at": time.monotonic()}

    async def do_packets(self, opcodes, since=0.0):
        """ATT packets of the guest's adapter with these opcodes: when they passed, "in" to its kernel or "out"."""
        made, found = self.air.controller.connections_made, []
        for at, direction, packet in self.air.packets:
            if at < since or packet[0] != 2 or len(packet) < 10:
                continue
            header = int.from_bytes(packet[1:3], "little")
            is_first, channel = header >> 12 & 3 != 1, int.from_bytes(packet[7:9], "little")
            if is_first and channel == ATT_CHANNEL and packet[9] in opcodes:
                whose = [address for moment, handle, address in made if handle == header & 0xFFF and moment <= at]
                found.append({"at": round(at, 6), "direction": direction, "opcode": packet[9],
                              "address": whose[-1] if whose else None, "hex": packet[10:].hex()})
        return {"packets": found}

    async def do_hci(self, since=0.0):
        """Everything that passed the adapter: for finding out what happened."""
        return {"packets": [{"at": round(at, 6), "direction": direction, "hex": packet.hex()}
                            for at, direction, packet in self.air.packets if at >= since]}

    async def do_story(self, packets=80):
        """What a test that failed is told: what the meters did last, what the adapter does, and what bluetoothd has."""
        lines = []
        for name, live in self.meters.items():
            lines.append(f"{name} at {live.meter.address}: {await self.do_state(name)}")
            lines += [f"  {json.dumps(event)[:200]}" for event in live.events[-30:]]
        lines.append(f"adapter: {await self.do_scanning()}, now {time.monotonic():.3f}")
        lines += [f"  {at:.3f} {direction} {packet[:24].hex()}" for at, direction, packet in list(self.air.packets)[-packets:]]
        try:
            for path, interfaces in (await self.guest.collector.objects()).items():
                for interface in (ADAPTER, DEVICE):
                    if interface in interfaces:
                        kept = {key: value.value for key, value in interfaces[interface].items() if key not in ("UUIDs", "Modalias")}
                        lines.append(f"bluetoothd: {path} {kept}")
            lines.append((await self.guest.shell("tail -n 20 /run/bluetoothd.log", timeout=5))[1])
        except Exception as error:
            lines.append(f"bluetoothd does not answer: {error!r}")
        return {"story": "\n".join(lines)}

    async def do_scanning(self):
        """Whether the adapter listens for advertisements now, and for whose."""
        controller = self.air.controller
        return {"scanning": controller.le_scan_enable, "only_known": bool(controller.le_scanning_filter_policy & 1)}
