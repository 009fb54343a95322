#!/usr/bin/env python3
"""The peer of the event streams: an asyncio server that sends each octets it is posted to everyone who listens.

It prints its port. GET opens a stream of chunks; the body of a POST is sent to all streams, and its answer is empty.
"""
import asyncio

streams = set()


async def serve(reader, writer):
    try:
        while (line := await reader.readline()):
            length = 0
            while (field := (await reader.readline()).strip()):
                name, _, value = field.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if line.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                streams.add(writer)
                continue
            event = await reader.readexactly(length)
            chunk = b"%x\r\n%b\r\n" % (len(event), event)
            for each in streams:
                each.write(chunk)
            await asyncio.gather(*(each.drain() for each in streams))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    finally:
        streams.discard(writer)
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
