"""Microlife's own protocol: a monitor shows the whole memory of a user in one answer.

Written from the code of owners and octets they have logged (blood-pressure-monitor, microlife_bp), and from the answers in the
tests of the maker's kit; from nothing of our gateway's. It can be written to, as a real one can: the clock, a user's name, the
memory. That the gateway never does so shows in the log and in the memory's digest.
"""
import asyncio
from dataclasses import dataclass

from . import own

BASE = "0000{}-0000-1000-8000-00805f9b34fb"
HISTORY, CLEAR, FAREWELL, IDENTITY, NAME, TIME, DONE, NOT_DONE = 0x00, 0x03, 0x04, 0x05, 0x06, 0x0D, 0x81, 0x91
CURRENT_USER = 0xFD
GUEST = 3


@dataclass
class Manners(own.Manners):
    chosen: int = 1                 # the user that its switch says: 1, 2, or 3 for a guest
    users: int = 2
    holds: int = 99                 # records of a user
    shows_chosen_only: bool = False # whoever is asked for
    nameless: bool = False          # does not answer who its users are


def message(command, data=b""):
    body = b"\x4D\x3A" + (len(data) + 2).to_bytes(2, "big") + bytes([command]) + data
    return body + bytes([sum(body) & 0xFF])


def record(pressure):
    """A measurement as it stands in the memory. Before somebody has set its clock a monitor records the year 17 and no month."""
    status, at = set(pressure.status or ()), pressure.at
    irregular = "irregular_pulse" in status
    flags = (("cuff_too_loose" not in status) << 7 | (irregular and not pressure.fibrillation) << 6
             | pressure.fibrillation << 5)
    date = [at.year - 2000, at.month, at.day, at.hour, at.minute] if at else [17, 0, 0, 0, 0]
    return bytes([int(pressure.systolic), int(pressure.diastolic), int(pressure.pulse or 0), *date, flags, 0])


class Monitor(own.OwnProtocol):
    """Its records are in `held`, by user."""

    Manners = Manners
    SERVICE, ANSWERS, REQUESTS = (BASE.format(each) for each in ("fff0", "fff1", "fff2"))
    ADVERTISED = (0xFFF0,)

    def begin_link(self):
        super().begin_link()
        self.asked = b""

    # ---- its memory

    def erase(self):
        self.meter.records[:] = []
        self.held = {1: [], 2: [], GUEST: []}
        self.names, self.time_written = {1: b"JANE DOE", 2: b"JOHN DOE"}, b""

    def add(self, records):
        """It measures, for whoever the record says; the oldest goes where the memory is full."""
        for each in records:
            held = self.held[each.user or 1]
            held.append(each)
            gone = held[:-self.behaviour.holds]
            del held[:-self.behaviour.holds]
            self.meter.records.append(each)
            self.meter.records[:] = [kept for kept in self.meter.records if not any(kept is other for other in gone)]
            self.ever.append(each)

    def memory(self):
        return b"|".join([b"".join(map(record, self.held[user])) for user in sorted(self.held)]
                         + list(self.names.values()) + [self.time_written])

    # ---- requests

    async def take(self, connection, octets):
        """A request may come in pieces of 20 octets."""
        self.asked += octets
        if self.asked[:1] != b"\x4D":
            self.asked = b""
            return self.log("not_understood")
        if len(self.asked) < 4 or len(self.asked) < 4 + int.from_bytes(self.asked[2:4], "big"):
            return
        asked, self.asked = self.asked, b""
        if asked[1] != 0xFF or len(asked) != 4 + int.from_bytes(asked[2:4], "big") or sum(asked[:-1]) & 0xFF != asked[-1]:
            return self.log("not_understood")
        command, data = asked[4], asked[5:-1]
        if command == FAREWELL:
            self.log("farewell")
            await asyncio.sleep(0.03)
            return await connection.disconnect()
        if command == IDENTITY and self.behaviour.nameless:
            return
        fault = self.comes_next()
        if fault.get("what") == "refused":
            return await self.say(connection, message(NOT_DONE), fault)
        if command == HISTORY and len(data) == 7:
            return await self.show_history(connection, data[6], fault)
        await self.say(connection, self.answer_to(command, data), fault)

    def answer_to(self, command, data):
        if command == IDENTITY:
            name = lambda user: self.names[user].ljust(20)
            # The user that is chosen; names with ages; firmware RA1 of 2026-01-10; users and records that it has room for.
            return message(IDENTITY, bytes([self.behaviour.chosen]) + name(1) + b"\x23" + name(2) + b"\x20" + b"RA1"
                           + bytes([26, 1, 10, self.behaviour.users, self.behaviour.holds, 0x17, 0x33, 0, 0x0B, 1, 0]))
        if command == CLEAR:
            self.erase()
        elif command == NAME:
            self.names[self.user(data[0])] = data[1:21]
        elif command == TIME:
            self.time_written = data
        else:
            return message(NOT_DONE)
        return message(DONE)

    def user(self, number):
        return self.behaviour.chosen if number == CURRENT_USER or self.behaviour.shows_chosen_only else number

    async def show_history(self, connection, number, fault):
        user, behaviour = self.user(number), self.behaviour
        if behaviour.refuses or user not in self.held or (user == 2 and behaviour.users < 2):
            return await self.say(connection, message(NOT_DONE), fault)
        held = list(self.held[user])
        # How it measures, how often so far, how many records, whose, whether it averages; then three measurements that go on.
        head = bytes([0, 1 if behaviour.measuring else 0, len(held), user, 0, 0, 0])
        if behaviour.measuring:
            going_on = bytes([131, 84, 66, 26, 11, 20, 7, 30, 0x80, 0]) + bytes(20)
            return await self.say(connection, message(HISTORY, head + going_on), fault)
        await self.say(connection, message(HISTORY, head + bytes(30) + b"".join(map(record, held))), fault, held)

    def stray(self):
        return message(DONE)
