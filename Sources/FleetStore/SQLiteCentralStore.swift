import Foundation
import GRDB
import Glibc
import HealthReadings

/// The centre's store in one SQLite file: for a first try, and for fleets that one machine serves.
///
/// The log is synchronised at each commit (WAL, `synchronous=FULL`), so that a power cut takes nothing that was
/// acknowledged. Several processes may have the file open.
package struct SQLiteCentralStore: CentralStore {
    /// The file's name in the state directory.
    package static let fileName = "fleet.sqlite"
    /// `HRFC`: says in the file's header whose it is.
    private static let applicationID: Int32 = 0x4852_4643

    private let pool: DatabasePool

    /// Opens the file of a state directory, making both where they are missing (modes 0700 and 0600).
    ///
    /// - Throws: ``CentralStoreError``.
    package init(directory: String) throws(CentralStoreError) {
        let path = directory + "/" + Self.fileName
        do {
            if access(directory, F_OK) != 0 {
                try FileManager.default.createDirectory(
                    atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            }
        } catch {
            throw .refused("cannot make \(directory): \(error.localizedDescription)")
        }
        for suffix in ["", "-wal", "-shm", "-journal"] where !FileKind(at: path + suffix).isAbsentOrRegular {
            throw .foreign("\(path + suffix) is no ordinary file")
        }
        let isNew = access(path, F_OK) != 0
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .refused("cannot open \(path): \(String(cString: strerror(errno)))") }
        Glibc.close(descriptor)
        // A power cut takes the whole store if its name isn't durable.
        if isNew { _ = synchronizeDirectory(directory) && synchronizeDirectory(parentDirectory(of: directory)) }
        var configuration = Configuration()
        configuration.label = "healthrelay.fleet"
        configuration.busyMode = .timeout(10)
        configuration.maximumReaderCount = 2
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            // GRDB sets NORMAL in WAL mode, under which a power cut can take the last commits.
            if !db.configuration.readonly { try db.execute(sql: "PRAGMA synchronous = FULL") }
        }
        do { pool = try DatabasePool(path: path, configuration: configuration) } catch { throw Self.mapping(error) }
    }

    package func prepare() async throws(CentralStoreError) {
        do {
            try await pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                // Two programs that start at once: the later one finds the tables made.
                try db.inTransaction(.immediate) {
                    let isEmpty = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") == 0
                    let owner = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
                    guard isEmpty || owner == Self.applicationID else {
                        throw CentralStoreError.foreign("\(Self.fileName) wasn't made by healthrelay-collector")
                    }
                    let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
                    guard version <= CentralSchema.sqlite.count else {
                        throw CentralStoreError.newerSchema(found: version, known: CentralSchema.sqlite.count)
                    }
                    for step in CentralSchema.sqlite[version...] { try db.execute(sql: step) }
                    try db.execute(
                        sql: """
                            PRAGMA application_id = \(Self.applicationID);
                            PRAGMA user_version = \(CentralSchema.sqlite.count);
                            """)
                    return .commit
                }
            }
        } catch {
            throw Self.mapping(error)
        }
    }

    package func keep(_ batches: [ArrivedBatch]) async throws(CentralStoreError) -> [BatchOutcome] {
        try await write { db in
            let known = try db.cachedStatement(sql: "SELECT revision, body FROM reading WHERE gateway = ? AND id = ?")
            let insert = try db.cachedStatement(
                sql: """
                    INSERT INTO reading (gateway, id, revision, batch, taken, kind, person, body, retracted, received)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT (gateway, id) DO UPDATE SET
                        revision = excluded.revision, batch = excluded.batch, taken = excluded.taken,
                        kind = ifnull(excluded.kind, kind), person = excluded.person, body = excluded.body,
                        retracted = excluded.retracted, received = excluded.received
                    WHERE excluded.revision > reading.revision
                    """)
            return try batches.map { batch in
                var outcome = BatchOutcome()
                for reading in batch.readings {
                    let row = try Row.fetchOne(known, arguments: [batch.gateway, reading.id])
                    if let row, row[0] as Int64 >= reading.revision {
                        outcome.repeated += 1
                        if !reading.saysTheSame(as: row[1]) { outcome.ignore(reading.id, for: row[0]) }
                        continue
                    }
                    try insert.execute(arguments: [
                        batch.gateway, reading.id, reading.revision, reading.batch, reading.taken?.microseconds,
                        reading.kind, reading.person, reading.body, reading.isRetracted, batch.received.microseconds,
                    ])
                    if row == nil { outcome.stored += 1 } else { outcome.revised += 1 }
                }
                try Self.hear(
                    db, GatewaySighting(gateway: batch.gateway, heard: batch.received), stored: outcome.stored,
                    batch: batch.number)
                outcome.note(highestBatch: try Self.highestBatch(db, of: batch.gateway), of: batch.number)
                return outcome
            }
        }
    }

    @discardableResult
    package func note(_ sighting: GatewaySighting) async throws(CentralStoreError) -> String? {
        try await write { db in
            let former = try String.fetchOne(
                db, sql: "SELECT status FROM gateway WHERE gateway = ?", arguments: [sighting.gateway])
            try Self.hear(db, sighting, stored: 0, batch: nil)
            return former
        }
    }

    private static func hear(_ db: Database, _ sighting: GatewaySighting, stored: Int, batch: Int64?) throws {
        try db.execute(
            sql: """
                INSERT INTO gateway
                    (gateway, heard, version, backlog, oldest, stored, highest_batch, status, configuration)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (gateway) DO UPDATE SET
                    heard = CASE WHEN heard BETWEEN excluded.heard AND excluded.heard + \(GatewaySighting.clockSlack * 1_000_000)
                        THEN heard ELSE excluded.heard END,
                    version = ifnull(excluded.version, version),
                    backlog = ifnull(excluded.backlog, backlog),
                    oldest = CASE WHEN excluded.backlog IS NULL THEN oldest ELSE excluded.oldest END,
                    stored = stored + excluded.stored,
                    highest_batch = max(
                        ifnull(highest_batch, excluded.highest_batch), ifnull(excluded.highest_batch, highest_batch)),
                    status = ifnull(excluded.status, status),
                    configuration = ifnull(excluded.configuration, configuration)
                """,
            arguments: [
                sighting.gateway, sighting.heard.microseconds, sighting.version, sighting.backlog,
                sighting.oldest?.microseconds, stored, batch, sighting.status, sighting.configuration,
            ])
    }

    @discardableResult
    package func putAside(_ document: AsideDocument) async throws(CentralStoreError) -> Bool {
        try await write { db in
            let known = try Bool.fetchOne(
                db, sql: "SELECT 1 FROM set_aside WHERE gateway = ? AND digest = ?",
                arguments: [document.gateway, document.digest])
            guard known == nil else { return true }
            let kept = try Row.fetchOne(
                db,
                sql: """
                    SELECT count(*), ifnull(sum(length(document)), 0) FROM set_aside
                    WHERE gateway = ? AND digest IS NOT ?
                    """, arguments: [document.gateway, AsideDocument.fullMark])
            guard let kept, document.fits(beside: kept[0], bytes: kept[1]) else {
                try Self.count(db, document)
                return false
            }
            try db.execute(
                sql: """
                    INSERT INTO set_aside (received, gateway, reason, words, document, bytes, digest)
                    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (gateway, digest) DO NOTHING
                    """,
                arguments: [
                    document.received.microseconds, document.gateway, document.reason, document.words,
                    Data(document.octets), document.bytes, document.digest,
                ])
            return true
        }
    }

    /// Counts a document that isn't kept.
    private static func count(_ db: Database, _ document: AsideDocument) throws {
        try db.execute(
            sql: """
                INSERT INTO set_aside (received, gateway, reason, words, document, bytes, digest)
                VALUES (?, ?, ?, '1 more document of the gateway was not kept', x'', ?, ?)
                ON CONFLICT (gateway, digest) DO UPDATE SET
                    received = excluded.received, bytes = bytes + excluded.bytes,
                    words = (CAST(words AS INTEGER) + 1) || ' more documents of the gateway were not kept'
                """,
            arguments: [
                document.received.microseconds, document.gateway, AsideDocument.full, document.bytes,
                AsideDocument.fullMark,
            ])
    }

    package func aside(limit: Int) async throws(CentralStoreError) -> [AsideDocument] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT received, gateway, reason, words, document, bytes, digest
                    FROM set_aside ORDER BY number DESC LIMIT ?
                    """, arguments: [limit]
            ).map { row in
                AsideDocument(
                    received: Instant(microseconds: row[0]), gateway: row[1], reason: row[2], words: row[3],
                    octets: Array(row[4] as Data), bytes: row[5], digest: row[6])
            }
        }
    }

    package func gateways(hasStatuses: Bool) async throws(CentralStoreError) -> [GatewayRecord] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    WITH known AS (
                        SELECT gateway, heard, version, backlog, oldest, stored, highest_batch,
                            \(hasStatuses ? "status" : "NULL"), configuration FROM gateway
                        UNION ALL
                        SELECT DISTINCT gateway, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL FROM gateway_token
                            WHERE gateway NOT IN (SELECT gateway FROM gateway)
                    )
                    SELECT *, (SELECT max(version) FROM desired_configuration AS d WHERE d.gateway IN (known.gateway, '*'))
                        FROM known ORDER BY 1
                    """
            ).map { row in
                GatewayRecord(
                    gateway: row[0], heard: Self.instant(row[1]), version: row[2], backlog: row[3],
                    oldest: Self.instant(row[4]), stored: row[5], highestBatch: row[6], status: row[7],
                    configuration: row[8], wantedVersion: row[9])
            }
        }
    }

    package func newest(of gateway: String?, limit: Int) async throws(CentralStoreError) -> [CentralReading] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT gateway, id, revision, batch, taken, kind, person, body FROM reading
                    WHERE ?1 IS NULL OR gateway = ?1 ORDER BY received DESC, gateway, id LIMIT ?2
                    """, arguments: [gateway, limit]
            ).map { row in
                CentralReading(
                    gateway: row[0], id: row[1], revision: row[2], batch: row[3], taken: Self.instant(row[4]),
                    kind: row[5], person: row[6], body: row[7])
            }
        }
    }

    package func highestBatch(of gateway: String) async throws(CentralStoreError) -> Int64? {
        try await read { db in try Self.highestBatch(db, of: gateway) }
    }

    private static func highestBatch(_ db: Database, of gateway: String) throws -> Int64? {
        try Int64.fetchOne(db, sql: "SELECT highest_batch FROM gateway WHERE gateway = ?", arguments: [gateway])
    }

    package func storedIDs(
        of gateway: String, batches: [Int64]
    ) async throws(CentralStoreError) -> [Int64: [String]] {
        try await read { db in
            let select = try db.cachedStatement(sql: "SELECT id FROM reading WHERE gateway = ? AND batch = ?")
            var found: [Int64: [String]] = [:]
            for batch in batches {
                let ids = try String.fetchAll(select, arguments: [gateway, batch])
                if !ids.isEmpty { found[batch] = ids }
            }
            return found
        }
    }

    package func setConfiguration(
        _ settings: String, of gateway: String?, at instant: Instant
    ) async throws(CentralStoreError) -> Int64 {
        try await write { db in
            let last = try Int64.fetchOne(db, sql: "SELECT max(version) FROM desired_configuration") ?? 0
            let version = max(last + 1, instant.microseconds / 1000)
            try db.execute(
                sql: """
                    INSERT INTO desired_configuration (gateway, version, settings, created) VALUES (?, ?, ?, ?)
                    ON CONFLICT (gateway) DO UPDATE SET
                        version = excluded.version, settings = excluded.settings, created = excluded.created
                    """,
                arguments: [
                    gateway ?? DesiredConfiguration.everyGateway, version, settings, instant.microseconds,
                ])
            return version
        }
    }

    package func configuration(of gateway: String) async throws(CentralStoreError) -> DesiredConfiguration? {
        try await read { db in
            try Row.fetchOne(
                db,
                sql: """
                    SELECT version, settings FROM desired_configuration WHERE gateway IN (?, ?)
                    ORDER BY version DESC LIMIT 1
                    """, arguments: [gateway, DesiredConfiguration.everyGateway]
            ).map { DesiredConfiguration(version: $0[0], settings: $0[1]) }
        }
    }

    package func add(
        tokenDigest digest: String, for gateway: String, at instant: Instant
    ) async throws(CentralStoreError) {
        try await write { db in
            try db.execute(
                sql: "INSERT INTO gateway_token (digest, gateway, created) VALUES (?, ?, ?)",
                arguments: [digest, gateway, instant.microseconds])
        }
    }

    package func gateway(ofTokenDigest digest: String) async throws(CentralStoreError) -> String? {
        try await read { db in
            try String.fetchOne(db, sql: "SELECT gateway FROM gateway_token WHERE digest = ?", arguments: [digest])
        }
    }

    package func removeTokens(of gateway: String) async throws(CentralStoreError) -> Int {
        try await write { db in
            try db.execute(sql: "DELETE FROM gateway_token WHERE gateway = ?", arguments: [gateway])
            return db.changesCount
        }
    }

    package func checkIsWritable() async throws(CentralStoreError) {
        try await write { db in
            _ = try Row.fetchOne(db, sql: "SELECT revision FROM reading LIMIT 1")
            // The version is a newer program's where one has brought the tables up to date meanwhile.
            let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
            try db.execute(sql: "PRAGMA user_version = \(version)")
        }
    }

    package func close() async { try? pool.close() }

    // MARK: Transactions

    private func write<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(CentralStoreError) -> Result {
        do { return try await pool.write(body) } catch { throw Self.mapping(error) }
    }

    private func read<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(CentralStoreError) -> Result {
        do { return try await pool.read(body) } catch { throw Self.mapping(error) }
    }

    private static func instant(_ microseconds: Int64?) -> Instant? { microseconds.map(Instant.init(microseconds:)) }

    private static func mapping(_ error: any Error) -> CentralStoreError {
        switch error {
        case let error as CentralStoreError: return error
        case let error as DatabaseError:
            let words = error.message ?? "SQLite error \(error.resultCode.rawValue)"
            switch error.resultCode {
            case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_NOMEM, .SQLITE_INTERRUPT:
                return .unavailable(words)
            case .SQLITE_CONSTRAINT, .SQLITE_TOOBIG, .SQLITE_MISMATCH, .SQLITE_RANGE: return .badValue(words)
            case .SQLITE_NOTADB: return .foreign(words)
            default: return .refused(words)
            }
        case is CancellationError: return .unavailable("the collector is ending")
        default: return .refused("\(error)")
        }
    }
}
