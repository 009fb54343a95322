"""Records the fixtures: boots the guest for each scenario, lets bluetoothd read the meters, keeps what it said."""
import argparse
import asyncio
import json
import logging
import os
import pathlib
import shutil
import sys
import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from bumble.gatt import Characteristic

from . import btsnoop, expected, wire
from .collector import Collector
from .gateway import Gateway
from .makers import kind_of
from .machine import Machine
from .meters import Emulation
from .radio import Air
from .scenarios import SCENARIOS

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "Fixtures"


def say(*words):
    print("lab:", *words, file=sys.stderr, flush=True)


class Recording:
    """One boot of the guest with a scenario's meters on the air."""

    def __init__(self, scenario):
        self.scenario, self.sent, self.clocks, self.shown = scenario, [], {}, None
        self.offset = None             # guest time - our monotonic clock, seconds

    async def __aenter__(self):
        self.machine, self.air = Machine(self.scenario.starts_at), Air()
        try:
            await self.machine.start()
            await self.air.attach(self.machine.hci_path)
            self.emulations = {meter.name: self.emulation(meter) for meter in self.scenario.meters}
            for emulation in self.emulations.values():
                await emulation.start()
            self.collector = Collector(self.machine.bus_address, lambda: self.shown)
            await self.collector.open(agent=not self.scenario.steps)
        except BaseException:
            await self.machine.stop()
            raise
        return self

    async def __aexit__(self, *error):
        self.collector.close()
        await self.machine.stop()
        if error[0] is None:
            shutil.rmtree(self.machine.folder)

    def emulation(self, meter):
        if self.scenario.steps:
            kind = kind_of(meter)
            return kind(meter, kind.Manners(**meter.behaviour), self.air, self.shown_time, self.sent)
        return Emulation(meter, self.air, self.shown_time, self.sent)

    async def measure_offset(self):
        """The same HCI packets carry the guest's time in its monitor and ours at the tap: the least delay counts."""
        _, records = btsnoop.parse(await self.machine.capture())
        monitor = [(each.body, each.microseconds / 1e6) for each in records if each.kind == btsnoop.COMMAND]
        tapped = [(packet[1:], at) for at, direction, packet in list(self.air.packets)
                  if direction == "out" and packet[0] == 1]
        # The monitor misses the adapter's first commands, and then none.
        for start in range(len(tapped) - len(monitor) + 1):
            pairs = list(zip(monitor, tapped[start:]))
            if pairs and all(ours[0] == guest[0] for guest, ours in pairs):
                return max(guest[1] - ours[1] for guest, ours in pairs)
        raise RuntimeError("tap and monitor do not agree")

    def guest_time(self, monotonic):
        return monotonic + self.offset

    def shown_time(self, ahead):
        """What a meter's clock shows that runs `ahead` seconds before the guest's: local time, whole seconds."""
        utc = datetime.fromtimestamp(int(self.guest_time(time.monotonic())) + ahead, timezone.utc)
        shown = utc.astimezone(ZoneInfo(self.scenario.zone)).replace(tzinfo=None)
        self.clocks[wire.current_time(shown)] = shown
        return shown

    async def early_in_a_second(self):
        """So that whole seconds of meter and packet agree however they are rounded."""
        await asyncio.sleep((0.1 - self.guest_time(time.monotonic())) % 1)

    # ---- reading

    async def reach(self, meter, first):
        """Pairs, or connects again; the device's path and its characteristics."""
        collector = self.collector
        self.shown = None
        if first:
            path = self.paths[meter.name] = await collector.find(meter.name)
            self.offset = await self.measure_offset()
            pairing = asyncio.ensure_future(collector.pair(path))
            while not pairing.done():
                self.shown = self.emulations[meter.name].shown_passkey
                await asyncio.sleep(0.02)
            await pairing
            await asyncio.wait_for(self.emulations[meter.name].paired.wait(), 10)
        else:
            path = self.paths[meter.name]
            await collector.connect(path)
        return path, await collector.characteristics(path)

    async def identify(self, held):
        for number in (0x2A29, 0x2A24, 0x2A25, 0x2A51, 0x2A49, 0x2AA8, 0x2AAA, 0x2AAB, 0x2A2B, 0x2A08, 0x2AA9):
            if number in held:
                if number in (0x2A2B, 0x2A08):
                    await self.early_in_a_second()
                await self.collector.read(held[number])

    async def fetch_glucose(self, meter, held, request):
        collector, point = self.collector, held[0x2A52]
        for number in (0x2A18, 0x2A34, 0x2AA7, 0x2A52):
            if number in held:
                await collector.start_notify(held[number])
        await collector.request(point, b"\x04" + request[1:])
        await collector.value([point])
        await collector.request(point, request)
        try:
            await collector.value([point], timeout=8 if meter.drop_after else 30)
        except asyncio.TimeoutError:
            if not meter.drop_after:
                raise

    async def fetch_pressure(self, held):
        """Intermediate first, for enabling the indication starts the transfer; the end is a silence."""
        for number in (0x2A36, 0x2A35):
            if number in held:
                await self.collector.start_notify(held[number])
        try:
            while True:
                await self.collector.value([held[number] for number in (0x2A36, 0x2A35) if number in held], timeout=2.5)
        except asyncio.TimeoutError:
            pass

    async def fetch(self, meter, held):
        if meter.service in (0x1808, 0x181F):
            await self.fetch_glucose(meter, held, self.scenario.request)
        else:
            await self.fetch_pressure(held)

    async def converse(self):
        """Our own gateway does what the steps say."""
        while self.offset is None:
            try:
                self.offset = await self.measure_offset()
            except RuntimeError:       # the adapter is still being set up
                await asyncio.sleep(0.5)
        gateway = Gateway(self.machine.folder, self.machine.bus_address, self.scenario.zone)
        meters = list(self.emulations.values())
        for step in self.scenario.steps:
            await gateway.do(step, meters[step.meter])
        await asyncio.sleep(0.5)

    async def run(self):
        if self.scenario.steps:
            return await self.converse()
        self.paths, ready = {}, []
        for meter in self.scenario.meters:
            path, held = await self.reach(meter, first=True)
            if self.scenario.reconnect:
                await self.collector.disconnect(path)
                await asyncio.sleep(1)
                self.sent.clear()
                path, held = await self.reach(meter, first=False)
            await self.identify(held)
            if self.scenario.together:
                ready.append((meter, held))
            else:
                await self.fetch(meter, held)
        if ready:
            await self.fetch_together(ready)
        for path in self.paths.values():
            await self.collector.disconnect(path)
        await asyncio.sleep(0.5)

    async def fetch_together(self, ready):
        """The cuff's transfer starts while the glucose meter's is under way."""
        collector = self.collector
        (_, glucose), (_, cuff) = ready
        for number in (0x2A18, 0x2A34, 0x2A52):
            await collector.start_notify(glucose[number])
        await collector.request(glucose[0x2A52], b"\x01\x01")
        await collector.start_notify(cuff[0x2A35])
        end, ended = time.monotonic() + 20, False
        while time.monotonic() < end and not (ended and all(e.transfer.done() for e in self.emulations.values())):
            path, _ = await collector.value([glucose[0x2A52], cuff[0x2A35]])
            ended = ended or path == glucose[0x2A52]
            await asyncio.sleep(0.3)

    # ---- keeping

    async def capture(self):
        connection = 2 if self.scenario.reconnect else 1
        _, monitor = btsnoop.parse(await self.machine.capture())
        if self.scenario.datalink == btsnoop.MONITOR:
            return btsnoop.trim(monitor, connection)
        tapped = btsnoop.from_tap(self.air.packets, lambda at: int(self.guest_time(at) * 1e6))
        return btsnoop.trim(tapped, connection)

    def handles(self):
        """Value handle → characteristic, as a host knows them that discovered the table earlier."""
        return {f"0x{each.handle:04x}": each.uuid.to_hex_str().lower()
                for emulation in self.emulations.values() for each in emulation.device.gatt_server.attributes
                if isinstance(each, Characteristic)}

    def secrets(self):
        """What hosts have stored in meters so that they know them by it."""
        return {emulation.key for emulation in self.emulations.values() if getattr(emulation, "key", None)}

    async def bonds(self):
        """Every key the meters and their stacks hold."""
        keys = self.secrets()
        for emulation in self.emulations.values():
            keys.add(bytes(emulation.device.irk))
            for _, pairing in await emulation.device.keystore.get_all():
                for key in (pairing.ltk, pairing.ltk_central, pairing.ltk_peripheral, pairing.irk, pairing.csrk, pairing.link_key):
                    if key:
                        keys.add(bytes(key.value))
        return keys


def prove_keyless(content, records, keys):
    """No key place holds anything, and no key known to a meter or found in a key place is anywhere in the file."""
    assert not btsnoop.secrets_in(records), "a key place is not zero"
    for key in keys:
        for octets in (key, key[::-1]):
            for start in range(0, len(octets) - 7, 8):     # also a half of one, in a fragment
                piece = octets[start:start + 8]
                where = [index for index, each in enumerate(records) if piece in each.data] if any(piece) else []
                assert not where, f"a key is left in packet {where[0] + 1}: {records[where[0]].data.hex()}, {piece.hex()}"


async def record(scenario):
    begun = time.monotonic()
    async with Recording(scenario) as recording:
        await recording.run()
        raw = await recording.capture()
        bonds = await recording.bonds()
        found = btsnoop.secrets_in(raw)
        records = btsnoop.without_secrets(btsnoop.without_keys(raw), recording.secrets())
        content = btsnoop.build(scenario.datalink, records)
        makes_bonds = any(getattr(each, "BONDS", True) for each in recording.emulations.values())
        assert bonds and (scenario.reconnect or found or not makes_bonds), "nothing was paired"
        prove_keyless(content, records, bonds | {each for each in found if len(each) >= 8})
        document = expected.document(scenario, records, recording.sent, recording.clocks)
        handles = recording.handles() if scenario.reconnect else None
    FIXTURES.mkdir(exist_ok=True)
    (FIXTURES / f"{scenario.name}.btsnoop").write_bytes(content)
    (FIXTURES / f"{scenario.name}.expected.json").write_text(expected.dump_document(document))
    if handles:
        (FIXTURES / f"{scenario.name}.handles.json").write_text(json.dumps(handles, indent=1, sort_keys=True) + "\n")
    say(f"{scenario.name}: {len(document['readings'])} readings, {len(records)} packets, {len(content)} octets, "
        f"{len(bonds)} keys checked, {time.monotonic() - begun:.0f} s")


def main():
    logging.basicConfig(level=os.environ.get("HEALTHRELAY_LAB_LOG", "ERROR"))      # of bumble
    parser = argparse.ArgumentParser(prog="record-fixtures", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="which; all without one")
    logging.getLogger("asyncio").setLevel("CRITICAL")      # half-open connections to the bus, while the guest boots
    wanted = parser.parse_args().scenario
    unknown = set(wanted) - {each.name for each in SCENARIOS}
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are: {', '.join(each.name for each in SCENARIOS)}")
    failed = []
    for scenario in SCENARIOS:
        if wanted and scenario.name not in wanted:
            continue
        for attempt in range(3):       # the guest is slow where there is no KVM, and a connection may fail as in the air
            try:
                asyncio.run(record(scenario))
                break
            except Exception as error:
                say(f"{scenario.name} failed: {error!r}")
        else:
            failed.append(scenario.name)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
