/* A library to preload that fails the n-th file operation of a program, or records all of them.
 *
 * FAULTY_DIR       only files below this directory count; it must be an absolute path without links
 * FAULTY_COUNTS    a file of 16 64-bit numbers: how many operations of each class there were, then whether one failed
 * FAULTY_FAIL      CLASS:N:ERRNO[:MODE] fails the N-th operation of a class (from 1) with that number
 *                    once   this one operation only (the default)
 *                    on     every operation of the class from then on: the disk stays full
 *                    short  a write writes half of what it was given, the next ones all of it
 *                    full   a write writes half of what it was given, the next ones fail
 *                    kill   the process is killed (SIGKILL) in place of the operation
 *                    torn   a write writes half of what it was given, and the process is killed
 * FAULTY_LOG       a file that gets every change below the directory, in order, with its data; see `record`
 *
 * It sees calls that go through the dynamic linker: those of SQLite, Foundation and the program itself. It does not see
 * calls inside glibc (fopen and fwrite). `inject` proves with a recorded run that no file is written that way.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, SYNC, RENAME, TRUNCATE, UNLINK, MKDIR, MAP, CLASSES };
enum { FAILED = 15 };
enum { ONCE, ON, KILL, SHORT, FULL, TORN };
enum { MOST_DESCRIPTORS = 4096 };

static const char *const names[CLASSES] = {"open", "read", "write", "sync", "rename", "truncate", "unlink", "mkdir", "map"};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char directory[PATH_MAX];
static size_t directory_length;
static uint64_t own_counts[16];
static uint64_t *counts = own_counts;
static int fail_class = -1, fail_errno, fail_mode;
static uint64_t fail_at;
static int log_file = -1;
/* What each descriptor is open on: 0 nothing of ours, else a number that no other opening has. */
static uint32_t openings[MOST_DESCRIPTORS];
static uint32_t last_opening;

/* The function of this name behind ours. */
#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })

static void complain(const char *what) {
    dprintf(2, "faulty: %s\n", what);
    _exit(126);
}

__attribute__((constructor)) static void begin(void) {
    const char *value = getenv("FAULTY_DIR");
    if (!value || *value != '/') return;
    directory_length = strlen(value);
    if (directory_length >= sizeof directory) complain("FAULTY_DIR is too long");
    memcpy(directory, value, directory_length + 1);
    if ((value = getenv("FAULTY_COUNTS"))) {
        int file = syscall(SYS_openat, AT_FDCWD, value, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0 || syscall(SYS_ftruncate, file, sizeof own_counts)) complain("FAULTY_COUNTS cannot be made");
        void *shared = (void *)syscall(SYS_mmap, 0, sizeof own_counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
        if (shared == MAP_FAILED) complain("FAULTY_COUNTS cannot be mapped");
        counts = shared;
        syscall(SYS_close, file);
    }
    if ((value = getenv("FAULTY_LOG"))) {
        int file = syscall(SYS_openat, AT_FDCWD, value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        log_file = syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, 900);
        if (log_file < 0) complain("FAULTY_LOG cannot be made");
        syscall(SYS_close, file);
    }
    if ((value = getenv("FAULTY_FAIL"))) {
        char class[16], mode[16] = "once";
        unsigned long long n;
        if (sscanf(value, "%15[a-z]:%llu:%d:%15[a-z]", class, &n, &fail_errno, mode) < 3) complain("FAULTY_FAIL is wrong");
        for (int i = 0; i < CLASSES; i++) if (!strcmp(class, names[i])) fail_class = i;
        fail_at = n;
        fail_mode = !strcmp(mode, "on") ? ON : !strcmp(mode, "short") ? SHORT : !strcmp(mode, "full") ? FULL
            : !strcmp(mode, "kill") ? KILL : !strcmp(mode, "torn") ? TORN : ONCE;
        if (fail_class < 0) complain("FAULTY_FAIL names no class");
    }
}

/* The absolute path of what a call names, where it is ours; else NULL. */
static const char *ours(int at, const char *path, char *buffer) {
    if (!directory_length || !path) return NULL;
    if (*path != '/') {
        char link[32], base[PATH_MAX];
        ssize_t count;
        if (at == AT_FDCWD) {
            count = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", base, sizeof base);
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            count = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base);
        }
        if (count <= 0 || count + 2 + (ssize_t)strlen(path) > PATH_MAX) return NULL;
        memcpy(buffer, base, count);
        buffer[count] = '/';
        strcpy(buffer + count + 1, path);
        path = buffer;
    }
    if (strncmp(path, directory, directory_length)) return NULL;
    return path[directory_length] == '/' || path[directory_length] == 0 ? path : NULL;
}

static int is_ours(int descriptor) {
    return descriptor >= 0 && descriptor < MOST_DESCRIPTORS && openings[descriptor] != 0;
}

static void die(void) {
    syscall(SYS_kill, (long)getpid(), (long)SIGKILL);
    for (;;) pause();
}

/* Counts an operation; returns what to do with it: 0 let it be, 1 fail, 2 only half of it. */
static int struck(int class) {
    uint64_t n = ++counts[class];
    if (class != fail_class || n < fail_at || (n > fail_at && fail_mode != ON && fail_mode != FULL)) return 0;
    counts[FAILED]++;
    if (fail_mode == KILL) die();
    return n == fail_at && fail_mode >= SHORT ? 2 : 1;
}

/* One entry of the log: its kind, the opening, an offset or length, and data or paths (each ends with a 0). */
static void record(char kind, uint32_t opening, uint64_t number, const void *data, size_t length) {
    if (log_file < 0) return;
    struct __attribute__((packed)) { char kind; uint32_t opening; uint64_t number; uint32_t length; } head = {
        kind, opening, number, (uint32_t)length};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, length}};
    if (syscall(SYS_writev, log_file, parts, 2) != (long)(sizeof head + length)) complain("the log cannot be written");
}

static void record_paths(char kind, const char *from, const char *to) {
    if (log_file < 0) return;
    char both[2 * PATH_MAX];
    size_t first = strlen(from) + 1, second = to ? strlen(to) + 1 : 0;
    memcpy(both, from, first);
    if (to) memcpy(both + first, to, second);
    record(kind, 0, 0, both, first + second);
}

#define LOCKED(body) ({ pthread_mutex_lock(&mutex); body; int kept = errno; pthread_mutex_unlock(&mutex); errno = kept; })

/* Opening: every way there is to. */

static int opened(int at, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *own = ours(at, path, buffer);
    if (!own) return syscall(SYS_openat, at, path, flags, mode);
    int result = -1;
    LOCKED({
        if (struck(OPEN)) {
            errno = fail_errno;
        } else {
            int existed = syscall(SYS_faccessat, AT_FDCWD, own, F_OK) == 0;
            result = syscall(SYS_openat, at, path, flags, mode);
            if (result >= 0 && result < MOST_DESCRIPTORS) {
                openings[result] = ++last_opening;
                record(existed ? 'o' : 'c', last_opening, (flags & O_TRUNC) != 0, own, strlen(own) + 1);
            }
        }
    });
    return result;
}

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list); \
        return opened(AT_FDCWD, path, flags, mode); \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list); \
        return opened(at, path, flags, mode); \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Listing a directory opens it too. */
void *opendir(const char *path) {
    char buffer[PATH_MAX];
    if (ours(AT_FDCWD, path, buffer)) {
        int strikes = 0;
        LOCKED(strikes = struck(OPEN));
        if (strikes) { errno = fail_errno; return NULL; }
    }
    static void *(*real)(const char *);
    if (!real) real = (void *(*)(const char *))dlsym(RTLD_NEXT, "opendir");
    return real(path);
}

int close(int descriptor) {
    if (is_ours(descriptor)) LOCKED(openings[descriptor] = 0);
    return syscall(SYS_close, descriptor);
}

/* A read fails whole. */

#define STRIKES(class, failure) \
    if (is_ours(descriptor)) { \
        int strikes = 0; \
        LOCKED(strikes = struck(class)); \
        if (strikes) { errno = fail_errno; return failure; } \
    }

ssize_t read(int descriptor, void *data, size_t count) {
    STRIKES(READ, -1)
    return REAL(read)(descriptor, data, count);
}

ssize_t pread(int descriptor, void *data, size_t count, off_t offset) {
    STRIKES(READ, -1)
    return syscall(SYS_pread64, descriptor, data, count, offset);
}

ssize_t pread64(int descriptor, void *data, size_t count, off_t offset) {
    STRIKES(READ, -1)
    return syscall(SYS_pread64, descriptor, data, count, offset);
}

/* Writing. An offset of -1: where the descriptor stands. */

static ssize_t written(int descriptor, const void *data, size_t count, off_t offset) {
    ssize_t result = -1;
    LOCKED({
        int strikes = struck(WRITE);
        if (strikes == 1) {
            errno = fail_errno;
        } else {
            if (strikes == 2 && count > 1) count /= 2;
            result = offset < 0 ? syscall(SYS_write, descriptor, data, count)
                : syscall(SYS_pwrite64, descriptor, data, count, offset);
            if (result > 0) {
                off_t at = offset < 0 ? (off_t)syscall(SYS_lseek, descriptor, 0L, SEEK_CUR) - result : offset;
                record('w', openings[descriptor], at, data, result);
            }
            if (strikes == 2 && fail_mode == TORN) die();
        }
    });
    return result;
}

ssize_t write(int descriptor, const void *data, size_t count) {
    if (is_ours(descriptor)) return written(descriptor, data, count, -1);
    ssize_t result = REAL(write)(descriptor, data, count);
    /* The log keeps what the program said in order with its writes. */
    if (result > 0 && log_file >= 0 && (descriptor == 1 || descriptor == 2))
        LOCKED(record('p', descriptor, 0, data, result));
    return result;
}

ssize_t pwrite(int descriptor, const void *data, size_t count, off_t offset) {
    if (is_ours(descriptor)) return written(descriptor, data, count, offset);
    return syscall(SYS_pwrite64, descriptor, data, count, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t count, off_t offset) {
    return pwrite(descriptor, data, count, offset);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    if (!is_ours(descriptor)) return syscall(SYS_writev, descriptor, parts, count);
    ssize_t sum = 0;
    for (int i = 0; i < count; i++) {
        ssize_t result = written(descriptor, parts[i].iov_base, parts[i].iov_len, -1);
        if (result < 0) return sum ? sum : -1;
        sum += result;
        if ((size_t)result < parts[i].iov_len) break;
    }
    return sum;
}

/* Foundation copies files with it. */
ssize_t sendfile(int to, int from, off_t *offset, size_t count) {
    if (!is_ours(to)) return syscall(SYS_sendfile, to, from, offset, count);
    char data[65536];
    if (count > sizeof data) count = sizeof data;
    ssize_t got = offset ? syscall(SYS_pread64, from, data, count, *offset) : syscall(SYS_read, from, data, count);
    if (got <= 0) return got;
    ssize_t put = written(to, data, got, -1);
    if (offset && put > 0) *offset += put;
    return put;
}

ssize_t sendfile64(int to, int from, off_t *offset, size_t count) { return sendfile(to, from, offset, count); }

/* Making it durable. */

static int synchronised(int descriptor, long number) {
    int result = -1;
    LOCKED({
        if (struck(SYNC)) {
            errno = fail_errno;
        } else {
            result = syscall(number, descriptor);
            if (result == 0) record('s', openings[descriptor], 0, NULL, 0);
        }
    });
    return result;
}

int fsync(int descriptor) {
    return is_ours(descriptor) ? synchronised(descriptor, SYS_fsync) : syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
    return is_ours(descriptor) ? synchronised(descriptor, SYS_fdatasync) : syscall(SYS_fdatasync, descriptor);
}

/* Lengths. */

int ftruncate(int descriptor, off_t length) {
    if (!is_ours(descriptor)) return syscall(SYS_ftruncate, descriptor, length);
    int result = -1;
    LOCKED({
        if (struck(TRUNCATE)) {
            errno = fail_errno;
        } else {
            result = syscall(SYS_ftruncate, descriptor, length);
            if (result == 0) record('t', openings[descriptor], length, NULL, 0);
        }
    });
    return result;
}

int ftruncate64(int descriptor, off_t length) { return ftruncate(descriptor, length); }

/* Names. */

#define NAMED(class, kind, call, from, to) \
    int result = -1; \
    LOCKED({ \
        if (struck(class)) { \
            errno = fail_errno; \
        } else { \
            result = call; \
            if (result == 0) record_paths(kind, from, to); \
        } \
    }); \
    return result;

static int renamed(int old_at, const char *old, int new_at, const char *new, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    const char *from = ours(old_at, old, first), *to = ours(new_at, new, second);
    if (!from && !to) return syscall(SYS_renameat2, old_at, old, new_at, new, flags);
    NAMED(RENAME, 'r', syscall(SYS_renameat2, old_at, old, new_at, new, flags), from ? from : old, to ? to : new)
}

int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int a, const char *old, int b, const char *new) { return renamed(a, old, b, new, 0); }
int renameat2(int a, const char *old, int b, const char *new, unsigned flags) { return renamed(a, old, b, new, flags); }

static int removed(int at, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *own = ours(at, path, buffer);
    if (!own) return syscall(SYS_unlinkat, at, path, flags);
    NAMED(UNLINK, 'u', syscall(SYS_unlinkat, at, path, flags), own, NULL)
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return removed(at, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }

int remove(const char *path) {
    int result = unlink(path);
    return result && (errno == EISDIR || errno == EPERM) ? rmdir(path) : result;
}

int mkdir(const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *own = ours(AT_FDCWD, path, buffer);
    if (!own) return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    NAMED(MKDIR, 'm', syscall(SYS_mkdirat, AT_FDCWD, path, mode), own, NULL)
}

/* Shared memory of files. */

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    STRIKES(MAP, MAP_FAILED)
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    return mmap(address, length, protection, flags, descriptor, offset);
}
