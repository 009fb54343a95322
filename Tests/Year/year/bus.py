"""Between the gateway and the guest's bus: knows which calls have not been answered."""
import asyncio
import struct

CALL, RETURN, ERROR = 1, 2, 3
NO_REPLY_EXPECTED = 1
REPLY_SERIAL = 5


def aligned(place, size):
    return (place + size - 1) // size * size


class Messages:
    """Takes the octets of one direction, and tells each message's kind, flags, serial and the serial it answers."""

    def __init__(self, told):
        self.octets, self.told, self.has_begun = bytearray(), told, False

    def take(self, octets):
        self.octets += octets
        while self.has_begun and len(self.octets) >= 16:
            order = "<" if self.octets[0] == ord("l") else ">"
            body, serial, fields = struct.unpack_from(order + "III", self.octets, 4)
            length = aligned(16 + fields, 8) + body
            if len(self.octets) < length:
                return
            self.told(self.octets[1], self.octets[2], serial, self.answers(order, 16 + fields))
            del self.octets[:length]

    def answers(self, order, end):
        place = 16
        while place < end:
            place = aligned(place, 8)
            code, size = self.octets[place], self.octets[place + 1]
            kind = self.octets[place + 2:place + 2 + size]
            place += 3 + size
            if kind == b"g":
                place += self.octets[place] + 2
                continue
            place = aligned(place, 4)
            number, = struct.unpack_from(order + "I", self.octets, place)
            if code == REPLY_SERIAL:
                return number
            place += 4 + (number + 1 if kind in (b"s", b"o") else 0)
        return None


class Connection:
    def __init__(self):
        self.waiting = set()
        self.asked, self.answered = Messages(self.on_question), Messages(self.on_answer)

    def on_question(self, kind, flags, serial, answers):
        if kind == CALL and not flags & NO_REPLY_EXPECTED:
            self.waiting.add(serial)

    def on_answer(self, kind, flags, serial, answers):
        if kind in (RETURN, ERROR):
            self.waiting.discard(answers)

    async def questions(self, reader, writer):
        greeting = bytearray()
        while octets := await reader.read(65536):
            if self.asked.has_begun:
                self.asked.take(octets)
            else:
                greeting += octets
                _, mark, rest = greeting.partition(b"BEGIN\r\n")
                if mark:
                    # Nothing is sent to a client before it has begun but the lines of the handshake.
                    self.asked.has_begun = self.answered.has_begun = True
                    self.asked.take(rest)
            writer.write(octets)
            await writer.drain()

    async def answers(self, reader, writer):
        while octets := await reader.read(65536):
            if self.answered.has_begun:
                self.answered.take(octets)
            writer.write(octets)
            await writer.drain()


class Bus:
    """A socket of this machine: what is written to one has arrived."""

    def __init__(self, path, port):
        self.path, self.guest_port, self.connections, self.tasks = path, port, set(), set()

    async def start(self):
        self.server = await asyncio.start_unix_server(self.attend, self.path)
        self.address = f"unix:path={self.path}"

    def is_busy(self):
        return any(each.waiting for each in self.connections)

    async def attend(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        connection = Connection()
        self.connections.add(connection)
        guest = None
        try:
            guest_reader, guest = await asyncio.open_connection("127.0.0.1", self.guest_port)
            directions = [asyncio.ensure_future(connection.questions(reader, guest)),
                          asyncio.ensure_future(connection.answers(guest_reader, writer))]
            _, rest = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for each in rest:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
        except OSError:
            pass
        finally:
            self.connections.discard(connection)
            self.tasks.discard(asyncio.current_task())
            for each in (writer, guest):
                if each:
                    each.close()

    def stop(self):
        self.server.close()
        for each in list(self.tasks):
            each.cancel()
