#include "CLibre.h"

#include <math.h>

static uint16_t table[256];
static double slopes[124];

__attribute__((constructor)) static void prepare(void) {
    for (int i = 0; i < 256; i++) {
        uint16_t word = (uint16_t)i;
        for (int bit = 0; bit < 8; bit++) word = word & 1 ? (uint16_t)(word >> 1 ^ 0x8408) : word >> 1;
        table[i] = word;
    }
    for (int row = 0; row < 124; row++) slopes[row] = 0.0377442 * pow(1.01, row);
}

static uint16_t word(const uint8_t *octets) { return (uint16_t)(octets[0] | octets[1] << 8); }

static int is_right(const uint8_t *memory, int first, int end) {
    uint16_t crc = 0xFFFF, reversed = 0;
    for (int i = first + 2; i < end; i++) crc = (uint16_t)(crc >> 8 ^ table[(crc ^ memory[i]) & 0xFF]);
    for (int bit = 0; bit < 16; bit++) reversed = (uint16_t)(reversed << 1 | (crc >> bit & 1));
    return reversed == word(memory + first);
}

struct calibration {
    int i2, i3, i4, i6;
    double intercept, slope;
};

static int value(const struct c_record *record, const struct calibration *c, int32_t *out) {
    int scale = record->adjustment + c->i6;
    if (record->error || c->i2 == 0 || c->i4 == c->i3 || scale == 0) return 0;
    double r = record->temperature * 72500.0 / scale - 1000;
    if (r <= 0) return 0;
    double l = log(r);
    double t = 1 / (0.0009180023 + 0.0001964561 * l + 0.0000007061775 * l * l + 0.00000005283566 * l * l * l) - 273.15;
    double mg = (65.0 * (record->glucose - c->i3) / (c->i4 - c->i3) * pow(1.045, 32.5 - t) - c->intercept) / c->slope;
    mg = round(mg);
    if (!(fabs(mg) < 1000000)) return 0;
    *out = (int32_t)mg;
    return 1;
}

static void add(struct c_sensor *out, const uint8_t *at, int minute, int is_history, const struct calibration *c) {
    uint64_t bits = 0;
    for (int i = 0; i < 6; i++) bits |= (uint64_t)at[i] << (8 * i);
    if ((bits & 0x3FFF) == 0 || minute < 0 || minute > out->age) return;
    struct c_record *record = &out->records[out->count++];
    record->minute = minute;
    record->is_history = (uint8_t)is_history;
    record->glucose = bits & 0x3FFF;
    record->quality = bits >> 14 & 0x1FF;
    record->flags = bits >> 23 & 3;
    record->error = bits >> 25 & 1;
    record->temperature = (uint16_t)((bits >> 26 & 0xFFF) << 2);
    record->adjustment = (int16_t)((bits >> 38 & 0x1FF) << 2);
    if (bits >> 47 & 1) record->adjustment = (int16_t)-record->adjustment;
    record->has_value = (uint8_t)value(record, c, &record->value);
}

__attribute__((noinline)) int c_decode_libre(const uint8_t *m, struct c_sensor *out) {
    if (!is_right(m, 0, 24) || !is_right(m, 24, 320) || !is_right(m, 320, 344)) return -1;
    out->state = m[4];
    out->age = word(m + 316);
    out->initialisations = m[318];
    out->region = m[323];
    out->life = word(m + 326);
    out->count = 0;
    uint64_t high = 0;
    for (int i = 0; i < 8; i++) high |= (uint64_t)m[336 + i] << (8 * i);
    struct calibration c = {word(m + 2) >> 3 & 0x3FF, high & 0xFF, high >> 8 & 0x3FFF, (int)(high >> 52 & 0xFFF) << 2, 0, 0};
    if (high >> 33 & 1) c.i3 = -c.i3;
    int n = c.i2 - 1;
    if (n >= 0) {
        int row, step;
        double start = 0.75;
        if (n < 512) row = n / 8, step = n % 8;
        else if (n < 719) row = 64 + (n - 512) / 9, step = (n - 512) % 9;
        else if (n < 951) row = 87 + (n - 719) / 8, step = (n - 719) % 8, start = 1;
        else row = 116 + (n - 951) / 9, step = (n - 951) % 9, start = 1;
        c.intercept = start + 0.25 * step;
        c.slope = slopes[row];
    }
    int since = out->age > 3 ? out->age - 3 : 0, count = since / 15;
    if (count % 32 != m[27] && since % 15 == 14) count++;
    for (int i = 31; i >= 0; i--) add(out, m + 124 + 6 * ((m[27] + 31 - i) % 32), 15 * (count - i), 1, &c);
    int behind = (out->age - m[26]) & 15;
    if (m[26] < 16 && behind < 2)
        for (int i = 15; i >= 0; i--) add(out, m + 28 + 6 * ((m[26] + 15 - i) % 16), out->age - behind - i, 0, &c);
    return 0;
}
