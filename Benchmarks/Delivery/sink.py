"""A null sink of destinations over HTTP: acknowledges whatever it is sent and keeps nothing. `sink.py [MILLISECONDS]`

It answers a FHIR transaction entry by entry, which nginx cannot. With MILLISECONDS, every answer takes that long, as a
server's does. Prints the port that it listens on, on 127.0.0.1.
"""
import asyncio
import functools
import re
import signal
import sys

DELAY = float(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
PROVIDERS = (b'{"providers":[{"name":"A","slug":"accuchek_ble","logo":"","created_on":"2026-01-01T00:00:00Z",'
             b'"status":"connected"}]}')


@functools.lru_cache(4096)
def answer(status, body):
    return (b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))) + body


@functools.lru_cache(4096)
def transaction(count):
    entries = b",".join([b'{"response":{"status":"201 Created","location":"Observation/1/_history/1"}}'] * count)
    return answer(b"200 OK", b'{"resourceType":"Bundle","type":"transaction-response","entry":[%s]}' % entries)


def answered(path, body):
    if path.startswith(b"/fhir"):
        return transaction(body.count(b'"fullUrl"'))
    if path.startswith(b"/write"):
        return b"HTTP/1.1 204 No Content\r\n\r\n"
    if path.startswith(b"/api/v1/"):
        return answer(b"200 OK", b"[]")
    if path.startswith(b"/v2/user/providers/"):
        return answer(b"200 OK", PROVIDERS)
    if path == b"/v2/user":
        return answer(b"200 OK", b'{"user_id":"6d8c6ba7-3f2f-4d1e-9a0e-1f4d3c2b1a00","client_user_id":"bench"}')
    return answer(b"200 OK", b"null")


class Sink(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.pieces, self.size, self.wanted = transport, [], 0, 0

    def data_received(self, data):
        self.pieces.append(data)
        self.size += len(data)
        # A large body comes in many pieces: they are joined once it is whole.
        while self.size and self.size >= self.wanted:
            whole = b"".join(self.pieces)
            self.pieces, self.size = [whole], len(whole)
            end = whole.find(b"\r\n\r\n")
            if end < 0:
                return
            length = LENGTH.search(whole, 0, end)
            self.wanted = end + 4 + (int(length[1]) if length else 0)
            if self.size < self.wanted:
                return
            request, rest = whole[:self.wanted], whole[self.wanted:]
            self.pieces, self.size, self.wanted = [rest] if rest else [], len(rest), 0
            self.reply(answered(request.split(b" ", 2)[1], request[end + 4:]))

    def reply(self, octets):
        if DELAY:
            asyncio.get_running_loop().call_later(DELAY, self.transport.write, octets)
        else:
            self.transport.write(octets)


async def main():
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
asyncio.run(main())
