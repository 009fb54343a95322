// A plain C decoder of 2A18 and 2A35, as one would write it by hand: the floor our decoder is measured against.
#ifndef CDECODE_H
#define CDECODE_H

#include <stddef.h>
#include <stdint.h>

struct c_number {
    int32_t mantissa;
    int8_t exponent;
    uint8_t special; // 0 for an ordinary number, else 1 NaN, 2 NRes, 3 +INF, 4 -INF, 5 reserved
};

struct c_glucose {
    uint16_t sequence;
    int64_t base_time; // seconds since 1970 on the device's wall, INT64_MIN where unknown
    int16_t time_offset;
    struct c_number concentration;
    uint8_t is_molar, type, location;
    uint16_t status;
    uint8_t has_offset, has_concentration, has_status, has_context;
};

struct c_blood_pressure {
    uint8_t is_kilopascal;
    struct c_number systolic, diastolic, mean, pulse;
    int64_t time_stamp;
    uint8_t user;
    uint16_t status;
    uint8_t has_time, has_pulse, has_user, has_status;
};

// Both return 0, or -1 for a short record.
int c_decode_glucose(const uint8_t *octets, size_t count, struct c_glucose *out);
int c_decode_blood_pressure(const uint8_t *octets, size_t count, struct c_blood_pressure *out);

// How often memory was asked for since the program began, by anyone in this process.
uint64_t allocation_count(void);

#endif
