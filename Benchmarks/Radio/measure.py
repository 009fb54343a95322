"""Reads one emulated meter with the gateway's code, a bare Python client and bleak, in turn, and compares. Run by run.sh
in the lab: `measure.py FOLDER_OF_PROGRAMS ROUNDS`."""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDS = 200


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


def run(*command):
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=180)
        if done.returncode:
            errors.seek(0)
            sys.exit(f"{command[:2]}: status {done.returncode}: {errors.read()[-2000:]}")
    return done.stdout


def read(lab, name, command):
    """One scan, pairing and reading of a fresh meter: seconds from its answer to the return, and kB resident."""
    lab.ask("reset")
    meter = {"name": "Contour Bench", "address": "C0:00:00:00:77:01", "service": "1808", "serial": "77",
             "records": {"count": RECORDS, "seed": 7, "contexts": True}}
    made = lab.ask("add", meter=meter)
    helper = None
    if name == "bleak":
        helper = subprocess.Popen([sys.executable, f"{HERE}/agent.py"], stdout=subprocess.PIPE)
        helper.stdout.readline()
    with tempfile.TemporaryDirectory() as folder:
        told = json.loads(run(*command(made["address"], meter["name"], folder)).splitlines()[-1])
    if helper:
        helper.terminate()
        helper.wait()
    if told["records"] != RECORDS:
        sys.exit(f"{name} read {told['records']} of {RECORDS} records")
    answers = [each for each in lab.ask("log", meter=made["meter"])["events"]
               if each["event"] == "sent" and each["characteristic"] == "2a52" and told["begun"] < each["at"] < told["returned"]]
    return told["returned"] - told["disconnecting"] - answers[-1]["at"], told["resident_kb"]


def main():
    programs, rounds = sys.argv[1], int(sys.argv[2])
    python = sys.executable
    lab = Lab()
    readers = {
        "healthrelay": lambda address, name, folder: [f"{programs}/read-benchmark", address, folder],
        "healthrelay, in memory": lambda address, name, folder: [f"{programs}/read-in-memory", address],
        "bare client": lambda address, name, folder: [python, f"{HERE}/client.py", name],
        "bleak": lambda address, name, folder: [python, f"{HERE}/bleak_client.py", name],
    }
    found = {name: [] for name in readers}
    for _ in range(rounds):
        for name, command in readers.items():
            found[name].append(read(lab, name, command))
            after, kilobytes = found[name][-1]
            print(f"{name}: {after * 1000:.0f} ms from the meter's answer to the return, {kilobytes / 1024:.1f} MB resident",
                  flush=True)
    nothing = int(run(f"{programs}/empty"))
    after = {name: statistics.median(each[0] for each in rounds) for name, rounds in found.items()}
    memory = {name: max(each[1] for each in rounds) for name, rounds in found.items()}
    ours = memory["healthrelay"]
    print(f"answer to return: {after['healthrelay'] / after['bare client']:.2f} x the bare client (bar 1)")
    print(f"resident: {(ours - nothing) / 1024:.1f} MB more than an empty Swift process (bar 30), "
          f"{ours / memory['bleak']:.2f} of bleak's (bar 0.5), which keeps what it read in memory: kept so, "
          f"{memory['healthrelay, in memory'] / memory['bleak']:.2f}")


main()
