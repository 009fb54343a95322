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
    /// Items the server refused although they were alone, with its words: set aside once it has taken another.
    var suspects: [(item: OutboxItem, error: VitalError)] = []
}

/// An item with its sample.
struct Prepared: Sendable {
    var item: OutboxItem
    var sample: Sample
}

extension OutboxWorker {
    /// One pass over everything that waits, or over what of it lies in a range of time.
    ///
    /// - Parameter isAsked: whether somebody asked for it, so that what waits after a failure is tried as well.
    func deliverAll(in range: ClosedRange<Instant>?, isAsked: Bool) async -> SyncReport {
        var report = SyncReport()
        do {
            let groups = try await store.groupsWaiting(in: range)
            if range == nil { circuit.keep(only: Set(groups.map(\.target))) }
            for kind in ReadingKind.counted where !groups.contains(where: { $0.resource == kind }) {
                hub.emit(.nothingToSync(kind))
            }
            let users = Dictionary(try await store.users().map { ($0.key, $0) }) { first, _ in first }
            for group in circuit.ordered(groups, by: \.target) {
                try Task.checkCancellation()
                guard let user = users[group.user] else { continue }
                guard !user.clientUserID.isEmpty else {
                    let held = HeldBack(hold: .noSource, reason: "nobody has named the user yet")
                    note(held, group.target, group.count, in: &report)
                    continue
                }
                if isResting(group.target) {
                    note(HeldBack(hold: group.held ?? .sourceError), group.target, group.count, in: &report)
                    continue
                }
                if !isAsked, circuit.isWaiting(group.target, at: clock.uptime()) { continue }
                guard try await deliver(group, in: range, of: user, into: &report) else { break }
            }
        } catch is CancellationError {
            report.failure = report.failure ?? SyncFailure(CancellationError())
        } catch {
            // The store's: there is nothing to try before it works again.
            note(error, nil, in: &report)
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
        let target = group.target
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
            if tally.delivered > 0 { try await noteKnownResource(target) }
            circuit.succeeded(target)
            hub.emit(.successSyncing(target, delivered: tally.delivered))
            return true
        } catch let held as HeldBack {
            circuit.held(target)
            note(held, target, group.count - tally.delivered - tally.refused, in: &report)
            return true
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            if tally.delivered > 0 { circuit.succeeded(target) }
            return note(error, target, in: &report)
        }
    }

    /// Whether a target waits until the server may have learned its resource.
    private func isResting(_ target: SyncTarget) -> Bool { resting[target].map { $0 > clock.uptime() } ?? false }

    private func noteKnownResource(_ target: SyncTarget) async throws {
        resting[target] = nil
        try await store.setUnknownToServer(
            false, user: target.user, resource: target.resource, provider: target.provider)
    }

    private func note(_ held: HeldBack, _ target: SyncTarget, _ count: Int, in report: inout SyncReport) {
        report.held.append(.init(target: target, hold: held.hold, count: count, reason: held.reason))
        hub.emit(.held(target, held.hold, count: count, reason: held.reason))
    }

    /// Notes a failure, and says whether the next group may be tried.
    @discardableResult
    private func note(_ error: any Error, _ target: SyncTarget?, in report: inout SyncReport) -> Bool {
        let failure = SyncFailure(error)
        if let target { hub.emit(.failedSyncing(target, failure)) }
        report.failure = report.failure.map { $0.isRetryable ? failure : $0 } ?? failure
        let isTheServers = (error as? VitalError)?.isTheServers ?? true
        return circuit.failed(
            target, failure, isTheServers: isTheServers, at: clock.uptime(), options.backoff)
    }

    private func deliver(
        _ target: SyncTarget, in range: ClosedRange<Instant>?, of user: StoreUser, into tally: inout Tally
    ) async throws {
        while true {
            try Task.checkCancellation()
            // Before each batch: what was revoked, paused or switched off meanwhile stops the next.
            guard try await store.isSyncEnabled() else { throw HeldBack(hold: .syncDisabled) }
            try await requireSource(target, of: user)
            let limit = batchLimits[target.resource] ?? options.batchLimit
            let items = try await store.outboxBatch(
                user: target.user, resource: target.resource, provider: target.provider, in: range, limit: limit)
            guard !items.isEmpty else { return }
            hub.emit(.readings(items.map(\.reading.id), .sourceChecked))
            let prepared = try await prepare(items, target, into: &tally)
            do {
                for chunk in try await chunks(of: prepared, target, in: range, isLast: items.count < limit) {
                    try await post(chunk, target, of: user, into: &tally)
                }
                try await settleSuspects(of: target, into: &tally)
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

    /// Cuts a batch into what is posted together: first the backfill, by weeks where it spans more than 31 days, then
    /// what is new. Of each device the backfill is the older part, so its readings stay in order.
    private func chunks(
        of batch: [Prepared], _ target: SyncTarget, in range: ClosedRange<Instant>?, isLast: Bool
    ) async throws -> [Chunk] {
        let old = batch.filter(\.item.isBackfill)
        let new = batch.filter { !$0.item.isBackfill }
        var chunks: [Chunk] = []
        if let first = old.first?.item.timestamp, let last = old.last?.item.timestamp {
            var rest = old[...]
            for period in PostPeriod.cut(first...last) {
                let part = rest.prefix { $0.item.timestamp <= period.upperBound }
                rest = rest[part.endIndex...]
                guard let begin = part.first?.item.timestamp, let end = part.last?.item.timestamp else { continue }
                chunks.append(Chunk(stage: .historical, period: begin...end, items: part, isLast: false))
            }
            let isMore =
                isLast
                ? false
                : try await store.isMoreBackfillWaiting(
                    user: target.user, resource: target.resource, provider: target.provider, after: last, in: range)
            if !chunks.isEmpty { chunks[chunks.count - 1].isLast = !isMore }
        }
        if !new.isEmpty { chunks.append(Chunk(stage: .daily, items: new[...], isLast: isLast)) }
        return chunks
    }

    /// Whether the readings of a target may be posted now.
    /// - Throws: ``HeldBack`` where they wait.
    func requireSource(_ target: SyncTarget, of user: StoreUser, fresh: Bool = false) async throws {
        let decision = try await sources.decide(target.provider, for: user, fresh: fresh)
        if let hold = decision.hold { throw HeldBack(hold: hold, reason: decision.reason) }
    }

    func setAside(_ item: OutboxItem, _ words: String, into tally: inout Tally) async throws {
        try await store.reject(item.id, serverSaid: words)
        tally.settled.insert(item.id)
        tally.refused += 1
        hub.emit(.readings([item.reading.id], .setAside(serverSaid: words)))
    }
}

extension OutboxGroup {
    var target: SyncTarget { SyncTarget(user: user, resource: resource, provider: provider) }
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
