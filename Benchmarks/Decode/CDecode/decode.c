#include "CDecode.h"

static uint16_t word(const uint8_t *octets) { return (uint16_t)(octets[0] | octets[1] << 8); }

static struct c_number number(const uint8_t *octets) {
    uint16_t raw = word(octets);
    struct c_number result = {0, 0, 0};
    switch (raw) {
    case 0x07FF: result.special = 1; return result;
    case 0x0800: result.special = 2; return result;
    case 0x07FE: result.special = 3; return result;
    case 0x0802: result.special = 4; return result;
    case 0x0801: result.special = 5; return result;
    }
    result.mantissa = raw & 0x0FFF;
    if (result.mantissa >= 0x0800) result.mantissa -= 0x1000;
    result.exponent = (int8_t)(raw >> 12);
    if (result.exponent >= 8) result.exponent -= 16;
    return result;
}

static int64_t date_time(const uint8_t *octets) {
    static const int8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = word(octets), month = octets[2], day = octets[3];
    int hour = octets[4], minute = octets[5], second = octets[6];
    if (year < 1582 || year > 9999 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59)
        return INT64_MIN;
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + (month == 2 && leap)) return INT64_MIN;
    int y = month <= 2 ? year - 1 : year;
    int era = y / 400;
    int year_of_era = y - era * 400;
    int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    int64_t days = (int64_t)era * 146097 + day_of_era - 719468;
    return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

__attribute__((noinline)) int c_decode_glucose(const uint8_t *octets, size_t count, struct c_glucose *out) {
    if (count < 10) return -1;
    uint8_t flags = octets[0];
    size_t at = 10;
    *out = (struct c_glucose){0};
    out->sequence = word(octets + 1);
    out->base_time = date_time(octets + 3);
    if (flags & 0x01) {
        if (at + 2 > count) return -1;
        out->has_offset = 1;
        out->time_offset = (int16_t)word(octets + at);
        at += 2;
    }
    if (flags & 0x02) {
        if (at + 3 > count) return -1;
        out->has_concentration = 1;
        out->concentration = number(octets + at);
        out->is_molar = (flags & 0x04) != 0;
        out->type = octets[at + 2] & 0x0F;
        out->location = octets[at + 2] >> 4;
        at += 3;
    }
    if (flags & 0x08) {
        if (at + 2 > count) return -1;
        out->has_status = 1;
        out->status = word(octets + at);
    }
    out->has_context = (flags & 0x10) != 0;
    return 0;
}

__attribute__((noinline)) int c_decode_blood_pressure(
    const uint8_t *octets, size_t count, struct c_blood_pressure *out) {
    if (count < 7) return -1;
    uint8_t flags = octets[0];
    size_t at = 7;
    *out = (struct c_blood_pressure){0};
    out->is_kilopascal = flags & 0x01;
    out->systolic = number(octets + 1);
    out->diastolic = number(octets + 3);
    out->mean = number(octets + 5);
    out->time_stamp = INT64_MIN;
    if (flags & 0x02) {
        if (at + 7 > count) return -1;
        out->has_time = 1;
        out->time_stamp = date_time(octets + at);
        at += 7;
    }
    if (flags & 0x04) {
        if (at + 2 > count) return -1;
        out->has_pulse = 1;
        out->pulse = number(octets + at);
        at += 2;
    }
    if (flags & 0x08) {
        if (at + 1 > count) return -1;
        out->has_user = 1;
        out->user = octets[at++];
    }
    if (flags & 0x10) {
        if (at + 2 > count) return -1;
        out->has_status = 1;
        out->status = word(octets + at);
    }
    return 0;
}
