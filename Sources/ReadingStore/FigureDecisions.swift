import GRDB
import HealthReadings
import Synchronization

/// Why readings cannot be left out of figures, or taken back in.
public enum FigureDecisionError: Error, Sendable, Hashable {
    /// The store has no reading with this id.
    case noSuchReading(ReadingID)
    /// More than ``ReadingStore/mostDecisions`` readings at once.
    case tooMany(Int)
    /// Somebody has left the reading out before, for another reason than this one.
    case leftOutMeanwhile(ReadingID, FigureOmission, reason: String?)
}

extension FigureDecisionError: CustomStringConvertible {
    /// The error's published name in snake_case.
    public var code: String {
        switch self {
        case .noSuchReading: "no_such_reading"
        case .tooMany: "too_many_readings"
        case .leftOutMeanwhile: "left_out_meanwhile"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .noSuchReading(let id): "the store has no reading \(id)"
        case .tooMany(let count):
            "expected at most \(ReadingStore.mostDecisions) readings at once, found \(count)"
        case .leftOutMeanwhile(let id, let omission, let reason):
            "\(omission.by) has left out reading \(id) \(Self.words(omission.reason)); yours is "
                + Self.words(reason)
        }
    }

    /// What to do next, for people.
    public var hint: String {
        switch self {
        case .noSuchReading: "`healthrelay query` shows the ids."
        case .tooMany: "Name fewer readings, and run it several times."
        case .leftOutMeanwhile: "To replace that reason, leave it out again without `expected`."
        }
    }

    private static func words(_ reason: String?) -> String {
        reason.map { "with the reason \"\($0)\"" } ?? "without a reason"
    }
}

/// What became of readings that were to be left out of figures or taken back in.
public struct FigureDecisionResult: Sendable, Hashable {
    /// The readings as they are now, in the order in which they were named.
    public var readings: [Reading] = []
    /// How many of them have changed.
    public var changed = 0
}

extension ReadingStore {
    /// How many readings can be left out at once.
    public static let mostDecisions = 1000

    /// Leaves readings out of figures. They stay stored, shown and delivered.
    ///
    /// All are left out in one commit, or none. A reading that is left out with this reason already is not changed; with another
    /// reason it gets the new one.
    ///
    /// - Parameters:
    ///   - ids: the readings.
    ///   - reason: why, in a person's words; one line of at most `FigureDecision.longestReason` characters.
    ///   - by: who says so.
    ///   - replaces: whether a reason that somebody has given before is replaced; if not, such a reading refuses all of them.
    /// - Throws: ``FigureDecisionError``; `EntryError` for the reason; ``StoreError``.
    @discardableResult
    public func leaveOut(
        _ ids: [ReadingID], reason: String?, by: String, replaces: Bool = true
    ) async throws -> FigureDecisionResult {
        try await decide(ids, isLeftOut: true, reason: FigureDecision.checked(reason), by: by, replaces: replaces)
    }

    /// Has readings that were left out count in figures again.
    ///
    /// - Parameters:
    ///   - ids: the readings.
    ///   - by: who says so.
    /// - Throws: ``FigureDecisionError``; ``StoreError``.
    @discardableResult
    public func include(_ ids: [ReadingID], by: String) async throws -> FigureDecisionResult {
        try await decide(ids, isLeftOut: false, reason: nil, by: by)
    }

    /// Leaves readings out of figures because another gateway's file says so.
    ///
    /// A decision that was made here stands: what somebody has left out or taken back in here stays so, and a file that is
    /// imported again changes nothing. Ids that the store doesn't have are passed over.
    ///
    /// - Parameters:
    ///   - reasons: why, in a person's words, for each reading.
    ///   - by: who says so.
    /// - Returns: how many readings have changed.
    /// - Throws: `EntryError` for a reason; ``StoreError``.
    @discardableResult
    public func leaveOutUndecided(_ reasons: [ReadingID: String?], by: String) async throws -> Int {
        let wishes = try reasons.sorted { $0.key < $1.key }.map { id, reason throws(EntryError) in
            Wish(id: id, reason: try FigureDecision.checked(reason))
        }
        var changed = 0
        for part in wishes.pieces(of: Self.mostDecisions) {
            let outcomes = try await decide(part, isLeftOut: true, by: by, onlyUndecided: true)
            changed += outcomes.count { if case .revised = $0 { true } else { false } }
        }
        return changed
    }

    /// A reading that is to be decided on.
    private struct Wish {
        var id: ReadingID
        var reason: String?
    }

    private func decide(
        _ ids: [ReadingID], isLeftOut: Bool, reason: String?, by: String, replaces: Bool = true
    ) async throws -> FigureDecisionResult {
        var seen: Set<ReadingID> = []
        let wanted = ids.filter { seen.insert($0).inserted }
        guard wanted.count <= Self.mostDecisions else { throw FigureDecisionError.tooMany(wanted.count) }
        let outcomes = try await decide(
            wanted.map { Wish(id: $0, reason: reason) }, isLeftOut: isLeftOut, by: by, replaces: replaces,
            onlyUndecided: false)
        var result = FigureDecisionResult()
        for (id, outcome) in zip(wanted, outcomes) {
            if case .revised = outcome { result.changed += 1 }
            guard let reading = try await reading(id) else { throw FigureDecisionError.noSuchReading(id) }
            result.readings.append(reading)
        }
        return result
    }

    /// Stores decisions in one commit.
    ///
    /// - Parameters:
    ///   - replaces: whether another reason replaces the one that a reading is left out with.
    ///   - onlyUndecided: whether readings are passed over that the store doesn't have, and those on which somebody has
    ///     decided before.
    private func decide(
        _ wishes: [Wish], isLeftOut: Bool, by: String, replaces: Bool = true, onlyUndecided: Bool
    ) async throws -> [FrameOutcome] {
        try await requireKeys()
        let now = now()
        let outcomes = try await write(.entry) { [self] db in
            let memory = try JournalMemory(db, sealing, holds: holdRules(inWriting: db))
            let numbers = RowNumbers(db, memory, now: now)
            var journals: [Int64: Journal] = [:]
            var outcomes: [FrameOutcome] = []
            for wish in wishes {
                let id = wish.id
                guard let (user, key, reading) = try Self.owned(id, db, sealing) else {
                    if onlyUndecided { continue }
                    throw FigureDecisionError.noSuchReading(id)
                }
                if try onlyUndecided && Self.isDecided(key, db) { continue }
                let decision = try FigureDecision(
                    person: reading.person ?? "", reading: id, isLeftOut: isLeftOut, reason: wish.reason, by: by,
                    at: now)
                guard !reading.stands(as: decision) else {
                    outcomes.append(.repeated(id))
                    continue
                }
                if !replaces, let omission = reading.leftOut {
                    throw FigureDecisionError.leftOutMeanwhile(id, omission, reason: wish.reason)
                }
                var journal = try journals[user] ?? decisions(db, of: user, memory, numbers, at: now)
                let frame = decision.frame(receivedAt: now)
                try journal.add(
                    frame, decoder.decode(frame, model: ManualEntry.device.model), into: &outcomes)
                journals[user] = journal
            }
            return outcomes
        }
        publish(outcomes)
        return outcomes
    }

    /// Whether somebody has decided before that a reading is left out of figures or counts.
    private static func isDecided(_ key: Int64, _ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT * FROM reading_frame WHERE reading = ? AND role = \(role: .figures))",
            arguments: [key]) ?? false
    }

    /// A journal of one contact that holds a person's decisions.
    private func decisions(
        _ db: Database, of user: Int64, _ memory: JournalMemory, _ numbers: RowNumbers, at now: Instant
    ) throws -> Journal {
        let device = try Self.standIn(db, ManualEntry.device)
        let contact = try Self.nextKey(db, of: "contact")
        let zone = try Self.zone(db, of: user, at: now) ?? "UTC"
        try db.execute(
            sql: """
                INSERT INTO contact (key, device, user, started_at, zone, sequence_epoch, ended_at, is_complete, received)
                VALUES (?1, ?2, ?3, ?4, ?5, 0, ?4, 1, 1)
                """, arguments: [contact, device, user, now.microseconds, zone])
        return try Journal(
            db, contact: ContactState(db, sealing, contact: contact), epoch: 0, decoder: decoder, sealing: sealing,
            pruned: PrunedReadings(db, key: pruneKey.withLock(\.self)), memory: memory, numbers: numbers)
    }

    /// A reading with its row and that of the person whose it is.
    private static func owned(
        _ id: ReadingID, _ db: Database, _ sealing: Sealing
    ) throws -> (user: Int64, key: Int64, reading: Reading)? {
        let rows = RowReader(db, sealing)
        for candidate in try sealing.candidates(for: id) {
            let select = try PreparedStatement(db, "SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.id = ?")
            select.bind(1, candidate)
            defer { select.reset() }
            guard try select.next() else { continue }
            return (try rows.columns(select).user, ReadingRow.key(select), try rows.reading(select))
        }
        return nil
    }

    /// Readings whose newest decision on figures says another thing than is stored with them.
    static func figureFindings(
        _ db: Database, _ rows: RowReader, _ keys: ClosedRange<Int64>, decoder: any FrameDecoding
    ) throws -> [VerificationFinding] {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), \(FrameRow.columns) FROM reading AS r
            JOIN frame AS f ON f.key = (SELECT max(frame) FROM reading_frame WHERE reading = r.key AND role = \(role: .figures))
            WHERE r.key BETWEEN ? AND ?
            """)
        defer { select.reset() }
        select.bind(1, keys.lowerBound)
        select.bind(2, keys.upperBound)
        var findings: [VerificationFinding] = []
        while try select.next() {
            // One that cannot be read is told of where its record is looked at.
            guard let reading = try? rows.reading(select) else { continue }
            guard let frame = try? rows.frame(select, from: ReadingRow.count).frame else {
                findings.append(
                    VerificationFinding(problem: .unreadable, subject: "frame \(select.int(ReadingRow.count))"))
                continue
            }
            guard case .figures(let decision) = decoder.decode(frame, model: ManualEntry.device.model),
                decision.reading == reading.id, decision.omission == reading.leftOut
            else {
                findings.append(VerificationFinding(problem: .differs, subject: reading.id.description))
                continue
            }
        }
        return findings
    }
}

extension Reading {
    /// Whether a decision would change nothing of it: who says so again, and when, is no news.
    func stands(as decision: FigureDecision) -> Bool {
        decision.isLeftOut ? leftOut != nil && leftOut?.reason == decision.reason : leftOut == nil
    }
}
