#!/usr/bin/env python3
"""The FreeStyle Libre 1 a second time: encodes and decodes memories as Documentation/libre.md describes them, and shares
nothing with the Swift code, so that both cannot agree on one mistake.

  libre1.py decode            a line "MEMORY UID PATCH" each, in hexadecimal ("-" for none) -> what it says, as JSON
  libre1.py random SEED COUNT lines "MEMORY UID PATCH<tab>JSON" of sensors and of noise
  libre1.py fixtures FOLDER   writes the fixtures; with --check compares instead
"""
import json
import math
import pathlib
import random
import sys

STATES = {1: "not_activated", 2: "warming_up", 3: "active", 4: "expired", 5: "shut_down", 6: "failure"}
REGIONS = {1: "europe", 2: "united_states", 4: "australia_canada", 8: "rest_of_world"}
PARTS = {"header": (0, 24), "body": (24, 320), "footer": (320, 344)}
SYMBOLS = "0123456789ACDEFGHJKLMNPQRTUVWXYZ"


def crc(octets):
    register = 0xFFFF
    for octet in octets:
        for bit in range(8):
            mixed = (register ^ octet >> bit) & 1
            register = register >> 1 ^ (0x8408 if mixed else 0)
    return int(f"{register:016b}"[::-1], 2)


assert crc(b"123456789") == 0x89F6


def bits(memory, octet, first, count):
    return int.from_bytes(memory[octet:octet + 8], "little") >> first & (1 << count) - 1


def lines():
    """Intercept and slope of i2 = 1, 2, ... 1023."""
    for row in range(124):
        start = 0.75 if row < 87 else 1.0
        stop = 2.5 if row < 64 else 2.75 if row < 116 else 3.0
        for step in range(round((stop - start) / 0.25) + 1):
            yield start + 0.25 * step, 0.0377442 * 1.01 ** row


LINES = list(lines())
assert len(LINES) == 1023


def model(patch):
    if len(patch) == 24:
        return "libre3"
    if len(patch) < 6:
        return "unknown"
    plus = {0x7F: patch[2] & 15 == 1, 0x2B: patch[2] & 15 == 10}.get(patch[0], patch[0] in (0xC6, 0x2C))
    return {0xDF: "libre1", 0xA2: "libre1", 0xE5: "libre_us_14_day", 0xE6: "libre_us_14_day", 0x70: "libre_pro"}.get(
        patch[0], ("libre2_plus" if plus else "libre2") if patch[0] in (0x9D, 0xC5, 0xC6, 0x7F, 0x76, 0x2B, 0x2C) else "unknown")


def serial(uid, patch):
    number = int.from_bytes(uid[2:], "big") << 2
    family = patch[2] >> 4 if 6 <= len(patch) < 24 else 0
    return str(family) + "".join(SYMBOLS[number >> 5 * place & 31] for place in range(9, -1, -1))


def calibration(memory):
    i3 = bits(memory, 336, 0, 8) * (-1 if bits(memory, 336, 33, 1) else 1)
    return {"i1": bits(memory, 2, 0, 3), "i2": bits(memory, 2, 3, 10), "i3": i3, "i4": bits(memory, 336, 8, 14),
            "i5": bits(memory, 336, 40, 12) * 4, "i6": bits(memory, 336, 52, 12) * 4}


def calibration_fault(good, i):
    if not good["header"]:
        return "header_crc"
    if not good["footer"]:
        return "footer_crc"
    return "no_calibration" if i["i2"] == 0 else "no_slope" if i["i4"] == i["i3"] else None


def estimate(raw, i):
    """(mg/dL, degrees), or None."""
    scale = raw["adjustment"] + i["i6"]
    if scale == 0:
        return None
    r = raw["temperature"] * 72500 / scale - 1000
    if r <= 0:
        return None
    ln = math.log(r)
    inverse = 0.0009180023 + 0.0001964561 * ln + 0.0000007061775 * ln ** 2 + 0.00000005283566 * ln ** 3
    try:
        t = 1 / inverse - 273.15
        t1, t2 = LINES[i["i2"] - 1]
        value = (65 * (raw["glucose"] - i["i3"]) / (i["i4"] - i["i3"]) * 1.045 ** (32.5 - t) - t1) / t2
    except (OverflowError, ZeroDivisionError):
        return None
    value = math.copysign(math.floor(abs(value) + 0.5), value)
    return (int(value), t) if abs(value) < 1_000_000 else None


def record(memory, place):
    word = int.from_bytes(memory[place:place + 6], "little")
    size = (word >> 38 & 0x1FF) * 4
    return {"glucose": word & 0x3FFF, "temperature": (word >> 26 & 0xFFF) * 4, "adjustment": -size if word >> 47 else size,
            "quality": word >> 14 & 0x1FF, "flags": word >> 23 & 3, "error": bool(word >> 25 & 1)}


def history_count(age, index):
    """How many records the history ring has seen, None where index and age contradict each other."""
    since = max(age - 3, 0)
    if since // 15 % 32 == index:
        return since // 15
    if since % 15 == 14 and (since // 15 + 1) % 32 == index:
        return since // 15 + 1
    return None


def active_until(memory, state, age, life):
    """The minute from which on records do not count for the sensor's state: a sensor that ended early, or failed, has none that do."""
    if state == "active":
        return 1 << 16
    noted = memory[6:9]
    ended = state == "expired" or state == "shut_down" and (noted == bytes(3) or noted == b"\x03" + life.to_bytes(2, "little"))
    return life if ended and age >= life else 0


def readings(memory, good, state, i, fault, life):
    if not good["body"]:
        return [], "body_crc", "body_crc"
    age, trend, history = memory[316] | memory[317] << 8, memory[26], memory[27]
    found, trend_fault, history_fault = [], None, None
    end = active_until(memory, state, age, life)
    # After the end of its life the age goes on, and the rings stand still.
    if state in ("expired", "shut_down") and good["footer"] and life < age and trend < 16 and (life - trend) % 16 <= 1 \
            and history_count(life, history) is not None:
        age = life
    behind = (age - trend) % 16
    if trend >= 16:
        trend_fault = "index_out_of_range"
    elif behind > 1:
        trend_fault = "index_disagrees_with_age"
    else:
        found += [(age - behind - back, 0, "trend", record(memory, 28 + 6 * ((trend - 1 - back) % 16))) for back in range(16)]
    count = history_count(age, history)
    if history >= 32:
        history_fault = "index_out_of_range"
    elif count is None:
        history_fault = "index_disagrees_with_age"
    else:
        found += [(15 * (count - back), 1, "history", record(memory, 124 + 6 * ((history - 1 - back) % 32))) for back in range(32)]
    result = []
    for minute, _, source, raw in sorted(found, key=lambda each: each[:2]):
        if raw["glucose"] == 0 or not 0 <= minute <= age:
            continue
        value = None if fault or raw["error"] else estimate(raw, i)
        plausible = value and 1 <= value[0] <= 1500 and 0 <= value[1] <= 60
        excluded = ("error_record" if raw["error"] else "no_value" if value is None else "implausible" if not plausible
                    else None if 60 <= minute < end else "sensor_not_active")
        result.append({"source": source, "minute": minute, "raw": raw, "calibration": "factory_estimate" if value else "none",
                       "glucose": {"value": value[0], "unit": "mg/dL"} if value else None, "excluded": excluded})
    return result, trend_fault, history_fault


def decode(memory, uid=None, patch=None):
    good = {name: int.from_bytes(memory[start:start + 2], "little") == crc(memory[start + 2:stop])
            for name, (start, stop) in PARTS.items()}
    state = STATES.get(memory[4], "unknown") if good["header"] else None
    failed = state == "failure"
    age = int.from_bytes(memory[316:318], "little") if good["body"] else None
    life = int.from_bytes(memory[326:328], "little") if good["footer"] else None
    i = calibration(memory)
    fault = calibration_fault(good, i)
    found, trend_fault, history_fault = readings(memory, good, state, i, fault, life or 0)
    sensor = {
        "serial": serial(uid, patch or b"") if uid else None, "uid": uid.hex().upper() if uid else None,
        "type": model(patch) if patch else None, "state": state, "age_minutes": age, "max_life_minutes": life,
        "region": REGIONS.get(memory[323], "unknown") if good["footer"] else None, "crc": good,
        "life_left_minutes": None if age is None or life is None else max(0, life - age),
        "initialisations": memory[318] if good["body"] else None,
        "error_code": memory[6] if failed else None,
        "failed_at_minutes": (int.from_bytes(memory[7:9], "little") or None) if failed else None,
        "calibration_fault": fault, "trend_fault": trend_fault, "history_fault": history_fault}
    return {"sensor": sensor, "readings": found}


def encode(age, rule, state=3, i=(3, 500, 10, 6000, 4800, 8000), region=1, life=20880, advanced=False, behind=0, failure=(0, 0),
           initialisations=1, stopped=None):
    """A memory with right CRCs. `rule(source, minute)` gives a record's numbers, or None for an empty slot; the newest trend
    record is `behind` minutes behind the age, or behind the age at which the rings have `stopped`."""
    memory = bytearray(344)

    def put(octet, first, count, value):
        word = int.from_bytes(memory[octet:octet + 8], "little") & ~((1 << count) - 1 << first) | value << first
        memory[octet:octet + 8] = word.to_bytes(8, "little")

    def put_record(place, raw):
        if raw is None:
            return
        glucose, temperature, adjustment, quality, flags, error = raw
        word = (glucose | quality << 14 | flags << 23 | error << 25 | temperature // 4 << 26 | abs(adjustment) // 4 << 38
                | (adjustment < 0) << 47)
        memory[place:place + 6] = word.to_bytes(6, "little")

    memory[4] = state
    memory[6], memory[7], memory[8] = failure[0], failure[1] & 255, failure[1] >> 8
    i1, i2, i3, i4, i5, i6 = i
    put(2, 0, 3, i1)
    put(2, 3, 10, i2)
    for first, count, value in ((0, 8, abs(i3)), (33, 1, i3 < 0), (8, 14, i4), (40, 12, i5 // 4), (52, 12, i6 // 4)):
        put(336, first, count, int(value))
    rings = age if stopped is None else stopped
    newest = max(rings - behind, 0)
    for minute in range(max(newest - 15, 1), newest + 1):
        put_record(28 + 6 * ((minute - 1) % 16), rule("trend", minute))
    count = max(rings - 3, 0) // 15 + (1 if advanced else 0)
    for number in range(max(1, count - 31), count + 1):
        put_record(124 + 6 * ((number - 1) % 32), rule("history", 15 * number))
    memory[26], memory[27] = newest % 16, count % 32
    memory[316], memory[317], memory[318] = age & 255, age >> 8, initialisations
    memory[322], memory[323] = 0, region
    memory[326], memory[327] = life & 255, life >> 8
    seal(memory)
    return memory


def seal(memory):
    for start, stop in PARTS.values():
        memory[start:start + 2] = crc(memory[start + 2:stop]).to_bytes(2, "little")


def text(value):
    return json.dumps(value, separators=(",", ":"))


def some_sensor(source):
    """A memory of a sensor, now and then with a fault, or of noise."""
    age = source.choice([source.randrange(0, 700), source.randrange(0, 65536), 15 * source.randrange(1, 1400) + 2])
    kind = source.randrange(8)
    i = tuple(source.choice([0, 1 << bits, source.randrange(1 << bits)]) & (1 << bits) - 1 for bits in (3, 10, 8, 14, 12, 12))
    i = (i[0], i[1], i[2] * source.choice([1, 1, -1]), i[3], i[4] * 4, i[5] * 4)
    if kind:
        i = (3, source.randrange(1, 1024), source.randrange(-40, 40), source.randrange(4000, 9000), 4800, source.randrange(7000, 9000, 4))

    def rule(_, minute):
        if source.randrange(20) == 0:
            return None
        if source.randrange(30) == 0:
            return (source.randrange(1 << 14), source.randrange(1 << 12) * 4, source.choice([-4, 4]) * source.randrange(512),
                    source.randrange(512), source.randrange(4), source.randrange(2))
        return (source.randrange(400, 3500), source.randrange(6000, 7600, 4), source.randrange(-40, 40, 4), 0x120, 0, 0)

    memory = encode(age, rule, state=source.choice([3, 3, 3, source.randrange(8)]), i=i, region=source.choice([1, 2, 4, 8, 3]),
                    life=source.choice([20880, source.randrange(65536)]), advanced=(age - 3) % 15 == 14 and source.random() < 0.5,
                    behind=source.choice([0, 1, 1]), failure=(source.randrange(256), source.choice([0, source.randrange(65536)])),
                    initialisations=source.randrange(4))
    if source.randrange(8) == 0:
        life = source.randrange(20, 64000)
        memory = encode(life + source.randrange(1500), rule, state=source.choice([4, 5]), i=i, life=life, behind=source.choice([0, 1, 1]),
                        failure=source.choice([(0, 0), (3, life), (3, life - 1), (11, life)]), stopped=life)
    if kind == 1:
        for place in range(344):
            memory[place] = source.randrange(256)
        if source.random() < 0.8:
            seal(memory)
    elif kind == 2:
        memory[source.choice([source.randrange(344), source.randrange(24), 320 + source.randrange(24)])] ^= 1 << source.randrange(8)
    elif kind == 3:
        memory[source.choice([26, 27])] = source.randrange(40)
        seal(memory)
    return bytes(memory)


def wave(source, minute):
    """Numbers of a day, from no person: two slow waves over each other, the history a little smoother."""
    slow = math.sin(minute / 173) * 420 + math.sin(minute / 61) * (160 if source == "trend" else 150)
    return (round(1250 + slow), 6800 + minute // 7 % 25 * 4, minute // 15 % 9 * 4 - 16, 0x120 if minute % 11 else 0, 0, 0)


def fixtures():
    uid, patch = bytes.fromhex("E007A00000C0FFEE"), bytes.fromhex("DF0000010102")

    def odd(source, minute):
        if source == "trend" and minute % 5 == 0:
            glucose, temperature, adjustment, quality, flags, _ = wave(source, minute)
            return glucose, temperature, adjustment, quality | 0x100, flags, 1
        return None if source == "history" and minute % 60 == 0 else wave(source, minute)

    yield "active", encode(5021, odd), uid, patch
    yield "advanced", encode(15 * 400 + 2, wave, advanced=True, behind=1), uid, patch
    yield "uncalibrated", encode(1234, wave, i=(0, 0, 0, 0, 0, 0)), uid, patch
    torn = encode(2345, wave)
    torn[200] ^= 0x40
    yield "torn", torn, uid, patch
    yield "expired", encode(20912, wave, state=4), uid, bytes.fromhex("A20800040000")
    yield "failed", encode(9876, wave, state=6, failure=(0x0B, 9870), region=8), uid, patch


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["decode"]:
        for line in sys.stdin:
            memory, uid, patch = (bytes.fromhex(word) if word != "-" else None for word in line.split())
            print(text(decode(memory, uid, patch)))
    elif arguments[:1] == ["random"]:
        source = random.Random(int(arguments[1]))
        for _ in range(int(arguments[2])):
            memory, uid = some_sensor(source), b"\xE0\x07\xA0" + source.randbytes(5)
            patch = bytes([source.choice([0xDF, 0xA2]), source.randrange(256)]) + source.randbytes(4)
            print(memory.hex(), uid.hex(), patch.hex() + "\t" + text(decode(memory, uid, patch)))
    elif arguments[:1] == ["fixtures"]:
        folder, differ = pathlib.Path(arguments[1]), []
        for name, memory, uid, patch in fixtures():
            blocks = "".join(memory[place:place + 8].hex(" ").upper() + "\n" for place in range(0, 344, 8))
            expected = {"dump": f"{name}.hex", "uid": uid.hex().upper(), "patch_info": patch.hex().upper(), **decode(memory, uid, patch)}
            head = json.dumps({key: expected[key] for key in expected if key != "readings"})[1:-1]
            rows = ",\n  ".join(json.dumps(each) for each in expected["readings"])
            written = f'{{{head}, "readings": [{"" if not rows else chr(10) + "  " + rows + chr(10)}]}}\n'
            for path, content in ((folder / f"{name}.hex", blocks), (folder / f"{name}.expected.json", written)):
                if "--check" in arguments:
                    if not path.exists() or path.read_text() != content:
                        differ.append(path.name)
                else:
                    path.write_text(content)
        if differ:
            sys.exit("these fixtures are not what is described: " + ", ".join(differ))
    else:
        sys.exit(__doc__)


main()
