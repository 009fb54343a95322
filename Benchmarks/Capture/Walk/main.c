// The floor: walks the records of a btsnoop file (datalink 2001) through a buffer and counts ATT notifications and
// indications where they stand in unfragmented packets. It follows no connection and checks nothing.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint32_t big(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

int main(int count, char **arguments) {
    static uint8_t buffer[256 * 1024];
    if (count < 2) return 64;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int file = open(arguments[1], O_RDONLY);
    if (file < 0) return perror(arguments[1]), 66;
    size_t filled = 0, place = 0;
    uint64_t values = 0;
    if (read(file, buffer, 16) != 16) return 65;
    for (;;) {
        if (filled - place < 24 || filled - place < 24 + (size_t)big(buffer + place + 4)) {
            size_t kept = filled - place;
            memmove(buffer, buffer + place, kept);
            ssize_t got = read(file, buffer + kept, sizeof buffer - kept);
            if (got <= 0) break;
            place = 0;
            filled = kept + (size_t)got;
            continue;
        }
        const uint8_t *at = buffer + place;
        size_t length = big(at + 4);
        uint32_t opcode = big(at + 8) & 0xFFFF;
        const uint8_t *packet = at + 24;
        if (opcode == 5 && length > 8 && packet[6] == 4 && packet[7] == 0 && (packet[8] == 0x1B || packet[8] == 0x1D))
            values++;
        place += 24 + length;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("%llu values, %.3f s, %ld kB resident\n", (unsigned long long)values, seconds, usage.ru_maxrss);
    return 0;
}
