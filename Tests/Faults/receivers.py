"""Servers that a gateway delivers to, each as strict as its kind is known to be, and each failing on request.

They keep what they have got in memory, count it by the kind's own key, and outlive the gateway.
"""
import base64
import getpass
import hashlib
import hmac
import http.server
import json
import os
import random
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ports import free_ports

# How an answer fails, and whether what it is for has been done then.
FAULTS = (None, None, "cut before", "cut after", "500", "503", "429")


class Certificate:
    """A certificate that nothing trusts of itself, for `localhost`."""

    def __init__(self, folder):
        self.path, self.key = f"{folder}/certificate.pem", f"{folder}/certificate.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", self.path,
             "-keyout", self.key], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Receiver:
    """An HTTP server on a loopback port, over TLS where it has a certificate."""

    def __init__(self, certificate=None):
        self.fault, self.lock, self.complaints = None, threading.Lock(), []
        # Whether every request is refused for its key, and how many were.
        self.denies, self.denied, self.requests = False, 0, 0
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def serve(self):
                length = int(self.headers.get("content-length", 0))
                body = self.rfile.read(length)
                if len(body) < length:
                    # A gateway that is killed between the head and the body has sent no request.
                    return self.cut()
                if self.headers.get("content-encoding") == "gzip":
                    import gzip
                    body = gzip.decompress(body)
                with receiver.lock:
                    receiver.requests += 1
                    if receiver.denies:
                        receiver.denied += 1
                        return self.answer(401, {"error": "who are you?"}, {"www-authenticate": "Bearer"})
                    fault = receiver.fault if random.random() < 0.4 else None
                    if fault == "cut before":
                        return self.cut()
                    if fault in ("500", "503", "429"):
                        return self.answer(int(fault), {}, {} if fault == "500" else {"retry-after": "1"})
                    status, document = receiver.answer(
                        self.command, urllib.parse.urlsplit(self.path), self.headers, body)
                if fault == "cut after":
                    return self.cut()
                self.answer(status, document, {})

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = serve

            def cut(self):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def answer(self, status, document, fields):
                octets = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("content-type", receiver.type)
                self.send_header("content-length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.path, certificate.key)
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.url = f"https://localhost:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    type = "application/json"

    def complain(self, words):
        self.complaints.append(words)
        return 400, {"error": words}

    def end(self):
        self.server.shutdown()
        self.server.server_close()


class Hook(Receiver):
    """Takes events that are signed after Standard Webhooks."""

    def __init__(self, certificate=None):
        super().__init__(certificate)
        self.secret = "whsec_" + base64.b64encode(os.urandom(32)).decode()
        self.events, self.values = {}, {}

    def answer(self, method, url, fields, body):
        if method != "POST":
            return 405, {}
        signed = f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        if expected not in fields["webhook-signature"].split():
            return self.complain("a signature does not fit its event")
        event = json.loads(body)
        if self.events.setdefault(fields["webhook-id"], body) != body:
            return self.complain(f"{fields['webhook-id']} came twice with different content")
        self.values[event["data"]["id"]] = event
        return 204, None

    def readings(self):
        return {key for key, event in self.values.items() if not event["type"].endswith((".deleted", ".retracted"))}


class Site(Receiver):
    """A Nightscout site: entries are unique by their time and type, and an entry that comes again is merged."""

    secret = "a-secret-of-the-site"

    def __init__(self, certificate=None):
        super().__init__(certificate)
        self.entries, self.number = [], 0

    def answer(self, method, url, fields, body):
        if fields.get("api-secret") != hashlib.sha1(self.secret.encode()).hexdigest():
            return self.complain("the secret is wrong")
        path = url.path.removeprefix("/api/v1/").removesuffix(".json")
        query = dict(urllib.parse.parse_qsl(url.query))
        if method == "POST":
            documents = json.loads(body)
            documents = documents if isinstance(documents, list) else [documents]
            if path == "entries":
                for document in documents:
                    self.store(document)
            return 200, documents
        wanted = {re.sub(r"find\[(\w+)\]", r"\1", key): value for key, value in query.items() if key.startswith("find[")}
        if path.startswith("entries/"):
            wanted["type"] = path.split("/")[1]
        found = [entry for entry in self.entries if all(str(entry.get(key)) == value for key, value in wanted.items())]
        if method == "GET":
            return 200, found if path == "entries" else []
        if method == "DELETE":
            self.entries = [entry for entry in self.entries if entry not in found]
            return 200, {"n": len(found), "ok": 1}
        return 404, {}

    def store(self, document):
        for entry in self.entries:
            if (entry["date"], entry["type"]) == (document["date"], document["type"]):
                if entry["readingId"] != document["readingId"]:
                    self.complain(f"{document['readingId']} has taken the place of {entry['readingId']}")
                return entry.update(document)
        self.number += 1
        self.entries.append({**document, "_id": f"{self.number:024x}"})

    def readings(self):
        ids = [entry["readingId"] for entry in self.entries]
        if len(ids) != len(set(ids)):
            self.complain("a reading is at two places")
        return set(ids)


class FHIRServer(Receiver):
    """A FHIR R4 server: transactions are stored whole or not at all, conditional creates leave what they find."""

    type = "application/fhir+json"
    token = "a-token-of-the-gateway"

    def __init__(self, certificate=None):
        super().__init__(certificate)
        self.stored = []

    @staticmethod
    def tokens(text):
        """System and value of each token of a search, between commas that are not escaped."""
        for token in re.split(r"(?<!\\),", text):
            system, value = re.split(r"(?<!\\)\|", token)
            yield tuple(re.sub(r"\\(.)", r"\1", part) for part in (system, value))

    def found(self, kind, text):
        wanted = set(self.tokens(text))
        return [each for each in self.stored if each["resource"]["resourceType"] == kind and wanted & {
            (one.get("system"), one.get("value")) for one in each["resource"].get("identifier", [])}]

    def outcome(self, status, words):
        self.complaints.append(words)
        return status, {"resourceType": "OperationOutcome", "issue": [{"severity": "error", "diagnostics": words}]}

    def answer(self, method, url, fields, body):
        if url.path == "/r4/metadata":
            return 200, {"resourceType": "CapabilityStatement", "fhirVersion": "4.0.1"}
        if fields.get("authorization") != f"Bearer {self.token}":
            return self.outcome(401, "the token is unknown")
        if method != "GET" and not fields.get("content-type", "").startswith(self.type):
            return self.outcome(415, "the content type is another")
        parts = url.path.strip("/").split("/")[1:]
        if method == "POST" and not parts:
            return self.transaction(json.loads(body))
        if method == "GET" and len(parts) == 1:
            found = self.found(parts[0], dict(urllib.parse.parse_qsl(url.query))["identifier"])
            return 200, {"resourceType": "Bundle", "type": "searchset", "entry": [
                {"resource": {**each["resource"], "id": each["id"], "meta": {"versionId": str(each["version"])}}}
                for each in found]}
        if method == "PUT" and len(parts) == 2:
            resource = json.loads(body)
            for each in self.stored:
                if each["id"] == parts[1] == resource["id"]:
                    if fields.get("if-match", f'W/"{each["version"]}"') != f'W/"{each["version"]}"':
                        return self.outcome(412, "another version is current")
                    each["resource"], each["version"] = resource, each["version"] + 1
                    return 200, resource
        return self.outcome(404, f"{method} {url.path} is unknown")

    def transaction(self, bundle):
        if bundle.get("type") != "transaction":
            return self.outcome(400, "no transaction")
        new, answers = [], []
        for entry in bundle["entry"]:
            request, resource = entry["request"], entry["resource"]
            if not entry["fullUrl"].startswith("urn:uuid:") or request["url"] != resource["resourceType"]:
                return self.outcome(400, "an entry is malformed")
            condition = dict(urllib.parse.parse_qsl(request["ifNoneExist"], strict_parsing=True))
            found = self.found(resource["resourceType"], condition["identifier"])
            if len(found) > 1:
                return self.outcome(412, "several match")
            if not found:
                new.append({"id": f"o{len(self.stored) + len(new) + 1}", "version": 1, "resource": resource})
            answers.append({"response": {"status": "200 OK" if found else "201 Created"}})
        self.stored += new
        return 200, {"resourceType": "Bundle", "type": "transaction-response", "entry": answers}

    @staticmethod
    def identifiers(resources):
        """What measurements are known by; a device's clock is none."""
        return [one["value"] for each in resources if each["resourceType"] == "Observation"
                and each["code"]["coding"][0]["code"] != "67975" for one in each["identifier"][:1]]

    def readings(self):
        ids = self.identifiers(each["resource"] for each in self.stored
                               if each["resource"].get("status") != "entered-in-error")
        if len(ids) != len(set(ids)):
            self.complain("an Observation is there twice")
        return set(ids)


class Database:
    """Debian's InfluxDB."""

    program = "/usr/bin/influxd"

    def __init__(self, folder, certificate=None):
        self.folder = f"{folder}/influxdb"
        os.makedirs(self.folder)
        port, other = free_ports(2)
        tls = f"""https-enabled = true
https-certificate = "{certificate.path}"
https-private-key = "{certificate.key}"
""" if certificate else ""
        with open(f"{self.folder}/settings", "w") as file:
            file.write(f"""reporting-disabled = true
bind-address = "127.0.0.1:{other}"
[meta]
dir = "{self.folder}/meta"
[data]
dir = "{self.folder}/data"
wal-dir = "{self.folder}/wal"
[http]
bind-address = "127.0.0.1:{port}"
log-enabled = false
{tls}
[monitor]
store-enabled = false
""")
        self.url = f"https://localhost:{port}" if certificate else f"http://127.0.0.1:{port}"
        self.context = ssl.create_default_context(cafile=certificate.path) if certificate else None
        log = open(f"{self.folder}/log", "w")
        self.process = subprocess.Popen(
            [self.program, "run", "-config", f"{self.folder}/settings"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(300):
            try:
                self.query("CREATE DATABASE health")
                break
            except OSError:
                time.sleep(0.1)

    def query(self, text):
        request = urllib.request.Request(f"{self.url}/query?db=health", data=urllib.parse.urlencode({"q": text}).encode())
        return json.load(urllib.request.urlopen(request, timeout=60, context=self.context))

    def readings(self):
        found = []
        for series in self.query('SELECT "reading_id" FROM /.*/')["results"][0].get("series", []):
            found += [point[1] for point in series["values"]]
        if len(found) != len(set(found)):
            raise AssertionError("a reading is at two points of InfluxDB")
        return set(found)

    def end(self):
        self.process.terminate()
        self.process.wait()


class Broker:
    """Debian's Mosquitto, and a subscriber that acknowledges every message."""

    program = "/usr/sbin/mosquitto"

    def __init__(self, folder, certificate=None):
        port, own = free_ports(2)
        self.url = f"mqtts://localhost:{port}" if certificate else f"mqtt://127.0.0.1:{port}"
        self.log = f"{folder}/mosquitto.log"
        with open(f"{folder}/mosquitto.conf", "w") as file:
            # As root it would take another user's rights, who may not read this.
            file.write(f"""user {getpass.getuser()}
log_dest file {self.log}
allow_anonymous true
listener {own} 127.0.0.1
listener {port} 127.0.0.1
""")
            if certificate:
                file.write(f"certfile {certificate.path}\nkeyfile {certificate.key}\n")
        self.process = subprocess.Popen(
            [self.program, "-c", f"{folder}/mosquitto.conf"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                self.socket = socket.create_connection(("127.0.0.1", own))
                break
            except OSError:
                time.sleep(0.05)
        self.seen = {}
        # MQTT 3.1.1: CONNECT of a client without a name, and SUBSCRIBE with QoS 1.
        self.socket.sendall(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00")
        topic = b"healthrelay/readings/#"
        self.socket.sendall(bytes([0x82, len(topic) + 5, 0, 1]) + struct.pack(">H", len(topic)) + topic + b"\x01")
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        stream = self.socket.makefile("rb")
        while head := stream.read(1):
            length, shift = 0, 0
            while (octet := stream.read(1)[0]) & 0x80:
                length, shift = length | (octet & 0x7F) << shift, shift + 7
            body = stream.read(length | octet << shift)
            if head[0] >> 4 != 3:
                continue
            end = 2 + struct.unpack(">H", body[:2])[0]
            self.socket.sendall(b"\x40\x02" + body[end:end + 2])
            document = json.loads(body[end + 2:])
            self.seen[document["id"]] = document

    def readings(self):
        return {key for key, document in self.seen.items() if not document.get("retracted")}

    def end(self):
        self.process.terminate()
        self.process.wait()
