#!/usr/bin/env python3
"""Measures what the gateway does with stores of a home that have grown for days, months and years.

  measure.py HEALTHRELAY DECADE-FILL DECADE-CALLS FOLDER SIZE...

Fills a store for each size into FOLDER, unless one is there already, and measures each kind of work in the processor's time
of all processes that take part (user and system, the median of several rounds). Each is compared with the same work on the
smallest store, and with a bare query that gives the same rows through Python's sqlite3. The bare query neither unseals the
rows nor writes JSON. What the library has a call for is measured without the request, too.
"""
import datetime
import json
import os
import pathlib
import re
import sqlite3
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from bars import Bars  # noqa: E402
from gateway import Gateway, children, filled  # noqa: E402

END = datetime.datetime(2026, 7, 1, tzinfo=datetime.timezone.utc)
FLATNESS, CLOSENESS = 1.5, 3.0
# What is asked of a start alone.
START = 1.2
IDLE = "written in an idle minute"
SENSORS = "storing a reading of a sensor that was renumbered every two weeks"
# A month's figures are compared with those of the month before: a store needs both.
MONTH = 200_000

SETTINGS = """\
user: {client_user_id: anna, time_zone: Europe/Berlin}
users:
  - client_user_id: anna
    time_zone: Europe/Berlin
  - client_user_id: ben
    time_zone: Europe/Berlin
sync: {mode: manual}
destinations:
  - {name: archive, kind: influxdb, url: "http://127.0.0.1:9", database: home}
  - {name: diary, kind: nightscout, url: "https://127.0.0.1:9", secret_file: SECRET, people: [anna]}
  - {name: clinic, kind: fhir, url: "https://127.0.0.1:9", patients: {anna: "urn:x|1", ben: "urn:x|2"}}
"""


def measured(gateway, work, prepare=None, rounds=5, enough=0.4, most=60):
    """The processor's time and the time that passes for one round, commands included: the medians of several series, each of
    which repeats what is short."""
    work()
    series = []
    for _ in range(rounds):
        used = passed = 0.0
        count = 0
        while count == 0 or (used < enough / rounds * 2 and count < most):
            if prepare:
                prepare()
            before, began = gateway.processor() + children(), time.perf_counter()
            work()
            passed += time.perf_counter() - began
            used += gateway.processor() + children() - before
            count += 1
        series.append((used / count, passed / count))
    return tuple(statistics.median(each) for each in zip(*series))


def bare(path, *queries):
    """The processor's time of queries whose rows are all read, the median of five."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    times = []
    for _ in range(5):
        count, before = 0, time.process_time()
        while count == 0 or time.process_time() - before < 0.05:
            for sql, arguments in queries:
                database.execute(sql, arguments).fetchall()
            count += 1
        times.append((time.process_time() - before) / count)
    database.close()
    return statistics.median(times)


def bare_insert(path):
    """The processor's time of a commit that stores a reading as the gateway does; the row is removed again."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = FULL")
    tables = ["frame", "reading", "reading_frame", "outbox"]
    rows = {}
    newest = database.execute("SELECT max(reading) FROM outbox").fetchone()[0]
    frame = database.execute("SELECT frame FROM reading_frame WHERE reading = ?", (newest,)).fetchone()[0]
    for table, column, key in [("frame", "key", frame), ("reading", "key", newest), ("reading_frame", "reading", newest),
                               ("outbox", "reading", newest)]:
        cursor = database.execute(f"SELECT * FROM {table} WHERE {column} = ?", (key,))
        names = [each[0] for each in cursor.description]
        rows[table] = [dict(zip(names, row)) for row in cursor.fetchall()]
    times = []
    for number in range(30):
        shift = 1_000_000_000 + number
        before = time.process_time()
        database.execute("BEGIN IMMEDIATE")
        for table in tables:
            for row in rows[table]:
                row = dict(row)
                for name in ("key",) if table in ("frame", "reading") else ("reading", "frame"):
                    if name in row:
                        row[name] += shift
                if table == "reading":
                    row["id"] = os.urandom(16)
                if table == "outbox":
                    row["timestamp"] += shift
                database.execute(
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        database.execute("COMMIT")
        times.append(time.process_time() - before)
        database.execute("BEGIN IMMEDIATE")
        for table, column, key in [("outbox", "reading", newest), ("reading_frame", "reading", newest),
                                   ("reading", "key", newest), ("frame", "key", frame)]:
            database.execute(f"DELETE FROM {table} WHERE {column} = ?", (key + shift,))
        database.execute("COMMIT")
    database.close()
    return statistics.median(times)


def measure(binary, fill, calls, folder, size):
    state = filled(fill, folder, size)
    took = re.search(r"took ([0-9.]+) µs", (state / "filled").read_text())
    secret = state / "secret"
    secret.write_text("a-secret-of-the-benchmark\n")
    secret.chmod(0o600)
    (state / "settings.yaml").write_text(SETTINGS.replace("SECRET", str(secret)))
    store = state / "readings.sqlite"
    found = {}

    # The first start notes where the destinations are.
    with Gateway(binary, state):
        pass
    starts = []
    for _ in range(5):
        with Gateway(binary, state) as gateway:
            starts.append(gateway.started)
    found["start-up"] = (*(statistics.median(each) for each in zip(*starts)), None)

    with Gateway(binary, state) as gateway:
        added, yesterday = 0, datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)

        def add():
            nonlocal added
            added += 1
            # Nobody measures a temperature twice in a second: where a destination wants seconds to be unique, another is looked for.
            at = yesterday + datetime.timedelta(seconds=13 * added)
            gateway.request("/api/v1/readings", {
                "kind": "temperature", "value": f"36.{added % 10}", "unit": "°C", "confirm": True, "person": "anna",
                "time": at.isoformat(timespec="microseconds"), "note": f"benchmark {at.timestamp()}"})

        def changed():
            add()
            time.sleep(0.1)

        database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        middle = database.execute("SELECT time FROM reading ORDER BY time LIMIT 1 OFFSET ?",
                                  (max(size // 2, 10_000 if size < 20_000 else 0) - 1,)).fetchone()
        middle = middle[0] if middle else int(END.timestamp())
        users = dict(database.execute("SELECT client_user_id, key FROM user"))
        glucose = database.execute("SELECT kind FROM reading GROUP BY kind ORDER BY count(*) DESC LIMIT 1").fetchone()[0]
        database.close()
        moment = datetime.datetime.fromtimestamp(middle, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        day = (END - datetime.timedelta(days=1)).date()
        month = END - datetime.timedelta(days=30)
        last = int(END.timestamp())

        newest = "SELECT * FROM reading ORDER BY time DESC, id DESC LIMIT 100"
        found["newest 100"] = (*measured(gateway, lambda: gateway.request("/api/v1/readings?limit=100")),
                               bare(store, (newest, ())))
        page = "SELECT * FROM reading WHERE time <= ? ORDER BY time DESC, id DESC LIMIT 10000"
        found["page of 10,000 from the middle"] = (
            *measured(gateway, lambda: gateway.request(f"/api/v1/readings?limit=10000&to={moment}")),
            bare(store, (page, (middle,))))
        own = "SELECT * FROM reading WHERE kind = ? AND user = ? AND time >= ? AND time < ?"
        if size >= MONTH:
            found["a month's figures"] = (
                *measured(gateway, lambda: gateway.request(
                    f"/api/v1/reports/sensor?person=anna&format=json&from={month.date()}&to={day}")),
                bare(store, (own, (glucose, users["anna"], int(month.timestamp()), last))))
        own = "SELECT * FROM reading WHERE user = ? AND time >= ? AND time < ?"
        found["a daily summary"] = (
            *measured(gateway, lambda: gateway.request(f"/api/v1/summaries/body?date={day}&person=anna")),
            bare(store, (own, (users["anna"], last - 86_400, last))))
        # What was counted is remembered until the next commit, so each round begins with one.
        outbox = ("SELECT destination, state, count(*) FROM outbox GROUP BY destination, state", ())
        found["sync status"] = (*measured(gateway, lambda: gateway.request("/api/v1/sync"), changed), bare(store, outbox))
        kinds = ("SELECT kind, count(*) FROM reading GROUP BY kind", ())
        frames = ("SELECT count(*) FROM frame", ())
        found["/metrics"] = (*measured(gateway, lambda: gateway.request("/metrics"), changed), bare(store, outbox, kinds, frames))
        found["doctor"] = (*measured(gateway, lambda: gateway.command("doctor", "--json", check=False), changed), None)
        adding = measured(gateway, add, enough=5, most=600)
        # Everything above has ended: nothing is written but what the gateway writes by itself.
        time.sleep(5)
        idle = pathlib.Path(f"/proc/{gateway.pid}/io")

        def written():
            return int(next(each for each in idle.read_text().splitlines() if each.startswith("write_bytes")).split()[1])

        before = written()
        time.sleep(60)
        found[IDLE] = written() - before
        print(f"# {size}: {found[IDLE]} bytes written in an idle minute", file=sys.stderr, flush=True)
    found["adding a reading"] = (*adding, bare_insert(store))
    # The library's own calls, with the gateway gone; each beside the same bare query.
    own = json.loads(subprocess.run([calls, state, str(middle), str(last - 86_400)], check=True, stdout=subprocess.PIPE).stdout)
    for work, seconds in own.items():
        found[f"{work}, by the library's call"] = (seconds, None, found[work][2])
    if took:
        # By the fill itself, in its last days: a day's readings in one commit.
        found[SENSORS] = (float(took[1]) / 1_000_000, None, None)
    octets = sum(each.stat().st_size for each in state.glob("readings.sqlite*"))
    count = sqlite3.connect(f"file:{store}?mode=ro", uri=True).execute("SELECT count(*) FROM reading").fetchone()[0]
    print(f"# {size}: {octets} bytes on disk, {octets / count:.0f} a reading", file=sys.stderr, flush=True)
    return found


def milliseconds(seconds):
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.3f}" if seconds < 0.001 else f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


def main():
    binary, fill, calls, folder = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    sizes = sorted(int(each.replace("_", "")) for each in sys.argv[5:])
    found = {size: measure(binary, fill, calls, folder, size) for size in sizes}
    print("| work | readings | ours, ms | passed, ms | bare query, ms | ours : bare (bar 3) | ours : smallest (bar 1.5) | kept |")
    print("|---|---|---|---|---|---|---|---|")
    bars = Bars("work at each size")
    for size in sizes:
        bars.add(IDLE, size, f"{found[size][IDLE]:,} bytes", bar=0, unit=" bytes", value=found[size].pop(IDLE))
    for work in found[sizes[-1]]:
        first, flatness = None, START if work == "start-up" else FLATNESS
        for size in sizes:
            if work not in found[size]:
                continue
            used, passed, floor = found[size][work]
            smallest = smallest if first else size
            first = first or used
            close, flat = used / floor if floor else None, used / first if first else 1
            kept = flat <= flatness and (close is None or close <= CLOSENESS)
            shown = f"{milliseconds(used)} ms"
            if close is not None:
                bars.add(work, size, shown, f"bare query: {milliseconds(floor)} ms", ratio=close, bar=CLOSENESS)
            if size != smallest:
                bars.add(work, size, shown, f"{smallest:,} readings: {milliseconds(first)} ms", ratio=flat, bar=flatness)
            print(f"| {work} | {size:,} | {milliseconds(used)} | {milliseconds(passed)} | {milliseconds(floor)} | "
                  f"{'–' if close is None else f'{close:.1f}'} | {flat:.2f} | {'yes' if kept else 'no'} |")
    bars.leave()


main()
