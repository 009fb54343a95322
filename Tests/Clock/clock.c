// A clock for one process, preloaded (LD_PRELOAD): the machine's clock, moved by what a file says while the process runs,
// and a kernel that says of it what the file says.
//
// The file (HEALTHRELAY_TEST_CLOCK) holds two 64-bit numbers: how far the clock is moved, in microseconds, and who says
// that it is synchronised: 0 nobody, 1 the kernel, 2 nobody and the kernel may not be asked (as in the service's sandbox),
// 3 systemd-timesyncd's file and the kernel may not be asked. Time since the start of the machine is not touched.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

struct state { volatile int64_t offset; volatile int64_t synchronization; };
static const struct state *shared;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("HEALTHRELAY_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(struct state), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) shared = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result != 0 || !shared || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    int64_t offset = shared->offset;
    time->tv_sec += offset / 1000000;
    time->tv_nsec += offset % 1000000 * 1000;
    if (time->tv_nsec >= 1000000000) { time->tv_nsec -= 1000000000; time->tv_sec++; }
    if (time->tv_nsec < 0) { time->tv_nsec += 1000000000; time->tv_sec--; }
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int adjtimex(struct timex *state) {
    if (!shared) return (int)syscall(SYS_adjtimex, state);
    if (state->modes != 0 || shared->synchronization >= 2) { errno = EPERM; return -1; }
    memset(state, 0, sizeof *state);
    if (shared->synchronization == 1) return TIME_OK;
    state->status = STA_UNSYNC;
    return TIME_ERROR;
}

int access(const char *path, int mode) {
    if (shared && strcmp(path, "/run/systemd/timesync/synchronized") == 0) {
        if (shared->synchronization == 3) return 0;
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}
