import Foundation
import GRDB
import HealthReadings

/// An erasure that has begun, as the database keeps it until the person is gone.
struct PendingErasure: Sendable {
    var user: Int64
    /// Whether destinations are asked to take back what they have.
    var retracts: Bool
    /// Destinations that have erased the person themselves.
    var done: Set<Int64>

    private static let prefix = "erase.person."
    private static let (retracting, doneBy) = ("retracts", "done ")

    init(user: Int64, retracts: Bool, done: Set<Int64>) {
        (self.user, self.retracts, self.done) = (user, retracts, done)
    }

    private init(_ db: Database, of user: Int64) throws {
        let lines = try ReadingStore.lines(db, Self.name(user))
        self.init(
            user: user, retracts: lines.contains(Self.retracting),
            done: Set(lines.compactMap { $0.hasPrefix(Self.doneBy) ? Int64($0.dropFirst(Self.doneBy.count)) : nil }))
    }

    private static func name(_ user: Int64) -> String { "\(prefix)\(user)" }

    /// Those that were cut short.
    static func all(_ db: Database) throws -> [PendingErasure] {
        // The character behind the prefix's last one.
        try String.fetchAll(
            db, sql: "SELECT name FROM setting WHERE name >= ? AND name < ?", arguments: [prefix, "erase.person/"]
        ).compactMap { Int64($0.dropFirst(prefix.count)) }.map { try PendingErasure(db, of: $0) }
    }

    /// Refuses what would be stored for a person of whom everything goes.
    static func refuse(_ db: Database, user: Int64) throws {
        guard try ReadingStore.lines(db, name(user)).isEmpty else {
            throw StoreError.unknown("user \(user), who is being erased")
        }
    }

    func note(_ db: Database) throws {
        let lines = ["begun"] + (retracts ? [Self.retracting] : []) + done.sorted().map { "\(Self.doneBy)\($0)" }
        try ReadingStore.set(db, Self.name(user), lines: lines)
    }

    func forget(_ db: Database) throws { try ReadingStore.set(db, Self.name(user), lines: []) }
}

/// One transaction of an erasure: some hundred rows of one table, those of the person among them.
struct ErasureBatch: Sendable {
    /// The tables that are walked along, one after the other: each without its rows that refer to the next.
    enum Part: CaseIterable, Sendable {
        case readings, pruned, frames, contacts
    }

    /// What destinations have of readings that go.
    struct AtDestinations: Sendable {
        /// How many readings each is asked to take back.
        var asked: [Int64: Int] = [:]
        /// How many it cannot.
        var leftBehind: [Int64: Int] = [:]
    }

    /// How many rows a transaction looks at: a meter's readings wait for it.
    private static let size = 1000

    /// Where the walk is; `nil` at its end.
    var last: DatabaseValue?
    var readings = 0
    var frames = 0
    var contacts = 0
    var there = AtDestinations()

    /// Where a walk begins.
    static func start(of part: Part) -> DatabaseValue {
        part == .pruned ? Data().databaseValue : Int64.min.databaseValue
    }

    static func run(
        _ db: Database, _ part: Part, of erasure: PendingErasure, after: DatabaseValue, _ sealing: Sealing, now: Instant
    ) throws -> ErasureBatch {
        var batch = ErasureBatch()
        let (table, key) =
            switch part {
            case .readings: ("reading", "key")
            case .pruned: ("pruned", "identity")
            case .frames: ("frame", "key")
            case .contacts: ("contact", "key")
            }
        let end = try DatabaseValue.fetchOne(
            db,
            sql: """
                SELECT max(\(key)) FROM (SELECT \(key) FROM \(table) WHERE \(key) > ? ORDER BY \(key) LIMIT \(size))
                """, arguments: [after])
        guard let end, !end.isNull else { return batch }
        batch.last = end
        try db.execute(sql: "PRAGMA secure_delete = ON")
        let span = Span(db: db, after: after, end: end, user: erasure.user)
        switch part {
        case .readings: try batch.eraseReadings(span, erasure, sealing, now)
        case .pruned: try batch.erasePruned(span, erasure)
        case .frames: try batch.eraseFrames(span)
        case .contacts:
            try db.execute(
                sql: "DELETE FROM contact WHERE key > ? AND key <= ? AND user = ?", arguments: span.arguments)
            batch.contacts = db.changesCount
        }
        return batch
    }

    /// Rows of the person, of those that are looked at.
    private struct Span {
        let db: Database
        let after: DatabaseValue
        let end: DatabaseValue
        let user: Int64

        var arguments: StatementArguments { [after, end, user] }
    }

    private mutating func eraseReadings(
        _ span: Span, _ erasure: PendingErasure, _ sealing: Sealing, _ now: Instant
    ) throws {
        let db = span.db
        let keys = try Int64.fetchAll(
            db, sql: "SELECT key FROM reading WHERE key > ? AND key <= ? AND user = ?", arguments: span.arguments)
        guard !keys.isEmpty else { return }
        // Taken before the rows go: no number is given a second time.
        try Changes(db: db).noteErasure(as: RowNumbers(db, now: now).takeReading())
        if erasure.retracts {
            if sealing.refusal == nil { try retract(span, sealing) }
            try leaveBehind(
                db, erasure,
                """
                SELECT count(*) FROM outbox AS o WHERE destination = ?1 AND user = ?2
                    AND (delivered_at <= ?3 OR handed_over_at <= ?3) AND reading > ?4 AND reading <= ?5
                    AND NOT EXISTS (
                        SELECT 1 FROM retraction WHERE reading = o.reading AND destination = o.destination)
                """, span)
        }
        for key in keys {
            try OutboxRevision.leaveBehind(db, "reading = ?", key)
            frames += try PruneBatch.remove(db, key)
        }
        readings = keys.count
    }

    /// Asks for what destinations have of the readings.
    private mutating func retract(_ span: Span, _ sealing: Sealing) throws {
        let db = span.db
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key > ? AND r.key <= ? AND r.user = ?
                AND EXISTS (SELECT 1 FROM outbox AS o WHERE o.reading = r.key)
            """)
        select.bind(1, Int64.fromDatabaseValue(span.after) ?? .min)
        select.bind(2, Int64.fromDatabaseValue(span.end) ?? .max)
        select.bind(3, span.user)
        let rows = RowReader(db, sealing)
        var found: [(Int64, ReadingID)] = []
        // Nobody can say what a damaged row was delivered as: it counts as left behind.
        while try select.next() {
            if let id = try? rows.content(select).0 { found.append((ReadingRow.key(select), id)) }
        }
        select.reset()
        let retracting = Retracting(db: db, sealing: sealing)
        for (key, id) in found {
            for place in try retracting.retract(key, id: id) { there.asked[place, default: 0] += 1 }
        }
    }

    private mutating func erasePruned(_ span: Span, _ erasure: PendingErasure) throws {
        let db = span.db
        if erasure.retracts {
            try leaveBehind(
                db, erasure,
                """
                SELECT count(*) FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                WHERE p.destination = ?1 AND r.user = ?2 AND p.delivered_at <= ?3 AND r.identity > ?4 AND r.identity <= ?5
                """, span)
        }
        try db.execute(
            sql: "DELETE FROM pruned WHERE identity > ? AND identity <= ? AND user = ?", arguments: span.arguments)
    }

    /// Counts what destinations keep.
    private mutating func leaveBehind(
        _ db: Database, _ erasure: PendingErasure, _ count: String, _ span: Span
    ) throws {
        for destination in try ReadingStore.destinations(db) {
            let place = destination.key.rawValue
            // Whoever has removed the person at the present address has not done so at the former one.
            let isDone = erasure.done.contains(place)
            let end = isDone ? try ReadingStore.movedAt(db, destination.key) ?? .min : .max
            let kept =
                try Int.fetchOne(db, sql: count, arguments: [place, span.user, end, span.after, span.end]) ?? 0
            guard kept > 0 else { continue }
            there.leftBehind[place, default: 0] += kept
            try db.execute(
                sql: "UPDATE destination SET left_behind = left_behind + ? WHERE key = ?", arguments: [kept, place])
        }
    }

    /// A frame without a reading belongs to whose contact it came in. What came in it for another person makes the contact
    /// theirs.
    private mutating func eraseFrames(_ span: Span) throws {
        let db = span.db
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT f.key, f.contact, (SELECT r.user FROM reading_frame AS b JOIN reading AS r ON r.key = b.reading
                    WHERE b.frame = f.key LIMIT 1)
                FROM frame AS f CROSS JOIN contact AS c ON c.key = f.contact
                WHERE f.key > ? AND f.key <= ? AND c.user = ?
                """, arguments: span.arguments)
        for row in rows {
            let (frame, contact): (Int64, Int64) = (try row.value(0), try row.value(1))
            if let other: Int64 = try row.value(2) {
                try db.execute(
                    sql: "UPDATE contact SET user = ? WHERE key = ? AND user = ?",
                    arguments: [other, contact, span.user])
            } else {
                try db.execute(sql: "DELETE FROM waiting_context WHERE frame = ?", arguments: [frame])
                try db.execute(sql: "DELETE FROM frame WHERE key = ?", arguments: [frame])
                frames += 1
            }
        }
    }
}
