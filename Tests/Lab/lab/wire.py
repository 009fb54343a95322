"""Human values to the octets of the specification: SFLOAT, Date Time, the numbers of the enumerations.

Only this direction exists here. Expected readings come from the human values (expected.py), so that
they cannot share a mistake with a decoder.
"""
import struct
from decimal import Decimal

SPECIALS = {"NaN": 0x07FF, "NRes": 0x0800, "+INF": 0x07FE, "-INF": 0x0802}

SAMPLE_TYPES = [None, "capillary_whole_blood", "capillary_plasma", "venous_whole_blood", "venous_plasma",
                "arterial_whole_blood", "arterial_plasma", "undetermined_whole_blood", "undetermined_plasma",
                "interstitial_fluid", "control_solution"]
SAMPLE_LOCATIONS = {"finger": 1, "alternate_site": 2, "earlobe": 3, "control_solution": 4, "not_available": 15}
GLUCOSE_STATUS = ["device_battery_low", "sensor_malfunction", "sample_insufficient", "strip_insertion_error",
                  "strip_type_incorrect", "result_too_high", "result_too_low", "temperature_too_high",
                  "temperature_too_low", "read_interrupted", "general_fault", "time_fault"]
CARBOHYDRATES = [None, "breakfast", "lunch", "dinner", "snack", "drink", "supper", "brunch"]
MEALS = [None, "preprandial", "postprandial", "fasting", "casual", "bedtime"]
TESTERS = {"self": 1, "health_care_professional": 2, "lab_test": 3, "not_available": 15}
HEALTHS = {"minor_health_issues": 1, "major_health_issues": 2, "during_menses": 3, "under_stress": 4,
           "no_health_issues": 5, "not_available": 15}
MEDICATIONS = [None, "rapid_acting_insulin", "short_acting_insulin", "intermediate_acting_insulin",
               "long_acting_insulin", "pre_mixed_insulin"]
CGM_LOCATIONS = SAMPLE_LOCATIONS | {"subcutaneous_tissue": 5}
# The bits of the annunciation by octet: status, calibration and temperature, warning.
CGM_STATUS = [
    ["session_stopped", "device_battery_low", "sensor_type_incorrect", "sensor_malfunction", "device_specific_alert",
     "general_fault"],
    ["time_synchronization_required", "calibration_not_allowed", "calibration_recommended", "calibration_required",
     "temperature_too_high", "temperature_too_low"],
    ["below_patient_low", "above_patient_high", "below_hypo", "above_hyper", "rate_of_decrease_exceeded",
     "rate_of_increase_exceeded", "result_too_low", "result_too_high"]]
CUFF_STATUS = {"body_movement": 1, "cuff_too_loose": 2, "irregular_pulse": 4, "pulse_rate_too_high": 8,
               "pulse_rate_too_low": 16, "improper_position": 32}


def sfloat(value, shift=0):
    """`value` ("5.5": its digits say mantissa and exponent, or a special) as two octets, its exponent `shift` higher."""
    if value in SPECIALS:
        return struct.pack("<H", SPECIALS[value])
    sign, digits, exponent = Decimal(value).as_tuple()
    mantissa = int("".join(map(str, digits))) * (-1 if sign else 1)
    exponent += shift
    assert -2048 <= mantissa <= 2047 and -8 <= exponent <= 7, f"{value} does not fit an SFLOAT"
    assert exponent or mantissa not in (2047, -2048, 2046, -2046, -2047), f"{value} would be a special value"
    return struct.pack("<H", (exponent & 0xF) << 12 | mantissa & 0xFFF)


def float32(value):
    """`value` as a FLOAT of four octets: 24 bits of mantissa, then the exponent."""
    specials = {"NaN": 0x007FFFFF, "NRes": 0x00800000, "+INF": 0x007FFFFE, "-INF": 0x00800002}
    if value in specials:
        return struct.pack("<I", specials[value])
    sign, digits, exponent = Decimal(value).as_tuple()
    mantissa = int("".join(map(str, digits))) * (-1 if sign else 1)
    assert abs(mantissa) < 8388605 and -128 <= exponent <= 127, f"{value} does not fit a FLOAT"
    return struct.pack("<I", (exponent & 0xFF) << 24 | mantissa & 0xFFFFFF)


def date_time(moment):
    """Date Time 2A08: a datetime, or None for the clock that was never set."""
    if moment is None:
        return bytes(7)
    return struct.pack("<HBBBBB", moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)


def cgm_checksum(octets):
    """E2E-CRC: CRC-CCITT, the lowest bit first, beginning with FFFF."""
    value = 0xFFFF
    for octet in octets:
        for bit in range(8):
            feedback = (value ^ octet >> bit) & 1
            value = value >> 1 ^ (0x8408 if feedback else 0)
    return struct.pack("<H", value)


def current_time(moment):
    """Current Time 2A2B: day of week, no fractions, adjust reason 0."""
    return date_time(moment) + bytes([moment.isoweekday(), 0, 0])
