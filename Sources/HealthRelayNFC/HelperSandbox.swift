import CSandbox
import Glibc

/// What the helper keeps itself from: the files of the gateway, whose user it runs as.
///
/// libnfc parses what a reader sends, and the gateway's keys and store belong to the same user. With Landlock the helper
/// can open devices, read what libraries and device lookups need, and nothing else: neither the state directory nor the
/// credentials that the service manager handed to the gateway, and no TCP connection. A kernel without Landlock (before
/// 5.13, or switched off) leaves it as it was.
enum HelperSandbox {
    private static let readable = ["/usr", "/lib", "/lib64", "/opt", "/proc", "/sys", "/run/udev", "/etc/nfc"]
    private static let files = [
        "/etc/group", "/etc/passwd", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/localtime",
    ]

    /// Enters it for good. Called before any other thread is started: Landlock restricts the calling thread and its
    /// children.
    static func enter() {
        _ = csandbox_close_memory()
        let version = csandbox_landlock_version()
        guard version > 0 else { return }
        let rules = csandbox_landlock_begin(version)
        guard rules >= 0 else { return }
        defer { close(rules) }
        for path in readable { _ = csandbox_landlock_allow(rules, path, csandbox_read) }
        for path in files { _ = csandbox_landlock_allow(rules, path, csandbox_read_file) }
        _ = csandbox_landlock_allow(rules, "/dev", csandbox_read | csandbox_write)
        _ = csandbox_landlock_end(rules)
    }
}
