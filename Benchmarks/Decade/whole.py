#!/usr/bin/env python3
"""Measures work on the whole of a store that has grown, beside VACUUM INTO of the same file.

  whole.py HEALTHRELAY FOLDER SIZE...

FOLDER has the stores that measure.py filled; each piece of work gets a copy. The processor's time is that of the command,
user and system, and memory the most of it that was the process's own (RssAnon), looked at every 20 ms. Files are written as
usual: the time that passes is the disk's as well.
"""
import contextlib
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

PROGRAM_MEMORY, FLOOR = 64, 2.0
ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def former(store):
    """Makes the store one of the version before: the place of a pruned reading has a row for each destination, and the rules
    of all devices are lines of a setting."""
    database = sqlite3.connect(store, isolation_level=None)
    database.execute("PRAGMA legacy_alter_table = ON")
    database.execute("BEGIN")
    database.execute("DROP INDEX pruned_place_timestamp")
    database.execute("ALTER TABLE pruned_place RENAME TO newer")
    with contextlib.closing(sqlite3.connect(f"file:{ROOT}/Fixtures/stores/24/readings.sqlite?immutable=1", uri=True)) as fixture:
        table, index = (fixture.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0]
                        for name in ("pruned_place", "pruned_place_timestamp"))
    database.execute(table)
    database.execute(
        "INSERT INTO pruned_place SELECT identity, d.key, provider, type, timestamp, delivered_at FROM newer JOIN destination AS d "
        "ON block = d.key >> 5 AND destinations >> (d.key & 31) & 1 ORDER BY identity, d.key")
    database.execute("DROP TABLE newer")
    database.execute(index)
    database.execute("INSERT INTO setting SELECT 'judged.devices', group_concat(key || ' ' || judged_by, char(10)) FROM device "
                     "WHERE judged_by <> '' HAVING count(*) > 0")
    database.execute("ALTER TABLE device DROP COLUMN judged_by")
    database.execute("DELETE FROM grdb_migrations WHERE identifier LIKE '25 %'")
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
    return found


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
    print("| work on the whole store | readings | processor, s | passed, s | passed : VACUUM INTO (bar 2) | memory, MB (bar 64) | kept |")
    print("|---|---|---|---|---|---|---|")
    for size in sorted(int(each.replace("_", "")) for each in sys.argv[3:]):
        found = measure(binary, stores / str(size), folder)
        floor = found["VACUUM INTO"][1]
        for work, (used, passed, most) in found.items():
            ratio = passed / floor
            kept = "–" if most is None else "yes" if ratio <= FLOOR and most <= PROGRAM_MEMORY else "no"
            memory = "–" if most is None else f"{most:.0f}"
            print(f"| {work} | {size:,} | {used:.1f} | {passed:.1f} | {ratio:.1f} | {memory} | {kept} |", flush=True)
    shutil.rmtree(folder)


main()
