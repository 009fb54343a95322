"""Simulated gateways, some hundred to a process, on plain sockets.

    python3 simulator.py SETTINGS

A gateway keeps a reading until a receipt of the centre names it. It sends batches of at most 100 readings, a few at a time,
gives a PUBACK thirty seconds and tries the next host then, sends a batch that was not acknowledged again at once, and one
without a receipt after `receipt_wait` seconds, always under a new and higher number. If no receipt at all has come in half of that
time, it connects to the next host and asks for the receipts. Commands come as lines of JSON on standard
input; each gets a line of JSON as its answer.
"""
import asyncio
import json
import random
import sys
import time

import documents
import mqtt

MOST = 100
WINDOW = 4
PUBACK_WAIT = 30


class Count:
    """What all gateways of this process have seen."""

    def __init__(self):
        # How many readings wait at all gateways, and since when any does.
        self.open, self.since = 0, 0.0
        self.begin()

    def wait_for(self, amount):
        """Notes that so many more readings wait, or fewer."""
        moment = time.monotonic()
        if not self.open and amount > 0:
            self.since = moment
        self.open += amount
        if not self.open and amount < 0:
            self.spans.append((self.since, moment))

    def begin(self):
        # The times in which readings waited.
        self.spans = []
        self.since = time.monotonic()
        self.pubacks = self.receipts = self.batches = self.repeats = self.connects = self.losses = self.takeovers = 0
        self.errors, self.slowest, self.worst_puback = {}, 0.0, 0.0
        # Hundredths of a second, by the clock that all processes share, in which a receipt came.
        self.moments = set()


count = Count()


class Gateway:
    def __init__(self, settings, name, index):
        self.settings, self.name = settings, name
        self.host = index % len(settings["hosts"])
        self.templates = settings["templates"]
        self.made = self.sent_again = 0
        self.sent_once = set()
        # By number: when the reading was made.
        self.waiting = {}
        self.in_batch = set()
        # By batch: the numbers of its readings, when it was sent and whether the broker has acknowledged it.
        self.sent = {}
        self.acknowledged, self.receipted = set(), set()
        self.last_batch = 0
        self.wants_connection, self.is_connected = False, False
        self.wake, self.task, self.writer = asyncio.Event(), None, None
        self.ids = {}
        # When the last receipt came.
        self.heard = 0.0
        # When it was connected last.
        self.met = 0.0
        self.context = None

    def make(self, amount):
        moment = time.monotonic()
        for number in range(self.made, self.made + amount):
            self.waiting[number] = moment
            self.ids[documents.reading_id(self.name, number)] = number
        self.made += amount
        count.wait_for(amount)
        self.wake.set()

    def send_all_again(self):
        """What an owner does with `destination redeliver`."""
        moment = time.monotonic()
        count.wait_for(self.made - len(self.waiting))
        self.waiting = {number: moment for number in range(self.made)}
        self.in_batch, self.sent, self.receipted = set(), {}, set()
        self.wake.set()

    def start(self, delay):
        self.wants_connection = True
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.live(random.uniform(0, delay)))

    def cut(self):
        """The connection is gone, as where a cable is pulled."""
        if self.writer:
            self.writer.transport.abort()

    async def live(self, delay):
        await asyncio.sleep(delay)
        failures = 0
        while self.wants_connection:
            try:
                await self.connection()
                failures = 0
            except Exception as error:
                # Whatever it was, it is shown with the trial: a gateway that ends in silence would look like a loss.
                count.losses += 1
                words = f"{type(error).__name__}: {error}"[:80] if not isinstance(error, asyncio.IncompleteReadError) else "closed"
                count.errors[words] = count.errors.get(words, 0) + 1
                failures = 0 if self.was_welcome else failures + 1
            self.is_connected = False
            # The broker may never have got what it has not acknowledged.
            for one in self.sent.values():
                if not one["acknowledged"] and not one["done"]:
                    one["done"] = True
                    self.in_batch -= set(one["numbers"])
            self.host = (self.host + 1) % len(self.settings["hosts"])
            if self.wants_connection:
                most = min(self.settings["retry"] * 2 ** min(failures, 5), 20)
                await asyncio.sleep(random.uniform(0, most))

    async def connection(self):
        self.was_welcome = False
        host, port = self.settings["hosts"][self.host]
        if self.context is None and self.settings.get("authority"):
            self.context = mqtt.client_context(
                self.settings["authority"], self.settings["certificates"].format(self.name), self.settings["key"])
        reader, writer = await asyncio.wait_for(asyncio.open_connection(
            host, port, ssl=self.context, server_hostname="localhost" if self.context else None,
            **({"ssl_handshake_timeout": 90} if self.context else {})), 100)
        self.writer = writer
        try:
            user = self.settings.get("user")
            writer.write(mqtt.connect(
                self.name, will=(f"healthrelay/{self.name}/status", b'{"online":false}'),
                user=user and user.format(self.name), password=self.settings.get("password")))
            kind, _, body = await asyncio.wait_for(mqtt.read_packet(reader), 60)
            if kind != mqtt.CONNACK or body[1]:
                raise mqtt.Lost(f"CONNACK {body[1]}")
            writer.write(mqtt.subscribe(1, [f"healthrelay/{self.name}/receipts", f"healthrelay/{self.name}/config"],
                                        self.settings["qos"]))
            kind, _, body = await asyncio.wait_for(mqtt.read_packet(reader), 60)
            if kind != mqtt.SUBACK:
                raise mqtt.Lost(f"a packet of kind {kind} in place of SUBACK")
            count.connects += 1
            self.met = time.monotonic()
            self.is_connected = self.was_welcome = True
            self.packets, self.next_packet = {}, 1
            self.publish("hello", documents.hello(
                self.name, [number for number, one in self.sent.items() if not one["done"]]), None)
            self.publish("status", documents.status(self.name, len(self.waiting), len(self.in_batch)), None)
            reading = asyncio.create_task(self.read(reader))
            writing = asyncio.create_task(self.write())
            try:
                done, _ = await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in (reading, writing):
                    task.cancel()
                await asyncio.gather(reading, writing, return_exceptions=True)
        finally:
            self.is_connected = False
            self.writer = None
            writer.transport.abort()

    def publish(self, part, body, batch):
        number = self.next_packet
        self.next_packet = number % 65535 + 1
        self.packets[number] = (batch, time.monotonic())
        self.writer.write(mqtt.publish(f"healthrelay/{self.name}/{part}", body, number))

    async def write(self):
        """Sends what waits, and gives a broker up that does not acknowledge."""
        pinged = time.monotonic()
        while True:
            # What is written to a connection that was cut counts as sent, and isn't.
            if self.writer.transport.is_closing():
                raise mqtt.Lost("the connection was cut")
            moment = time.monotonic()
            if any(moment - at > PUBACK_WAIT for _, at in self.packets.values()):
                raise mqtt.Lost("no PUBACK in time")
            if moment - pinged > 25:
                pinged = moment
                self.writer.write(mqtt.packet(mqtt.PINGREQ, 0, b""))
            is_deaf = False
            for one in self.sent.values():
                if one["done"] or not one["acknowledged"]:
                    continue
                age = moment - one["at"]
                # A broker may have lost the subscription and not the connection.
                is_deaf = is_deaf or age > self.settings["receipt_wait"] / 2 and max(self.heard, self.met) < one["at"]
                if age > self.settings["receipt_wait"]:
                    # Nobody has said that it is stored.
                    one["done"] = True
                    self.in_batch -= set(one["numbers"])
                    count.repeats += 1
            if is_deaf:
                raise mqtt.Lost("no receipt in time")
            open_batches = sum(batch is not None for batch, _ in self.packets.values())
            free = [number for number in self.waiting if number not in self.in_batch] if len(
                self.waiting) > len(self.in_batch) else []
            while free and open_batches < WINDOW:
                numbers, free = free[:MOST], free[MOST:]
                self.last_batch = max(self.last_batch + 1, int(time.time() * 1000))
                readings = [documents.reading(self.templates[number % len(self.templates)], self.name, number,
                                              self.last_batch) for number in numbers]
                self.sent[self.last_batch] = {"numbers": numbers, "at": moment, "acknowledged": False, "done": False}
                self.in_batch |= set(numbers)
                self.sent_again += len(self.sent_once.intersection(numbers))
                self.sent_once.update(numbers)
                self.publish("readings", documents.batch(self.name, self.last_batch, readings), self.last_batch)
                count.batches += 1
                open_batches += 1
                await asyncio.wait_for(self.writer.drain(), PUBACK_WAIT)
            self.wake.clear()
            try:
                await asyncio.wait_for(self.wake.wait(), 1 + random.random())
            except asyncio.TimeoutError:
                pass

    async def read(self, reader):
        while True:
            kind, flags, body = await mqtt.read_packet(reader)
            if kind == mqtt.PUBACK:
                batch, at = self.packets.pop(int.from_bytes(body[:2], "big"), (None, 0))
                count.worst_puback = max(count.worst_puback, time.monotonic() - at) if at else count.worst_puback
                # The receipt may have come before it.
                if batch is not None and (one := self.sent.get(batch)):
                    count.pubacks += 1
                    one["acknowledged"] = True
                    self.acknowledged |= set(one["numbers"])
                    self.wake.set()
            elif kind == mqtt.PUBLISH:
                topic, payload, number = mqtt.read_publish(flags, body)
                if number is not None:
                    self.writer.write(mqtt.puback(number))
                if topic.endswith("/receipts"):
                    self.take(json.loads(payload))

    def take(self, receipt):
        if receipt["gateway"] != self.name:
            raise mqtt.Lost("a receipt for another gateway")
        if receipt["error"]:
            words = f"receipt: {receipt['error']['code']}"
            count.errors[words] = count.errors.get(words, 0) + 1
            return
        moment = time.monotonic()
        count.receipts += 1
        self.heard = moment
        count.moments.add(int(moment * 100))
        for identity in receipt["stored"]:
            number = self.ids[identity]
            self.receipted.add(number)
            if (made := self.waiting.pop(number, None)) is not None:
                count.slowest = max(count.slowest, moment - made)
                count.wait_for(-1)
            self.in_batch.discard(number)
        if one := self.sent.get(receipt["batch"]):
            one["done"] = True
        if not self.waiting:
            # What is old is of no more use.
            self.sent = {batch: one for batch, one in self.sent.items() if not one["done"]}
        self.wake.set()


class Process:
    def __init__(self, settings):
        self.settings = settings
        self.gateways = [Gateway(settings, name, index) for index, name in enumerate(settings["gateways"])]

    async def command(self, asked):
        what = asked["do"]
        if what == "begin":
            count.begin()
        elif what == "connect":
            for gateway in self.gateways:
                gateway.start(asked.get("within", 0))
        elif what == "make":
            for gateway in self.gateways[:asked.get("gateways")]:
                gateway.make(asked["readings"])
        elif what == "cut":
            for gateway in self.gateways:
                gateway.cut()
        elif what == "leave":
            for gateway in self.gateways:
                gateway.wants_connection = False
                gateway.cut()
        elif what == "again":
            for gateway in self.gateways:
                gateway.send_all_again()
        elif what == "hosts":
            # The list is shared by all gateways.
            self.settings["hosts"][:] = asked["hosts"]
            for gateway in self.gateways:
                gateway.host %= len(asked["hosts"])
        elif what == "ids":
            return {gateway.name: {"made": gateway.made, "acknowledged": len(gateway.acknowledged),
                                   "receipted": sorted(gateway.receipted)} for gateway in self.gateways}
        elif what != "look":
            raise ValueError(what)
        return {
            "connected": sum(gateway.is_connected for gateway in self.gateways),
            "waiting": sum(len(gateway.waiting) for gateway in self.gateways),
            "acknowledged": sum(len(gateway.acknowledged) for gateway in self.gateways),
            "unacknowledged": sum(not one["acknowledged"] for gateway in self.gateways
                                  for one in gateway.sent.values() if not one["done"]),
            "sent_again": sum(gateway.sent_again for gateway in self.gateways),
            "made": sum(gateway.made for gateway in self.gateways),
            "pubacks": count.pubacks, "receipts": count.receipts, "batches": count.batches, "repeats": count.repeats,
            "connects": count.connects, "losses": count.losses, "errors": count.errors, "slowest": count.slowest,
            "worst_puback": count.worst_puback,
            "moments": sorted(count.moments) if asked.get("moments") else None, "spans": count.spans,
        }


async def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    process = Process(settings)
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # The trials' end closes the pipe, and ends this process.
    while line := await reader.readline():
        try:
            answer = await process.command(json.loads(line))
        except Exception as error:
            answer = {"error": repr(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    asyncio.run(main())
