"""The time that the gateway, the meters and the servers share, and who decides when it leaps (Tests/Clock/hurry.c)."""
import asyncio
import mmap
import os
import subprocess
import time
from datetime import datetime, timedelta, timezone

from . import Failed

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../Clock/hurry.c")
OFFSET, LIMIT, SENT, SETTLED, LEAPS, PROCESSOR, SWITCHES, PROCESS = range(8)
NANO = 1_000_000_000
# A gateway whose time hardly leaps for so long, in seconds of the machine, is at work without an end. What waited for a slow
# server takes minutes.
PATIENCE = 400


class Clock:
    """Time leaps only within `advance`. Outside of it, it passes as the machine's does."""

    def __init__(self, folder):
        self.library, self.path = f"{folder}/hurry.so", f"{folder}/clock"
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", self.library, SOURCE], check=True)
        with open(self.path, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        os.mkfifo(self.path + ".bell")
        self.bell = os.open(self.path + ".bell", os.O_RDWR | os.O_NONBLOCK)
        file = os.open(self.path, os.O_RDWR)
        self.shared = memoryview(mmap.mmap(file, mmap.PAGESIZE)).cast("q")
        os.close(file)
        # Each says whether something is at work for the gateway.
        self.busy = []
        self.rung = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.bell, self.on_bell)

    def on_bell(self):
        os.read(self.bell, 4096)
        self.rung.set()

    def environment(self, leads):
        return {"LD_PRELOAD": self.library, "HEALTHRELAY_TEST_HURRY": self.path} | (
            {} if leads else {"HEALTHRELAY_TEST_HURRY_FOLLOWS": "1"})

    def nanoseconds(self):
        return time.time_ns() + self.shared[OFFSET]

    def now(self):
        return datetime.fromtimestamp(self.nanoseconds() / NANO, timezone.utc)

    def leap(self, moment):
        """While no gateway runs."""
        self.shared[OFFSET] += max(0, int(moment.timestamp() * NANO) - self.nanoseconds())

    async def settle(self):
        """Notes that everything the gateway has sent was read and answered, as soon as that is so."""
        began = time.monotonic()
        while self.shared[SENT] != self.shared[SETTLED]:
            if time.monotonic() - began > PATIENCE:
                raise Failed(f"a question of the gateway has had no answer for {PATIENCE} s at {self.now():%Y-%m-%d %H:%M:%S}")
            sent = self.shared[SENT]
            # What was sent before is read in these turns of the loop: accepted, received, answered.
            for _ in range(6):
                await asyncio.sleep(0)
            if any(each() for each in self.busy):
                await asyncio.sleep(0.002)
            elif self.shared[SENT] == sent:
                self.shared[SETTLED] = sent

    async def advance(self, moment, process, until=lambda: False):
        """Lets the time pass until a moment, or until `until` says so, as the gateway lets it."""
        limit = int(moment.timestamp() * NANO)
        offset, since = self.shared[OFFSET], time.monotonic()
        self.shared[LIMIT] = limit
        try:
            while self.nanoseconds() < limit and not until():
                if process.returncode is not None:
                    raise Failed(f"the gateway ended with {process.returncode}")
                await self.settle()
                if not self.rung.is_set():
                    try:
                        await asyncio.wait_for(self.rung.wait(), 0.05)
                    except asyncio.TimeoutError:
                        pass
                self.rung.clear()
                if self.shared[OFFSET] - offset > PATIENCE * NANO:
                    offset, since = self.shared[OFFSET], time.monotonic()
                elif time.monotonic() - since > PATIENCE:
                    raise Failed(f"the gateway has been at work for {PATIENCE} s at {self.now():%Y-%m-%d %H:%M:%S}")
        finally:
            self.shared[LIMIT] = 0

    async def pass_time(self, process, **span):
        await self.advance(self.now() + timedelta(**span), process)
