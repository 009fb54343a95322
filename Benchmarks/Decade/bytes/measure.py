#!/usr/bin/env python3
"""Measures what a reading costs a disk: bytes that it takes there, and bytes that the kernel counts as written for it.

  bytes/measure.py DECADE-FILL DECADE-BYTES DECADE-FLOOR [FILLED [DAYS]]

Each contender stores FILLED readings of a home (100,000) and then, started anew, what the home measures in the next DAYS (1),
with a commit wherever the gateway has one: the beginning and end of each contact, the readings of a contact, and one
acknowledgement of each of three destinations. Sensors that measure each minute are read every five minutes.

- the gateway's store, sealed and in the clear
- a bare loop over SQLite in C that stores the same facts: contacts, readings with their octets, deliveries
- InfluxDB, which gets a contact's readings in one request, and neither octets nor deliveries
- the tables of Home Assistant's recorder in SQLite with its settings (`synchronous=NORMAL`), which gets the values alone

The kernel's count is `write_bytes` of /proc/PID/io: what was written to the disk's cache pages. It doesn't contain what the
file system's own journal adds.
"""
import contextlib
import json
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bars import Bars  # noqa: E402

DESTINATIONS = ["archive", "diary", "clinic"]
# The most that may be written, in ratio to the bare loop.
WRITTEN = 1.3

# What the recorder of Home Assistant keeps of a state, in its tables of schema 40 to 50; columns that it no longer fills are
# there, since they're part of its rows.
RECORDER = """
CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id VARCHAR(255));
CREATE UNIQUE INDEX ix_states_meta_entity_id ON states_meta (entity_id);
CREATE TABLE state_attributes (attributes_id INTEGER PRIMARY KEY, hash BIGINT, shared_attrs TEXT);
CREATE INDEX ix_state_attributes_hash ON state_attributes (hash);
CREATE TABLE states (state_id INTEGER PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255), attributes CHAR(0),
    event_id SMALLINT, last_changed CHAR(0), last_changed_ts FLOAT, last_reported_ts FLOAT, last_updated CHAR(0),
    last_updated_ts FLOAT, old_state_id INTEGER REFERENCES states, attributes_id INTEGER REFERENCES state_attributes,
    context_id CHAR(0), context_user_id CHAR(0), context_parent_id CHAR(0), origin_idx SMALLINT, context_id_bin BLOB,
    context_user_id_bin BLOB, context_parent_id_bin BLOB, metadata_id INTEGER REFERENCES states_meta);
CREATE INDEX ix_states_metadata_id_last_updated_ts ON states (metadata_id, last_updated_ts);
CREATE INDEX ix_states_context_id_bin ON states (context_id_bin);
CREATE INDEX ix_states_last_updated_ts ON states (last_updated_ts);
CREATE INDEX ix_states_old_state_id ON states (old_state_id);
CREATE INDEX ix_states_attributes_id ON states (attributes_id);
"""


def size(path):
    """The bytes that a folder's files, or a database with its log, take on the disk."""
    path = pathlib.Path(path)
    files = path.rglob("*") if path.is_dir() else path.parent.glob(path.name + "*")
    return sum(each.stat().st_blocks * 512 for each in files if each.is_file())


def written(pid="self"):
    for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def run(*command):
    return json.loads(subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True).stdout)


def commits(plan, measured):
    """The readings of each commit that has any."""
    readings, is_there = [], False
    with open(plan) as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if fields[0] == "days":
                if not measured:
                    return
                is_there = True
            elif is_there != measured:
                continue
            elif fields[0] == "reading":
                readings.append((fields[1], int(fields[2]), int(fields[3]), [each for each in fields[4:7] if each]))
            elif fields[0] == "commit" and readings:
                yield readings
                readings = []


# InfluxDB

def lines(readings):
    names = ["value", "second", "third"]
    return "\n".join(
        f"{kind},device={device} {','.join(f'{name}={value}' for name, value in zip(names, values))} {at}"
        for kind, device, at, values in readings if values).encode()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def influxdb(folder):
    """A server of its own, and its address."""
    port, other = free_port(), free_port()
    configuration = folder / "influxdb.conf"
    configuration.write_text(f"""
reporting-disabled = true
bind-address = "127.0.0.1:{other}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
[monitor]
  store-enabled = false
""")
    process = subprocess.Popen(["influxd", "-config", configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping").close()
                break
            except OSError:
                if process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def post(url, body):
    urllib.request.urlopen(urllib.request.Request(url, data=body)).close()


def measure_influxdb(plan, folder):
    folder.mkdir()
    with influxdb(folder) as (_, server):
        post(f"{server}/query?q=CREATE+DATABASE+home", b"")
        batch = []
        for readings in commits(plan, measured=False):
            batch += readings
            if len(batch) >= 5000:
                post(f"{server}/write?db=home&precision=s", lines(batch))
                batch = []
        post(f"{server}/write?db=home&precision=s", lines(batch))
    count = 0
    with influxdb(folder) as (process, server):
        before = written(process.pid)
        for readings in commits(plan, measured=True):
            post(f"{server}/write?db=home&precision=s", lines(readings))
            count += len(readings)
        during = written(process.pid) - before
    return {"readings": count, "written": during, "size": size(folder / "data") + size(folder / "wal")}


# Home Assistant's recorder

class Recorder:
    def __init__(self, path):
        is_new = not path.exists()
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = NORMAL")
        self.database.execute("PRAGMA cache_size = -16384")
        if is_new:
            self.database.executescript(RECORDER)
        self.entities = {name: key for key, name in self.database.execute("SELECT * FROM states_meta")}
        self.attributes = dict(self.database.execute("SELECT shared_attrs, attributes_id FROM state_attributes"))
        self.last = dict(self.database.execute("SELECT metadata_id, max(state_id) FROM states GROUP BY metadata_id"))
        self.number = 0

    def key(self, known, table, column, text):
        if text not in known:
            known[text] = self.database.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (text,)).lastrowid
        return known[text]

    def store(self, readings):
        for kind, device, at, values in readings:
            for place, value in enumerate(values):
                entity = self.key(self.entities, "states_meta", "entity_id", f"sensor.{kind}_{device:x}_{place}")
                attributes = self.key(self.attributes, "state_attributes", "shared_attrs", json.dumps(
                    {"state_class": "measurement", "unit_of_measurement": "mg/dL", "friendly_name": f"{kind} {device:x}"}))
                self.number += 1
                self.last[entity] = self.database.execute(
                    "INSERT INTO states (state, last_updated_ts, old_state_id, attributes_id, origin_idx, context_id_bin,"
                    " metadata_id) VALUES (?, ?, ?, ?, 0, ?, ?)",
                    (value, at + 0.5, self.last.get(entity), attributes, at.to_bytes(6, "big") + self.number.to_bytes(10, "big"),
                     entity)).lastrowid

    def fill(self, plan):
        self.database.execute("BEGIN")
        for readings in commits(plan, measured=False):
            self.store(readings)
        self.database.execute("COMMIT")
        self.database.close()

    def run(self, plan):
        count, before = 0, written()
        for readings in commits(plan, measured=True):
            self.database.execute("BEGIN")
            self.store(readings)
            self.database.execute("COMMIT")
            count += len(readings)
        self.database.close()
        print(json.dumps({"readings": count, "written": written() - before}))


def measure_recorder(plan, path):
    for mode in ["fill", "days"]:
        answer = subprocess.run([sys.executable, __file__, f"recorder-{mode}", plan, path], check=True, capture_output=True, text=True)
    return {**json.loads(answer.stdout), "size": size(path)}


def main():
    if sys.argv[1].startswith("recorder-"):
        recorder = Recorder(pathlib.Path(sys.argv[3]))
        return recorder.fill(sys.argv[2]) if sys.argv[1] == "recorder-fill" else recorder.run(sys.argv[2])
    fill, ours, floor = sys.argv[1:4]
    filled = sys.argv[4] if len(sys.argv) > 4 else "100000"
    days = sys.argv[5] if len(sys.argv) > 5 else "1"
    work = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-decade-bytes."))
    found = {}
    try:
        plan = work / "day.plan"
        subprocess.run([ours, "plan", plan, filled, days], check=True)
        sealed, clear, bare = work / "sealed", work / "clear", work / "bare.sqlite"
        subprocess.run([fill, sealed, filled], check=True, capture_output=True)
        found["HealthRelay, sealed"] = {**run(ours, "ours", sealed, filled, days), "size": size(sealed)}
        found["HealthRelay, in the clear"] = {**run(ours, "clear", clear, filled, days), "size": size(clear)}
        run(floor, "fill", plan, bare)
        found["a bare loop over SQLite"] = {**run(floor, "days", plan, bare), "size": size(bare)}
        found["InfluxDB"] = measure_influxdb(plan, work / "influxdb")
        found["Home Assistant's recorder"] = measure_recorder(plan, work / "recorder.sqlite")
        total = sum(len(each) for measured in (False, True) for each in commits(plan, measured))
    finally:
        shutil.rmtree(work)
    print(f"{total:,} readings; bytes of the last {found['a bare loop over SQLite']['readings']:,} written in "
          f"{found['a bare loop over SQLite']['commits']:,} commits")
    print(f"| stored by | on disk, bytes a reading | written, bytes a reading | written : bare loop (bar {WRITTEN}) | kept |")
    print("|---|---|---|---|---|")
    base = found["a bare loop over SQLite"]
    for name, each in found.items():
        ratio = each["written"] / each["readings"] / (base["written"] / base["readings"])
        is_ours = name == "HealthRelay, sealed"
        print(f"| {name} | {each['size'] / total:,.0f} | {each['written'] / each['readings']:,.0f} | {ratio:.2f} | "
              f"{('yes' if ratio <= WRITTEN else 'no') if is_ours else '–'} |")
    ours, (bare, *others) = found["HealthRelay, sealed"], list(found)[2:]
    on_disk = {name: f"{each['size'] / total:,.0f}" for name, each in found.items()}
    written = {name: each["written"] / each["readings"] for name, each in found.items()}
    bars = Bars("bytes")
    bars.add("bytes of a reading on disk", total, on_disk["HealthRelay, sealed"], f"{bare}: {on_disk[bare]}",
             "; ".join(f"{name}: {on_disk[name]}" for name in others), ratio=ours["size"] / found[bare]["size"])
    bars.add("bytes written for a reading", total, f"{written['HealthRelay, sealed']:,.0f}", f"{bare}: {written[bare]:,.0f}",
             "; ".join(f"{name}: {written[name]:,.0f}" for name in others), ratio=written["HealthRelay, sealed"] / written[bare],
             bar=WRITTEN)
    bars.leave()


main()
