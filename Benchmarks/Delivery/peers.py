"""What a good Python program for the same protocol takes of the processor: `peers.py KIND URL READINGS`.

The readings are in memory as Python values. What is measured is making the protocol's documents of them and sending
these; nothing is recorded of what was delivered. The program sends the same documents as the gateway, in as many
requests.
Prints a line of JSON, as the benchmark's own program does.
"""
import asyncio
import base64
import collections
import dataclasses
import datetime
import functools
import gzip
import hashlib
import hmac
import json
import resource
import sys
import time
import urllib.parse
import uuid
import zoneinfo

import aiohttp

# As many readings in a request as the gateway puts there, and of a FHIR bundle.
BATCH, LINES, BUNDLE = 500, 2000, 90
ZONE = zoneinfo.ZoneInfo("Europe/Berlin")
DEVICE = "bench-1808"
# From which the guide of FHIR counts the seconds of a device's clock.
EPOCH = datetime.datetime(2000, 1, 1)
dump = functools.partial(json.dumps, separators=(",", ":"))


@dataclasses.dataclass(slots=True)
class Reading:
    """A glucose reading of a meter that measures every five minutes."""
    id: str
    value: int
    # What the meter's clock showed, in the zone of its owner and without one, and when that was by UTC, likewise.
    local: datetime.datetime
    wall: datetime.datetime
    utc: datetime.datetime

    @classmethod
    def numbered(cls, number):
        wall = datetime.datetime(2017, 7, 14, 2, 40) + datetime.timedelta(minutes=5 * number)
        local = wall.replace(tzinfo=ZONE)
        utc = local.astimezone(datetime.UTC).replace(tzinfo=None)
        return cls(hashlib.md5(str(number).encode()).hexdigest(), 80 + number % 120, local, wall, utc)

    @property
    def instant(self):
        return self.utc.isoformat() + "Z"

    def document(self):
        """What the gateway calls a reading's document."""
        wall = self.wall.isoformat()
        return {
            "id": self.id, "kind": "glucose",
            "device": {"address": "C0:00:00:00:18:08", "model": "bench", "serial": None}, "provider": "accuchek_ble",
            "sequence": None, "base_time": wall, "time_offset_minutes": None, "device_time": wall,
            "time": self.instant, "time_basis": "assumed_zone", "time_uncertainty_minutes": None, "clock": None,
            "glucose": {"value": self.value, "unit": "mg/dL"}, "sample_type": "capillary_whole_blood",
            "sample_location": "finger", "context": None, "user": None, "status": [], "omitted": {}, "person": "bench",
            "excluded": None,
        }


def used():
    """Seconds of the processor that the process has used, all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def batches(values, size):
    return (values[first:first + size] for first in range(0, len(values), size))


# MARK: MQTT with paho

def mqtt(url, readings):
    """Publishes each reading with QoS 1, with twenty on their way at most, which is the library's own limit."""
    import paho.mqtt.client
    from paho.mqtt.enums import CallbackAPIVersion

    place = urllib.parse.urlsplit(url)

    def send():
        client = paho.mqtt.client.Client(CallbackAPIVersion.VERSION2, client_id="peer")
        client.connect(place.hostname, place.port)
        client.loop_start()
        waiting = collections.deque()
        for reading in readings:
            payload = dump({"id": reading.id, "person": "bench", "reading": reading.document() | {"deliveries": []}})
            waiting.append(client.publish("healthrelay/readings/glucose", payload, qos=1))
            if len(waiting) == 20:
                waiting.popleft().wait_for_publish()
        for each in waiting:
            each.wait_for_publish()
        client.disconnect()
        client.loop_stop()

    return send


# MARK: Webhooks with requests

def webhook(url, readings):
    """Posts an event for each reading, signed as Standard Webhooks asks."""
    import requests

    key = bytes(range(32))

    def send():
        with requests.Session() as session:
            for reading in readings:
                body = dump({
                    "type": "glucose.created", "timestamp": reading.instant, "data": reading.document()}).encode()
                name, timestamp = f"msg_{reading.id}_0", str(int(time.time()))
                code = hmac.digest(key, f"{name}.{timestamp}.".encode() + body, hashlib.sha256)
                answer = session.post(url, data=body, timeout=20, allow_redirects=False, headers={
                    "content-type": "application/json", "webhook-id": name, "webhook-timestamp": timestamp,
                    "webhook-signature": "v1," + base64.b64encode(code).decode()})
                answer.raise_for_status()

    return send


# MARK: FHIR with fhir.resources

def fhir(url, readings):
    """Builds Observations of the library's classes, which check them, and posts them in transactions."""
    import requests
    from fhir.resources.R4B.bundle import Bundle, BundleEntry, BundleEntryRequest
    from fhir.resources.R4B.device import Device
    from fhir.resources.R4B.observation import Observation

    profile, mdc = "http://hl7.org/fhir/uv/phd/StructureDefinition/", "urn:iso:std:iso:11073:10101"
    own = {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "RI"}]}
    unknown = {"extension": [{
        "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]}
    gateway = "urn:uuid:6d8c6ba7-3f2f-5d1e-9a0e-1f4d3c2b1a00"
    meter = "urn:uuid:0b9a3f64-54d1-5c37-8b0e-6f2d8f0c1a11"

    def code(number, name):
        return {"system": mdc, "code": str(number), "display": name}

    def entry(resource, name):
        system, value = resource.identifier[0].system, resource.identifier[0].value
        return BundleEntry(fullUrl=name, resource=resource, request=BundleEntryRequest(
            method="POST", url=resource.get_resource_type(),
            ifNoneExist=f"identifier={urllib.parse.quote(system, safe=':/')}|{urllib.parse.quote(value, safe=':/')}"))

    def devices():
        """The gateway and the meter, which go with every bundle."""
        return [
            entry(Device.model_validate({
                "resourceType": "Device", "meta": {"profile": [profile + "PhgDevice"]},
                "identifier": [{"type": own, "system": "urn:ietf:rfc:3986", "value": gateway}],
                "serialNumber": "01J00000000000000000000000",
                "deviceName": [{"name": "HealthRelay", "type": "model-name"}],
                "type": {"coding": [code(531981, "MDC_MOC_VMS_MDS_AHD")], "text": "Personal health gateway"},
                "specialization": [{
                    "systemType": {"coding": [code(528457, "MDC_DEV_SPEC_PROFILE_GENERIC")]}, "_version": unknown}],
                "version": [{"type": {"coding": [code(531975, "MDC_ID_PROD_SPEC_SW")]}, "value": "0.0.0"}],
            }), gateway),
            entry(Device.model_validate({
                "resourceType": "Device", "meta": {"profile": [profile + "PhdDevice"]},
                "identifier": [{
                    "type": {"coding": [{
                        "system": "http://terminology.hl7.org/CodeSystem/ContinuaDeviceIdentifiers", "code": "BTMAC",
                        "display": "Bluetooth MAC address"}]},
                    "system": "http://hl7.org/fhir/sid/eui-48/bluetooth", "value": "C0-00-00-00-18-08"}],
                "manufacturer": "Bench", "modelNumber": "bench",
                "type": {"coding": [code(65573, "MDC_MOC_VMS_MDS_SIMP")], "text": "Personal health device"},
                "specialization": [{
                    "systemType": {"coding": [code(528401, "MDC_DEV_SPEC_PROFILE_GLUCOSE")]}, "_version": unknown}],
            }), meter),
        ]

    def observation(reading):
        name = f"urn:uuid:{uuid.UUID(reading.id, version=5)}"
        since = round((reading.wall - EPOCH).total_seconds())
        return entry(Observation.model_validate({
            "resourceType": "Observation", "meta": {"profile": [profile + "PhdNumericObservation"]},
            "extension": [{
                "url": "http://hl7.org/fhir/StructureDefinition/observation-gatewayDevice",
                "valueReference": {"reference": gateway}}],
            "identifier": [
                {"type": own, "system": "urn:ietf:rfc:3986", "value": name},
                {"system": profile + "PhdBaseObservation",
                 "value": f"C00000001808-4711-https://clinic.example/patients-160184-{since}"}],
            "status": "final",
            "category": [{"coding": [{
                "system": "http://hl7.org/fhir/uv/phd/CodeSystem/PhdObservationCategories", "code": "phd"}]}],
            "code": {
                "coding": [
                    code(160184, "MDC_CONC_GLU_CAPILLARY_WHOLEBLOOD"),
                    {"system": "http://loinc.org", "code": "41653-7"}],
                "text": "Glucose"},
            "subject": {
                "reference": "Patient?identifier=https://clinic.example/patients|4711", "type": "Patient",
                "identifier": {"system": "https://clinic.example/patients", "value": "4711"}},
            "effectiveDateTime": reading.local,
            "valueQuantity": {
                "value": reading.value, "unit": "mg/dL", "system": "http://unitsofmeasure.org", "code": "mg/dL"},
            "note": [{
                "text": "The device's clock could not be read: its time was taken to be that of Europe/Berlin."}],
            "device": {"reference": meter},
            "component": [{
                "code": {"coding": [code(8417844, "MDC_CTXT_GLU_SAMPLELOCATION")]},
                "valueCodeableConcept": {
                    "coding": [code(8417848, "MDC_CTXT_GLU_SAMPLELOCATION_FINGER")], "text": "finger"}}],
        }), name)

    def send():
        with requests.Session() as session:
            session.headers.update({
                "content-type": "application/fhir+json", "accept": "application/fhir+json", "prefer": "return=minimal"})
            for batch in batches(readings, BATCH):
                for part in batches(batch, BUNDLE):
                    bundle = Bundle(type="transaction", entry=devices() + [observation(each) for each in part])
                    answer = session.post(url, data=bundle.model_dump_json().encode(), timeout=60)
                    answer.raise_for_status()
                    entries = answer.json()["entry"]
                    assert len(entries) == len(bundle.entry)
                    assert all(each["response"]["status"].startswith("20") for each in entries)

    return send


# MARK: Batches with aiohttp

def posts(url, headers, bodies, status):
    """Posts bodies, compressed, one after the other."""
    async def run():
        async with aiohttp.ClientSession(headers=headers | {"content-encoding": "gzip"}) as session:
            for body in bodies:
                async with session.post(url, data=gzip.compress(body, compresslevel=6)) as answer:
                    assert answer.status == status, answer.status
                    await answer.read()

    return asyncio.run(run())


def vital(url, readings):
    def sample(reading):
        time = reading.instant
        return {
            "id": reading.id, "value": round(reading.value / 18.0156, 4), "unit": "mmol/L", "start_date": time,
            "end_date": time, "type": "fingerprick",
            "metadata": {"measured_unit": "mg/dL", "measured_value": str(reading.value)},
        }

    def bodies():
        for number, batch in enumerate(batches(readings, BATCH), 1):
            yield dump({
                "stage": "daily", "provider": "accuchek_ble", "time_zone": "Europe/Berlin",
                "is_final_chunk": number * BATCH >= len(readings), "data": [sample(each) for each in batch]}).encode()

    headers = {"x-vital-api-key": "sk_us_benchmark", "content-type": "application/json"}
    return lambda: posts(url + "/v2/timeseries/6d8c6ba7-3f2f-4d1e-9a0e-1f4d3c2b1a00/glucose", headers, bodies(), 200)


def influxdb(url, readings):
    def bodies():
        for batch in batches(readings, LINES):
            yield "\n".join(
                f"glucose,device={DEVICE},person=bench,sample_type=capillary_whole_blood mg_dl={each.value},"
                f'mmol_l={each.value / 18.0156:.4f},reading_id="{each.id}" {round(each.local.timestamp()) * 1000}'
                for each in batch).encode()

    headers = {"content-type": "text/plain; charset=utf-8"}
    return lambda: posts(url + "/write?db=bench&precision=ms", headers, bodies(), 204)


def nightscout(url, readings):
    def entry(reading):
        return {
            "type": "mbg", "mbg": reading.value, "date": round(reading.local.timestamp()) * 1000,
            "dateString": reading.local.isoformat(timespec="milliseconds"), "device": DEVICE, "readingId": reading.id,
            "readingDevice": DEVICE,
        }

    headers = {
        "api-secret": hashlib.sha1(b"benchmark-secret").hexdigest(), "accept": "application/json",
        "content-type": "application/json"}
    bodies = (dump([entry(each) for each in batch]).encode() for batch in batches(readings, BATCH))
    return lambda: posts(url + "/api/v1/entries", headers, bodies, 200)


def main():
    kind, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    peers = {each.__name__: each for each in (vital, influxdb, nightscout, fhir, webhook, mqtt)}
    send = peers[kind](url, [Reading.numbered(number) for number in range(count)])
    begin, before = time.perf_counter(), used()
    send()
    print(json.dumps({"delivered": count, "seconds": time.perf_counter() - begin, "processor": used() - before}))


main()
