"""Our own gateway: the built healthrelay on the guest's bus, told step by step what to do with a meter."""
import asyncio
import os
import pathlib

EXECUTABLE = pathlib.Path(__file__).resolve().parents[3] / ".build/debug/healthrelay"


class Gateway:
    """With a state directory of its own in `folder`; nothing of the person's own settings reaches it."""

    def __init__(self, folder, bus_address, zone):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("HEALTHRELAY_", "XDG_"))} | {
            "HOME": "/nonexistent", "TZ": "UTC", "DBUS_SYSTEM_BUS_ADDRESS": bus_address, "HEALTHRELAY_USER_TIME_ZONE": zone}

    async def do(self, step, meter):
        """Runs a command to its end, the meter awake before it; what a meter shows is typed in."""
        meter.behaviour.change(step.behaviour)
        meter.add(list(step.add))
        await meter.press()
        typed = self.folder / "passkey"
        typed.write_text("")
        command = [*step.command, meter.meter.address, "--state-dir", str(self.folder / "state")]
        if step.command[0] == "pair":
            command += ["--passkey-file", str(typed)]
        settings = {f"HEALTHRELAY_{name}": value for name, value in step.settings.items()}
        process = await asyncio.create_subprocess_exec(
            str(EXECUTABLE), *command, env=self.environment | settings, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        ended = asyncio.ensure_future(process.communicate())
        while not ended.done():
            if meter.shown_passkey is not None:
                typed.write_text(f"{meter.shown_passkey:06d}")
            await asyncio.wait([ended], timeout=0.1)
        if process.returncode != step.status:
            raise RuntimeError(f"healthrelay {' '.join(command)} ended with {process.returncode}: {ended.result()[0].decode()}")
