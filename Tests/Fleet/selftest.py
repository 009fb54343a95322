"""Proves that the trials notice what they are for: a lost, a doubled and a changed reading. Each run begins with it."""
import asyncio

import documents
import mqtt
from engine import Failed
from fleet import Oracle, silence

TEMPLATE = {"id": "", "kind": "glucose", "glucose": {"value": 112, "unit": "mg/dL"}, "time": ""}


class Fleet:
    """Two gateways with three readings each, all with receipts."""

    names = ["sim-0", "sim-1"]

    def ask(self, what):
        return {name: {"made": 3, "acknowledged": 3, "receipted": [0, 1, 2]} for name in self.names}


class Table:
    """Answers the oracle's questions as PostgreSQL would."""

    def __init__(self):
        self.doubled = 0
        self.readings = {(name, number): documents.reading(TEMPLATE, name, number, 7)
                         for name in Fleet.names for number in range(3)}

    def sql(self, statement):
        if "HAVING" in statement:
            return str(self.doubled)
        if "body FROM" in statement:
            name = statement.split("'")[1]
            return "\n".join(documents.compact(body).decode() for key, body in self.readings.items() if key[0] == name)
        return "\n".join(f"{key[0]}|{body['id']}|{body['kind']}|{body['time']}" for key, body in self.readings.items())


def expect(what, found, expected):
    if found != expected:
        raise Failed(f"self-test: {what}: expected {expected}, found {found}")


def fails(act):
    try:
        act()
    except Failed:
        return True
    return False


def check():
    def found(change):
        table = Table()
        change(table)
        return Oracle(table, [TEMPLATE]).check(Fleet())

    def swap(table, **members):
        for key in table.readings:
            table.readings[key] = {**table.readings[key], **members}

    whole = {"stored": 6, "lost": 0, "doubled": 0, "receipt without row": 0, "others": []}
    expect("all stored", found(lambda table: None), whole)
    expect("one lost", found(lambda table: table.readings.pop(("sim-0", 1))),
           {**whole, "stored": 5, "lost": 1, "receipt without row": 1})
    expect("one doubled", found(lambda table: setattr(table, "doubled", 1)), {**whole, "doubled": 1})
    expect("one that nobody made", found(
        lambda table: table.readings.update({("sim-0", 9): documents.reading(TEMPLATE, "sim-0", 9, 7)})), {**whole, "doubled": 1})
    expect("another time is noticed", fails(lambda: found(lambda table: swap(table, time="2026-01-01T00:00:01Z"))), True)
    expect("another value is noticed", fails(lambda: found(lambda table: swap(table, glucose={"value": 211, "unit": "mg/dL"}))),
           True)
    # Readings waited from 0 to 4 and from 10 to 12; receipts came at 1, 3.5 and 11.
    expect("silence", silence({"spans": [(0, 3), (2, 4), (10, 12)], "moments": [100, 350, 1100]}), 2.5)

    async def packets():
        reader = asyncio.StreamReader()
        reader.feed_data(mqtt.publish("healthrelay/gw/readings", b"x" * 70_000, 513))
        reader.feed_data(mqtt.publish("healthrelay/gw/receipts", b"{}"))
        kind, flags, body = await mqtt.read_packet(reader)
        expect("a packet of QoS 1", (kind, mqtt.read_publish(flags, body)),
               (mqtt.PUBLISH, ("healthrelay/gw/readings", b"x" * 70_000, 513)))
        kind, flags, body = await mqtt.read_packet(reader)
        expect("a packet of QoS 0", mqtt.read_publish(flags, body), ("healthrelay/gw/receipts", b"{}", None))
    asyncio.run(packets())
