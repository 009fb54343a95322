"""What a person does with the package on a machine with Bluetooth: installs it, looks at its page, pairs a meter there, has
it read at its next advertisement and after a power cut, and removes the package. `radio` makes the disk.

    radio.py DISK
"""
import asyncio
import hashlib
import http.client
import json
import pathlib
import re
import shlex
import shutil
import ssl
import sys
import time
import traceback
import xml.etree.ElementTree as tree

from lab import documents
from lab.expected import dump
from lab.live import Behaviour, LiveMeter
from lab.machine import Machine
from lab.radio import Air, lose

ADDRESS = "C0:00:00:00:18:08"
METER = {"name": "meter+00001808", "address": ADDRESS, "service": "1808", "passkey": True, "manufacturer": "Roche",
         "model": "932", "serial": "00001808", "battery": 87, "clock": 0, "feature": "7b04",
         "records": {"count": 5, "seed": 7, "contexts": True}}
POLICY = "/usr/share/dbus-1/system.d/healthrelay.conf"
# What the gateway asks only where bluetoothd keeps a battery's level for itself, or will not say whether it listens.
RARE = {("org.freedesktop.DBus.Properties", "Get")}
# What an application may ask of bluetoothd, and this one has no business with.
REFUSED = [
    ("/org/bluez/hci0", "org.bluez.LEAdvertisingManager1", "UnregisterAdvertisement", "o", "/none"),
    ("/org/bluez/hci0", "org.bluez.GattManager1", "UnregisterApplication", "o", "/none"),
    ("/org/bluez/hci0", "org.bluez.Media1", "UnregisterPlayer", "o", "/none"),
    ("/org/bluez/hci0", "org.bluez.NetworkServer1", "Unregister", "s", "nap"),
    ("/org/bluez", "org.bluez.ProfileManager1", "UnregisterProfile", "o", "/none"),
    ("/org/bluez/hci0", "org.bluez.Adapter1", "GetDiscoveryFilters"),
    ("/org/bluez/hci0", "org.freedesktop.DBus.Introspectable", "Introspect"),
]


class Failed(Exception):
    pass


def expect(condition, found=""):
    if not condition:
        raise Failed(str(found)[-1500:])


class Debian:
    """The machine with the package, and the air around it."""

    def __init__(self, disk):
        self.disk, self.air, self.machine = disk, Air(), None

    async def boot(self):
        self.machine = Machine(disk=self.disk, serves=(8480,))
        await self.machine.start()
        await self.air.attach(self.machine.hci_path)
        end = time.monotonic() + 300
        while True:
            try:
                _, output = await self.machine.shell("systemctl is-system-running", 10)
                if output.strip() in (b"running", b"degraded"):
                    return
            except (OSError, asyncio.TimeoutError, RuntimeError):
                pass
            if time.monotonic() > end:
                raise Failed("the machine did not come up: " + self.machine.console()[-1000:])
            await asyncio.sleep(0.5)

    async def lose_power(self):
        """As by a plug that is pulled: the meters hear no more of the adapter."""
        self.machine.process.kill()
        await self.machine.process.wait()
        controller = self.air.controller
        for connection in list(controller.le_connections.values()):
            lose(controller, connection, told=False)
        self.air.link.remove_controller(controller)
        await self.air.close()
        shutil.rmtree(self.machine.folder)

    async def __call__(self, script, timeout=60, status=0):
        """What a root's shell prints."""
        ended, output = await self.machine.shell(script, timeout)
        expect(status is None or ended == status, f"`{script}` ended with {ended}: {output.decode(errors='replace')}")
        return output.decode(errors="replace").strip()

    async def document(self, command, status=0):
        return json.loads(await self(command + " --json 2>/dev/null", status=status))

    async def until(self, what, condition, timeout=60):
        end, found = time.monotonic() + timeout, None
        while True:
            try:
                found = await condition()
                if found:
                    return found
            except (Failed, ValueError, OSError) as error:
                found = error
            expect(time.monotonic() < end, f"{what}: not within {timeout} s ({found})")
            await asyncio.sleep(0.2)


class Page:
    """A browser beyond the machine: it pins the certificate, keeps the cookie and sends the token for changes."""

    def __init__(self, port, fingerprint):
        self.port, self.fingerprint, self.fields = port, fingerprint, {}

    def exchange(self, method, path, body):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        try:
            connection.connect()
            shown = hashlib.sha256(connection.sock.getpeercert(True)).hexdigest()
            expect(shown == self.fingerprint, f"another certificate: {shown}")
            fields = self.fields | ({"Content-Type": "application/json"} if body is not None else {})
            connection.request(method, path, None if body is None else json.dumps(body), fields)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.getheader("Set-Cookie")
        finally:
            connection.close()

    async def __call__(self, method, path, body=None, status=200):
        found, text, cookie = await asyncio.to_thread(self.exchange, method, path, body)
        expect(found == status, f"{method} {path}: {found} {text}")
        if cookie:
            self.fields["Cookie"] = cookie.split(";")[0]
        return text

    async def json(self, method, path, body=None, status=200):
        return json.loads(await self(method, path, body, status) or "null")


class Story:
    """The steps in their order; each is one check."""

    def __init__(self, disk):
        self.debian, self.passed, self.failed = Debian(disk), 0, 0
        self.digits = []               # that the meter has shown

    async def check(self, name, work):
        try:
            more = await work
            self.passed += 1
            print(f"ok    {name}" + (f" ({more})" if more else ""), flush=True)
        except Exception as error:
            self.failed += 1
            print(f"FAIL  {name}\n      {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, Failed):
                traceback.print_exc(limit=-4, file=sys.stdout)

    async def tell(self):
        debian = self.debian
        await debian.boot()
        self.before = set((await debian("find / -xdev -not -path '/proc/*'")).splitlines())
        print("== install", flush=True)
        await self.check("installs as apt does it, with bluetoothd", self.installs())
        await self.check("finds the adapter; the bus lets it speak to bluetoothd", self.finds_adapter())
        await self.check("runs as its own user, shut in", self.is_shut_in())
        print("== a meter", flush=True)
        await self.check("its page over TLS, for who has the code", self.signs_in())
        self.meter = LiveMeter(documents.meter(METER), Behaviour(), debian.air)
        await self.meter.start()
        await debian("systemd-run -q --unit=lab-monitor sh -c 'exec busctl monitor --json=short org.bluez >/run/bus.log'")
        await self.check("a pairing that is given up on the page leaves nothing", self.gives_up())
        await self.check("the page finds the meter and pairs it by the digits it shows", self.pairs())
        await self.check("what the meter holds is read", self.has_readings())
        await self.check("a new record is read at the meter's next advertisement", self.reads_at_next_advertisement())
        await self.check("and after a power cut, with nobody there", self.survives_power_cut())
        await self.check("unpairs", self.unpairs())
        print("== the policy of the bus", flush=True)
        await self.check("it names what the gateway asks, and nothing else", self.policy_is_exact())
        await self.check("anything else is refused", self.others_are_refused())
        print("== removal", flush=True)
        await self.check("its journal holds no value, address or digits", self.journal_is_quiet())
        await self.check("is purged while it runs", self.is_purged())
        await self.check("no process, user, unit or file is left", self.nothing_is_left())

    # ---- install

    async def installs(self):
        began = time.monotonic()
        await self.debian("DEBIAN_FRONTEND=noninteractive apt-get install -y -qq /root/healthrelay.deb", 580)
        await self.debian("systemctl is-active healthrelay bluetooth")
        return f"{time.monotonic() - began:.0f} s"

    async def finds_adapter(self):
        await self.debian("systemctl start lab-adapter")

        async def doctor():
            checks = {each["name"]: each for each in (await self.debian.document("healthrelay doctor", None))["checks"]}
            return checks["adapter"]["ok"] and checks["bus_policy"]["ok"] and "hci0" in checks["adapter"]["found"]
        await self.debian.until("the adapter", doctor)

    async def is_shut_in(self):
        found = await self.debian(
            "pid=$(systemctl show -p MainPID --value healthrelay); cat /proc/$pid/status; stat -c 'owner: %U' /proc/$pid; "
            "nsenter -t $pid -m -- sh -c 'echo >/usr/x || echo >/etc/x || echo >/root/x' 2>&1; "
            "systemd-analyze security --no-pager healthrelay.service | tail -n 1", status=None)
        for wanted in (r"owner: healthrelay", r"CapEff:\s0+$", r"CapBnd:\s0+$", r"NoNewPrivs:\s1", r"Seccomp:\s2",
                       r"cannot create /usr/x", r"cannot create /etc/x", r"cannot create /root/x"):
            expect(re.search(wanted, found, re.M), f"no {wanted} in {found}")
        score = float(re.search(r"healthrelay.service: (\d+\.\d+)", found)[1])
        expect(score <= 1.5, score)
        return f"{score} by systemd-analyze"

    # ---- a meter

    async def signs_in(self):
        settings = 'http: {listen: "0.0.0.0:8480"}\nuser: {client_user_id: white_bear, time_zone: Asia/Kolkata}\n'
        await self.debian(f"printf %s {shlex.quote(settings)} >/etc/healthrelay/config.yaml; systemctl restart healthrelay")
        invitation = await self.debian.document("healthrelay client invite")
        self.page = Page(self.debian.machine.port_of[8480], invitation["certificateFingerprint"])
        expect("<title>HealthRelay" in await self.page("GET", "/"))
        await self.page("GET", "/api/v1/readings", status=401)
        session = await self.page.json("POST", "/api/v1/session", {"code": invitation["code"]}, 201)
        self.page.fields |= {"X-CSRF-Token": session["csrf_token"], "X-Session-Key": session["key"]}
        expect((await self.page.json("GET", "/api/v1/readings"))["readings"] == [])

    async def begin_pairing(self):
        """Until the page asks for the digits; the pairing."""
        pairing = await self.page.json("POST", "/api/v1/pairings", {"address": ADDRESS}, 202)
        path = f"/api/v1/pairings/{pairing['id']}"

        async def asked():
            now = await self.page.json("GET", path)
            expect(now["state"] != "failed", now)
            return now["question"]
        question = await self.debian.until("the question for the digits", asked)
        expect(question["kind"] == "passkey", question)
        self.digits.append(f"{self.meter.shown_passkey:06d}")
        return path

    async def gives_up(self):
        path = await self.begin_pairing()
        await self.page("DELETE", path, status=204)

        async def over():
            return (await self.page.json("GET", path))["state"] == "failed"
        await self.debian.until("the end of the pairing", over)
        expect(not await self.meter.bonds())

    async def pairs(self):
        found = await self.page("POST", "/api/v1/scan", {"seconds": 15})
        expect(ADDRESS in found, found)
        path = await self.begin_pairing()
        await self.page("POST", path + "/answer", {"passkey": self.digits[-1]}, 204)

        async def done():
            now = await self.page.json("GET", path)
            expect(now["state"] != "failed", now)
            return now["state"] == "done" and now
        expect((await self.debian.until("the bond", done, 120))["proven"])

    async def readings(self):
        """What the page shows of each, oldest first."""
        shown = (await self.page.json("GET", "/api/v1/readings?limit=100"))["readings"]
        return self.told(shown)

    @staticmethod
    def told(readings):
        return sorted((each["sequence"], each["base_time"], each["kind"], each["glucose"]["value"], each["glucose"]["unit"],
                       each["device"]["address"], each["provider"]) for each in readings)

    async def are_read(self, timeout=120):
        wanted = json.loads(dump(documents.readings(self.meter.ever, self.meter.meter)))
        wanted = self.told(wanted)

        async def there():
            found = await self.readings()
            return len(found) >= len(wanted) and found
        found = await self.debian.until(f"{len(wanted)} readings", there, timeout)
        expect(found == wanted, f"{found} instead of {wanted}")

    async def has_readings(self):
        await self.are_read()

    async def falls_asleep(self):
        """As a meter that was laid aside, and for longer than it may be heard after a contact without having gone."""
        self.meter.behaviour.advertises = "never"
        await self.debian.until("the end of the connection", lambda: asyncio.sleep(0, self.meter.connection is None))
        await self.meter.advertise()
        await asyncio.sleep(30)

    async def measures(self, sequence, value):
        new = documents.records([{"sequence": sequence, "base": "2026-11-20T08:00:00", "value": value}], 0x1808)
        self.meter.meter.records += new
        self.meter.ever += new

    async def wakes(self):
        self.meter.events.clear()
        self.meter.behaviour.advertises = "always"
        await self.meter.advertise()
        return time.monotonic()

    def connections(self):
        return [each for each in self.meter.events if each["event"] == "connected"]

    async def reads_at_next_advertisement(self):
        await self.falls_asleep()
        await self.measures(6, "104")
        began = await self.wakes()
        await self.are_read()
        sent = [each["at"] for each in self.meter.events if each["event"] == "sent" and "record" in each]
        expect(len(self.connections()) == 1, self.meter.events)
        expect(self.connections()[0]["at"] - began < 15, self.meter.events)
        return f"connected after {self.connections()[0]['at'] - began:.1f} s, read after {sent[-1] - began:.1f} s"

    async def survives_power_cut(self):
        await self.falls_asleep()
        self.asked = await self.heard()
        await self.debian.lose_power()
        await self.measures(7, "97.5")
        await self.wakes()
        await self.debian.boot()
        self.page.port = self.debian.machine.port_of[8480]
        await self.are_read()

    async def unpairs(self):
        await self.debian("systemd-run -q --unit=lab-monitor sh -c 'exec busctl monitor --json=short org.bluez >/run/bus.log'")
        await asyncio.sleep(1)
        await self.debian(f"healthrelay unpair {ADDRESS}")
        self.asked |= await self.heard()
        bonds = await self.debian("cat /var/lib/bluetooth/*/*/info 2>/dev/null | grep -c LongTermKey", status=None)
        expect(bonds == "0", bonds)

    # ---- the policy

    async def heard(self):
        """What the service has asked of bluetoothd since the monitor began: pairs of interface and method."""
        pid = await self.debian("systemctl show -p MainPID --value healthrelay")
        names = await self.debian(f"busctl list --no-legend --unique | awk '$2 == {pid} {{ print $1 }}'")
        log = await self.debian("systemctl stop lab-monitor; cat /run/bus.log")
        messages = [json.loads(line) for line in log.splitlines()]
        return {(each["interface"], each["member"]) for each in messages
                if each["type"] == "method_call" and each["sender"] in names.split()}

    async def policy_is_exact(self):
        policy = tree.fromstring(await self.debian(f"cat {POLICY}"))
        expect([each.attrib for each in policy.iter("deny")] == [{"send_destination": "org.bluez", "send_type": "method_call"}])
        rules = policy.findall("policy/allow")
        expect({each.get("send_destination") for each in rules} == {"org.bluez"})
        named = {(each.get("send_interface"), each.get("send_member")) for each in rules}
        expect(self.asked <= named and named - self.asked <= RARE, f"unused: {named - self.asked}; not named: {self.asked - named}")
        return f"{len(named)} methods, {len(named & self.asked)} of them heard"

    async def ask(self, user, call):
        return await self.debian(f"setpriv --reuid={user} --regid={user} --clear-groups busctl call org.bluez "
                                 + " ".join(map(shlex.quote, call)) + " 2>&1", status=None)

    async def others_are_refused(self):
        for call in REFUSED:
            found = await self.ask("healthrelay", call)
            expect("Access denied" in found or "Rejected send message" in found, f"{call[1:3]}: {found}")
            expect("denied" not in await self.ask("root", call), "and to root")
        return f"{len(REFUSED)} of {len(REFUSED)}"

    # ---- removal

    async def journal_is_quiet(self):
        journal = await self.debian("journalctl -u healthrelay --no-pager")
        expect("ready" in journal, journal)
        stray = re.findall(rf".*(?:mmHg|mg/dL|mmol|{ADDRESS}|00001808|white_bear|{'|'.join(self.digits)}).*", journal)
        expect(not stray, "\n".join(stray))

    async def is_purged(self):
        await self.debian("DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq healthrelay", 300)

    async def nothing_is_left(self):
        left = await self.debian("cat /proc/[0-9]*/comm | grep -x healthrelay; grep healthrelay /etc/passwd /etc/group; "
                                 "systemctl list-units --all --no-legend 'healthrelay*'", status=None)
        expect(not left, left)
        after = set((await self.debian("find / -xdev -not -path '/proc/*'")).splitlines())
        ours = [each for each in after - self.before if "healthrelay" in each and not each.startswith(("/root/", "/var/cache/", "/var/log/"))]
        expect(not ours, ours)
        await self.debian("systemctl is-active bluetooth")


async def main(disk):
    story = Story(disk)
    try:
        await story.tell()
    finally:
        if story.debian.machine:
            folder = story.debian.machine.folder
            if story.failed:
                print(f"console.log is in {folder}")
                try:
                    _, journal = await story.debian.machine.shell("journalctl -b --no-pager -n 400")
                    pathlib.Path(folder / "journal.log").write_bytes(journal)
                except Exception:
                    pass
            await story.debian.machine.stop()
            if not story.failed:
                shutil.rmtree(folder)
    print(f"package with Bluetooth: {story.passed} passed, {story.failed} failed")
    return 1 if story.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:2])))
