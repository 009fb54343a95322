"""Ends what the trials have started, however the trials themselves end.

    python3 keeper.py

Reads lines from standard input: `pid N`, `file PATH` (a file that holds a process id) and `folder PATH`. When standard input
closes, because the trials have ended, failed or been killed, it kills those processes and removes those folders. A process id
counts together with the time at which its process started, so that a later process with the same id is left alone.
"""
import os
import shutil
import signal
import sys
import time


def started(pid):
    """When a process started, in ticks since the machine did; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def pid_in(path):
    try:
        with open(path) as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def belongs(pid, path):
    """Whether a process was started with this file's folder: its id may be another's by now."""
    folder = os.path.dirname(path).encode()
    for name in ("cmdline", "environ"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                if folder in file.read():
                    return True
        except OSError:
            pass
    return False


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def main():
    # Ctrl-C goes to the whole terminal; the keeper has to outlive it.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    processes, files, folders = [], [], []
    for line in sys.stdin:
        word, value = line.rstrip("\n").split(" ", 1)
        if word == "pid":
            processes.append((int(value), started(value)))
        elif word == "file":
            files.append(value)
        else:
            folders.append(value)
    # A process may write its id down late: look once more.
    for _ in range(3):
        for pid, start in processes:
            if start is not None and started(pid) == start:
                kill(pid)
        for path in files:
            if (pid := pid_in(path)) and belongs(pid, path):
                kill(pid)
        time.sleep(0.2)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
