import HealthReadings
import Logging
import ReadingStore

extension OutboxWorker {
    /// Readings refused alone, one after the other and none taken, from which on the refusal is not about them.
    private static let patience = 4

    /// Sends a part; halves it where it is too large or holds something the destination refuses.
    func send(_ part: DeliveryPart, into tally: inout Tally) async throws {
        guard let first = part.items.first else { return }
        do {
            // Oldest first: what the destination left of it goes before the next part.
            var rest = part
            repeat {
                try await requireReady(rest.target, of: rest.person)
                let unsent = try await sendOnce(rest, into: &tally)
                guard unsent.count < rest.items.count, !isOutdated(tally) else { return }
                rest.items = unsent
            } while !rest.items.isEmpty
        } catch let failure as DeliveryFailure where failure.isAboutItems {
            guard part.items.count > 1 else {
                return try suspect(first, failure, into: &tally)
            }
            if failure.scope == .tooLarge {
                batchLimits[part.target.resource] = part.items.count / 2
                logger.notice(
                    "posts are halved: too large for the server", metadata: ["readings": "\(part.items.count / 2)"])
            }
            let (one, other) = part.halves
            try await send(one, into: &tally)
            if !isOutdated(tally) { try await send(other, into: &tally) }
        }
    }

    /// Sends a part and records what became of each reading.
    ///
    /// - Returns: the readings of which the destination says nothing.
    @discardableResult
    private func sendOnce(_ part: DeliveryPart, into tally: inout Tally) async throws -> [OutboxItem] {
        let outcomes: [Outcome]
        do {
            outcomes = try await destination.send(part)
        } catch {
            if DeliveryFailure(error).leavesDoubt { tally.mayBeThere.formUnion(part.items.map(\.id)) }
            throw error
        }
        // Nearly every part is.
        if part.isDelivered(outcomes) {
            try await noteDelivered(part.items, of: part.target, into: &tally)
            return []
        }
        let results = part.results(outcomes)
        let delivered = part.items.indices.filter { results[$0] == .delivered }.map { part.items[$0] }
        if !delivered.isEmpty { try await noteDelivered(delivered, of: part.target, into: &tally) }
        let (handedOver, keptReadings) = part.items(where: { results[$0] == .handedOver })
        if !handedOver.isEmpty {
            CrashPoint.reach("hand-over.sent")
            try await store.handOver(handedOver, at: clock.now())
            tell(.readings(keptReadings, .handedOver))
            tally.handedOver += handedOver.count
            receiptDue = receiptDue ?? clock.uptime() + receiptTimeout
            tally.settled += handedOver
        }
        var failure: DeliveryFailure?
        for (index, result) in results.enumerated() {
            switch result {
            case .refused(let words): try await setAside(part.items[index], words, into: &tally)
            case .failed(let error) where error.isAboutItems: try suspect(part.items[index], error, into: &tally)
            case .failed(let error):
                if error.leavesDoubt { tally.mayBeThere.insert(part.items[index].id) }
                failure = failure ?? error
            case .delivered, .handedOver, nil: break
            }
        }
        if let failure { throw failure }
        return part.items.indices.filter { results[$0] == nil }.map { part.items[$0] }
    }

    /// Records that the destination has readings: at least one, in the order in which they were sent.
    private func noteDelivered(
        _ items: [OutboxItem], of target: DeliveryTarget, into tally: inout Tally
    ) async throws {
        if tally.delivered == 0 {
            // Before anything is set aside in this pass, so that only older refusals are offered again.
            try await store.reofferRefused(
                user: target.user, resource: target.resource, provider: target.provider, at: place())
        }
        let ids = items.map(\.id)
        let readings = items.map(\.reading.id)
        tell(.readings(readings, .posted))
        try await acknowledge(ids, readings)
        tally.synced.add(items)
        tally.settled += ids
    }

    /// Notes that a reading was refused although it was alone.
    private func suspect(_ item: OutboxItem, _ failure: DeliveryFailure, into tally: inout Tally) throws {
        tally.suspects.append((item, failure))
        // If five readings are refused alone and none accepted, the server has changed, or a proxy answers for it. Nothing
        // is set aside because of it.
        if tally.delivered == 0, tally.suspects.count > Self.patience {
            throw failure.scope == .tooLarge ? failure : .refusalOfAll(failure)
        }
    }

    /// Sends a newer reading alone, after the oldest ones were all refused: the newest of the batch, or the one after it.
    ///
    /// Otherwise five bad readings would keep everything behind them waiting for good. It is the only reading that overtakes
    /// older ones.
    func isNewerTaken(_ batch: DeliveryBatch, into tally: inout Tally) async throws -> Bool {
        guard let last = batch.items.last else { return false }
        try await requireReady(batch.target, of: batch.person)
        // Read anew: what was decided since the batch was read, such as a person's consent, counts.
        let suspected = Set(tally.suspects.map(\.item.id))
        let next = try await waiting(
            batch.target, in: batch.range, after: nil, from: last.timestamp, suspected, 1)
        guard let newest = next.items.first else { return false }
        var batch = batch
        batch.items = [newest]
        batch.isLast = false
        do {
            for part in try await destination.parts(batch) { try await sendOnce(part, into: &tally) }
        } catch let failure as DeliveryFailure where failure.isAboutItems {
            return false
        }
        return tally.delivered > 0
    }

    /// Sets aside what was refused alone, in the destination's words.
    func settleSuspects(into tally: inout Tally) async throws {
        let suspects = tally.suspects
        tally.suspects = []
        for (item, failure) in suspects {
            try await setAside(item, failure.serverSaid ?? failure.message, into: &tally)
        }
    }

    /// Decides about what was refused alone once nothing else of the target waits.
    ///
    /// A reading is set aside only on evidence that the destination works: it has accepted another of the target, or its
    /// refusal names a place in the reading.
    ///
    /// - Throws: the refusal of all of them where there is no such evidence. They go on waiting.
    func concludeSuspects(into tally: inout Tally) async throws {
        guard tally.delivered == 0 else { return try await settleSuspects(into: &tally) }
        let unproven = tally.suspects.filter { !$0.failure.namesReading }
        tally.suspects.removeAll { !$0.failure.namesReading }
        try await settleSuspects(into: &tally)
        for (item, failure) in unproven { try await store.noteAttempt([item.id], serverSaid: failure.serverSaid) }
        // No reading is too large by itself, so that is the destination's limit.
        if let large = unproven.first(where: { $0.failure.scope == .tooLarge }) { throw large.failure }
        if let last = unproven.last { throw DeliveryFailure.refusalOfAll(last.failure) }
    }

    private func setAside(_ item: OutboxItem, _ words: String, into tally: inout Tally) async throws {
        try await store.reject(item.id, serverSaid: words)
        tally.settled.append(item.id)
        tally.refused += 1
        tell(.readings([item.reading.id], .setAside(serverSaid: words)))
    }
}

extension DeliveryPart {
    /// Whether outcomes say, in the items' order, that the destination has every one.
    fileprivate func isDelivered(_ outcomes: [Outcome]) -> Bool {
        outcomes.count == items.count && !items.isEmpty
            && items.indices.allSatisfy { outcomes[$0].id == items[$0].id && outcomes[$0].result.isDelivered }
    }

    /// What became of each item, `nil` where nothing was said.
    fileprivate func results(_ outcomes: [Outcome]) -> [Outcome.Result?] {
        // Destinations answer in the items' order mostly.
        if outcomes.count == items.count, items.indices.allSatisfy({ outcomes[$0].id == items[$0].id }) {
            return outcomes.map(\.result)
        }
        let results = Dictionary(outcomes.map { ($0.id, $0.result) }) { first, _ in first }
        return items.map { results[$0.id] }
    }

    /// Some of the items, and their readings.
    fileprivate func items(where isOne: (Int) -> Bool) -> (ids: [OutboxID], readings: [ReadingID]) {
        let indices = items.indices.filter(isOne)
        return (indices.map { items[$0].id }, indices.map { items[$0].reading.id })
    }
}

extension Outcome.Result {
    fileprivate var isDelivered: Bool {
        if case .delivered = self { true } else { false }
    }
}
