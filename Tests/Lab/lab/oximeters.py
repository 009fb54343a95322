"""Oximeters that send what they measure as soon as somebody listens, and keep nothing.

Written from what their owners have logged and published (viatom_pc60fw, hass integrations of Jumper's and Berry's), and from
nothing of our gateway's. Each has a characteristic to be written to, which a gateway that only listens leaves alone.
"""
import asyncio
from dataclasses import dataclass

from . import own


@dataclass
class Manners(own.Manners):
    refuses_pairing: bool = True    # they make no bonds
    saturation: int = 98            # per cent
    pulse: int = 64
    perfusion: int = 68             # tenths of a per cent
    finger: bool = True             # in it
    damages: bool = False           # one bit of each value is another, and says 10 less
    every: float = 0.5              # seconds from one value to the next; curves come between them


def checksum(octets):
    """CRC-8/MAXIM."""
    value = 0
    for octet in octets:
        value ^= octet
        for _ in range(8):
            value = value >> 1 ^ 0x8C if value & 1 else value >> 1
    return value


class Oximeter(own.OwnProtocol):
    Manners = Manners
    BONDS = False

    def on_subscription(self, connection, characteristic, notify, indicate):
        if characteristic is self.characteristics[self.ANSWERS] and notify:
            stream = asyncio.ensure_future(self.stream(connection))
            connection.on("disconnection", lambda reason: stream.cancel())

    async def stream(self, connection):
        self.log("streams")
        turn = 0
        while self.connection is connection:
            for each in self.values(turn):
                await self.notify(connection, each)
            turn += 1
            for each in self.curves(turn):
                await self.notify(connection, each)
            await asyncio.sleep(self.behaviour.every)

    async def take(self, connection, octets):
        self.log("written")

    def values(self, turn):
        """What it says of saturation and pulse, as it leaves."""
        raise NotImplementedError

    def curves(self, turn):
        return []


class PC60FW(Oximeter):
    SERVICE, REQUESTS, ANSWERS = (f"6e40000{each}-b5a3-f393-e0a9-e50e24dcca9e" for each in (1, 2, 3))

    @staticmethod
    def message(kind, body):
        octets = b"\xAA\x55" + bytes([kind, len(body) + 1]) + body
        return octets + bytes([checksum(octets)])

    def values(self, turn):
        manners = self.behaviour
        shown = [manners.saturation, manners.pulse, 0, manners.perfusion] if manners.finger else [0, 0, 0, 0]
        octets = self.message(0x0F, bytes([1, *shown, 0, 0xC0]))
        if manners.damages:
            octets = octets[:5] + bytes([octets[5] - 10]) + octets[6:]
        # Every other comes in two pieces.
        yield from [octets] if turn % 2 else [octets[:7], octets[7:]]

    def curves(self, turn):
        yield self.message(0x0F, bytes([2, 0x5A, 0x57, 0xD2, 0x4C, 0x45]))
        yield self.message(0xF0, bytes([3, 3]))            # its battery
        if not self.behaviour.finger:
            yield self.message(0x0F, bytes([0x21, 2, 0, 0, 0]))


class Jumper(Oximeter):
    SERVICE, ANSWERS, REQUESTS = (f"cdeacb8{each}-5235-4c07-8846-93a37ee6b86d" for each in (0, 1, 2))

    def values(self, turn):
        manners = self.behaviour
        yield bytes([0x81, manners.pulse, manners.saturation, manners.perfusion] if manners.finger
                    else [0x81, 0xFF, 0x7F, 0])

    def curves(self, turn):
        yield bytes([0x80, *range(10, 20)])


class Berry(Oximeter):
    SERVICE = "49535343-fe7d-4ae5-8fa9-9fafd205e455"
    ANSWERS = "49535343-1e4d-4bd9-ba61-23c647249616"
    REQUESTS = "49535343-8841-43f4-a8d4-ecbe34729bb3"

    def values(self, turn):
        """Packets of five octets, four in a notification; one begins in the middle of a packet."""
        manners = self.behaviour
        pulse, saturation = (manners.pulse, manners.saturation) if manners.finger else (0xFF, 0x7F)
        octets = bytes([0x80, 0x20, (pulse >> 7 & 1) << 6 | 5, pulse & 0x7F, saturation]) * 4
        yield from [octets] if turn % 2 else [octets[2:], octets[:2]]
