"""Scenarios for the files around readings: exports, keys, versions, clients and certificates."""
import base64
import glob
import json
import os
import re
import shutil
import sqlite3

from bench import FIRST, ROOT, SECOND, Case, Failed, Scenario, contents, expect, same
from scenarios import Kept


class Export(Kept):
    """The store is exported."""

    name = "export"
    command = ("store", "export", "ROOT/out/export", "--passphrase-file", "ROOT/phrase")

    def prepare(self, case):
        super().prepare(case)
        os.mkdir(f"{case.root}/out")
        with open(f"{case.root}/phrase", "w") as file:
            file.write("of several words\n")

    def check(self, case, outcome):
        super().check(case, outcome)
        left = [name for name in os.listdir(case.state) if name.startswith(".exporting")]
        expect("copies left in the state directory", left, [])
        path = f"{case.root}/out/export"
        if outcome.status not in (0, None):
            # What nobody can remove stays, without the name of an export that is whole.
            left = [name for name in os.listdir(f"{case.root}/out") if outcome.could_remove or name != "export.part"]
            expect("files of an export that failed", left, [])
        elif os.path.exists(path):
            other = Case(self.bench.base)
            other.must("store", "import", path, "--passphrase-file", f"{case.root}/phrase")
            same(other.readings(), self.expected, "imported")
            other.remove()
        elif outcome.status == 0 or '"octets"' in outcome.out:
            raise Failed("an export that was done is gone")

    def finish(self, case):
        if os.path.exists(f"{case.root}/out/export"):
            os.unlink(f"{case.root}/out/export")
        case.must(*self.arguments(case))


class Import(Scenario):
    """A store is made of an export."""

    name = "import"
    command = ("store", "import", "ROOT/export", "--passphrase-file", "ROOT/phrase")

    def prepare(self, case):
        other = Case(self.bench.base)
        other.must("replay", *FIRST, *SECOND)
        with open(f"{case.root}/phrase", "w") as file:
            file.write("of several words\n")
        other.must("store", "export", f"{case.root}/export", "--passphrase-file", f"{case.root}/phrase")
        self.expected = other.readings()
        other.remove()

    def check(self, case, outcome):
        found = case.readings()
        if found or outcome.status == 0 or '"readings"' in outcome.out:
            same(found, self.expected, "after the fault")
        left = f"{case.state}/import.new"
        expect("workshops left", os.path.exists(left), False)

    def finish(self, case):
        if not case.readings():
            case.must(*self.arguments(case))
        same(case.readings(), self.expected, "imported again")


class Rotate(Kept):
    """The key is changed."""

    name = "rotate-key"
    command = ("store", "rotate-key")

    def settle(self):
        super().settle()
        self.octets = contents(f"{self.template}/state")
        path = f"{self.template}/state/store.key"
        self.keys = [open(path, "rb").read().strip()] if os.path.exists(path) else []

    def check(self, case, outcome):
        super().check(case, outcome)
        with open(f"{case.state}/store.key") as file:
            lines = file.read().split()
        if not 1 <= len(lines) <= 2 or any(len(base64.b64decode(line)) != 32 for line in lines):
            raise Failed(f"the key file has {len(lines)} lines")

    def finish(self, case):
        case.must(*self.command)
        same(case.readings(), self.expected, "under another key")
        with open(f"{case.state}/store.key") as file:
            expect("keys", len(file.read().split()), 1)
        where = case.holds(self.keys + self.octets)
        if where:
            raise Failed(f"the destroyed key, or what it sealed, is in {where}")


class Seal(Rotate):
    """Content that was in the clear is sealed."""

    name = "seal"

    def prepare(self, case):
        case.must("replay", *FIRST, *SECOND, environment={"HEALTHRELAY_STORE_ENCRYPTION": "off"})


class Unseal(Kept):
    """Encryption is switched off: a running gateway puts everything into the clear."""

    name = "unseal"
    command = ("run",)
    until = (b"readings were sealed", b"cannot seal all readings")
    environment = {"HEALTHRELAY_STORE_ENCRYPTION": "off"}

    def prepare(self, case):
        case.must("replay", *FIRST, *SECOND, environment={"HEALTHRELAY_STORE_ENCRYPTION": "on"})

    def settle(self):
        # Opening the template itself would change it.
        case = self.case()
        self.expected = case.readings()
        case.remove()
        self.octets = contents(f"{self.template}/state")

    def finish(self, case):
        case.must("run", until=(*self.until, b"Page at"))
        for _ in range(20):
            if not os.path.exists(f"{case.state}/store.key"):
                break
            case.must("run", until=self.until)
        same(case.readings(), self.expected, "in the clear")
        expect("the key file is there", os.path.exists(f"{case.state}/store.key"), False)
        where = case.holds(self.octets)
        if where:
            raise Failed(f"what was sealed is still in {where}")
        # And back: no leftover may prevent that.
        case.environment["HEALTHRELAY_STORE_ENCRYPTION"] = "on"
        case.must("store", "rotate-key")
        same(case.readings(), self.expected, "sealed again")


class Migrate(Rotate):
    """The store of an earlier version is opened, its content sealed, and its key changed."""

    former = ""

    def prepare(self, case):
        os.mkdir(case.state, 0o700)
        for name in ("readings.sqlite", "store.key"):
            if os.path.exists(f"{self.former}/{name}"):
                os.chmod(shutil.copy(f"{self.former}/{name}", f"{case.state}/{name}"), 0o600)

    def settle(self):
        super().settle()
        with open(f"{self.former}/readings.expected.ndjson") as lines:
            expect("readings of the earlier version", set(self.expected), {json.loads(line)["id"] for line in lines})

    def check(self, case, outcome):
        # A store that was in the clear has no key file yet.
        if self.keys or os.path.exists(f"{case.state}/store.key"):
            super().check(case, outcome)
        else:
            same(case.readings(), self.expected, "after the fault")


def migrations():
    """A scenario for each former store: a store that is added to the fixtures is tried too."""
    found = []
    for former in sorted(glob.glob(f"{ROOT}/Fixtures/stores/*/readings.sqlite")):
        folder = os.path.dirname(former)
        version = os.path.basename(folder)
        found.append(type(f"Migrate{version}", (Migrate,), {"name": f"migrate-{version}", "former": folder}))
    if not found:
        raise Failed("there are no former stores")
    return found


class Upgrade(Scenario):
    """A gateway starts with the state directory that an earlier package left."""

    name = "upgrade"
    command = ("run",)
    until = (b"Page at",)
    former = ""

    def prepare(self, case):
        shutil.copytree(self.former, case.state)

    def applied(self, case):
        with sqlite3.connect(f"{case.state}/readings.sqlite") as database:
            found = [row[0] for row in database.execute("SELECT identifier FROM grdb_migrations ORDER BY rowid")]
        database.close()
        return found

    def clients(self, case):
        return json.loads(case.must("client", "list").out)["clients"]

    def settle(self):
        case = self.case()
        before = self.applied(case)
        case.must(*self.command, until=self.until)
        self.expected, self.migrations, self.paired = case.readings(), self.applied(case), self.clients(case)
        case.remove()
        if len(self.migrations) <= len(before):
            raise Failed("there is nothing to migrate")
        with open(f"{self.former}.readings.ndjson") as lines:
            expect("readings of the earlier package", set(self.expected), {json.loads(line)["id"] for line in lines})

    def check(self, case, outcome):
        # It has been opened and verified since.
        expect("migrations", self.applied(case), self.migrations)

    def finish(self, case):
        case.must(*self.command, until=self.until)
        expect("migrations", self.applied(case), self.migrations)
        same(case.readings(), self.expected, "after the fault")
        expect("clients", self.clients(case), self.paired)


def upgrades():
    """The scenario of a state directory that `HEALTHRELAY_FORMER_STATE` names, where it does."""
    former = os.environ.get("HEALTHRELAY_FORMER_STATE")
    return [type("UpgradeFormer", (Upgrade,), {"former": former})] if former else []


class Revoke(Scenario):
    """A client is put out."""

    name = "revoke"
    command = ("client", "revoke", "1")

    def prepare(self, case):
        case.must("client", "list")
        with sqlite3.connect(f"{case.state}/access.sqlite") as database:
            database.execute(
                "INSERT INTO client (digest, name, kind, created_at, expires_at) VALUES (?, 'x', 'client', 1, 4e9)",
                [bytes(32)])
        database.close()

    def isOut(self, case):
        clients = json.loads(case.must("client", "list").out)["clients"]
        expect("clients", len(clients), 1)
        return clients[0]["revoked_at"] is not None

    def check(self, case, outcome):
        if (outcome.status == 0 or '"revoked"' in outcome.out) and not self.isOut(case):
            raise Failed("a client that was put out is in again")

    def finish(self, case):
        outcome = case.run(*self.command)
        if outcome.status not in (0, 66) or not self.isOut(case):
            raise Failed(f"the client is not out: {outcome.err[-300:]}")


class Certificate(Scenario):
    """A gateway starts that has no certificate yet, and makes one."""

    name = "certificate"
    command = ("run",)
    until = (b"Page at",)
    environment = {"HEALTHRELAY_HTTP_TLS": "on"}

    def prepare(self, case):
        case.must("replay", *FIRST)

    def check(self, case, outcome):
        path = f"{case.state}/tls.pem"
        if outcome.status is None and "Page at" in outcome.err and not os.path.exists(path):
            raise Failed("the certificate that clients saw is gone")

    def finish(self, case):
        path = f"{case.state}/tls.pem"
        before = open(path).read() if os.path.exists(path) else None
        outcome = case.must("run", until=self.until)
        if "Page at https" not in outcome.err:
            raise Failed(f"no page over TLS: {outcome.err[-300:]}")
        if before:
            expect("the certificate", open(path).read(), before)


class ChangeSettings(Scenario):
    """The gateway's own settings are changed, and a secret with them: all of it counts, or nothing."""

    name = "settings"
    key = "destinations.clinic.api_key"
    # What was set before, and what is set in the case: a setting, another one, and the secret.
    before = ("manual", "http://127.0.0.1:1", "the-first-secret")
    after = ("automatic", "http://127.0.0.1:2", "the-second-secret")

    def change(self, values):
        mode, address, _ = values
        return (
            "settings", "set", "sync.mode", mode, "destinations.clinic.kind", "vital", "destinations.clinic.base_url", address,
            "--secret", self.key)

    def prepare(self, case):
        case.must(*self.change(self.before), typed=self.before[2] + "\n")

    def run(self, case, preload=None):
        return case.run(*self.change(self.after), preload=preload, typed=self.after[2] + "\n")

    def found(self, case):
        """What is set, with the content of the file of the secret that the settings name."""
        rows = {row["key"]: row["value"] for row in json.loads(case.must("settings", "show").out)["settings"]}
        with open(f"{case.state}/settings.yaml") as file:
            name = re.search(r'api_key_file: "?([a-z0-9_.-]+)', file.read()).group(1)
        path = f"{case.state}/secrets/{name}"
        expect("the mode of the secret", oct(os.stat(path).st_mode & 0o777), oct(0o600))
        with open(path) as file:
            return rows["sync.mode"], rows["destinations.clinic.base_url"], file.read().rstrip("\n")

    def check(self, case, outcome):
        found = self.found(case)
        if outcome.status == 0 or '"digest"' in outcome.out:
            expect("settings that were acknowledged", found, self.after)
        elif found not in (self.before, self.after):
            raise Failed(f"the settings are {found}")

    def finish(self, case):
        case.must(*self.change(self.after), typed=self.after[2] + "\n")
        expect("settings", self.found(case), self.after)
        expect("secrets", len(os.listdir(f"{case.state}/secrets")), 1)
