"""Scenarios for readings: ingest, delivery, pruning and erasure under faults and power cuts."""
import json
import os
import signal

from bench import FIRST, SECOND, Failed, Scenario, contents, expect, same, within


class Ingest(Scenario):
    """Captures are read into a new store."""

    name = "ingest"
    before = []
    captures = FIRST + SECOND

    def prepare(self, case):
        os.makedirs(case.root, exist_ok=True)
        if self.before:
            case.must("replay", *self.before)

    def settle(self):
        case = self.case()
        self.had = case.readings() if self.before else {}
        case.must("replay", *self.captures)
        self.expected = case.readings()
        case.remove()

    def arguments(self, case):
        return ["replay", *self.captures]

    def check(self, case, outcome):
        found = case.readings()
        within(found, self.expected, "after the fault")
        acknowledged = {
            document["id"] for document in outcome.documents() if document["id"] is not None} | set(self.had)
        gone = acknowledged - set(found)
        if gone:
            raise Failed(f"{len(gone)} of {len(acknowledged)} acknowledged readings are gone")
        if outcome.status == 0:
            same(found, self.expected, "after a success")

    def finish(self, case):
        case.must(*self.arguments(case))
        same(case.readings(), self.expected, "read again")


class IngestMore(Ingest):
    """Captures are read into a store that has some."""

    name = "ingest-more"
    before = FIRST
    captures = SECOND


class IngestInTheClear(Ingest):
    """Captures are read into a new store whose content is not sealed."""

    name = "ingest-clear"
    environment = {"HEALTHRELAY_STORE_ENCRYPTION": "off"}


class Recover(Ingest):
    """Captures are read into a store whose process was killed before its log was checkpointed."""

    name = "recover"

    def prepare(self, case):
        outcome = case.run("replay", *self.captures, environment={"HEALTHRELAY_CRASH_AT": "journal.after-commit:3"})
        expect("status of what is killed", outcome.status, -signal.SIGKILL)
        self.said = {document["id"]: document for document in outcome.documents()}

    def settle(self):
        super().settle()
        if not self.said or set(self.said) >= set(self.expected):
            raise Failed(f"{len(self.said)} of {len(self.expected)} readings were stored before the kill")
        self.had = self.said


class Kept(Scenario):
    """Starts with some readings and loses none of them."""

    def prepare(self, case):
        case.must("replay", *FIRST, *SECOND)

    def settle(self):
        case = self.case()
        self.expected = case.readings()
        case.remove()

    def check(self, case, outcome):
        same(case.readings(), self.expected, "after the fault")


class Deliver(Kept):
    """Everything is delivered to the sandbox server, for a person it does not know yet."""

    name = "deliver"
    command = ("sync",)

    def settle(self):
        super().settle()
        self.delivered = {key for key, reading in self.expected.items() if reading["excluded"] is None}

    def case(self):
        case = super().case()
        self.bench.person(case)
        return case

    def of(self, case):
        """What is expected of a case: each delivers for a person of its own, whom its readings name."""
        person = case.environment["HEALTHRELAY_USER_CLIENT_USER_ID"]
        return {identity: reading | {"person": person} for identity, reading in self.expected.items()}

    def check(self, case, outcome):
        same(case.readings(), self.of(case), "after the fault")

    def finish(self, case):
        status = json.loads(case.must("sync").out)
        if any(each["waiting"] or each["refused"] for each in status["destinations"]):
            raise Failed(f"still waiting or refused: {status['destinations']}")
        seen = {}
        for sample in self.bench.server.samples(case.environment["HEALTHRELAY_USER_CLIENT_USER_ID"]):
            item = sample["item"]
            identity = (item if "value" in item else item["systolic"])["id"]
            if identity in seen:
                raise Failed(f"{identity} is at the server twice, at {seen[identity]} and {sample['timestamp']}")
            seen[identity] = sample["timestamp"]
            if sample["revisions"]:
                raise Failed(f"{identity} was sent with other content")
        expect("at the server", set(seen), self.delivered)
        same(case.readings(), self.of(case), "after delivery")


class Prune(Kept):
    """What was delivered is pruned."""

    name = "prune"
    command = ("store", "prune", "--older-than", "1s")

    def prepare(self, case):
        super().prepare(case)
        self.bench.person(case)
        case.must("sync")

    def settle(self):
        super().settle()
        self.octets = contents(f"{self.template}/state")
        case = self.case()
        case.must(*self.command)
        self.left = case.readings()
        if len(self.left) == len(self.expected):
            raise Failed("nothing was pruned")
        # By the rows, and not by the files: what they still hold of other rows is what is looked for.
        kept = contents(case.state)
        self.gone = [octets for octets in self.octets if not any(octets in left for left in kept)]
        if not self.gone:
            raise Failed("no octets have to go")
        if where := case.holds(self.gone):
            raise Failed(f"octets of what was pruned are in {where}")
        case.must("replay", *FIRST, *SECOND)
        same(case.readings(), self.left, "pruned and read again")
        case.remove()

    def check(self, case, outcome):
        found = case.readings()
        within(found, self.expected, "after the fault")
        expect("what stays", set(self.left) - set(found), set())
        if outcome.status == 0 or '"pruned"' in outcome.out:
            same(found, self.left, "after a success")

    def finish(self, case):
        case.must(*self.command)
        same(case.readings(), self.left, "pruned again")
        where = case.holds(self.gone)
        if where:
            raise Failed(f"octets of what was pruned are in {where}")
        case.must("replay", *FIRST, *SECOND)
        same(case.readings(), self.left, "pruned, and read again")


class PruneInTheClear(Prune):
    """The same in a store whose content is not sealed."""

    name = "prune-clear"
    environment = {"HEALTHRELAY_STORE_ENCRYPTION": "off"}


class Erase(Kept):
    """Everybody is erased, with the store's key."""

    name = "erase"
    command = again = ("store", "forget", "--yes")

    def settle(self):
        super().settle()
        self.octets = contents(f"{self.template}/state")
        if not self.octets:
            raise Failed("no octets have to go")
        key = f"{self.template}/state/store.key"
        self.key = open(key, "rb").read().strip() if os.path.exists(key) else None

    def check(self, case, outcome):
        found = case.readings()
        if found:
            same(found, self.expected, "after the fault")
        if outcome.status == 0 or '"erased"' in outcome.out:
            self.gone(case, found)

    def gone(self, case, found):
        expect("readings of who was erased", set(found), set())
        where = case.holds(self.octets)
        if where:
            raise Failed(f"octets of who was erased are in {where}")

    def finish(self, case):
        case.must(*self.again)
        self.gone(case, case.readings())
        if self.key and (where := case.holds([self.key])):
            raise Failed(f"the destroyed key is in {where}")
        case.must("replay", *FIRST, *SECOND)
        expect("readings that are read anew", set(case.readings()), set(self.expected))


class RemoveUser(Erase):
    """The current user is erased, in a store whose content is not sealed."""

    name = "remove-user"
    environment = {"HEALTHRELAY_STORE_ENCRYPTION": "off"}
    command = again = ("user", "remove", "--local", "--yes")


class FinishErasure(Erase):
    """A store is opened whose process was killed between erasing all rows and rewriting the files."""

    name = "finish-erasure"
    command = ("store", "verify")

    def prepare(self, case):
        super().prepare(case)
        self.octets = contents(case.state)
        outcome = case.run("store", "forget", "--yes", environment={"HEALTHRELAY_CRASH_AT": "erase.after-commit:1"})
        expect("status of what is killed", outcome.status, -signal.SIGKILL)

    def settle(self):
        key = f"{self.template}/state/store.key"
        self.key = open(key, "rb").read().strip()
        case = self.case()
        if not case.holds(self.octets):
            raise Failed("the files were written anew before the kill")
        case.must("replay", *FIRST, *SECOND)
        self.expected = case.readings()
        case.remove()

    def check(self, case, outcome):
        expect("readings of who was erased", set(case.readings()), set())

    def finish(self, case):
        case.must(*self.command)
        self.gone(case, {})
        super().finish(case)
