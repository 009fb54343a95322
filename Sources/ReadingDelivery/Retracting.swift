import HealthReadings
import Logging
import ReadingStore

extension OutboxWorker {
    /// Readings that are asked back at once: each may take requests of its own, and what came of them is noted behind the last.
    private static var retractedAtOnce: Int { 500 }

    /// Has the destination take back what was excluded, replaced or erased since it was delivered, before anything is sent:
    /// a reading that counts again is delivered after that.
    ///
    /// - Returns: whether readings may be sent: not if the destination cannot be reached.
    func retractAll(at place: DestinationKey, isAsked: Bool, into report: inout SyncReport) async throws -> Bool {
        if destination.rules.canRetract { knownRetraction = try await store.newestRetraction(at: place) ?? 0 }
        if destination.rules.canRetract, store.lockedBecause == nil,
            isAsked || !circuit.isRetractionWaiting(at: clock.uptime())
        {
            let before = report.retracted
            defer {
                let count = report.retracted - before
                if count > 0 { hub.emit(.retracted(count: count)) }
            }
            do {
                try await retractAll(at: place, into: &report)
            } catch let failure as DeliveryFailure {
                if failure.isCancellation { throw CancellationError() }
                if failure.scope == .destination { return note(failure, nil, in: &report) }
                report.failure = failure
                circuit.failedToRetract(failure, at: clock.uptime(), options.backoff)
            } catch let error as StoreError {
                // A damaged row keeps no reading from being delivered.
                report.failure = DeliveryFailure(error)
                circuit.failedToRetract(DeliveryFailure(error), at: clock.uptime(), options.backoff)
            }
        }
        try await tellLeftBehind(at: place)
        return true
    }

    private func retractAll(at place: DestinationKey, into report: inout SyncReport) async throws {
        let before = report.retracted
        while true {
            try Task.checkCancellation()
            try requireNoQuiet()
            let items = try await store.retractions(at: place, limit: min(batchLimit, Self.retractedAtOnce))
            guard !items.isEmpty else {
                if report.retracted == before { circuit.hasNothingToRetract() }
                return
            }
            // A destination that is switched off, or has moved, is told nothing.
            guard try await store.standingHold(at: place) == nil else { return }
            do {
                let outcomes = try await destination.retract(items)
                CrashPoint.reach("retract.answered")
                let gone = items.filter { outcomes[$0.key] == .delivered }
                let kept = items.filter { if case .refused = outcomes[$0.key] { true } else { false } }
                guard !gone.isEmpty || !kept.isEmpty else {
                    throw DeliveryFailure(
                        .target, code: "unexpected_answer",
                        message: "the destination says nothing of what it was to take back")
                }
                try await store.acknowledgeRetractions(gone.map(\.key))
                try await store.rejectRetractions(kept.map(\.key))
                circuit.retracted()
                report.retracted += gone.count
            } catch let failure as DeliveryFailure {
                if !failure.isCancellation { try await store.noteRetractionAttempt(items.map(\.key)) }
                throw failure
            }
        }
    }

    /// Tells once of each reading that the destination has and cannot take back.
    private func tellLeftBehind(at place: DestinationKey) async throws {
        let count = try await store.leftBehind(at: place)
        if count > toldLeftBehind {
            hub.emit(.leftBehind(count: count))
            logger.notice(
                "the destination cannot take back readings that were excluded, replaced or erased here",
                metadata: ["count": "\(count)"])
        }
        toldLeftBehind = count
    }
}
