#!/usr/bin/env python3
"""Measures how the gateway's work grows with what it has to do: records, streams, readers, devices and strangers.

  measure.py HEALTHRELAY LISTENER [PART...]

LISTENER is listener.c, built. The parts are replay, import, streams, readers, devices and strangers. Times are the processor's,
user and system.
"""
import contextlib
import datetime
import json
import math
import os
import pathlib
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bus
import captures

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from bars import Bars  # noqa: E402
from gateway import Gateway, processor, run  # noqa: E402

SETTINGS = """\
user: {client_user_id: anna, time_zone: Europe/Berlin}
sync: {mode: manual}
destinations:
  - {name: archive, kind: influxdb, url: "http://127.0.0.1:9", database: home}
"""
LINEAR, FLOOR = 1.5, 3.0
# The rows of each part.
BARS = []
STEPS = [int(each) for each in os.environ.get("GROWTH_STEPS", "1 4 16").split()]
SECONDS = int(os.environ.get("GROWTH_SECONDS", "60"))
MANY = int(os.environ.get("GROWTH_DEVICES", "1000"))


def amount(seconds):
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-4 else f"{seconds * 1e6:,.0f} µs"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def megabytes(octets):
    return f"{octets / 1e6:,.1f} MB"


def kilobytes(octets):
    return f"{octets / 1e3:,.0f} kB"


def row(work, size, ours, beside="–", ratio=None, bar=None):
    size = f"{size:,}" if isinstance(size, int) else size
    kept = "–" if ratio is None or bar is None else "yes" if ratio <= bar else "no"
    value, most = ratio, bar
    ratio, bar = "–" if ratio is None else f"{ratio:.2f}", "–" if bar is None else bar
    print(f"| {work} | {size} | {ours} | {beside} | {ratio} | {bar} | {kept} |", flush=True)
    BARS[-1].add(work, size, ours, **{"peers" if beside.startswith("asyncio") else "floor": beside}, ratio=value, bar=most)


def growth(work, found, show=amount, bar=LINEAR):
    """A row for each size, beside the smallest."""
    smallest = min(found)
    for size, value in found.items():
        if size == smallest:
            row(work, size, show(value))
        else:
            row(work, size, show(value), f"{smallest:,}: {show(found[smallest])}", value / found[smallest], bar)


def note(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def prepare(state):
    """An empty state directory with its settings."""
    state.mkdir(parents=True, mode=0o700)
    (state / "settings.yaml").write_text(SETTINGS)


# Replay and import.

def replays(binary, work):
    """A meter's memory of N records, replayed into an empty store, and the store imported into another one."""
    (work / "passphrase").write_text("a passphrase of the benchmark\n")
    (work / "passphrase").chmod(0o600)
    key = "--passphrase-file", work / "passphrase"
    replay, memory, restore, restore_memory = {}, {}, {}, {}
    # What a command takes with a few records is left out of what each record takes.
    for step in [0, *STEPS]:
        records = captures.write(work / "memory.btsnoop", 1, 3_750 * step)
        replay[records], memory[records] = rounds(work, step, binary, "replay", work / "memory.btsnoop")
        state = next(work.glob("state-*"))
        run(state, binary, "store", "export", work / "export", *key)
        restore[records], restore_memory[records] = rounds(work, step, binary, "store", "import", work / "export", *key)
        (work / "export").unlink()
    growth("`replay`, a record", apiece(replay))
    growth("`replay`, the most memory", without_first(memory), megabytes)
    growth("`store import`, a reading", apiece(restore))
    growth("`store import`, the most memory", without_first(restore_memory), megabytes)


def imports(binary, work):
    """An export of Apple Health of N elements."""
    used, memory = {}, {}
    for step in [0, *STEPS]:
        export = work / "export.xml"
        subprocess.run([sys.executable, HERE.parent / "Import" / "generate.py", export, str(5 * step or 0.05)], check=True)
        with open(export) as file:
            elements = sum("<Record " in line for line in file)
        used[elements], memory[elements] = rounds(work, step, binary, "import", export)
    growth("`import` of an export of Apple Health, an element", apiece(used))
    growth("`import`, the most memory", without_first(memory), megabytes)


def rounds(work, step, *command, times=3):
    """Runs a command on empty stores: the median of the processor's seconds, and the most memory."""
    for each in work.glob("state-*"):
        shutil.rmtree(each)
    found = []
    for number in range(times if step < 16 else 1):
        state = work / f"state-{number}"
        prepare(state)
        found.append(run(state, *command))
    return statistics.median(each[0] for each in found), max(each[1] for each in found)


def apiece(totals):
    """What each record takes more than the smallest run."""
    none = min(totals)
    return {count: (total - totals[none]) / (count - none) for count, total in totals.items() if count != none}


def without_first(found):
    return {count: value for count, value in found.items() if count != min(found)}


# Streams and readers.

def connect(port):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


class Streams:
    """Open streams of events."""

    def __init__(self, port):
        self.port, self.open, self.selector = port, [], selectors.DefaultSelector()

    def resize(self, count):
        while len(self.open) > count:
            stream = self.open.pop()
            self.selector.unregister(stream)
            stream.close()
        while len(self.open) < count:
            stream = connect(self.port)
            stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = stream.recv(4096)
            if not answer.startswith(b"HTTP/1.1 200"):
                sys.exit(f"stream {len(self.open) + 1}: {answer[:200]}")
            self.open.append(stream)
            self.selector.register(stream, selectors.EVENT_READ, [0])

    def follow(self, events, seconds):
        """Reads until each stream has had so many events."""
        mark = b"\nevent: reading\n"
        counts, tails = {each: 0 for each in self.open}, {each: b"" for each in self.open}
        missing, end = len(counts), time.monotonic() + seconds
        while missing and time.monotonic() < end:
            for key, _ in self.selector.select(1):
                octets = key.fileobj.recv(1 << 16)
                if not octets:
                    sys.exit("a stream has ended")
                before = counts[key.fileobj]
                # An event may come in two parts.
                octets = tails[key.fileobj] + octets
                counts[key.fileobj] += octets.count(mark)
                tails[key.fileobj] = octets[1 - len(mark):]
                missing -= before < events <= counts[key.fileobj]
        if missing:
            sys.exit(f"{missing} streams lack events: {sorted(set(counts.values()))} of {events}")


SIZES = [1, 10, 100]
# So that each stream is told of each reading by itself, as in real use; the same for the peer.
BETWEEN = 0.02


def streams(binary, work):
    state = work / "streams"
    prepare(state)
    # Short rounds, since a machine that others use is not equally fast for long.
    adds = 40
    with Gateway(binary, state) as gateway:
        added, yesterday = 0, datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)

        def add():
            nonlocal added
            added += 1
            # In a second of its own: where a destination wants seconds to be unique, another is looked for.
            at = yesterday + datetime.timedelta(seconds=13 * added)
            gateway.request("/api/v1/readings", {
                "kind": "temperature", "value": f"36.{added % 10}", "unit": "°C", "confirm": True, "person": "anna",
                "time": at.isoformat(timespec="microseconds"), "note": f"benchmark {added}"})

        listeners = Streams(gateway.port)
        # What the first streams and readings bring with them belongs to none of the later ones.
        listeners.resize(2)
        for _ in range(20):
            add()
        listeners.follow(20, 60)
        listeners.resize(0)
        time.sleep(2)
        costs = {count: [] for count in [0, *SIZES]}
        memory = {}
        for number in range(11):
            for count in costs:
                before = gateway.memory()
                listeners.resize(count)
                time.sleep(2)
                if number == 0 and count:
                    # The others went on from the size before.
                    memory[count] = [(now - then) / count for now, then in zip(gateway.memory(), before)]
                used = gateway.processor()
                for _ in range(adds):
                    add()
                    time.sleep(BETWEEN)
                listeners.follow(adds, 120)
                costs[count].append((gateway.processor() - used) / adds)
                if number == 0:
                    listeners.resize(0)
                    time.sleep(1)
            listeners.resize(0)
            time.sleep(2)
        ours = {count: statistics.median((each - idle) / count for each, idle in zip(costs[count], costs[0])) for count in SIZES}
        event = gateway.request("/api/v1/readings?limit=1")
        nothing = statistics.median(costs[0])
    note(f"adding a reading without streams: {amount(nothing)}")
    peer = fan_out(event)
    for count in SIZES:
        row("event streams, an event to a stream", count, amount(ours[count]), f"asyncio: {amount(peer[count])}",
            ours[count] / peer[count], FLOOR)
    for count in SIZES[1:]:
        row("event streams, an event to a stream", count, amount(ours[count]), f"1: {amount(ours[1])}", ours[count] / ours[1],
            LINEAR)
    for count in SIZES:
        dirty, proportional, _ = memory[count]
        row("event streams, private memory of a stream", count, f"{kilobytes(dirty)} dirty, {kilobytes(proportional)} Pss",
            "100 kB", dirty / 1e5, 1.0)


def fan_out(event):
    """The same through asyncio: seconds of the processor for an event to a stream."""
    server = subprocess.Popen([sys.executable, HERE / "fanout.py"], stdout=subprocess.PIPE, text=True)
    body = b"id: 1\nevent: reading\ndata: " + event + b"\n\n"
    try:
        port = int(server.stdout.readline())
        listeners = Streams(port)
        poster = connect(port)
        costs = {}
        for count in [0, *SIZES]:
            listeners.resize(count)
            costs[count] = []
            for _ in range(3):
                before = processor(server.pid)
                for _ in range(100):
                    poster.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                    poster.recv(4096)
                    time.sleep(BETWEEN)
                listeners.follow(100, 60)
                costs[count].append((processor(server.pid) - before) / 100)
        nothing = statistics.median(costs[0])
        return {count: (statistics.median(costs[count]) - nothing) / count for count in SIZES}
    finally:
        server.kill()
        server.wait()


class Reader:
    """A client that reads one page behind the other."""

    def __init__(self, port):
        self.stream = connect(port)
        self.buffer = b""
        self.sent = 0.0

    def ask(self):
        self.stream.sendall(b"GET /api/v1/readings?limit=100 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.sent = time.perf_counter()

    def take(self):
        """Whether the answer has come to its end."""
        octets = self.stream.recv(1 << 17)
        self.buffer += octets
        if not octets:
            sys.exit("the gateway has closed a reader's connection")
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"a reader got {self.buffer[:200]}")
        fields = dict(each.lower().split(b": ", 1) for each in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"]) if b"content-length" in fields else None
        if len(body) != length if length is not None else not body.endswith(b"\r\n0\r\n\r\n"):
            return False
        self.buffer = b""
        return True


def readers(binary, work):
    state = work / "readers"
    prepare(state)
    captures.write(work / "readers.btsnoop", 1, 5_000)
    run(state, binary, "replay", work / "readers.btsnoop")
    used, latencies = {}, {}
    with Gateway(binary, state) as gateway:
        for count in [1, *SIZES]:
            clients = [Reader(gateway.port) for _ in range(count)]
            selector = selectors.DefaultSelector()
            answers, times = max(1000, 20 * count), []
            for each in clients:
                selector.register(each.stream, selectors.EVENT_READ, each)
            before = gateway.processor()
            for each in clients:
                each.ask()
            while len(times) < answers:
                for key, _ in selector.select():
                    if key.data.take():
                        times.append(time.perf_counter() - key.data.sent)
                        key.data.ask()
            used[count] = (gateway.processor() - before) / len(times)
            latencies[count] = times
            for each in clients:
                each.stream.close()
            time.sleep(1)
    growth("readers side by side, an answer of 100 readings", used)
    for count, times in latencies.items():
        cuts = statistics.quantiles(times, n=100)
        row("readers side by side, time to the answer", count, f"median {amount(cuts[49])}, p99 {amount(cuts[98])}")


# Devices and strangers.

@contextlib.contextmanager
def radio(work, meters):
    """A private bus with an emulated bluetoothd: the bus's address, and a function that has the daemon do something."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    daemon, address = bus.start_daemon(folder)
    emulated = subprocess.Popen([sys.executable, HERE / "bluetoothd.py", address, str(meters)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def ask(*command):
        if command:
            print(*command, file=emulated.stdin, flush=True)
        line = emulated.stdout.readline()
        if not line:
            sys.exit("the emulated bluetoothd has ended")
        return json.loads(line)

    try:
        ask()
        yield address, ask
    finally:
        for each in (emulated, daemon):
            each.terminate()
            each.wait()


# What has to look at each device: linear at best.
START, FIRST_START = "start-up, until meters are listened for", "first start, with a new bond of each"
LISTS = ["`devices`", "GET /api/v1/devices", "/metrics", START, FIRST_START]


def devices(binary, work):
    counts = [10, MANY]
    found, unread = {}, []
    for count in counts:
        state = work / f"devices-{count}"
        prepare(state)
        totals = {}
        for meters in (1, count):
            captures.write(work / "devices.btsnoop", meters, 0)
            # Ten meters take a hundredth of a second more than one.
            totals[meters], _ = rounds(work, 1, binary, "replay", work / "devices.btsnoop", times=25 if meters <= 10 else 5)
        found.setdefault("`replay`, a first contact with each", {}).update(apiece(totals))
        # The same number of readings, whoever measured them.
        records = captures.write(work / "devices.btsnoop", count, max(0, 29_000 // count - 17))
        run(state, binary, "replay", work / "devices.btsnoop")
        with radio(work, count) as (address, ask):
            starts = []
            for _ in range(4):
                with Gateway(binary, state, address) as gateway:
                    # With what it does until it listens for all of its meters.
                    starts.append(gateway.settle())
            found.setdefault(FIRST_START, {})[count] = starts[0]
            found.setdefault(START, {})[count] = statistics.median(starts[1:])
            with Gateway(binary, state, address) as gateway:
                gateway.settle()
                answer = json.loads(gateway.command("devices", "--json"))["devices"]
                paired = sum(each["paired"] for each in answer)
                if (len(answer), paired) != (count, count):
                    note(f"{count} devices: {len(answer)} are known, {paired} are paired")
                note(f"{count} devices, {records} records: {gateway.memory()}")
                for name, work_of in {
                    "`devices`": lambda: gateway.command("devices", "--json"),
                    "GET /api/v1/devices": lambda: gateway.request("/api/v1/devices"),
                    "`sync status`": lambda: gateway.command("sync", "status", "--json"),
                    "/metrics": lambda: gateway.request("/metrics"),
                }.items():
                    found.setdefault(name, {})[count] = gateway.used(work_of, 20)
                time.sleep(5)
                before = gateway.processor()
                time.sleep(SECONDS)
                found.setdefault("idle, a minute", {})[count] = (gateway.processor() - before) * 60 / SECONDS
                contacts, took = [], []
                for number in range(count - 10, count):
                    before = gateway.processor()
                    done = ask("heard", number)
                    if not done["ended"]:
                        note(f"{count} devices: meter {number} was heard and not read")
                        break
                    time.sleep(0.5)
                    contacts.append(gateway.processor() - before)
                    took.append(done["seconds"])
                contact = "a contact with a meter that has one record"
                if contacts:
                    found.setdefault(contact, {})[count] = statistics.median(contacts)
                    note(f"{count} devices: a contact took {amount(statistics.median(took))}")
                else:
                    unread.append((contact, count))
    for name, values in found.items():
        if name in LISTS:
            growth(f"{name}, a device", {count: value / count for count, value in values.items()})
        growth(name, values, bar=None if name in LISTS else LINEAR)
    for name, count in unread:
        row(name, count, "it is not read", ratio=math.inf, bar=LINEAR)


def strangers(binary, listener, work):
    kinds = [("waiting for a meter, a tenth from new addresses", 10, False),
             ("waiting for a meter, all from new addresses", 100, False),
             ("`scan`, a tenth from new addresses", 10, True)]
    for name, new, is_search in kinds:
        state = work / f"strangers-{new}-{is_search}"
        prepare(state)
        with radio(work, 1) as (address, ask), Gateway(binary, state, address) as gateway:
            what = ["search"] if is_search else ["wait", "C0:00:00:00:00:00"]
            floor = subprocess.Popen([listener, *what], env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": address},
                                     stdout=subprocess.PIPE, text=True)
            floor.stdout.readline()
            search = None
            if is_search:
                search = subprocess.Popen(
                    [binary, "scan", "--for", f"{SECONDS + 60}s", "--json", "--state-dir", state], env=gateway.environment,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(5)
            ask("strangers", 1000, 20, new)
            memory = gateway.memory()
            before = gateway.processor(), processor(floor.pid)
            done = ask("strangers", 1000, SECONDS, new)
            time.sleep(0.5)
            ours, bare = ((now - then) / done["sent"] for now, then in zip((gateway.processor(), processor(floor.pid)), before))
            later = gateway.memory()
            if search:
                search.terminate()
                search.wait()
            floor.terminate()
            note(f"{name}: {done}, {floor.stdout.readline().strip()}; {memory}, then {later}")
            floor.wait()
        row(f"strangers, {name}: an advertisement", f"{done['sent'] / done['seconds']:,.0f} a second", amount(ours),
            f"C listener: {amount(bare)}", ours / bare, FLOOR)
        row(f"strangers, {name}: private memory", f"{done['strangers']:,} addresses", megabytes(later.private_dirty),
            f"{SECONDS} s before: {megabytes(memory.private_dirty)}", later.private_dirty / memory.private_dirty, 1.1)


PARTS = ["replay", "import", "streams", "readers", "devices", "strangers"]


def main():
    # Compared with each other, so the others on the machine come first.
    os.nice(5)
    binary, listener = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    parts = sys.argv[3:] or PARTS
    if not set(parts) <= set(PARTS):
        sys.exit(f"the parts are {', '.join(PARTS)}")
    print("| work | size | ours | beside | ratio | bar | kept |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="healthrelay-growth.") as work:
        work = pathlib.Path(work)
        for part in parts:
            BARS.append(Bars(part))
            {"replay": lambda: replays(binary, work), "import": lambda: imports(binary, work),
             "streams": lambda: streams(binary, work), "readers": lambda: readers(binary, work),
             "devices": lambda: devices(binary, work), "strangers": lambda: strangers(binary, listener, work)}[part]()
            BARS[-1].leave()


main()
