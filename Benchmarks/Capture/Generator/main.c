// Writes a synthetic btsnoop capture (datalink 2001): eight interleaved connections to glucose meters, each with
// discovery, CCCDs, a report request, its share of 2A18 notifications, the answer and the disconnection.
// It shares no code with HCICapture, so that both cannot agree on one mistake.
//
// capture-generator FILE [RECORDS]      (default 4,600,000 records: 225 MB)
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { connections = 8, sent = 4, received = 5, event = 3 };
static const uint64_t epoch = 0x00DCDDB30F2F8000u;
static uint64_t now = 1795000000000000u;
static FILE *out;

static void big(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void record(int opcode, const uint8_t *packet, uint32_t length) {
    uint8_t head[24] = {0};
    uint64_t stamp = now + epoch;
    big(head, length), big(head + 4, length), big(head + 8, (uint32_t)opcode);
    big(head + 16, (uint32_t)(stamp >> 32)), big(head + 20, (uint32_t)stamp);
    fwrite(head, 1, sizeof head, out);
    fwrite(packet, 1, length, out);
    now += 100;
}

static void att(int connection, int opcode, const uint8_t *pdu, uint32_t length) {
    uint8_t packet[64] = {(uint8_t)(64 + connection), opcode == sent ? 0x00 : 0x20, (uint8_t)(length + 4), 0,
                          (uint8_t)length, 0, 4, 0};
    memcpy(packet + 8, pdu, length);
    record(opcode, packet, length + 8);
}
#define ATT(connection, opcode, ...) \
    do { \
        const uint8_t pdu[] = {__VA_ARGS__}; \
        att(connection, opcode, pdu, sizeof pdu); \
    } while (0)

static void begin(int c) {
    const uint8_t connected[] = {0x3E, 19, 1, 0, (uint8_t)(64 + c), 0, 0, 1, (uint8_t)c, 0x18, 0, 0, 0, 0xC0,
                                 24, 0, 0, 0, 72, 0, 0};
    record(event, connected, sizeof connected);
    ATT(c, sent, 0x10, 1, 0, 0xFF, 0xFF, 0x00, 0x28);
    ATT(c, received, 0x11, 6, 0x0C, 0, 0x18, 0, 0x08, 0x18);
    ATT(c, sent, 0x08, 0x0C, 0, 0x18, 0, 0x03, 0x28);
    ATT(c, received, 0x09, 7, 0x0D, 0, 0x10, 0x0E, 0, 0x18, 0x2A, 0x10, 0, 0x10, 0x11, 0, 0x34, 0x2A,
        0x13, 0, 0x02, 0x14, 0, 0x51, 0x2A);
    ATT(c, sent, 0x08, 0x15, 0, 0x18, 0, 0x03, 0x28);
    ATT(c, received, 0x09, 7, 0x15, 0, 0x28, 0x16, 0, 0x52, 0x2A);
    ATT(c, sent, 0x04, 0x0F, 0, 0x0F, 0);
    ATT(c, received, 0x05, 1, 0x0F, 0, 0x02, 0x29);
    ATT(c, sent, 0x0A, 0x14, 0);
    ATT(c, received, 0x0B, 0, 0);
    ATT(c, sent, 0x12, 0x0F, 0, 1, 0);
    ATT(c, received, 0x13);
    ATT(c, sent, 0x12, 0x17, 0, 2, 0);
    ATT(c, received, 0x13);
    ATT(c, sent, 0x12, 0x16, 0, 1, 1);
    ATT(c, received, 0x13);
}

static void end(int c) {
    ATT(c, received, 0x1D, 0x16, 0, 6, 0, 1, 1);
    ATT(c, sent, 0x1E);
    const uint8_t gone[] = {0x05, 4, 0, (uint8_t)(64 + c), 0, 0x13};
    record(event, gone, sizeof gone);
}

static void glucose(int c, uint32_t number) {
    // 2020-01-01 and on, a record every ten minutes.
    uint32_t minute = number * 10, day = minute / 1440, month = day / 28, year = 2020 + month / 12;
    uint32_t value = 40 + (number * 7 + (uint32_t)c) % 400;
    ATT(c, received, 0x1B, 0x0E, 0, 0x02, (uint8_t)number, (uint8_t)(number >> 8), (uint8_t)year, (uint8_t)(year >> 8),
        (uint8_t)(month % 12 + 1), (uint8_t)(day % 28 + 1), (uint8_t)(minute / 60 % 24), (uint8_t)(minute % 60), 0,
        (uint8_t)value, (uint8_t)(0xB0 | value >> 8), 0x11);
}

int main(int count, char **arguments) {
    if (count < 2) return fprintf(stderr, "capture-generator FILE [RECORDS]\n"), 64;
    long records = count > 2 ? strtol(arguments[2], NULL, 10) : 4600000;
    out = fopen(arguments[1], "wb");
    if (!out) return perror(arguments[1]), 73;
    fwrite("btsnoop\0\0\0\0\1\0\0\x07\xD1", 1, 16, out);
    uint32_t sentBy[connections] = {0}, share[connections];
    for (int c = 0; c < connections; c++) {
        share[c] = (uint32_t)(records / connections + (c < records % connections));
        begin(c);
    }
    uint64_t random = 88172645463325252u;
    for (long left = records; left > 0; left--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int c = (int)(random >> 61);
        while (sentBy[c] == share[c]) c = (c + 1) % connections;
        glucose(c, sentBy[c]++);
        if (sentBy[c] == share[c]) end(c);
    }
    for (int c = 0; c < connections; c++)
        if (share[c] == 0) end(c);
    if (fclose(out) != 0) return perror(arguments[1]), 74;
    return 0;
}
