"""What a test does to the gateway's own machine: its Bluetooth service, its adapter, its bonds, and programs run there."""
import asyncio
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import time

from dbus_fast import DBusError, Variant

from . import radio
from .collector import ADAPTER, DEVICE, HCI0
from .documents import Unclear

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def shares():
    """Folders for programs that run in the guest: the build's, the Swift runtime's, and the host's own libraries."""
    found = {"build": (REPOSITORY / ".build/debug").resolve(), "libraries": pathlib.Path("/usr/lib/x86_64-linux-gnu")}
    try:
        target = json.loads(subprocess.run([os.environ.get("SWIFTC", "swiftc"), "-print-target-info"],
                                           capture_output=True, check=True).stdout)
        found["swift"] = pathlib.Path(target["paths"]["runtimeLibraryPaths"][0])
    except (OSError, subprocess.CalledProcessError):
        pass
    return {tag: path for tag, path in found.items() if path.is_dir()}


class Guest:
    def __init__(self, machine, air, collector):
        self.machine, self.air, self.collector = machine, air, collector
        self.jobs, self.is_mounted = itertools.count(1), False

    async def shell(self, script, timeout=60):
        status, output = await self.machine.shell(script, timeout)
        return status, output.decode(errors="replace")

    async def must(self, script, timeout=60):
        status, output = await self.shell(script, timeout)
        if status:
            raise Unclear(f"in the guest, `{script}` ended with {status}: {output}")
        return output

    # ---- bluetoothd

    async def stop_bluetoothd(self):
        await self.must("for each in $(pidof bluetoothd); do kill -9 $each; done; while pidof bluetoothd; do sleep 0.02; done")

    async def start_bluetoothd(self):
        await self.must("pidof bluetoothd >/dev/null || setsid bluetoothd -n >>/run/bluetoothd.log 2>&1 &")
        await self.until_powered()

    async def until_powered(self, timeout=60, switching=False):
        end = time.monotonic() + timeout
        while True:
            try:
                if await self.collector.get(HCI0, ADAPTER, "Powered", timeout=5):
                    return
                if switching:
                    await self.power(True)
            except (DBusError, asyncio.TimeoutError):
                pass
            if time.monotonic() > end:
                raise Unclear("the adapter does not come up")
            await asyncio.sleep(0.05)

    # ---- the adapter

    async def power(self, on):
        for attempt in range(3):
            try:
                return await self.collector.call(HCI0, "org.freedesktop.DBus.Properties", "Set", "ssv",
                                                 [ADAPTER, "Powered", Variant("b", on)])
            except DBusError as error:
                # The kernel's word for a command that was not answered.
                if "Authentication Failed" not in str(error) or attempt == 2:
                    raise
            if on:
                await self.mend_line()

    async def mend_line(self):
        """Switched off while it sends, the kernel's serial driver may throw away the rest of a packet (see H4Reader), or
        send nothing any more, for ever: one switch-off in thirty while it scans. Attached anew, the line works."""
        await self.pull_out()
        await self.plug_in()

    async def pull_out(self):
        """The adapter goes as an unplugged one: the kernel loses it, and the meters lose the link."""
        controller = self.air.controller
        controller.detached = True
        await self.must("for each in $(pidof btattach); do kill $each; done; "
                        "while [ -e /sys/class/bluetooth/hci0 ]; do sleep 0.02; done")
        for connection in list(controller.le_connections.values()):
            radio.lose(controller, connection, told=False)

    async def attach(self):
        self.air.controller.detached = False
        await self.must("pidof btattach >/dev/null || setsid btattach -B /dev/hvc0 -P h4 >/dev/null 2>&1 &")

    async def plug_in(self):
        await self.attach()
        await self.until_powered()

    async def block(self, blocked):
        """What `rfkill block bluetooth` writes: struct rfkill_event with RFKILL_OP_CHANGE_ALL."""
        await self.must(f"printf '\\0\\0\\0\\0\\2\\3\\{int(blocked)}\\0' >/dev/rfkill")

    # ---- bonds on the gateway's side

    async def bonds(self):
        """The addresses that bluetoothd keeps keys of."""
        found = await self.must(r"grep -l '^\[\(LongTermKey\|SlaveLongTermKey\|PeripheralLongTermKey\)' "
                                "/var/lib/bluetooth/*/*/info 2>/dev/null || true")
        return sorted({each.split("/")[-2] for each in found.split()})

    async def lose_bond(self, address):
        """As after a reinstallation: bluetoothd does not know the device any more."""
        await self.stop_bluetoothd()
        await self.must(f"rm -rf /var/lib/bluetooth/*/{address.upper()} /var/lib/bluetooth/*/cache/{address.upper()}")
        await self.start_bluetoothd()

    async def devices(self):
        return {path: interfaces[DEVICE] for path, interfaces in (await self.collector.objects()).items() if DEVICE in interfaces}

    async def reset(self, keep):
        """Everything as it was after the boot, but for the bonds with these addresses."""
        await self.block(False)
        await self.must("pidof bluetoothd >/dev/null || setsid bluetoothd -n >>/run/bluetoothd.log 2>&1 &")
        if self.air.controller.detached:
            await self.attach()
        await self.until_powered(switching=True)
        for path, device in (await self.devices()).items():
            if device["Address"].value in keep:
                continue
            try:
                await self.collector.call(HCI0, ADAPTER, "RemoveDevice", "o", [path])
            except DBusError:
                pass                   # gone by itself

    # ---- programs

    async def mount(self):
        if self.is_mounted:
            return
        script = ["while read -r module; do insmod /modules/${module##*/} || exit 1; done </modules/order-9p"]
        for tag in self.machine.shares:
            script.append(f"mkdir -p /host/{tag} && mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072,ro,cache=loose "
                          f"{tag} /host/{tag}")
        await self.must(" && ".join(script))
        self.is_mounted = True

    async def run(self, program, arguments=(), environment=None):
        """Starts one of our executables, with a standard input that stays open; its number, for `end`. What it writes is in
        /run/jobs: N.out, N.err, and any file with a relative name."""
        await self.mount()
        number = next(self.jobs)
        path = program if program.startswith("/") else f"/host/build/{program}"
        loader = ["/host/libraries/ld-linux-x86-64.so.2", "--library-path", "/host/swift:/host/libraries", path]
        command = " ".join(shlex.quote(each) for each in (loader if path.startswith("/host/") else [path]) + list(arguments))
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items())
        inner = shlex.quote(f"cd /run/jobs; mkfifo {number}.in; exec 0<>{number}.in; echo $$ >{number}.pid; exec env {variables} {command}")
        await self.must(f"mkdir -p /run/jobs; (setsid sh -c {inner} >/run/jobs/{number}.out 2>/run/jobs/{number}.err; "
                        f"echo $? >/run/jobs/{number}.status) >/dev/null 2>&1 & "
                        f"while [ ! -s /run/jobs/{number}.pid ]; do sleep 0.02; done")
        return number

    async def end(self, number, signal=None, timeout=60):
        """Its exit status, after the signal if there is to be one."""
        if signal:
            await self.must(f"kill -{signal} $(cat /run/jobs/{number}.pid) 2>/dev/null; true")
        status = await self.must(f"while [ ! -s /run/jobs/{number}.status ]; do sleep 0.05; done; "
                                 f"cat /run/jobs/{number}.status", timeout)
        return int(status)

    async def fetch(self, path):
        """A file of the guest (`N.out` is of a job), as a file here; its path."""
        source = path if path.startswith("/") else f"/run/jobs/{path}"
        status, octets = await self.machine.shell(f"cat {shlex.quote(source)}")
        if status:
            raise Unclear(f"the guest has no {source}: {octets.decode(errors='replace')}")
        kept = self.machine.folder / "fetched" / source.strip("/").replace("/", "-")
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(octets)
        return str(kept)
