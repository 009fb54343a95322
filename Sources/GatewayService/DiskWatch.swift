import Logging
import ReadingStore
import ServiceLifecycle

/// Says in the log when the disk of the store is nearly full, full, and has room again, and when the store cannot be written.
struct DiskWatch: Service {
    private static let interval: Duration = .seconds(60)

    let store: ReadingStore
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var (teller, writing) = (DiskTeller(), WritingTeller())
            repeat {
                if let space = DiskSpace(at: store.directory) { teller.tell(space, logger) }
                // Otherwise nobody would learn that it can be written again before something is to be stored.
                if store.writingFault != nil { try? await store.tryWriting() }
                writing.tell(store.writingFault, logger)
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

/// Tells once that the store cannot be written, and that it can be again.
struct WritingTeller {
    private var told: StoreError?

    mutating func tell(_ fault: StoreError?, _ logger: Logger) {
        guard fault != told else { return }
        told = fault
        guard let fault else { return logger.notice("the store can be written again") }
        logger.error(
            "the store cannot be written: readings may stay in their meters", metadata: ["error": "\(fault)"])
    }
}
