import Foundation
import GRDB
import HealthReadings

/// The store's number of a retraction.
public struct RetractionKey: RawRepresentable, Sendable, Hashable {
    /// The number.
    public let rawValue: Int64

    /// Creates a key from its number.
    public init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A reading that a destination may have and is to take back: it was excluded, replaced or erased here.
public struct Retraction: Sendable, Hashable {
    /// What to acknowledge it with.
    public var key: RetractionKey
    /// The id the reading was delivered with.
    public var reading: ReadingID
    /// The client's id of the person.
    public var person: String
    /// The kind of the reading.
    public var kind: ReadingKind
    /// The provider it was delivered for.
    public var provider: String
    /// The timestamp it was delivered at.
    public var timestamp: Instant
    /// Whether the destination has said that it has the reading. If not, an answer may have been lost: whether it has it is
    /// not known.
    public var wasDelivered: Bool
    /// How often the destination was asked in vain.
    public var attempts: Int
}

extension ReadingStore {
    static let retractionSchema = """
        -- can_retract: whether the destination can take back what it has. left_behind: readings erased or replaced here
        -- that it could not take back.
        ALTER TABLE destination ADD COLUMN can_retract INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE destination ADD COLUMN left_behind INTEGER NOT NULL DEFAULT 0;
        -- When a reading was handed over whose receipt has not come (state 4).
        ALTER TABLE outbox ADD COLUMN handed_over_at INTEGER;
        CREATE INDEX outbox_withdrawn ON outbox (destination) WHERE state = 3;
        CREATE INDEX outbox_handed_over ON outbox (destination, handed_over_at) WHERE state = 4;
        -- What a destination is to take back, until it says that it has. reading: its row, while it has one. content: the
        -- id, person, kind, provider and timestamp that it was delivered with, and the destination's name, sealed.
        CREATE TABLE retraction (
            key INTEGER PRIMARY KEY, destination INTEGER NOT NULL REFERENCES destination,
            reading INTEGER REFERENCES reading ON DELETE SET NULL, attempts INTEGER NOT NULL DEFAULT 0,
            content BLOB NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX retraction_reading ON retraction (reading, destination) WHERE reading IS NOT NULL;
        CREATE INDEX retraction_destination ON retraction (destination, key);
        """

    /// What a destination is to take back, the oldest first; what it was asked for in vain comes last. A reading that
    /// counts again is not among them.
    ///
    /// - Parameters:
    ///   - destination: the destination that is to be asked.
    ///   - skipped: what is left out.
    ///   - limit: how many at most.
    /// - Throws: ``StoreError/corrupt(detail:)`` if nothing is left but rows that were changed: nothing is taken back on
    ///   their word.
    public func retractions(
        at destination: DestinationKey, except skipped: Set<RetractionKey> = [], limit: Int
    ) async throws -> [Retraction] {
        let (found, void) = try await read { [sealing] db in
            try sealing.requireKeys()
            var (found, void, damage): ([Retraction], [RetractionKey], (any Error)?) = ([], [], nil)
            let retracting = Retracting(db: db, sealing: sealing)
            // Apart, so that those of an erased person, which are many, are never sorted.
            for attempts in ["r.attempts = 0 ORDER BY r.key", "r.attempts > 0 ORDER BY r.attempts, r.key"] {
                let rows = try Row.fetchCursor(
                    db,
                    sql: """
                        SELECT r.key, r.content, r.attempts, d.name FROM retraction AS r
                        JOIN destination AS d ON d.key = r.destination WHERE r.destination = ? AND \(attempts)
                        """, arguments: [destination.rawValue])
                while found.count < limit, let row = try rows.next() {
                    let (key, content): (Int64, Data) = (try row.value(0), try row.value(1))
                    guard !skipped.contains(RetractionKey(rawValue: key)) else { continue }
                    do {
                        let retraction = try RetractionContent(sealing.open(Array(content), at: .retraction(key)))
                            .retraction(
                                RetractionKey(rawValue: key), at: try row.value(3), attempts: try row.value(2))
                        if try retracting.countsAgain(retraction, at: destination) {
                            void.append(retraction.key)
                        } else {
                            found.append(retraction)
                        }
                    } catch let error as StoreError where error.isCorrupt {
                        damage = error
                    }
                }
            }
            if found.isEmpty, void.isEmpty, let damage { throw damage }
            return (found, void)
        }
        guard !void.isEmpty else { return found }
        try await write(.retract) { db in
            for key in void { try db.execute(sql: "DELETE FROM retraction WHERE key = ?", arguments: [key.rawValue]) }
        }
        return found.isEmpty ? try await retractions(at: destination, except: skipped, limit: limit) : found
    }

    /// How many readings a destination is to take back. One that the settings no longer name is asked when they name it
    /// again; until then these count as left behind.
    public func retractionCount(at destination: DestinationKey) async throws -> Int {
        try await read { db in
            try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM retraction AS r JOIN destination AS d ON d.key = r.destination
                    WHERE r.destination = ? AND d.state <> \(destination: .removed)
                    """, arguments: [destination.rawValue])
                ?? 0
        }
    }

    /// The number of the newest retraction that a destination is asked for; `nil`: none.
    package func newestRetraction(at destination: DestinationKey) async throws -> Int64? {
        try await read { db in
            let select = try PreparedStatement(db, "SELECT max(key) FROM retraction WHERE destination = ?")
            select.bind(1, destination.rawValue)
            return try select.firstInt()
        }
    }

    /// How many readings a destination has that were excluded, replaced or erased here, and that it cannot take back.
    public func leftBehind(at destination: DestinationKey) async throws -> Int {
        let (commits, holds) = (commitCount, HoldLookup(self))
        return try await read { [self] db in
            func number(_ sql: String) throws -> Int {
                try Int.fetchOne(db, sql: sql, arguments: [destination.rawValue]) ?? 0
            }
            let gone = try number(
                """
                SELECT (SELECT left_behind FROM destination WHERE key = ?1) + (
                    SELECT count(*) FROM retraction AS r JOIN destination AS d ON d.key = r.destination
                    WHERE r.destination = ?1 AND d.state = \(destination: .removed))
                """)
            guard let there = try withdrawnThere(db, destination, holds, at: commits) else {
                return try gone
                    + number(
                        """
                        SELECT count(*) FROM outbox AS o
                        WHERE o.destination = ?1 AND o.state = \(outbox: .withdrawn) AND \(Self.isLeftBehind)
                        """)
            }
            guard there > 0 else { return gone }
            // What is asked back becomes less again.
            let asked = try number(
                """
                SELECT count(*) FROM retraction AS r CROSS JOIN outbox AS o
                    ON o.reading = r.reading AND o.destination = r.destination
                WHERE r.destination = ?1 AND o.state = \(outbox: .withdrawn) AND \(Self.isThere)
                """)
            return gone + there - asked
        }
    }

    /// How many readings that were withdrawn here a destination has, or may have; `nil` if that is not known without a walk along all
    /// that was ever withdrawn.
    private func withdrawnThere(
        _ db: Database, _ destination: DestinationKey, _ holds: HoldLookup, at commits: Int
    ) throws -> Int? {
        try knownTally(db, holds.rules(db), at: commits).map { $0.withdrawnThere[destination.rawValue] ?? 0 }
    }

    /// The newest readings that are still stored here, were excluded after a destination got them, and that it cannot take
    /// back. Those erased or replaced here are only counted (``leftBehind(at:)``).
    ///
    /// - Parameters:
    ///   - destination: the destination that has them.
    ///   - limit: how many at most, 1 … 10,000.
    /// - Throws: ``StoreError/limitOutOfRange(_:)``; ``lockedBecause`` if the key is missing.
    public func readingsLeftBehind(at destination: DestinationKey, limit: Int = 10) async throws -> [Reading] {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        let (commits, holds) = (commitCount, HoldLookup(self))
        return try await read { [self] db in
            try sealing.requireKeys()
            if try withdrawnThere(db, destination, holds, at: commits) == 0 { return [] }
            let select = try PreparedStatement(
                db,
                """
                SELECT \(ReadingRow.columns) FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                WHERE o.destination = ?1 AND o.state = \(outbox: .withdrawn) AND \(Self.isLeftBehind) ORDER BY o.timestamp DESC LIMIT ?2
                """)
            select.bind(1, destination.rawValue)
            select.bind(2, Int64(limit))
            defer { select.reset() }
            let rows = RowReader(db, sealing)
            var readings: [Reading] = []
            // Verification names a damaged row; here it is only counted.
            while try select.next() { if let reading = try? rows.reading(select) { readings.append(reading) } }
            return readings
        }
    }

    /// The condition on a withdrawn row of `outbox AS o` that its destination has the reading and was not asked for it.
    private static let isLeftBehind = """
        \(isThere) AND NOT EXISTS (
            SELECT 1 FROM retraction WHERE reading = o.reading AND destination = o.destination)
        """

    /// The condition on a row of `outbox AS o` that its destination has the reading, or may have it.
    private static let isThere = "(o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL)"

    /// Notes that a destination has taken these back, or never had them.
    public func acknowledgeRetractions(_ keys: [RetractionKey]) async throws {
        guard !keys.isEmpty else { return }
        try await write(.retract) { db in try Self.endRetractions(keys, db) }
        try await destroyKeyIfAsked()
    }

    /// Notes that a destination refuses to take these back: they stay there, and count as left behind.
    public func rejectRetractions(_ keys: [RetractionKey]) async throws {
        guard !keys.isEmpty else { return }
        try await write(.retract) { db in
            for key in keys {
                try db.execute(
                    sql: """
                        UPDATE destination SET left_behind = left_behind + 1
                        WHERE key = (SELECT destination FROM retraction WHERE key = ?)
                        """, arguments: [key.rawValue])
            }
            try Self.endRetractions(keys, db)
        }
        try await destroyKeyIfAsked()
    }

    /// Notes that a destination was asked in vain to take these back; it is asked again.
    public func noteRetractionAttempt(_ keys: [RetractionKey]) async throws {
        try await write(.retract) { db in
            for key in keys {
                try db.execute(
                    sql: "UPDATE retraction SET attempts = attempts + 1 WHERE key = ?", arguments: [key.rawValue])
            }
        }
    }

    private static func endRetractions(_ keys: [RetractionKey], _ db: Database) throws {
        for key in keys {
            // It is not there any more: nothing is left to take back if it is excluded once more.
            try db.execute(
                sql: """
                    UPDATE outbox SET delivered_at = NULL, handed_over_at = NULL WHERE state = \(outbox: .withdrawn)
                        AND reading = (SELECT reading FROM retraction WHERE key = ?1)
                        AND destination = (SELECT destination FROM retraction WHERE key = ?1)
                    """, arguments: [key.rawValue])
            try db.execute(sql: "DELETE FROM retraction WHERE key = ?", arguments: [key.rawValue])
        }
    }
}

/// Asks destinations to take back what they may have.
struct Retracting {
    let db: Database
    let sealing: Sealing

    /// The condition on `outbox AS o` that its destination may have the reading. One that only waits may have been sent by a
    /// process that ended before it could note so.
    static let mayBeThere = """
        (o.state IN (\(outbox: .waiting), \(outbox: .delivered), \(outbox: .handedOver)) OR o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL OR o.attempts > 0)
        """

    /// Asks every destination that can to take back a reading, before its rows of the outbox change or go. One that the
    /// settings no longer name is asked for what it has when they name it again.
    ///
    /// - Returns: the destinations that were asked.
    @discardableResult
    func retract(_ reading: Int64, id: ReadingID) throws -> [Int64] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT o.destination, d.name, u.client_user_id, o.resource, o.provider, o.timestamp, u.key, u.tag,
                    o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL
                FROM outbox AS o JOIN destination AS d ON d.key = o.destination JOIN user AS u ON u.key = o.user
                WHERE o.reading = ? AND d.can_retract = 1 AND \(Self.mayBeThere)
                    AND (d.state <> \(destination: .removed) OR o.state <> \(outbox: .waiting) OR o.delivered_at IS NOT NULL
                        OR o.handed_over_at IS NOT NULL)
                """, arguments: [reading])
        return try rows.compactMap { row in
            let destination: Int64 = try row.value(0)
            // Whose row was changed may be called as somebody else is, whose readings must stay: it is left behind.
            guard try PersonTag.person(row.value(6), clientUserID: row.value(2)).holds(row.octets(7), sealing) else {
                return nil
            }
            let content = RetractionContent(
                reading: id, destination: try row.value(1), person: try row.value(2),
                kind: try ReadingKind(code: try row.value(3)), provider: try row.value(4), timestamp: try row.value(5),
                wasDelivered: try row.value(8))
            let key = try ReadingStore.nextKey(db, of: "retraction")
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO retraction (key, destination, reading, content) VALUES (?, ?, ?, ?)
                    """,
                arguments: [
                    key, destination, reading, Data(try sealing.seal(content.octets, at: .retraction(key))),
                ])
            // No number is given twice: a receiver may know by it what it was told already.
            try ReadingStore.keepKeys(db, of: "retraction")
            return destination
        }
    }

    /// Asks every destination that can to take back a reading that is queued anew as another's or in another series, and
    /// takes it out of the queues.
    ///
    /// - Parameter staysOfPerson: whether it is queued for the same person: a destination where each device has a series
    ///   tells it from the former only by the person.
    /// - Returns: the destinations that were asked.
    @discardableResult
    func takeBack(_ reading: Int64, id: ReadingID, staysOfPerson: Bool = false) throws -> [Int64] {
        let asked = try retract(reading, id: id)
        // Apart from the reading's row: that it counts as another's, or changes again, ends none of these. A destination that
        // tells readings by their ids would else take back what it has just been given.
        let seriesByDevice = "OR has_unique_seconds & \(StoredDestination.Traits.seriesByDevice.rawValue) <> 0"
        try db.execute(
            sql: """
                UPDATE retraction SET reading = NULL, blocks = CASE WHEN destination IN (
                    SELECT key FROM destination WHERE has_unique_seconds & \(trait: .uniqueSeconds) = 0
                        \(staysOfPerson ? seriesByDevice : "")) THEN reading END
                WHERE reading = ?
                """, arguments: [reading])
        try OutboxRevision.leaveBehind(db, "reading = ?", reading)
        try db.execute(sql: "DELETE FROM outbox WHERE reading = ?", arguments: [reading])
        return asked
    }

    /// Whether the reading that is to be taken back is to be delivered, or was, at the same place: it was stored anew
    /// meanwhile, or the row is of an earlier state of the database.
    func countsAgain(_ retraction: Retraction, at destination: DestinationKey) throws -> Bool {
        try sealing.candidates(for: retraction.reading).contains { candidate in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM reading AS r JOIN outbox AS o ON o.reading = r.key JOIN user AS u ON u.key = o.user
                        WHERE r.id = ? AND o.destination = ? AND o.state <> \(outbox: .withdrawn)
                            AND o.resource = ? AND o.provider = ? AND o.timestamp = ? AND u.client_user_id = ?)
                    """,
                arguments: [
                    candidate.data, destination.rawValue, retraction.kind.code, retraction.provider,
                    retraction.timestamp.seconds, retraction.person,
                ]) ?? false
        }
    }

    /// Whether a destination that the settings name is still to take something back.
    static func isAnyAsked(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM retraction AS r JOIN destination AS d ON d.key = r.destination
                    WHERE d.state <> \(destination: .removed))
                """) ?? false
    }

    /// Leaves behind what destinations were to take back that the settings no longer name: the key of it goes.
    static func giveUp(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE destination SET left_behind = left_behind + (
                    SELECT count(*) FROM retraction WHERE destination = destination.key AND reading IS NULL)
                WHERE state = \(destination: .removed)
                """)
        try db.execute(
            sql: """
                DELETE FROM retraction
                WHERE destination IN (SELECT key FROM destination WHERE state = \(destination: .removed))
                """)
    }

    /// Asks nobody any more to take back a reading that is to be delivered again.
    static func cancel(_ db: Database, _ reading: Int64) throws {
        try db.execute(sql: "DELETE FROM retraction WHERE reading = ?", arguments: [reading])
    }

    /// Counts, for a reading whose rows of the outbox go, the destinations that have it, tell readings by their ids and
    /// cannot take it back.
    func countReplaced(_ reading: Int64) throws {
        try db.execute(
            sql: """
                UPDATE destination SET left_behind = left_behind + 1
                WHERE can_retract = 0 AND has_unique_seconds & \(trait: .uniqueSeconds) = 0 AND EXISTS (
                    SELECT 1 FROM outbox WHERE reading = ? AND destination = destination.key AND delivered_at IS NOT NULL)
                """, arguments: [reading])
    }

    /// Seals what is to be taken back under the newest key.
    static func reseal(_ db: Database, _ sealing: Sealing, _ change: inout KeyChange) throws {
        for row in try Row.fetchAll(db, sql: "SELECT key, content FROM retraction") {
            let (key, blob): (Int64, Data) = (try row.value(0), try row.value(1))
            let octets = try change.read("retraction \(key)") {
                try Sealing.generation(of: Array(blob)) == sealing.current
                    ? nil : sealing.open(Array(blob), at: .retraction(key))
            }
            guard let octets else { continue }
            try db.execute(
                sql: "UPDATE retraction SET content = ? WHERE key = ?",
                arguments: [Data(try sealing.seal(octets, at: .retraction(key))), key])
        }
    }

    /// Checks what is to be taken back.
    static func findings(_ db: Database, _ sealing: Sealing) throws -> [VerificationFinding] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT r.key, r.content, d.name FROM retraction AS r JOIN destination AS d ON d.key = r.destination
                """
        ).compactMap { row in
            let (key, blob): (Int64, Data) = (try row.value(0), try row.value(1))
            let name: String = try row.value(2)
            let read = try? RetractionContent(sealing.open(Array(blob), at: .retraction(key))).retraction(
                RetractionKey(rawValue: key), at: name, attempts: 0)
            return read == nil ? VerificationFinding(problem: .unreadable, subject: "retraction \(key)") : nil
        }
    }
}

/// What is sealed of a retraction: the reading's own row may be gone.
private struct RetractionContent {
    var reading: ReadingID
    var destination: String
    var person: String
    var kind: ReadingKind
    var provider: String
    var timestamp: Int64
    var wasDelivered: Bool

    var octets: [UInt8] {
        var writer = ContentWriter()
        writer.put(reading.description)
        writer.put(destination)
        writer.put(person)
        writer.put(UInt64(kind.code))
        writer.put(provider)
        writer.put(signed: timestamp)
        writer.put(UInt64(wasDelivered ? 1 : 0))
        return writer.octets
    }

    func retraction(_ key: RetractionKey, at destination: String, attempts: Int64) throws -> Retraction {
        guard destination == self.destination else {
            throw StoreError.corrupt(detail: "retraction \(key.rawValue) is for another destination")
        }
        return Retraction(
            key: key, reading: reading, person: person, kind: kind, provider: provider,
            timestamp: Instant(seconds: timestamp), wasDelivered: wasDelivered, attempts: Int(attempts))
    }
}

extension RetractionContent {
    init(_ octets: [UInt8]) throws {
        var reader = ContentReader(octets)
        guard let id = try reader.text().flatMap(ReadingID.init), let destination = try reader.text(),
            let person = try reader.text()
        else { throw StoreError.corrupt(detail: "a retraction names no reading") }
        (reading, self.destination, self.person) = (id, destination, person)
        kind = try ReadingKind(code: try reader.number(as: Int64.self))
        provider = try reader.text() ?? ""
        timestamp = try reader.signed()
        // Earlier versions did not write it.
        wasDelivered = reader.isAtEnd ? false : try reader.number() != 0
    }
}
