"""Terra's body events, by the schemas of tryterra/openapi (schemas/core: BodyEvent, Body and what they refer to)."""
import datetime
import re

from jsonschema import Draft202012Validator

NUMBER = {"type": "number"}
# ISO 8601 with microseconds and an offset.
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d$"}
MIDNIGHT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT0[01]:00:00\.000000[+-]\d\d:\d\d$"}


def record(required, **properties):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def samples(name, **properties):
    return {"type": "array", "minItems": 1, "items": record([name, *properties], **{name: TIME}, **properties)}


DEVICE = {key: {"type": "string"} for key in ("name", "manufacturer", "serial_number", "software_version", "hardware_version")}
PERCENT = {"type": "number", "minimum": 0, "maximum": 100}
BODY = record(
    ["metadata"],
    metadata=record(
        ["start_time", "end_time", "timestamp_localization"], start_time=MIDNIGHT, end_time=MIDNIGHT,
        timestamp_localization={"enum": [0, 1]}),
    device_data=record([], **DEVICE, other_devices={"type": "array", "items": record([], **DEVICE)}),
    blood_pressure_data=record(
        [], blood_pressure_samples=samples("timestamp", systolic_bp=NUMBER, diastolic_bp=NUMBER),
        day_avg_systolic_bp=NUMBER, day_avg_diastolic_bp=NUMBER),
    glucose_data=record(
        [], blood_glucose_samples=samples("timestamp", blood_glucose_mg_per_dL=NUMBER),
        day_avg_blood_glucose_mg_per_dL=NUMBER),
    heart_data=record(
        [],
        heart_rate_data=record(
            [],
            detailed=record(
                [], hr_samples=samples("timestamp", bpm=NUMBER), hrv_samples_rmssd=samples("timestamp", hrv_rmssd=NUMBER),
                hrv_samples_sdnn=samples("timestamp", hrv_sdnn=NUMBER)),
            summary=record([], **{key: {"type": "number", "minimum": 0} for key in
                                  ("avg_hr_bpm", "max_hr_bpm", "min_hr_bpm", "avg_hrv_rmssd", "avg_hrv_sdnn")}))),
    oxygen_data=record(
        [], avg_saturation_percentage=PERCENT,
        saturation_samples=samples("timestamp", percentage=PERCENT, type={"enum": [0, 1]})),
    temperature_data=record(
        [], body_temperature_samples=samples("timestamp", temperature_celsius=NUMBER),
        day_avg_body_temperature_celsius=NUMBER),
    measurements_data=record(
        ["measurements"],
        measurements={"type": "array", "minItems": 1, "items": record(
            ["measurement_time"], measurement_time=TIME, bodyfat_percentage=PERCENT,
            **{key: NUMBER for key in ("BMI", "BMR", "weight_kg", "height_cm", "muscle_mass_g", "lean_mass_g")})}),
)
EVENT = record(
    ["type", "data", "user", "version"], type={"const": "body"}, version={"type": "string"},
    user=record(["user_id", "provider"], **{key: {"type": "string", "minLength": 1} for key in ("user_id", "provider", "reference_id")}),
    data={"type": "array", "minItems": 1, "items": BODY},
)
VALIDATOR = Draft202012Validator(EVENT)


def times(value):
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("timestamp", "measurement_time"):
                yield part
            else:
                yield from times(part)
    elif isinstance(value, list):
        for part in value:
            yield from times(part)


def faults(document, text):
    # A query prints a list of events, one for each day of a person.
    if isinstance(document, list):
        days = [(event["user"]["user_id"], event["data"][0]["metadata"]["start_time"][:10]) for event in document]
        if len(set(days)) != len(days):
            yield "a day twice"
        for event in document:
            yield from faults(event, text)
        return
    found = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]
    yield from found
    if found:
        return
    for body in document["data"]:
        start, end = (datetime.datetime.fromisoformat(body["metadata"][key]) for key in ("start_time", "end_time"))
        if not datetime.timedelta(hours=20) <= end - start <= datetime.timedelta(hours=28):
            yield f"a day from {start} to {end}"
        for time in times(body):
            if not start <= datetime.datetime.fromisoformat(time) < end:
                yield f"{time} is not on the day"
        pressures = body.get("blood_pressure_data", {})
        for name in ("systolic_bp", "diastolic_bp"):
            values = [sample[name] for sample in pressures.get("blood_pressure_samples", [])]
            if values and abs(sum(values) / len(values) - pressures.get("day_avg_" + name, 0)) > 0.051:
                yield f"day_avg_{name} is {pressures.get('day_avg_' + name)}, not {sum(values) / len(values)}"
