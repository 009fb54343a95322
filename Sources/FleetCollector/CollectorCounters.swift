import FleetStore
import HealthReadings
import Synchronization

/// What this collector did since it started, for the metrics.
package final class CollectorCounters: Sendable {
    package struct Counts: Sendable {
        /// Batches that were committed and acknowledged.
        package var receipts = 0
        package var stored = 0
        package var revised = 0
        package var repeated = 0
        /// Documents that weren't taken, by their reason's code.
        package var refused: [String: Int] = [:]
        /// Documents of the queue that were put aside, by their reason's code.
        package var aside: [String: Int] = [:]
        /// Statuses that can't be right, by what is wrong.
        package var doubts: [String: Int] = [:]
        /// Receipts by the second, for the last minute.
        fileprivate var recent: [Int64: Int] = [:]
    }

    private let counts = Mutex(Counts())

    package init() {}

    package var current: Counts { counts.withLock(\.self) }

    /// How many batches were acknowledged in the minute before.
    package func receiptsPerMinute(at now: Instant) -> Int {
        counts.withLock { counts in counts.recent.filter { now.seconds - $0.key < 60 }.values.reduce(0, +) }
    }

    func add(_ outcome: BatchOutcome, at now: Instant) {
        counts.withLock { counts in
            counts.receipts += 1
            counts.stored += outcome.stored
            counts.revised += outcome.revised
            counts.repeated += outcome.repeated
            if counts.recent[now.seconds] == nil {
                counts.recent = counts.recent.filter { now.seconds - $0.key < 60 }
            }
            counts.recent[now.seconds, default: 0] += 1
        }
    }

    func refuse(_ code: String) { counts.withLock { $0.refused[code, default: 0] += 1 } }
    func doubt(_ code: String) { counts.withLock { $0.doubts[code, default: 0] += 1 } }
    func putAside(_ code: String) { counts.withLock { $0.aside[code, default: 0] += 1 } }
}
