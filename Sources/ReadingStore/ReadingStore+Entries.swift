import GRDB
import HealthReadings
import Synchronization

/// What became of an entry.
public enum EntryOutcome: Sendable, Hashable {
    /// It is a reading now.
    case added(Reading)
    /// The same entry was stored before: nothing has changed.
    case present(Reading)
    /// The same entry was stored and delivered before, and its content was pruned since: nothing has changed, except
    /// that the entry it corrects is withdrawn.
    case pruned(ReadingID)
}

/// Why an entry cannot be corrected or withdrawn.
public enum EntryChangeError: Error, Sendable, Hashable {
    /// The store has no reading with this id.
    case noSuchReading(ReadingID)
    /// Nobody entered it: a device measured it, or it was imported, and cannot be corrected.
    case measured(ReadingID)
    /// It was withdrawn or corrected before.
    case withdrawn(ReadingID)
}

extension EntryChangeError: CustomStringConvertible {
    /// The error's published name in snake_case.
    public var code: String {
        switch self {
        case .noSuchReading: "no_such_reading"
        case .measured: "not_entered_by_hand"
        case .withdrawn: "entry_withdrawn"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .noSuchReading(let id): "the store has no reading \(id)"
        case .measured(let id):
            "reading \(id) was not entered by hand: only such a reading can be corrected, and only such a reading or an imported one withdrawn"
        case .withdrawn(let id): "entry \(id) was withdrawn or corrected before"
        }
    }

    /// What to do next, for people.
    public var hint: String {
        switch self {
        case .noSuchReading: "`healthrelay query` shows the ids."
        case .measured:
            "Keep it as the device sent it. To keep it from a destination, see `sync.ignore` and `healthrelay consent`."
        case .withdrawn: "Enter it again with `healthrelay add`."
        }
    }
}

extension ReadingStore {
    /// Stores what a person entered: the frame with its document, the reading that it makes and what of it waits for
    /// destinations, in one commit. With `ManualEntry.corrects` the former entry is withdrawn in the same commit.
    ///
    /// Returns when it is durable. An entry that is stored already changes nothing, so a caller that does not know whether
    /// it was stored enters it again. An entry that was withdrawn is a reading again.
    ///
    /// - Parameter entry: the entry; look at its doubts first.
    /// - Throws: ``StoreError``: nothing is stored then; ``StoreError/unknown(_:)`` for a person the store does not know;
    ///   ``EntryChangeError`` if the entry that it corrects cannot be corrected.
    @discardableResult
    public func enter(_ entry: ManualEntry) async throws -> EntryOutcome {
        let outcomes = try await keep(by: entry.person) { now in
            entry.frame(receivedAt: now)
        } if: { journal in
            guard let former = entry.corrects, former != entry.id else { return }
            let isKnown = try journal.reading(entry.id) != nil || journal.isPruned(entry)
            try Self.requireEntry(former, in: journal, allowsWithdrawn: isKnown)
        }
        switch outcomes.first {
        case .new(let reading): return .added(reading)
        case .repeated(let id):
            guard let reading = try await reading(id) else { return .pruned(id) }
            return .present(reading)
        default: throw StoreError.internalFault(detail: "an entry made no reading")
        }
    }

    /// Whether an entry is stored, or was until it was pruned.
    package func knows(_ entry: ManualEntry) async throws -> Bool {
        if try await reading(entry.id) != nil { return true }
        return try await read { [self] db in
            let pruned = try PrunedReadings(db, key: pruneKey.withLock(\.self))
            guard case .same? = try pruned?.find(entry.id, entry.record) else { return false }
            return true
        }
    }

    /// Withdraws what a person entered, or what was imported: destinations that have it are asked to take it back, and it goes to no other.
    /// The store keeps it, excluded as `withdrawn`.
    ///
    /// - Returns: the reading as it is now; one that was withdrawn before is returned unchanged.
    /// - Throws: ``EntryChangeError``; ``StoreError``.
    @discardableResult
    public func withdraw(_ id: ReadingID) async throws -> Reading {
        guard let reading = try await reading(id) else { throw EntryChangeError.noSuchReading(id) }
        guard reading.record.isWithdrawable else { throw EntryChangeError.measured(id) }
        guard reading.excluded != .withdrawn else { return reading }
        let withdrawal = EntryWithdrawal(person: reading.person ?? "", reading: id)
        let outcomes = try await keep(by: withdrawal.person) { now in
            withdrawal.frame(receivedAt: now)
        } if: { journal in
            // A meter may have brought it meanwhile.
            guard try journal.reading(id)?.reading.record.isWithdrawable == true else {
                throw EntryChangeError.measured(id)
            }
        }
        guard case .revised(let withdrawn) = outcomes.first else { return reading }
        return withdrawn
    }

    /// The entries of a person and a kind at a second, but for those that were withdrawn.
    public func entries(of person: String, _ kind: ReadingKind, at instant: Instant) async throws -> [Reading] {
        guard let user = try await user(person) else { return [] }
        var query = ReadingQuery(limit: 100)
        query.kinds = [kind]
        query.user = user.key
        query.from = instant.flooredToSecond
        query.to = instant.flooredToSecond
        return try await self.query(query).readings.filter { $0.record.entry != nil && $0.excluded != .withdrawn }
    }

    private static func requireEntry(_ id: ReadingID, in journal: Journal, allowsWithdrawn: Bool) throws {
        guard let reading = try journal.reading(id)?.reading else { throw EntryChangeError.noSuchReading(id) }
        guard reading.record.entry != nil else { throw EntryChangeError.measured(id) }
        guard allowsWithdrawn || reading.excluded != .withdrawn else { throw EntryChangeError.withdrawn(id) }
    }

    /// Appends one frame in a contact of its own.
    private func keep(
        by person: String, _ frame: @escaping @Sendable (Instant) -> Frame,
        if isAllowed: @escaping @Sendable (Journal) throws -> Void
    ) async throws -> [FrameOutcome] {
        try await requireKeys()
        let now = now()
        let outcomes = try await write(.entry) { [self] db in
            guard let user = try Self.user(db, sealing, named: person),
                let zone = try Self.zone(db, of: user.key.rawValue, at: now)
            else { throw StoreError.unknown("the person of an entry") }
            let device = try Self.standIn(db, ManualEntry.device)
            let contact = try Self.nextKey(db, of: "contact")
            try db.executeCached(
                sql: """
                    INSERT INTO contact
                        (key, device, user, started_at, zone, sequence_epoch, ended_at, is_complete, received)
                    VALUES (?1, ?2, ?3, ?4, ?5, 0, ?4, 1, 1)
                    """, arguments: [contact, device, user.key.rawValue, now.microseconds, zone])
            let memory = try JournalMemory(db, sealing, holds: holdRules(inWriting: db))
            var journal = try Journal(
                db, contact: ContactState(db, sealing, contact: contact), epoch: 0, decoder: decoder, sealing: sealing,
                pruned: PrunedReadings(db, key: pruneKey.withLock(\.self)), memory: memory,
                numbers: RowNumbers(db, memory, now: now))
            try isAllowed(journal)
            let frame = frame(now)
            var outcomes: [FrameOutcome] = []
            try journal.add(frame, decoder.decode(frame, model: ManualEntry.device.model), into: &outcomes)
            return outcomes
        }
        publish(outcomes)
        return outcomes
    }

    /// The row that stands for entries, or a provider's imports, where readings name their device. It was never seen, so no
    /// list of devices has it.
    static func standIn(_ db: Database, _ device: DeviceDescription) throws -> Int64 {
        let known = try Int64.fetchOne(
            db.cachedStatement(
                sql: "SELECT key FROM device WHERE model = ? AND provider = ? AND address IS NULL ORDER BY key LIMIT 1"),
            arguments: [device.model, device.provider])
        if let known { return known }
        try db.executeCached(
            sql: "INSERT INTO device (model, provider) VALUES (?, ?)", arguments: [device.model, device.provider])
        return db.lastInsertedRowID
    }
}

extension Record {
    /// Whether a person can withdraw it: a person entered it, or it came out of another program's data.
    var isWithdrawable: Bool { entry != nil || imported != nil }
}
