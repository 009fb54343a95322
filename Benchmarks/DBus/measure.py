"""Reads the same notifications in turn with a C libdbus reader, ours and bleak, on one private bus, and compares what
each took of the processor. Run by run.sh: `measure.py C_READER NOTIFICATIONS ROUNDS [COUNT [BURST MICROSECONDS]]`."""
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
  <limit name="max_outgoing_bytes">1000000000</limit>
</busconfig>
"""


def main():
    c_reader, ours, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    count, burst, interval = (int(each) for each in (sys.argv[4:] + ["100000", "5", "1000"][len(sys.argv) - 4:]))
    readers = {
        "C": [c_reader],
        "ours": [ours, "read"],
        "ours, taken on another thread": [ours, "read-elsewhere"],
        "bleak": [sys.executable, f"{HERE}/bleak_reader.py"],
    }
    with bus(ours, count, burst, interval):
        isGood = compare(readers, rounds, count)
    sys.exit(0 if isGood else 1)


@contextlib.contextmanager
def bus(program, count, burst, interval):
    """A private bus, which the environment names, with a sender of notifications on it."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/bus.conf", "w") as file:
            file.write(CONFIGURATION.format(folder=folder))
        daemon = subprocess.Popen(["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--print-address=1"],
                                  stdout=subprocess.PIPE, text=True)
        os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = daemon.stdout.readline().strip()
        sender = subprocess.Popen([program, "send", str(count), str(burst), str(interval)], stdout=subprocess.PIPE,
                                  text=True)
        try:
            if sender.stdout.readline() != "ready\n":
                sys.exit("the sender did not come up")
            yield
        finally:
            for each in (sender, daemon):
                each.send_signal(signal.SIGKILL)
                each.wait()


def compare(readers, rounds, count):
    ratios = {"C": [], "bleak": []}
    good = True
    for number in range(rounds):
        cost, sums = {}, set()
        for name, command in readers.items():
            told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=900).stdout)
            cost[name] = told["microseconds"] / count
            sums.add(told["sum"])
            bursts = f", {told['count'] / told['bursts']:.1f} in a burst" if "bursts" in told else ""
            print(f"{name}: {cost[name]:.2f} us a notification, {told['count']} of {count} read{bursts}", flush=True)
            good = good and told["count"] == count
        good = good and len(sums) == 1
        for other in ratios:
            ratios[other].append(cost["ours"] / cost[other])
        elsewhere = cost["ours, taken on another thread"]
        print(f"round {number + 1}: {ratios['C'][-1]:.2f} x C, {ratios['bleak'][-1]:.2f} x bleak; taken on another "
              f"thread {elsewhere / cost['C']:.2f} x C, {elsewhere / cost['bleak']:.2f} x bleak", flush=True)
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    print(f"median: {medians['C']:.2f} x C (bar 1.5), {medians['bleak']:.2f} x bleak (bar 0.6)")
    if not good:
        print("FAILED: notifications were lost, or the readers decoded them differently")
    return good and medians["C"] <= 1.5 and medians["bleak"] <= 0.6


if __name__ == "__main__":
    main()
