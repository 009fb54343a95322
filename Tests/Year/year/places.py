"""The servers that readings go to: strict, on loopback, and away or failing as they are told."""
import asyncio
import base64
import fcntl
import gzip
import hashlib
import hmac
import json
import os
import random
import struct
import termios
from collections import Counter

MODES = ("up", "away", "500", "503", "slow", "silent", "cut before", "cut after")


class Handler(asyncio.Protocol):
    """A connection of HTTP/1.1."""

    def __init__(self, place):
        self.place, self.octets, self.at_work = place, bytearray(), False

    def connection_made(self, transport):
        self.transport = transport
        self.place.handlers.add(self)

    def connection_lost(self, error):
        self.place.handlers.discard(self)

    def is_busy(self):
        if self.at_work or self.octets:
            return True
        # Whether the answer has arrived, the kernel's side of it: SIOCOUTQ counts what was not acknowledged.
        line = self.transport.get_extra_info("socket")
        if self.transport.is_closing() or line is None or line.fileno() < 0:
            return False
        return struct.unpack("i", fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, bytes(4)))[0] != 0

    def data_received(self, octets):
        self.octets += octets
        self.serve()

    def serve(self):
        head, mark, rest = bytes(self.octets).partition(b"\r\n\r\n")
        if not mark or self.at_work:
            return
        line, *fields = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
        length = int(fields.get("content-length", 0))
        if len(rest) < length:
            return
        self.octets = bytearray(rest[length:])
        body = bytes(rest[:length])
        if fields.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.place.mode == "silent":
            # The gateway's time passes until it gives up.
            self.place.note_lost(body)
            return
        self.at_work = True
        asyncio.ensure_future(self.work(line.split(" ")[0], fields, body))

    async def work(self, method, fields, body):
        mode = self.place.mode
        try:
            if mode == "slow":
                await asyncio.sleep(self.place.source.uniform(0.01, 0.2))
            if mode == "cut before":
                return await self.cut()
            if mode in ("500", "503"):
                return self.answer(int(mode), {"retry-after": "120"} if mode == "503" else {})
            status = self.place.take(method, fields, body)
            if mode == "cut after":
                self.place.note_lost(body)
                return await self.cut()
            self.answer(status, {})
        finally:
            self.at_work = False
        if self.octets:
            self.serve()

    async def cut(self):
        self.octets.clear()
        self.transport.abort()
        # Until the other end has heard of it.
        await asyncio.sleep(0.03)

    def answer(self, status, fields):
        lines = [f"HTTP/1.1 {status} -", "content-length: 0", *(f"{name}: {value}" for name, value in fields.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode())


class Place:
    """Takes events that are signed after Standard Webhooks. `values` has each reading's document by its id, cut to what
    tells measurements apart (`told`)."""

    def __init__(self, name, clock, told, seed):
        self.name, self.clock, self.told, self.source = name, clock, told, random.Random(seed)
        self.secret = "whsec_" + base64.b64encode(os.urandom(32)).decode()
        self.mode, self.handlers, self.server, self.port = "up", set(), None, 0
        self.values, self.lost, self.complaints, self.counts = {}, set(), [], Counter()

    async def start(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Handler(self), "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/in"

    def is_busy(self):
        return any(each.is_busy() for each in self.handlers)

    async def become(self, mode):
        if mode == "away" and self.server:
            self.server.close()
            self.server = None
        elif mode != "away" and not self.server:
            await self.start()
        if mode == "away" or self.mode == "silent":
            for each in list(self.handlers):
                each.transport.abort()
            await asyncio.sleep(0.03)
        self.mode = mode

    def note_lost(self, body):
        if body:
            self.lost.add(json.loads(body)["data"]["id"])

    def take(self, method, fields, body):
        if method == "HEAD":
            return 200
        self.counts["requests"] += 1
        moment = int(fields["webhook-timestamp"])
        signed = f"{fields['webhook-id']}.{moment}.".encode() + body
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        if expected not in fields["webhook-signature"].split():
            self.complaints.append("a signature does not fit its event")
            return 400
        if abs(self.clock.nanoseconds() / 1e9 - moment) > 300:
            self.complaints.append(f"an event is signed {moment - self.clock.nanoseconds() / 1e9:.0f} s from the clock")
            return 400
        event = json.loads(body)
        document = event["data"]
        if not event["type"].endswith(".created"):
            self.complaints.append(f"{event['type']} of {document['id']}")
        elif document["id"] in self.values:
            self.counts["again"] += 1
            if document["id"] not in self.lost:
                self.complaints.append(f"{document['id']} came twice, though it was answered")
        else:
            self.values[document["id"]] = self.told(document)
        return 204

    def stop(self):
        if self.server:
            self.server.close()
        for each in list(self.handlers):
            each.transport.abort()
