import HealthReadings
import Logging
import ReadingStore
import VitalClient

/// A group cannot be delivered now for a reason that is not the network's.
struct HeldBack: Error {
    var hold: Hold
    var reason: String?
}

/// What a group's delivery came to so far; kept also where it fails half-way.
struct Tally {
    var delivered = 0
    var refused = 0
    /// Items of the batch at hand that were acknowledged or set aside.
    var settled: Set<OutboxID> = []
}

/// An item with its sample.
struct Prepared: Sendable {
    var item: OutboxItem
    var sample: Sample
}

extension OutboxWorker {
    /// One pass over everything that waits, or over what of it lies in a range of time.
    func deliverAll(in range: ClosedRange<Instant>?) async -> SyncReport {
        var report = SyncReport()
        do {
            let groups = try await store.groupsWaiting(in: range)
            for kind in ReadingKind.allCases where !groups.contains(where: { $0.resource == kind }) {
                hub.emit(.nothingToSync(kind))
            }
            let users = Dictionary(try await store.users().map { ($0.key, $0) }) { first, _ in first }
            for group in groups {
                try Task.checkCancellation()
                guard let user = users[group.user] else { continue }
                guard !user.clientUserID.isEmpty else {
                    let target = SyncTarget(user: group.user, resource: group.resource, provider: group.provider)
                    note(
                        HeldBack(hold: .noSource, reason: "nobody has named the user yet"), target, group.count,
                        in: &report)
                    continue
                }
                guard try await deliver(group, in: range, of: user, into: &report) else { break }
            }
        } catch {
            report.failure = report.failure ?? SyncFailure(error)
        }
        hub.emit(.syncingCompleted)
        return report
    }

    /// Delivers one group.
    ///
    /// - Returns: whether the next group may be tried: not where the server cannot be reached or refuses the key.
    private func deliver(
        _ group: OutboxGroup, in range: ClosedRange<Instant>?, of user: StoreUser, into report: inout SyncReport
    ) async throws -> Bool {
        let target = SyncTarget(user: group.user, resource: group.resource, provider: group.provider)
        if let hold = group.held, !hold.isTheSources {
            note(HeldBack(hold: hold), target, group.count, in: &report)
            return true
        }
        hub.emit(.syncing(target))
        var tally = Tally()
        defer {
            report.delivered += tally.delivered
            report.refused += tally.refused
        }
        do {
            try await deliver(target, in: range, of: user, into: &tally)
            hub.emit(.successSyncing(target, delivered: tally.delivered))
            return true
        } catch let held as HeldBack {
            note(held, target, group.count - tally.delivered - tally.refused, in: &report)
            return true
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            let failure = SyncFailure(error)
            hub.emit(.failedSyncing(target, failure))
            report.failure = report.failure.map { $0.isRetryable ? failure : $0 } ?? failure
            // What is wrong with one group need not be wrong with the next.
            let kind = (error as? VitalError)?.kind
            return kind == .serverError || kind == .validationFailed || kind == .payloadTooLarge
        }
    }

    private func note(_ held: HeldBack, _ target: SyncTarget, _ count: Int, in report: inout SyncReport) {
        report.held.append(.init(target: target, hold: held.hold, count: count, reason: held.reason))
        hub.emit(.held(target, held.hold, count: count, reason: held.reason))
    }

    private func deliver(
        _ target: SyncTarget, in range: ClosedRange<Instant>?, of user: StoreUser, into tally: inout Tally
    ) async throws {
        while true {
            try Task.checkCancellation()
            // Before each delivery: what was revoked or paused meanwhile stops the next batch.
            let decision = try await sources.decide(target.provider, for: user)
            if let hold = decision.hold { throw HeldBack(hold: hold, reason: decision.reason) }
            let limit = batchLimits[target.resource] ?? options.batchLimit
            let items = try await store.outboxBatch(
                user: target.user, resource: target.resource, provider: target.provider, in: range, limit: limit)
            guard !items.isEmpty else { return }
            hub.emit(.readings(items.map(\.reading.id), .sourceChecked))
            let prepared = try await prepare(items, target, into: &tally)
            do {
                try await post(prepared[...], target, of: user, isLast: items.count < limit, into: &tally)
            } catch let error as VitalError {
                let unsettled = prepared.map(\.item.id).filter { !tally.settled.contains($0) }
                try await store.noteAttempt(unsettled, serverSaid: error.serverSaid)
                throw error
            }
            tally.settled = []
        }
    }

    /// Makes samples; what cannot be one is set aside, so that it never blocks the rest.
    private func prepare(
        _ items: [OutboxItem], _ target: SyncTarget, into tally: inout Tally
    ) async throws -> [Prepared] {
        var prepared: [Prepared] = []
        prepared.reserveCapacity(items.count)
        for item in items {
            let sample: Sample
            do throws(ConversionError) {
                sample = try conversion.sample(of: item, provider: target.provider)
            } catch {
                try await setAside(item, error.description, into: &tally)
                continue
            }
            prepared.append(Prepared(item: item, sample: sample))
        }
        return prepared
    }

    /// Posts a batch; halves it where it is too large or holds something the server refuses.
    private func post(
        _ batch: ArraySlice<Prepared>, _ target: SyncTarget, of user: StoreUser, isLast: Bool, into tally: inout Tally
    ) async throws {
        guard let first = batch.first else { return }
        do {
            try await postOnce(batch, target, of: user, isLast: isLast, mayCheckAgain: true)
            tally.delivered += batch.count
            tally.settled.formUnion(batch.map(\.item.id))
        } catch let error as VitalError where error.kind == .payloadTooLarge && batch.count > 1 {
            batchLimits[target.resource] = batch.count / 2
            logger.notice("posts are halved: too large for the server", metadata: ["readings": "\(batch.count / 2)"])
            try await postHalves(of: batch, target, of: user, isLast: isLast, into: &tally)
        } catch let error as VitalError where error.kind == .validationFailed && !error.isAboutEnvelope {
            if batch.count > 1 {
                try await postHalves(of: batch, target, of: user, isLast: isLast, into: &tally)
            } else {
                try await setAside(first.item, error.serverSaid ?? error.summary, into: &tally)
            }
        }
    }

    private func postHalves(
        of batch: ArraySlice<Prepared>, _ target: SyncTarget, of user: StoreUser, isLast: Bool, into tally: inout Tally
    ) async throws {
        let middle = batch.startIndex + batch.count / 2
        try await post(batch[..<middle], target, of: user, isLast: false, into: &tally)
        try await post(batch[middle...], target, of: user, isLast: isLast, into: &tally)
    }

    private func postOnce(
        _ batch: ArraySlice<Prepared>, _ target: SyncTarget, of user: StoreUser, isLast: Bool, mayCheckAgain: Bool
    ) async throws {
        let readings = batch.map(\.item.reading.id)
        do {
            let userID = try await sources.serverUserID(of: user)
            CrashPoint.reach("post.before")
            try await api.post(
                TimeSeriesPost(
                    provider: target.provider, timeZone: user.timeZone, isFinalChunk: isLast,
                    data: Self.data(batch, target.resource)),
                for: userID)
            CrashPoint.reach("post.after")
        } catch let error as VitalError where error.isSourceRefusal {
            let decision = try await sources.decide(target.provider, for: user, fresh: true)
            if let hold = decision.hold { throw HeldBack(hold: hold, reason: decision.reason ?? error.serverSaid) }
            if mayCheckAgain {
                return try await postOnce(batch, target, of: user, isLast: isLast, mayCheckAgain: false)
            }
            let reason = error.serverSaid ?? error.summary
            let held = try await sources.noteRefusal(of: target.provider, for: user, reason: reason)
            throw HeldBack(hold: held.hold ?? .sourceError, reason: held.reason)
        }
        hub.emit(.readings(readings, .posted))
        try await store.acknowledge(batch.map(\.item.id), at: clock.now())
        hub.emit(.readings(readings, .acknowledged))
    }

    private func setAside(_ item: OutboxItem, _ words: String, into tally: inout Tally) async throws {
        try await store.reject(item.id, serverSaid: words)
        tally.settled.insert(item.id)
        tally.refused += 1
        hub.emit(.readings([item.reading.id], .setAside(serverSaid: words)))
    }

    private static func data(_ batch: ArraySlice<Prepared>, _ resource: ReadingKind) -> TimeSeriesData {
        switch resource {
        case .glucose:
            .glucose(batch.compactMap { if case .glucose(let sample) = $0.sample { sample } else { nil } })
        case .bloodPressure:
            .bloodPressure(batch.compactMap { if case .bloodPressure(let sample) = $0.sample { sample } else { nil } })
        }
    }
}

extension Hold {
    /// Whether checking the source may end it.
    var isTheSources: Bool {
        switch self {
        case .noSource, .sourceRevoked, .sourcePaused, .sourceError: true
        case .locked, .noConsent, .ignored, .olderThanBackfill, .syncDisabled, .rejected: false
        }
    }
}

extension VitalError {
    /// Whether the server refuses the source rather than the samples: nobody documents with which status.
    var isSourceRefusal: Bool {
        switch kind {
        case .sourceNotConnected, .forbidden, .notFound, .conflict, .refused: true
        default: false
        }
    }
}
