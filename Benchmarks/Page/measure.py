"""Measures the page of a year of a sensor and two cuffs beside pandas, and the year's PDF beside rsvg-convert.

  measure.py HEALTHRELAY [ROUNDS]

The page asks for what the browser asks for: its files, how things stand, the newest readings, and the figures and charts of a
year (35,040 glucose values and 1,460 blood pressures). Bars: no more of the processor than pandas needs to read the same rows
from a clear SQLite and compute the same figures, its imports left out; 200 kB over the wire, as a browser that takes gzip gets
them. The PDF of the year: 64 MB at most, and 3 x the processor's time of rsvg-convert on the same pages.
"""
import datetime
import gzip
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "Tests"))
import libraries  # noqa: E402

libraries.require(__file__, {"pandas": "pandas==2.3.3"})

TICK = os.sysconf("SC_CLK_TCK")
ZONE = "Europe/Berlin"
binary = pathlib.Path(sys.argv[1]).resolve()
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
work = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-page-bench."))
today = datetime.datetime.now(datetime.timezone.utc).date()
first, last = today - datetime.timedelta(days=365), today - datetime.timedelta(days=1)
COLUMNS = ["id", "kind", "time", "time_basis", "provider", "excluded", "source", "source_device", "glucose_value",
           "glucose_unit", "sample_type", "sample_location", "systolic", "diastolic", "pressure_unit", "pulse"]


def year():
    """A year's rows, the same each time but for the date: of a sensor each quarter of an hour, of two cuffs in the morning and the
    evening."""
    chance = random.Random(19)
    begin = int(datetime.datetime.combine(first, datetime.time(), datetime.timezone.utc).timestamp())
    glucose, pressure, level = [], [], 120.0
    for number in range(365 * 96):
        at = begin + 900 * number
        hour = number % 96 / 4
        meals = sum(55 * math.exp(-((hour - meal) ** 2) / 2) for meal in (7, 12, 18))
        level += 0.15 * (105 + meals - level) + chance.gauss(0, 9)
        glucose.append((at, max(41, min(399, round(level)))))
    for number in range(365 * 2):
        for cuff in ("one", "two"):
            at = begin + 43200 * number + 21600 + (120 if cuff == "two" else 0)
            systolic = round(chance.gauss(131, 9))
            pressure.append((at, systolic, round(systolic * 0.62 + chance.gauss(0, 4)), round(chance.gauss(68, 6)), cuff))
    return glucose, pressure


def fill(glucose, pressure):
    """The rows as our own CSV, and as a plain SQLite table."""
    def line(kind, at, **cells):
        instant = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        cells |= {"id": hashlib.md5(f"{kind} {at}".encode()).hexdigest(), "kind": kind, "time": instant,
                  "time_basis": "corrected", "provider": "manual"}
        return ",".join(str(cells.get(name, "")) for name in COLUMNS)
    with open(work / "year.csv", "w") as file:
        print(",".join(COLUMNS), file=file)
        for at, value in glucose:
            print(line("glucose", at, source="CGM", source_device="sensor", glucose_value=value, glucose_unit="mg/dL",
                       sample_type="interstitial_fluid", sample_location="subcutaneous_tissue"), file=file)
        for at, systolic, diastolic, pulse, cuff in pressure:
            print(line("blood_pressure", at, source="cuff", source_device=cuff, systolic=systolic, diastolic=diastolic,
                       pressure_unit="mmHg", pulse=pulse), file=file)
    database = sqlite3.connect(work / "rows.sqlite")
    database.execute("CREATE TABLE glucose (time INTEGER PRIMARY KEY, value INTEGER)")
    database.execute("CREATE TABLE pressure (time INTEGER PRIMARY KEY, systolic INTEGER, diastolic INTEGER, pulse INTEGER, cuff TEXT)")
    database.executemany("INSERT INTO glucose VALUES (?, ?)", glucose)
    database.executemany("INSERT INTO pressure VALUES (?, ?, ?, ?, ?)", pressure)
    database.commit()
    database.close()


def settings(state, number=0):
    """A sealed store, or one in the clear where its name says so."""
    return {**os.environ, "HEALTHRELAY_USER_TIME_ZONE": ZONE, "HEALTHRELAY_USER_CLIENT_USER_ID": "mara",
            "HEALTHRELAY_STORE_ENCRYPTION": "off" if state.endswith("clear") else "on",
            "HEALTHRELAY_HTTP_LISTEN": f"127.0.0.1:{number}", "HEALTHRELAY_HTTP_TLS": "off",
            "HEALTHRELAY_HTTP_LOCAL": "trusted", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none"}


started = []


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(state):
    number = port()
    process = subprocess.Popen([binary, "run", "--state-dir", state], env=settings(state, number), stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    started.append(process)
    while True:
        try:
            return process, Browser(number)
        except OSError:
            time.sleep(0.05)


def processor(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Browser:
    """One connection that is kept, and what came over it."""

    def __init__(self, number):
        self.number, self.received = number, 0
        self.connect()

    def connect(self):
        self.stream = socket.create_connection(("127.0.0.1", self.number))
        self.file = self.stream.makefile("rb")

    def line(self):
        text = self.file.readline()
        self.received += len(text)
        return text

    def get(self, path):
        return self.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n".encode(), path)

    def post(self, path, document):
        body, proof = json.dumps(document).encode(), json.loads(self.get("/api/v1/session"))["csrf_token"]
        return self.ask(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        f"X-CSRF-Token: {proof}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body, path)

    def ask(self, request, path):
        self.stream.sendall(request)
        if not (first := self.line()):
            # The gateway has closed what was idle.
            self.connect()
            self.stream.sendall(request)
            first = self.line()
        assert first, f"no answer to {path}"
        status = first.split()[1]
        length, packed, parts = 0, False, False
        while (field := self.line().strip().lower()):
            name, _, text = field.partition(b":")
            if name == b"content-length":
                length = int(text)
            packed |= name == b"content-encoding"
            parts |= name == b"transfer-encoding"
        body = self.file.read(length)
        while parts and (size := int(self.line(), 16)):
            body += self.file.read(size)
            self.line()
        if parts:
            self.line()
        self.received += len(body)
        assert status in (b"200", b"201"), (path, status, body[:200])
        return gzip.decompress(body) if packed else body


def wanted(browser):
    """What the page asks for: the files that its HTML names, and what its scripts ask for a year."""
    html = browser.get("/").decode()
    files = re.findall(r'(?:src|href)="(/[^"#]+\.(?:js|css))"', html)
    span = urllib.parse.urlencode({"from": first, "to": last, "format": "fragment", "language": "en"})
    reports = ["bp", "glucose", "sensor", "weight", "heart_rate", "hrv", "spo2", "temperature", "body_composition"]
    return ["/", *files, "/api/v1/session", "/api/v1/gateway", "/api/v1/readings?limit=25&series=false", "/api/v1/gateway",
            "/api/v1/readings?series=false&latest=true", "/api/v1/devices", "/api/v1/sync",
            *(f"/api/v1/reports/{name}?{span}" for name in reports)]


def page(state, kind, other):
    process, browser = start(state)
    paths = wanted(browser)
    costs = {}
    begin, before = browser.received, processor(process.pid)
    for path in paths:
        so_far = browser.received
        browser.get(path)
        costs[path.split("?")[0]] = browser.received - so_far
    size, alone = browser.received - begin, processor(process.pid) - before
    spent = 0
    for number in range(rounds):
        # A page that nothing has changed for would be no page of its own.
        at = datetime.datetime.combine(last, datetime.time(12, number), datetime.timezone.utc)
        browser.post("/api/v1/readings", {"kind": "glucose", "value": "123", "unit": "mg/dL", "time": at.isoformat()})
        before = processor(process.pid)
        for path in paths:
            browser.get(path)
        spent += (processor(process.pid) - before) / rounds
    print(f"page of a year, {kind}: {spent * 1000:.0f} ms of the processor behind each reading that comes, pandas {other * 1000:.0f} ms: "
          f"{spent / other:.2f} (bar 1.00); the first page behind the start {alone * 1000:.0f} ms: {alone / other:.2f}; "
          f"{size / 1000:.0f} kB over the wire (bar 200); the gateway's peak {peak(process.pid) / 1e6:.0f} MB")
    for path, octets in sorted(costs.items(), key=lambda each: -each[1])[:4]:
        print(f"    {octets / 1000:.1f} kB {path}")
    for name in ["sensor", "glucose", "bp"]:
        path = next(each for each in paths if f"/reports/{name}?" in each)
        before = processor(process.pid)
        for _ in range(rounds):
            browser.get(path)
        print(f"    again {(processor(process.pid) - before) / rounds * 1000:.0f} ms {path.split('?')[0]}")
    process.terminate()
    process.wait()


def spent_by(arguments, **options):
    """Runs a program: the processor's seconds and the largest memory of it and of what it started."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def pdf(state, name):
    """The program beside a helper that keeps the pages that it is given."""
    place = work / "kept"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copy(binary, place / "healthrelay")
    real = binary.parent / "healthrelay-report"
    (place / "healthrelay-report").write_text(f"#!/bin/sh\n/usr/bin/tee {place}/pages | {real}\n")
    (place / "healthrelay-report").chmod(0o755)
    arguments = ["report", name, "--from", str(first), "--to", str(last), "--format", "pdf", "--state-dir", state,
                 "--out", str(work / "year.pdf")]
    spent_by([place / "healthrelay", *arguments], env=settings(state))
    octets = (place / "pages").read_bytes()[4:]
    parts = []
    while octets:
        length = int.from_bytes(octets[:4], "big")
        parts.append(octets[4:4 + length])
        octets = octets[4 + length:]
    pages = []
    for number, part in enumerate(parts[1:]):
        pages.append(place / f"{number}.svg")
        pages[-1].write_bytes(part)
    ours = [spent_by([binary, *arguments], env=settings(state)) for _ in range(rounds)]
    helper = []
    for _ in range(rounds):
        with open(place / "pages", "rb") as file:
            helper.append(spent_by([real], stdin=file))
    theirs = [spent_by(["rsvg-convert", "-f", "pdf", "-o", work / "theirs.pdf", *pages]) for _ in range(rounds)]
    middle = [sorted(each)[rounds // 2][0] for each in (ours, helper, theirs)]
    print(f"PDF of a year, {name}, {len(pages)} pages: {middle[0] * 1000:.0f} ms of the processor, of which its helper "
          f"{middle[1] * 1000:.0f} ms; rsvg-convert alone {middle[2] * 1000:.0f} ms: {middle[0] / middle[2]:.2f} (bar 3.00); at "
          f"most {max(each[1] for each in ours) / 1e6:.0f} MB, the helper {max(each[1] for each in helper) / 1e6:.0f} MB "
          f"(bar 64), rsvg-convert {max(each[1] for each in theirs) / 1e6:.0f} MB")


def main():
    glucose, pressure = year()
    fill(glucose, pressure)
    answers = [json.loads(subprocess.run([sys.executable, HERE / "figures.py", work / "rows.sqlite", ZONE], check=True,
                                         capture_output=True).stdout) for _ in range(max(3, rounds))]
    other = sorted(each["seconds"] for each in answers)[len(answers) // 2]
    print("pandas: " + json.dumps(answers[0]))
    try:
        for state in [str(work / "clear"), str(work / "sealed")]:
            subprocess.run([binary, "import", work / "year.csv", "--state-dir", state], check=True, env=settings(state),
                           capture_output=True)
            page(state, "sealed" if state.endswith("sealed") else "in the clear", other)
        for name in ["sensor", "bp"]:
            pdf(str(work / "sealed"), name)
    finally:
        for process in started:
            process.kill()
        shutil.rmtree(work, ignore_errors=True)


main()
