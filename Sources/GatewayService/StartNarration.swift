import GatewayCommands
import Logging
import Synchronization

/// Tells the service manager and the log how far a store of an earlier version has been made one of this version.
///
/// A service has 90 seconds for its start, and a store of millions of readings takes longer: the manager would end the gateway
/// and start it again, for ever.
final class StartNarration: Sendable {
    /// How much more time the manager is asked for each time, in microseconds: SQLite may write for minutes without saying so.
    private static let patience = 900_000_000
    /// How often the log is told.
    private static let interval: Duration = .seconds(10)

    private let manager: ServiceManager?
    private let logger: Logger
    private let logged = Mutex<ContinuousClock.Instant?>(nil)

    init(_ manager: ServiceManager?, _ logger: Logger) { (self.manager, self.logger) = (manager, logger) }

    func tell(_ progress: WorkProgress) {
        // Where it starts anew within a process that is up, it lives all the same.
        manager?.notify("WATCHDOG=1", "EXTEND_TIMEOUT_USEC=\(Self.patience)", "STATUS=\(progress.line)")
        let isDue = logged.withLock { logged in
            let now = ContinuousClock.now
            if let logged, now - logged < Self.interval, progress.done != progress.total { return false }
            logged = now
            return true
        }
        guard isDue else { return }
        logger.notice("the store is made one of this version", metadata: ["progress": "\(progress.line)"])
    }
}
