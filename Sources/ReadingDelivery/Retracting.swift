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
        var isNew = false
        if destination.rules.canRetract {
            let newest = try await store.newestRetraction(at: place) ?? 0
            isNew = newest > knownRetraction
            knownRetraction = newest
        }
        // What has just come does not wait for what was refused before it.
        if destination.rules.canRetract, store.lockedBecause == nil,
            isAsked || isNew || !circuit.isRetractionWaiting(at: clock.uptime())
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

    /// Asks for everything that is to be taken back. What the destination refuses is left out for the rest of the pass.
    ///
    /// A batch that fails is asked for one by one until the one that fails is found.
    ///
    /// - Throws: the last refusal, once the others were asked for; at once a failure of the destination itself, or the
    ///   last of several refusals in a row.
    private func retractAll(at place: DestinationKey, into report: inout SyncReport) async throws {
        let before = report.retracted
        var (failed, last): (Set<RetractionKey>, DeliveryFailure?) = ([], nil)
        var (isAlone, failuresInRow) = (false, 0)
        while true {
            try Task.checkCancellation()
            try requireNoQuiet()
            let limit = isAlone ? 1 : min(batchLimit, Self.retractedAtOnce)
            let items = try await store.retractions(at: place, except: failed, limit: limit)
            guard !items.isEmpty else {
                if let last { throw last }
                if report.retracted == before { circuit.hasNothingToRetract() }
                return
            }
            // A destination that is switched off, or has moved, is told nothing.
            guard try await store.standingHold(at: place) == nil else { return }
            do {
                try await retract(items, into: &report)
                failuresInRow = 0
            } catch let failure as DeliveryFailure {
                if failure.isCancellation { throw failure }
                if failure.scope != .destination, items.count > 1 {
                    isAlone = true
                    continue
                }
                try await store.noteRetractionAttempt(items.map(\.key))
                failuresInRow += 1
                guard failure.scope != .destination, failuresInRow < Circuit.tolerance else { throw failure }
                failed.formUnion(items.map(\.key))
                last = failure
                isAlone = false
            }
        }
    }

    private func retract(_ items: [Retraction], into report: inout SyncReport) async throws {
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
