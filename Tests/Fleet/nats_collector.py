"""A collector on NATS, for the trials alone: it shows that the gateway's contract needs no certain broker.

    python3 nats_collector.py PORT,PORT,… DATABASE

Pulls batches from the stream that NATS keeps for MQTT, commits them to SQLite, publishes their receipts, and only then
acknowledges. NATS' own protocol is spoken by hand. A node that is lost is left for the next.
"""
import json
import os
import socket
import sqlite3
import sys
import time

STREAM, CONSUMER, FILTER = "$MQTT_msgs", "collector", "$MQTT.msgs.healthrelay.*.readings"


class Lost(Exception):
    pass


class Connection:
    """A connection to one node."""

    def __init__(self, port, timeout=5):
        self.buffer = b""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.number = 0
        self.line()
        self.send(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"user":"collector",'
                  b'"pass":"collector"}\r\nPING\r\n')
        while (line := self.line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise Lost(line.decode())
        self.inbox = f"_INBOX.{os.urandom(8).hex()}"
        self.send(f"SUB {self.inbox}.* 1\r\n".encode())

    def send(self, octets):
        self.socket.sendall(octets)

    def fill(self):
        more = self.socket.recv(1 << 20)
        if not more:
            raise Lost("the node has closed the connection")
        self.buffer += more

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, count):
        while len(self.buffer) < count + 2:
            self.fill()
        octets, self.buffer = self.buffer[:count], self.buffer[count + 2:]
        return octets

    def message(self, timeout):
        """Subject, reply, headers and body of the next message."""
        self.socket.settimeout(timeout)
        while True:
            line = self.line()
            if line == b"PING":
                self.send(b"PONG\r\n")
                continue
            parts = line.decode().split(" ")
            if parts[0] == "MSG":
                body = self.take(int(parts[-1]))
                return parts[1], parts[3] if len(parts) == 5 else None, b"", body
            if parts[0] == "HMSG":
                head, whole = int(parts[-2]), self.take(int(parts[-1]))
                return parts[1], parts[3] if len(parts) == 6 else None, whole[:head], whole[head:]
            if parts[0] == "-ERR":
                raise Lost(line.decode())

    def publish(self, subject, body, reply=None):
        self.send(f"PUB {subject} {reply + ' ' if reply else ''}{len(body)}\r\n".encode() + body + b"\r\n")

    def request(self, subject, document, timeout=10):
        self.number += 1
        reply = f"{self.inbox}.r{self.number}"
        self.publish(subject, json.dumps(document).encode() if document is not None else b"", reply)
        while True:
            found, _, head, body = self.message(timeout)
            if found == reply:
                if b" 503" in head:
                    raise Lost("nobody answers: there is no leader")
                return json.loads(body)

    def close(self):
        self.socket.close()


def prepare(connection):
    """Makes the consumer, without which NATS throws readings away."""
    answer = connection.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}", {
        "stream_name": STREAM, "config": {
            "durable_name": CONSUMER, "ack_policy": "explicit", "deliver_policy": "all", "filter_subject": FILTER,
            "ack_wait": 30 * 10**9, "max_ack_pending": 10000, "replay_policy": "instant"}})
    if "error" in answer:
        raise Lost(str(answer["error"]))


def keep(database, deliveries):
    """Commits what came; gives the receipts."""
    receipts = []
    with database:
        for subject, body in deliveries:
            gateway, batch = subject.split(".")[3], json.loads(body)
            if batch["gateway"] != gateway:
                receipts.append((gateway, {
                    "schema": 1, "gateway": gateway, "batch": batch["batch"], "stored": [], "stored_through": None, "refused": [],
                    "error": {"code": "other_gateway", "message": "the batch names another gateway"}}))
                continue
            for reading in batch["readings"]:
                database.execute(
                    "INSERT INTO reading VALUES (?, ?, ?, ?) ON CONFLICT (gateway, id) DO UPDATE SET revision = "
                    "excluded.revision, body = excluded.body WHERE excluded.revision > revision",
                    (gateway, reading["id"], reading["revision"], json.dumps(reading)))
            for one in batch["retracted"]:
                database.execute("DELETE FROM reading WHERE gateway = ? AND id = ?", (gateway, one["id"]))
            receipts.append((gateway, {
                "schema": 1, "gateway": gateway, "batch": batch["batch"],
                "stored": [one["id"] for one in batch["readings"] + batch["retracted"]], "stored_through": None, "refused": [],
                "error": None}))
    return receipts


def serve(connection, database):
    connection.request(f"$JS.API.CONSUMER.INFO.{STREAM}.{CONSUMER}", None)
    while True:
        connection.number += 1
        reply = f"{connection.inbox}.n{connection.number}"
        connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}",
                           json.dumps({"batch": 100, "expires": 10**9}).encode(), reply)
        deliveries, acknowledgements, end = [], [], time.monotonic() + 15
        while len(deliveries) < 100:
            if time.monotonic() > end:
                raise Lost("the node does not answer")
            subject, ack, head, body = connection.message(5)
            if subject == reply and head.startswith(b"NATS/1.0 ") and head[9:12].isdigit():
                # 404 and 408: no more for now. Everything else is a node without a leader.
                if head[9:12] in (b"404", b"408", b"409"):
                    break
                raise Lost(head.decode().strip())
            if not ack or not ack.startswith("$JS.ACK."):
                continue
            deliveries.append((subject, body))
            acknowledgements.append(ack)
        if not deliveries:
            continue
        for gateway, receipt in keep(database, deliveries):
            connection.publish(f"healthrelay.{gateway}.receipts", json.dumps(receipt).encode())
        for each in acknowledgements:
            connection.publish(each, b"+ACK")


def main():
    ports, path = [int(port) for port in sys.argv[1].split(",")], sys.argv[2]
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS reading (gateway TEXT, id TEXT, revision INTEGER, body TEXT, "
                     "PRIMARY KEY (gateway, id))")
    database.commit()
    turn = 0
    while True:
        try:
            connection = Connection(ports[turn % len(ports)])
            print(f"reads from the node at {ports[turn % len(ports)]}", flush=True)
            serve(connection, database)
        except (OSError, Lost) as error:
            print(f"the next node: {error}", flush=True)
            turn += 1
            time.sleep(0.5)


if __name__ == "__main__":
    main()
