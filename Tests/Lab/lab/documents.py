"""JSON documents of the suite to meters and records, records made from a seed, and the readings that these must give."""
import random
from dataclasses import fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from . import expected, vitals
from .definitions import Context, Continuous, Glucose, Meter, Pressure

# Where the suite's meters are at home: an offset that is no whole hour, and no summer time.
ZONE = "Asia/Kolkata"


class Unclear(Exception):
    """A request that cannot be understood or done; its words are for who wrote the test."""


def checked(kind, document):
    unknown = set(document) - {each.name for each in fields(kind)}
    if unknown:
        raise Unclear(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return document


def moment(text):
    return datetime.fromisoformat(text) if text else None


def record(document, service):
    """A record; times are naive and local to the meter, octets hexadecimal."""
    document = dict(document)
    for name in ("status", "carbohydrate", "exercise", "medication", "intermediate"):
        if isinstance(document.get(name), list):
            document[name] = tuple(document[name])
    if service in vitals.KINDS:
        document["at"] = moment(document.get("at"))
        if document.get("composition"):
            document["composition"] = vitals.Composition(**checked(vitals.Composition, document["composition"]))
        return vitals.KINDS[service](**checked(vitals.KINDS[service], document))
    if service == 0x1810:
        document["at"] = moment(document.get("at"))
        return Pressure(**checked(Pressure, document))
    if service == 0x181F:
        return Continuous(**checked(Continuous, document))
    document["base"] = moment(document.get("base"))
    document["extra"] = bytes.fromhex(document.get("extra", ""))
    if document.get("context"):
        context = {name: tuple(value) if isinstance(value, list) else value for name, value in document["context"].items()}
        document["context"] = Context(**checked(Context, context))
    return Glucose(**checked(Glucose, document))


def context(source):
    """Any part may be missing, but never all of them."""
    parts = {}
    while not parts:
        if source.random() < 0.4:
            parts["carbohydrate"] = (source.choice(["breakfast", "lunch", "dinner", "snack", "drink", "supper", "brunch"]),
                                     f"0.{source.randint(1, 120):03}", "kg")
        if source.random() < 0.6:
            parts["meal"] = source.choice(["preprandial", "postprandial", "fasting", "casual", "bedtime"])
        if source.random() < 0.3:
            parts |= {"tester": source.choice(["self", "health_care_professional", "lab_test"]),
                      "health": source.choice(["minor_health_issues", "under_stress", "no_health_issues"])}
        if source.random() < 0.2:
            parts["exercise"] = (source.randint(1, 7200), source.randint(0, 100))
        if source.random() < 0.3:
            parts["medication"] = (source.choice(["rapid_acting_insulin", "long_acting_insulin"]),
                                   f"0.{source.randint(1, 40):03}", source.choice(["L", "kg"]))
        if source.random() < 0.1:
            parts["hba1c"] = f"{source.randint(45, 120) / 10:.1f}"
    return Context(**parts)


def glucose_records(source, count, first, start, step, contexts):
    for index in range(count):
        unit = source.choice(["mg/dL", "mg/dL", "mmol/L"])
        if unit == "mg/dL":
            value = source.choice([f"{source.randint(35, 540)}", f"{source.randint(400, 2000) / 10:.1f}"])
        else:
            value = source.choice([f"{source.randint(20, 300) / 10:.1f}", f"{source.randint(200, 2040) / 100:.2f}"])
        has_context = contexts and source.random() < 0.7
        yield Glucose(
            (first + index) & 0xFFFF, start + timedelta(minutes=step * index, seconds=source.randint(0, 59)), value, unit,
            offset=source.choice([None, 0, 0, 60, -30]), type=source.choice(["capillary_whole_blood", "capillary_plasma"]),
            location=source.choice(["finger", "finger", "alternate_site", "earlobe"]),
            status=source.choice([None, (), (), ("device_battery_low",)]),
            context=context(source) if has_context else None, context_first=has_context and source.random() < 0.2)


def pressure_records(source, count, start, step):
    for index in range(count):
        tenths = source.random() < 0.3
        shown = lambda low, high: f"{source.randint(low * 10, high * 10) / 10:.1f}" if tenths else str(source.randint(low, high))
        yield Pressure(
            shown(95, 180), shown(50, 94), source.choice([shown(60, 120), "NaN"]),
            at=start + timedelta(minutes=step * index, seconds=source.randint(0, 59)), pulse=shown(45, 140),
            user=source.choice([1, 2]), status=source.choice([None, (), ("irregular_pulse",), ("body_movement",)]))


def continuous_records(source, count, first, step):
    for index in range(count):
        yield Continuous(
            first + step * index, f"{source.randint(45, 350)}", source.choice([None, f"{source.randint(-40, 40) / 10:.1f}"]),
            source.choice([None, f"{source.randint(50, 100)}"]),
            source.choice([(), (), ("calibration_recommended",), ("below_patient_low", "device_battery_low")]))


def generated(document, service):
    """`{"count", "seed", "first", "contexts", "start", "step"}`: the same seed gives the same values. Records lie in the
    past, from sixty days ago where `start` does not say, `step` minutes apart."""
    source = random.Random(document.get("seed", 1))
    today = datetime.now(ZoneInfo(ZONE)).replace(tzinfo=None, hour=6, minute=0, second=0, microsecond=0)
    start = moment(document.get("start")) or today - timedelta(days=60)
    count, step = document["count"], document.get("step", 37)
    if service in vitals.KINDS:
        return list(vitals.generated(service, source, count, start, step))
    if service == 0x1810:
        return list(pressure_records(source, count, start, step))
    if service == 0x181F:
        return list(continuous_records(source, count, document.get("first", 1), document.get("step", 5)))
    return list(glucose_records(source, count, document.get("first", 1), start, step, document.get("contexts", False)))


def records(document, service):
    """A list of records, or how to make one."""
    if isinstance(document, dict):
        return generated(document, service)
    return [record(each, service) for each in document]


def ago(minutes):
    """So many minutes before now, on the suite's wall."""
    now = datetime.now(ZoneInfo(ZONE)).replace(tzinfo=None, microsecond=0)
    return None if minutes is None else now - timedelta(minutes=minutes)


def meter(document):
    document = dict(document)
    if isinstance(document.get("service"), str):
        document["service"] = int(document["service"], 16)
    document["records"] = records(document.get("records", []), document["service"])
    for name in ("session_start", "session_began"):
        document[name] = ago(document.get(name))
    if "sample" in document:
        document["sample"] = tuple(document["sample"])
    if "feature" in document:
        document["feature"] = bytes.fromhex(document["feature"])
    return Meter(**checked(Meter, {"pace": 0.002} | document))


def readings(held, definition):
    """What the command line must print of these records, apart from `id`, `deliveries` and `clock`; a time of reception is null."""
    model, provider = expected.model_of(definition)
    has_clock = definition.session_start if definition.service == 0x181F else definition.clock is not None
    clock = {"difference_seconds": definition.clock or 0} if has_clock else None
    found = []
    made = [(expected.kind_of(each), expected.made_of(each)(each, definition)) for each in held
            if not isinstance(each, vitals.Vital)]
    for kind, value in made + vitals.readings(each for each in held if isinstance(each, vitals.Vital)):
        expected.times(value, clock, None, ZONE)
        value |= {"kind": kind, "provider": provider,
                  "device": {"address": definition.address, "model": model, "serial": definition.serial}}
        found.append({key: value[key] for key in expected.KEYS if key in value and key not in ("deliveries", "clock")})
    return found
