"""Reads an export.xml with Python's parser and prints a line for each reading: kind, start, end, source, values, unit, whether a
person entered it. A blood pressure is its correlation."""
import sys
import xml.etree.ElementTree as ElementTree
from datetime import datetime
from decimal import Decimal

KINDS = {
    "HKQuantityTypeIdentifierBloodGlucose": "glucose", "HKQuantityTypeIdentifierHeartRate": "heart_rate",
    "HKQuantityTypeIdentifierHeartRateVariabilitySDNN": "hrv", "HKQuantityTypeIdentifierOxygenSaturation": "spo2",
    "HKQuantityTypeIdentifierBodyTemperature": "temperature", "HKQuantityTypeIdentifierBodyMass": "weight",
    "HKQuantityTypeIdentifierBodyFatPercentage": "body_composition",
}
UNITS = {"count/min": "bpm", "mmol<180.1558800000541>/L": "mmol/L", "degC": "°C"}


def seconds(text):
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z").timestamp())


def show(kind, element, values, unit, entered):
    start, end = seconds(element.get("startDate")), seconds(element.get("endDate"))
    numbers = "/".join(format(value, "f") for value in values)
    print(kind, start, end, element.get("sourceName"), numbers, UNITS.get(unit, unit), int(entered), sep="|")


for element in ElementTree.parse(sys.argv[1]).getroot():
    notes = {entry.get("key"): entry.get("value") for entry in element.findall("MetadataEntry")}
    entered = notes.get("HKWasUserEntered") == "1"
    if element.tag == "Record" and element.get("type") in KINDS:
        value, unit = Decimal(element.get("value")), element.get("unit")
        show(KINDS[element.get("type")], element, [value.scaleb(2) if unit == "%" else value], unit, entered)
    elif element.tag == "Correlation":
        parts = element.findall("Record")
        show("blood_pressure", parts[0], [Decimal(part.get("value")) for part in parts], "mmHg", entered)
