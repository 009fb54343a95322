"""The readings that a capture must give, from the scenario's human values and the times of its packets.

The rules are the specification's and the project's: nothing here looks at a value's octets. A packet is found by the
octets the meter says it sent, only to learn its place and its time.
"""
import json
import struct
from datetime import timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

from .definitions import Continuous, Glucose
from . import vitals, wire

# What the name in the advertisement says about the model: (prefix, service) → model, provider.
MODELS = [("meter+", "accuchek_guide", "accuchek_ble"), ("BLESmart_", "omron_blesmart", "omron_ble"),
          ("Contour", "contour_next", "contour_ble"), ("CareSens", "caresens", "manual"),
          ("BM96", "beurer_bm96", "beurer_ble"), ("BM85", "beurer_bm85", "beurer_ble"),
          ("BM", "beurer_bm", "beurer_ble"), ("TNG VOICE", "taidoc_fora", "manual"), ("MyGlucose", "myglucose", "manual"),
          ("OneTouch", "onetouch_verio", "onetouch_ble"), ("A&D_UA-651BLE", "and_ua651ble", "manual"),
          ("B3 BT", "microlife_b3", "manual"), ("LP-BP2W", "viatom_lp_bp2w", "manual"), ("Nonin3230", "nonin_3230", "manual")]
# Of models that a person says, by their protocol.
PROVIDERS = {"omron": "omron_ble"}
# What a memory shows of measurements that were made before its clock was set was not made when it was received.
RECALLED = {"microlife", "viatom"}
GENERIC = {0x1808: ("generic_glucose", "manual"), 0x1810: ("generic_blood_pressure", "manual"),
           0x181F: ("generic_cgm", "manual")} | {service: (model, "manual") for service, model in vitals.GENERIC.items()}

# A result that its own status calls invalid is no reading; too high or low, temperature, battery and clock are remarks.
INVALID = {"sensor_malfunction", "sample_insufficient", "strip_insertion_error", "strip_type_incorrect",
           "read_interrupted", "general_fault", "session_stopped", "sensor_type_incorrect"}
# The reserved meal by which some meters say that a record is a ketone.
KETONE_MEAL = 6
# Statuses of continuous sensors that meters have too, in the meters' order; then the sensors' own.
CGM_STATUS = wire.GLUCOSE_STATUS + [name for names in wire.CGM_STATUS for name in names if name not in wire.GLUCOSE_STATUS]
# No meter's range reaches below or above: mg/dL, mmol/L, mmHg, kPa.
PLAUSIBLE = {"mg/dL": (1, 2000), "mmol/L": (Decimal("0.1"), 111)}


def model_of(meter):
    if meter.said:
        return meter.said, PROVIDERS[meter.protocol]
    for prefix, model, provider in MODELS:
        if meter.name.startswith(prefix):
            return model, provider
    return GENERIC[meter.service]


def locate(records, sent):
    """The capture's record index for each value that was sent, in the order of sending per meter; a value that is not
    in the capture is an error, for the meter saw it go. Matches the first ACL fragment."""
    found, position = [], {}
    for each in sent:
        pdu = bytes([each.opcode]) + (b"" if each.opcode == 0x0B else struct.pack("<H", each.handle)) + each.value
        start = (struct.pack("<HH", len(pdu), 4) + pdu)[:27]
        index = position.get(id(each.meter), 0)
        while index < len(records) and not (records[index].kind == 5 and records[index].body[4:] == start):
            index += 1
        found.append(index if index < len(records) else None)
        if found[-1] is not None:
            position[id(each.meter)] = index + 1
    return found


def number(text):
    return None if text is None or text in wire.SPECIALS else Decimal(text)


def rfc3339(moment):
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def wall_clock(moment):
    return moment.isoformat(timespec="seconds") if moment else None


def context_of(context):
    if context is None:
        return None

    def amount(intake, units):
        """The profile's kg and L as people write them, by moving the decimal point."""
        if intake is None:
            return None
        unit, places = units[intake[2]]
        value = number(intake[1])
        return {"id": intake[0], "value": None if value is None else value.scaleb(places), "unit": unit}

    return {"carbohydrate": amount(context.carbohydrate, {"kg": ("g", 3)}),
            "meal": "reserved" if context.meal_number is not None else context.meal, "tester": context.tester,
            "health": context.health,
            "exercise": {"seconds": context.exercise[0], "intensity_percent": context.exercise[1]}
            if context.exercise else None,
            "medication": amount(context.medication, {"kg": ("mg", 6), "L": ("mL", 3)}), "hba1c": number(context.hba1c)}


def glucose_excluded(record, sample_type):
    value = number(record.value)
    if record.never_measured or INVALID & set(record.status or ()):
        return "error_record"
    if record.value is None:
        return "no_value"
    if value is None:
        return "not_a_number"
    if "control_solution" in (sample_type, record.location):
        return "control_solution"
    if record.context and record.context.meal_number == KETONE_MEAL:
        return "ketone"
    low, high = PLAUSIBLE[record.unit]
    if not low <= value <= high:
        return "implausible"
    if record.base is None or record.offset == "unknown":
        return "no_time"
    return None


def glucose(record, meter):
    has_value = record.value is not None and meter.protocol != "onetouch"
    offset = record.offset if isinstance(record.offset, int) else None
    known = record.base is not None and record.offset != "unknown"
    sample_type = ("reserved" if record.type_number is not None else record.type) if has_value else None
    return {"sequence": None if meter.numbers_by_age and known else record.sequence,
            "base_time": wall_clock(record.base), "time_offset_minutes": offset,
            "device_time": record.base + timedelta(minutes=offset or 0) if known else None,
            "glucose": {"value": number(record.value), "unit": record.unit} if number(record.value) is not None else None,
            "sample_type": sample_type, "sample_location": record.location if has_value else None,
            "context": context_of(record.context), "status": sorted(record.status or (), key=wire.GLUCOSE_STATUS.index),
            "user": None, "excluded": glucose_excluded(record, sample_type)}


def continuous(record, meter):
    """A record's number is its minute, its time the session's start and that minute."""
    start = meter.session_start
    base = start + timedelta(minutes=record.sequence) if start else None
    measured = lambda text, unit: {"value": number(text), "unit": unit} if number(text) is not None else None
    glucose, status = measured(record.value, "mg/dL"), sorted(record.status, key=CGM_STATUS.index)
    low, high = PLAUSIBLE["mg/dL"]
    excluded = None
    if INVALID & set(status):
        excluded = "error_record"
    elif glucose is None:
        excluded = "not_a_number"
    elif "control_solution" in meter.sample:
        excluded = "control_solution"
    elif not low <= glucose["value"] <= high:
        excluded = "implausible"
    elif base is None:
        excluded = "no_time"
    return {"sequence": record.sequence, "base_time": wall_clock(base), "time_offset_minutes": None, "device_time": base,
            "glucose": glucose, "sample_type": meter.sample[0], "sample_location": meter.sample[1], "context": None,
            "trend": measured(record.trend, "mg/dL/min"), "quality": measured(record.quality, "%"), "status": status,
            "user": None, "excluded": excluded}


def pressure(record, meter):
    measured = lambda text: {"value": number(text), "unit": record.unit} if number(text) is not None else None
    value = {"sequence": None, "base_time": wall_clock(record.at), "time_offset_minutes": None, "device_time": record.at}
    if record.intermediate:
        value["cuff_pressure"] = measured(record.systolic)
    else:
        value["blood_pressure"] = {"systolic": measured(record.systolic), "diastolic": measured(record.diastolic),
                                   "mean": measured(record.mean)}
    pulse = number(record.pulse)
    value |= {"pulse": {"value": pulse, "unit": "bpm"} if pulse is not None else None,
              "user": None if record.user == 255 else record.user,
              "status": sorted(record.status or (), key=["device_battery_low", *wire.CUFF_STATUS].index),
              "excluded": "intermediate" if record.intermediate
              else "no_time" if record.at is None and meter.protocol in RECALLED else None}
    return value


def omitted(record):
    """What the meter sent and is no number, by the name it has in the reading."""
    if isinstance(record, Glucose):
        parts = {"glucose": record.value}
        for name in ("carbohydrate", "medication"):
            intake = getattr(record.context, name, None) if record.context else None
            parts[name] = intake[1] if intake else None
        parts["hba1c"] = record.context.hba1c if record.context else None
    elif isinstance(record, Continuous):
        parts = {"glucose": record.value, "trend": record.trend, "quality": record.quality}
    elif record.intermediate:
        parts = {"cuff_pressure": record.systolic}
    else:
        parts = {"systolic": record.systolic, "diastolic": record.diastolic, "mean": record.mean, "pulse": record.pulse}
    return {name: "not_a_number" for name, text in parts.items() if text in wire.SPECIALS}


def kind_of(record):
    return "glucose" if isinstance(record, (Glucose, Continuous)) else "blood_pressure"


def made_of(record):
    """What makes the reading of a record."""
    return continuous if isinstance(record, Continuous) else glucose if isinstance(record, Glucose) else pressure


def times(value, clock, received, zone):
    """Puts device_time, time, its basis and the clock into a reading."""
    device_time = value["device_time"]
    value["device_time"] = wall_clock(device_time)
    value |= {"time": None, "time_basis": "unknown", "time_uncertainty_minutes": None, "clock": None}
    if device_time is not None:
        moment = device_time.replace(tzinfo=ZoneInfo(zone))
        value["time_basis"] = "assumed_zone"
        if clock:
            value["time_basis"], value["clock"] = "corrected", clock
            difference = clock["difference_seconds"]
            if abs(difference) >= 120:
                moment -= timedelta(minutes=round(difference / 60))
        value["time"] = rfc3339(moment)
    elif received is not None:
        value["time_basis"], value["time"] = "reception", rfc3339(received)
    return value


KEYS = ["kind", "device", "provider", "sequence", "base_time", "time_offset_minutes", "device_time", "time", "time_basis",
        "time_uncertainty_minutes", "clock", "glucose", "blood_pressure", "cuff_pressure", "spo2", "pulse", "temperature", "site", "weight",
        "body_mass_index", "height", "body_composition", "composition", "sample_type",
        "sample_location", "context", "trend", "quality", "status", "user", "omitted", "excluded", "deliveries"]


def document(scenario, records, sent, clocks):
    """The expected document. `clocks`: what each Current Time read said, as (Sent, naive local datetime)."""
    sent = [each for each in sent if each.opcode != 0x0B or each.characteristic in (0x2A2B, 0x2A08, 0x2AA9, 0x2A25)]
    places = dict(zip(map(id, sent), locate(records, sent)))
    # What each meter's clock showed, by the place of the packet: a record goes with what was last read before it.
    clocks_of, serial_of = {}, set()
    for each in sent:
        place = places[id(each)]
        if place is None:
            continue
        if each.characteristic == 0x2A25:
            serial_of.add(each.meter.name)
        is_clock = each.characteristic == 0x2A2B or each.value in each.meter.shown
        if is_clock:
            read_at = records[place].time.replace(microsecond=0)
            shown = clocks[each.value] if each.characteristic == 0x2A2B else each.meter.shown[each.value]
            difference = shown - read_at.astimezone(ZoneInfo(scenario.zone)).replace(tzinfo=None)
            clocks_of.setdefault(each.meter.name, []).append(
                (place, {"difference_seconds": int(difference.total_seconds()), "read_at": rfc3339(read_at)}))

    first, seen, malformed, intermediate = [], set(), [], []
    ordered = sorted((each for each in sent if each.record is not None and places[id(each)] is not None),
                     key=lambda each: places[id(each)])
    frames = sum(each.record is not None for each in sent)
    assert len(ordered) == frames, f"{frames - len(ordered)} frames of {frames} are not in the capture"
    for each, record in ((each, record) for each in ordered for record in getattr(each.record, "records", [each.record])):
        meter = each.meter
        if getattr(record, "cut_to", None):
            malformed.append({"characteristic": f"{each.characteristic:04x}", "hex": each.value.hex()})
            continue
        if getattr(record, "wrong_checksum", False):
            malformed.append({"characteristic": "2aa7", "hex": record.octets(meter.checksums).hex()})
            continue
        if id(record) in seen or getattr(record, "is_partner", False):
            continue
        seen.add(id(record))
        kind, value = kind_of(record), made_of(record)(record, meter)
        has_no_time = kind == "blood_pressure" and meter.protocol not in RECALLED
        received = records[places[id(each)]].time if has_no_time else None
        before = [clock for place, clock in clocks_of.get(meter.name, ()) if place < places[id(each)]]
        times(value, before[-1] if before else None, received, scenario.zone)
        model, provider = model_of(meter)
        value |= {"kind": kind, "provider": provider, "deliveries": [], "omitted": omitted(record),
                  "device": {"address": meter.address, "model": model,
                             "serial": meter.serial if meter.name in serial_of else None}}
        value = {key: value[key] for key in KEYS if key in value}
        (intermediate if value["excluded"] == "intermediate" else first).append(value)
    result = {"capture": scenario.name + ".btsnoop", "time_zone": scenario.zone, "readings": first, "malformed": malformed}
    if intermediate:
        result["intermediate"] = intermediate
    return result


def dump(value, indent=""):
    """JSON whose numbers keep their digits; one reading a line."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dump(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value)


def dump_document(document):
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            lines.append(f"{json.dumps(key)}: [\n  " + ",\n  ".join(map(dump, value)) + "\n ]")
        else:
            lines.append(f"{json.dumps(key)}: {dump(value)}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"
