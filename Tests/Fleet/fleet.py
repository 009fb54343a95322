"""The two sides that the trials compare: gateways, simulated and real, and what the database holds."""
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import time

import documents
from engine import HERE, TOOL, Failed, cpu, memory, plain_environment, until


class Fleet:
    """Simulated gateways in several processes."""

    def __init__(self, ground, names, hosts, authority, templates, label="sim", processes=4, qos=0, receipt_wait=30, retry=1):
        self.ground, self.names, self.authority = ground, names, authority
        self.workers = []
        self.spent_before = 0
        for name in names:
            if not os.path.exists(f"{authority.folder}/{name}.pem"):
                break
        else:
            name = None
        if name:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda each: authority.issue(each, authority.shared), names))
        for number in range(processes):
            path = f"{ground.folder}/{label}-{number}.json"
            with open(path, "w") as file:
                json.dump({
                    "gateways": names[number::processes], "hosts": [list(host) for host in hosts], "templates": templates,
                    "authority": authority.path, "certificates": f"{authority.folder}/{{}}.pem", "key": authority.shared,
                    "qos": qos, "receipt_wait": receipt_wait, "retry": retry}, file)
            self.workers.append(ground.start(
                [sys.executable, "-B", f"{HERE}/simulator.py", path], f"{ground.folder}/{label}-{number}.log",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1))

    def ask(self, what, **more):
        """Asks all processes at once, and adds their answers up."""
        for worker in self.workers:
            worker.stdin.write(json.dumps({"do": what, **more}) + "\n")
            worker.stdin.flush()
        answers = []
        for worker in self.workers:
            line = worker.stdout.readline()
            if not line:
                raise Failed("a simulator has ended by itself")
            answers.append(json.loads(line))
            if isinstance(answers[-1].get("error"), str):
                raise Failed(f"the simulator: {answers[-1]['error']}")
        if what == "ids":
            return {name: one for answer in answers for name, one in answer.items()}
        total = {}
        for answer in answers:
            for key, value in answer.items():
                if key == "errors":
                    for words, amount in value.items():
                        total.setdefault(key, {})[words] = total.get(key, {}).get(words, 0) + amount
                elif key in ("slowest", "worst_puback"):
                    total[key] = max(total.get(key, 0), value)
                elif key == "spans":
                    total.setdefault(key, []).extend(value)
                elif key == "moments":
                    total[key] = sorted(set(total.get(key) or []) | set(value or []))
                else:
                    total[key] = total.get(key, 0) + value
        total.setdefault("errors", {})
        return total

    def until(self, condition, words, seconds):
        """Waits until what the gateways say fulfils a condition."""
        last = {}

        def holds():
            last.update(self.ask("look"))
            return condition(last)
        try:
            return until(holds, words, seconds, 0.5)
        except Failed as error:
            raise Failed(f"{error}; the gateways say: {last}") from None

    def settled(self, seconds):
        """Waits until every reading has its receipt."""
        self.until(lambda seen: seen["waiting"] == 0, "every reading has its receipt", seconds)

    def connected(self, seconds, part=1.0):
        self.until(lambda seen: seen["connected"] >= len(self.names) * part, "every gateway is connected", seconds)

    def pids(self):
        return {f"simulator {index}": worker.pid for index, worker in enumerate(self.workers)}

    def end(self):
        for worker in self.workers:
            worker.stdin.close()
        for worker in self.workers:
            worker.wait(30)


class RealGateway:
    """The program `healthrelay` itself, which replays the recorded captures."""

    def __init__(self, ground, name, hosts, authority, seal=None, captures=documents.CAPTURES, extra=""):
        self.ground, self.name, self.authority, self.captures = ground, name, authority, captures
        self.folder = f"{ground.folder}/{name}"
        os.makedirs(f"{self.folder}/settings/healthrelay", exist_ok=True)
        self.certificate, self.key = authority.issue(name)
        self.process = None
        self.configure(hosts, seal, extra)
        self.environment = self.surroundings(self.folder)

    @staticmethod
    def surroundings(folder):
        return plain_environment({
            "HOME": folder, "XDG_CONFIG_HOME": f"{folder}/settings", "HEALTHRELAY_STATE_DIR": f"{folder}/state",
            "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
            "HEALTHRELAY_SYNC_BACKFILL_DAYS": "36500", "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
            "HEALTHRELAY_BLUETOOTH_ADAPTER": "none"})

    def configure(self, hosts, seal=None, extra=""):
        listed = ", ".join(f'"mqtts://{host}:{port}"' for host, port in hosts)
        with open(f"{self.folder}/settings/healthrelay/config.yaml", "w") as file:
            file.write(
                "destinations:\n"
                f"  - {{name: study, kind: fleet, hosts: [{listed}], ca_file: {self.authority.path}, "
                f"certificate_file: {self.certificate}, private_key_file: {self.key}"
                + (f", seal_to_file: {seal}" if seal else "") + f"{extra}}}\n")

    @property
    def log(self):
        return f"{self.folder}/log"

    def start(self, crash=None):
        self.process = self.ground.start(
            [TOOL, "run", "--replay", *self.captures], self.log,
            {**self.environment, **({"HEALTHRELAY_CRASH_AT": crash} if crash else {})})

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def command(self, *arguments, statuses=(0,)):
        with open(self.log, "ab") as log:
            done = subprocess.run([TOOL, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=log, text=True, timeout=300)
        if statuses and done.returncode not in statuses:
            raise Failed(f"{self.name}: healthrelay {' '.join(arguments)} ended with {done.returncode}, see {self.log}")
        return done.stdout

    def status(self):
        return json.loads(self.command("sync", "status", "--json", statuses=None))["destinations"][0]

    def readings(self, states=("delivered",)):
        """The readings whose delivery is in one of these states; what is held is never sent."""
        page = json.loads(self.command("query", "--limit", "10000", "--json"))
        return {one["id"]: one for one in page["readings"]
                if any(each["destination"] == "study" and each["state"] in states for each in one["deliveries"])}

    def settled(self, seconds, least=100):
        """Waits until everything that was read is delivered."""
        def is_done():
            found = self.status()
            # The replay may not have come to its end.
            return (found["delivered"] >= least and not found["waiting"] and not found["refused"]
                    and not self.readings(("waiting", "handed_over", "pending", "refused")))
        try:
            until(is_done, f"{self.name} has delivered everything", seconds, 1)
        except Failed as error:
            raise Failed(f"{error}: {self.status()}") from None

    def pids(self):
        return {self.name: self.process.pid} if self.process and self.process.poll() is None else {}


class Oracle:
    """What the database has to hold: every reading that was made, once, as it was made."""

    def __init__(self, database, templates):
        self.database, self.templates = database, templates

    def rows(self):
        """All rows, with whether any key is there twice: counted over the table itself, without its indexes."""
        doubled = self.database.sql(
            "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;"
            "SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM reading GROUP BY gateway, id HAVING count(*) > 1) t")
        rows = {}
        for line in self.database.sql(
                "SELECT gateway, id, kind, body->>'time' FROM reading WHERE NOT retracted").splitlines():
            gateway, identity, kind, moment = line.split("|")
            rows.setdefault(gateway, {})[identity] = (kind, moment)
        return rows, int(doubled)

    def check(self, *fleets, real=()):
        """Stored, lost, doubled and foreign rows; a row with another content than was made is an error."""
        rows, doubled = self.rows()
        stored = lost = foreign = early = 0
        for fleet in fleets:
            for name, said in fleet.ask("ids").items():
                found = rows.pop(name, {})
                wanted = {documents.reading_id(name, number): number for number in range(said["made"])}
                for identity, number in wanted.items():
                    if identity not in found:
                        lost += 1
                        # A receipt for what is not there would be the worst.
                        early += number in said["receipted"]
                        continue
                    stored += 1
                    template = self.templates[number % len(self.templates)]
                    if found[identity] != (template["kind"], documents.reading_time(number)):
                        raise Failed(f"{name}: reading {number} is stored as {found[identity]}")
                foreign += len(set(found) - set(wanted))
            self.compare_bodies(random.choice(fleet.names))
        for gateway in real:
            found, wanted = rows.pop(gateway.name, {}), gateway.readings()
            lost += len(set(wanted) - set(found))
            foreign += len(set(found) - set(wanted))
            stored += len(set(wanted) & set(found))
            for identity in set(wanted) & set(found):
                if found[identity] != (wanted[identity]["kind"], wanted[identity]["time"]):
                    raise Failed(f"{gateway.name}: {identity} is stored as {found[identity]}")
        return {"stored": stored, "lost": lost, "doubled": doubled + foreign, "receipt without row": early,
                "others": sorted(rows)}

    def compare_bodies(self, name):
        """Every member of one gateway's readings."""
        lines = self.database.sql(f"SELECT body FROM reading WHERE gateway = '{name}'").splitlines()
        numbers = {documents.reading_id(name, number): number for number in range(len(lines))}
        for line in lines:
            body = json.loads(line)
            number = numbers.get(body["id"])
            if number is None:
                continue
            template = self.templates[number % len(self.templates)]
            if body != documents.reading(template, name, number, body["revision"]):
                raise Failed(f"{name}: reading {number} was changed on its way")


class Meter:
    """The processor and the memory of each part of the engine."""

    def __init__(self, *parts):
        self.parts = parts

    def sample(self):
        pids = {}
        for part in self.parts:
            pids.update(part.pids())
        groups = {}
        for name, pid in pids.items():
            group = groups.setdefault(name.rsplit(" ", 1)[0] if name[-1].isdigit() else name, [0.0, 0])
            group[0] += cpu(pid)
            group[1] += memory(pid)
        return groups


def silence(seen):
    """The longest time in which readings waited and no receipt came to any gateway, in seconds."""
    spans = []
    for begin, end in sorted(seen["spans"]):
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([begin, end])
    longest = 0.0
    for begin, end in spans:
        inside = [begin, *(moment / 100 for moment in seen["moments"] if begin <= moment / 100 <= end), end]
        longest = max([longest, *(later - earlier for earlier, later in zip(inside, inside[1:]))])
    return longest


def pause(seconds):
    time.sleep(seconds)
