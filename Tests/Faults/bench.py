"""Folders to run the gateway in, and the parts that every scenario shares."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.environ.get("HEALTHRELAY_TOOL", f"{ROOT}/.build/debug/healthrelay")
KEY = "sk_us_sandbox"
FIRST = [f"{ROOT}/Fixtures/cuff-three.btsnoop"]
SECOND = [f"{ROOT}/Fixtures/glucose-cut.btsnoop", f"{ROOT}/Fixtures/cuff-no-time.btsnoop"]
# The statuses of Documentation/cli.md without 70, which is a fault of the program itself.
NAMED = {64, 65, 66, 69, 73, 74, 75, 76, 77, 78}
NEVER = {"unexpected", "store_internal", "store_unknown", "control_socket_unusable"}
# Seconds after which a command counts as hanging; the machine may be busy.
PATIENCE = 120


class Failed(Exception):
    pass


class Outcome:
    """How a command ended, or, after a power cut, what it had said by then (`status` is then None)."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        # Whether files could be removed until its end.
        self.could_remove = True

    def documents(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def code(self):
        for line in reversed(self.err.splitlines()):
            if line.startswith('{"error"'):
                return json.loads(line)["error"]["code"]
        return None


class Case:
    """A folder with a state directory, in which commands are run."""

    def __init__(self, base, template=None, environment=None):
        self.root = tempfile.mkdtemp(prefix="case.", dir=base)
        if template:
            shutil.copytree(template, self.root, dirs_exist_ok=True)
        self.environment = dict(environment or {})

    @property
    def state(self):
        return f"{self.root}/state"

    def run(self, *arguments, preload=None, until=None, environment=None, typed=None):
        """Runs a command. With `until`, sends SIGTERM once standard error has one of these words. `typed` is its input."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEALTHRELAY_", "XDG_", "FAULTY_"))}
        process = subprocess.Popen(
            [TOOL, *arguments, "--json"], stdin=subprocess.DEVNULL if typed is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={
                **kept, "HOME": "/nonexistent", "TZ": "UTC", "SWIFT_BACKTRACE": "enable=no",
                "HEALTHRELAY_STATE_DIR": self.state, "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
                "HEALTHRELAY_BLUETOOTH_ADAPTER": "none", "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
                "HEALTHRELAY_SYNC_BACKFILL_DAYS": "36500", "HEALTHRELAY_LOG_LEVEL": "notice",
                **self.environment, **(environment or {}), **(preload or {})})
        if typed is not None:
            try:
                process.stdin.write(typed.encode())
                process.stdin.close()
            except BrokenPipeError:
                pass
        parts = {"out": b"", "err": b""}
        due = threading.Event()

        def collect(name, pipe):
            while octets := os.read(pipe.fileno(), 65536):
                parts[name] += octets
                if until and any(word in parts["err"] for word in until):
                    due.set()
            pipe.close()

        threads = [
            threading.Thread(target=collect, args=("out", process.stdout)),
            threading.Thread(target=collect, args=("err", process.stderr))]
        for thread in threads:
            thread.start()
        try:
            if until:
                end = time.monotonic() + 20
                while process.poll() is None and not due.is_set() and time.monotonic() < end:
                    time.sleep(0.005)
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"{arguments[0]} hangs: {parts['err'][-500:]}")
        finally:
            for thread in threads:
                thread.join()
        return Outcome(process.returncode, parts["out"].decode(), parts["err"].decode())

    def must(self, *arguments, **more):
        outcome = self.run(*arguments, **more)
        if outcome.status != 0:
            raise Failed(f"{' '.join(arguments[:2])} ended with {outcome.status}: {outcome.err[-600:]}")
        return outcome

    def readings(self):
        """Everything stored, by id, without what depends on the server."""
        page = json.loads(self.must("query", "--limit", "10000").out)
        return {
            reading["id"]: {key: value for key, value in reading.items() if key != "deliveries"}
            for reading in page["readings"]}

    def verify(self):
        outcome = self.run("store", "verify")
        if outcome.status != 0 or not json.loads(outcome.out)["ok"]:
            raise Failed(f"verify ended with {outcome.status}: {outcome.out[-400:]} {outcome.err[-400:]}")

    def holds(self, needles):
        """The first file that contains one of these byte strings, or None."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    octets = file.read()
                if any(needle in octets for needle in needles):
                    return os.path.join(folder, name)
        return None

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def contents(state):
    """The bytes of every frame and reading, as they are in the database file."""
    with sqlite3.connect(f"{state}/readings.sqlite") as database:
        found = [row[0] for row in database.execute("SELECT payload FROM frame")]
        # Up to version 5 a reading has no content: its values are columns.
        if "content" in [column for _, column, *_ in database.execute("PRAGMA table_info(reading)")]:
            found += [row[0] for row in database.execute("SELECT content FROM reading")]
    database.close()
    # A short string may be there by chance.
    return [blob for blob in found if len(blob) >= 12 and len(set(blob)) >= 6]


class Server:
    """A sandbox server that no fault reaches."""

    def __init__(self):
        self.process = subprocess.Popen(
            [TOOL, "sandbox", "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env={**os.environ, "HOME": "/nonexistent"}, text=True)
        for line in self.process.stderr:
            if found := re.search(r"sandbox at (http://127\.0\.0\.1:\d+)", line):
                self.url = found.group(1)
                break
        else:
            raise Failed("the sandbox did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"x-vital-api-key": KEY})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def samples(self, person):
        user = self.get(f"/v2/user/resolve/{person}")["user_id"]
        return self.get(f"/sandbox/samples?user_id={user}&limit=10000")["samples"]

    def end(self):
        self.process.terminate()
        self.process.wait()


class Scenario:
    """One thing the gateway does. Each case starts with a copy of the folder `template`."""

    name = ""
    # The settings of every command of a case.
    environment = {}
    command = ()
    until = None

    def __init__(self, bench):
        self.bench = bench
        self.template = tempfile.mkdtemp(prefix=f"template.{self.name}.", dir=bench.base)
        case = Case(bench.base, environment=self.environment)
        self.prepare(case)
        for name in ("readings.sqlite-shm", "store.lock"):
            if os.path.exists(f"{case.state}/{name}"):
                os.unlink(f"{case.state}/{name}")
        shutil.copytree(case.root, self.template, dirs_exist_ok=True)
        case.remove()
        self.settle()

    def case(self):
        return Case(self.bench.base, self.template, self.environment)

    def prepare(self, case):
        """Makes the files that the command starts with."""

    def settle(self):
        """Finds out from the template what is expected."""

    def arguments(self, case):
        return [argument.replace("ROOT", case.root) for argument in self.command]

    def run(self, case, preload=None):
        return case.run(*self.arguments(case), preload=preload, until=self.until)

    def check(self, case, outcome):
        """Checks what must hold after the fault; the store has been opened and verified."""

    def finish(self, case):
        """Runs the command again, undisturbed, and checks the result."""


def expect(what, found, expected):
    if found != expected:
        raise Failed(f"{what}: expected {short(expected)}, found {short(found)}")


def short(value):
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "…"


def same(found, expected, what):
    """Checks that both have the same readings with the same content."""
    missing, more = set(expected) - set(found), set(found) - set(expected)
    if missing or more:
        raise Failed(f"{what}: {len(missing)} of {len(expected)} readings are gone, {len(more)} are more")
    within(found, expected, what)


def within(found, expected, what):
    for identity, reading in found.items():
        if identity not in expected:
            raise Failed(f"{what}: {identity} was in no capture")
        if reading != (wanted := expected[identity]):
            fields = sorted(field for field in {*reading, *wanted} if reading.get(field) != wanted.get(field))
            differences = "; ".join(
                f"{field} is {short(reading.get(field))}, expected {short(wanted.get(field))}" for field in fields)
            raise Failed(f"{what}: reading {identity}: {differences}")


class Bench:
    """The folder of all cases, and the server they deliver to."""

    def __init__(self):
        self.base = tempfile.mkdtemp(
            prefix="healthrelay-inject.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.server = Server()
        with open(f"{self.base}/key", "w") as file:
            file.write(KEY)

    def person(self, case):
        """Lets a case deliver for a person of its own."""
        case.environment.update({
            "HEALTHRELAY_SERVER_API_KEY_FILE": f"{self.base}/key", "HEALTHRELAY_SERVER_BASE_URL": self.server.url,
            "HEALTHRELAY_USER_CLIENT_USER_ID": f"person-{uuid.uuid4().hex[:12]}"})

    def end(self):
        self.server.end()
