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
        /// Documents of the queue that weren't kept, because too many of their gateway are aside, by their reason's code.
        package var dropped: [String: Int] = [:]
        /// Statuses that can't be right, by what is wrong.
        package var doubts: [String: Int] = [:]
        /// How often the store couldn't be used.
        package var storeFailures = 0
        /// How often a certificate was shown that was revoked.
        package var revokedCertificates = 0
        /// When a batch couldn't be stored last although it may be right; `nil`: one was stored since.
        fileprivate var lastStoreFailure: Instant?
        /// Since when batches are being stored, by a number of each.
        fileprivate var storing: [Int: Instant] = [:]
        fileprivate var lastNumber = 0
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
            counts.lastStoreFailure = nil
            counts.stored += outcome.stored
            counts.revised += outcome.revised
            counts.repeated += outcome.repeated
            if counts.recent[now.seconds] == nil {
                counts.recent = counts.recent.filter { now.seconds - $0.key < 60 }
            }
            counts.recent[now.seconds, default: 0] += 1
        }
    }

    /// Notes that the store couldn't be used.
    ///
    /// - Parameter instant: when a batch couldn't be stored; `nil`: it was something else.
    func failStore(at instant: Instant? = nil) {
        counts.withLock { counts in
            counts.storeFailures += 1
            counts.lastStoreFailure = instant ?? counts.lastStoreFailure
        }
    }

    /// Notes that a batch is about to be stored.
    ///
    /// - Returns: what ``endStoring(_:)`` takes.
    func beginStoring(at now: Instant) -> Int {
        counts.withLock { counts in
            counts.lastNumber += 1
            counts.storing[counts.lastNumber] = now
            return counts.lastNumber
        }
    }

    /// Notes that a batch was stored, or couldn't be.
    func endStoring(_ number: Int) { counts.withLock { $0.storing[number] = nil } }

    /// Whether the last batch of the last two minutes couldn't be stored, or one is being stored for as long: a commit waits
    /// without end for a standby that is gone.
    package func isFailing(at now: Instant) -> Bool {
        counts.withLock { counts in
            counts.lastStoreFailure.map { now.seconds - $0.seconds < 120 } ?? false
                || counts.storing.values.contains { now.seconds - $0.seconds >= 120 }
        }
    }

    func showRevokedCertificate() { counts.withLock { $0.revokedCertificates += 1 } }
    func refuse(_ code: String) { counts.withLock { $0.refused[code, default: 0] += 1 } }
    func doubt(_ code: String) { counts.withLock { $0.doubts[code, default: 0] += 1 } }
    func putAside(_ code: String) { counts.withLock { $0.aside[code, default: 0] += 1 } }
    func drop(_ code: String) { counts.withLock { $0.dropped[code, default: 0] += 1 } }
}
