#!/usr/bin/env python3
"""Measures a gateway that has nothing to do: its page is open in a browser, and three destinations have everything.

  measure.py HEALTHRELAY DECADE-FILL FOLDER [MINUTES] [SIZE]

Memory is the kernel's own account of the process (smaps_rollup), after one minute, ten, and MINUTES (60). Nothing is dropped before
it is looked at. Wake-ups are voluntary context switches of all threads.
"""
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TICK = os.sysconf("SC_CLK_TCK")
BARS = {"private dirty, MB": 8, "resident, MB": 40}

SETTINGS = """\
user: {client_user_id: anna, time_zone: Europe/Berlin}
users:
  - {client_user_id: anna, time_zone: Europe/Berlin}
  - {client_user_id: ben, time_zone: Europe/Berlin}
bluetooth: {adapter: none}
http: {listen: "127.0.0.1:PORT", local: trusted}
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def memory(pid):
    sizes = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size = line.split(":")
        sizes[name] = int(size.split()[0]) / 1024
    return {"private dirty, MB": sizes["Private_Dirty"], "proportional, MB": sizes["Pss"], "resident, MB": sizes["Rss"]}


def course(pid):
    """The processor's seconds and the wake-ups so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    switches = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        line = next(each for each in status.read_text().splitlines() if each.startswith("voluntary_ctxt_switches"))
        switches += int(line.split()[1])
    return (int(fields[11]) + int(fields[12])) / TICK, switches


def main():
    binary, fill, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    minutes = int(sys.argv[4]) if len(sys.argv) > 4 else 60
    size = int(sys.argv[5]) if len(sys.argv) > 5 else 100_000
    filled = folder / str(size)
    if not (filled / "filled").exists():
        filled.mkdir(parents=True, mode=0o700)
        (filled / "filled").write_text(
            subprocess.run([fill, str(filled), str(size)], check=True, stdout=subprocess.PIPE, text=True).stdout)
    state = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-idle."))
    processes = []
    try:
        for name in ("readings.sqlite", "store.key"):
            shutil.copy(filled / name, state / name)
        (state / "secret").write_text("whsec_" + "A" * 43 + "=\n")
        (state / "secret").chmod(0o600)
        port, sink = free_port(), http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        (state / "settings.yaml").write_text(
            SETTINGS.replace("PORT", str(port)).replace("SINK", str(sink.server_port)).replace("FOLDER", str(state)))
        gateway = subprocess.Popen(
            [binary, "run", "--state-dir", str(state)], stdout=subprocess.DEVNULL, stderr=open(state / "log", "ab"),
            env={**os.environ, "HEALTHRELAY_CONFIG": str(state / "settings.yaml")})
        processes.append(gateway)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health").read()
                break
            except OSError:
                if gateway.poll() is not None:
                    sys.exit(f"the gateway has ended: see {state}/log")
                time.sleep(0.05)
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             f"--user-data-dir={state}/browser", f"http://127.0.0.1:{port}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        processes.append(browser)
        began = time.monotonic()
        rows, last = [], None
        for minute in sorted({1, 10, minutes}):
            time.sleep(max(0, minute * 60 - (time.monotonic() - began)))
            row = {"minutes": minute, **memory(gateway.pid)}
            used, switches = course(gateway.pid)
            if last:
                passed = minute * 60 - last[0]
                row["processor, s a day"] = (used - last[1]) / passed * 86_400
                row["wake-ups a second"] = (switches - last[2]) / passed
            last = (minute * 60, used, switches)
            rows.append(row)
            print(f"# {row}", file=sys.stderr, flush=True)
        if browser.poll() is not None:
            sys.exit("the browser has ended: the page wasn't open")
        names = list(rows[-1])
        print("| " + " | ".join(names) + " |")
        print("|" + "---|" * len(names))
        for row in rows:
            print("| " + " | ".join("–" if name not in row else f"{row[name]:.1f}" if name != "minutes" else str(row[name])
                                    for name in names) + " |")
        for name, bar in BARS.items():
            print(f"{name}: {rows[-1][name]:.1f}, bar {bar}: {'kept' if rows[-1][name] <= bar else 'not kept'}")
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
        shutil.rmtree(state, ignore_errors=True)


main()
