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
            try await requireReady(part.target, of: part.person)
            try await sendOnce(part, into: &tally)
        } catch let failure as DeliveryFailure where failure.isAboutItems {
            guard part.items.count > 1 else {
                tally.suspects.append((first, failure))
                // If five readings are refused alone and none accepted, the server has changed, or a proxy answers for
                // it. Nothing is set aside because of it.
                if tally.delivered == 0, tally.suspects.count > Self.patience {
                    throw failure.scope == .tooLarge ? failure : .refusalOfAll(failure)
                }
                return
            }
            if failure.scope == .tooLarge {
                batchLimits[part.target.resource] = part.items.count / 2
                logger.notice(
                    "posts are halved: too large for the server", metadata: ["readings": "\(part.items.count / 2)"])
            }
            let (one, other) = part.halves
            try await send(one, into: &tally)
            try await send(other, into: &tally)
        }
    }

    /// Sends a part and records what became of each reading.
    private func sendOnce(_ part: DeliveryPart, into tally: inout Tally) async throws {
        let outcomes = Dictionary(try await destination.send(part).map { ($0.id, $0.result) }) { first, _ in first }
        let delivered = part.items.filter { outcomes[$0.id] == .delivered }
        if !delivered.isEmpty {
            if tally.delivered == 0 {
                // Before anything is set aside in this pass, so that only older refusals are offered again.
                try await store.reofferRefused(
                    user: part.target.user, resource: part.target.resource, provider: part.target.provider, at: place())
            }
            let readings = delivered.map(\.reading.id)
            hub.emit(.readings(readings, .posted))
            try await store.acknowledge(delivered.map(\.id), at: clock.now())
            hub.emit(.readings(readings, .acknowledged))
            tally.delivered += delivered.count
            tally.settled.formUnion(delivered.map(\.id))
        }
        let handedOver = part.items.filter { outcomes[$0.id] == .handedOver }
        if !handedOver.isEmpty {
            CrashPoint.reach("hand-over.sent")
            try await store.handOver(handedOver.map(\.id), at: clock.now())
            hub.emit(.readings(handedOver.map(\.reading.id), .handedOver))
            tally.handedOver += handedOver.count
            receiptDue = receiptDue ?? clock.uptime() + options.receiptTimeout
            tally.settled.formUnion(handedOver.map(\.id))
        }
        for item in part.items {
            if case .refused(let words) = outcomes[item.id] { try await setAside(item, words, into: &tally) }
        }
    }

    /// Sends a newer reading alone, after the oldest ones were all refused: the newest of the batch, or the one after it.
    ///
    /// Otherwise five bad readings would keep everything behind them waiting for good. It is the only reading that overtakes
    /// older ones.
    func isNewerTaken(_ batch: DeliveryBatch, into tally: inout Tally) async throws -> Bool {
        guard var newest = batch.items.last else { return false }
        if tally.suspects.contains(where: { $0.item.id == newest.id }) {
            let from = Instant(seconds: newest.timestamp.seconds + 1)
            let to = batch.range?.upperBound ?? Instant(seconds: 253_402_300_799)
            guard from <= to,
                let next = try await store.outboxBatch(
                    user: batch.target.user, resource: batch.target.resource, provider: batch.target.provider,
                    in: from...to, limit: 1, at: place()
                ).first
            else { return false }
            newest = next
        }
        var batch = batch
        batch.items = [newest]
        batch.isLast = false
        do {
            for part in try await destination.parts(batch) {
                try await requireReady(part.target, of: part.person)
                try await sendOnce(part, into: &tally)
            }
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
        tally.settled.insert(item.id)
        tally.refused += 1
        hub.emit(.readings([item.reading.id], .setAside(serverSaid: words)))
    }
}
