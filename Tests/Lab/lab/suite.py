"""Runs a command beside a lab without meters: the guest's bus is in DBUS_SYSTEM_BUS_ADDRESS, the lab's server in
HEALTHRELAY_LAB_SOCKET. The command's exit status is this one's."""
import asyncio
import os
import shutil
import signal
import sys
import time

from . import documents
from .collector import Collector
from .guest import Guest, shares
from .machine import Machine
from .radio import Air
from .server import Server


async def boot():
    machine, air = Machine(shares=shares()), Air()
    collector = Collector(machine.bus_address, lambda: None)
    try:
        await machine.start()
        await air.attach(machine.hci_path)
        await collector.open(agent=False)
    except BaseException:
        print(machine.console(), file=sys.stderr)
        await machine.stop()
        raise
    return Guest(machine, air, collector)


async def run(command):
    began = time.monotonic()
    guest = await boot()
    machine = guest.machine
    print(f"lab: up after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    try:
        path = machine.folder / "lab"
        await Server(guest).serve(str(path))
        environment = os.environ | {
            "DBUS_SYSTEM_BUS_ADDRESS": machine.bus_address, "HEALTHRELAY_LAB_SOCKET": str(path),
            "HEALTHRELAY_LAB_ZONE": documents.ZONE}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, lambda number=each: process.send_signal(number))
        status = await process.wait()
    finally:
        (machine.folder / "bluetoothd.log").write_bytes((await machine.shell("cat /run/bluetoothd.log"))[1])
        guest.collector.close()
        await machine.stop()
    if status == 0:
        shutil.rmtree(machine.folder)
    else:
        print(f"lab: console.log and bluetoothd.log are in {machine.folder}", file=sys.stderr)
    return status
