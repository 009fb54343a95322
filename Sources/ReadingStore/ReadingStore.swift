import Crypto
import Foundation
import GRDB
import GRDBSQLite
import HealthReadings
import Logging
import Synchronization

/// Everything that is kept: frames as they came, readings, devices, users, sources and what waits for the server.
///
/// One process owns a store. Writes go through one connection, one transaction after the other, each durable when its
/// call returns (WAL, synchronous=FULL: the log is synchronised at each commit, and written once); reads run beside them
/// on connections of their own and see the last commit.
///
/// ```swift
/// let store = try await ReadingStore.open(
///     directory: "/var/lib/healthrelay", decoder: decoder, clientUserID: "white_bear", timeZone: "Europe/Berlin")
/// let contact = try await store.beginContact(with: device, at: now, clock: nil, batteryPercent: nil)
/// let outcomes = try await store.append(frames, of: contact)   // durable when it returns
/// let page = try await store.query(ReadingQuery(limit: 100))
/// ```
public final class ReadingStore: Sendable {
    /// The state directory.
    public let directory: String

    let decoder: any FrameDecoding
    let logger: Logger
    let now: @Sendable () -> Instant
    /// Contacts that go on, by their number.
    let contacts = Mutex<[Int64: ContactState]>([:])
    /// The rows of frames that grow.
    let growingFrames = Mutex<[GrowingFrame: Int64]>([:])
    /// What the last transaction of the journal left for the next.
    let journalMemory = Mutex<JournalMemory?>(nil)
    let subscribers = Broadcaster<[Reading]>()
    /// Rings when changes may have been committed.
    let changeBells = Broadcaster<Void>()
    /// The subscribers whose changes somebody reads now.
    let attached = Mutex<Set<String>>([])
    let erasureCount = Mutex(0)
    private let contentCommits = Atomic(0)
    private let commits = Atomic(0)
    private let decisions = Atomic(0)
    let writing = WritingFault()
    /// What the transactions change, and what was counted of the rest.
    let touchedRows = TouchedRows()
    let countedReadings = Mutex(CountedBlocks<ReadingTally, ReadingTally.Rules>())
    let countedFrames = Mutex(CountedBlocks<FrameTally, Bool>())
    let countedContacts = Mutex(CountedBlocks<ContactTally, Bool>())
    /// What the destinations have that asked for what is newest, and which these are.
    let countedNewest = Mutex(CountedBlocks<NewestTally, Set<Int64>>())
    let shownAt = Mutex<Set<Int64>>([])
    let prunedDeliveries = Mutex(KnownPrunedDeliveries())
    let statisticsKnown = Mutex(KnownStatistics())
    let consentsKnown = Mutex(KnownConsents())
    let holdsKnown = Mutex(KnownHolds())
    /// Keeps one connection free of long reads, so that the watchdog and `/health` are answered while others read.
    private let turns = Turnstile(width: readers - 1)
    private static let readers = 4
    /// What pruned readings are recognised by; nil where nothing was pruned, or the key is not there.
    let pruneKey = Mutex<SymmetricKey?>(nil)
    /// Whether content is sealed, and where the key is.
    public let encryption: StoreEncryption
    let sealing = Sealing()
    /// People whose names can only be written once the key is there.
    let waitingPeople = Mutex(WaitingPeople())
    /// The running re-encryption with the newest key, if any.
    let resealing = Mutex<Task<Void, Never>?>(nil)
    /// The changes of the key that somebody waits for.
    let keyChanges = KeyChanges()

    /// The gateway's id, once it was asked for: it never changes.
    let knownGateway = Mutex<String?>(nil)
    /// How many readings were found held for each destination last.
    let heldCounts = Mutex<[DestinationKey: Int]>([:])

    /// Ends what writes the files anew once the store is being closed.
    let closing = StopSwitch()

    private let lock: StoreLock
    /// About how many octets the migrations write that were due when it was opened.
    private let migrationOctets: Int64
    let pool: DatabasePool

    /// Opens the store of a state directory, making both where they are missing.
    ///
    /// - Parameters:
    ///   - directory: made with mode 0700 where it is missing; files in it have mode 0600.
    ///   - decoder: decodes frames; pure.
    ///   - clientUserID: whose readings they are where a device is assigned to nobody; nil: the user of last time, or
    ///     for a new store one without a name, who gets the first name that is set.
    ///   - timeZone: the user's zone, an IANA id; a change of it begins now and moves nothing that is stored. Nil: the
    ///     zone of last time, or for a new store the system's, taken once and written down.
    ///   - encryption: whether content is sealed, and where the key is. Where it has to be and the key is missing the
    ///     store opens, and all that needs its content throws ``lockedBecause``, until the key is there.
    ///   - finishesErasure: whether an erasure that was cut short is ended before this returns; where not, the caller
    ///     calls ``finishErasure(progress:)`` later. The rows are gone either way: what is left are octets in the files.
    ///   - logger: gets what is done; no values and no addresses.
    ///   - now: the gateway's clock.
    ///   - progress: told how far the tables of an earlier version have been made those of this one: minutes where there are
    ///     millions of readings. A task that is cancelled stops that, and the store stays as it was.
    /// - Throws: ``StoreError``: ``StoreError/locked(pid:)`` where another owner has it; nothing is overwritten.
    ///   `CancellationError`.
    public static func open(
        directory: String, decoder: any FrameDecoding, clientUserID: String? = nil, timeZone: String? = nil,
        encryption: StoreEncryption = .on(), finishesErasure: Bool = true,
        logger: Logger = Logger(label: "healthrelay.store"), now: @escaping @Sendable () -> Instant = { .systemClock },
        progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> ReadingStore {
        let store = try ReadingStore(
            directory: directory, decoder: decoder, encryption: encryption, logger: logger, now: now)
        try await store.migrate(progress: progress)
        do {
            if finishesErasure { try await store.finishErasure() }
        } catch is CancellationError {
            // Whoever opens it is about to end: the next opening tries again.
        } catch {
            // What could not be written anew now is no reason to keep nothing: the next opening tries again.
            store.logger.warning(
                "erased octets may still be in the store's files", metadata: ["error": "\(error)"])
        }
        try await store.openKeys()
        do {
            let last = try await store.lastUser()
            try await store.adoptUser(
                clientUserID ?? last?.clientUserID ?? "",
                timeZone: timeZone ?? last?.timeZone ?? TimeZone.current.identifier)
        } catch let error as StoreError where error.isCorrupt {
            // One that is just being made has nobody yet, and nothing to verify: the next opening makes it.
            let isNew = try? await store.read { db in
                try !(Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM user)") ?? true)
            }
            if isNew == true { throw error }
            // The store has to open for `store verify` to name the row. Nothing is delivered for that person.
            store.logger.error("\(error)", metadata: ["mend": "\(error.hint)"])
        }
        return store
    }

    private init(
        directory: String, decoder: any FrameDecoding, encryption: StoreEncryption, logger: Logger,
        now: @escaping @Sendable () -> Instant
    ) throws {
        self.directory = directory
        self.encryption = encryption
        self.decoder = decoder
        self.logger = logger
        self.now = now
        // A destination's library may use it before the first row is opened.
        _ = LibCrypto.isReady
        try StoreFiles.prepareDirectory(directory)
        lock = try StoreLock(path: directory + "/" + StoreFiles.lockName)
        do { try StoreFiles.removeLeftovers(in: directory) } catch {
            logger.warning("what an export or import left behind is still there", metadata: ["error": "\(error)"])
        }
        let path = directory + "/" + StoreFiles.databaseName
        try StoreFiles.prepareDatabase(path)
        do {
            try Self.refuseNewer(path)
            pool = try Self.openPool(path)
            migrationOctets = try Self.prepare(pool, path: path)
        } catch {
            let mapped = StoreError.mapping(error)
            if case StoreError.foreign = mapped { throw StoreError.foreign(path: path) }
            throw mapped
        }
    }

    /// Refuses a store of a newer version before anything could write to its file.
    ///
    /// Opening a pool may write: GRDB makes and drops a table where the log is empty. Whether the file can be read at all is left
    /// to the pool.
    private static func refuseNewer(_ path: String) throws {
        var configuration = Configuration()
        configuration.label = "healthrelay.store.version"
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        harden(&configuration)
        let isNewer = try? DatabaseQueue(path: path, configuration: configuration).read { db in
            guard try Int32.fetchOne(db, sql: "PRAGMA application_id") == Schema.applicationID else { return false }
            try SchemaCheck.refuseCode(db)
            return try Schema.migrator.hasBeenSuperseded(db)
        }
        if isNewer == true { throw StoreError.newerSchema }
    }

    private static func openPool(_ path: String) throws -> DatabasePool {
        var configuration = Configuration()
        configuration.label = "healthrelay.store"
        configuration.busyMode = .timeout(5)
        configuration.maximumReaderCount = readers
        configuration.persistentReadOnlyConnections = true
        harden(&configuration)
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA cache_size = -\(readerCache)") }
        return try DatabasePool(path: path, configuration: configuration)
    }

    /// Has a connection trust nothing that the file brings along, and allocate for no value beyond what a store has.
    static func harden(_ configuration: inout Configuration) {
        configuration.prepareDatabase { db in
            try db.execute(
                sql: "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA page_size = \(pageSize)")
            sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_LENGTH, longestValue)
        }
    }

    /// Octets; a sensor's whole memory has 344.
    private static let longestValue: Int32 = 16 << 20

    /// Octets of a page in a file that is made, by a first start or an export. A commit writes every page it touches, most of
    /// them for a row or two: with pages of 4 KiB two thirds more are written. A file that is there keeps its own.
    private static let pageSize = 1024
    /// KiB of pages that a connection which reads keeps: what a long read touched stays in memory, once for each connection, and
    /// the system has the file's pages anyway.
    private static let readerCache = 512
    /// KiB of pages that the connection which writes keeps.
    private static let writerCache = 2048
    /// Octets of the log at which it is folded into the file.
    private static let logLength = 16 << 20

    /// - Returns: about how many octets the migrations write that are due.
    private static func prepare(_ pool: DatabasePool, path: String) throws -> Int64 {
        try pool.writeWithoutTransaction { db in
            // GRDB sets NORMAL in WAL mode, under which a power cut can take the last commits.
            try db.execute(sql: "PRAGMA synchronous = FULL; PRAGMA cache_size = -\(writerCache)")
            let pageSize = try Int.fetchOne(db, sql: "PRAGMA page_size") ?? Self.pageSize
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(logLength / pageSize)")
            let applicationID = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
            let isEmpty = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") == 0
            guard isEmpty || applicationID == Schema.applicationID else { throw StoreError.foreign(path: path) }
            try SchemaCheck.refuseCode(db)
            if isEmpty { try db.execute(sql: "PRAGMA application_id = \(Schema.applicationID)") }
            guard try !Schema.migrator.hasBeenSuperseded(db) else { throw StoreError.newerSchema }
            return try octetsOfMigration(db, path: path)
        }
    }

    /// Brings the tables up to this version.
    private func migrate(progress: @escaping StoreProgress.Handler) async throws {
        let course = WritingCourse(.migrating, progress)
        let stopSwitch = StopSwitch(look: course.look)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Result<Void, any Error>, Never>) in
                // It takes as long as the disk does: no thread of the tasks' may wait for that.
                DispatchQueue.global().async { [self] in
                    continuation.resume(returning: Result { try migrate(course, stopSwitch) })
                }
            }
        } onCancel: {
            stopSwitch.stop()
        }
        do { try result.get() } catch {
            try? pool.close()
            lock.release()
            let mapped = StoreError.mapping(error)
            if case StoreError.foreign = mapped {
                throw StoreError.foreign(path: directory + "/" + StoreFiles.databaseName)
            }
            throw mapped
        }
    }

    private func migrate(_ course: WritingCourse, _ stopSwitch: StopSwitch) throws {
        CrashPoint.reach("migrate.before-commit")
        do {
            try course.run(total: migrationOctets) {
                try stopSwitch.watchingWriter(of: pool) { try Schema.migrator.migrate(pool) }
            }
        } catch let error as DatabaseError
            where [.SQLITE_ERROR, .SQLITE_CONSTRAINT].contains(error.resultCode)
        {
            throw StoreError.corrupt(detail: "it is not what its version makes: \(error.message ?? "")")
        }
        try pool.read(SchemaCheck.check)
        try pool.writeWithoutTransaction(touchedRows.watch)
        CrashPoint.reach("migrate.after-commit")
    }

    /// Refuses to open a store of an earlier version where the disk could fill: what a migration writes is in the log until
    /// it has ended, and the tables it replaces stay in the file.
    ///
    /// - Returns: about how many octets the migrations write that are due.
    private static func octetsOfMigration(_ db: Database, path: String) throws -> Int64 {
        let applied = try Schema.migrator.appliedIdentifiers(db)
        let due = Schema.rewriting.filter { !applied.contains($0.key) }
        guard !applied.isEmpty, !due.isEmpty else { return 0 }
        let used = try Double(usedBytes(db))
        let writes = due.values.reduce(0, +)
        try DiskSpace.require(Int64(2 * min(writes, 1) * used), at: parentDirectory(of: path))
        try StoreFiles.sortBeside(db, in: parentDirectory(of: path))
        return Int64(writes * used)
    }

    /// Waits for what is being written, closes the files and gives the store up: another may open it.
    public func close() throws {
        resealing.withLock { $0?.cancel() }
        defer { lock.release() }
        subscribers.close()
        changeBells.close()
        do {
            // Writing the files anew may take minutes; the next opening begins it again.
            closing.stop()
            // The pool closes its reading connections last, and those cannot fold the log into the file.
            try pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
            try pool.close()
        } catch {
            throw StoreError.mapping(error)
        }
    }

    /// Closes the connections that read, and has the one that writes give up the pages and compiled statements that it keeps, once what they
    /// do now has ended. What comes next opens as many as it needs: mostly one.
    ///
    /// It doesn't wait for that: the connection that writes may be busy for minutes.
    ///
    /// - Parameter released: called, before the next transaction, when the connection that writes has given them up.
    public func releaseMemory(then released: @escaping @Sendable () -> Void = {}) {
        pool.invalidateReadOnlyConnections()
        pool.asyncWriteWithoutTransaction { db in
            db.releaseMemory()
            released()
        }
    }

    // MARK: Transactions

    /// Commits what `body` does in one transaction and returns when it is durable.
    ///
    /// Cancelling the task that waits does not undo it: a frame that came is kept, whoever has stopped waiting.
    ///
    /// - Parameter committed: runs after the commit and before the next transaction.
    func write<T: Sendable>(
        _ point: CommitPoint, _ body: @escaping @Sendable (Database) throws -> T,
        committed: @escaping @Sendable (T) -> Void = { _ in }
    ) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            pool.asyncWriteWithoutTransaction { [self] db in
                let result: Result<T, any Error> = writing.watching(db) {
                    var (value, change) = (T?.none, HoldChange?.none)
                    do {
                        try db.inTransaction(.immediate) {
                            value = try body(db)
                            change = try noteTouchedRows(db)
                            CrashPoint.reach(point.before)
                            return .commit
                        }
                    } catch {
                        holdsKnown.withLock { $0.note(nil) }
                        throw error
                    }
                    holdsKnown.withLock { $0.note(change) }
                    if !point.keepsJournal { journalMemory.withLock { $0 = nil } }
                    commits.add(1, ordering: .sequentiallyConsistent)
                    if !point.keepsReadings { decisions.add(1, ordering: .sequentiallyConsistent) }
                    if !point.keepsWaiting { contentCommits.add(1, ordering: .sequentiallyConsistent) }
                    CrashPoint.reach(point.after)
                    guard let value else { throw StoreError.internalFault(detail: "a transaction gave nothing") }
                    committed(value)
                    return value
                }
                continuation.resume(with: result.mapError(StoreError.mapping))
            }
        }
    }

    /// Notes which parts of the store have to be counted anew: before anybody can read what is committed, or a reader of it would
    /// be given what was counted of the parts before. If the commit fails, they are counted once too often.
    ///
    /// - Returns: what it changes of why readings wait.
    private func noteTouchedRows(_ db: Database) throws -> HoldChange {
        let (touched, commit) = (touchedRows.take(), commitCount + 1)
        countedReadings.withLock { $0.note(touched?.readings, by: commit) }
        countedNewest.withLock { $0.note(touched?.readings, by: commit) }
        countedFrames.withLock { $0.note(touched?.frames, by: commit) }
        countedContacts.withLock { $0.note(touched?.contacts, by: commit) }
        if touched?.pruned != false { prunedDeliveries.withLock { $0.touched = commit } }
        let change = try HoldChange(db, touched)
        holdsKnown.withLock { $0.expect(change) }
        return change
    }

    /// Grows with each commit: nobody else writes while this process has the store.
    var commitCount: Int { commits.load(ordering: .sequentiallyConsistent) }

    /// Grows with each commit but those that bring readings, contacts and deliveries.
    var decisionCount: Int { decisions.load(ordering: .sequentiallyConsistent) }

    /// Grows with each commit but those that only note what became of readings which were offered to a destination: what was
    /// read before, of the outbox too, is as it was while this is the same.
    package var contentGeneration: Int { contentCommits.load(ordering: .sequentiallyConsistent) }

    /// Reads from the last commit.
    func read<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await turns.pass { try await readAtOnce(body) }
    }

    /// Reads from the last commit on the connection that is kept for what must not wait, such as the watchdog.
    func readAtOnce<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        let stopSwitch = StopSwitch()
        do {
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    // GRDB's read for tasks gives its connection back in the task. Where `close` waits for that on the only
                    // thread that tasks have, it would wait for ever.
                    pool.asyncRead { result in
                        continuation.resume(
                            with: Result {
                                let db = try result.get()
                                return try stopSwitch.watching(db) { try body(db) }
                            })
                    }
                }
            } onCancel: {
                stopSwitch.stop()
            }
        } catch {
            throw StoreError.mapping(error)
        }
    }
}

/// The crash points around one kind of commit.
struct CommitPoint: Sendable {
    let before: StaticString
    let after: StaticString
    /// Whether what the journal has found out holds on: rows it wrote itself, or what became of them at the server.
    var keepsJournal = false
    /// Whether it notes only what became of readings that were offered to a destination: what waits is as it was read.
    var keepsWaiting = false
    /// Whether readings that were there are as they were, but for those that ``Changes`` names.
    var keepsReadings = false

    static let journal = CommitPoint(
        before: "journal.before-commit", after: "journal.after-commit", keepsJournal: true, keepsReadings: true)
    static let entry = CommitPoint(
        before: "entry.before-commit", after: "entry.after-commit", keepsReadings: true)
    static let imports = CommitPoint(
        before: "imports.before-commit", after: "imports.after-commit", keepsReadings: true)
    static let contact = CommitPoint(
        before: "contact.before-commit", after: "contact.after-commit", keepsReadings: true)
    static let user = CommitPoint(before: "user.before-commit", after: "user.after-commit")
    static let source = CommitPoint(before: "source.before-commit", after: "source.after-commit")
    static let setting = CommitPoint(before: "setting.before-commit", after: "setting.after-commit")
    static let device = CommitPoint(before: "device.before-commit", after: "device.after-commit")
    static let acknowledge = CommitPoint(
        before: "acknowledge.before-commit", after: "acknowledge.after-commit", keepsJournal: true, keepsWaiting: true,
        keepsReadings: true)
    static let attempt = CommitPoint(
        before: "attempt.before-commit", after: "attempt.after-commit", keepsJournal: true, keepsWaiting: true,
        keepsReadings: true)
    static let reject = CommitPoint(
        before: "reject.before-commit", after: "reject.after-commit", keepsJournal: true, keepsWaiting: true,
        keepsReadings: true)
    static let requeue = CommitPoint(
        before: "requeue.before-commit", after: "requeue.after-commit", keepsJournal: true, keepsReadings: true)
    static let retract = CommitPoint(
        before: "retract.before-commit", after: "retract.after-commit", keepsJournal: true, keepsReadings: true)
    static let handOver = CommitPoint(
        before: "hand-over.before-commit", after: "hand-over.after-commit", keepsJournal: true, keepsWaiting: true,
        keepsReadings: true)
    static let order = CommitPoint(
        before: "order.before-commit", after: "order.after-commit", keepsJournal: true, keepsWaiting: true,
        keepsReadings: true)
    static let erase = CommitPoint(before: "erase.before-commit", after: "erase.after-commit")
    static let prune = CommitPoint(before: "prune.before-commit", after: "prune.after-commit")
    static let reseal = CommitPoint(before: "reseal.before-commit", after: "reseal.after-commit")
    static let redecode = CommitPoint(before: "redecode.before-commit", after: "redecode.after-commit")
    static let subscriber = CommitPoint(
        before: "subscriber.before-commit", after: "subscriber.after-commit", keepsJournal: true, keepsReadings: true)
    static let move = CommitPoint(before: "move.before-commit", after: "move.after-commit")
    static let trial = CommitPoint(
        before: "trial.before-commit", after: "trial.after-commit", keepsJournal: true, keepsWaiting: true,
        keepsReadings: true)
}
