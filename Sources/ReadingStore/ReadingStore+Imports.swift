import GRDB
import HealthReadings
import Synchronization

/// What became of a sample out of another program's data.
public enum ImportOutcome: Sendable, Hashable {
    /// It is a reading now; why it is never delivered, or `nil`.
    case stored(ReadingID, excluded: Exclusion?)
    /// It was stored before, by this import or another: nothing has changed.
    case present(ReadingID)
    /// It was stored before, and is another person's than the sample says: nothing has changed.
    case presentOfAnother(ReadingID, person: String)
    /// It has the id of a reading whose time or value is another: it is not stored.
    case conflict(ReadingID)
}

/// What came of records of another program.
package struct RecordsAdded: Sendable {
    /// What became of each frame.
    package var outcomes: [FrameOutcome]
    /// How many pruned readings the frames say something new of. Those are repetitions among the outcomes: the owner let go of the
    /// reading, so a newer version of it isn't stored. That it came is noted, and the next time it is nothing new.
    package var revisedPruned: Int
}

extension ReadingStore {
    /// Stores samples out of another program's data: the frames with their octets, the readings that they make and what of
    /// them waits for destinations, in one commit.
    ///
    /// Returns when they are durable. A sample that is stored already changes nothing, so a caller that does not know how far
    /// it came begins anew. Old samples are held at destinations as old readings are; nothing else tells them from what a
    /// device sent.
    ///
    /// - Parameter samples: the samples; a thousand or so at a time keep the commit short.
    /// - Returns: what became of each.
    /// - Throws: ``StoreError``: none of them is stored then; ``StoreError/unknown(_:)`` for a person the store does not know.
    @discardableResult
    public func add(_ samples: [ImportedSample]) async throws -> [ImportOutcome] { try await add(samples, at: nil) }

    /// The same, with the time since the machine began. A sample that lies in the future by this machine's clock is judged again
    /// if that was behind.
    package func add(_ samples: [ImportedSample], at moment: BootTime?) async throws -> [ImportOutcome] {
        guard !samples.isEmpty else { return [] }
        try await requireKeys()
        let now = now()
        let (outcomes, changes) = try await write(.imports) { [self] db in
            var outcomes = [ImportOutcome?](repeating: nil, count: samples.count)
            var changes: [FrameOutcome] = []
            let memory = try JournalMemory(db, sealing, holds: holdRules(inWriting: db))
            let numbers = RowNumbers(db, memory, now: now)
            let pruned = try PrunedReadings(db, key: pruneKey.withLock(\.self))
            for (origin, places) in Self.byOrigin(samples) {
                changes += try Self.inContact(db, origin, at: now, sealing, numbers) { contact in
                    var journal = try Journal(
                        db, contact: ContactState(db, sealing, contact: contact), epoch: 0, decoder: decoder,
                        sealing: sealing, pruned: pruned, memory: memory, numbers: numbers)
                    let others = try Self.others(than: contact, db)
                    var made: [FrameOutcome] = []
                    for place in places {
                        let outcome = try Self.add(
                            samples[place], to: &journal, formerly: others, at: (now, moment), into: &made)
                        outcomes[place] = outcome
                    }
                    return made
                }
            }
            return (outcomes.compactMap(\.self), changes)
        }
        publish(changes)
        return outcomes
    }

    /// Stores frames of another program's data whose decoding makes samples: the frames, the readings that they make or
    /// change and what of them waits for destinations, in one commit.
    ///
    /// Returns when they are durable. A frame that is stored already changes nothing.
    ///
    /// - Parameters:
    ///   - provider: whose data it is, as a slug: `whoop`.
    ///   - person: the client's id of the person whose data it is.
    ///   - frames: makes the frames of when they were received.
    /// - Returns: what became of each.
    /// - Throws: ``StoreError``: none of them is stored then; ``StoreError/unknown(_:)`` for a person the store does not know.
    @discardableResult
    public func add(
        of provider: String, person: String, _ frames: @escaping @Sendable (Instant) -> [Frame]
    ) async throws -> [FrameOutcome] {
        try await addRecords(of: provider, person: person, frames).outcomes
    }

    /// The same, and how many pruned readings are revised.
    package func addRecords(
        of provider: String, person: String, _ frames: @escaping @Sendable (Instant) -> [Frame]
    ) async throws -> RecordsAdded {
        try await requireKeys()
        let now = now()
        let frames = frames(now)
        guard !frames.isEmpty else { return RecordsAdded(outcomes: [], revisedPruned: 0) }
        let added = try await write(.imports) { [self] db in
            let memory = try JournalMemory(db, sealing, holds: holdRules(inWriting: db))
            let numbers = RowNumbers(db, memory, now: now)
            let origin = Origin(person: person, provider: provider)
            let pruned = try PrunedReadings(db, key: pruneKey.withLock(\.self))
            var revisedPruned: [ReadingID: Record] = [:]
            let outcomes = try Self.inContact(db, origin, at: now, sealing, numbers) { contact in
                var journal = try Journal(
                    db, contact: ContactState(db, sealing, contact: contact), epoch: 0, decoder: decoder,
                    sealing: sealing, pruned: pruned, memory: memory, numbers: numbers)
                let others = try Self.others(than: contact, db)
                var outcomes: [FrameOutcome] = []
                for frame in frames {
                    let decoded = decoder.decode(frame, model: ImportedSample.model)
                    if case .imported(let sample) = decoded, let id = try journal.otherID(of: sample, from: others) {
                        outcomes.append(try journal.add(sample, frame, as: id))
                    } else {
                        try journal.add(frame, decoded, into: &outcomes)
                    }
                }
                revisedPruned = journal.revisedPruned
                return outcomes
            }
            // Behind the contact: one that brings nothing leaves nothing.
            for (id, record) in revisedPruned { try pruned?.note(record, of: id) }
            return RecordsAdded(outcomes: outcomes, revisedPruned: revisedPruned.count)
        }
        publish(added.outcomes)
        return added
    }

    private static func add(
        _ sample: ImportedSample, to journal: inout Journal, formerly people: [String],
        at received: (now: Instant, moment: BootTime?), into made: inout [FrameOutcome]
    ) throws -> ImportOutcome {
        if let originalID = sample.originalID, let found = try journal.reading(originalID)?.reading {
            return sample.isMeasurement(of: found) ? present(found, sample) : .conflict(originalID)
        }
        let id = sample.id
        guard try !journal.holds(id) else { return .present(id) }
        if let found = try journal.measuredHere(sample) { return present(found, sample) }
        if let id = try journal.otherID(of: sample, from: people) { return .present(id) }
        var frame = sample.frame(receivedAt: received.now)
        frame.bootTime = received.moment
        let outcome = try journal.add(journal.decoder.judged(sample), id, frame)
        guard case .new(let reading) = outcome else { return .present(id) }
        made.append(outcome)
        return .stored(id, excluded: reading.excluded)
    }

    private static func present(_ found: Reading, _ sample: ImportedSample) -> ImportOutcome {
        let person = found.person ?? ""
        return person == sample.person ? .present(found.id) : .presentOfAnother(found.id, person: person)
    }

    /// As whose samples of this origin were imported besides. As long as the person had no name, some were nobody's.
    private static func others(than contact: Int64, _ db: Database) throws -> [String] {
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT client_user_id FROM user WHERE key IN (SELECT user FROM contact WHERE device =
                    (SELECT device FROM contact WHERE key = ?1)) AND key <> (SELECT user FROM contact WHERE key = ?1)
                    AND client_user_id <> ''
                """, arguments: [contact])
        return [""] + names
    }

    /// Whose samples they are, and whose data they come from.
    private struct Origin: Hashable {
        var person: String
        var provider: String
    }

    /// The places of samples by their origin, in the order in which origins and samples come.
    private static func byOrigin(_ samples: [ImportedSample]) -> [(Origin, [Int])] {
        var order: [Origin] = []
        var places: [Origin: [Int]] = [:]
        for (place, sample) in samples.enumerated() {
            let origin = Origin(person: sample.person, provider: sample.provider)
            if places[origin] == nil { order.append(origin) }
            places[origin, default: []].append(place)
        }
        return order.map { ($0, places[$0] ?? []) }
    }

    /// Has frames kept in a contact of their own. An import that brings nothing leaves nothing, not even that it came again.
    ///
    /// No index says which frames a contact has, so that one that is deleted has SQLite look through all frames of the store.
    ///
    /// - Returns: what became of the frames.
    private static func inContact(
        _ db: Database, _ origin: Origin, at now: Instant, _ sealing: Sealing, _ numbers: RowNumbers,
        _ body: (_ contact: Int64) throws -> [FrameOutcome]
    ) throws -> [FrameOutcome] {
        var outcomes: [FrameOutcome] = []
        try db.inSavepoint {
            let contact = try beginContact(db, origin, at: now, sealing)
            let frame = numbers.frame
            outcomes = try body(contact)
            if numbers.frame > frame { return .commit }
            let hasChanged = outcomes.contains { outcome in
                switch outcome {
                case .new, .revised, .clash, .waiting: true
                case .repeated, .nothing, .malformed: false
                }
            }
            guard hasChanged else { return .rollback }
            try db.execute(sql: "DELETE FROM contact WHERE key = ?", arguments: [contact])
            return .commit
        }
        return outcomes
    }

    private static func beginContact(
        _ db: Database, _ origin: Origin, at now: Instant, _ sealing: Sealing
    ) throws -> Int64 {
        guard let user = try user(db, sealing, named: origin.person),
            let zone = try zone(db, of: user.key.rawValue, at: now)
        else { throw StoreError.unknown("the person of an import") }
        let contact = try nextKey(db, of: "contact")
        try db.execute(
            sql: """
                INSERT INTO contact
                    (key, device, user, started_at, zone, sequence_epoch, ended_at, is_complete, received)
                VALUES (?1, ?2, ?3, ?4, ?5, 0, ?4, 1, 1)
                """,
            arguments: [
                contact, try standIn(db, ImportedSample.device(of: origin.provider)), user.key.rawValue,
                now.microseconds, zone,
            ])
        return contact
    }
}
