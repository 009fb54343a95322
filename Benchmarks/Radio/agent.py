"""Answers for bleak, which brings no agent of its own, in a process of its own, until it is ended."""
import asyncio
import os

from lab.collector import Collector


async def main():
    await Collector(os.environ["DBUS_SYSTEM_BUS_ADDRESS"], lambda: None).open()
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
