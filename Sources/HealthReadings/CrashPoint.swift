import Foundation
import Synchronization

/// Places where a debug build can be made to die as in a power cut, so that tests can prove what survives.
///
/// The environment variable `HEALTHRELAY_CRASH_AT` names a point (`journal.before-commit`), or the Nth time it is
/// reached (`journal.before-commit:3`). The process then kills itself with SIGKILL: no handler, no flush, no unwinding.
/// In a release build a point is nothing at all.
public enum CrashPoint {
    /// Says that the point of this name is reached.
    public static func reach(_ name: StaticString) {
        #if DEBUG
            CrashPlan.shared?.reach("\(name)")
        #endif
    }
}

#if DEBUG
    /// The one point at which this process is to die.
    private final class CrashPlan: Sendable {
        static let shared: CrashPlan? = ProcessInfo.processInfo.environment["HEALTHRELAY_CRASH_AT"].flatMap(
            CrashPlan.init)

        private let point: String
        private let left: Mutex<Int>

        private init?(_ text: String) {
            let parts = text.split(separator: ":", maxSplits: 1)
            guard let point = parts.first else { return nil }
            self.point = String(point)
            left = Mutex(parts.count == 2 ? Int(parts[1]) ?? 1 : 1)
        }

        func reach(_ name: String) {
            guard name == point else { return }
            let isDue = left.withLock { count in
                count -= 1
                return count == 0
            }
            if isDue { kill(getpid(), SIGKILL) }
        }
    }
#endif
