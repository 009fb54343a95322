#!/usr/bin/env python3
"""Imports a generated export.xml beside a Python importer that stores the same rows: measure.py COMMAND [MEGABYTES [ROUNDS]].

COMMAND is import-benchmark or healthrelay. Bars: no more of the processor than Python, 64 MB of memory, and no more memory for a
file of four times the size.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_KB = 64 * 1024


def run(command, environment=None):
    """Runs a command: the processor's seconds, the most memory in kB, and what it printed."""
    read, write = os.pipe()
    pid = os.posix_spawnp(
        command[0], command, environment or os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read), (os.POSIX_SPAWN_CLOSE, write)])
    os.close(write)
    with os.fdopen(read) as output:
        text = output.read()
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"{command}: status {status}"
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, text


def ours(command, export, work):
    state = work / "state"
    shutil.rmtree(state, ignore_errors=True)
    if pathlib.Path(command).name == "healthrelay":
        arguments = [command, "import", str(export), "--state-dir", str(state)]
    else:
        arguments = [command, str(export), str(state)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HEALTHRELAY_", "XDG_"))}
    environment |= {"HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"}
    seconds, memory, _ = run(arguments, environment)
    return seconds, memory


def python(export, work):
    database = work / "python.db"
    for path in work.glob("python.db*"):
        path.unlink()
    seconds, memory, text = run([sys.executable, str(HERE / "importer.py"), str(export), str(database)])
    return seconds, memory, int(text)


def main():
    command = sys.argv[1]
    megabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 200
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    failed = False
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        memories = []
        for size in (megabytes / 4, megabytes):
            export = work / "export.xml"
            subprocess.run([sys.executable, str(HERE / "generate.py"), str(export), str(size)], check=True)
            pairs = []
            for _ in range(rounds if size == megabytes else 1):
                seconds, memory = ours(command, export, work)
                floor, floor_memory, count = python(export, work)
                pairs.append((seconds, floor, memory, floor_memory))
            seconds, floor = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
            memory = max(pair[2] for pair in pairs)
            memories.append(memory)
            print(f"{size:.0f} MB, {count} readings: {seconds:.2f} s of the processor, Python {floor:.2f} s "
                  f"({seconds / floor:.2f} x, bar 1); {memory / 1024:.1f} MB of memory, Python {pairs[0][3] / 1024:.1f} MB "
                  f"(bar 64 MB)", flush=True)
            failed |= seconds > floor and size == megabytes
            failed |= memory > LIMIT_KB
        print(f"memory for four times the file: {memories[1] / memories[0]:.2f} x (bar 1.1)")
        failed |= memories[1] > memories[0] * 1.1
    sys.exit(failed)


main()
