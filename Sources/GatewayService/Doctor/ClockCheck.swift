import CTimex
import Foundation
import HealthReadings
import ReadingStore

extension Doctor {
    /// Whether the gateway's clock can be right: not earlier than this program or the newest contact, and, as far as the
    /// kernel says, synchronised.
    ///
    /// Many honest machines never report synchronisation, virtual ones above all: that alone is said and no fault.
    func clockCheck() async -> DoctorCheck {
        let now = Instant.systemClock
        var earliest: (Instant, String)?
        if let built = Self.programTime { earliest = (built, "this program was built") }
        if case .success(let store?) = store, let contact = try? await store.newestContact(),
            contact > earliest?.0 ?? Instant(seconds: 0)
        {
            earliest = (contact, "the newest contact in the store began")
        }
        if let (instant, what) = earliest, now < instant {
            return .bad(
                "clock", .configuration, "it shows \(now.flooredToSecond), and \(what) at \(instant.flooredToSecond)",
                mend: "set it, and keep it right: `timedatectl set-ntp true`")
        }
        guard KernelClock.isSynchronized else {
            return .good(
                "clock", "\(now.flooredToSecond); the kernel does not say that it is synchronised",
                mend: "where nothing else keeps it right: `timedatectl set-ntp true`")
        }
        return .good("clock", "\(now.flooredToSecond), synchronised")
    }

    /// When the program's file was made; nil where it cannot be seen.
    static var programTime: Instant? {
        var status = stat()
        guard stat("/proc/self/exe", &status) == 0 else { return nil }
        return Instant(seconds: Int64(status.st_mtim.tv_sec))
    }
}

/// What the kernel knows of its clock.
enum KernelClock {
    /// What systemd-timesyncd leaves where it has synchronised the clock since the machine began.
    private static let witness = "/run/systemd/timesync/synchronized"

    /// Whether a time service keeps the clock right, as it has told the kernel (adjtimex(2)); where a service may not
    /// ask the kernel of its clock, as systemd-timesyncd says.
    static var isSynchronized: Bool {
        var state = timex()
        state.modes = 0
        let result = adjtimex(&state)
        if result < 0 { return access(witness, F_OK) == 0 }
        return result >= 0 && result != TIME_ERROR && state.status & STA_UNSYNC == 0
    }
}
