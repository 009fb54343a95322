import GRDB
import HealthReadings
import Synchronization

extension ReadingStore: FrameJournal {
    /// Appends frames of one contact, with the readings they make and what of them waits for the server, in one commit.
    ///
    /// Returns when it is durable. Cancelling the caller's task does not undo it.
    /// - Throws: ``StoreError``: nothing of these frames is then stored, and the device must keep them.
    public func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        guard !frames.isEmpty else { return [] }
        let decoded = frames.map { decoder.decode($0, model: contact.device.model) }
        let now = now()
        let (outcomes, _, _) = try await write(.journal) { [self] db in
            // Taken out while it changes: a transaction that fails leaves nothing behind, and it is made again.
            let state = try ContactState.current(
                contacts.withLock { $0.removeValue(forKey: contact.id) }, db, sealing, contact: contact.id)
            let memory = try journalMemory.withLock { $0.take() } ?? JournalMemory(db, sealing)
            // Handed on, not copied: a long contact's state is as large as what came in it.
            var journal = try Journal(
                db, contact: consume state, epoch: contact.sequenceEpoch, decoder: decoder,
                sealing: sealing, pruned: PrunedReadings(db, key: pruneKey.withLock(\.self)), holds: memory.holds,
                numbers: RowNumbers(db, memory, now: now))
            var outcomes: [FrameOutcome] = []
            outcomes.reserveCapacity(frames.count)
            for (frame, decoded) in zip(frames, decoded) { try journal.add(frame, decoded, into: &outcomes) }
            return (outcomes, journal.contact, JournalMemory(holds: journal.holds, numbers: journal.numbers))
        } committed: { [self] _, state, memory in
            contacts.withLock { $0[contact.id] = state }
            journalMemory.withLock { $0 = memory }
        }
        publish(outcomes)
        return outcomes
    }

    /// Has the contacts that go on made again from the database when they are next needed.
    func outdateContacts() {
        contacts.withLock { contacts in
            for contact in contacts.keys { contacts[contact]?.isOutdated = true }
        }
    }
}
