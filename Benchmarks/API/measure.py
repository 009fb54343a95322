"""Measures the gateway's local API beside Flask and gunicorn, and what it costs to keep it running.

  measure.py HEALTHRELAY [ROUNDS]

A page of 10,000 readings over TLS 1.3, in the processor's time of the server (bar: a fifth of Flask's in the same run);
100 clients of the event stream, in resident memory each (bar: 100 kB); idle memory and processor's time (bars: 35 MB, 0.1 %
of a core); start-up with an empty store, 10,000 and 60,000 readings.
"""
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
binary, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
work = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-api-bench."))
tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
tls.minimum_version = ssl.TLSVersion.TLSv1_3


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processor(pids):
    """Seconds of processor's time of processes so far."""
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def resident(pid, figure="Rss"):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(figure + ":"):
            return int(line.split()[1]) * 1024
    return 0


def connect(number):
    return tls.wrap_socket(socket.create_connection(("127.0.0.1", number)))


class Client:
    """One connection that is kept."""

    def __init__(self, number, token=None):
        self.stream = connect(number)
        self.file = self.stream.makefile("rb")
        self.field = f"Authorization: Bearer {token}\r\n" if token else ""

    def get(self, path):
        self.stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{self.field}\r\n".encode())
        status = self.file.readline().split()[1]
        length, chunked = None, False
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
            chunked |= name.lower() == "transfer-encoding"
        if length is not None:
            return status, self.file.read(length)
        body = b""
        while chunked and (size := int(self.file.readline(), 16)):
            body += self.file.read(size)
            self.file.readline()
        self.file.readline()
        return status, body


started = []


def settings(state):
    """A sealed store, or one in the clear where its name says so."""
    return {**os.environ, "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
            "HEALTHRELAY_STORE_ENCRYPTION": "off" if state.endswith("clear") else "on"}


def start(state, number, secured="on"):
    environment = {**settings(state), "HEALTHRELAY_HTTP_LISTEN": f"127.0.0.1:{number}", "HEALTHRELAY_HTTP_TLS": secured,
                   "HEALTHRELAY_BLUETOOTH_ADAPTER": "none"}
    began = time.perf_counter()
    process = subprocess.Popen([binary, "run", "--state-dir", state], env=environment, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    started.append(process)
    while True:
        try:
            socket.create_connection(("127.0.0.1", number)).close()
            return process, time.perf_counter() - began
        except OSError:
            time.sleep(0.002)


def invite(state, number):
    answer = subprocess.run([binary, "client", "invite", "--json", "--state-dir", state], check=True, capture_output=True)
    body = json.dumps({"code": json.loads(answer.stdout)["code"], "clientName": "benchmark"})
    stream = connect(number)
    stream.sendall(f"POST /api/v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    text = b""
    while (part := stream.recv(65536)):
        text += part
    return json.loads(text.split(b"\r\n\r\n", 1)[1])["token"]


def per_request(client, pids, path):
    for _ in range(3):
        client.get(path)
    before = processor(pids)
    for _ in range(rounds):
        status, body = client.get(path)
        assert status == b"200", (status, body[:200])
    return (processor(pids) - before) / rounds, len(body)


def rows(page, path):
    database = sqlite3.connect(path)
    columns = ["id", "kind", "address", "model", "serial", "provider", "sequence", "base_time", "time_offset_minutes",
               "device_time", "time", "time_basis", "time_uncertainty_minutes", "clock_difference", "clock_read_at",
               "value", "unit", "sample_type", "sample_location", "user", "excluded", "destination", "state", "reason"]
    database.execute(f"CREATE TABLE reading ({', '.join(columns)})")
    for r in json.loads(page)["readings"]:
        clock = r["clock"] or {"difference_seconds": None, "read_at": None}
        delivery = (r["deliveries"] or [{"destination": None, "state": None, "reason": None}])[0]
        flat = {**r, **delivery, **r["device"], **r["glucose"], "clock_difference": clock["difference_seconds"],
                "clock_read_at": clock["read_at"]}
        database.execute(f"INSERT INTO reading VALUES ({', '.join('?' * len(columns))})", [flat[c] for c in columns])
    database.execute("CREATE INDEX reading_time ON reading (time DESC, id DESC)")
    database.commit()
    database.close()


def page_benchmark(state, kind):
    number = port()
    process, _ = start(state, number)
    token = invite(state, number)
    client = Client(number, token)
    ours, size = per_request(client, [process.pid], "/api/v1/readings?limit=10000")
    page = client.get("/api/v1/readings?limit=10000")[1]
    peak = resident(process.pid)
    process.terminate()
    process.wait()

    (work / "rows.sqlite").unlink(missing_ok=True)
    rows(page, work / "rows.sqlite")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=localhost", "-keyout", work / "key.pem", "-out", work / "cert.pem"], check=True,
                   capture_output=True)
    number = port()
    server = subprocess.Popen(
        ["gunicorn", "-b", f"127.0.0.1:{number}", "-w", "1", "-k", "gthread", "--keyfile", work / "key.pem",
         "--certfile", work / "cert.pem", "flask_app:app"], cwd=HERE, env={**os.environ, "ROWS": str(work / "rows.sqlite")},
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while True:
        try:
            other = Client(number)
            break
        except OSError:
            time.sleep(0.05)
    workers = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True).stdout.split()
    theirs, their_size = per_request(other, [server.pid, *workers], "/api/v1/readings?limit=10000")
    server.terminate()
    server.wait()
    print(f"page of 10,000 over TLS, {kind}: {ours * 1000:.1f} ms ({size >> 10} KiB), Flask and gunicorn {theirs * 1000:.1f} ms "
          f"({their_size >> 10} KiB): {ours / theirs:.2f} (bar 0.20); resident afterwards {peak / 1e6:.0f} MB")


def stream_benchmark(state):
    number = port()
    process, _ = start(state, number)
    tokens = [invite(state, number) for _ in range(3)]

    def open_streams(count):
        streams = []
        for index in range(count):
            stream = connect(number)
            stream.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                           f"{tokens[index // 50]}\r\n\r\n".encode())
            assert b"200" in stream.recv(4096)
            streams.append(stream)
        return streams

    time.sleep(5)
    # What the first connection brings with it (libraries' tables, threads) is no client's.
    first = open_streams(1)
    time.sleep(1)
    before = resident(process.pid)
    streams = open_streams(100)
    time.sleep(2)
    after = resident(process.pid)
    print(f"100 event streams over TLS: {(after - before) / 100 / 1000:.0f} kB each (bar 100)")
    del first, streams
    process.terminate()
    process.wait()


def replay(state, count):
    """A store with that many readings."""
    capture = work / f"{count}.btsnoop"
    if not capture.exists():
        fixture = HERE.parents[1] / "Fixtures" / "glucose-first-delivery.btsnoop"
        subprocess.run([sys.executable, HERE / "fill.py", fixture, capture, str(count)], check=True)
    subprocess.run([binary, "replay", capture, "--state-dir", state], capture_output=True, env=settings(state))


def idle_benchmark(state, larger):
    number = port()
    process, full = start(state, number, secured="auto")
    time.sleep(3)
    begin, began = processor([process.pid]), time.time()
    time.sleep(30)
    share = (processor([process.pid]) - begin) / (time.time() - began)
    print(f"idle: {resident(process.pid, 'Private_Dirty') / 1e6:.1f} MB private dirty (bar 35), "
          f"{resident(process.pid) / 1e6:.1f} MB resident with the clean pages of the program, {share * 100:.3f} % of a core (bar 0.1)")
    process.terminate()
    stopping = time.perf_counter()
    process.wait()
    stopped = time.perf_counter() - stopping
    empty = str(work / "empty")
    times = []
    for _ in range(5):
        shutil.rmtree(empty, ignore_errors=True)
        subprocess.run([binary, "store", "stats", "--state-dir", empty], check=True, capture_output=True,
                       env=settings(empty))
        other, seconds = start(empty, port(), secured="auto")
        other.terminate()
        other.wait()
        filled = []
        for each in [state, larger]:
            process, took = start(each, port(), secured="auto")
            process.terminate()
            process.wait()
            filled.append(took)
        times.append((seconds, *filled))
    nothing, many, more = (sorted(each)[2] for each in zip(*times))
    print(f"start-up: {nothing * 1000:.0f} ms with an empty store, {many * 1000:.0f} ms with 10,000 readings, "
          f"{more * 1000:.0f} ms with 60,000 (bar 150, no growth); stopped in {stopped * 1000:.0f} ms (bar 2000)")


def main():
    state, clear, larger = (str(work / name) for name in ("state", "clear", "larger"))
    for folder in [state, clear]:
        replay(folder, 10_000)
    replay(larger, 60_000)
    try:
        # Flask gets the same rows from a SQLite table in the clear, in the form in which it hands them out: of what sealing
        # costs us, it pays nothing.
        page_benchmark(clear, "in the clear")
        page_benchmark(state, "sealed")
        stream_benchmark(state)
        idle_benchmark(state, larger)
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
        shutil.rmtree(work)


main()
