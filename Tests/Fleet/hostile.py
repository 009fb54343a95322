"""What a hostile gateway sends, and what befalls operators: each is named, nothing of it stops the others or loses a reading."""
import json
import os
import shutil
import subprocess

import badinput
import documents
import mqtt
from engine import COLLECTOR, POSTGRES, Collector, Database, Failed, plain_environment, until
from fleet import Fleet, Oracle, RealGateway, pause

NAMES = [f"foe-{number}" for number in range(3)] + ["restored", "twin"]


def poison(odd):
    """Documents that a JSON reader, PostgreSQL or a person may stumble over: what they are, and the octets."""
    def body(text):
        """A batch whose reading has something more."""
        return odd.batch().replace(b'"readings":[{', b'"readings":[{' + text + b",", 1)
    yield "a text with U+0000", body(b'"note":"\\u0000"')
    yield "half of a surrogate pair", body(b'"note":"\\ud800"')
    yield "a number with an exponent of 400000", body(b'"note":1e400000')
    yield "a number of 100,000 digits", body(b'"note":' + b"9" * 100_000)
    yield "50,000 arrays in each other", body(b'"note":' + b"[" * 50_000 + b"]" * 50_000)
    yield "a key of 300 kB", body(b'"' + b"k" * 300_000 + b'":1')
    yield "the same key twice", body(b'"id":"0"')
    yield "a text that is no UTF-8", body(b'"note":"\xff"')
    yield "the year 0001", odd.batch().replace(b"2026-01-01T", b"0001-01-01T")
    yield "the year 9999", odd.batch().replace(b"2026-01-01T", b"9999-12-31T")
    yield "the largest batch number", odd.batch().replace(b'"batch":%d' % odd.number, b'"batch":9007199254740991')
    yield "a batch number beyond it", odd.batch().replace(b'"batch":%d' % odd.number, b'"batch":9223372036854775808')
    sealed = {"suite": "x25519-sha256-chacha20poly1305", "key": "\0" + "a" * 15, "encapsulated": "A" * 43 + "=",
              "ciphertext": "A" * 43 + "="}
    yield "a sealed batch whose key has U+0000", json.dumps(
        {"schema": 1, "gateway": odd.name, "batch": odd.number, "sealed": sealed}).encode()
    yield "nothing", b""
    yield "null", b"null"


def check(bench):
    """Goes through all of it.

    - Returns: a line for each kind.
    """
    bench.cluster.admit(NAMES, [])
    return [*poisoned(bench), *eavesdropper(bench), *restored(bench), *twins(bench), *schemas(bench), *full_disk(bench)]


def poisoned(bench):
    """No document stops a queue, or ends a collector."""
    odd, honest = (badinput.Odd(bench, name) for name in NAMES[:2])
    before = {one.name: one.process.pid for one in bench.collectors}
    connection, kinds = odd.connect(), 0
    for part in ("readings", "hello", "status"):
        for what, document in poison(odd):
            try:
                connection.publish(f"healthrelay/{odd.name}/{part}", document, 120)
            except (mqtt.Lost, TimeoutError) as error:
                raise Failed(f"{what} on {part}: {error}") from None
            kinds += 1
    connection.close()
    honest.deliver(honest.batch(), None)
    until(lambda: bench.cluster.depth() == bench.cluster.depth("status") == 0, "hostile documents have left the queues", 120, 1)
    for one in bench.collectors:
        if one.process.poll() is not None or one.process.pid != before[one.name]:
            raise Failed(f"{one.name} has ended: {one.process.returncode}")
    aside = [one for one in json.loads(bench.collectors[0].command("aside", "--limit", "1000"))["documents"]
             if one["gateway"] == odd.name]
    reasons = sorted({one["reason"] for one in aside})
    bench.database.sql(f"DELETE FROM reading WHERE gateway = '{odd.name}'")
    return [f"{kinds} hostile documents: {len(aside)} are put aside as {', '.join(reasons)}; both collectors go on"]


def eavesdropper(bench):
    """A gateway that takes another's client id does not get what is published to that one."""
    odd, victim = badinput.Odd(bench, NAMES[2]), bench.names[0]
    connection = odd.connect(client=victim)
    try:
        granted = connection.subscribe([f"healthrelay/{odd.name}/receipts"], 0)
        if granted[0] < 0x80:
            raise Failed(f"{odd.name} may subscribe as {victim}")
    except mqtt.Lost:
        pass
    connection.close()
    bench.fleet.connected(bench.patience)
    return ["a subscription under another gateway's client id: the broker refuses it"]


def gateway_of(bench, name, captures, folder=None):
    """A real gateway, perhaps a second one of the same name."""
    gateway = RealGateway(bench.ground, name, bench.cluster.hosts, bench.authority, captures=captures)
    if folder:
        own = gateway.folder
        gateway.folder = f"{bench.folder}/{folder}"
        shutil.copytree(own, gateway.folder)
        gateway.environment = gateway.surroundings(gateway.folder)
    return gateway


def stored(bench, name):
    return set(bench.database.sql(f"SELECT id FROM reading WHERE gateway = '{name}' AND NOT retracted").split())


def expect_stored(bench, name, wanted):
    missing = set(wanted) - stored(bench, name)
    if missing:
        raise Failed(f"{name}: {len(missing)} of {len(wanted)} readings are not stored")


def restored(bench):
    """A gateway is restored from a backup that knows nothing of its last readings and batches."""
    half = len(documents.CAPTURES) // 2
    gateway = gateway_of(bench, "restored", documents.CAPTURES[:half])
    gateway.start()
    gateway.settled(bench.patience, 1)
    gateway.command("add", "weight", "70.5", "kg", "--at", "2026-11-20T07:30:00Z")
    gateway.settled(bench.patience, 1)
    gateway.stop()
    shutil.copytree(f"{gateway.folder}/state", f"{gateway.folder}/backup")
    gateway.captures = documents.CAPTURES
    gateway.start()
    gateway.settled(bench.patience, 1)
    everything = gateway.readings()
    gateway.stop()
    shutil.rmtree(f"{gateway.folder}/state")
    os.rename(f"{gateway.folder}/backup", f"{gateway.folder}/state")
    before = stored(bench, "restored")
    gateway.start()
    gateway.settled(bench.patience, 1)
    # What is taken back after the restore has to count although an earlier life of the gateway has sent later batches.
    one = next(key for key, reading in gateway.readings().items() if reading["kind"] == "weight" and "70.5" in json.dumps(reading))
    gateway.command("withdraw", one)
    until(lambda: one not in stored(bench, "restored"), "the centre has removed a reading that was withdrawn", bench.patience, 1)
    expect_stored(bench, "restored", set(everything) - {one})
    gateway.stop()
    return [f"a gateway restored from an old backup: {len(before)} readings before, {len(stored(bench, 'restored'))} after, "
            "with one withdrawn; none lost"]


def twins(bench):
    """Two machines have the same id, as after a copied memory card."""
    first = gateway_of(bench, "twin", documents.CAPTURES[::2])
    second = gateway_of(bench, "twin", documents.CAPTURES[1::2], "twin-copy")
    for gateway in (first, second):
        gateway.start()
    for gateway in (first, second):
        gateway.settled(bench.patience, 1)
    expect_stored(bench, "twin", set(first.readings()) | set(second.readings()))
    for gateway in (first, second):
        gateway.stop()
    return ["the same gateway twice: both deliver, nothing is lost"]


def schemas(bench):
    """A newer collector has changed the tables: the others go on, and one that starts says what is wrong."""
    one, other = bench.collectors
    bench.database.sql("UPDATE fleet_schema SET version = version + 1")
    try:
        one.process.terminate()
        one.process.wait()
        done = subprocess.run([COLLECTOR, "--settings", f"{one.folder}/collector.yaml", "--state-dir", f"{one.folder}/state"],
                              env=plain_environment({"HOME": one.folder}), capture_output=True, text=True, timeout=60)
        if done.returncode == 0 or "newer" not in done.stderr:
            raise Failed(f"an older collector: {done.returncode}: {done.stderr[-500:]}")
        bench.fleet.ask("make", readings=1)
        bench.fleet.settled(bench.patience)
    finally:
        bench.database.sql("UPDATE fleet_schema SET version = version - 1")
    one.start()
    one.wait()
    return [f"tables of a newer collector: the running one goes on, a starting one ends with {done.returncode}: "
            f"{done.stderr.strip().splitlines()[-1][:160]}"]


class SmallDatabase(Database):
    """PostgreSQL on a disk of its own that can be filled; what it stores ends with it."""

    size, ballast = 200, "ballast"

    def create(self):
        os.makedirs(f"{self.folder}/data")
        shutil.chown(self.folder, "postgres", "postgres")
        self.prefix = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]
        self.start()
        self.sql("CREATE DATABASE fleet", database="postgres")

    def start(self):
        data = f"{self.folder}/data"
        own = " ".join(self.prefix)
        self.process = self.ground.start(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
             f"mount -t tmpfs -o size={self.size}m,mode=700,uid=postgres,gid=postgres tmpfs {data}\n"
             f"{own} {POSTGRES}/initdb -D {data} -U healthrelay -A trust --no-sync --no-instructions -E UTF8 --locale=C\n"
             f"exec {own} {POSTGRES}/postgres -D {data} -k {self.folder} -c listen_addresses= -c shared_buffers=16MB "
             "-c min_wal_size=32MB -c max_wal_size=64MB"],
            f"{self.ground.folder}/{os.path.basename(self.folder)}.log")
        until(lambda: self.sql("SELECT 1", database="postgres"), "the small PostgreSQL starts", 90)

    def inside(self, command):
        return subprocess.run(["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt", "sh", "-c", f"cd {self.folder}/data\n{command}"],
                              capture_output=True, text=True)

    def fill(self):
        self.inside(f"dd if=/dev/zero of={self.ballast} bs=64k")

    def free(self):
        self.inside(f"rm {self.ballast}")


def full_disk(bench):
    """The database has no room: nothing is acknowledged, and everything comes in once there is room again."""
    if os.geteuid() != 0:
        return ["the database's disk full: not tried, needs root"]
    for one in bench.collectors:
        one.process.terminate()
        one.process.wait()
    database = SmallDatabase(bench.ground, f"{bench.folder}/small")
    collector = Collector(bench.ground, "collector-small", bench.cluster, database, bench.authority)
    collector.start()
    collector.wait()
    names = [f"tiny-{number}" for number in range(10)]
    bench.cluster.admit(names, [])
    fleet = Fleet(bench.ground, names, bench.cluster.hosts, bench.authority, bench.templates, "tiny", 1, receipt_wait=60)
    fleet.ask("connect")
    fleet.connected(60)
    database.fill()
    fleet.ask("make", readings=500)
    fleet.until(lambda seen: seen["acknowledged"] == 5000, "the broker has everything", bench.patience)
    until(lambda: "No space left" in open(collector.log).read(), "the collector names the full disk", bench.patience, 1)
    pause(10)
    seen = fleet.ask("look")
    if not seen["waiting"] or collector.health():
        raise Failed(f"the disk is full, and all seems well: {seen}")
    database.free()
    fleet.settled(bench.patience)
    found = Oracle(database, bench.templates).check(fleet)
    fleet.end()
    collector.kill()
    database.stop()
    for one in bench.collectors:
        one.start()
    for one in bench.collectors:
        one.wait()
    if found["lost"] or found["doubled"] or found["stored"] != 5000:
        raise Failed(f"the database's disk full: {found}")
    return [f"the database's disk full: `/health` is 503 and the log says so; {seen['waiting']} of 5,000 readings waited, all are "
            "stored once there is room"]
