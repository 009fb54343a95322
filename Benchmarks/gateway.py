"""A gateway that runs on a state directory, and what it has used; and a store of the home of Decade, filled once."""
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
import typing
import urllib.request


def environment(state, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HEALTHRELAY_", "XDG_", "DBUS_"))}
    return {**kept, "HEALTHRELAY_CONFIG": str(state / "settings.yaml"), "HEALTHRELAY_HTTP_LOCAL": "trusted", **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def filled(fill, folder, size):
    """The state directory in `folder` with a store of about `size` readings, which decade-fill makes unless it is there.

    A fill that was stopped goes on."""
    state = folder / str(size)
    if not (state / "filled").exists():
        if not (state / "filling").exists():
            shutil.rmtree(state, ignore_errors=True)
        state.mkdir(parents=True, mode=0o700, exist_ok=True)
        answer = subprocess.run([fill, str(state), str(size)], check=True, stdout=subprocess.PIPE, text=True).stdout
        print(f"# {size}: {answer.strip()}", file=sys.stderr, flush=True)
        (state / "filled").write_text(answer)
    return state


def processor(pid):
    """Seconds of the processor that a process has taken, to the nanosecond: its clock in the kernel's numbering."""
    return time.clock_gettime(~pid << 3 | 2)


def children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(state, *command):
    """Runs a command: seconds of the processor, of it and its children, and the most memory that it had, in bytes."""
    log = os.open(state / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = os.posix_spawn(
        command[0], [*map(str, command), "--state-dir", str(state)], environment(state, HEALTHRELAY_BLUETOOTH_ADAPTER="none"),
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, log, 2)])
    os.close(log)
    most = 0
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        # Not ru_maxrss, which begins with what this process has.
        found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
        most = max(most, int(found[1]) * 1024 if found else 0)
        time.sleep(0.01)
    if status:
        text = (state / "log").read_text()[-1000:]
        sys.exit(f"{command[1:3]}: status {os.waitstatus_to_exitcode(status)}: {text}")
    return usage.ru_utime + usage.ru_stime, most


class Memory(typing.NamedTuple):
    private_dirty: int
    proportional: int
    resident: int


class Gateway:
    """A gateway with the settings in `settings.yaml` of its state directory, and the local API; without a bus, without a radio."""

    def __init__(self, binary, state, bus=None):
        self.binary, self.state, self.port = binary, state, free_port()
        more = {"DBUS_SYSTEM_BUS_ADDRESS": bus} if bus else {"HEALTHRELAY_BLUETOOTH_ADAPTER": "none"}
        self.environment = environment(state, HEALTHRELAY_HTTP_LISTEN=f"127.0.0.1:{self.port}", **more)
        self.token = ""
        began = time.perf_counter()
        with open(state / "log", "ab") as log:
            self.process = subprocess.Popen([binary, "run", "--state-dir", str(state)], env=self.environment,
                                            stdout=subprocess.DEVNULL, stderr=log)
        self.pid = self.process.pid
        while True:
            try:
                self.request("/health")
                break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"the gateway has ended: see {state}/log")
                time.sleep(0.005)
        self.started = (self.processor(), time.perf_counter() - began)
        # A change from this machine needs the token of the session.
        self.token = json.loads(self.request("/api/v1/session"))["csrf_token"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def request(self, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-CSRF-Token": self.token})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read()

    def command(self, *arguments, check=True):
        """The output of a command that goes through the gateway."""
        return subprocess.run([self.binary, *arguments, "--state-dir", str(self.state)], env=self.environment, check=check,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def processor(self):
        return processor(self.pid)

    def settle(self):
        """Waits until nothing is done for two seconds, a minute at most: seconds of the processor by then."""
        used, end = -1.0, time.monotonic() + 60
        while self.processor() - used > 0.01 and time.monotonic() < end:
            used = self.processor()
            time.sleep(2)
        return self.processor()

    def memory(self):
        """The kernel's own account, in bytes."""
        found = {}
        for line in pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, size = line.split()[:2]
            found[name] = int(size) * 1024
        return Memory(found["Private_Dirty:"], found["Pss:"], found["Rss:"])

    def used(self, work, count):
        """The processor's seconds of one of `count` rounds of work: the gateway's, and those of commands."""
        work()
        before = self.processor() + children()
        for _ in range(count):
            work()
        return (self.processor() + children() - before) / count
