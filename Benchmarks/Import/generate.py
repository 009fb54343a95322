#!/usr/bin/env python3
"""Writes an export.xml as Apple Health writes it, of about so many megabytes: generate.py FILE [MEGABYTES].

The mixture is that of a watch's wearer who also has a cuff, a scale and a glucose meter: most records are steps, energy and
heart rates. The same arguments give the same file.
"""
import random
import sys
from datetime import datetime, timedelta, timezone

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE HealthData [
<!-- HealthKit Export Version: 14 -->
<!ELEMENT HealthData (ExportDate,Me,(Record|Correlation|Workout|ActivitySummary|ClinicalRecord)*)>
<!ATTLIST HealthData
  locale CDATA #REQUIRED
>
<!ELEMENT Record ((MetadataEntry|HeartRateVariabilityMetadataList)*)>
<!ATTLIST Record
  type          CDATA #REQUIRED
  unit          CDATA #IMPLIED
  value         CDATA #IMPLIED
  sourceName    CDATA #REQUIRED
  sourceVersion CDATA #IMPLIED
  device        CDATA #IMPLIED
  creationDate  CDATA #IMPLIED
  startDate     CDATA #REQUIRED
  endDate       CDATA #REQUIRED
>
<!-- Note: Any Records that appear as children of a correlation also appear as top-level records in this document. -->
]>
<HealthData locale="en_GB">
 <ExportDate value="2026-11-21 10:00:00 +0100"/>
 <Me HKCharacteristicTypeIdentifierDateOfBirth="1970-01-01" HKCharacteristicTypeIdentifierBiologicalSex="HKBiologicalSexNotSet"/>
"""
WATCH = ("Jane\u2019s\u00a0Apple\u00a0Watch", "11.2",
         "&lt;&lt;HKDevice: 0x283%05x60&gt;, name:Apple Watch, manufacturer:Apple Inc., model:Watch, hardware:Watch6,1, "
         "software:11.2, creation date:2024-11-20 10:00:00 +0000&gt;")
METER = ("Contour", "3.1", None)
SCALE = ("Withings", "6.4", None)
CUFF = ("Omron Connect", "7.2", "&lt;&lt;HKDevice: 0x281%05xa0&gt;, name:HEM-7361T, manufacturer:Omron, model:M7, "
        "hardware:1, software:1&gt;")
# Of a thousand: the type, its unit, its source, the lowest and highest value, its decimals, how many seconds it lasts.
MIXTURE = [
    (190, "StepCount", "count", WATCH, 1, 300, 0, 300), (330, "HeartRate", "count/min", WATCH, 48, 150, 0, 0),
    (250, "ActiveEnergyBurned", "kcal", WATCH, 0, 20, 3, 60), (90, "BasalEnergyBurned", "kcal", WATCH, 0, 20, 3, 900),
    (100, "DistanceWalkingRunning", "km", WATCH, 0, 1, 5, 300), (15, "OxygenSaturation", "%", WATCH, 0.9, 1, 2, 0),
    (4, "HeartRateVariabilitySDNN", "ms", WATCH, 15, 120, 4, 60), (12, "BloodGlucose", "mmol", METER, 3.5, 12, 1, 0),
    (3, "BodyMass", "kg", SCALE, 69, 72, 2, 0), (2, "BodyFatPercentage", "%", SCALE, 0.2, 0.25, 3, 0),
    (1, "BodyTemperature", "degC", SCALE, 36, 38, 1, 0), (3, "BloodPressureSystolic", "mmHg", CUFF, 105, 145, 0, 0),
]
MMOL = "mmol&lt;180.1558800000541&gt;/L"
FIRST = datetime(2016, 1, 1, tzinfo=timezone(timedelta(hours=1)))


def record(name, value, unit, source, start, seconds, number, body=None, indent=" "):
    title, version, device = source
    device = f' device="{device % (number & 0xFFFFF)}"' if device else ""
    times = [(start + timedelta(seconds=s)).strftime("%Y-%m-%d %H:%M:%S +0100") for s in (seconds + 60, 0, seconds)]
    tag = (f'{indent}<Record type="HKQuantityTypeIdentifier{name}" sourceName="{title}" sourceVersion="{version}"{device} '
           f'unit="{unit}" creationDate="{times[0]}" startDate="{times[1]}" endDate="{times[2]}" value="{value}"')
    return f"{tag}>\n{body}{indent}</Record>\n" if body else f"{tag}/>\n"


def entries(*pairs, indent="  "):
    return "".join(f'{indent}<MetadataEntry key="{key}" value="{value}"/>\n' for key, value in pairs)


def main():
    path, megabytes = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 200
    dice = random.Random(1)
    total = int(megabytes * 1e6 / 440)
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for share, name, unit, source, low, high, places, seconds in MIXTURE:
            count = max(1, total * share // 1000)
            step = 10 * 365 * 86400 / count
            pressures = []
            for number in range(count):
                start = FIRST + timedelta(seconds=int(number * step))
                value = f"{dice.uniform(low, high):.{places}f}"
                body = None
                if name == "HeartRate":
                    body = entries(("HKMetadataKeyHeartRateMotionContext", dice.randrange(3)))
                elif name == "BloodGlucose":
                    unit = MMOL
                    body = entries(("HKWasUserEntered", 1), ("HKBloodGlucoseMealTime", 1 + number % 2)) if number % 3 else None
                elif name == "BloodPressureSystolic":
                    pressures.append((start, value, f"{dice.uniform(65, 95):.0f}", number))
                file.write(record(name, value, unit, source, start, seconds, number, body))
            for start, _, diastolic, number in pressures:
                file.write(record("BloodPressureDiastolic", diastolic, "mmHg", CUFF, start, 0, number))
            for start, systolic, diastolic, number in pressures:
                time = start.strftime("%Y-%m-%d %H:%M:%S +0100")
                file.write(f' <Correlation type="HKCorrelationTypeIdentifierBloodPressure" sourceName="{CUFF[0]}" '
                           f'sourceVersion="{CUFF[1]}" creationDate="{time}" startDate="{time}" endDate="{time}">\n')
                file.write(record("BloodPressureSystolic", systolic, "mmHg", CUFF, start, 0, number, indent="  "))
                file.write(record("BloodPressureDiastolic", diastolic, "mmHg", CUFF, start, 0, number, indent="  "))
                file.write(" </Correlation>\n")
        file.write("</HealthData>\n")


main()
