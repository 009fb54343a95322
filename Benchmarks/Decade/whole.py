#!/usr/bin/env python3
"""Measures work on the whole of a store that has grown, beside VACUUM INTO of the same file.

  whole.py HEALTHRELAY FOLDER SIZE...

FOLDER has the stores that measure.py filled; each piece of work gets a copy. The processor's time is that of the command,
user and system, and memory the most of it that was the process's own (RssAnon), looked at every 20 ms. Files are written as
usual: the time that passes is the disk's as well.

VACUUM INTO copies pages one after the other. What changes or removes rows where they are is shown beside a bare loop, too, that does
nothing else to rows (through Python's sqlite3, a thousand in a commit): to BARE of them, from which the time for all is reckoned.
"""
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Benchmarks"))
from bars import NONE, Bars  # noqa: E402

PROGRAM_MEMORY, FLOOR = 64, 2.0
BARE = 100_000
# What a bare loop does to the readings whose keys are in a range.
REWRITE = ["UPDATE reading SET id = randomblob(16), content = randomblob(length(content)) WHERE key BETWEEN ?1 AND ?2",
           """UPDATE frame SET payload = randomblob(length(payload))
              WHERE key IN (SELECT frame FROM reading_frame WHERE reading BETWEEN ?1 AND ?2)"""]
REMOVE = ["DELETE FROM outbox WHERE reading BETWEEN ?1 AND ?2",
          "DELETE FROM frame WHERE key IN (SELECT frame FROM reading_frame WHERE reading BETWEEN ?1 AND ?2)",
          "DELETE FROM reading_frame WHERE reading BETWEEN ?1 AND ?2",
          "DELETE FROM reading WHERE key BETWEEN ?1 AND ?2"]
SETTINGS = """\
user: {client_user_id: anna, time_zone: Europe/Berlin}
users:
  - {client_user_id: anna, time_zone: Europe/Berlin}
  - {client_user_id: ben, time_zone: Europe/Berlin}
bluetooth: {adapter: none}
"""


def children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(arguments):
    """The processor's time, the time that passed, and the most memory of its own, in MB."""
    used, began, most = children(), time.perf_counter(), 0
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    # Progress is written to standard error: nobody may wait for it to be read.
    said = []
    reader = threading.Thread(target=lambda: said.append(process.stderr.read()))
    reader.start()
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, int(re.search(r"RssAnon:\s+(\d+)", status)[1]))
        except (OSError, TypeError):
            pass
        time.sleep(0.02)
    reader.join()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: status {process.returncode}: {said[0].decode()[-500:]}")
    return children() - used, time.perf_counter() - began, most / 1024


def vacuum(store, target):
    used, began = time.process_time(), time.perf_counter()
    database = sqlite3.connect(store, isolation_level=None)
    database.execute("VACUUM INTO ?", (str(target),))
    database.close()
    return time.process_time() - used, time.perf_counter() - began


def bare(store, statements, share=1.0):
    """The time that passes until these statements were done to a share of all readings, beginning with the oldest."""
    database = sqlite3.connect(store, isolation_level=None)
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA wal_autocheckpoint = 16384")
    total = database.execute("SELECT count(*) FROM reading").fetchone()[0]
    keys = [row[0] for row in database.execute("SELECT key FROM reading ORDER BY key LIMIT ?", (min(BARE, int(total * share)),))]
    began = time.perf_counter()
    for first in range(0, len(keys), 1000):
        batch = keys[first:first + 1000]
        database.execute("BEGIN IMMEDIATE")
        for each in statements:
            database.execute(each, (batch[0], batch[-1]))
        database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    passed = time.perf_counter() - began
    database.close()
    return passed / len(keys) * total * share


def former(store):
    """Makes the store one of the version before, without the indexes of renumbered readings."""
    database = sqlite3.connect(store, isolation_level=None)
    database.execute("BEGIN")
    database.execute("DROP INDEX reading_renumbered")
    database.execute("DROP INDEX pruned_renumbered")
    database.execute("DELETE FROM grdb_migrations WHERE identifier LIKE '26 %'")
    database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def measure(binary, filled, folder):
    found = {}
    phrase = folder / "phrase"
    phrase.write_text("of several words\n")
    phrase.chmod(0o600)
    settings = folder / "settings.yaml"
    settings.write_text(SETTINGS)
    os.environ["HEALTHRELAY_CONFIG"] = str(settings)
    state, export = folder / "state", folder / "export"

    def copy(prepare=lambda _: None):
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(mode=0o700)
        for name in ("readings.sqlite", "readings.sqlite-wal", "store.key", "pruned.key"):
            if (filled / name).exists():
                shutil.copy(filled / name, state / name)
        prepare(state / "readings.sqlite")

    def command(*arguments):
        return run([binary, *arguments, "--state-dir", state])

    copy()
    found["VACUUM INTO"] = (*vacuum(state / "readings.sqlite", folder / "copy"), None)
    (folder / "copy").unlink()
    loops = {"rotate-key": bare(state / "readings.sqlite", REWRITE)}
    loops["prune the older half"] = bare(state / "readings.sqlite", REMOVE, 0.5)
    copy()
    found["open it"] = command("store", "stats")
    found["verify"] = command("store", "verify")
    found["export"] = command("store", "export", export, "--passphrase-file", phrase)
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    found["import"] = command("store", "import", export, "--passphrase-file", phrase)
    export.unlink()
    copy()
    found["rotate-key"] = command("store", "rotate-key")
    copy()
    found["prune the older half"] = command("store", "prune", "--older-than", f"{older_half(filled)}d")
    copy()
    found["erase one of two people"] = command("store", "forget", "--user", "anna", "--yes")
    copy(former)
    found["upgrade from the version before"] = command("store", "stats")
    shutil.rmtree(state)
    return found, loops


def older_half(filled):
    database = sqlite3.connect(f"file:{filled}/readings.sqlite?mode=ro", uri=True)
    first, last = database.execute("SELECT min(time), max(time) FROM reading").fetchone()
    database.close()
    return max(1, int((time.time() - (first + last) / 2) / 86_400))


def main():
    binary, stores = sys.argv[1], pathlib.Path(sys.argv[2])
    folder = stores / "whole"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    print("| work on the whole store | readings | processor, s | passed, s | passed : VACUUM INTO (bar 2) | a bare loop, s | memory, MB (bar 64) | kept |")
    print("|---|---|---|---|---|---|---|---|")
    bars = Bars("work on the whole store")
    for size in sorted(int(each.replace("_", "")) for each in sys.argv[3:]):
        found, loops = measure(binary, stores / str(size), folder)
        floor = found["VACUUM INTO"][1]
        for work, (used, passed, most) in found.items():
            ratio = passed / floor
            kept = "–" if most is None else "yes" if ratio <= FLOOR and most <= PROGRAM_MEMORY else "no"
            memory = "–" if most is None else f"{most:.0f}"
            loop = f"{loops[work]:.1f}" if work in loops else NONE
            if most is not None:
                bars.add(f"{work}, the time that passes", size, f"{passed:.1f} s", f"VACUUM INTO: {floor:.1f} s",
                         f"a bare loop: {loop} s" if work in loops else NONE, ratio=ratio, bar=FLOOR)
                bars.add(f"{work}, memory of its own", size, f"{memory} MB", bar=PROGRAM_MEMORY, unit=" MB", value=most)
            print(f"| {work} | {size:,} | {used:.1f} | {passed:.1f} | {ratio:.1f} | {loop} | {memory} | {kept} |", flush=True)
    shutil.rmtree(folder)
    bars.leave()


main()
