"""The gateway as a service: its process, its commands, its page, and what it takes of the machine."""
import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
from collections import Counter

from ports import free_ports

from . import Failed
from .clock import LEAPS, PROCESS, PROCESSOR, SWITCHES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TOOL = os.environ.get("HEALTHRELAY_TOOL", f"{ROOT}/.build/debug/healthrelay")
PERSON = "white_bear"
# How often the service manager must hear of the gateway, in seconds. The package asks for a minute: a day would take half as
# long again.
WATCHDOG = 600


class Gateway:
    def __init__(self, folder, clock, bus_address, places, keep):
        self.folder, self.clock, self.process, self.counts = folder, clock, None, Counter()
        self.port, = free_ports(1)
        self.state, self.lines = f"{folder}/state", f"{folder}/lines.jsonl"
        for name in ("state", "backups", "home"):
            os.mkdir(f"{folder}/{name}", 0o700)
        for name, text in [("phrase", "of several words")] + [(each.name, each.secret) for each in places]:
            with open(f"{folder}/{name}", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(text)
        kept = ", ".join(f"{part}: {keep}d" for part in ("trend", "glucose", "blood_pressure", "weight", "frames"))
        with open(f"{folder}/config.yaml", "w") as file:
            file.write(f"""user: {{client_user_id: {PERSON}, time_zone: Europe/Berlin}}
http: {{listen: "127.0.0.1:{self.port}", local: trusted}}
store: {{keep: {{{kept}}}}}
sync: {{backfill_days: 36500}}
backup: {{to: {folder}/backups, passphrase_file: {folder}/phrase, every: 1w, keep: 3}}
destinations:
  - {{name: lines, kind: file, path: {self.lines}}}
""")
            for each in places:
                file.write(f"  - {{name: {each.name}, kind: webhook, url: \"{each.url}\", secret_file: {folder}/{each.name}, "
                           "allow_private: true}\n")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("HEALTHRELAY_", "XDG_", "LD_PRELOAD"))} | {
            "HOME": f"{folder}/home", "TZ": "UTC", "DBUS_SYSTEM_BUS_ADDRESS": bus_address, "SWIFT_BACKTRACE": "enable=no",
            "HEALTHRELAY_CONFIG": f"{folder}/config.yaml", "HEALTHRELAY_STATE_DIR": self.state}
        # The service manager: a watchdog that hears nothing is not looked after here, the gateway's own part is.
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.notified.bind(f"{folder}/notify")
        asyncio.get_running_loop().add_reader(self.notified, self.on_notification)
        self.is_ready = asyncio.Event()

    def on_notification(self):
        words = self.notified.recv(4096)
        self.counts["watchdog"] += words.startswith(b"WATCHDOG=1")
        if b"READY=1" in words:
            self.is_ready.set()

    def must_run(self):
        if self.process.returncode is not None:
            raise Failed(f"the gateway ended with {self.process.returncode}, see {self.folder}/log")

    async def start(self):
        self.is_ready.clear()
        self.clock.shared[PROCESS] = 0
        with open(f"{self.folder}/log", "a") as log:
            self.process = await asyncio.create_subprocess_exec(
                TOOL, "run", env=self.environment | self.clock.environment(True) | {
                    "NOTIFY_SOCKET": f"{self.folder}/notify", "WATCHDOG_USEC": str(WATCHDOG * 1_000_000)},
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log)
        ended = asyncio.ensure_future(self.process.wait())
        ready = asyncio.ensure_future(self.is_ready.wait())
        await asyncio.wait([ended, ready], timeout=120, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        self.must_run()
        if not self.is_ready.is_set() or self.clock.shared[PROCESS] != self.process.pid:
            raise Failed(f"the gateway has not come up, see {self.folder}/log")

    async def stop(self, how=signal.SIGTERM):
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(how)
        try:
            await asyncio.wait_for(self.process.wait(), 60)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise Failed("the gateway did not stop within a minute") from None
        if how == signal.SIGTERM and self.process.returncode != 0:
            raise Failed(f"the gateway ended with {self.process.returncode}, see {self.folder}/log")

    async def command(self, *words, typed=b"", status=0):
        """Runs a command beside the gateway; what it prints."""
        process = await asyncio.create_subprocess_exec(
            TOOL, *words, env=self.environment | self.clock.environment(False), stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        try:
            printed, errors = await asyncio.wait_for(process.communicate(typed), 300)
        except BaseException:
            if process.returncode is None:
                process.kill()
            raise
        self.counts["commands"] += 1
        if process.returncode != status:
            raise Failed(f"healthrelay {' '.join(words)} ended with {process.returncode}: {errors.decode()}")
        return printed.decode()

    async def asked(self, *words):
        return json.loads(await self.command(*words, "--json"))

    async def get(self, path):
        """A request of the page: status and body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n".encode())
            answer = await asyncio.wait_for(reader.read(-1), 60)
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        self.counts["pages"] += 1
        status = int(head.split(b" ")[1]) if head else 0
        if status != 200:
            raise Failed(f"{path} is answered with {status}")
        return body

    async def open_page(self):
        """What a browser asks for, and the stream that it listens to: to be closed."""
        for path in ("/", "/health", "/metrics", "/api/v1/readings?limit=100", "/api/v1/devices", "/api/v1/sync"):
            await self.get(path)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())

        async def listen():
            while await reader.read(65536):
                pass
        return writer, asyncio.ensure_future(listen())

    # What it takes

    def store(self):
        """The octets of the store's pages that are in use, with those in the log. The log itself grows to its bound within weeks,
        and is not what a store grows by."""
        with contextlib.closing(sqlite3.connect(f"file:{self.state}/readings.sqlite?mode=ro", uri=True)) as database:
            pages, free, size = (database.execute(f"PRAGMA {each}").fetchone()[0]
                                 for each in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * size

    def sample(self):
        process = f"/proc/{self.process.pid}"
        sizes = Counter()
        with open(f"{process}/smaps_rollup") as file:
            for name, size in re.findall(r"^(\w+): +(\d+) kB", file.read(), re.M):
                sizes[name] += int(size)
        with open(f"{process}/status") as file:
            threads = int(re.search(r"^Threads:\s+(\d+)", file.read(), re.M).group(1))
        files = sum(os.lstat(os.path.join(folder, each)).st_size for folder, _, names in os.walk(self.state) for each in names
                    if not each.endswith(("-wal", "-shm")))
        return {"resident": sizes["Rss"] / 1024, "private dirty": sizes["Private_Dirty"] / 1024, "threads": threads,
                "descriptors": len(os.listdir(f"{process}/fd")), "store": self.store() / 2 ** 20, "state directory": files / 2 ** 20,
                "processor": self.clock.shared[PROCESSOR] / 1e9, "switches": self.clock.shared[SWITCHES],
                "leaps": self.clock.shared[LEAPS]}
