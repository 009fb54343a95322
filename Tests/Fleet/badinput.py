"""What gateways may send that must neither be stored nor hold up anything, and how each is named on both sides."""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import time

import documents
import mqtt
from engine import Authority, Failed, run, until
from fleet import Fleet, RealGateway
from ports import free_ports

# Gateways of these trials alone; the last is a real one's.
NAMES = [f"odd-{number}" for number in range(12)] + ["real-sealed", "real-killed"]


def sealing_key(path):
    """The centre's key to which batches are sealed: PATH.key and PATH.pub."""
    run(["openssl", "genpkey", "-algorithm", "X25519", "-out", f"{path}.key"])
    run(["openssl", "pkey", "-in", f"{path}.key", "-pubout", "-out", f"{path}.pub"])
    os.chmod(f"{path}.key", 0o600)
    return path


def fingerprint(path):
    der = subprocess.run(["openssl", "pkey", "-in", f"{path}.key", "-pubout", "-outform", "DER"], capture_output=True,
                         check=True).stdout
    return hashlib.sha256(der[-32:]).hexdigest()[:16]


def sealed(gateway, number, key):
    """A sealed batch whose seal opens with no key: what a change on its way makes of one."""
    return documents.compact({
        "schema": 1, "gateway": gateway, "batch": number, "sealed": {
            "suite": "x25519-sha256-chacha20poly1305", "key": key, "encapsulated": base64.b64encode(os.urandom(32)).decode(),
            "ciphertext": base64.b64encode(os.urandom(800)).decode()}})


class Odd:
    """A gateway that goes step by step."""

    def __init__(self, bench, name):
        self.bench, self.name = bench, name
        self.certificate = bench.authority.issue(name, bench.authority.shared)
        self.number = int(time.time() * 1000)
        self.client = None

    def host(self):
        return self.bench.cluster.hosts[0]

    def connect(self, client=None, certificate=None, key=None):
        context = mqtt.client_context(
            self.bench.authority.path, certificate or self.certificate[0], key or self.bench.authority.shared)
        self.client = mqtt.Client(self.host(), client or self.name, context)
        return self.client

    def batch(self, gateway=None, schema=1, pad=0):
        self.number += 1
        readings = [documents.reading(self.bench.templates[0], self.name, 0, self.number)]
        if pad:
            readings[0]["pad"] = "x" * pad
        return documents.batch(gateway or self.name, self.number, readings, schema)

    def deliver(self, document, wanted):
        """Publishes a document and compares the receipt's error; None: it is stored."""
        self.connect()
        self.client.subscribe([f"healthrelay/{self.name}/receipts"])
        self.client.publish(f"healthrelay/{self.name}/readings", document)
        while True:
            receipt = json.loads(self.client.message(120)[1])
            if receipt["batch"] == self.number:
                break
        self.client.close()
        found = receipt["error"] and receipt["error"]["code"]
        if found != wanted or (wanted is None) != bool(receipt["stored"]):
            raise Failed(f"{self.name}: expected {wanted or 'a receipt'}, found {receipt}")
        return receipt

    def stored(self):
        return int(self.bench.database.sql(f"SELECT count(*) FROM reading WHERE gateway = '{self.name}'"))

    def aside(self, reason):
        """Whether the collector lists a document with a reason."""
        found = [one for one in json.loads(self.bench.collectors[0].command("aside", "--limit", "1000"))["documents"]
                 if one["gateway"] == self.name]
        if not any(one["reason"] == reason for one in found):
            raise Failed(f"{self.name}: `healthrelay-collector aside` has no {reason}: {found}")

    def correct(self):
        """The same reading, as it should have been: nothing was lost by the refusal."""
        if self.stored():
            raise Failed(f"{self.name}: stored although it was refused")
        self.deliver(self.batch(), None)
        if self.stored() != 1:
            raise Failed(f"{self.name}: the corrected batch is not stored")


def check(bench):
    """Goes through all of it.

    - Returns: a line for each kind.
    """
    lines = []
    odd = [Odd(bench, name) for name in NAMES[:12]]
    victim = bench.names[0]

    def refused(gateway, document, code, what):
        gateway.deliver(document, code)
        gateway.aside(code)
        gateway.correct()
        lines.append(f"{what}: receipt and `aside` say {code}; the corrected batch is stored")

    before = bench.database.sql(f"SELECT count(*), max(revision) FROM reading WHERE gateway = '{victim}'")
    refused(odd[0], odd[0].batch(gateway=victim), "other_gateway", "a batch that names another gateway")
    refused(odd[1], odd[1].batch(schema=2), "newer_schema", "a batch of a newer schema")
    refused(odd[2], odd[2].batch(pad=750_000), "document_too_large", "a batch of 750 kB")
    refused(odd[3], sealed_of(odd[3], fingerprint(bench.seal)), "seal_broken", "a batch whose seal does not open")
    refused(odd[4], sealed_of(odd[4], "0123456789abcdef"), "other_key", "a batch sealed to another key")

    # So large that even its number is not looked for: the gateway gets no receipt, and keeps the reading.
    for gateway, document, code, what in (
            (odd[5], odd[5].batch(pad=1_100_000), "document_too_large", "a batch of 1.1 MB"),
            (odd[6], b"\xff\x00 no JSON", "bad_document", "bytes that are no JSON")):
        gateway.connect().publish(f"healthrelay/{gateway.name}/readings", document)
        until(lambda: says(gateway, code), f"{what} is put aside", 120, 1)
        gateway.client.close()
        gateway.correct()
        lines.append(f"{what}: PUBACK and no receipt; `aside` says {code}; the corrected batch is stored")

    # Topics.
    for number, topic in ((7, f"healthrelay/{victim}/readings"), (8, f"healthrelay/{odd[8].name}/receipts")):
        gateway = odd[number]
        gateway.connect()
        try:
            gateway.client.publish(topic, gateway.batch(), 60)
            raise Failed(f"{gateway.name} may publish {topic}")
        except mqtt.Lost:
            pass
        gateway.client.close()
        gateway.correct()
    lines.append("a topic of another gateway, and the centre's own topic: the broker ends the connection without PUBACK")
    if bench.database.sql(f"SELECT count(*), max(revision) FROM reading WHERE gateway = '{victim}'") != before:
        raise Failed(f"{victim}'s readings were changed by another gateway")

    # Another's client id throws the other out, and changes nothing of its data.
    odd[9].connect(client=victim)
    bench.fleet.ask("make", readings=3)
    odd[9].client.close()
    bench.fleet.settled(bench.patience)
    odd[9].correct()
    lines.append("a client id of another gateway: that one connects again; nothing of it is lost")

    # Certificates.
    expired = bench.authority.issue("odd-10x", bench.authority.shared, days=0)
    foreign = Authority(f"{bench.folder}/foreign", "foreign-ca")
    stranger = foreign.issue(odd[10].name, bench.authority.shared)
    for name, (path, key), words in (("expired", expired, "expired"), ("another authority's", stranger, "unknown ca")):
        said = not_let_in(odd[10], path, key)
        if words not in said.lower().replace("_", " "):
            raise Failed(f"{name} certificate: {said}")
        lines.append(f"a certificate that is {name}: no connection ({words})")
    odd[10].correct()
    # Revoked: the broker's user is removed, as `ca` does it, and its connections are closed.
    bench.cluster.control("delete_user", odd[11].name)
    said = not_let_in(odd[11], *odd[11].certificate)
    bench.cluster.admit([odd[11].name], [])
    odd[11].correct()
    lines.append(f"a gateway whose user was removed: {said}")

    # The real gateway says the same to its owner.
    gateway = RealGateway(bench.ground, "real-sealed", bench.cluster.hosts, bench.authority)
    gateway.certificate, gateway.key = bench.authority.issue("odd-10x", bench.authority.shared, days=0)
    os.chmod(gateway.key, 0o600)
    gateway.configure(bench.cluster.hosts)
    tested = json.loads(gateway.command("destination", "test", "study", "--json", statuses=None).splitlines()[0])
    bad = [one for one in tested["checks"] if one["ok"] is False]
    if not bad:
        raise Failed(f"`destination test` finds nothing wrong with an expired certificate: {tested}")
    lines.append(f"`healthrelay destination test` with an expired certificate: {bad[0]['name']}: {bad[0]['found']}")

    gateway.certificate, gateway.key = bench.authority.issue("real-sealed")
    other = sealing_key(f"{bench.folder}/authority/other")
    gateway.configure(bench.cluster.hosts, f"{other}.pub")
    gateway.start()

    def warns():
        words = json.dumps(gateway.status())
        return words if "other_key" in words else None
    until(warns, "`sync status` says that the centre has another key", bench.patience, 1)
    if gateway.status()["delivered"]:
        raise Failed("a batch that the centre could not open counts as delivered")
    lines.append("`healthrelay` sealing to another key: `sync status` says other_key, nothing counts as delivered")
    gateway.stop()
    gateway.configure(bench.cluster.hosts, f"{bench.seal}.pub")
    gateway.start()
    # The batch was acknowledged by the broker: it comes again ten minutes later. The long trials look at their end.
    bench.real.append(gateway) if not bench.options.short else gateway.stop()
    return lines


def sealed_of(gateway, key):
    gateway.number += 1
    return sealed(gateway.name, gateway.number, key)


def says(gateway, reason):
    try:
        gateway.aside(reason)
        return True
    except Failed:
        return False


def not_let_in(gateway, path, key):
    """Why a connection is not made; TLS 1.3 says it after the handshake."""
    try:
        gateway.connect(certificate=path, key=key)
    except (mqtt.Lost, OSError) as error:
        return str(error)
    gateway.client.close()
    raise Failed(f"{gateway.name} was let in")


def mosquitto(bench):
    """Simulated gateways at a Mosquitto that forbids them their topic, and at RabbitMQ then.

    - Returns: how many readings they made, and how many Mosquitto acknowledged.
    """
    folder, (port,) = f"{bench.folder}/mosquitto", free_ports(1)
    os.makedirs(folder)
    for source, name in ((bench.authority.path, "ca.pem"), (bench.cluster.certificate[0], "broker.pem"),
                         (bench.cluster.certificate[1], "broker.key")):
        shutil.copy(source, f"{folder}/{name}")
    with open(f"{folder}/acl", "w") as file:
        file.write("pattern write healthrelay/%u/status\npattern write healthrelay/%u/hello\n"
                   "pattern read healthrelay/%u/receipts\npattern read healthrelay/%u/config\n")
    with open(f"{folder}/mosquitto.conf", "w") as file:
        # As root it would take another user's rights, who may not read its files.
        file.write(f"""user root
listener {port} 127.0.0.1
cafile {folder}/ca.pem
certfile {folder}/broker.pem
keyfile {folder}/broker.key
require_certificate true
use_identity_as_username true
acl_file {folder}/acl
""")
    process = bench.ground.start(["/usr/sbin/mosquitto", "-c", f"{folder}/mosquitto.conf"], f"{folder}/log")
    names = NAMES[:10]
    # The trial with bad input has used these ids: their readings have numbers from 0 as well.
    bench.database.sql("DELETE FROM reading WHERE gateway LIKE 'odd-%'")
    fleet = Fleet(bench.ground, names, [("localhost", port)], bench.authority, bench.templates, "mosquitto", 1, receipt_wait=20)
    fleet.ask("connect")
    fleet.connected(60)
    fleet.ask("make", readings=20)
    fleet.until(lambda seen: seen["acknowledged"] == 200, "Mosquitto acknowledges everything", 60)
    seen = fleet.ask("look")
    if seen["waiting"] != 200 or seen["receipts"]:
        raise Failed(f"a reading was let go of without a receipt: {seen}")
    fleet.ask("hosts", hosts=[list(host) for host in bench.cluster.hosts])
    fleet.ask("cut")
    process.terminate()
    process.wait()
    fleet.settled(bench.patience)
    found = bench.oracle.check(fleet)
    fleet.end()
    if found["lost"] or found["doubled"] or found["stored"] != 200:
        raise Failed(f"Mosquitto: {found}")
    return 200, seen["acknowledged"]
