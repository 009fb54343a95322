// BlueZ's user space interface to HCI sockets, and what Swift cannot call of the system: variadic functions, and macros
// that take arguments.
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <bluetooth/bluetooth.h>
#include <bluetooth/hci.h>
#include <bluetooth/hci_lib.h>

/// Receives a datagram and the kernel's time of it, in microseconds since the POSIX epoch; -1 as the time where it has none.
static inline ssize_t cbluetooth_receive(int descriptor, void *buffer, size_t size, int64_t *microseconds) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct timeval)) + 64];
    } control;
    struct iovec part = {buffer, size};
    struct msghdr message = {0};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    *microseconds = -1;
    ssize_t count = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_TRUNC);
    if (count < 0) return count;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_TIMESTAMP) continue;
        struct timeval time;
        memcpy(&time, CMSG_DATA(each), sizeof time);
        *microseconds = (int64_t)time.tv_sec * 1000000 + time.tv_usec;
    }
    return count;
}

/// How many datagrams the kernel has dropped because the socket's buffer was full.
static inline uint32_t cbluetooth_drops(int descriptor) {
    uint32_t memory[SK_MEMINFO_VARS];
    socklen_t size = sizeof memory;
    memset(memory, 0, sizeof memory);
    if (getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0) return 0;
    return size > SK_MEMINFO_DROPS * sizeof memory[0] ? memory[SK_MEMINFO_DROPS] : 0;
}

/// The connections of an adapter: fills at most `capacity` (64 at most) and returns how many it filled; -1 with errno.
static inline int cbluetooth_connections(uint16_t adapter, struct hci_conn_info *found, uint16_t capacity) {
    uint32_t room[(sizeof(struct hci_conn_list_req) + 64 * sizeof(struct hci_conn_info)) / sizeof(uint32_t)];
    struct hci_conn_list_req *request = (struct hci_conn_list_req *)room;
    memset(room, 0, sizeof room);
    request->dev_id = adapter;
    request->conn_num = capacity < 64 ? capacity : 64;
    int descriptor = socket(AF_BLUETOOTH, SOCK_RAW | SOCK_CLOEXEC, BTPROTO_HCI);
    if (descriptor < 0) return -1;
    int result = ioctl(descriptor, HCIGETCONNLIST, request);
    int code = errno;
    close(descriptor);
    errno = code;
    if (result < 0) return -1;
    memcpy(found, request->conn_info, request->conn_num * sizeof *found);
    return request->conn_num;
}

/// Gives up every capability for good; 0, or -1 with errno.
static inline int cbluetooth_drop_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(SYS_capset, &head, none);
}

/// Whether the process holds any capability; -1 with errno.
static inline int cbluetooth_holds_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct held[2];
    memset(held, 0, sizeof held);
    if (syscall(SYS_capget, &head, held) != 0) return -1;
    return (held[0].permitted | held[1].permitted | held[0].effective | held[1].effective | held[0].inheritable
            | held[1].inheritable) != 0;
}

/// Keeps the process's memory, in which keys pass, out of core dumps and debuggers; 0, or -1 with errno.
static inline int cbluetooth_hide_memory(void) {
    struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_CORE, &none) == 0 ? prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) : -1;
}
