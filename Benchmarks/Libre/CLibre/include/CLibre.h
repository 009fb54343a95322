// A plain C decoder of a FreeStyle Libre 1's memory, as one would write it by hand: the floor ours is measured against.
#ifndef CLIBRE_H
#define CLIBRE_H

#include <stddef.h>
#include <stdint.h>

struct c_record {
    int32_t minute;
    uint16_t glucose, temperature, quality;
    int16_t adjustment;
    uint8_t flags, error, is_history, has_value;
    int32_t value; // mg/dL
};

struct c_sensor {
    uint8_t state, initialisations, region;
    uint16_t age, life;
    int count;
    struct c_record records[48];
};

// Reads 344 octets; returns 0, or -1 where a CRC is wrong.
int c_decode_libre(const uint8_t *memory, struct c_sensor *out);

#endif
