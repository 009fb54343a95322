"""The guest: a qemu machine whose hci0 is a unix socket to us and whose system bus is a TCP port."""
import asyncio
import hashlib
import os
import pathlib
import sys
import tempfile
import time

CACHE = pathlib.Path(os.environ.get("HEALTHRELAY_LAB_CACHE") or
                     os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "healthrelay-lab"))
LAB = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB.parent))

from ports import free_ports


def guest_folder():
    """Where build-guest puts the guest of these very scripts."""
    made_from = b"".join((LAB / each).read_bytes() for each in ("build-guest", "guest-init"))
    debian = os.environ.get("HEALTHRELAY_LAB_DEBIAN") or "12"
    return CACHE / f"guest-{debian}-{hashlib.sha256(made_from).hexdigest()[:16]}"


class Machine:
    """One boot of the guest. `starts_at` (an aware datetime) is what its clock says at power-on; `shares` are folders of
    the host that it may mount, read-only, by the tag that is their key. With a `disk`, an ext4 image that is written to,
    the Debian on it goes on with its own init after the modules are loaded; `serves` are ports of it that the host needs
    besides (`port_of` says where)."""

    def __init__(self, starts_at=None, shares=None, disk=None, serves=()):
        self.starts_at, self.shares, self.disk = starts_at, shares or {}, disk
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="healthrelay-lab."))
        self.hci_path, self.console_log = self.folder / "hci", self.folder / "console.log"
        inside = (5555, 5556, 5557, *serves)
        self.port_of = dict(zip(inside, free_ports(len(inside))))
        self.bus_port, self.capture_port, self.shell_port = (self.port_of[each] for each in inside[:3])
        self.process = None

    @property
    def bus_address(self):
        return f"tcp:host=127.0.0.1,port={self.bus_port}"

    async def start(self):
        guest = guest_folder()
        clock = self.starts_at.strftime("%Y-%m-%dT%H:%M:%S") if self.starts_at else "utc"      # qemu's word for now
        forward = ",".join(f"hostfwd=tcp:127.0.0.1:{outside}-10.0.2.15:{inside}" for inside, outside in self.port_of.items())
        accelerator = os.environ.get("HEALTHRELAY_LAB_ACCEL", "tcg,thread=multi")
        shares = []
        for tag, path in self.shares.items():
            shares += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,readonly=on,multidevs=remap"]
        if self.disk:
            shares += ["-drive", f"file={self.disk},format=raw,if=virtio,cache=unsafe"]
        self.process = await asyncio.create_subprocess_exec(
            "qemu-system-x86_64", "-accel", accelerator, "-M", "pc", "-cpu", "max", "-smp", "1", "-m", "768" if self.disk else "256",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-rtc", f"base={clock}",
            "-serial", f"file:{self.console_log}",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=hci,path={self.hci_path},server=on,wait=off",
            "-device", "virtconsole,chardev=hci",
            "-netdev", f"user,id=net,restrict=on,{forward}", "-device", "virtio-net-pci,netdev=net,romfile=", *shares,
            "-kernel", str(guest / "vmlinuz"), "-initrd", str(guest / "initrd.gz"),
            # On a busy machine the timer that the kernel checks while it boots may be late, and it would give up.
            "-append", f"console=ttyS0 panic=-1 quiet no_timer_check mitigations=off cryptomgr.notests lab.uid={os.getuid()}"
            + (" lab.disk=/dev/vda net.ifnames=0" if self.disk else ""),
            stdin=asyncio.subprocess.DEVNULL, stdout=open(self.folder / "qemu.log", "w"), stderr=asyncio.subprocess.STDOUT)
        # The console comes last: the sockets of the radio, the bus and the shell are there with it.
        for _ in range(600):
            if self.console_log.exists():
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

    async def shell(self, script, timeout=60):
        """Runs a shell script in the guest: (status, output in bytes)."""
        async def run():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.shell_port)
            try:
                octets = script.encode()
                writer.write(b"%d\n%b" % (len(octets), octets))
                return await reader.read(-1)
            finally:
                writer.close()
        answer = await asyncio.wait_for(run(), timeout)
        output, mark, status = answer.rpartition(b"\nlab: status ")
        if not mark:
            raise RuntimeError(f"the guest's shell broke off: {answer[-200:]!r}")
        return int(status), output

    def console(self):
        return self.console_log.read_text(errors="replace") if self.console_log.exists() else ""

    async def stop(self):
        if self.process and self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()
