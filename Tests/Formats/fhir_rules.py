"""FHIR R4 bundles: two validators of FHIR, and the rules of the Personal Health Device guide 2.0.0 that neither knows.

The rules are written from the guide's profiles (PhdBaseObservation, PhdNumericObservation, PhdCompoundNumericObservation,
PhdCoincidentTimeStampObservation, PhdDevice, PhgDevice) and from R4's profile of vital signs.
"""
import datetime
import re

from fhir.resources.R4B.bundle import Bundle

try:
    from google.fhir.r4 import json_format
    from google.fhir.r4.proto.core.resources import bundle_and_contained_resource_pb2
except ImportError:
    json_format = None

MDC, LOINC = "urn:iso:std:iso:11073:10101", "http://loinc.org"
GUIDE = "http://hl7.org/fhir/uv/phd/StructureDefinition/"
GATEWAY = "http://hl7.org/fhir/StructureDefinition/observation-gatewayDevice"
CLOCK_TYPES = {"67975", "68226", "67983", "68072"}
# R4's value set of vital signs, as far as readings have them, with the units of their profiles.
VITAL_SIGNS = {
    "85354-9": set(), "8867-4": {"/min"}, "2708-6": {"%"}, "8310-5": {"Cel", "[degF]"}, "29463-7": {"g", "kg", "[lb_av]"},
    "39156-5": {"kg/m2"}, "8302-2": {"cm", "[in_i]"},
}
UCUM = {
    "mg/dL", "mmol/L", "mm[Hg]", "/min", "%", "Cel", "[degF]", "g", "kg", "[lb_av]", "mg", "mL", "kg/m2", "cm", "[in_i]",
    "ms", "mg/dL/min", "kJ", "Ohm",
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")


def faults(document, text):
    yield from validators(text)
    if not isinstance(document, dict) or document.get("resourceType") != "Bundle":
        yield "no Bundle"
        return
    entries = document.get("entry", [])
    resources = {entry.get("fullUrl"): entry["resource"] for entry in entries if "resource" in entry}
    if len(resources) != len(entries):
        yield "two entries have the same fullUrl"
    if document.get("type") == "transaction":
        yield from requests(entries)
    for url, resource in resources.items():
        for fault in resource_faults(resource, resources):
            yield f"{url}: {fault}"


def validators(text):
    try:
        Bundle.model_validate_json(text)
    except ValueError as error:
        yield f"fhir.resources: {error}"
    if json_format:
        try:
            json_format.json_fhir_string_to_proto(
                text, bundle_and_contained_resource_pb2.Bundle, validate=True, default_timezone="Z")
        except Exception as error:  # its errors have no base of their own
            yield f"google-fhir: {error!r}"


def requests(entries):
    conditions = []
    for entry in entries:
        request, kind = entry.get("request", {}), entry["resource"]["resourceType"]
        if request.get("method") == "POST":
            if request.get("url") != kind:
                yield f"a {kind} is posted to {request.get('url')}"
            condition = request.get("ifNoneExist", "")
        else:
            url, _, condition = request.get("url", "").partition("?")
            if request.get("method") != "PUT" or url != kind:
                yield f"a {kind} has the request {request}"
        conditions.append((kind, condition))
        if not re.fullmatch(r"identifier=[^|&=\s]+\|[^|&=\s]+", condition):
            yield f"the condition {condition!r} is no single identifier"
        own = [f"identifier={each.get('system')}|{each.get('value')}" for each in entry["resource"].get("identifier", [])]
        if condition not in own:
            yield f"the condition {condition!r} is not an identifier of its resource"
    if len(set(conditions)) != len(conditions):
        yield "two entries have the same condition"


def codings(concept, system):
    return [each.get("code") for each in (concept or {}).get("coding", []) if each.get("system") == system]


def resource_faults(resource, resources):
    if resource["resourceType"] == "Device":
        yield from device(resource)
    elif set(codings(resource.get("code"), MDC)) & CLOCK_TYPES:
        yield from clock(resource, resources)
    else:
        yield from observation(resource, resources)


def target(reference, resources, code, what):
    found = resources.get((reference or {}).get("reference"))
    if not found or code not in codings(found.get("type"), MDC):
        yield f"{what} {reference} leads to no such Device"


def device(resource):
    gateway = "531981" in codings(resource.get("type"), MDC)
    if not gateway and "65573" not in codings(resource.get("type"), MDC):
        yield "a Device that is neither gateway nor personal health device"
    if not resource.get("identifier"):
        yield "a Device without identifier"
    for identifier in resource.get("identifier", []):
        if "BTMAC" in codings(identifier.get("type"), "http://terminology.hl7.org/CodeSystem/ContinuaDeviceIdentifiers"):
            if identifier.get("system") != "http://hl7.org/fhir/sid/eui-48/bluetooth":
                yield f"a Bluetooth address in {identifier.get('system')}"
            if not re.fullmatch(r"[0-9A-F]{2}(-[0-9A-F]{2}){5}", identifier.get("value", "")):
                yield f"the Bluetooth address {identifier.get('value')}"
    if not resource.get("specialization"):
        yield "a Device without specialization"
    for each in resource.get("specialization", []):
        if not codings(each.get("systemType"), MDC):
            yield "a specialization without MDC code"
        if not gateway and "version" not in each and "_version" not in each:
            yield "a specialization without version"
    if gateway and not any(codings(each.get("type"), MDC) for each in resource.get("version", [])):
        yield "a gateway without version"
    for element in [] if gateway else ["manufacturer", "modelNumber"]:
        if element not in resource and "_" + element not in resource:
            yield f"a device without {element}"
    if "parent" in resource:
        yield "a device with a parent"


def clock(resource, resources):
    if resource.get("status") != "final":
        yield "a clock Observation that is not final"
    yield from target(resource.get("subject"), resources, "65573", "subject")
    yield from target(resource.get("device"), resources, "531981", "device")
    for element in ["effectiveDateTime", "valueDateTime"]:
        if not INSTANT.match(resource.get(element, "")):
            yield f"{element} {resource.get(element)}"


def observation(resource, resources):
    extensions = resource.get("extension", [])
    gateways = [each for each in extensions if each.get("url") == GATEWAY]
    if len(gateways) != 1:
        yield f"{len(gateways)} gateways"
    for each in gateways:
        yield from target(each.get("valueReference"), resources, "531981", "gateway")
    clocks = [each for each in extensions if each.get("url") == GUIDE + "CoincidentTimeStampReference"]
    if len(clocks) > 1 or any(each["valueReference"].get("reference") not in resources for each in clocks):
        yield "the reference to a clock Observation leads nowhere, or there are two"
    yield from target(resource.get("device"), resources, "65573", "device")
    if "meta" not in resource or "subject" not in resource:
        yield "an Observation without meta or subject"
    yield from effective(resource)
    categories = [code for each in resource.get("category", []) for code in codings(each, "http://hl7.org/fhir/uv/phd/CodeSystem/PhdObservationCategories")]
    if categories != ["phd"]:
        yield f"the guide's categories {categories}"
    untyped = [each for each in resource.get("identifier", []) if "type" not in each]
    if len(untyped) > 1 or any(each.get("system") != GUIDE + "PhdBaseObservation" or not each.get("value") for each in untyped):
        yield "identifiers without type that are not the guide's one"
    loinc = codings(resource.get("code"), LOINC)
    if not codings(resource.get("code"), MDC) and loinc != ["80404-7"]:
        yield "no MDC code"
    vital = [code for code in loinc if code in VITAL_SIGNS]
    is_vital = any("vital-signs" in codings(each, "http://terminology.hl7.org/CodeSystem/observation-category") for each in resource.get("category", []))
    if bool(vital) != is_vital:
        yield f"vital-signs is {is_vital} for {loinc}"
    yield from values(resource, vital)


def effective(resource):
    """An instant, or the period of a recording."""
    times = [resource[name] for name in ("effectiveDateTime", "effectivePeriod") if name in resource]
    if len(times) != 1:
        yield f"{len(times)} times"
        return
    ends = [times[0].get("start"), times[0].get("end")] if isinstance(times[0], dict) else times
    if not all(INSTANT.match(each or "") for each in ends):
        yield f"the time {times[0]}"
    elif len(ends) == 2 and moment(ends[0]) >= moment(ends[1]):
        yield f"the period {times[0]}"


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def values(resource, vital):
    profile = resource.get("meta", {}).get("profile", [""])[0]
    components = resource.get("component", [])
    present = [key for key in resource if key.startswith("value") or key == "dataAbsentReason"]
    if profile == GUIDE + "PhdCompoundNumericObservation":
        if present or not components:
            yield "a compound Observation with a value, or without components"
        found = [code for each in components for code in codings(each.get("code"), LOINC)]
        if vital == ["85354-9"] and not {"8480-6", "8462-4"} <= set(found):
            yield "a blood pressure without systolic or diastolic"
    elif profile == GUIDE + "PhdNumericObservation":
        if len(present) != 1 or present[0] not in ("valueQuantity", "dataAbsentReason"):
            yield f"a numeric Observation with {present}"
    else:
        yield f"the profile {profile}"
    if resource.get("status") == "entered-in-error" and "valueQuantity" in str(resource):
        yield "a withdrawn Observation with a value"
    for each in [resource, *components]:
        quantity = each.get("valueQuantity")
        if quantity is None:
            continue
        if quantity.get("system") != "http://unitsofmeasure.org" or quantity.get("code") not in UCUM:
            yield f"the unit {quantity.get('system')} {quantity.get('code')}"
        if type(quantity.get("value")) not in (int, float):
            yield f"the value {quantity.get('value')!r} is no number"
        for code in codings(each.get("code"), LOINC):
            allowed = VITAL_SIGNS.get(code) or ({"mm[Hg]"} if code in ("8480-6", "8462-4", "8478-0") else None)
            if allowed and quantity.get("code") not in allowed:
                yield f"{code} in {quantity.get('code')}"
    for each in components:
        if len([key for key in each if key.startswith("value") or key == "dataAbsentReason"]) != 1:
            yield f"the component {each}"
