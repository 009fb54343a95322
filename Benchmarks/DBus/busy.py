"""Reads the same notifications alone, and while the same process delivers a backlog to five destinations, and compares
what the notifications took. Run by busy.sh:
`busy.py NOTIFICATIONS DELIVERY_BENCHMARK [ROUNDS [COUNT [MILLISECONDS [READINGS]]]]`.

What is compared is the time of the processor that the thread of the bus takes for a notification. In both runs that
thread reads the bus and decodes the records. A process's whole time would count the deliveries, which are work of their
own. A reader that shares a lock, an allocator or an executor with deliveries pays for it in its thread's time.

The reader must not fall behind either. The sender sends five notifications a millisecond, so the time from the first to
the last says whether the reader kept up. Both times have the same bar.

The destinations answer as servers do, each request after MILLISECONDS (50). All five go on during the whole run and leave
a part of the processor, as deliveries over a network do. With 0 they take all of it. On a machine with two processors,
which the sender and the bus need too, the run then measures the machine's scheduler.

A third run, with the same deliveries in another process, tells the two apart: what it takes more than the first is the
price of a busy machine (its caches, its clock, the other thread of a processor's core). It has no bar.
"""
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import measure

SINK = os.path.join(measure.HERE, "../Delivery/sink.py")
KINDS = {"vital": "", "influxdb": "", "nightscout": "", "fhir": "/fhir", "webhook": "/hook"}
BAR = 1.05


def main():
    program, backlog = sys.argv[1:3]
    given = [int(each) for each in sys.argv[3:]]
    rounds, count, delay, readings = given + [3, 50_000, 50, 150_000][len(given):]
    ratios = {"processor": [], "elapsed": []}
    good = True
    with tempfile.TemporaryDirectory(prefix="healthrelay-busy.") as folder, contextlib.ExitStack() as ending:
        sink = subprocess.Popen([sys.executable, SINK, str(delay)], stdout=subprocess.PIPE, text=True)
        ending.callback(sink.wait)
        ending.callback(sink.terminate)
        port = int(sink.stdout.readline())
        sinks = [f"{kind}=http://127.0.0.1:{port}{path}" for kind, path in KINDS.items()]
        full, store = f"{folder}/full", f"{folder}/store"
        subprocess.run([backlog, "fill", full, str(readings), *sinks], check=True)
        ending.enter_context(measure.bus(program, count, 5, 1000))

        def read(*arguments):
            output = subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, timeout=900).stdout
            found = json.loads(output)
            # How many notifications came in a burst is told, since a burst of more costs less.
            print(f"{arguments[0]}: {found['thread'] / count:.2f} us of the bus's thread a notification, "
                  f"{found['elapsed'] / 1e6:.2f} s, {found['count'] / found['bursts']:.1f} in a burst, "
                  f"{found['count']} of {count} read", flush=True)
            return found

        for number in range(1, rounds + 1):
            alone = read("read")
            shutil.copytree(full, store)
            with delivering(program, store, sinks):
                beside = read("read")
            shutil.rmtree(store)
            shutil.copytree(full, store)
            busy = read("read-delivering", store, *sinks)
            shutil.rmtree(store)
            good = good and all(
                each["count"] == count and each["sum"] == alone["sum"] for each in (alone, beside, busy))
            told = ", ".join(f"{kind} {each}" for kind, each in zip(KINDS, busy["delivered"]))
            # A destination whose backlog was gone before the end was not busy.
            good = good and all(0 < each < readings for each in busy["delivered"])
            ratios["processor"].append(busy["thread"] / alone["thread"])
            ratios["elapsed"].append(busy["elapsed"] / alone["elapsed"])
            print(f"round {number}: {ratios['processor'][-1]:.3f} x the processor's time and "
                  f"{ratios['elapsed'][-1]:.3f} x the time; with another process that delivers "
                  f"{beside['thread'] / alone['thread']:.3f} x and {beside['elapsed'] / alone['elapsed']:.3f} x; "
                  f"delivered meanwhile: {told}", flush=True)
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    print(f"median: {medians['processor']:.3f} x the processor's time, {medians['elapsed']:.3f} x the time (bar {BAR})")
    if not good:
        print("FAILED: notifications were lost, or a destination was not busy to the end")
    sys.exit(0 if good and max(medians.values()) <= BAR else 1)


@contextlib.contextmanager
def delivering(program, store, sinks):
    """Another process that delivers."""
    process = subprocess.Popen([program, "deliver", store, *sinks], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            sys.exit("the delivery did not come up")
        yield
    finally:
        process.kill()
        process.wait()


main()
