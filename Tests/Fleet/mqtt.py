"""MQTT 3.1.1, as much of it as a gateway speaks: packets made and read by hand, and a client for one exchange.

The simulator uses no MQTT library, so that the collector and the brokers are not tested against the library that the gateway
itself uses.
"""
import socket
import ssl
import struct
import time

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14


def text(value):
    octets = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">H", len(octets)) + octets


def packet(kind, flags, body):
    head, length = bytearray([kind << 4 | flags]), len(body)
    while True:
        head.append(length & 0x7F | (0x80 if length > 0x7F else 0))
        length >>= 7
        if not length:
            return bytes(head) + body


def connect(client, keep_alive=60, will=None, user=None, password=None):
    flags, payload = 0x02, text(client)
    if will:
        # QoS 1, not retained.
        flags |= 0x04 | 0x08
        payload += text(will[0]) + text(will[1])
    if user is not None:
        flags |= 0x80
        payload += text(user)
    if password is not None:
        flags |= 0x40
        payload += text(password)
    return packet(CONNECT, 0, text("MQTT") + bytes([4, flags]) + struct.pack(">H", keep_alive) + payload)


def publish(topic, body, number=None, is_repeat=False):
    """QoS 1 with a packet's number, else QoS 0."""
    if number is None:
        return packet(PUBLISH, 0, text(topic) + body)
    return packet(PUBLISH, 0x02 | (0x08 if is_repeat else 0), text(topic) + struct.pack(">H", number) + body)


def puback(number):
    return packet(PUBACK, 0, struct.pack(">H", number))


def subscribe(number, topics, qos=1):
    return packet(SUBSCRIBE, 0x02, struct.pack(">H", number) + b"".join(text(topic) + bytes([qos]) for topic in topics))


def read_publish(flags, body):
    """Topic, payload and the packet's number; None for QoS 0."""
    length, = struct.unpack_from(">H", body)
    topic, place, number = body[2:2 + length].decode(), 2 + length, None
    if flags >> 1 & 3:
        number, = struct.unpack_from(">H", body, place)
        place += 2
    return topic, body[place:], number


async def read_packet(reader):
    """Kind, flags and body of the next packet of an asyncio stream."""
    first = (await reader.readexactly(1))[0]
    length, shift = 0, 0
    while True:
        octet = (await reader.readexactly(1))[0]
        length |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            break
    return first >> 4, first & 0x0F, await reader.readexactly(length) if length else b""


def client_context(authority, certificate, key):
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    return context


class Lost(Exception):
    """The broker has ended the connection, or says no."""


class Client:
    """A client for tests that go step by step; it blocks."""

    def __init__(self, host, client, context=None, user=None, password=None, timeout=60):
        self.buffer = b""
        self.number = 0
        # What has come and nobody has asked for.
        self.received = []
        raw = socket.create_connection(host, timeout)
        try:
            self.socket = context.wrap_socket(raw, server_hostname="localhost") if context else raw
            self.socket.settimeout(timeout)
            self.socket.sendall(connect(client, user=user, password=password))
            kind, _, body = self.packet()
        except (OSError, Lost) as error:
            raw.close()
            raise Lost(f"no connection: {error}") from None
        if kind != CONNACK or body[1] != 0:
            self.close()
            raise Lost(f"CONNACK {body[1]}")

    def packet(self):
        while True:
            place, length, shift = 1, 0, 0
            while place < len(self.buffer):
                octet = self.buffer[place]
                length |= (octet & 0x7F) << shift
                shift += 7
                place += 1
                if octet < 0x80:
                    if len(self.buffer) < place + length:
                        break
                    body, first = self.buffer[place:place + length], self.buffer[0]
                    self.buffer = self.buffer[place + length:]
                    return first >> 4, first & 0x0F, body
            more = self.socket.recv(65536)
            if not more:
                raise Lost("the broker has closed the connection")
            self.buffer += more

    def until(self, wanted, seconds=60):
        """The next packet of a kind. Messages are acknowledged and kept."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                kind, flags, body = self.packet()
            except TimeoutError:
                break
            except OSError as error:
                raise Lost(f"the connection is lost: {error}") from None
            if kind == PUBLISH:
                message = read_publish(flags, body)
                if message[2] is not None:
                    self.socket.sendall(puback(message[2]))
                self.received.append(message)
            if kind == wanted:
                return body
        raise TimeoutError(f"no packet of kind {wanted} within {seconds} s")

    def subscribe(self, topics, qos=1):
        self.number += 1
        self.socket.sendall(subscribe(self.number, topics, qos))
        return self.until(SUBACK)[2:]

    def publish(self, topic, body, seconds=60):
        """Publishes with QoS 1 and waits for the acknowledgement."""
        self.number += 1
        try:
            self.socket.sendall(publish(topic, body, self.number))
        except OSError as error:
            raise Lost(f"the connection is lost: {error}") from None
        self.until(PUBACK, seconds)

    def message(self, seconds=60):
        """The next message's topic and payload."""
        if not self.received:
            self.until(PUBLISH, seconds)
        topic, body, _ = self.received.pop(0)
        return topic, body

    def close(self):
        try:
            self.socket.close()
        except OSError:
            pass
