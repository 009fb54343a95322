// Runs a program and writes which of its functions are called, each once, in the order of their first calls.
//
//   first-calls FUNCTIONS CALLED PROGRAM ARGUMENT ...
//
// FUNCTIONS has the functions' addresses in the file, a hexadecimal number in each line; CALLED gets those that were called. Each function's
// first instruction is replaced by a breakpoint before the program starts, and put back at its first call, so that the program soon runs at
// its usual pace. SIGTERM is passed on. It ends with the program's status. Without CAP_SYS_PTRACE, the program has to stay dumpable
// (prctl(2)).
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
typedef uint8_t Instruction;
static const Instruction breakpoint = 0xCC;
#define COUNTER(registers) ((registers).rip)
// The processor has gone past the breakpoint.
enum { BEHIND = 1 };
#elif defined(__aarch64__)
typedef uint32_t Instruction;
static const Instruction breakpoint = 0xD4200000;
#define COUNTER(registers) ((registers).pc)
enum { BEHIND = 0 };
#else
#error "Only for x86-64 and arm64."
#endif

typedef struct {
    uint64_t address;
    Instruction first;
    int wasCalled;
} Function;

static Function *functions;
static size_t count;
static pid_t program;

static void fail(const char *what) {
    fprintf(stderr, "first-calls: %s: %s\n", what, strerror(errno));
    exit(125);
}

static int compare(const void *lhs, const void *rhs) {
    uint64_t left = ((const Function *)lhs)->address, right = ((const Function *)rhs)->address;
    return left < right ? -1 : left > right;
}

static void readFunctions(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    size_t room = 0;
    uint64_t address;
    while (fscanf(file, "%" SCNx64, &address) == 1) {
        if (count == room && !(functions = realloc(functions, (room = room ? 2 * room : 4096) * sizeof *functions))) fail("memory");
        functions[count++] = (Function){.address = address};
    }
    fclose(file);
    qsort(functions, count, sizeof *functions, compare);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || functions[kept - 1].address != functions[i].address) functions[kept++] = functions[i];
    count = kept;
}

static int memoryOf(pid_t process) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    int memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0) fail(path);
    return memory;
}

// Where the program's file begins in memory.
static uint64_t baseOf(pid_t process, const char *path) {
    char place[40], line[8192], real[4096];
    if (!realpath(path, real)) fail(path);
    snprintf(place, sizeof place, "/proc/%d/maps", process);
    FILE *maps = fopen(place, "r");
    if (!maps) fail(place);
    while (fgets(line, sizeof line, maps)) {
        uint64_t begin;
        if (strstr(line, real) && sscanf(line, "%" SCNx64, &begin) == 1) {
            fclose(maps);
            return begin;
        }
    }
    errno = ENOENT;
    fail(real);
    return 0;
}

static void passOn(int signal) {
    if (program > 0) kill(program, signal);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: first-calls FUNCTIONS CALLED PROGRAM ARGUMENT ...\n");
        return 64;
    }
    // Whoever started it can end in any way: the program then ends too (PTRACE_O_EXITKILL).
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    readFunctions(argv[1]);
    FILE *called = fopen(argv[2], "we");
    if (!called) fail(argv[2]);
    program = fork();
    if (program < 0) fail("fork");
    if (!program) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) fail("ptrace");
        execv(argv[3], argv + 3);
        fail(argv[3]);
    }
    struct sigaction action = {.sa_handler = passOn, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    int status;
    if (waitpid(program, &status, 0) < 0 || !WIFSTOPPED(status)) return 125;
    if (ptrace(PTRACE_SETOPTIONS, program, 0,
               PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL))
        fail("ptrace");
    uint64_t base = baseOf(program, argv[3]);
    int memory = memoryOf(program);
    for (size_t i = 0; i < count; i++) {
        uint64_t place = base + functions[i].address;
        if (pread(memory, &functions[i].first, sizeof breakpoint, place) != sizeof breakpoint) fail("reading the program");
        if (pwrite(memory, &breakpoint, sizeof breakpoint, place) != sizeof breakpoint) fail("changing the program");
    }
    close(memory);
    ptrace(PTRACE_CONT, program, 0, 0);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) fail("waitpid");
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread != program) continue;
            fclose(called);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_EXEC) {
            // Another program now: its functions are others.
            ptrace(PTRACE_DETACH, thread, 0, 0);
            continue;
        }
        // A new thread or process begins with SIGSTOP.
        if (event || signal == SIGSTOP) signal = 0;
        if (signal == SIGTRAP) {
            struct user_regs_struct registers;
            struct iovec view = {&registers, sizeof registers};
            if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &view)) continue;
            Function wanted = {.address = COUNTER(registers) - BEHIND - base};
            Function *function = bsearch(&wanted, functions, count, sizeof *functions, compare);
            if (function) {
                // Another process has its own copy, and another thread may have hit it at the same time.
                memory = memoryOf(thread);
                pwrite(memory, &function->first, sizeof breakpoint, base + function->address);
                close(memory);
                if (!function->wasCalled) fprintf(called, "%" PRIx64 "\n", function->address);
                function->wasCalled = 1;
                COUNTER(registers) -= BEHIND;
                ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &view);
                signal = 0;
            }
        }
        ptrace(PTRACE_CONT, thread, 0, signal);
    }
}
