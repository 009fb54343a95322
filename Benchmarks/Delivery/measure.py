"""Delivers a backlog from the sealed store to each destination's null sink, beside a Python client of the protocol.

Run by run.sh: `measure.py PROGRAM [READINGS [ROUNDS [KIND...]]]`. What is compared is readings per second of the
processor, of the delivering process alone with all its threads: neither waiting nor the sink counts. The gateway's
library reads and checks the sealed store and records every acknowledgement durably. The Python client has the readings
in memory and records nothing.
"""
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Of each kind the peer, the least ratio, and where it delivers.
KINDS = {
    "mqtt": ("paho", 3, "mqtt://127.0.0.1:{mqtt}"),
    "webhook": ("requests", 3, "http://127.0.0.1:{http}/hook"),
    "fhir": ("fhir.resources", 3, "http://127.0.0.1:{fhir}/fhir"),
    "vital": ("aiohttp", 0.5, "http://127.0.0.1:{http}"),
    "influxdb": ("aiohttp", 0.5, "http://127.0.0.1:{http}"),
    "nightscout": ("aiohttp", 0.5, "http://127.0.0.1:{http}"),
}
# Megabytes: the most a delivery may take, and how much of it may come after a quarter of the backlog is delivered.
MEMORY, GROWTH = 100, 5


def main():
    program = sys.argv[1]
    readings, rounds = (int(each) for each in (sys.argv[2:4] + ["100000", "3"][len(sys.argv[2:4]):]))
    kinds = sys.argv[4:] or list(KINDS)
    with tempfile.TemporaryDirectory(prefix="healthrelay-delivery.") as folder, contextlib.ExitStack() as ending:
        ports = sinks(folder, ending)
        found = {}
        for number in range(1, rounds + 1):
            for kind in kinds:
                found.setdefault(kind, []).append(
                    compare(program, kind, KINDS[kind][2].format(**ports), readings, folder, number))
        good = True
        for kind in kinds:
            peer, bar, _ = KINDS[kind]
            ratio = statistics.median(ratio for ratio, _, _ in found[kind])
            most, growth = (max(each[place] for each in found[kind]) for place in (1, 2))
            print(f"{kind}: median {ratio:.2f} x {peer} (bar {bar}); {most:.0f} MB at most (bar {MEMORY}), "
                  f"{growth:.1f} MB of it after a quarter of the backlog (bar {GROWTH})", flush=True)
            good = good and ratio >= bar and most <= MEMORY and growth <= GROWTH
    sys.exit(0 if good else 1)


def compare(program, kind, url, readings, folder, number):
    """The ratio of what a second of the processor delivers; the most memory, and how it grew after a quarter, in MB."""
    ours = drained(program, kind, url, readings, folder)
    theirs = told([sys.executable, f"{HERE}/peers.py", kind, url, str(readings)])
    rates = [each["delivered"] / each["processor"] for each in (ours, theirs)]
    peer, bar, _ = KINDS[kind]
    print(f"round {number}, {kind}: {rates[0]:.0f} readings per second of the processor beside {peer} {rates[1]:.0f}, "
          f"ratio {rates[0] / rates[1]:.2f} (bar {bar}); {ours['seconds']:.1f} s beside {theirs['seconds']:.1f} s",
          flush=True)
    return rates[0] / rates[1], ours["peak"] / 1024, (ours["peak"] - ours["quarter"]) / 1024


def drained(program, kind, url, readings, folder):
    store = f"{folder}/store"
    subprocess.run([program, "fill", store, str(readings), f"{kind}={url}"], check=True)
    try:
        ours = told([program, "drain", store, str(readings), f"{kind}={url}"])
    finally:
        shutil.rmtree(store)
    return ours


def told(command):
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=1800).stdout)


def sinks(folder, ending):
    """Starts the null sinks, which end with `ending`.

    nginx cannot answer a FHIR transaction entry by entry, so a program of our own does that.
    """
    ports = {"http": free_port(), "mqtt": free_port()}
    for name, port in (("nginx", ports["http"]), ("mosquitto", ports["mqtt"])):
        with open(f"{HERE}/{name}.conf") as file, open(f"{folder}/{name}.conf", "w") as made:
            made.write(file.read().replace("FOLDER", folder).replace("LISTEN", str(port)))
    started(ending, [found("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"], stderr=subprocess.DEVNULL)
    started(ending, [found("mosquitto"), "-c", f"{folder}/mosquitto.conf"])
    sink = started(ending, [sys.executable, f"{HERE}/sink.py"], stdout=subprocess.PIPE, text=True)
    ports["fhir"] = int(sink.stdout.readline())
    for port in ports.values():
        wait_for(port)
    return ports


def started(ending, command, **options):
    process = subprocess.Popen(command, **options)
    ending.callback(process.wait)
    ending.callback(process.terminate)
    return process


def found(name):
    return shutil.which(name) or f"/usr/sbin/{name}"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


if __name__ == "__main__":
    main()
