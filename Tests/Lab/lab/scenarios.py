"""What is recorded: each scenario, in human values. The capture and the expected readings both come from here."""
from datetime import datetime, timezone

from .definitions import Context, Continuous, Glucose, Meter, Pressure, Scenario, Step


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def at(text):
    return datetime.fromisoformat(text)


def accuchek(records, **more):
    return Meter(name="meter+00001808", address="C0:00:00:00:18:08", service=0x1808, records=records, passkey=True,
                 manufacturer="Roche", model="932", serial="00001808", battery=87, feature=b"\x7b\x04",
                 **({"clock": 0} | more))


def generic(records, **more):
    return Meter(service=0x1808, records=records, manufacturer="Example", model="GM-1", battery=55, feature=b"\x7b\x04",
                 **({"name": "TestGlucose", "address": "C0:00:00:00:18:0A", "serial": "GM1-0042"} | more))


def omron(records, **more):
    return Meter(service=0x1810, records=records, feature=b"\x35\x00", **({
        "battery": 100, "name": "BLESmart_0000021A28FF", "address": "C0:00:00:00:18:10", "manufacturer": "OMRON HEALTHCARE",
        "model": "HEM-7322T", "serial": "20190407001"} | more))


# A week of a person with an Accu-Chek: bases one hour behind where the owner never set summer time back, a journey.
FIRST = [
    Glucose(101, at("2026-11-14T06:31:12"), "95", offset=60, status=(), context=Context(meal="fasting")),
    Glucose(102, at("2026-11-14T11:02:40"), "143", offset=60, context=Context(meal="postprandial", carbohydrate=("lunch", "0.045", "kg"))),
    Glucose(103, at("2026-11-14T17:55:03"), "88", offset=60, context=Context(meal="preprandial"), context_first=True),
    Glucose(104, at("2026-11-14T21:40:59"), "121", offset=60, context=Context(meal="bedtime", medication=("long_acting_insulin", "0.014", "L"))),
    Glucose(105, at("2026-11-15T06:28:00"), "5.5", "mmol/L", offset=60, context=Context(meal="fasting", tester="self", health="no_health_issues")),
    Glucose(106, at("2026-11-15T12:10:30"), "7.25", "mmol/L", offset=60),
    Glucose(107, at("2026-11-15T18:45:10"), "10.0", "mmol/L", offset=60, context=Context(exercise=(1800, 65)), context_first=True),
    Glucose(108, at("2026-11-16T07:30:00"), "102", offset=0, context=Context(meal="fasting")),
    Glucose(109, at("2026-11-16T12:30:00"), "156", offset=0, context_missing=True),
    Glucose(110, at("2026-11-16T15:12:21"), "61", offset=0, status=(), context=Context(carbohydrate=("snack", "0.020", "kg"), meal="casual", health="minor_health_issues", tester="self")),
    Glucose(111, at("2026-11-16T19:03:44"), "134", offset=0),
    Glucose(112, at("2026-11-17T07:15:09"), "98.5", offset=-30, type="capillary_plasma"),
    Glucose(113, at("2026-11-17T13:00:00"), "177", offset=-120, location="alternate_site", context=Context(medication=("rapid_acting_insulin", "0.006", "L"), carbohydrate=("lunch", "0.060", "kg"))),
    Glucose(114, at("2026-11-17T20:20:20"), "110", offset=-120, location="earlobe"),
    Glucose(115, at("2026-11-18T06:59:59"), "93", offset=0, context=Context(hba1c="6.1", tester="health_care_professional", health="not_available")),
    Glucose(116, at("2026-11-18T12:00:00"), "149", type="venous_plasma", location="not_available", context=Context(tester="lab_test", health="not_available", extended=0x00)),
    Glucose(117, at("2026-11-18T18:30:30"), "84", context=Context(medication=("intermediate_acting_insulin", "0.00002", "kg"))),
    Glucose(118, at("2026-11-18T23:30:00"), "127", offset=60, context_missing=True),
    Glucose(119, at("2026-11-19T07:05:00"), "301", offset=0, status=("result_too_high",), context=Context(meal="fasting", health="under_stress", tester="self")),
    Glucose(120, at("2026-11-19T12:45:15"), "166", offset=0, status=("device_battery_low",), context=Context(extended=0x01, carbohydrate=("lunch", "0.0555", "kg"), meal="postprandial", tester="self", health="during_menses", exercise=(2700, 100), medication=("pre_mixed_insulin", "0.0105", "L"), hba1c="5.9")),
    Glucose(121, at("2026-11-19T19:10:00"), "118", offset=0, context=Context(carbohydrate=("dinner", "0.07", "kg")), context_first=True),
    Glucose(122, at("2026-11-20T06:40:00"), "97", offset=0, context=Context(meal="fasting")),
]
# What was measured since, with the clock 37 minutes ahead.
SECOND = [
    Glucose(123, at("2026-11-20T13:42:00"), "139", offset=0, context=Context(meal="postprandial")),
    Glucose(124, at("2026-11-20T19:37:10"), "105", offset=0),
    Glucose(125, at("2026-11-20T23:12:30"), "6.1", "mmol/L", offset=0, context=Context(meal="bedtime"), context_first=True),
    Glucose(126, at("2026-11-21T07:37:00"), "92", offset=0, status=(), context=Context(meal="fasting")),
    Glucose(127, at("2026-11-21T09:07:45"), "151", offset=0, context=Context(carbohydrate=("breakfast", "0.05", "kg"))),
    Glucose(128, at("2026-11-21T10:55:00"), "112", offset=0),
]

ODDITIES = [
    Glucose(7, at("2026-11-20T07:00:00"), "99"),
    Glucose(8, at("2026-11-20T07:05:00"), "118", type="control_solution", location="not_available"),
    Glucose(9, at("2026-11-20T07:10:00"), "120", location="control_solution", offset=0),
    Glucose(10, at("2026-11-20T07:15:00"), None),
    Glucose(11, at("2026-11-20T07:20:00"), "NaN"),
    Glucose(12, at("2026-11-20T07:25:00"), "NRes", "mmol/L", offset=0),
    Glucose(13, at("2026-11-20T07:30:00"), "+INF", status=("result_too_high",)),
    Glucose(14, at("2026-11-20T07:35:00"), "-INF", status=("result_too_low",)),
    Glucose(15, at("2026-11-20T07:40:00"), "2.047", "mmol/L"),          # mantissa 07FF: a number, for its exponent is not 0
    Glucose(16, at("2026-11-20T07:45:00"), "2.047E+7"),                 # F7FF: 204.7 kg/L, a number, and no glucose
    Glucose(17, at("2026-11-20T08:00:00"), "101", cut_to=8),
    Glucose(18, at("2026-11-20T08:05:00"), "102", offset=0, status=("temperature_too_low", "device_battery_low")),
    Glucose(19, at("2026-11-20T08:10:00"), "103", status=("sensor_malfunction",)),
    Glucose(20, at("2026-11-20T08:15:00"), None, status=("sample_insufficient", "strip_insertion_error")),
    Glucose(21, at("2026-11-20T08:20:00"), "104", status=("strip_type_incorrect", "read_interrupted", "general_fault")),
    Glucose(22, at("2026-11-20T08:25:00"), "105", status=("temperature_too_high", "time_fault")),
    Glucose(23, at("2026-11-20T08:30:00"), "106", type_number=13),
    Glucose(24, at("2026-11-20T08:35:00"), "107", status=("result_too_low",), status_reserved=0xF000),
    Glucose(25, at("2026-11-20T08:40:00"), "108", flags_reserved=0xE0),
    Glucose(26, at("2026-11-20T08:45:00"), "109", offset=0, extra=b"\xa5\x5a\x01"),
    Glucose(27, None, "110", offset=0),
    Glucose(28, at("2026-11-20T08:55:00"), "111", offset="unknown"),
    Glucose(29, None, None, offset="unknown"),
    Glucose(30, at("2026-11-20T09:05:00"), "112", type="interstitial_fluid", location="alternate_site"),
]

CUT = [Glucose(number, at(f"2026-11-20T{6 + number // 2:02}:{number % 2 * 30:02}:00"), str(90 + 3 * number), offset=0)
       for number in range(1, 21)]

BONDED = [Glucose(40 + number, at(f"2026-11-20T{8 + number:02}:15:00"), f"{5 + number}.{number}", "mmol/L", offset=0,
                  context=Context(meal="casual") if number % 2 else None) for number in range(6)]

LONG = [Glucose(500 + number, at(f"2026-11-20T{9 + number // 6:02}:{number % 6 * 10:02}:00"), str(80 + number), offset=0,
                extra=bytes(range(24)), context=Context(meal="casual", carbohydrate=("drink", "0.012", "kg")))
        for number in range(12)]

def sensor(records, **more):
    return Meter(name="TestCGM", address="C0:00:00:00:18:1F", service=0x181F, records=records, passkey=True,
                 manufacturer="Example", model="CGM-3", serial="CGM3-0815", battery=91, mtu=185, **more)


# A night and a morning of a continuous sensor: one value every five minutes, three in a notification.
NIGHT = [Continuous(number * 5, str(96 + number % 7 * 3), trend="-0.4" if number % 3 else "0.2", quality="97")
         for number in range(12, 24)] + [
    Continuous(120, "101"),
    Continuous(125, "68", "-1.6", status=("below_patient_low", "device_battery_low"), empty_octets=(1,)),
    Continuous(130, "52", "-3.1", "88", ("below_patient_low", "below_hypo", "rate_of_decrease_exceeded")),
    Continuous(135, "NaN", status=("calibration_required", "time_synchronization_required")),
    Continuous(140, "120", status=("sensor_malfunction",)),
    Continuous(145, "121", wrong_checksum=True),
    Continuous(150, "122.5", "1.25", "NaN", ("calibration_recommended", "temperature_too_low")),
    Continuous(155, "+INF", status=("result_too_high", "above_hyper")),
    Continuous(160, "9E+3", quality="12"),
    Continuous(165, "254", "4", "91", ("above_patient_high", "rate_of_increase_exceeded", "device_specific_alert")),
]

def meter(name, number, records, **more):
    return Meter(name=name, address=f"C0:00:00:00:18:{number:02X}", service=0x1808, records=records,
                 **({"feature": b"\x00\x04"} | more))


def beurer(name, number, records, **more):
    return Meter(name=name, address=f"C0:00:00:00:18:{number:02X}", service=0x1810, records=records, passkey=True,
                 manufacturer="Beurer", model=name, feature=b"\x35\x00", pace=0.25, **more)


def onetouch(first, last):
    """The same meter, with more records later."""
    return Meter(name="OneTouch AB24", address="C0:00:00:00:18:24", service=0x1808, serial="OT24", protocol="onetouch", clock=1800,
                 records=[Glucose(number, at(f"2026-11-20T08:{number}:00"), str(60 + number)) for number in range(first, last + 1)])


# Each value is sent twice; January is month 13 where the offset carries into another year; meal 6 says ketone.
CARESENS = [each for record in [
    Glucose(1, at("2026-01-17T07:10:00"), "102", offset=0, context=Context(meal="fasting")),
    Glucose(2, at("2026-01-17T12:40:10"), "151", offset=-60, month_13=True, context=Context(meal="postprandial")),
    Glucose(3, at("2026-01-18T07:05:00"), "97", offset=0, month_13=True),
    Glucose(4, at("2026-01-18T19:30:00"), "8", offset=0, context=Context(meal_number=6)),
    Glucose(5, at("2026-01-19T07:20:00"), "110", offset=0, context=Context(meal_number=7)),
] for each in (record, record)]

# Newest first, numbered by age; the last place of a full memory says "high" and was never measured.
TAIDOC = [
    Glucose(0, at("2026-11-20T18:30:00"), "128", context=Context(meal="preprandial")),
    Glucose(1, at("2026-11-20T12:31:00"), "143", context=Context(meal="postprandial")),
    Glucose(2, at("2026-11-20T07:02:00"), "95", context=Context(meal="fasting"), context_first=True),
    Glucose(3, at("2026-11-19T19:15:00"), "118"),
    Glucose(449, at("2026-10-02T08:00:00"), "620", status=("result_too_high",)),
    Glucose(450, at("2026-10-01T08:00:00"), "620", status=("result_too_high",), never_measured=True),
]

# Numbers from 0 and not in the order of time; behind each record an empty one; a ketone among them.
MYGLUCOSE = [each for record in [
    Glucose(2, at("2026-11-18T07:00:00"), "104", "mg/dL"), Glucose(0, at("2026-11-20T07:05:00"), "99"),
    Glucose(3, at("2026-11-19T07:10:00"), "6.1", "mmol/L"),
    Glucose(1, at("2026-11-20T19:00:00"), "7", context=Context(meal_number=6)),
] for each in (record, Glucose(0xFFFF, None, is_partner=True))]

SCENARIOS = [
    Scenario("glucose-first-delivery", utc("2026-11-20T11:40:00"), [accuchek(FIRST)]),
    Scenario("glucose-second-delivery", utc("2026-11-21T09:30:00"), [accuchek(FIRST + SECOND, clock=37 * 60)]),
    Scenario("glucose-cut", utc("2026-11-20T19:00:00"), [accuchek(CUT, drop_after=9)], datalink=1002),
    Scenario("glucose-empty", utc("2026-11-20T12:00:00"), [accuchek([])]),
    Scenario("glucose-oddities", utc("2026-11-20T12:30:00"), [generic(ODDITIES)]),
    Scenario("cuff-three", utc("2026-11-21T07:30:00"), [omron([
        Pressure("127.0", "79.0", "95.0", at=at("2026-11-20T07:00:00"), pulse="69.0", user=1, status=()),
        Pressure("120", "80", "93", at=at("2026-11-20T19:30:00"), pulse="72", user=2, status=("body_movement", "cuff_too_loose")),
        Pressure("131.5", "84", "NaN", at=at("2026-11-21T07:00:00"), pulse="58.5", user=1, status=("irregular_pulse",)),
    ])]),
    Scenario("cuff-no-time", utc("2026-11-20T16:00:00"), [Meter(
        name="BM54", address="C0:00:00:00:18:11", service=0x1810, feature=b"\x00\x00", pace=1.3, records=[
            Pressure("118", "76", "90"), Pressure("204.7", "101.5")])]),
    Scenario("cuff-kpa", utc("2026-11-20T17:00:00"), [Meter(
        name="TestCuff", address="C0:00:00:00:18:12", service=0x1810, manufacturer="Example", model="BP-2",
        serial="BP2-7", clock=-180, feature=b"\x3f\x00", pace=0.25, records=[
            Pressure("8.0", unit="kPa", intermediate=True), Pressure("14.2", unit="kPa", intermediate=True),
            Pressure("19.9", unit="kPa", intermediate=True),
            Pressure("16.9", "10.5", "12.7", unit="kPa", at=at("2026-11-20T17:56:30"), pulse="66", user=255,
                     status=("pulse_rate_too_low", "improper_position"), status_reserved=0x8000)])], datalink=1002),
    Scenario("glucose-bonded-no-discovery", utc("2026-11-20T13:30:00"), [accuchek(BONDED)], reconnect=True,
             request=b"\x01\x03\x01\x2a\x00"),
    Scenario("two-meters", utc("2026-11-20T10:30:00"), [
        Meter(name="Contour7800H1234", address="C0:00:00:00:18:0B", service=0x1808, records=LONG, passkey=True,
              manufacturer="Ascensia", model="Contour next ONE", serial="7800H1234", battery=60, mtu=185,
              feature=b"\x00\x04", pace=0.08),
        omron([Pressure(str(120 + number), str(75 + number), str(90 + number), at=at(f"2026-11-20T08:{number:02}:00"),
                        pulse=str(60 + number), user=1, status=()) for number in range(6)], pace=0.15),
    ], together=True),
    Scenario("cgm-session", utc("2026-11-21T06:00:00"), [
        sensor(NIGHT, session_start=at("2026-11-21T03:10:00"), clock=-3600, checksums=True, together=3)]),
    Scenario("quirks-caresens", utc("2026-01-19T18:00:00"), [meter(
        "CareSens 0012", 0x21, CARESENS, passkey=True, manufacturer="i-SENS", model="CareSens", serial="CS12", clock=0)]),
    Scenario("quirks-taidoc", utc("2026-11-20T18:00:00"), [meter(
        "TNG VOICE", 0x22, TAIDOC, model="TD-4286", serial="TD22", numbers_by_age=True)]),
    Scenario("quirks-myglucose", utc("2026-11-20T19:00:00"), [meter("MyGlucose 1", 0x23, MYGLUCOSE, serial="MG23")]),
    # Conversations of our own gateway, when they are recorded.
    Scenario("quirks-and", None, [omron([
        Pressure("124", "81", "95", at=at("2026-11-20T20:40:00"), pulse="71", status=()),
        Pressure("119", "77", "91", at=at("2026-11-20T20:50:00"), pulse="66", status=("irregular_pulse",))],
        name="A&D_UA-651BLE_A1", address="C0:00:00:00:18:25", manufacturer="A&D", model="UA-651BLE", serial="AD25",
        protocol="and", clock=-1200,
        behaviour={"leaves_after_bonding": True, "advertises": "until_bonded", "deletes_confirmed": True})], steps=[
            Step("pair", "--wait", "10"), Step("read"),
            Step("read", settings={"CLOCK_SET": "and_ua651ble"}, add=[
                Pressure("128", "83", "98", at=at("2026-11-21T20:40:00"), pulse="69", status=())]),
            Step("read", "--all-records")]),
    Scenario("quirks-bm85", None, [beurer("BM85", 0x26, [
        Pressure("127", "79", "95", at=at("2026-11-20T07:30:00"), pulse="69", user=1, status=("irregular_pulse",), big_endian=True),
        Pressure("133", "84", "100", at=at("2026-11-20T19:30:00"), pulse="58", user=2, status=(), big_endian=True),
        Pressure("121", "77", "91", at=at("2026-11-20T20:10:00"), pulse="64", user=1, status=())],      # by the standard
        behaviour={"loses_subscriptions_before": 0.1})], steps=[Step("pair"), Step("read")]),
    Scenario("quirks-omron", None, [omron([
        Pressure("118", "76", "90", at=at("2026-11-20T07:15:00"), pulse="62", user=1, status=()),
        Pressure("122", "79", "93", at=at("2026-11-20T19:45:00"), pulse="67", user=1, status=())],
        name="BLESmart_0000021A2900", address="C0:00:00:00:18:29", serial="20190407029", clock=240,
        behaviour={"deletes_confirmed": True, "clock_error": 0x80})], steps=[
            Step("pair"), Step("devices", "set-clock", status=77), Step("read")]),
    # Its memory, by its own protocol: a second that no clock has, a battery that reads 0, and a new measurement.
    Scenario("omron-memory", None, [omron([
        Pressure("127", "79", "NaN", at=at("2026-11-18T07:10:21"), pulse="69", user=1, status=()),
        Pressure("131", "84", "NaN", at=at("2026-11-18T19:42:59"), pulse="58", user=1, status=("irregular_pulse",), second_in_memory=63),
        Pressure("119", "75", "NaN", at=at("2026-11-19T07:05:40"), pulse="64", user=1, status=("body_movement",)),
        Pressure("142", "91", "NaN", at=at("2026-11-19T20:15:03"), pulse="77", user=2, status=("cuff_too_loose",)),
        Pressure("124", "80", "NaN", at=at("2026-11-20T07:12:30"), pulse="66", user=1, status=()),
        Pressure("138", "88", "NaN", at=at("2026-11-20T20:01:11"), pulse="74", user=2, status=(), unknown_bit=True),
        Pressure("126", "81", "NaN", at=at("2026-11-20T21:30:00"), pulse="67", user=1, status=())],
        name="BLESmart_0000021A2B00", address="C0:00:00:00:18:2C", serial=None, protocol="omron", layout="7322T",
        said="omron_hem7322t", clock=240, battery=0)], steps=[
            Step("pair", "--model", "omron_hem7322t"), Step("read"),
            Step("read", add=[Pressure("121", "78", "NaN", at=at("2026-11-21T07:20:08"), pulse="63", user=1, status=())])]),
    # Whole memories by a maker's own protocol: an unset clock, two equal measurements in one minute, a guest's, and then the
    # other user is chosen and has measured.
    Scenario("microlife-memory", None, [Meter(
        name="B3 BT", address="C0:00:00:00:18:2D", service=0x1810, manufacturer="Microlife", model="B3", protocol="microlife",
        records=[
            Pressure("144", "61", pulse="48", user=1, status=()), Pressure("144", "61", pulse="48", user=1, status=()),
            Pressure("134", "70", pulse="68", at=at("2026-11-17T17:02:00"), user=1, status=()),
            Pressure("147", "59", pulse="48", at=at("2026-11-17T17:56:00"), user=1, status=("irregular_pulse",)),
            Pressure("147", "59", pulse="48", at=at("2026-11-17T17:56:00"), user=1, status=("irregular_pulse",)),
            Pressure("148", "70", pulse="60", at=at("2026-11-18T12:07:00"), user=1, status=("cuff_too_loose",)),
            Pressure("121", "68", pulse="47", at=at("2026-11-18T21:30:00"), user=2, status=()),
            Pressure("138", "59", pulse="45", at=at("2026-11-19T06:09:00"), user=2, status=("irregular_pulse",), fibrillation=True),
        ], behaviour={"answer_time": 0.2, "piece_time": 0.03})], steps=[
            Step("pair"), Step("read"),
            Step("read", behaviour={"chosen": 2}, add=[
                Pressure("129", "77", pulse="62", at=at("2026-11-20T07:20:00"), user=2, status=())]),
            Step("read", behaviour={"chosen": 3}, add=[
                Pressure("151", "93", pulse="81", at=at("2026-11-20T19:05:00"), user=3, status=())])]),
    # A list that is opened, read and closed, without a bond: its clock twenty minutes ahead, an unset one before that, two
    # accounts and none, an irregular pulse, an empty slot.
    Scenario("viatom-list", None, [Meter(
        name="LP-BP2W", address="C0:00:00:00:18:2E", service=0x1810, protocol="viatom", clock=1200, mtu=64, records=[
            Pressure("131", "82", "98", pulse="66", status=()), Pressure("131", "82", "98", pulse="66", status=()),
            Pressure("126", "76", "93", pulse="64", at=at("2026-11-17T21:21:42"), user=72, account=218071, status=("irregular_pulse",)),
            Pressure("119", "74", "89", pulse="58", at=at("2026-11-18T07:05:10"), user=177, account=278176, status=()),
            Pressure("122", "75", "91", pulse="61", at=at("2026-11-18T07:06:20"), status=()),
            Pressure("133", "85", "NaN", pulse="70", at=at("2026-11-19T20:40:00"), user=72, account=218071, status=()),
        ], behaviour={"chunk": 100, "empty_slots": 1, "answer_time": 0.05, "piece_time": 0.02})], steps=[
            Step("pair"), Step("read"),
            Step("read", add=[
                Pressure("128", "79", "95", pulse="63", at=at("2026-11-20T07:30:15"), user=72, account=218071, status=())])]),
    Scenario("quirks-reads-all", None, [
        meter("TNG VOICE", 0x2A, [
            Glucose(0, at("2026-11-19T07:05:00"), "101"), Glucose(0, at("2026-11-19T19:10:00"), "134", context=Context(meal="postprandial")),
            Glucose(0, at("2026-11-20T07:00:00"), "97")], model="TD-4286", serial="TD2A", numbers_by_age=True,
            behaviour={"numbers_by_age": True, "order": "descending", "refused_operators": (3,)}),
        # What it shows is an hour ahead of its base time, which is what its clock says.
        generic([
            Glucose(11, at("2026-11-19T06:05:00"), "104", offset=60), Glucose(12, at("2026-11-19T12:15:00"), "146", offset=60),
            Glucose(13, at("2026-11-20T06:02:00"), "99", offset=60)], name="TestGlucose2", address="C0:00:00:00:18:2B", serial="GM1-0043",
            clock=-3600, behaviour={"refused_operators": (3,)})], steps=[
            Step("pair"), Step("read"), Step("read", add=[Glucose(0, at("2026-11-20T12:20:00"), "140")]),
            Step("pair", meter=1), Step("read", meter=1),
            Step("read", meter=1, add=[Glucose(14, at("2026-11-20T12:30:00"), "151", offset=60)])]),
    Scenario("quirks-onetouch", None, [onetouch(31, 35)], steps=[Step("pair"), Step("read")]),
    Scenario("onetouch-second-delivery", None, [onetouch(31, 37)], steps=[Step("pair"), Step("read")]),
    Scenario("quirks-bm96", utc("2026-11-20T20:40:00"), [beurer("BM96", 0x27, [
        Pressure("127.5", "79.5", at=at("2026-11-20T07:30:00"), pulse="69.5", user=1, status=("irregular_pulse",),
                 status_reserved=0xFF00, flags_reserved=0xE0),
        Pressure("130.0", "85.0", at=at("2026-11-20T19:30:00"), pulse="61.0", user=2, status=(), flags_reserved=0x20)])]),
    Scenario("cuff-private-address", utc("2026-11-20T18:00:00"), [omron([
        Pressure("125", "81", "96", at=at("2026-11-20T18:55:00"), pulse="64", user=1, status=("pulse_rate_too_high",))],
        private=True)]),
]
