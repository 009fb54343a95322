#!/usr/bin/env python3
"""Measures a gateway that has nothing to do: its page is open in a browser, and three destinations have everything.

  measure.py HEALTHRELAY DECADE-FILL FOLDER [MINUTES] [SIZE]

Memory is the kernel's own account of the process (smaps_rollup), after one minute, ten, and MINUTES (60). Nothing is dropped before
it is looked at. Wake-ups are voluntary context switches of all threads. Before it is measured, the gateway is started once, since these
destinations are new to the store and others are gone from it: that is no idle gateway's work.
"""
import contextlib
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from bars import Bars  # noqa: E402
from gateway import Gateway, filled  # noqa: E402

MEGABYTE = 1024 * 1024
BARS = {"private dirty, MB": 8, "resident, MB": 40}

SETTINGS = """\
user: {client_user_id: anna, time_zone: Europe/Berlin}
users:
  - {client_user_id: anna, time_zone: Europe/Berlin}
  - {client_user_id: ben, time_zone: Europe/Berlin}
destinations:
  - {name: lines, kind: file, path: FOLDER/lines.jsonl}
  - {name: first, kind: webhook, url: "http://127.0.0.1:SINK/first", secret_file: FOLDER/secret, allow_private: true}
  - {name: second, kind: webhook, url: "http://127.0.0.1:SINK/second", secret_file: FOLDER/secret, allow_private: true}
"""


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes everything."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def wake_ups(pid):
    """The wake-ups so far, of the threads that there are."""
    switches = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        line = next(each for each in status.read_text().splitlines() if each.startswith("voluntary_ctxt_switches"))
        switches += int(line.split()[1])
    return switches


@contextlib.contextmanager
def page(port, state):
    """A browser with the gateway's page open."""
    browser = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
         f"--user-data-dir={state}/browser", f"http://127.0.0.1:{port}/"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield browser
    finally:
        browser.terminate()
        browser.wait()


def settle(gateway):
    """Waits until nothing is delivered any more, for five seconds."""
    quiet = 0
    while quiet < 5:
        before = gateway.processor()
        time.sleep(1)
        quiet = quiet + 1 if gateway.processor() - before < 0.05 else 0


def watch(gateway, minutes):
    """A row for each of the moments at which it is looked at."""
    began = time.monotonic()
    rows, last = [], None
    for minute in sorted({min(1, minutes), min(10, minutes), minutes}):
        time.sleep(max(0, minute * 60 - (time.monotonic() - began)))
        memory = gateway.memory()
        row = {"minutes": minute, "private dirty, MB": memory.private_dirty / MEGABYTE,
               "proportional, MB": memory.proportional / MEGABYTE, "resident, MB": memory.resident / MEGABYTE}
        used, switches = gateway.processor(), wake_ups(gateway.pid)
        if last:
            passed = minute * 60 - last[0]
            row["processor, s a day"] = (used - last[1]) / passed * 86_400
            row["wake-ups a second"] = (switches - last[2]) / passed
        last = (minute * 60, used, switches)
        rows.append(row)
        print(f"# {row}", file=sys.stderr, flush=True)
    return rows


def cool(binary):
    """Has the program read from the disk, as after a boot: of what a copy has just left in memory, the kernel maps larger pieces."""
    # Pages that aren't on the disk yet would stay, and count as the process's own dirty memory.
    os.sync()
    descriptor = os.open(binary, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def main():
    binary, fill, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    minutes = int(sys.argv[4]) if len(sys.argv) > 4 else 60
    size = int(sys.argv[5]) if len(sys.argv) > 5 else 100_000
    store = filled(fill, folder, size)
    cool(binary)
    state = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-idle."))
    for name in ("readings.sqlite", "store.key"):
        shutil.copy(store / name, state / name)
    (state / "secret").write_text("whsec_" + "A" * 43 + "=\n")
    (state / "secret").chmod(0o600)
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    (state / "settings.yaml").write_text(SETTINGS.replace("SINK", str(sink.server_port)).replace("FOLDER", str(state)))
    try:
        with Gateway(binary, state) as gateway:
            settle(gateway)
        with Gateway(binary, state) as gateway, page(gateway.port, state) as browser:
            rows = watch(gateway, minutes)
            if browser.poll() is not None:
                sys.exit("the browser has ended: the page wasn't open")
    finally:
        shutil.rmtree(state, ignore_errors=True)
    names = list(rows[-1])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join("–" if name not in row else f"{row[name]:.1f}" if name != "minutes" else str(row[name])
                                for name in names) + " |")
    bars = Bars("idle gateway")
    for name, bar in BARS.items():
        bars.add(f"an idle gateway, {name[:-4]} memory", f"{minutes} minutes", f"{rows[-1][name]:.1f} MB", bar=bar, unit=" MB",
                 value=rows[-1][name])
        print(f"{name}: {rows[-1][name]:.1f}, bar {bar}: {'kept' if rows[-1][name] <= bar else 'not kept'}")
    bars.leave()


main()
