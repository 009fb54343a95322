import GRDB
import HealthReadings
import Logging
import Synchronization

/// What was erased of a person.
public struct Erasure: Sendable, Hashable {
    /// Readings of every kind.
    public var readings = 0
    /// Frames as they came.
    public var frames = 0
    /// Contacts with devices.
    public var contacts = 0
    /// Sources that were known.
    public var sources = 0
    /// What destinations have of the person; one that has nothing is missing.
    public var destinations: [ErasureAtDestination] = []

    /// Nothing.
    public init() {}
}

/// What becomes of an erased person's readings at a destination.
public struct ErasureAtDestination: Sendable, Hashable {
    /// The destination's name.
    public var destination: String
    /// Readings that it is to take back: the next delivery asks for it.
    public var retracting: Int
    /// Readings that it cannot take back.
    public var leftBehind: Int
}

extension ReadingStore {
    /// How many erasures, and moves of readings to another person, were committed since the store was opened.
    ///
    /// It counts up before ``eraseUser(_:retracts:except:rewritesFiles:progress:)`` returns, and so before the erasure has come through
    /// ``committedReadings()``: whoever keeps a copy of readings knows by it that the copy is out of date.
    public var erasures: Int { erasureCount.withLock(\.self) }

    /// Says, in the database itself, that rows are gone and the files not yet written anew.
    private static let unfinished = "erase.unfinished"

    /// Erases everything of a person: readings, what waits of them, their contexts and frames, the contacts these came
    /// in, sources and zones. It cannot be undone.
    ///
    /// Devices that are nobody else's, and those of which the person has a slot, stay known, without user and barred:
    /// no bond lets them be read before they are paired anew. Sensors, which one person wears, do not stay. Where the
    /// person was the current user, one without a name is from then on, in the zone that was in force; a contact that
    /// goes on ends with an error.
    ///
    /// The rows go in one transaction, for which whatever else is to be stored waits: a person of millions of readings takes
    /// minutes. After it the file is written anew and the write-ahead log is emptied: a page
    /// keeps octets of what once stood in it, whatever has been deleted since. Where that is cut short, it is done when
    /// the store is opened next. What the medium keeps below the file system is beyond this program.
    ///
    /// - Parameters:
    ///   - user: the person.
    ///   - retracts: whether destinations are asked to take back what they have of the person. Until they have, the
    ///     store keeps what they need for that, sealed: the readings' ids, the person's client id, kinds and times.
    ///   - done: destinations that have erased the person themselves.
    ///   - rewritesFiles: whether the files are written anew; where not, the caller ends with ``finishErasure(progress:)``,
    ///     and if it never comes to that, the next opening does it.
    ///   - progress: told how many rows of the store were looked at, of how many.
    /// - Throws: ``StoreError/unknown(_:)`` for a user the store does not know; ``StoreError/inputOutput(detail:)`` and
    ///   ``StoreError/tooLittleSpace(path:needed:free:)`` where the rows are gone and the files could not be written anew:
    ///   the next opening does it; `CancellationError`, with which nothing has gone, unless the rows are gone already.
    @discardableResult
    public func eraseUser(
        _ user: UserKey, retracts: Bool = false, except done: Set<DestinationKey> = [],
        rewritesFiles: Bool = true, progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> Erasure {
        let now = now()
        // Closing waits for it: whoever it is may be gone at a server already.
        let stopSwitch = StopSwitch()
        let erasure = try await withTaskCancellationHandler {
            try await eraseRows(of: user, retracts: retracts, except: done, now, stopSwitch, progress)
        } onCancel: {
            stopSwitch.stop()
        }
        if rewritesFiles { try await rewriteFiles(progress: progress) }
        return erasure
    }

    private func eraseRows(
        of user: UserKey, retracts: Bool, except done: Set<DestinationKey>, _ now: Instant, _ stopSwitch: StopSwitch,
        _ progress: @escaping StoreProgress.Handler
    ) async throws -> Erasure {
        // Heeded outside of transactions only.
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            pool.asyncWriteWithoutTransaction { [directory] db in
                continuation.resume(
                    with: Result { try StoreFiles.sortBeside(db, in: directory) }.mapError(StoreError.mapping))
            }
        }
        return try await write(.erase) { [self] db in
            // One whose row was changed can be erased, too.
            guard let person = try Self.user(db, sealing, where: "key = ?", [user.rawValue], isChecked: false) else {
                throw StoreError.unknown("user \(user.rawValue)")
            }
            let current = try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = 'user.current'")
            let isCurrent = current == String(user.rawValue)
            return try stopSwitch.watching(db) {
                try db.execute(sql: "PRAGMA secure_delete = ON")
                try Self.keepKeys(db)
                // Taken before the rows go: no number is given a second time.
                let number = try RowNumbers(db, now: now).takeReading()
                // While the readings are there: they tell whose records a device's memory has.
                try Self.erasePairings(db, of: user.rawValue, isCurrent: isCurrent)
                var walk = ErasureWalk(
                    db: db, sealing: sealing, user: user.rawValue, retracts: retracts, done: Set(done.map(\.rawValue)),
                    stopSwitch)
                try walk.run(progress)
                var erasure = try walk.result()
                try Self.eraseRest(db, of: user.rawValue, into: &erasure)
                // Of a person whose readings were all pruned, the note of that may have had the highest number.
                if try erasure.readings > 0 || Changes(db: db).newest() < number - 1 {
                    try Changes(db: db).noteErasure(as: number)
                    try Changes(db: db).forgetSeconds()
                }
                if isCurrent { _ = try Self.adoptUser(db, sealing, "", timeZone: person.timeZone, now: now) }
                try Self.markUnfinished(db)
                return erasure
            }
        } committed: { [self] _ in
            // Each is made again from its row, or found to have none.
            contacts.withLock { $0 = [:] }
            erasureCount.withLock { $0 += 1 }
            sealing.forgetOpened()
            publishRemoval()
        }
    }

    /// Notes, with the rows that go, that the files are to be written anew.
    static func markUnfinished(_ db: Database) throws {
        try db.execute(sql: "INSERT OR REPLACE INTO setting (name, value) VALUES (?, '1')", arguments: [unfinished])
    }

    /// Writes the files anew where an erasure was cut short before it could.
    ///
    /// The rows are gone, whatever the files still hold; nothing else is written to the store meanwhile.
    ///
    /// - Parameter progress: called when that begins.
    /// - Throws: ``StoreError/tooLittleSpace(path:needed:free:)``, ``StoreError/inputOutput(detail:)``.
    public func finishErasure(progress: @escaping StoreProgress.Handler = { _ in }) async throws {
        let isUnfinished = try await read { db in
            try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM setting WHERE name = ?)", arguments: [Self.unfinished])
        }
        if isUnfinished == true { try await rewriteFiles(progress: progress) }
    }

    /// A number that no row of the table has, nor had before an erasure: somebody may still hold one of those.
    static func nextKey(_ db: Database, of table: StaticString) throws -> Int64 {
        let used = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT max(coalesce((SELECT max(key) FROM \(table)), 0),
                        coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'key.\(table)'), 0))
                    """))
        guard let used else { return 1 }
        guard used < .max else { throw StoreError.corrupt(detail: "the table \(table) has the number \(used)") }
        return used + 1
    }

    /// Remembers the highest numbers given, before the rows that bear them go.
    private static func keepKeys(_ db: Database) throws {
        for table in ["contact", "user"] as [StaticString] { try keepKeys(db, of: table) }
    }

    /// Remembers the highest number that a row of a table has had, or a number that it is to go on behind.
    static func keepKeys(_ db: Database, of table: StaticString, atLeast number: Int64 = 0) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO setting (name, value) VALUES ('key.\(table)', ?)",
            arguments: [String(max(number, try nextKey(db, of: table) - 1))])
    }

    /// For how many rows no index is made.
    private static let fewRows = 3

    /// Erases what is left once the readings and frames have gone.
    private static func eraseRest(_ db: Database, of user: Int64, into erasure: inout Erasure) throws {
        func count(_ rows: String) throws -> Int {
            try Int.fetchOne(db, sql: "SELECT count(*) FROM \(rows) WHERE user = ?", arguments: [user]) ?? 0
        }
        erasure.contacts = try count("contact")
        erasure.sources = try count("source")
        // What has no address is met in contacts alone: a sensor, which one person wears.
        let leftSensors = """
            device WHERE address IS NULL AND NOT EXISTS (SELECT 1 FROM contact WHERE device = device.key)
            """
        // SQLite looks for what refers to a row that goes: without an index it would look through the whole table each time.
        func indexing(_ columns: [(table: String, column: String)], _ body: () throws -> Void) throws {
            for (table, column) in columns {
                try db.execute(sql: "CREATE INDEX erasing_\(table)_\(column) ON \(table) (\(column))")
            }
            try body()
            for (table, column) in columns { try db.execute(sql: "DROP INDEX erasing_\(table)_\(column)") }
        }
        try indexing(erasure.contacts > Self.fewRows ? [("frame", "contact")] : []) {
            // What another person's frames came in becomes theirs.
            try db.execute(
                sql: """
                    UPDATE contact SET user = (
                        SELECT r.user FROM frame AS f JOIN reading_frame AS b ON b.frame = f.key
                        JOIN reading AS r ON r.key = b.reading WHERE f.contact = contact.key LIMIT 1)
                    WHERE user = ?1 AND EXISTS (SELECT 1 FROM frame WHERE contact = contact.key)
                    """, arguments: [user])
            try db.execute(sql: "DELETE FROM contact WHERE user = ?", arguments: [user])
        }
        try db.execute(
            sql: """
                DELETE FROM sensor_start WHERE NOT EXISTS (SELECT 1 FROM contact WHERE device = sensor_start.device);
                DELETE FROM clock_epoch WHERE device IN (SELECT key FROM \(leftSensors));
                """)
        let sensors = try Int.fetchOne(db, sql: "SELECT count(*) FROM \(leftSensors)") ?? 0
        try indexing(
            sensors > Self.fewRows ? [("frame", "device"), ("reading", "device"), ("pruned", "device")] : []
        ) {
            try db.execute(
                sql: """
                    DELETE FROM \(leftSensors)
                        AND NOT EXISTS (SELECT 1 FROM device_address WHERE device = device.key)
                        AND NOT EXISTS (SELECT 1 FROM pruned WHERE device = device.key)
                    """)
        }
        let statements = [
            "DELETE FROM change WHERE user = ?1", "DELETE FROM source WHERE user = ?1",
            "DELETE FROM destination_user WHERE user = ?1", "DELETE FROM user_zone WHERE user = ?1",
            "DELETE FROM user WHERE key = ?1",
        ]
        for destination in try Self.destinations(db) {
            try Self.set(db, Self.zoneSetting(user, destination.key), lines: [])
        }
        try Self.forgetTargets(of: user, db)
        try Self.set(
            db, SlotOwners.setting, lines: Self.lines(db, SlotOwners.setting).filter { !$0.hasSuffix(" \(user)") })
        try Self.endSubscribers(of: user, db)
        for statement in statements {
            try db.execute(sql: statement, arguments: [user])
        }
    }

    /// Makes a device nobody's and bars it: whatever bond the system keeps, it is not read before it is paired anew.
    ///
    /// Such a device was assigned to the person, the settings give them a slot of it or all, or it was assigned to
    /// nobody while they were the current person. One that another person used last is that person's. One that the settings
    /// give to another person whole is theirs, unless the erased person has readings of it, and so has its memory.
    private static func erasePairings(_ db: Database, of user: Int64, isCurrent: Bool) throws {
        let (shared, others) = try SlotOwners.devices(db, of: user)
        func list(_ keys: [Int64]) -> String { keys.map { String($0) }.joined(separator: ",") }
        try db.execute(
            sql: """
                UPDATE device SET is_paired = 0, is_proven = 0, is_barred = 1, user = NULL
                WHERE user = ?1 OR key IN (\(list(shared))) OR (user IS NULL AND ?2 AND CASE
                    WHEN key IN (\(list(others))) THEN
                        EXISTS (SELECT 1 FROM reading AS r
                            WHERE r.device = device.key AND r.user = ?1 AND \(OwnReadings(db).condition))
                        OR EXISTS (SELECT 1 FROM pruned AS p WHERE p.device = device.key AND p.user = ?1)
                    ELSE coalesce(
                        (SELECT c.user FROM contact AS c WHERE c.device = device.key ORDER BY c.key DESC LIMIT 1), ?1) = ?1
                    END)
                """, arguments: [user, isCurrent])
    }

    /// Writes the database file anew and empties the write-ahead log.
    ///
    /// A task that is cancelled stops waiting. The rewriting goes on, since what was erased must go from the files, until
    /// the store is closed; the next opening begins it again.
    func rewriteFiles(progress: @escaping StoreProgress.Handler = { _ in }) async throws {
        try await requireSpaceToRewrite()
        // A copy, the log, and the file.
        let total = 3 * (try await usedBytes())
        let course = WritingCourse(.rewriting, progress)
        let rewritten = AwaitedResult<Void>()
        do {
            try await rewritten.wait {
                pool.asyncWriteWithoutTransaction { [self] db in
                    let result = Result<Void, any Error> {
                        try course.run(total: total) {
                            try StopSwitch(within: closing, look: course.look).watching(db) {
                                try StoreFiles.vacuum(db, in: directory)
                            }
                            try Self.emptyLog(db)
                        }
                        try db.execute(sql: "DELETE FROM setting WHERE name = ?", arguments: [Self.unfinished])
                    }
                    guard !rewritten.give(result), case .failure(let error) = result else { return }
                    logger.notice("the files are not written anew yet", metadata: ["error": "\(error)"])
                }
            }
        } catch {
            let mapped = StoreError.mapping(error)
            guard case StoreError.internalFault(let detail) = mapped else { throw mapped }
            throw StoreError.inputOutput(detail: "erased, but the files could not be rewritten: \(detail)")
        }
    }

    /// Folds the write-ahead log into the file and makes it empty.
    private static func emptyLog(_ db: Database) throws {
        for attempt in 1... {
            do {
                _ = try db.checkpoint(.truncate)
                return
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY && attempt < 3 {
                // A reader of a moment ago still holds the log.
                continue
            }
        }
    }
}
