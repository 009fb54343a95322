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
        let grown = frames.map { GrowingFrame($0, of: contact) }
        let rows = growingFrames.withLock { growing in grown.map { growing[$0] } }
        let outcomes = try await withJournal(of: contact) { journal in
            var outcomes: [FrameOutcome] = []
            outcomes.reserveCapacity(frames.count)
            for (place, frame) in frames.enumerated() {
                if let row = rows[place] {
                    try journal.rewrite(frame, row)
                    journal.storedFrame = row
                }
                try journal.add(frame, decoded[place], into: &outcomes)
                journal.storedFrame = nil
            }
            return outcomes
        }
        growingFrames.withLock { growing in for frame in grown { growing[frame] = nil } }
        publish(outcomes)
        return outcomes
    }

    /// Stores a frame that is to grow, or what it has grown to, in one commit. Its readings are made when it is whole, or
    /// when the store is opened the next time.
    public func keep(_ growing: Frame, of contact: Contact) async throws {
        let frame = GrowingFrame(growing, of: contact)
        let row = growingFrames.withLock { $0[frame] }
        let kept = try await withJournal(of: contact) { journal in
            guard let row else { return try journal.keep(growing, .pending) }
            try journal.rewrite(growing, row)
            return row
        }
        growingFrames.withLock { $0[frame] = kept }
    }

    /// Does something with the journal of a contact, in one commit.
    private func withJournal<Value: Sendable>(
        of contact: Contact, _ body: @escaping @Sendable (inout Journal) throws -> Value
    ) async throws -> Value {
        let now = now()
        return try await write(.journal) { [self] db in
            // Taken out while it changes: a transaction that fails leaves nothing behind, and it is made again.
            let state = try ContactState.current(
                contacts.withLock { $0.removeValue(forKey: contact.id) }, db, sealing, contact: contact.id)
            let memory =
                try journalMemory.withLock { $0.take() } ?? JournalMemory(db, sealing, holds: holdRules(inWriting: db))
            // Handed on, not copied: a long contact's state is as large as what came in it.
            var journal = try Journal(
                db, contact: consume state, epoch: contact.sequenceEpoch, decoder: decoder,
                sealing: sealing, pruned: PrunedReadings(db, key: pruneKey.withLock(\.self)), memory: memory,
                numbers: RowNumbers(db, memory, now: now))
            let value = try body(&journal)
            return (value, journal.contact, JournalMemory(of: journal))
        } committed: { [self] _, state, memory in
            contacts.withLock { $0[contact.id] = state }
            journalMemory.withLock { $0 = memory }
        }.0
    }

    /// Has the contacts that go on made again from the database when they are next needed.
    func outdateContacts() {
        contacts.withLock { contacts in
            for contact in contacts.keys { contacts[contact]?.isOutdated = true }
        }
    }
}

/// A frame that was kept before it was whole.
struct GrowingFrame: Hashable {
    private let contact: Int64
    private let format: FrameFormat
    private let ordinal: Int

    init(_ frame: Frame, of contact: Contact) {
        self.contact = contact.id
        format = frame.format
        ordinal = frame.ordinal
    }
}
