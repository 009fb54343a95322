import Logging
import ReadingStore
import ServiceLifecycle

/// Says in the log when the disk of the store is nearly full, full, and has room again.
struct DiskWatch: Service {
    private static let interval: Duration = .seconds(60)

    let directory: String
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var teller = DiskTeller()
            repeat {
                if let space = DiskSpace(at: directory) { teller.tell(space, logger) }
            } while (try? await Task.sleep(for: Self.interval)) != nil
        }
    }
}

/// Tells of a change once: a disk on the edge of being full comes and goes with every checkpoint.
struct DiskTeller {
    /// By how much less must be in use before there is room again, in percent.
    private static let slack = 2

    private var level = DiskSpace.Level.roomy

    mutating func tell(_ space: DiskSpace, _ logger: Logger) {
        let now = space.level
        guard now != level else { return }
        if now < level {
            let slack = (space.used + space.free) * Int64(Self.slack) / 100
            guard DiskSpace(used: space.used + slack, free: space.free - slack).level < level else { return }
        }
        let metadata: Logger.Metadata = ["percent_used": "\(space.percentUsed)", "free_octets": "\(space.free)"]
        switch now {
        case .full:
            logger.error("the disk of the store is full: readings may stay in their meters", metadata: metadata)
        case .nearlyFull: logger.warning("the disk of the store is nearly full", metadata: metadata)
        case .roomy: logger.notice("the disk of the store has room again", metadata: metadata)
        }
        level = now
    }
}
