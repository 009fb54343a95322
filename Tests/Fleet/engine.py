"""The reference engine in temporary folders on loopback: PostgreSQL, collectors and certificates; rabbit.py has the brokers.

Everything is ended by its process id, by a keeper of its own (keeper.py) if the trials can't do it themselves.
"""
import atexit
import glob
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from ports import free_ports

ROOT = os.path.dirname(os.path.dirname(HERE))
TOOL = os.environ.get("HEALTHRELAY_TOOL", f"{ROOT}/.build/debug/healthrelay")
COLLECTOR = os.environ.get("HEALTHRELAY_COLLECTOR", f"{ROOT}/.build/debug/healthrelay-collector")
RABBIT = "/usr/lib/rabbitmq/bin"
# Another RabbitMQ than this machine's, in the root of another Debian; run-rabbitmq-4 prepares it.
RABBIT_ROOT = os.environ.get("HEALTHRELAY_RABBITMQ_ROOT")
POSTGRES = max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]), default="")
CLOCK = os.sysconf("SC_CLK_TCK")


def rabbit(program):
    """How a program of RabbitMQ is called."""
    path = "/usr/bin/epmd" if program == "epmd" else f"{RABBIT}/{program}"
    return ["chroot", RABBIT_ROOT, path] if RABBIT_ROOT else [path]


class Failed(Exception):
    pass


def until(condition, words, seconds, pause=0.2):
    """Waits until a condition holds, and gives what it returned."""
    deadline, error = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except (OSError, Failed, ValueError) as caught:
            error = caught
        time.sleep(pause)
    raise Failed(f"{words}: not within {seconds} s" + (f" ({error})" if error else ""))


def plain_environment(extra=None):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HEALTHRELAY_", "XDG_", "RABBITMQ_", "PG"))}
    return {**kept, "TZ": "UTC", "SWIFT_BACKTRACE": "enable=no", **(extra or {})}


class Ground:
    """The folder of everything, and the keeper that ends what is left."""

    def __init__(self, name="fleet"):
        self.folder = tempfile.mkdtemp(prefix=f"healthrelay-{name}.")
        # The server of the database runs as another user.
        os.chmod(self.folder, 0o755)
        self.keeper = subprocess.Popen(
            [sys.executable, f"{HERE}/keeper.py"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            start_new_session=True)
        self.keeps_folder = bool(os.environ.get("HEALTHRELAY_FLEET_KEEP"))
        if not self.keeps_folder:
            self.tell("folder", self.folder)
        atexit.register(self.end)
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, lambda *_: sys.exit(130))

    def tell(self, word, value):
        self.keeper.stdin.write(f"{word} {value}\n")
        self.keeper.stdin.flush()

    def start(self, arguments, log, environment=None, **more):
        """Starts a program in a session of its own: Ctrl-C is the trials' alone."""
        with open(log, "ab") as file:
            process = subprocess.Popen(
                arguments, stdin=more.pop("stdin", subprocess.DEVNULL), stdout=more.pop("stdout", file), stderr=file,
                env=environment or plain_environment(), start_new_session=True, **more)
        self.tell("pid", process.pid)
        return process

    def end(self):
        if self.keeper.stdin.closed:
            return
        try:
            self.keeper.stdin.close()
        except OSError:
            pass
        try:
            self.keeper.wait(30)
        except subprocess.TimeoutExpired:
            pass
        if self.keeps_folder:
            print(f"the folder is kept: {self.folder}", flush=True)


def run(arguments, environment=None, timeout=120, text=None):
    done = subprocess.run(arguments, input=text, stdin=None if text else subprocess.DEVNULL, capture_output=True, text=True,
                          env=environment or plain_environment(), timeout=timeout)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, arguments))[:200]} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


class Authority:
    """The centre's certificate authority, by openssl."""

    def __init__(self, folder, name="centre-ca"):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.path, self.key = folder, f"{folder}/{name}.pem", f"{folder}/{name}.key"
        run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
             "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
             "keyUsage=critical,keyCertSign,cRLSign", "-out", self.path, "-keyout", self.key])
        self.shared = f"{folder}/{name}-simulated.key"
        run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", self.shared])

    def issue(self, name, key=None, days=30, is_server=False):
        """A certificate for a name.

        - key: an existing key; simulated gateways share one, since making a thousand proves nothing.
        - days: a negative number makes a certificate that has expired.
        """
        path, own = f"{self.folder}/{name}.pem", key or f"{self.folder}/{name}.key"
        arguments = ["openssl", "req", "-x509", "-CA", self.path, "-CAkey", self.key, "-subj", f"/CN={name}", "-out", path]
        if days > 0:
            arguments += ["-days", str(days)]
        else:
            arguments = None
        if arguments:
            arguments += ["-key", key] if key else [
                "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", own]
            arguments += ["-addext", "basicConstraints=CA:FALSE"]
            if is_server:
                arguments += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            run(arguments)
        else:
            self.expired(name, path, key)
        os.chmod(own, 0o600)
        return path, own

    def expired(self, name, path, key):
        """`openssl ca` alone takes a start and an end."""
        work = f"{self.folder}/{name}.ca"
        os.makedirs(work, exist_ok=True)
        open(f"{work}/index", "w").close()
        with open(f"{work}/settings", "w") as file:
            file.write(f"[ca]\ndefault_ca=it\n[it]\ndatabase={work}/index\nnew_certs_dir={work}\nrand_serial=yes\n"
                       "default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n")
        run(["openssl", "req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", f"{work}/request"])
        run(["openssl", "ca", "-batch", "-config", f"{work}/settings", "-cert", self.path, "-keyfile", self.key, "-in",
             f"{work}/request", "-out", path, "-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-notext"])


class Database:
    """PostgreSQL on a Unix socket in its folder alone."""

    def __init__(self, ground, folder=None):
        self.ground, self.folder = ground, folder or f"{ground.folder}/postgresql"
        if not POSTGRES:
            raise Failed("PostgreSQL is not installed")
        self.process = None
        self.create()

    def create(self):
        os.makedirs(self.folder)
        self.prefix = []
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            self.prefix = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]
        run([*self.prefix, f"{POSTGRES}/initdb", "-D", f"{self.folder}/data", "-U", "healthrelay", "-A", "trust", "--no-sync",
             "--no-instructions", "-E", "UTF8", "--locale=C"])
        self.ground.tell("file", f"{self.folder}/data/postmaster.pid")
        self.start()
        self.sql("CREATE DATABASE fleet", database="postgres")

    @property
    def address(self):
        return f"host={self.folder} user=healthrelay dbname=fleet"

    def start(self):
        self.process = self.ground.start(
            [*self.prefix, f"{POSTGRES}/postgres", "-D", f"{self.folder}/data", "-k", self.folder, "-c", "listen_addresses=",
             "-c", "shared_buffers=128MB", "-c", "max_connections=40"], f"{self.ground.folder}/postgresql.log")
        until(lambda: self.sql("SELECT 1", database="postgres"), "PostgreSQL starts", 90)

    def stop(self):
        """Immediate mode: no checkpoint, clients are cut off, the log is replayed at the next start."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def wipe(self):
        self.stop()
        shutil.rmtree(self.folder)

    def sql(self, statement, database="fleet", timeout=300):
        return run([f"{POSTGRES}/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d",
                    f"host={self.folder} user=healthrelay dbname={database}", "-c", statement], timeout=timeout).strip()

    def pids(self):
        """The server with the processes of its connections."""
        children = open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()
        return {"PostgreSQL": self.process.pid, **{f"PostgreSQL {pid}": int(pid) for pid in children}}


class Collector:
    def __init__(self, ground, name, cluster, database, authority, seal=None):
        self.ground, self.name = ground, name
        self.folder = f"{ground.folder}/{name}"
        os.makedirs(self.folder)
        self.port, = free_ports(1)
        self.process, self.spent = None, 0
        certificate, key = authority.issue("collector")
        hosts = ", ".join(f'"amqps://localhost:{node.amqp}"' for node in cluster.nodes)
        with open(f"{self.folder}/collector.yaml", "w") as file:
            file.write(f"""ingest: {{listen: "127.0.0.1:{self.port}"}}
store: {{postgresql: "{database.address}"}}
queue:
  hosts: [{hosts}]
  ca_file: {authority.path}
  certificate_file: {certificate}
  private_key_file: {key}
  group_size: {len(cluster.nodes)}
""" + (f"seal: {{private_key_file: {seal}}}\n" if seal else ""))

    @property
    def log(self):
        return f"{self.folder}/log"

    def start(self, crash=None):
        """- crash: a point of its work at which it kills itself (HEALTHRELAY_CRASH_AT)."""
        environment = plain_environment({"HOME": self.folder})
        if crash:
            environment["HEALTHRELAY_CRASH_AT"] = crash
        self.process = self.ground.start(
            [COLLECTOR, "--settings", f"{self.folder}/collector.yaml", "--state-dir", f"{self.folder}/state"], self.log,
            environment)

    def health(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/health", timeout=5, context=context) as answer:
                return json.load(answer)["status"] == "ok"
        except urllib.error.HTTPError:
            return False

    def wait(self, seconds=120):
        def is_well():
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended by itself: {open(self.log).read()[-1500:]}")
            return self.health()
        until(is_well, f"{self.name} reads the queues", seconds)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.spent += cpu(self.process.pid)
            self.process.kill()
            self.process.wait()

    def command(self, *arguments):
        return run([COLLECTOR, *arguments, "--json", "--settings", f"{self.folder}/collector.yaml", "--state-dir",
                    f"{self.folder}/state"], plain_environment({"HOME": self.folder}))

    def pids(self):
        return {self.name: self.process.pid} if self.process and self.process.poll() is None else {}


def cpu(pid):
    """Seconds of the processor that a process has used."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK
    except (OSError, IndexError):
        return 0


def memory(pid):
    """Bytes of a process, pages that it shares counted in parts."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return int(re.search(r"^Pss:\s+(\d+) kB", file.read(), re.M).group(1)) * 1024
    except (OSError, AttributeError):
        return 0
