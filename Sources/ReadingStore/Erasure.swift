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
    /// It counts up before ``eraseUser(_:retracts:except:rewritesFiles:)`` returns, and so before the erasure has come through
    /// ``committedReadings()``: whoever keeps a copy of readings knows by it that the copy is out of date.
    public var erasures: Int { erasureCount.withLock(\.self) }

    /// Says, in the database itself, that rows are gone and the files not yet written anew.
    private static let unfinished = "erase.unfinished"

    /// Erases everything of a person: readings, what waits of them, their contexts and frames, the contacts these came
    /// in, sources and zones. It cannot be undone.
    ///
    /// Devices that are nobody else's stay known, without user and barred: no bond lets them be read before they are
    /// paired anew. Sensors, which one person wears, do not stay. Where the person was the current user, one without a name is from then on, in the zone that was in force; a contact that goes on ends with
    /// an error.
    ///
    /// The rows go in one transaction. After it the file is written anew and the write-ahead log is emptied: a page
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
    /// - Throws: ``StoreError/unknown(_:)`` for a user the store does not know; ``StoreError/inputOutput(detail:)`` and
    ///   ``StoreError/tooLittleSpace(path:needed:free:)`` where the rows are gone and the files could not be written anew:
    ///   the next opening does it.
    @discardableResult
    public func eraseUser(
        _ user: UserKey, retracts: Bool = false, except done: Set<DestinationKey> = [],
        rewritesFiles: Bool = true
    ) async throws -> Erasure {
        let now = now()
        let erasure = try await write(.erase) { [sealing] db in
            // One whose row was changed can be erased, too.
            guard let person = try Self.user(db, sealing, where: "key = ?", [user.rawValue], isChecked: false) else {
                throw StoreError.unknown("user \(user.rawValue)")
            }
            let current = try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = 'user.current'")
            try db.execute(sql: "PRAGMA secure_delete = ON")
            let isCurrent = current == String(user.rawValue)
            try Self.keepKeys(db)
            let destinations =
                retracts ? try Retracting(db: db, sealing: sealing).retractAll(of: user.rawValue, except: done) : []
            // Taken before the rows go: no number is given a second time.
            let number = try RowNumbers(db, now: now).takeReading()
            var erasure = try Self.eraseRows(db, of: user.rawValue, isCurrent: isCurrent)
            if erasure.readings > 0 {
                try Changes(db: db).noteErasure(as: number)
                try Changes(db: db).forgetSeconds()
            }
            erasure.destinations = destinations
            if isCurrent { _ = try Self.adoptUser(db, sealing, "", timeZone: person.timeZone, now: now) }
            try Self.markUnfinished(db)
            return erasure
        } committed: { [self] _ in
            // Each is made again from its row, or found to have none.
            contacts.withLock { $0 = [:] }
            erasureCount.withLock { $0 += 1 }
            sealing.forgetOpened()
            publishRemoval()
        }
        if rewritesFiles { try await rewriteFiles() }
        return erasure
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
            db,
            sql: """
                SELECT max(coalesce((SELECT max(key) FROM \(table)), 0),
                    coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'key.\(table)'), 0))
                """)
        guard let used else { return 1 }
        guard used < .max else { throw StoreError.corrupt(detail: "the table \(table) has the number \(used)") }
        return used + 1
    }

    /// Remembers the highest numbers given, before the rows that bear them go.
    private static func keepKeys(_ db: Database) throws {
        for table in ["contact", "user"] as [StaticString] { try keepKeys(db, of: table) }
    }

    /// Remembers the highest number that a row of a table has had.
    static func keepKeys(_ db: Database, of table: StaticString) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO setting (name, value) VALUES ('key.\(table)', ?)",
            arguments: [String(try nextKey(db, of: table) - 1)])
    }

    private static func eraseRows(_ db: Database, of user: Int64, isCurrent: Bool) throws -> Erasure {
        // A frame belongs to whom its reading belongs to; one without a reading, to whose contact it came in. The two
        // differ where a meter that was read for one person is read again for another.
        try db.execute(sql: "CREATE TEMP TABLE erased_frame (key INTEGER PRIMARY KEY)")
        try db.execute(
            sql: """
                INSERT INTO erased_frame
                SELECT f.key FROM frame AS f JOIN contact AS c ON c.key = f.contact
                WHERE coalesce((SELECT max(r.user <> ?1) FROM reading_frame AS b JOIN reading AS r ON r.key = b.reading
                    WHERE b.frame = f.key), c.user <> ?1) = 0
                """, arguments: [user])
        func count(_ rows: String) throws -> Int {
            try Int.fetchOne(db, sql: "SELECT count(*) FROM \(rows)", arguments: rows.contains("?") ? [user] : []) ?? 0
        }
        var erasure = Erasure()
        erasure.readings = try count("reading WHERE user = ?")
        erasure.frames = try count("erased_frame")
        erasure.contacts = try count("contact WHERE user = ?")
        erasure.sources = try count("source WHERE user = ?")
        try erasePairings(db, of: user, isCurrent: isCurrent)
        try OutboxRevision.leaveBehind(db, "reading IN (SELECT key FROM reading WHERE user = ?)", user)
        let statements = [
            "DELETE FROM waiting_context WHERE frame IN (SELECT key FROM erased_frame)",
            "DELETE FROM outbox WHERE reading IN (SELECT key FROM reading WHERE user = ?1)",
            "DELETE FROM reading_frame WHERE reading IN (SELECT key FROM reading WHERE user = ?1)",
            "DELETE FROM sensor_record WHERE reading IN (SELECT key FROM reading WHERE user = ?1)",
            "DELETE FROM reading WHERE user = ?1",
            "DELETE FROM pruned_place WHERE identity IN (SELECT identity FROM pruned WHERE user = ?1)",
            "DELETE FROM pruned WHERE user = ?1",
            "DELETE FROM frame WHERE key IN (SELECT key FROM erased_frame)",
            // What another person's frames came in becomes theirs.
            """
            UPDATE contact SET user = (
                SELECT r.user FROM frame AS f JOIN reading_frame AS b ON b.frame = f.key
                JOIN reading AS r ON r.key = b.reading WHERE f.contact = contact.key LIMIT 1)
            WHERE user = ?1 AND EXISTS (SELECT 1 FROM frame WHERE contact = contact.key)
            """,
            "DELETE FROM contact WHERE user = ?1",
            "DELETE FROM sensor_start WHERE NOT EXISTS (SELECT 1 FROM contact WHERE device = sensor_start.device)",
            // What has no address is met in contacts alone: a sensor, which one person wears.
            """
            DELETE FROM clock_epoch WHERE device IN (SELECT key FROM device AS d WHERE d.address IS NULL
                AND NOT EXISTS (SELECT 1 FROM contact WHERE device = d.key))
            """,
            """
            DELETE FROM device WHERE address IS NULL AND NOT EXISTS (SELECT 1 FROM contact WHERE device = device.key)
                AND NOT EXISTS (SELECT 1 FROM device_address WHERE device = device.key)
                AND NOT EXISTS (SELECT 1 FROM pruned WHERE device = device.key)
            """,
            "DELETE FROM change WHERE user = ?1",
            "DELETE FROM source WHERE user = ?1",
            "DELETE FROM destination_user WHERE user = ?1",
            "DELETE FROM user_zone WHERE user = ?1",
            "DELETE FROM user WHERE key = ?1",
        ]
        for destination in try Self.destinations(db) {
            try Self.set(db, Self.zoneSetting(user, destination.key), lines: [])
        }
        try Self.set(
            db, SlotOwners.setting, lines: Self.lines(db, SlotOwners.setting).filter { !$0.hasSuffix(" \(user)") })
        try Self.endSubscribers(of: user, db)
        for statement in statements {
            try db.execute(sql: statement, arguments: statement.contains("?1") ? [user] : [])
        }
        try db.execute(sql: "DROP TABLE erased_frame")
        return erasure
    }

    /// A device that was assigned to the person, or to nobody while the person was the one it then belonged to, is
    /// nobody's any more and barred: whatever bond the system keeps, it is not read before it is paired anew. One that another person used last is theirs.
    private static func erasePairings(_ db: Database, of user: Int64, isCurrent: Bool) throws {
        try db.execute(
            sql: """
                UPDATE device SET is_paired = 0, is_proven = 0, is_barred = 1, user = NULL
                WHERE user = ?1 OR (user IS NULL AND ?2 AND coalesce(
                    (SELECT c.user FROM contact AS c WHERE c.device = device.key ORDER BY c.key DESC LIMIT 1), ?1) = ?1)
                """, arguments: [user, isCurrent])
    }

    /// Writes the database file anew and empties the write-ahead log.
    ///
    /// A task that is cancelled stops waiting. The rewriting goes on, since what was erased must go from the files, until
    /// the store is closed; the next opening begins it again.
    func rewriteFiles(progress: @escaping StoreProgress.Handler = { _ in }) async throws {
        try await requireSpaceToRewrite()
        progress(StoreProgress(.rewriting))
        let rewritten = AwaitedResult<Void>()
        do {
            try await rewritten.wait {
                pool.asyncWriteWithoutTransaction { [self] db in
                    let result = Result<Void, any Error> {
                        try closing.watching(db) { try StoreFiles.vacuum(db, in: directory) }
                        try Self.emptyLog(db)
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
