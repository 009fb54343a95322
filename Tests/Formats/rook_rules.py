"""ROOK's event documents, by its documentation and by the samples that its users have published."""
from jsonschema import Draft202012Validator

INTEGER, FLOAT = {"type": "integer"}, {"type": "number"}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"}


def record(required, **properties):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def granular(**properties):
    return {"type": "array", "minItems": 1, "items": record(
        [*properties, "datetime_string", "interval_duration_seconds_float"], **properties, datetime_string=TIME,
        interval_duration_seconds_float=FLOAT)}


PRESSURE = {"systolic_mmHg_int": INTEGER, "diastolic_mmHg_int": INTEGER}
TEMPERATURE = {"temperature_celsius_float": FLOAT, "measurement_type_string": {"type": ["string", "null"]}}
EVENTS = {
    "blood_glucose_event": ("blood_glucose", record(
        ["blood_glucose_avg_mg_per_dL_int", "blood_glucose_granular_data_array"], blood_glucose_avg_mg_per_dL_int=INTEGER,
        blood_glucose_granular_data_array=granular(blood_glucose_mg_per_dL_int=INTEGER))),
    "blood_pressure_event": ("blood_pressure", record(
        ["blood_pressure_avg_object", "blood_pressure_granular_data_array"],
        blood_pressure_avg_object=record([*PRESSURE], **PRESSURE), blood_pressure_granular_data_array=granular(**PRESSURE))),
    "heart_rate_event": ("heart_rate", record(
        [], hr_maximum_bpm_int=INTEGER, hr_minimum_bpm_int=INTEGER, hr_avg_bpm_int=INTEGER,
        hr_resting_bpm_int={"type": ["integer", "null"]}, hrv_avg_rmssd_float=FLOAT, hrv_avg_sdnn_float=FLOAT,
        hr_granular_data_array=granular(hr_bpm_int=INTEGER))),
    "oxygenation_event": ("oxygenation", record(
        ["saturation_avg_percentage_int"], saturation_avg_percentage_int={"type": "integer", "minimum": 0, "maximum": 100},
        saturation_granular_data_array=granular(saturation_percentage_int=INTEGER))),
    "temperature_event": ("temperature", record(
        ["temperature_avg_object"], temperature_avg_object=record([*TEMPERATURE], **TEMPERATURE),
        temperature_granular_data_array=granular(**TEMPERATURE))),
    "body_metrics_event": ("body_metrics", record([], weight_kg_float=FLOAT, height_cm_int=INTEGER, bmi_float=FLOAT)),
}


def event(structure):
    name, values = EVENTS[structure]
    return record(
        ["metadata", name, "non_structured_data_array"], non_structured_data_array={"type": ["array", "null"]}, **{name: values},
        metadata=record(
            ["datetime_string", "user_id_string", "sources_of_data_array", "was_the_user_under_physical_activity_bool"],
            datetime_string=TIME, user_id_string={"type": "string", "minLength": 1},
            sources_of_data_array={"type": "array", "minItems": 1, "items": {"type": "string"}},
            was_the_user_under_physical_activity_bool={"type": "boolean"}))


def document_schema(structure):
    return record(
        ["client_uuid", "user_id", "version", "document_version", "auto_detected", "data_structure", "body_health"],
        client_uuid={"type": "string", "minLength": 1}, user_id={"type": "string", "minLength": 1}, version={"const": 2},
        document_version={"type": "integer", "minimum": 1}, auto_detected={"type": "boolean"},
        data_structure={"const": structure},
        body_health=record(["events"], events=record(
            [structure], **{structure: {"type": "array", "minItems": 1, "items": event(structure)}})))


VALIDATORS = {structure: Draft202012Validator(document_schema(structure)) for structure in EVENTS}


def is_whole(value):
    """Whether numbers whose names end in _int are written without a fraction: Python takes 5.0 for an integer."""
    if isinstance(value, dict):
        return all(is_whole(part) and not (key.endswith("_int") and isinstance(part, float)) for key, part in value.items())
    return all(map(is_whole, value)) if isinstance(value, list) else True


def faults(document, text):
    for number, each in enumerate(document if isinstance(document, list) else [document]):
        structure = each.get("data_structure") if isinstance(each, dict) else None
        if structure not in VALIDATORS:
            yield f"{number}: no data structure {structure}"
            continue
        yield from (f"{number}{error.json_path[1:]}: {error.message}" for error in VALIDATORS[structure].iter_errors(each))
        if not is_whole(each):
            yield f"{number}: a whole number with a fraction"
        for body in each.get("body_health", {}).get("events", {}).get(structure, []):
            if body.get("metadata", {}).get("user_id_string") != each.get("user_id"):
                yield f"{number}: two users"
