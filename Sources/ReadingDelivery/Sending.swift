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
                // A server that refuses whatever it is sent has changed, or something stands before it: had it taken
                // even one, that would be known by now. Nothing is set aside because of it.
                if tally.delivered == 0, tally.suspects.count > Self.patience { throw failure }
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
            let readings = delivered.map(\.reading.id)
            hub.emit(.readings(readings, .posted))
            try await store.acknowledge(delivered.map(\.id), at: clock.now())
            hub.emit(.readings(readings, .acknowledged))
            tally.delivered += delivered.count
            tally.settled.formUnion(delivered.map(\.id))
        }
        for item in part.items {
            if case .refused(let words) = outcomes[item.id] { try await setAside(item, words, into: &tally) }
        }
    }

    /// Sets aside what was refused alone, in the destination's words.
    ///
    /// - Throws: the refusal itself where it is too large and nothing was taken: no reading is too large by itself, so
    ///   that is the destination's limit.
    func settleSuspects(into tally: inout Tally) async throws {
        let suspects = tally.suspects
        tally.suspects = []
        if tally.delivered == 0, let large = suspects.first(where: { $0.failure.scope == .tooLarge }) {
            throw large.failure
        }
        for (item, failure) in suspects {
            try await setAside(item, failure.serverSaid ?? failure.message, into: &tally)
        }
    }

    private func setAside(_ item: OutboxItem, _ words: String, into tally: inout Tally) async throws {
        try await store.reject(item.id, serverSaid: words)
        tally.settled.insert(item.id)
        tally.refused += 1
        hub.emit(.readings([item.reading.id], .setAside(serverSaid: words)))
    }
}
