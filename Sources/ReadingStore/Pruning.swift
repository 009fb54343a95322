import Crypto
import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

/// What pruning has removed, and what it has left.
public struct Pruning: Sendable, Hashable {
    /// Readings measured before this instant were looked at.
    public var olderThan: Instant
    /// Readings removed.
    public var readings = 0
    /// Frames removed with them.
    public var frames = 0
    /// Older readings that stay because they wait for the server.
    public var waiting = 0
    /// Older readings that stay because the server refused them.
    public var refused = 0
    /// Older readings that stay because they are never delivered.
    public var excluded = 0
}

extension ReadingStore {
    /// Removes the content of readings that the server has and that were measured longer than `age` ago.
    ///
    /// Only what was delivered goes, and trend values of a sensor that gave way to its history: what waits, what was
    /// refused and what is never delivered stays. Frames, contexts and values go; that the reading was there stays
    /// known, without its value, so that a device that is read from its beginning brings none of it back and its
    /// sequence numbers go on. A scan's frame goes with the last of its readings.
    ///
    /// Readings go in transactions of some hundred. After the last the files are written anew, as ``eraseUser(_:retracts:except:)`` does
    /// it; where that is cut short, it is done when the store is opened next.
    ///
    /// - Parameters:
    ///   - age: counted from now.
    ///   - progress: called after each transaction with how many readings are gone.
    /// - Throws: ``lockedBecause`` if the key is missing; ``StoreError/pruneKeyMissing(path:)``,
    ///   ``StoreError/inputOutput(detail:)``, ``StoreError/diskFull``.
    @discardableResult
    public func prune(
        olderThan age: Duration, progress: @escaping @Sendable (Int) -> Void = { _ in }
    ) async throws -> Pruning {
        let cutoff = now().advanced(by: .zero - age)
        try await requireKeys()
        let key = try await requirePruneKey()
        var (pruning, last): (Pruning, Int64) = (Pruning(olderThan: cutoff), 0)
        while true {
            let after = last
            let now = now()
            let batch = try await write(.prune) { [sealing] db in
                try PruneBatch.run(
                    db, before: cutoff, after: after, key: key, rows: RowReader(db, sealing),
                    numbers: RowNumbers(db, now: now))
            } committed: { [self] _ in
                // A contact that goes on must not join a context to what is gone.
                contacts.withLock { $0 = [:] }
            }
            guard let newest = batch.last else { break }
            last = newest
            pruning.readings += batch.readings
            pruning.frames += batch.frames
            progress(pruning.readings)
            // Readers and other writers have their turn between two transactions.
            try Task.checkCancellation()
        }
        if pruning.readings > 0 {
            try await write(.prune) { db in try Changes(db: db).forgetSeconds() }
            publishRemoval()
            try await rewriteFiles()
        }
        return try await kept(pruning)
    }

    private func kept(_ pruning: Pruning) async throws -> Pruning {
        try await read { db in
            func count(_ condition: String) throws -> Int {
                try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM reading AS r
                        WHERE coalesce(r.time, r.received_at / 1000000) < ? AND \(condition)
                        """, arguments: [PruneBatch.seconds(before: pruning.olderThan)]) ?? 0
            }
            var pruning = pruning
            let queued = try PruneBatch.queued(db)
            pruning.waiting = try count("\(queued) AND o.state = \(outbox: .waiting))")
            pruning.refused = try count("\(queued) AND o.state = \(outbox: .refused))")
            pruning.excluded = try count("NOT \(queued) AND o.state <> \(outbox: .withdrawn))")
            return pruning
        }
    }

    // MARK: The key

    private static let check = "prune.check"

    /// The setting with the key where content is sealed, and the key with it; else it is in a file of its own.
    static let pruneKeySetting = "prune.key"

    /// Takes the key that pruned readings are recognised by into use; without it they are not, and that is said.
    func loadPruneKey() async throws {
        let sealed = try await read { [sealing] db in
            try Self.lines(db, Self.pruneKeySetting).first.flatMap { Data(base64Encoded: $0) }
                .map { SymmetricKey(data: try sealing.open(Array($0), at: .pruneKey)) }
        }
        let key = sealed ?? PruneKey.read(in: directory)
        let (isNeeded, check) = try await read { db in
            (
                try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") ?? false,
                try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = ?", arguments: [Self.check])
            )
        }
        if let key, check == nil || PruneKey.check(key) == check {
            pruneKey.withLock { $0 = key }
            guard sealing.current > 0 else { return }
            if sealed == nil { try await write(.setting) { [self] db in try keep(key, db) } }
            // A power cut may have brought the file back.
            try dropPruneKeyFile()
        } else if isNeeded {
            logger.warning(
                "pruned readings are not recognised and may come back: \(PruneKey.fileName) belongs to another store")
        }
    }

    /// Destroys the key where nothing is left that it recognises.
    public func destroyPruneKey() async throws {
        let path = PruneKey.path(in: directory)
        let isUnused = try await write(.setting) { db in
            guard try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") == false else { return false }
            try Self.set(db, Self.check, lines: [])
            try Self.set(db, Self.pruneKeySetting, lines: [])
            return true
        }
        guard isUnused else { return }
        pruneKey.withLock { $0 = nil }
        guard unlink(path) == 0 || errno == ENOENT else { throw StoreFiles.failure(path) }
        try StoreFiles.synchronise(directory: directory)
    }

    /// The key, made where nothing was pruned yet.
    private func requirePruneKey() async throws -> SymmetricKey {
        if let key = pruneKey.withLock(\.self) { return try await remember(key) }
        let isNeeded = try await read { db in try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") }
        guard isNeeded == false else { throw StoreError.pruneKeyMissing(path: PruneKey.path(in: directory)) }
        return try await remember(sealing.current > 0 ? SymmetricKey(size: .bits256) : PruneKey.make(in: directory))
    }

    /// Keeps the key where it belongs: sealed in the database, or, where content is in the clear, in its file.
    func keep(_ key: SymmetricKey, _ db: Database) throws {
        guard sealing.current > 0 else {
            try PruneKey.write(key, in: directory)
            return try Self.set(db, Self.pruneKeySetting, lines: [])
        }
        let blob = try sealing.seal(key.withUnsafeBytes(Array.init), at: .pruneKey)
        try Self.set(db, Self.pruneKeySetting, lines: [Data(blob).base64EncodedString()])
    }

    /// Removes the key's file where the database has the key.
    func dropPruneKeyFile() throws {
        guard sealing.current > 0 else { return }
        let path = PruneKey.path(in: directory)
        guard unlink(path) == 0 else {
            if errno == ENOENT { return }
            throw StoreFiles.failure(path)
        }
        try StoreFiles.synchronise(directory: directory)
    }

    private func remember(_ key: SymmetricKey) async throws -> SymmetricKey {
        let check = PruneKey.check(key)
        try await write(.setting) { [self] db in
            try Self.set(db, Self.check, lines: [check])
            if sealing.current > 0 { try keep(key, db) }
        }
        pruneKey.withLock { $0 = key }
        return key
    }
}

/// One transaction of pruning.
private struct PruneBatch {
    /// The last reading looked at; nil where there was none.
    var last: Int64?
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

    /// The first second that is not older: times are whole seconds.
    static func seconds(before cutoff: Instant) -> Int64 {
        cutoff.seconds + (cutoff == cutoff.flooredToSecond ? 0 : 1)
    }

    static func run(
        _ db: Database, before cutoff: Instant, after: Int64, key: SymmetricKey, rows: RowReader, numbers: RowNumbers
    ) throws -> PruneBatch {
        try db.execute(sql: "PRAGMA secure_delete = ON")
        var batch = PruneBatch()
        var owners: Set<Int64> = []
        for (reading, record, id) in try candidates(db, before: cutoff, after: after, rows) {
            let identity = Data(PrunedReadings.identity(of: id, key))
            try db.execute(
                sql: """
                    INSERT INTO pruned (identity, value, kind, device, user, sequence_epoch, sequence, base_time, time,
                        source, minute)
                    SELECT ?2, ?3, r.kind, r.device, r.user, r.sequence_epoch, r.sequence, r.base_time, r.time,
                        s.source, s.minute
                    FROM reading AS r LEFT JOIN sensor_record AS s ON s.reading = r.key WHERE r.key = ?1
                    """,
                arguments: [reading, identity, Data(PrunedReadings.value(of: record, id, key))])
            try db.execute(
                sql: """
                    INSERT INTO pruned_place (identity, destination, provider, type, timestamp, delivered_at)
                    SELECT ?2, destination, provider, type, timestamp, delivered_at FROM outbox
                    WHERE reading = ?1 AND state = \(outbox: .delivered)
                    """, arguments: [reading, identity])
            if let owner = try Int64.fetchOne(db, sql: "SELECT user FROM reading WHERE key = ?", arguments: [reading]) {
                owners.insert(owner)
            }
            batch.frames += try remove(db, reading)
            batch.readings += 1
            batch.last = reading
        }
        // The numbers are by the rows that were there before: none is given a second time.
        for owner in owners.sorted() { try Changes(db: db).notePruning(of: owner, as: numbers.takeReading()) }
        if batch.readings > 0 { try ReadingStore.markUnfinished(db) }
        return batch
    }

    private static func candidates(
        _ db: Database, before cutoff: Instant, after: Int64, _ rows: RowReader
    ) throws -> [(Int64, Record, ReadingID)] {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns) FROM reading AS r
            WHERE r.key > ?2 AND +r.time < ?1
                AND (CASE WHEN EXISTS (SELECT 1 FROM outbox WHERE reading = r.key)
                    THEN EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND state = \(outbox: .delivered))
                        AND NOT \(queued(db)) AND o.state <> \(outbox: .delivered))
                    ELSE r.time_exclusion = \(Exclusion.superseded.code) END)
            ORDER BY r.key LIMIT \(size)
            """)
        select.bind(1, seconds(before: cutoff))
        select.bind(2, after)
        defer { select.reset() }
        var found: [(Int64, Record, ReadingID)] = []
        while try select.next() {
            let (id, record) = try rows.record(select)
            found.append((ReadingRow.key(select), record, id))
        }
        return found
    }

    /// Removes a reading with all that is its own; returns how many frames that were.
    private static func remove(_ db: Database, _ reading: Int64) throws -> Int {
        let frames = try Int64.fetchAll(
            db, sql: "SELECT frame FROM reading_frame WHERE reading = ?", arguments: [reading])
        for table in ["outbox", "sensor_record", "reading_frame"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE reading = ?", arguments: [reading])
        }
        try db.execute(sql: "DELETE FROM reading WHERE key = ?", arguments: [reading])
        var count = 0
        for frame in frames {
            try db.execute(
                sql: """
                    DELETE FROM frame WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM reading_frame WHERE frame = ?1)
                    """, arguments: [frame])
            count += db.changesCount
        }
        return count
    }
}
