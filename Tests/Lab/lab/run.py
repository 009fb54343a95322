"""Runs a command beside the lab: the guest's bus in DBUS_SYSTEM_BUS_ADDRESS, the meters of a scenario on the air."""
import argparse
import asyncio
import os
import sys
from datetime import datetime, timezone

from .record import Recording
from .scenarios import SCENARIOS


async def run(scenario, command):
    if os.getuid() != 0:
        print("lab: libdbus offers the guest's bus your own user id, and that bus knows root only", file=sys.stderr)
    async with Recording(scenario) as recording:
        # The meters' clocks need the guest's time; without a recording, the second it was switched on is near enough.
        recording.offset = datetime.now(timezone.utc).timestamp() - asyncio.get_running_loop().time()
        passkey = recording.machine.folder / "passkey"
        environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": recording.machine.bus_address,
                                    "HEALTHRELAY_LAB_PASSKEY_FILE": str(passkey)}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        ended = asyncio.ensure_future(process.wait())
        while not ended.done():
            shown = [each.shown_passkey for each in recording.emulations.values() if each.shown_passkey is not None]
            if shown:
                passkey.write_text(f"{shown[-1]:06d}")
            await asyncio.wait([ended], timeout=0.1)
        return ended.result()


def main():
    parser = argparse.ArgumentParser(prog="run-lab", description=__doc__)
    parser.add_argument("--scenario", default="two-meters", choices=[each.name for each in SCENARIOS])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    if not chosen.command:
        parser.error("no command")
    scenario = next(each for each in SCENARIOS if each.name == chosen.scenario)
    scenario.starts_at = None          # today
    sys.exit(asyncio.run(run(scenario, chosen.command)))


if __name__ == "__main__":
    main()
