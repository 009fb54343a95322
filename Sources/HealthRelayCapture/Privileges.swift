import CBluetooth
import Glibc

/// What the program may do.
enum Privileges {
    /// The user `nobody`.
    private static let nobody: UInt32 = 65_534

    /// Gives up, for good, whatever the program was started with: the channel is open, and reading it needs nothing more.
    static func drop() throws(CaptureFailure) {
        if geteuid() == 0 {
            // From root, these set the real, the effective and the saved one.
            guard setgroups(0, nil) == 0, setgid(nobody) == 0, setuid(nobody) == 0 else { throw failed() }
        }
        guard cbluetooth_drop_capabilities() == 0, cbluetooth_hide_memory() == 0 else { throw failed() }
        guard cbluetooth_holds_capabilities() == 0, geteuid() != 0 else {
            throw CaptureFailure(
                code: "unexpected", message: "privileges were dropped but are still present", status: 70)
        }
    }

    private static func failed() -> CaptureFailure {
        .init(code: "unexpected", message: "cannot drop privileges: \(CaptureFailure.reason(errno))", status: 70)
    }
}
