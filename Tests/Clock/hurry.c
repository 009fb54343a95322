// A clock that leaves out the time in which a process only waits, preloaded (LD_PRELOAD).
//
// All clocks of the process show the machine's time plus an offset. A thread of this library watches the process. Whenever
// all other threads sleep and nothing outside is at work for them, it moves the clocks on to the next moment that a thread
// waits for, and wakes whoever waits for it. The program does everything that it would do in that time, in the same order
// and by the same timers, and while it works its clocks run at their usual pace.
//
// HEALTHRELAY_TEST_HURRY names a file that the process and its driver map (struct shared, below), and a FIFO (with ".bell"
// behind the name) in which a byte tells the driver to look. With HEALTHRELAY_TEST_HURRY_FOLLOWS the process shows the same
// time and moves nothing: a second program beside the first.
//
// Handled: timerfd, epoll, poll, select, nanosleep, condition variables and semaphores. Raw futexes with a time-out, timers
// that raise signals and time-outs of sockets go by the machine's clock.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NANO 1000000000LL
#define NEVER INT64_MAX
#define ALARM (SIGRTMAX - 3)
#define DESCRIPTORS 1024
#define WAITS 512
// How late a timer may be: what is due within this time is done at once. A busy machine is as late.
#define SLACK NANO

/// What the process and its driver share. Times are nanoseconds.
struct shared {
    _Atomic int64_t offset;    // what all clocks are ahead of the machine's; the driver writes it while no process runs
    _Atomic int64_t limit;     // by the driver: no leap goes beyond this CLOCK_REALTIME
    _Atomic int64_t sent;      // how often the process has sent to a stream's socket
    _Atomic int64_t settled;   // by the driver: so many of these have been answered, and nothing is on its way
    _Atomic int64_t leaps;
    _Atomic int64_t processor; // user and system time of the process, without this library's thread
    _Atomic int64_t switches;  // its voluntary context switches, likewise
    _Atomic int64_t process;   // its id, once this library is at work
};
static struct shared *shared;
static int bell = -1;

/// Who waits until a moment: a thread in a system call that a signal ends, or a condition variable.
struct waiting { _Atomic int64_t until; _Atomic int isDue; pid_t thread; clockid_t clock; pthread_cond_t *condition; };
static struct waiting waits[WAITS];
/// When a timer's descriptor is to be ready, by its clock; zero: never.
static struct { _Atomic int64_t at; int64_t interval; clockid_t clock; } timers[DESCRIPTORS];

/// The process's sockets to the network. What is sent on one is on its way for a moment, also to this very machine.
static _Atomic char isOnNetwork[DESCRIPTORS];

#define REAL(result, name, ...) \
    static result (*name)(__VA_ARGS__); \
    if (!name) name = dlsym(RTLD_NEXT, &(#name)[5]);

static int64_t count(const struct timespec *time) { return time->tv_sec * NANO + time->tv_nsec; }
static struct timespec timeOf(int64_t count) {
    return (struct timespec){ .tv_sec = count / NANO, .tv_nsec = count % NANO };
}

static int isMoved(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW: case CLOCK_BOOTTIME: case CLOCK_TAI: return 1;
    default: return 0;
    }
}

static int64_t machineTime(clockid_t clock) {
    REAL(int, real_clock_gettime, clockid_t, struct timespec *)
    struct timespec time;
    real_clock_gettime(clock, &time);
    return count(&time);
}

static int64_t now(clockid_t clock) { return machineTime(clock) + (shared && isMoved(clock) ? shared->offset : 0); }

// Clocks

int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(int, real_clock_gettime, clockid_t, struct timespec *)
    int result = real_clock_gettime(clock, time);
    if (result == 0 && shared && isMoved(clock)) *time = timeOf(count(time) + shared->offset);
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t moment = now(CLOCK_REALTIME);
    time->tv_sec = moment / NANO;
    time->tv_usec = moment % NANO / 1000;
    return 0;
}

time_t time(time_t *place) {
    time_t seconds = now(CLOCK_REALTIME) / NANO;
    if (place) *place = seconds;
    return seconds;
}

int timespec_get(struct timespec *time, int base) {
    if (base != TIME_UTC) return 0;
    *time = timeOf(now(CLOCK_REALTIME));
    return base;
}

int adjtimex(struct timex *state) {
    if (!shared || state->modes != 0) return (int)syscall(SYS_adjtimex, state);
    memset(state, 0, sizeof *state);
    return TIME_OK;
}

// Timers that are descriptors

static void arm(int file) {
    REAL(int, real_timerfd_settime, int, int, const struct itimerspec *, struct itimerspec *)
    int64_t at = timers[file].at - shared->offset;
    struct itimerspec value = { timeOf(timers[file].interval), timeOf(at > 0 ? at : 1) };
    real_timerfd_settime(file, TFD_TIMER_ABSTIME, &value, NULL);
}

int timerfd_create(int clock, int flags) {
    REAL(int, real_timerfd_create, int, int)
    int file = real_timerfd_create(clock, flags);
    if (file >= 0 && file < DESCRIPTORS) timers[file].clock = clock, timers[file].at = 0;
    return file;
}

int timerfd_gettime(int file, struct itimerspec *value) {
    REAL(int, real_timerfd_gettime, int, struct itimerspec *)
    int result = real_timerfd_gettime(file, value);
    if (result == 0 && shared && file < DESCRIPTORS) {
        int64_t left = timers[file].at ? timers[file].at - now(timers[file].clock) : 0;
        value->it_value = timeOf(left > 0 ? left : 0);
    }
    return result;
}

int timerfd_settime(int file, int flags, const struct itimerspec *value, struct itimerspec *old) {
    REAL(int, real_timerfd_settime, int, int, const struct itimerspec *, struct itimerspec *)
    if (!shared || file < 0 || file >= DESCRIPTORS || !isMoved(timers[file].clock))
        return real_timerfd_settime(file, flags, value, old);
    if (old) timerfd_gettime(file, old);
    int64_t at = count(&value->it_value);
    if (at == 0) {
        timers[file].at = 0;
        return real_timerfd_settime(file, 0, value, NULL);
    }
    timers[file].interval = count(&value->it_interval);
    timers[file].at = flags & TFD_TIMER_ABSTIME ? at : at + now(timers[file].clock);
    arm(file);
    return 0;
}

int close(int file) {
    if (file >= 0 && file < DESCRIPTORS) {
        timers[file].at = 0;
        isOnNetwork[file] = 0;
    }
    return (int)syscall(SYS_close, file);
}

// Waits

static __thread int isAwakened;

/// Takes a place among those who wait.
static struct waiting *begin(clockid_t clock, int64_t until, pthread_cond_t *condition) {
    if (!isAwakened) {
        sigset_t mine;
        sigemptyset(&mine);
        sigaddset(&mine, ALARM);
        pthread_sigmask(SIG_UNBLOCK, &mine, NULL);
        isAwakened = 1;
    }
    for (;;) for (int place = 0; place < WAITS; place++) {
        int64_t nobody = 0;
        if (waits[place].until == 0 && atomic_compare_exchange_strong(&waits[place].until, &nobody, NEVER)) {
            waits[place].isDue = 0;
            waits[place].thread = (pid_t)syscall(SYS_gettid);
            waits[place].clock = clock;
            waits[place].condition = condition;
            waits[place].until = until > 0 ? until : 1;
            return &waits[place];
        }
    }
}

/// Whether the moment has come.
static int end(struct waiting *wait) {
    int isDue = wait->isDue;
    wait->until = 0;
    return isDue;
}

static struct timespec left(clockid_t clock, int64_t until) {
    int64_t rest = until - now(clock);
    return timeOf(rest > 0 ? rest : 0);
}

/// Waits by a system call that takes the time that is left, until it ends otherwise than by our signal.
#define WAIT_UNTIL(clock, moment, call, timedOut) \
    for (;;) { \
        struct waiting *wait = begin(clock, moment, NULL); \
        struct timespec rest = left(clock, moment); \
        int result = (call), error = errno, isDue = end(wait); \
        errno = error; \
        if (result >= 0 || error != EINTR || !isDue) return result; \
        if (now(clock) >= (moment)) return timedOut; \
    }

int ppoll(struct pollfd *files, nfds_t number, const struct timespec *limit, const sigset_t *mask) {
    REAL(int, real_ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *)
    if (!shared || !limit || count(limit) == 0) return real_ppoll(files, number, limit, mask);
    int64_t until = now(CLOCK_MONOTONIC) + count(limit);
    WAIT_UNTIL(CLOCK_MONOTONIC, until, real_ppoll(files, number, &rest, mask), 0)
}

int poll(struct pollfd *files, nfds_t number, int milliseconds) {
    struct timespec limit = timeOf(milliseconds * 1000000LL);
    return ppoll(files, number, milliseconds < 0 ? NULL : &limit, NULL);
}

int epoll_pwait2(int file, struct epoll_event *events, int most, const struct timespec *limit, const sigset_t *mask) {
    REAL(int, real_epoll_pwait2, int, struct epoll_event *, int, const struct timespec *, const sigset_t *)
    if (!shared || !limit || count(limit) == 0) return real_epoll_pwait2(file, events, most, limit, mask);
    int64_t until = now(CLOCK_MONOTONIC) + count(limit);
    WAIT_UNTIL(CLOCK_MONOTONIC, until, real_epoll_pwait2(file, events, most, &rest, mask), 0)
}

int epoll_pwait(int file, struct epoll_event *events, int most, int milliseconds, const sigset_t *mask) {
    REAL(int, real_epoll_pwait, int, struct epoll_event *, int, int, const sigset_t *)
    if (!shared || milliseconds <= 0) return real_epoll_pwait(file, events, most, milliseconds, mask);
    struct timespec limit = timeOf(milliseconds * 1000000LL);
    return epoll_pwait2(file, events, most, &limit, mask);
}

int epoll_wait(int file, struct epoll_event *events, int most, int milliseconds) {
    return epoll_pwait(file, events, most, milliseconds, NULL);
}

int pselect(int number, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *limit, const sigset_t *mask) {
    REAL(int, real_pselect, int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *)
    if (!shared || !limit || count(limit) == 0) return real_pselect(number, reads, writes, others, limit, mask);
    int64_t until = now(CLOCK_MONOTONIC) + count(limit);
    for (;;) {
        fd_set r, w, o;
        if (reads) r = *reads;
        if (writes) w = *writes;
        if (others) o = *others;
        struct waiting *wait = begin(CLOCK_MONOTONIC, until, NULL);
        struct timespec rest = left(CLOCK_MONOTONIC, until);
        int result = real_pselect(number, reads ? &r : NULL, writes ? &w : NULL, others ? &o : NULL, &rest, mask);
        int error = errno, isDue = end(wait), isOver = now(CLOCK_MONOTONIC) >= until;
        if (result < 0 && error == EINTR && isDue && !isOver) continue;
        if (result < 0 && error == EINTR && isDue) {
            result = 0;
            FD_ZERO(&r);
            FD_ZERO(&w);
            FD_ZERO(&o);
        }
        if (reads) *reads = r;
        if (writes) *writes = w;
        if (others) *others = o;
        errno = error;
        return result;
    }
}

int select(int number, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *limit) {
    struct timespec time = { limit ? limit->tv_sec : 0, limit ? limit->tv_usec * 1000 : 0 };
    return pselect(number, reads, writes, others, limit ? &time : NULL, NULL);
}

static int sleepUntil(clockid_t clock, int64_t until) {
    REAL(int, real_nanosleep, const struct timespec *, struct timespec *)
    WAIT_UNTIL(clock, until, real_nanosleep(&rest, NULL), 0)
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest) {
    REAL(int, real_clock_nanosleep, clockid_t, int, const struct timespec *, struct timespec *)
    if (!shared || !isMoved(clock)) return real_clock_nanosleep(clock, flags, time, rest);
    int64_t until = flags & TIMER_ABSTIME ? count(time) : count(time) + now(clock);
    if (sleepUntil(clock, until) == 0) return 0;
    if (rest && !(flags & TIMER_ABSTIME)) *rest = left(clock, until);
    return errno;
}

int nanosleep(const struct timespec *time, struct timespec *rest) {
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, rest);
    if (error) errno = error;
    return error ? -1 : 0;
}

int usleep(useconds_t microseconds) {
    struct timespec time = timeOf(microseconds * 1000LL);
    return nanosleep(&time, NULL);
}

unsigned sleep(unsigned seconds) {
    struct timespec time = timeOf(seconds * NANO), rest = { 0, 0 };
    return nanosleep(&time, &rest) == 0 ? 0 : (unsigned)rest.tv_sec;
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *time) {
    REAL(int, real_sem_clockwait, sem_t *, clockid_t, const struct timespec *)
    if (!shared) return real_sem_clockwait(semaphore, clock, time);
    int64_t until = count(time);
    for (;;) {
        struct waiting *wait = begin(clock, until, NULL);
        struct timespec moment = timeOf(until - shared->offset > 0 ? until - shared->offset : 1);
        int result = real_sem_clockwait(semaphore, clock, &moment), error = errno, isDue = end(wait);
        errno = error;
        if (result == 0 || error != EINTR || !isDue) return result;
        if (now(clock) >= until) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

int sem_timedwait(sem_t *semaphore, const struct timespec *time) {
    return sem_clockwait(semaphore, CLOCK_REALTIME, time);
}

// Whoever asks for a condition's clock later: glibc keeps it in the condition's own octets.
static clockid_t clockOf(const pthread_cond_t *condition) {
    return condition->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *time) {
    REAL(int, real_pthread_cond_clockwait, pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *)
    if (!shared) return real_pthread_cond_clockwait(condition, mutex, clock, time);
    int64_t until = count(time);
    struct waiting *wait = begin(clock, until, condition);
    struct timespec moment = timeOf(until - shared->offset > 0 ? until - shared->offset : 1);
    int result = real_pthread_cond_clockwait(condition, mutex, clock, &moment);
    return end(wait) && now(clock) >= until ? ETIMEDOUT : result;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time) {
    REAL(int, real_pthread_cond_timedwait, pthread_cond_t *, pthread_mutex_t *, const struct timespec *)
    if (!shared) return real_pthread_cond_timedwait(condition, mutex, time);
    return pthread_cond_clockwait(condition, mutex, clockOf(condition), time);
}

// libdispatch

/// Its manager looks after its threads once a second, whatever the program does. That would be 86,400 leaps a day: here it
/// looks every ten minutes. A program that has libdispatch within itself keeps the second.
void dispatch_source_set_timer(void *source, uint64_t start, uint64_t interval, uint64_t leeway) {
    REAL(void, real_dispatch_source_set_timer, void *, uint64_t, uint64_t, uint64_t)
    Dl_info caller;
    int isMonitor = interval == (uint64_t)NANO && leeway == 0 && dladdr(__builtin_return_address(0), &caller)
        && caller.dli_fname && strstr(caller.dli_fname, "libdispatch.so");
    real_dispatch_source_set_timer(source, start, shared && isMonitor ? 600 * interval : interval, leeway);
}

// What goes out

static int domainOf(int file) {
    int domain = 0, kind = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return 0;
    if (getsockopt(file, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 || kind != SOCK_STREAM) return 0;
    return domain;
}

static void note(int file, ssize_t result) {
    int error = errno;
    if (shared && result > 0 && file >= 0 && file < DESCRIPTORS) {
        int domain = domainOf(file);
        if (domain == AF_INET || domain == AF_INET6) isOnNetwork[file] = 1;
        if (domain) shared->sent++;
    }
    errno = error;
}

/// Whether all that was sent has come to the other end, and no connection is being made.
static int hasArrived(void) {
    for (int file = 0; file < DESCRIPTORS; file++) {
        if (!isOnNetwork[file]) continue;
        struct tcp_info state = { 0 };
        socklen_t size = sizeof state;
        if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &state, &size) != 0) isOnNetwork[file] = 0;
        else if (state.tcpi_state == 2 /* TCP_SYN_SENT */ || state.tcpi_unacked || state.tcpi_notsent_bytes) return 0;
    }
    return 1;
}

int connect(int file, const struct sockaddr *address, socklen_t size) {
    REAL(int, real_connect, int, const struct sockaddr *, socklen_t)
    int result = real_connect(file, address, size), error = errno;
    note(file, result == 0 || error == EINPROGRESS);
    errno = error;
    return result;
}

ssize_t write(int file, const void *octets, size_t size) {
    REAL(ssize_t, real_write, int, const void *, size_t)
    ssize_t result = real_write(file, octets, size);
    note(file, result);
    return result;
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    REAL(ssize_t, real_writev, int, const struct iovec *, int)
    ssize_t result = real_writev(file, parts, number);
    note(file, result);
    return result;
}

ssize_t send(int file, const void *octets, size_t size, int flags) {
    REAL(ssize_t, real_send, int, const void *, size_t, int)
    ssize_t result = real_send(file, octets, size, flags);
    note(file, result);
    return result;
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    REAL(ssize_t, real_sendmsg, int, const struct msghdr *, int)
    ssize_t result = real_sendmsg(file, message, flags);
    note(file, result);
    return result;
}

// The thread that watches

static void ring(void) {
    if (bell >= 0) syscall(SYS_write, bell, "!", 1);
}

static int64_t switchesOfOthers(void) {
    struct rusage all, mine;
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &mine);
    shared->processor = machineTime(CLOCK_PROCESS_CPUTIME_ID) - machineTime(CLOCK_THREAD_CPUTIME_ID);
    return all.ru_nvcsw - mine.ru_nvcsw;
}

static void rest(int64_t time) {
    struct timespec moment = timeOf(time);
    syscall(SYS_nanosleep, &moment, NULL);
}

/// Whether every other thread sleeps. None that has run in the meantime sleeps again without another voluntary switch.
static int isQuiet(pid_t mine) {
    int64_t before = switchesOfOthers();
    // To look at each thread takes longer than this.
    rest(20000);
    shared->switches = switchesOfOthers();
    if (shared->switches != before) return 0;
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), areAsleep = 1;
    char entries[4096];
    for (long size; areAsleep && (size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;) {
        for (long place = 0; areAsleep && place < size;) {
            struct { uint64_t inode, next; unsigned short length; char type, name[]; } *entry = (void *)&entries[place];
            place += entry->length;
            if (entry->name[0] == '.' || atoi(entry->name) == mine) continue;
            char path[64], words[256];
            snprintf(path, sizeof path, "%s/stat", entry->name);
            int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
            ssize_t length = file < 0 ? -1 : read(file, words, sizeof words - 1);
            if (file >= 0) syscall(SYS_close, file);
            words[length > 0 ? length : 0] = 0;
            const char *name = strrchr(words, ')');
            areAsleep = name && name[2] == 'S';
        }
    }
    syscall(SYS_close, folder);
    shared->switches = switchesOfOthers();
    return areAsleep && shared->switches == before;
}

/// The time until the next moment that anybody waits for; wakes those whose moment has come.
static int64_t untilNext(void) {
    int64_t next = NEVER;
    for (int file = 0; file < DESCRIPTORS; file++) {
        int64_t at = timers[file].at;
        if (at == 0) continue;
        int64_t rest = at - now(timers[file].clock);
        if (rest > 0) {
            if (rest < next) next = rest;
        } else if (timers[file].interval) {
            timers[file].at += timers[file].interval;
        } else {
            atomic_compare_exchange_strong(&timers[file].at, &at, 0);
        }
    }
    for (int place = 0; place < WAITS; place++) {
        int64_t until = waits[place].until;
        if (until == 0 || until == NEVER) continue;
        int64_t rest = until - now(waits[place].clock);
        if (rest > 0) {
            if (rest < next) next = rest;
            continue;
        }
        waits[place].isDue = 1;
        if (waits[place].condition) pthread_cond_broadcast(waits[place].condition);
        else syscall(SYS_tgkill, getpid(), waits[place].thread, ALARM);
        next = 0;
    }
    return next;
}

static void leap(int64_t time) {
    shared->offset += time;
    shared->leaps++;
    for (int file = 0; file < DESCRIPTORS; file++) if (timers[file].at) arm(file);
    untilNext();
}

static void *watch(void *unused) {
    (void)unused;
    pid_t mine = (pid_t)syscall(SYS_gettid);
    // Else the kernel would add 50 µs to each rest.
    prctl(PR_SET_TIMERSLACK, 1000);
    int64_t asked = -1, told = -1;
    for (;;) {
        int64_t next = untilNext(), limit = shared->limit, room = limit - now(CLOCK_REALTIME);
        if (room <= 0 || next == 0) {
            if (room <= 0 && told != limit) {
                told = limit;
                isQuiet(mine);
                ring();
            }
            rest(next == 0 ? 50000 : 1000000);
        } else if (!isQuiet(mine)) {
            rest(50000);
        } else if (!hasArrived()) {
            rest(100000);
        } else if (shared->sent != shared->settled) {
            if (asked != shared->sent) {
                asked = shared->sent;
                ring();
            }
            rest(100000);
        } else {
            leap(next + SLACK < room ? next + SLACK : room);
            rest(20000);
        }
    }
    return NULL;
}

static void wakeUp(int number) { (void)number; }

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("HEALTHRELAY_TEST_HURRY");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped == MAP_FAILED) return;
    shared = mapped;
    if (getenv("HEALTHRELAY_TEST_HURRY_FOLLOWS")) return;
    char name[4096];
    snprintf(name, sizeof name, "%s.bell", path);
    bell = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    // A helper that the program starts follows.
    setenv("HEALTHRELAY_TEST_HURRY_FOLLOWS", "1", 1);
    struct sigaction action = { .sa_handler = wakeUp, .sa_flags = SA_RESTART };
    sigaction(ALARM, &action, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    pthread_create(&thread, NULL, watch, NULL);
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    shared->process = getpid();
}
