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
    /// It counts up before ``eraseUser(_:retracts:except:rewritesFiles:progress:)`` returns, and so before the erasure has come
    /// through ``committedReadings()``: whoever keeps a copy of readings knows by it that the copy is out of date.
    public var erasures: Int { erasureCount.withLock(\.self) }

    /// Says, in the database itself, that rows are gone and the files not yet written anew.
    private static let unfinished = "erase.unfinished"

    /// Erases everything of a person: readings, what waits of them, their contexts and frames, the contacts these came
    /// in, sources and zones. It cannot be undone.
    ///
    /// Devices that are nobody else's stay known, without user and barred: no bond lets them be read before they are
    /// paired anew. Sensors, which one person wears, do not stay. Where the person was the current user, one without a name is
    /// from then on, in the zone that was in force.
    ///
    /// The rows go some hundred in a transaction, so that meters are read meanwhile. From the first on nothing is stored for
    /// the person: a contact that goes on ends with an error, and keeps what its device still has. What isn't erased yet can be
    /// read. An erasure that is cut short, by whatever, goes on when the store is opened next, before anything else is done
    /// there; the person is the last to go. After them the file is written anew and the write-ahead log is emptied: a page
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
    ///   - progress: called after each transaction with how many rows of the store were looked at.
    /// - Returns: what has gone since this was called.
    /// - Throws: ``StoreError/unknown(_:)`` for a user the store does not know; ``StoreError/inputOutput(detail:)`` and
    ///   ``StoreError/tooLittleSpace(path:needed:free:)`` where the rows are gone and the files could not be written anew:
    ///   the next opening does it; `CancellationError` between two transactions.
    @discardableResult
    public func eraseUser(
        _ user: UserKey, retracts: Bool = false, except done: Set<DestinationKey> = [],
        rewritesFiles: Bool = true, progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> Erasure {
        let pending = PendingErasure(
            user: user.rawValue, retracts: retracts, done: Set(done.map(\.rawValue)))
        try await write(.erase) { [sealing] db in
            // One whose row was changed can be erased, too.
            guard try Self.user(db, sealing, where: "key = ?", [user.rawValue], isChecked: false) != nil else {
                throw StoreError.unknown("user \(user.rawValue)")
            }
            try Self.keepKeys(db)
            try pending.note(db)
            try Self.erasePairings(db, of: user.rawValue, isCurrent: Self.isCurrent(db, user.rawValue))
        } committed: { [self] in
            // Each is made again from its row, and refused.
            contacts.withLock { $0 = [:] }
        }
        let erasure = try await erase(pending, progress: progress)
        if rewritesFiles { try await rewriteFiles(progress: progress) }
        return erasure
    }

    /// Goes on with erasures that were cut short.
    ///
    /// - Throws: what ``eraseUser(_:retracts:except:rewritesFiles:progress:)`` does.
    func continueErasures(progress: @escaping StoreProgress.Handler) async throws {
        for pending in try await read(PendingErasure.all) {
            guard !pending.retracts || sealing.refusal == nil else {
                logger.warning("a person's erasure goes on once the store's key is there")
                continue
            }
            logger.notice("a person's erasure was cut short, and goes on")
            _ = try await erase(pending, progress: progress)
        }
    }

    private func erase(_ pending: PendingErasure, progress: StoreProgress.Handler) async throws -> Erasure {
        let now = now()
        let ranges = try await [
            ErasureBatch.Part.readings: keyRange(of: "reading"), .frames: keyRange(of: "frame"),
            .contacts: keyRange(of: "contact"),
        ]
        let total = ranges.values.reduce(0) { $0 + $1.count }
        var (erasure, there, passed) = (Erasure(), ErasureBatch.AtDestinations(), Int64(0))
        progress(StoreProgress(.removing, of: total))
        for part in ErasureBatch.Part.allCases {
            var position = ErasureBatch.start(of: part)
            while true {
                try Task.checkCancellation()
                guard !closing.isStopped else { throw CancellationError() }
                let after = position
                // Nothing refers to the contacts any more, but to know that of one of them SQLite would look through all frames.
                let batch = try await write(.erase, checksReferences: part != .contacts) { [sealing] db in
                    try ErasureBatch.run(db, part, of: pending, after: after, sealing, now: now)
                } committed: { [self] batch in
                    guard batch.readings > 0 else { return }
                    erasureCount.withLock { $0 += 1 }
                    sealing.forgetOpened()
                }
                guard let last = batch.last else { break }
                position = last
                erasure.readings += batch.readings
                erasure.frames += batch.frames
                erasure.contacts += batch.contacts
                there.asked.merge(batch.there.asked, uniquingKeysWith: +)
                there.leftBehind.merge(batch.there.leftBehind, uniquingKeysWith: +)
                if let range = ranges[part], let key = Int64.fromDatabaseValue(last) {
                    progress(StoreProgress(.removing, done: passed + range.count(through: key), of: total))
                }
            }
            passed += ranges[part]?.count ?? 0
        }
        (erasure.sources, erasure.destinations) = try await erasePerson(pending, there, now)
        return erasure
    }

    /// Erases the person themselves, of whom nothing but small tables is left.
    private func erasePerson(
        _ pending: PendingErasure, _ there: ErasureBatch.AtDestinations, _ now: Instant
    ) async throws -> (sources: Int, destinations: [ErasureAtDestination]) {
        let user = pending.user
        // Everything that refers to the person or their sensors goes with them, as `ErasureTests` holds against the schema; to
        // know that of them, SQLite would look through all readings.
        return try await write(.erase, checksReferences: false) { [sealing] db in
            guard let person = try Self.user(db, sealing, where: "key = ?", [user], isChecked: false) else {
                throw StoreError.unknown("user \(user)")
            }
            try db.execute(sql: "PRAGMA secure_delete = ON")
            let isCurrent = try Self.isCurrent(db, user)
            try Self.keepKeys(db)
            // Whoever follows the changes has perhaps read some of the readings since the first of them went.
            let changes = Changes(db: db)
            if try changes.notesErasure() {
                try changes.noteErasure(as: RowNumbers(db, now: now).takeReading())
                try changes.forgetSeconds()
            }
            let sources =
                try Int.fetchOne(db, sql: "SELECT count(*) FROM source WHERE user = ?", arguments: [user]) ?? 0
            let destinations = try Self.destinations(db)
            try Self.eraseRows(db, of: user, isCurrent: isCurrent, destinations)
            if isCurrent { _ = try Self.adoptUser(db, sealing, "", timeZone: person.timeZone, now: now) }
            try pending.forget(db)
            try Self.markUnfinished(db)
            return (
                sources,
                destinations.compactMap { destination in
                    let place = destination.key.rawValue
                    let (asked, left) = (there.asked[place] ?? 0, there.leftBehind[place] ?? 0)
                    guard asked + left > 0 else { return nil }
                    // One that the settings no longer name keeps them until they name it again.
                    let isRemoved = destination.state == .removed
                    return ErasureAtDestination(
                        destination: destination.name, retracting: isRemoved ? 0 : asked,
                        leftBehind: isRemoved ? left + asked : left)
                }
            )
        } committed: { [self] _ in
            // Each is made again from its row, or found to have none.
            contacts.withLock { $0 = [:] }
            erasureCount.withLock { $0 += 1 }
            sealing.forgetOpened()
            publishRemoval()
        }
    }

    private static func isCurrent(_ db: Database, _ user: Int64) throws -> Bool {
        try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = 'user.current'") == String(user)
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

    private static func eraseRows(
        _ db: Database, of user: Int64, isCurrent: Bool, _ destinations: [StoredDestination]
    ) throws {
        try erasePairings(db, of: user, isCurrent: isCurrent)
        // What has no address is met in contacts alone: a sensor, which one person wears.
        let leftSensors = """
            SELECT key FROM device AS d WHERE d.address IS NULL AND NOT EXISTS (SELECT 1 FROM contact WHERE device = d.key)
                AND NOT EXISTS (SELECT 1 FROM sensor_record WHERE device = d.key)
            """
        let statements = [
            "DELETE FROM sensor_start WHERE NOT EXISTS (SELECT 1 FROM contact WHERE device = sensor_start.device)",
            "DELETE FROM clock_epoch WHERE device IN (\(leftSensors))",
            """
            DELETE FROM device WHERE key IN (\(leftSensors)) AND key NOT IN (SELECT device FROM device_address)
                AND key NOT IN (SELECT device FROM pruned)
            """,
            "DELETE FROM change WHERE user = ?1",
            "DELETE FROM consent WHERE user = ?1",
            "DELETE FROM source WHERE user = ?1",
            "DELETE FROM destination_user WHERE user = ?1",
            "DELETE FROM user_zone WHERE user = ?1",
            "DELETE FROM user WHERE key = ?1",
        ]
        for destination in destinations { try set(db, zoneSetting(user, destination.key), lines: []) }
        try set(
            db, SlotOwners.setting, lines: lines(db, SlotOwners.setting).filter { !$0.hasSuffix(" \(user)") })
        try endSubscribers(of: user, db)
        for statement in statements {
            try db.execute(sql: statement, arguments: statement.contains("?1") ? [user] : [])
        }
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
        // A copy, the log, and the file.
        let total = 3 * (try await usedBytes())
        let course = WritingCourse(.rewriting, progress)
        let rewritten = AwaitedResult<Void>()
        do {
            try await rewritten.wait {
                pool.asyncWriteWithoutTransaction { [self] db in
                    let result = Result<Void, any Error> {
                        try course.run(total: total) {
                            try closing.watching(db) {
                                try StopSwitch(look: course.look).watching(db) {
                                    try StoreFiles.vacuum(db, in: directory)
                                }
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
