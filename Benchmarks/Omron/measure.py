"""Reads a full Omron memory of two users with the gateway and with a bare Python client, in turn, and compares. Run by run.sh
in the lab: `measure.py HEALTHRELAY ROUNDS`. The times are those of the monitor's log: from its connection to the request that
ends the session, whatever the host's program does before and after."""
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL, ADDRESS = "omron_hem7322t", "C0:00:00:00:18:10"
PATH = "/org/bluez/hci0/dev_" + ADDRESS.replace(":", "_")
BAR, MOST_REQUESTS = 1.1, 6


class Lab:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["HEALTHRELAY_LAB_SOCKET"])
        self.lines = self.socket.makefile("rw")

    def ask(self, do, **given):
        self.lines.write(json.dumps({"id": 1, "do": do} | given) + "\n")
        self.lines.flush()
        answer = json.loads(self.lines.readline())
        if "error" in answer:
            sys.exit(f"lab: {answer['error']}")
        return answer["ok"]


def record(number, user):
    return {"systolic": str(110 + number % 60), "diastolic": str(60 + number % 30), "pulse": str(55 + number % 40),
            "at": f"2026-10-{1 + number // 24:02}T{number % 24:02}:{10 * user:02}:00", "user": user, "status": []}


def run(command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                          env=os.environ | environment)
    if done.returncode:
        sys.exit(f"{command[:3]}: status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def visit(lab, meter, command, **environment):
    """Seconds from the connection to the end of the session, the requests to the memory, and what was printed."""
    mark = lab.ask("log", meter=meter)["next"]
    printed = run(command, **environment)
    events = lab.ask("log", meter=meter, since=mark)["events"]
    asked = [each for each in events if each["event"] == "asked"]
    began = next(each["at"] for each in events if each["event"] == "connected")
    assert asked[-1]["hex"].startswith("080f"), asked[-1]
    return asked[-1]["at"] - began, len(asked), printed


def main():
    gateway, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    lab, passed = Lab(), True
    # At the pace that owners have logged of monitors with four channels, and as fast as the lab's link is.
    for name, pace in (("a monitor's own pace", {"answer_time": 0.2, "chunk_time": 0.05}), ("no delays", {})):
        lab.ask("reset")
        made = lab.ask("add", meter={
            "name": "BLESmart_0000021A28FF", "address": ADDRESS, "service": "1810", "protocol": "omron", "layout": "7322T",
            "said": MODEL, "clock": 0, "mtu": 185, "manufacturer": "OMRON HEALTHCARE",
            "records": [record(number, user) for user in (1, 2) for number in range(100)]})
        meter = made["meter"]
        ours, bare = [], []
        with tempfile.TemporaryDirectory() as folder:
            def command(*words, state):
                return [gateway, *words, "--state-dir", f"{folder}/{state}", "--json"]
            settings = {"HEALTHRELAY_USER_TIME_ZONE": "Asia/Kolkata", "HOME": "/nonexistent"}
            run(command("pair", ADDRESS, "--model", MODEL, state="0"), **settings)
            key = lab.ask("act", meter=meter, act="memory")["key"]
            lab.ask("change", meter=meter, behaviour=pace)
            for number in range(rounds):
                # All records are asked for, so that each round reads the whole memory again.
                ours.append(visit(lab, meter, command("read", ADDRESS, "--all-records", state="0"), **settings))
                bare.append(visit(lab, meter, [sys.executable, f"{HERE}/client.py", PATH, key]))
                print(f"{name}, round {number + 1}: {ours[-1][0]:.2f} s in {ours[-1][1]} requests, bare client "
                      f"{bare[-1][0]:.2f} s in {bare[-1][1]}", flush=True)
            # The first goes into the first slot, so that it and the record before it take two requests.
            wrapped, news = [], []
            for number, visits in ((100, wrapped), (101, news), (102, news)):
                lab.ask("records", meter=meter, add=[record(number, 1)])
                visits.append(visit(lab, meter, command("read", ADDRESS, state="0"), **settings))
                assert len(visits[-1][2].splitlines()) == 1, visits[-1][2]
            took, requests = max(each[0] for each in news), max(each[1] for each in news)
        assert {each[1] for each in ours} == {each[1] for each in bare}, "not the same requests"
        ratio = statistics.median(each[0] for each in ours) / statistics.median(each[0] for each in bare)
        print(f"{name}: a full memory takes {ratio:.2f} x the bare client (bar {BAR}); one new record {took:.2f} s in "
              f"{requests} requests (bar {MOST_REQUESTS}), {wrapped[0][1]} where the ring has just come round", flush=True)
        passed = passed and ratio <= BAR and requests <= MOST_REQUESTS
    sys.exit(0 if passed else 1)


main()
