"""Documents of gateways: readings as `healthrelay` itself writes them, under other ids and times.

The templates come from a replay of the recorded captures, one of each kind and unit, so that the collector gets what real
gateways send. A reading of a simulated gateway follows from its gateway and its number: it can be made again for comparison.
"""
import datetime
import glob
import hashlib
import json
import os
import subprocess

from engine import ROOT, TOOL, Failed, plain_environment

BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
CAPTURES = sorted(glob.glob(f"{ROOT}/Fixtures/*.btsnoop"))


# What no recorded meter measures comes from Apple Health's format: type, unit and value.
SAMPLES = [
    ("BodyMass", "kg", "70.5"), ("BodyMass", "lb", "155.4"), ("OxygenSaturation", "%", "0.97"), ("BodyTemperature", "degC", "36.7"),
    ("BodyFatPercentage", "%", "0.21"), ("HeartRate", "count/min", "61"), ("RestingHeartRate", "count/min", "55"),
    ("HeartRateVariabilitySDNN", "ms", "48"), ("RespiratoryRate", "count/min", "14")]


def export(path):
    """Writes an export of Apple Health."""
    with open(path, "w") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<HealthData locale="en_GB">\n'
                   '<ExportDate value="2026-11-20 08:00:00 +0100"/>\n')
        for number, (kind, unit, value) in enumerate(SAMPLES):
            moment = f"2026-11-19 07:{number:02d}:00 +0100"
            file.write(f'<Record type="HKQuantityTypeIdentifier{kind}" sourceName="Scale" sourceVersion="1" unit="{unit}" '
                       f'creationDate="{moment}" startDate="{moment}" endDate="{moment}" value="{value}"/>\n')
        file.write("</HealthData>\n")


def replay(state, home, captures=CAPTURES):
    """Reads captures, and an export of other kinds, into a gateway's store; gives its readings."""
    environment = plain_environment({
        "HOME": home, "HEALTHRELAY_STATE_DIR": state, "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
        "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"})

    def tool(*arguments):
        return subprocess.run([TOOL, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
    done = tool("replay", *captures)
    if done.returncode not in (0, 65):
        raise Failed(f"healthrelay replay ended with {done.returncode}: {done.stderr[-500:]}")
    export(f"{home}/export.xml")
    done = tool("import", f"{home}/export.xml")
    if done.returncode != 0:
        raise Failed(f"healthrelay import ended with {done.returncode}: {done.stderr[-500:]}")
    page = tool("query", "--limit", "10000", "--json")
    return json.loads(page.stdout)["readings"]


def templates(folder):
    """One reading of each kind and unit."""
    os.makedirs(folder, exist_ok=True)
    found = {}
    for reading in replay(f"{folder}/state", folder):
        if reading["excluded"] is not None or reading["time"] is None:
            continue
        value = reading.get(reading["kind"])
        unit = value.get("unit") if isinstance(value, dict) else None
        reading.pop("deliveries", None)
        # A recording of a night is as large as a hundred others.
        if len(json.dumps(reading)) < 4096:
            found.setdefault((reading["kind"], unit), reading)
    if len({kind for kind, _ in found}) < 5:
        raise Failed(f"only {sorted(found)} in the captures")
    return [found[key] for key in sorted(found, key=str)]


def reading_id(gateway, number):
    return hashlib.sha256(f"{gateway}/{number}".encode()).hexdigest()[:32]


def reading_time(number):
    return (BEGIN + datetime.timedelta(seconds=300 * number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def reading(template, gateway, number, revision):
    return {**template, "id": reading_id(gateway, number), "revision": revision, "time": reading_time(number)}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def compact(document):
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def batch(gateway, number, readings, schema=1):
    return compact({"schema": schema, "gateway": gateway, "batch": number, "sent_at": now(), "readings": readings,
                    "retracted": []})


def hello(gateway, unconfirmed=()):
    return compact({"schema": 1, "gateway": gateway, "sent_at": now(), "version": "simulated",
                    "configuration": {"version": None, "hash": None, "state": "none", "refused": []},
                    "unconfirmed": sorted(unconfirmed)[:256]})


def status(gateway, waiting, handed_over):
    return compact({"schema": 1, "gateway": gateway, "online": True, "sent_at": now(), "version": "simulated", "build": None,
                    "uptime_seconds": 60, "clock": "synchronised",
                    "backlog": {"waiting": waiting, "handed_over": handed_over, "refused": 0, "oldest": None}, "devices": [],
                    "configuration": {"version": None, "hash": None, "state": "none", "refused": []}})
