"""The centre sets a gateway's settings through the broker: applied, refused, taken back by the gateway, and kept."""
import json
import signal

import documents
from engine import Failed, until
from fleet import RealGateway

NAMES = ["real-steered"]


class Steered:
    def __init__(self, bench):
        self.bench = bench
        self.gateway = RealGateway(bench.ground, NAMES[0], bench.cluster.hosts, bench.authority, captures=documents.CAPTURES[:1])

    def configure(self, text):
        path = f"{self.gateway.folder}/desired.yaml"
        with open(path, "w") as file:
            file.write(text)
        self.bench.collectors[0].command("configure", NAMES[0], "--file", path)

    def said(self):
        """What the gateway says of the settings, and which version it shall have."""
        listed = json.loads(self.bench.collectors[0].command("gateways"))["gateways"]
        one = next(one for one in listed if one["gateway"] == NAMES[0])
        return one["wanted_configuration"], one["configuration"] or {}

    def becomes(self, state, words):
        """Waits until the gateway says of the newest version that it is in a state."""
        def holds():
            wanted, said = self.said()
            return said if said.get("version") == wanted and said.get("state") == state else None
        return until(holds, words, self.bench.patience, 1)

    def setting(self, key):
        """A setting, as `healthrelay settings show` has it."""
        shown = json.loads(self.gateway.command("settings", "show", "--json"))
        return next(one for one in shown["settings"] if one["key"] == key)["value"]

    def trial(self):
        with open(f"{self.gateway.folder}/state/fleet-configuration.json") as file:
            return json.load(file).get("trial")


def check(bench):
    """Goes through all of it.

    - Returns: a line for each kind.
    """
    lines = []
    bench.cluster.admit(NAMES, [])
    steered = Steered(bench)
    gateway = steered.gateway
    gateway.start()
    gateway.settled(bench.patience, least=1)

    steered.configure("log: {level: debug}\nfleet: {status_minutes: 1}\n")
    steered.becomes("applied", "the settings are applied")
    until(lambda: steered.setting("log.level") == "debug", "the gateway has the new level", 60, 1)
    # A receipt proves that the gateway still delivers: what is on trial is kept then.
    gateway.command("add", "weight", "80.1", "kg")
    until(lambda: steered.trial() is None, "the settings are kept after a receipt", bench.patience, 1)
    lines.append("settings through the broker: applied, and kept after the next receipt")

    # The environment is the administrator's.
    steered.configure("sync: {backfill_days: 3}\nlog: {level: error}\n")
    said = steered.becomes("refused", "a fixed key is refused")
    if [one["key"] for one in said["refused"]] != ["sync.backfill_days"] or "administrator" not in said["refused"][0]["reason"]:
        raise Failed(f"refused: {said}")
    if steered.setting("log.level") != "debug":
        raise Failed("a part of a refused version was applied")
    lines.append("a key that the administrator fixed: refused whole, with the reason; the version before stays")

    # No receipt comes any more, and the gateway is killed again and again: each start uses up a minute of the trial.
    steered.configure("log: {level: error}\nfleet: {status_minutes: 1}\n")
    until(lambda: steered.setting("log.level") == "error", "the next version is tried", bench.patience, 1)
    for one in bench.collectors:
        one.kill()
    gateway.command("add", "weight", "80.2", "kg", "--yes")
    starts = 0
    while steered.trial():
        if starts > 12:
            raise Failed(f"the settings are on trial after {starts} starts: {steered.trial()}")
        gateway.stop(signal.SIGKILL)
        gateway.start()
        starts += 1
        before = steered.trial()
        until(lambda: steered.trial() is None or steered.trial()["tried"] > (before or {}).get("tried", 0),
              "a start counts for the trial", 120, 0.5)
    until(lambda: steered.setting("log.level") == "debug", "the former settings are put back", 60, 1)
    for one in bench.collectors:
        one.start()
    for one in bench.collectors:
        one.wait()
    said = steered.becomes("rolled_back", "the centre hears that the version was taken back")
    if "no receipt" not in said["reason"]:
        raise Failed(f"rolled back: {said}")
    gateway.settled(bench.patience, least=3)
    lines.append(f"no receipt since a version was applied, {starts} kills: taken back ({said['reason']}); nothing is lost")

    # A version that was taken back isn't applied again; a newer one is.
    steered.configure("log: {level: info}\n")
    steered.becomes("applied", "a newer version is applied")
    lines.append("a newer version after that: applied")
    bench.real.append(gateway)
    return lines
