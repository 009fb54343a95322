"""Runs a command beside the lab: the guest's bus in DBUS_SYSTEM_BUS_ADDRESS, the meters of a scenario on the air; with
--suite, no meters and the lab's server in HEALTHRELAY_LAB_SOCKET."""
import argparse
import asyncio
import logging
import os
import sys
from datetime import datetime, timezone

from . import suite
from .record import Recording
from .scenarios import SCENARIOS


async def run(scenario, command):
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
    parser.add_argument("--suite", action="store_true", help="no meters: the command asks the lab's server for them")
    parser.add_argument("--scenario", default="two-meters", choices=[each.name for each in SCENARIOS])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    if not chosen.command:
        parser.error("no command")
    logging.basicConfig(level=os.environ.get("HEALTHRELAY_LAB_LOG", "ERROR"))       # of bumble
    logging.getLogger("asyncio").setLevel("CRITICAL")      # half-open connections to the bus, while the guest boots
    if chosen.suite:
        sys.exit(asyncio.run(suite.run(chosen.command)))
    scenario = next(each for each in SCENARIOS if each.name == chosen.scenario)
    scenario.starts_at = None          # today
    sys.exit(asyncio.run(run(scenario, chosen.command)))


if __name__ == "__main__":
    main()
