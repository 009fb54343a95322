// What a process may take away from itself: prctl(2), landlock(7), mallopt(3) and malloc_trim(3), which Swift cannot call
// because they are variadic, have no function in the C library, or are missing from Swift's module of it.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Has the threads share so many of the allocator's arenas. Each keeps memory that was freed in it.
static inline int csandbox_limit_arenas(int count) { return mallopt(M_ARENA_MAX, count); }

/// Gives pages of the allocator in which nothing is in use back to the kernel.
static inline int csandbox_trim_memory(void) { return malloc_trim(0); }

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

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#if defined(__x86_64__)
#define CSANDBOX_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CSANDBOX_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/// Has the kernel refuse (EPERM) to start programs, to open sockets and to look into other processes, for the calling
/// thread and those it starts; -1 where the kernel has no seccomp, or the machine is another than x86-64 or ARM64.
static inline int csandbox_refuse_programs_and_sockets(void) {
#ifdef CSANDBOX_ARCHITECTURE
#define CSANDBOX_REFUSE(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA))
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        // Another architecture's numbers mean other calls.
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CSANDBOX_ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        // The numbers of x32 on x86-64.
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        CSANDBOX_REFUSE(SYS_execve), CSANDBOX_REFUSE(SYS_execveat), CSANDBOX_REFUSE(SYS_socket),
        CSANDBOX_REFUSE(SYS_socketpair), CSANDBOX_REFUSE(SYS_connect), CSANDBOX_REFUSE(SYS_bind),
        CSANDBOX_REFUSE(SYS_ptrace), CSANDBOX_REFUSE(SYS_process_vm_readv), CSANDBOX_REFUSE(SYS_process_vm_writev),
        CSANDBOX_REFUSE(SYS_kill), CSANDBOX_REFUSE(SYS_tkill),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
#undef CSANDBOX_REFUSE
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
#else
    return -1;
#endif
}
