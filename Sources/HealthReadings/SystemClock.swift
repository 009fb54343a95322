import Foundation

/// The clocks of the machine, in microseconds.
package enum SystemClock {
    /// Since 1970, by the clock that people set (CLOCK_REALTIME).
    package static var realtime: Int64 { microseconds(CLOCK_REALTIME) }
    /// Since some moment of the past; stands still while the machine sleeps (CLOCK_MONOTONIC).
    package static var monotonic: Int64 { microseconds(CLOCK_MONOTONIC) }

    #if os(Linux)
        /// Since the machine started, sleep included (CLOCK_BOOTTIME).
        package static var boot: Int64 { microseconds(CLOCK_BOOTTIME) }
    #endif

    private static func microseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}

/// A moment by the time since the machine began, which a change of its clock does not move.
package struct BootTime: Sendable, Hashable {
    /// The kernel's name of that start of the machine.
    package var boot: String
    /// Microseconds since then, sleep included (CLOCK_BOOTTIME).
    package var microseconds: Int64

    package init(boot: String, microseconds: Int64) {
        self.boot = boot
        self.microseconds = microseconds
    }
}

extension Instant {
    /// The system's clock.
    public static var systemClock: Instant { Instant(microseconds: SystemClock.realtime) }
}
