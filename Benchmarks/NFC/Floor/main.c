// The floor of a scan: a bare program over libnfc that asks what a scan asks, and nothing more. nfc-floor READER
#include <nfc/nfc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { blocks = 43, at_once = 3 };

static uint16_t crc(const uint8_t *octets, size_t count) {
    uint16_t sum = 0xFFFF;
    for (size_t index = 0; index < count; index++) {
        sum ^= octets[index];
        for (int bit = 0; bit < 8; bit++) sum = sum & 1 ? sum >> 1 ^ 0x8408 : sum >> 1;
    }
    return (uint16_t)~sum;
}

// Asks the tag; gives the length of its data behind the flags, or -1.
static int ask(nfc_device *device, const uint8_t *frame, size_t count, uint8_t *data) {
    uint8_t request[16] = {0x80, 0x00}, answer[264];
    memcpy(request + 2, frame, count);
    const uint16_t own = crc(frame, count);
    request[2 + count] = own & 0xFF;
    request[3 + count] = own >> 8;
    const int length = nfc_initiator_transceive_bytes(device, request, count + 4, answer, sizeof answer, 1000);
    if (length < 3 || answer[0] & 1) return -1;
    if (crc(answer, length - 2) != (answer[length - 2] | answer[length - 1] << 8)) return -1;
    memcpy(data, answer + 1, length - 3);
    return length - 3;
}

int main(int count, char **arguments) {
    nfc_context *library = NULL;
    nfc_init(&library);
    nfc_device *device = library && count > 1 ? nfc_open(library, arguments[1]) : NULL;
    if (!device || nfc_initiator_init(device) < 0) return 1;
    if (nfc_device_set_property_bool(device, NP_HANDLE_CRC, false) < 0) return 1;
    if (nfc_device_set_property_bool(device, NP_EASY_FRAMING, false) < 0) return 1;
    uint8_t data[264], memory[blocks * 8];
    int failures = 0;
    failures += ask(device, (uint8_t[]){0x26, 0x01, 0x00}, 3, data) != 9;
    failures += ask(device, (uint8_t[]){0x02, 0xA1, 0x07}, 3, data) != 6;
    for (int first = 0; first < blocks; first += at_once) {
        const int many = blocks - first < at_once ? blocks - first : at_once;
        const uint8_t frame[] = {0x02, 0x23, (uint8_t)first, (uint8_t)(many - 1)};
        failures += ask(device, frame, sizeof frame, data) != many * 8;
        memcpy(memory + first * 8, data, many * 8);
    }
    failures += ask(device, (uint8_t[]){0x26, 0x01, 0x00}, 3, data) != 9;
    nfc_close(device);
    nfc_exit(library);
    printf("%02X\n", crc(memory, sizeof memory));
    return failures > 0;
}
