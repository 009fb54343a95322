"""The guest: a qemu machine whose hci0 is a unix socket to us and whose system bus is a TCP port."""
import asyncio
import os
import pathlib
import socket
import tempfile
import time

CACHE = pathlib.Path(os.environ.get("HEALTHRELAY_LAB_CACHE") or
                     os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "healthrelay-lab"))


def free_ports(count):
    """Ports that nobody listens on, found together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Machine:
    """One boot of the guest. `starts_at` (an aware datetime) is what its clock says at power-on."""

    def __init__(self, starts_at=None):
        self.starts_at = starts_at
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-lab."))
        self.hci_path = self.folder / "hci"
        self.bus_port, self.capture_port = free_ports(2)
        self.process = None

    @property
    def bus_address(self):
        return f"tcp:host=127.0.0.1,port={self.bus_port}"

    async def start(self):
        guest = CACHE / "guest"
        clock = self.starts_at.strftime("%Y-%m-%dT%H:%M:%S") if self.starts_at else "utc"      # qemu's word for now
        forward = ",".join(f"hostfwd=tcp:127.0.0.1:{outside}-10.0.2.15:{inside}"
                           for outside, inside in ((self.bus_port, 5555), (self.capture_port, 5556)))
        accelerator = os.environ.get("HEALTHRELAY_LAB_ACCEL", "tcg,thread=multi")
        self.process = await asyncio.create_subprocess_exec(
            "qemu-system-x86_64", "-accel", accelerator, "-M", "pc", "-cpu", "max", "-smp", "1", "-m", "256",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-rtc", f"base={clock}",
            "-serial", f"file:{self.folder / 'console.log'}",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=hci,path={self.hci_path},server=on,wait=off",
            "-device", "virtconsole,chardev=hci",
            "-netdev", f"user,id=net,restrict=on,{forward}", "-device", "virtio-net-pci,netdev=net,romfile=",
            "-kernel", str(guest / "vmlinuz"), "-initrd", str(guest / "initrd.gz"),
            "-append", "console=ttyS0 panic=-1 quiet mitigations=off cryptomgr.notests",
            stdin=asyncio.subprocess.DEVNULL, stdout=open(self.folder / "qemu.log", "w"), stderr=asyncio.subprocess.STDOUT)
        for _ in range(200):
            if self.hci_path.exists():
                return
            if self.process.returncode is not None:
                break
            await asyncio.sleep(0.05)
        raise RuntimeError("qemu did not start: " + (self.folder / "qemu.log").read_text())

    async def capture(self):
        """What btmon in the guest has written until now: a btsnoop file, bytes."""
        end = time.monotonic() + 30
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.capture_port)
                content = await asyncio.wait_for(reader.read(-1), 20)
                writer.close()
                if content.startswith(b"btsnoop\0"):
                    return content
            except (OSError, asyncio.TimeoutError):
                pass
            if time.monotonic() > end:
                raise TimeoutError("the guest does not hand out its capture")
            await asyncio.sleep(0.2)

    def console(self):
        return (self.folder / "console.log").read_text(errors="replace")

    async def stop(self):
        if self.process and self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()
