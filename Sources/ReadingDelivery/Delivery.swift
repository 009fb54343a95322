import HealthReadings
import Logging
import ReadingStore

/// What a group's delivery came to so far; kept also where it fails half-way.
struct Tally {
    /// What the destination has acknowledged.
    var synced = SyncedReadings()
    var delivered: Int { synced.count }
    var refused = 0
    var handedOver = 0
    /// Items of the batch at hand that were acknowledged or set aside.
    var settled: [OutboxID] = []
    /// Items of the batch at hand that the destination may have, although it has not said so.
    var mayBeThere: Set<OutboxID> = []
    /// Items the destination refused although they were alone: set aside once it has accepted another.
    var suspects: [(item: OutboxItem, failure: DeliveryFailure)] = []
    /// What the store held when the batch at hand was read (`ReadingStore.contentGeneration`).
    var generation: Int?
}

/// Why a pass ends between two parts although more waits.
enum CutShort: Error {
    /// Something is to be done while nothing is delivered.
    case quiet
    /// Something is to be taken back first.
    case retraction
}

extension OutboxWorker {
    /// One pass over everything that waits, or over what of it lies in a range of time.
    ///
    /// - Parameters:
    ///   - kinds: only these; `nil`: all.
    ///   - isAsked: whether somebody asked for it, so that what waits after a failure is tried as well.
    ///   - report: what the pass has come to before it was cut short.
    /// - Returns: what it came to, and whether it was cut short, and goes on once what is done without delivery is done.
    func deliverAll(
        kinds: Set<ReadingKind>?, in range: ClosedRange<Instant>?, isAsked: Bool, after report: SyncReport
    ) async -> (report: SyncReport, isCutShort: Bool) {
        var report = report
        var isOver = false
        do {
            while !isOver {
                // What is held is told by the part of the pass that gets to the end.
                report.held = []
                do {
                    try await deliverAll(kinds: kinds, in: range, isAsked: isAsked, into: &report)
                    isOver = true
                } catch CutShort.retraction {}
            }
        } catch CutShort.quiet {
            do { try await writeAcknowledged() } catch { note(DeliveryFailure(error), nil, in: &report) }
            return (report, true)
        } catch is CancellationError {
            report.failure = report.failure ?? DeliveryFailure(CancellationError())
        } catch {
            // The store's: there is nothing to try before it works again.
            note(DeliveryFailure(error), nil, in: &report)
        }
        do { try await writeAcknowledged() } catch { note(DeliveryFailure(error), nil, in: &report) }
        // Also where what was taken cannot be written, and is told later.
        hub.emit(.syncingCompleted)
        return (report, false)
    }

    private func deliverAll(
        kinds: Set<ReadingKind>?, in range: ClosedRange<Instant>?, isAsked: Bool, into report: inout SyncReport
    ) async throws {
        let place = try await place()
        try await writeAcknowledged()
        try await requeueOverdue(at: place)
        guard try await retractAll(at: place, isAsked: isAsked, into: &report) else { return }
        let generation = store.contentGeneration
        let groups = try await store.groupsToDeliver(in: range, at: place).filter {
            destination.rules.kinds.contains($0.resource) && kinds?.contains($0.resource) ?? true
        }
        if range == nil, kinds == nil { circuit.keep(only: Set(groups.map(\.target))) }
        for kind in ReadingKind.counted
        where kinds?.contains(kind) ?? true && !groups.contains(where: { $0.resource == kind }) {
            tell(.nothingToSync(kind))
        }
        for group in circuit.ordered(groups, by: \.target) {
            try Task.checkCancellation()
            try requireNoQuiet()
            guard let person = try await person(of: group.target, into: &report) else { continue }
            if isResting(group.target) {
                note(DeliveryHold(group.held ?? .sourceError), group.target, group.count, in: &report)
                continue
            }
            if !isAsked, circuit.isWaiting(group.target, at: clock.uptime()) { continue }
            let seen = Seen(oldest: group.oldest, generation: generation)
            guard try await deliver(group, seen, in: range, of: person, into: &report) else { break }
        }
    }

    /// The person of a target, as the store has just checked them.
    ///
    /// - Returns: `nil` if nothing may be delivered for them: the store does not know them, or their row was changed
    ///   outside of this program. That says nothing of the destination, and the others' readings go.
    private func person(of target: DeliveryTarget, into report: inout SyncReport) async throws -> StoreUser? {
        do {
            return try await store.user(target.user, at: place())
        } catch let error as StoreError where error.isCorrupt {
            let failure = DeliveryFailure(error)
            circuit.held(target)
            tell(.failedSyncing(target, failure, SyncedReadings()))
            report.failure = report.failure ?? failure
            return nil
        }
    }

    /// What a pass saw of a group when it began.
    private struct Seen {
        /// The oldest of what may be delivered.
        var oldest: Instant
        /// As long as the store's is this one.
        var generation: Int
    }

    /// Delivers one group.
    ///
    /// - Returns: whether the next group may be tried: not where the destination cannot be reached or refuses the key.
    private func deliver(
        _ group: OutboxGroup, _ seen: Seen, in range: ClosedRange<Instant>?, of person: StoreUser,
        into report: inout SyncReport
    ) async throws -> Bool {
        let target = group.target
        if let hold = group.held, !hold.isTheSources {
            note(DeliveryHold(hold), target, group.count, in: &report)
            return true
        }
        tell(.syncing(target))
        var tally = Tally()
        defer {
            report.delivered += tally.delivered
            report.refused += tally.refused
            report.handedOver += tally.handedOver
        }
        do {
            try await deliver(target, seen, in: range, of: person, into: &tally)
            if tally.delivered > 0 { try await noteKnownKind(target) }
            try await noteRefusedWhole(target, false)
            circuit.succeeded(target)
            tell(.successSyncing(target, tally.synced))
            return true
        } catch let reason as CutShort {
            if tally.delivered > 0 {
                try await noteKnownKind(target)
                try await noteRefusedWhole(target, false)
                circuit.succeeded(target)
                tell(.successSyncing(target, tally.synced))
            }
            throw reason
        } catch {
            let failure = DeliveryFailure(error)
            if failure.isCancellation { throw CancellationError() }
            if let held = failure.hold {
                if failure.scope == .unknownKind { try await noteUnknownKind(target) }
                circuit.held(target)
                // What is held now could not be delivered; what came before it was.
                if tally.delivered > 0 { tell(.successSyncing(target, tally.synced)) }
                try await writeAcknowledged()
                note(held, target, try await count(target, in: range), in: &report)
                return true
            }
            if tally.delivered > 0 { circuit.succeeded(target) }
            if tally.delivered > 0 || failure.isRefusalOfAll {
                try await noteRefusedWhole(target, failure.isRefusalOfAll)
            }
            return note(failure, target, tally.synced, in: &report)
        }
    }

    private func count(_ target: DeliveryTarget, in range: ClosedRange<Instant>?) async throws -> Int {
        try await store.waitingCount(
            user: target.user, resource: target.resource, provider: target.provider, in: range, at: place())
    }

    /// Whether a target waits until the destination may have learned its kind.
    private func isResting(_ target: DeliveryTarget) -> Bool { resting[target].map { $0 > clock.uptime() } ?? false }

    /// Notes that the destination does not know the kind of a target: the provider's other kinds go on.
    ///
    /// The target is tried again after the longest wait, since a server may learn it.
    private func noteUnknownKind(_ target: DeliveryTarget) async throws {
        try await store.setUnknownToServer(
            true, user: target.user, resource: target.resource, provider: target.provider, at: place())
        resting[target] = clock.uptime() + options.backoff.longest
    }

    private func noteKnownKind(_ target: DeliveryTarget) async throws {
        resting[target] = nil
        try await store.setUnknownToServer(
            false, user: target.user, resource: target.resource, provider: target.provider, at: place())
    }

    private func noteRefusedWhole(_ target: DeliveryTarget, _ isRefused: Bool) async throws {
        try await store.setRefusedWhole(
            isRefused, user: target.user, resource: target.resource, provider: target.provider, at: place())
    }

    private func note(_ held: DeliveryHold, _ target: DeliveryTarget, _ count: Int, in report: inout SyncReport) {
        report.held.append(.init(target: target, hold: held.hold, count: count, reason: held.reason))
        tell(.held(target, held.hold, count: count, reason: held.reason))
    }

    /// Notes a failure, and says whether the next group may be tried.
    @discardableResult
    func note(
        _ failure: DeliveryFailure, _ target: DeliveryTarget?, _ synced: SyncedReadings = SyncedReadings(),
        in report: inout SyncReport
    ) -> Bool {
        if let target { tell(.failedSyncing(target, failure, synced)) }
        report.failure = report.failure.map { $0.isRetryable ? failure : $0 } ?? failure
        return circuit.failed(target, failure, at: clock.uptime(), options.backoff)
    }

    private func deliver(
        _ target: DeliveryTarget, _ seen: Seen, in range: ClosedRange<Instant>?, of person: StoreUser,
        into tally: inout Tally
    ) async throws {
        // What was read of the store and is still to be sent. It is read anew, from the first on, once something may have
        // changed.
        var (ahead, isAll, generation) = (ReadAhead([]), false, Int?.none)
        var last: OutboxItem?
        // Whether the destination has said nothing of the batch before.
        var isSilent = false
        while true {
            try Task.checkCancellation()
            try requireNoQuiet()
            let limit = batchLimits[target.resource] ?? batchLimit
            let suspected = Set(tally.suspects.map(\.item.id))
            if isAll, ahead.isEmpty, generation == store.contentGeneration {
                return try await concludeSuspects(into: &tally)
            }
            // Before the batch is read: the destination may take long to answer, and what is decided meanwhile counts.
            try await requireReady(target, of: person)
            let isNew = generation != store.contentGeneration
            if ahead.isEmpty || isNew {
                if isNew {
                    // What was taken would still wait.
                    try await writeAcknowledged()
                    (generation, last) = (store.contentGeneration, nil)
                    try await requireNothingToRetract()
                }
                let oldest = generation == seen.generation ? seen.oldest : nil
                let next = try await waiting(target, in: range, after: last, from: oldest, suspected, limit)
                (ahead, isAll) = (ReadAhead(next.items), next.isAll)
                last = next.items.last ?? last
            }
            tally.generation = generation
            let items = ahead.take(limit)
            let isLast = isAll && ahead.isEmpty
            guard !items.isEmpty else { return try await concludeSuspects(into: &tally) }
            if destination.rules.needsSource { tell(.readings(items.map(\.reading.id), .sourceChecked)) }
            let offered = try await offer(items)
            do {
                let batch = DeliveryBatch(
                    target: target, person: person, items: items, range: range, isLast: isLast)
                do {
                    for (index, part) in try await destination.parts(batch).enumerated() {
                        // What follows may not be sent any more, or not yet.
                        if index > 0, isOutdated(tally) { break }
                        try await send(part, into: &tally)
                    }
                } catch let failure as DeliveryFailure where failure.isRefusalOfAll {
                    guard try await isNewerTaken(batch, into: &tally) else { throw failure }
                    // It may be of what is ahead.
                    generation = nil
                }
                if tally.delivered > 0 { try await settleSuspects(into: &tally) }
                // Of what was excluded on its way nothing is said; the store does not offer it again.
                let wasSilent = isSilent
                isSilent = tally.settled.isEmpty && tally.suspects.count == suspected.count
                guard !isSilent || isOutdated(tally) && !wasSilent else {
                    throw DeliveryFailure(
                        .target, code: "unexpected_answer", message: "the destination says nothing of what it was sent")
                }
                if tally.refused > 0 || tally.settled.count < items.count {
                    try await withdraw(offered, items, but: tally.mayBeThere)
                }
            } catch let failure as DeliveryFailure {
                try await withdraw(offered, items, but: tally.mayBeThere)
                if failure.hold == nil, !failure.isCancellation {
                    let settled = Set(tally.settled)
                    let unsettled = items.map(\.id).filter { !settled.contains($0) }
                    try await store.noteAttempt(unsettled, serverSaid: failure.serverSaid)
                }
                throw failure
            }
            // What is left of it waits before what is ahead.
            if tally.settled.count < items.count { generation = nil }
            tally.settled = []
            tally.mayBeThere = []
        }
    }

    /// Whether what is left of a batch may not be sent as it was read: something of the store has changed since, such as a
    /// person's consent, or the pass is to stop.
    func isOutdated(_ tally: Tally) -> Bool { isQuietAsked || tally.generation != store.contentGeneration }

    /// - Throws: ``CutShort/quiet`` if something is to be done while nothing is delivered.
    func requireNoQuiet() throws {
        if isQuietAsked { throw CutShort.quiet }
    }

    /// - Throws: ``CutShort/retraction`` if something is to be taken back that was not when the pass began.
    private func requireNothingToRetract() async throws {
        guard destination.rules.canRetract, try await store.newestRetraction(at: place()) ?? 0 > knownRetraction else {
            return
        }
        throw CutShort.retraction
    }

    /// What is sent next of a target: a few batches, and whether that is all.
    ///
    /// - Throws: a failure of scope `held` if what was revoked, paused or switched off meanwhile stops the destination.
    func waiting(
        _ target: DeliveryTarget, in range: ClosedRange<Instant>?, after last: OutboxItem?, from oldest: Instant?,
        _ suspected: Set<OutboxID>, _ limit: Int
    ) async throws -> (items: [OutboxItem], isAll: Bool) {
        let count = max(limit, min(Self.readAhead, options.unwrittenLimit))
        let next = try await store.nextBatch(
            user: target.user, resource: target.resource, provider: target.provider, in: range, after: last,
            from: oldest, limit: min(count + suspected.count, 10_000), at: place())
        switch next {
        case .held(let hold): throw DeliveryFailure(DeliveryHold(hold))
        case .items(var items, let isAll):
            if !suspected.isEmpty { items.removeAll { suspected.contains($0.id) } }
            return (items, isAll)
        }
    }

    /// How many readings are read at once, if batches are smaller: each look into the store begins with what it costs to begin.
    private static var readAhead: Int { 1500 }

    /// Notes what is about to be sent, if the destination cannot take it back: a process that is killed meanwhile does not
    /// learn whether it got there.
    ///
    /// - Returns: when, if it was noted. A server of sources keeps a sample's key, and is not asked to take back either.
    private func offer(_ items: [OutboxItem]) async throws -> Instant? {
        guard !destination.rules.canRetract, !destination.rules.needsSource else { return nil }
        let now = clock.now()
        try await store.noteOffer(items.map(\.id), at: now)
        return now
    }

    /// Notes what did not get there.
    private func withdraw(_ offered: Instant?, _ items: [OutboxItem], but mayBeThere: Set<OutboxID>) async throws {
        guard let offered else { return }
        let ids = items.map(\.id).filter { !mayBeThere.contains($0) }
        try await shieldedFromCancellation { [store] in try await store.withdrawOffer(ids, at: offered) }
    }

    /// Checks whether the readings of a target may be sent now.
    ///
    /// - Throws: a failure of scope `held` if they have to wait.
    func requireReady(_ target: DeliveryTarget, of person: StoreUser) async throws {
        if let held = try await destination.hold(target, of: person) { throw DeliveryFailure(held) }
    }
}

/// What was read of the store and is taken from the first on, a batch after the other.
private struct ReadAhead {
    private var items: [OutboxItem]
    private var next = 0

    init(_ items: [OutboxItem]) { self.items = items }

    var isEmpty: Bool { next == items.count }

    mutating func take(_ limit: Int) -> [OutboxItem] {
        // An item is large: what is one batch is not copied.
        guard next > 0 || items.count > limit else {
            defer { items = [] }
            return items
        }
        let end = min(next + limit, items.count)
        defer { next = end }
        return Array(items[next..<end])
    }
}

extension OutboxGroup {
    var target: DeliveryTarget { DeliveryTarget(user: user, resource: resource, provider: provider) }
}

extension Hold {
    /// Whether checking the source may end it.
    var isTheSources: Bool {
        switch self {
        case .noSource, .sourceRevoked, .sourcePaused, .sourceError: true
        case .locked, .noConsent, .notSelected, .ignored, .olderThanBackfill, .syncDisabled, .destinationDisabled,
            .manual, .otherEndpoint, .noPatient, .awaitingContext:
            false
        }
    }
}
