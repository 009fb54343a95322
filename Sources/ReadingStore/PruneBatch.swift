import Crypto
import Foundation
import GRDB
import HealthReadings

/// One transaction of pruning.
struct PruneBatch: Sendable {
    /// What is pruned.
    enum Part: Sendable, Hashable {
        case everything
        case kind(ReadingKind)
        /// What a sensor measured by itself, every few minutes.
        case trend
    }

    /// Where the walk is.
    struct Position: Sendable {
        var key: Int64
        var time: Int64
        /// As the row has it.
        var id: ReadingID
    }

    /// The last reading looked at; nil where there was none.
    var last: Position?
    var readings = 0
    var frames = 0

    private static let size = 500

    /// Begins the condition that a reading is queued for a destination that may still get it: one that was not removed,
    /// takes its kind and was selected for it.
    static func queued(_ db: Database) throws -> String {
        let unselected = try ReadingStore.destinations(db).compactMap { destination in
            let rule = try ReadingStore.rule(db, of: destination.name)
            return try SelectionHolds(db, rule.selection).condition.map {
                " AND NOT (o.destination = \(destination.key.rawValue) AND \($0))"
            }
        }
        return """
            EXISTS (SELECT 1 FROM outbox AS o JOIN destination AS d ON d.key = o.destination
                WHERE o.reading = r.key AND d.state <> \(destination: .removed) AND (d.kinds >> o.resource) & 1 = 1\(unselected.joined())
            """
    }

    /// The condition that every destination which may still get a reading has it, or that it gave way to another.
    static func isDelivered(_ db: Database) throws -> String {
        """
        (CASE WHEN EXISTS (SELECT 1 FROM outbox WHERE reading = r.key)
            THEN EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND state = \(outbox: .delivered))
                AND NOT \(try queued(db)) AND o.state <> \(outbox: .delivered))
            ELSE coalesce(r.time_exclusion = \(Exclusion.superseded.code), FALSE) END)
        """
    }

    /// The first second that is not older: times are whole seconds.
    static func seconds(before cutoff: Instant) -> Int64 {
        cutoff.seconds + (cutoff == cutoff.flooredToSecond ? 0 : 1)
    }

    private static let rememberSQL = """
        INSERT INTO pruned (identity, value, kind, device, user, sequence_epoch, sequence, base_time, time, source, minute)
        SELECT ?2, ?3, r.kind, r.device, r.user, r.sequence_epoch, r.sequence, r.base_time, r.time, s.source, s.minute
        FROM reading AS r LEFT JOIN sensor_record AS s ON s.reading = r.key WHERE r.key = ?1
        ON CONFLICT (identity) DO UPDATE SET value = excluded.value, kind = excluded.kind, device = excluded.device,
            user = excluded.user, sequence_epoch = excluded.sequence_epoch, sequence = excluded.sequence,
            base_time = excluded.base_time, time = excluded.time, source = excluded.source, minute = excluded.minute
        """

    private static let placesSQL = """
        \(PrunedPlaces.insertion("?2")) FROM outbox WHERE reading = ?1 AND state = \(outbox: .delivered)
        \(PrunedPlaces.grouping)
        """

    static func run(
        _ db: Database, _ part: Part, before cutoff: Instant, after: Position?, key: SymmetricKey, rows: RowReader,
        numbers: RowNumbers
    ) throws -> PruneBatch {
        try db.execute(sql: "PRAGMA secure_delete = ON")
        var batch = PruneBatch()
        var owners: Set<Int64> = []
        let (remember, rememberPlaces) = (
            try db.cachedStatement(sql: rememberSQL), try db.cachedStatement(sql: placesSQL)
        )
        for (place, record, id) in try candidates(db, part, before: cutoff, after: after, rows) {
            batch.last = place
            guard part.has(record) else { continue }
            let reading = place.key
            let identity = Data(PrunedReadings.identity(of: id, key))
            let select = try PreparedStatement(db, "SELECT user FROM reading WHERE key = ?")
            select.bind(1, reading)
            let owner = try select.firstInt()
            if let owner { owners.insert(owner) }
            // It was pruned before, and came back while the key was missing: maybe with another value, or as another person's.
            if let former = try PrunedReadings.owner(of: identity, db) {
                try PrunedPlaces.forget(identity, deliveredAgainAs: former == owner ? reading : nil, db)
            }
            try remember.execute(
                arguments: [reading, identity, Data(PrunedReadings.value(of: record, id, key))])
            try rememberPlaces.execute(arguments: [reading, identity])
            batch.frames += try RowRemoval(db: db).removeReading(reading)
            batch.readings += 1
        }
        // The numbers are by the rows that were there before: none is given a second time.
        for owner in owners.sorted() { try Changes(db: db).notePruning(of: owner, as: numbers.takeReading()) }
        return batch
    }

    private static func candidates(
        _ db: Database, _ part: Part, before cutoff: Instant, after: Position?, _ rows: RowReader
    ) throws -> [(Position, Record, ReadingID)] {
        // All kinds go in the order of the rows. One kind goes by its index: what stays is walked along again each day.
        let walk =
            part.kind.map {
                """
                reading AS r INDEXED BY reading_kind_time
                    WHERE r.kind = \($0.code) AND r.time < ?1 AND (r.time, r.id) > (?3, ?4)
                """
            } ?? "reading AS r WHERE r.key > ?2 AND +r.time < ?1"
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns) FROM \(walk) AND \(isDelivered(db))
            ORDER BY \(part.kind == nil ? "r.key" : "r.time, r.id") LIMIT \(size)
            """)
        select.bind(1, seconds(before: cutoff))
        if part.kind == nil {
            select.bind(2, after?.key ?? 0)
        } else {
            select.bind(3, after?.time ?? .min)
            select.bind(4, after?.id ?? ReadingID(high: 0, low: 0))
        }
        defer { select.reset() }
        var found: [(Position, Record, ReadingID)] = []
        while try select.next() {
            let (id, record) = try rows.record(select)
            found.append(
                (
                    Position(
                        key: ReadingRow.key(select), time: ReadingRow.time(select), id: try ReadingRow.storedID(select)),
                    record, id
                ))
        }
        return found
    }
}

extension PruneBatch.Part {
    /// The kind that its readings have; `nil`: any.
    fileprivate var kind: ReadingKind? {
        switch self {
        case .everything: nil
        case .kind(let kind): kind
        case .trend: .glucose
        }
    }

    fileprivate func has(_ record: Record) -> Bool { self != .trend || record.isTrend }
}
