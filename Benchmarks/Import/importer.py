#!/usr/bin/env python3
"""The floor: imports an export.xml with xml.etree's iterparse into a clear SQLite file: importer.py EXPORT DATABASE.

It stores what `healthrelay import` stores of the same file: of each sample the record as it came, the reading that it makes,
what joins them, and that it waits for a destination, with the same indexes and as durably. It prints the number of readings.
"""
import hashlib
import json
import sqlite3
import sys
import xml.etree.ElementTree as ElementTree
from datetime import datetime

KINDS = {
    "HKQuantityTypeIdentifierBloodGlucose": 1, "HKQuantityTypeIdentifierHeartRate": 3,
    "HKQuantityTypeIdentifierHeartRateVariabilitySDNN": 4, "HKQuantityTypeIdentifierOxygenSaturation": 5,
    "HKQuantityTypeIdentifierBodyTemperature": 6, "HKQuantityTypeIdentifierBodyMass": 7,
    "HKQuantityTypeIdentifierBodyFatPercentage": 8,
}
BATCH = 1000
SCHEMA = """
    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE frame (key INTEGER PRIMARY KEY, received_at INTEGER NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE reading (
        key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, kind INTEGER NOT NULL, base_time INTEGER, time INTEGER,
        end_time INTEGER, offset_minutes INTEGER, source TEXT, device TEXT, is_entered INTEGER, meal TEXT, content TEXT);
    CREATE INDEX reading_time ON reading (time, id);
    CREATE INDEX reading_kind_time ON reading (kind, time, id);
    CREATE TABLE reading_frame (reading INTEGER, frame INTEGER, PRIMARY KEY (reading, frame)) WITHOUT ROWID;
    CREATE INDEX reading_frame_frame ON reading_frame (frame);
    CREATE TABLE outbox (
        reading INTEGER, destination INTEGER, user INTEGER, resource INTEGER, provider TEXT, type INTEGER,
        timestamp INTEGER, share INTEGER, state INTEGER, revision INTEGER, attempts INTEGER,
        PRIMARY KEY (reading, destination)) WITHOUT ROWID;
    CREATE UNIQUE INDEX outbox_timestamp ON outbox (destination, user, resource, provider, type, timestamp, share);
    CREATE INDEX outbox_waiting ON outbox (destination, user, resource, provider, timestamp) WHERE state = 0;
"""


def moment(text):
    time = datetime.fromisoformat(text[:19] + text[20:])
    return int(time.timestamp()), int(time.utcoffset().total_seconds()) // 60


def device_name(text):
    if not text or "name:" not in text:
        return None
    return text.split("name:", 1)[1].split(", manufacturer:", 1)[0]


class Store:
    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(SCHEMA)
        self.rows, self.key = [], 0

    def add(self, kind, attributes, values, is_entered, meal):
        start, offset = moment(attributes["startDate"])
        end, _ = moment(attributes["endDate"])
        source, device = attributes["sourceName"], device_name(attributes.get("device"))
        content = json.dumps(values)
        identity = hashlib.sha256(f"white_bear|{kind}|{start}|{end}|{source}|{content}".encode()).digest()[:16]
        self.rows.append((identity, kind, start + offset * 60, start, end, offset, source, device, is_entered, meal, content))
        if len(self.rows) == BATCH:
            self.commit()

    def commit(self):
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        for row in self.rows:
            if run("SELECT 1 FROM reading WHERE id = ?", (row[0],)).fetchone():
                continue
            self.key += 1
            run("INSERT INTO frame VALUES (?, ?, ?)", (self.key, 0, json.dumps(row[1:]).encode()))
            run("INSERT INTO reading VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (self.key, *row))
            run("INSERT INTO reading_frame VALUES (?, ?)", (self.key, self.key))
            # A destination tells readings of a kind by their second: one that is taken makes it the next.
            time = row[3]
            while run("INSERT OR IGNORE INTO outbox VALUES (?, 1, 1, ?, 'apple_health_kit', 0, ?, 0, 0, 0, 0)",
                      (self.key, row[1], time)).rowcount == 0:
                time += 1
        run("COMMIT")
        self.rows.clear()


def main():
    store, correlation = Store(sys.argv[2]), None
    events = ElementTree.iterparse(sys.argv[1], events=("start", "end"))
    _, root = next(events)
    for event, element in events:
        if event == "start":
            if element.tag == "Correlation":
                correlation = element
            continue
        if element.tag == "Record" and correlation is None:
            kind = KINDS.get(element.get("type"))
            if kind:
                notes = {entry.get("key"): entry.get("value") for entry in element}
                number = element.get("value")
                float(number)
                store.add(kind, element.attrib, [(number, element.get("unit"))],
                          notes.get("HKWasUserEntered") == "1", notes.get("HKBloodGlucoseMealTime"))
        elif element.tag == "Correlation":
            parts = [part for part in element if part.tag == "Record"]
            if len(parts) == 2:
                store.add(2, parts[0].attrib, [(part.get("value"), part.get("unit")) for part in parts], False, None)
            correlation = None
        if correlation is None:
            root.clear()
    store.commit()
    print(store.key)


main()
