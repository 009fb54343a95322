// What a process may take away from itself: prctl(2) and landlock(7), which Swift cannot call because they are variadic
// or have no function in the C library.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Makes the process undumpable: it leaves no core dump, and no other process of its user may read its memory.
static inline int csandbox_close_memory(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

/// Whether the process may be dumped: 0 or 1.
static inline int csandbox_is_dumpable(void) { return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0); }

/// Reading files and folders, and running what is in them.
static const uint64_t csandbox_read =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
/// What of that a rule on a single file may allow.
static const uint64_t csandbox_read_file = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
/// Writing to files that exist.
static const uint64_t csandbox_write = LANDLOCK_ACCESS_FS_WRITE_FILE;

/// The rules this kernel knows, from 1 on; -1 where it has no Landlock.
static inline int csandbox_landlock_version(void) {
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/// A new set of rules under which nothing of the file system, and no TCP, may be used; its descriptor, or -1.
static inline int csandbox_landlock_begin(int version) {
    // The header of an older kernel does not name what newer ones added: writing a name over (refer, 2), truncate (3),
    // ioctl on devices (5) and TCP (4).
    struct { uint64_t files, network; } rules = {(UINT64_C(1) << 13) - 1, 0};
    if (version >= 2) rules.files |= UINT64_C(1) << 13;
    if (version >= 3) rules.files |= UINT64_C(1) << 14;
    if (version >= 4) rules.network = 3;
    return (int)syscall(SYS_landlock_create_ruleset, &rules, version >= 4 ? sizeof rules : sizeof rules.files, 0);
}

/// Allows something beneath a path; -1 where the path is not there.
static inline int csandbox_landlock_allow(int rules, const char *path, uint64_t access) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    // O_PATH, which the C library shows only to programs that ask for its extensions.
    rule.parent_fd = open(path, 010000000 | O_CLOEXEC);
    if (rule.parent_fd < 0) return -1;
    int result = (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
    return result;
}

/// Puts the calling thread, and those it starts, under the rules for good.
static inline int csandbox_landlock_end(int rules) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(SYS_landlock_restrict_self, rules, 0);
}
