import Crypto
import Foundation
import GRDB
import Glibc
import HealthReadings
import Synchronization

/// Who may use the gateway over the network, and what they did: a file of its own beside the store of readings.
///
/// Of a token only its SHA-256 is kept. The audit log is kept for 90 days, and a number of rows of each sort at most.
///
/// Letting in and putting out are durable when they return (`synchronous = FULL`). When a client was last here is best
/// effort: it is kept in memory and written with the audit log, so that a full disk keeps nobody from reading.
public struct AccessStore: Sendable {
    /// The file's name in the state directory.
    public static let fileName = "access.sqlite"
    /// How long the audit log is kept, in seconds.
    public static let auditLifetime: TimeInterval = 90 * 86_400
    /// How many rows of each sort the audit log holds at most; the oldest go first.
    static let auditRows = 10_000
    /// How long a token is good at most, in seconds.
    public static let tokenLifetime: TimeInterval = 30 * 86_400

    let queue: AccessQueue
    let departed = Broadcaster<Void>()
    let visits = Visits()

    /// Opens the list of a state directory, making it where it is missing (mode 0600).
    public init(directory: String) throws {
        let path = directory + "/" + Self.fileName
        for suffix in ["", "-wal", "-shm", "-journal"] where !FileKind(at: path + suffix).isAbsentOrRegular {
            throw AccessError.cannotKeepClients(path: path + suffix, reason: "it is no ordinary file")
        }
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0o600)
        guard file >= 0 else {
            throw AccessError.cannotKeepClients(path: path, reason: String(cString: strerror(errno)))
        }
        Glibc.close(file)
        var configuration = Configuration()
        configuration.label = "healthrelay.access"
        configuration.busyMode = .timeout(5)
        configuration.journalMode = .wal
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cache_size = -256")
        }
        queue = try AccessQueue(path: path, configuration: configuration)
        try queue.migrate(Self.migrator)
    }

    private static let migrator: DatabaseMigrator = {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 clients and audit") { db in
            try db.execute(
                sql: """
                    CREATE TABLE client (
                        number INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
                        kind TEXT NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL, last_seen REAL,
                        revoked_at REAL
                    ) STRICT;
                    CREATE TABLE audit (
                        key INTEGER PRIMARY KEY, at REAL NOT NULL, event TEXT NOT NULL, client INTEGER, route TEXT,
                        status INTEGER, count INTEGER NOT NULL
                    ) STRICT;
                    CREATE INDEX audit_at ON audit (at);
                    """)
        }
        migrator.registerMigration("2 requests are counted by the hour") { db in
            try db.execute(
                sql: """
                    ALTER TABLE audit RENAME TO former_audit;
                    CREATE TABLE audit (
                        key INTEGER PRIMARY KEY, retention INTEGER NOT NULL, hour INTEGER, first_at REAL NOT NULL,
                        last_at REAL NOT NULL, event TEXT NOT NULL, client INTEGER, route TEXT, status INTEGER,
                        count INTEGER NOT NULL
                    ) STRICT;
                    CREATE INDEX audit_retention ON audit (retention);
                    CREATE UNIQUE INDEX audit_hour ON audit
                        (hour, event, ifnull(client, 0), ifnull(route, ''), ifnull(status, 0)) WHERE hour IS NOT NULL;
                    INSERT INTO audit (retention, first_at, last_at, event, client, route, status, count)
                        SELECT event = 'pair_refused', at, at, event, client, route, status, count FROM former_audit
                        WHERE event IN ('pair', 'pair_refused', 'revoked', 'meter_pairing') ORDER BY key;
                    INSERT INTO audit (retention, hour, first_at, last_at, event, client, route, status, count)
                        SELECT 2, CAST(at / 3600 AS INTEGER) AS hour, min(at), max(at), event, client, route, status,
                            sum(count) FROM former_audit
                        WHERE event NOT IN ('pair', 'pair_refused', 'revoked', 'meter_pairing')
                        GROUP BY hour, event, client, route, status ORDER BY min(key);
                    DROP TABLE former_audit;
                    """)
        }
        migrator.registerMigration("3 clients have a person and a scope") { db in
            // Until now every client got everything, so that is what those that are there keep.
            try db.execute(
                sql: """
                    ALTER TABLE client ADD COLUMN person TEXT;
                    ALTER TABLE client ADD COLUMN scope TEXT NOT NULL DEFAULT 'owner';
                    """)
        }
        migrator.registerMigration("4 secrets") { db in
            try db.execute(sql: "CREATE TABLE secret (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT")
        }
        migrator.registerMigration("5 read-only links") { db in
            try db.execute(sql: "ALTER TABLE client ADD COLUMN days INTEGER")
        }
        migrator.registerMigration("6 claims") { db in
            try db.execute(
                sql: """
                    CREATE TABLE claim (key INTEGER PRIMARY KEY CHECK (key = 1), at REAL NOT NULL, reason TEXT NOT NULL) STRICT;
                    CREATE TABLE setup_token (
                        key INTEGER PRIMARY KEY CHECK (key = 1), digest BLOB NOT NULL, issued_at REAL NOT NULL,
                        expires_at REAL NOT NULL
                    ) STRICT;
                    """)
        }
        return migrator
    }()

    /// A secret of this gateway, 32 octets: made when it is first asked for, and the same from then on.
    ///
    /// - Throws: ``AccessError`` if it cannot be written.
    public func secret(_ name: String) async throws -> Data {
        let known = try await queue.read { db in
            try Data.fetchOne(db, sql: "SELECT value FROM secret WHERE name = ?", arguments: [name])
        }
        if let known { return known }
        let made = SymmetricKey(size: .bits256).withUnsafeBytes { Data($0) }
        return try await queue.write { db in
            try db.execute(sql: "INSERT OR IGNORE INTO secret (name, value) VALUES (?, ?)", arguments: [name, made])
            return try Data.fetchOne(db, sql: "SELECT value FROM secret WHERE name = ?", arguments: [name]) ?? made
        }
    }

    /// Lets a client in.
    ///
    /// - Parameters:
    ///   - name: the client's name.
    ///   - kind: what the client is.
    ///   - grant: for whom, and for what.
    ///   - now: the time that is noted.
    ///   - expiresAt: when its token ends to be good.
    ///   - days: of a link, how many days up to today it shows.
    public func admit(
        _ name: String, as kind: AccessClient.Kind, for grant: AccessGrant, now: Date, expiresAt: Date, days: Int? = nil
    ) async throws -> (token: AccessToken, client: AccessClient) {
        let token = AccessToken()
        let name = AccessClient.cleaned(name)
        let client = try await queue.write { db in
            try Self.insert(db, token, name, kind, grant, now: now, expiresAt: expiresAt, days: days)
        }
        return (token, client)
    }

    static func insert(
        _ db: Database, _ token: AccessToken, _ name: String, _ kind: AccessClient.Kind, _ grant: AccessGrant,
        now: Date, expiresAt: Date, days: Int? = nil
    ) throws -> AccessClient {
        try db.execute(
            sql: """
                INSERT INTO client (digest, name, kind, created_at, expires_at, person, scope, days)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                Data(token.digest), name, kind.rawValue, now.timeIntervalSince1970, expiresAt.timeIntervalSince1970,
                grant.person, grant.scope.rawValue, days,
            ])
        var client = AccessClient(
            number: db.lastInsertedRowID, name: name, kind: kind, grant: grant, createdAt: now, expiresAt: expiresAt)
        client.days = days
        return client
    }

    /// The client whose token this is, where it is good; notes that it was here.
    public func client(with token: AccessToken, now: Date) async throws -> AccessClient? {
        let digest = Data(token.digest)
        let found = try await queue.read { db in
            try Row.fetchOne(db, sql: "SELECT \(Self.columns) FROM client WHERE digest = ?", arguments: [digest])
                .flatMap(Self.client)
        }
        guard var client = found, client.isWelcome(at: now), !visits.isRevoked(client.number) else { return nil }
        visits.note(client.number, now)
        client.lastSeen = now
        return client
    }

    /// All clients that were ever let in and not forgotten, the newest first.
    public func clients() async throws -> [AccessClient] {
        let visits = visits.pending
        return try await queue.read { db in
            try Row.fetchAll(db, sql: "SELECT \(Self.columns) FROM client ORDER BY number DESC").compactMap(Self.client)
        }.map { client in
            var client = client
            client.lastSeen = visits[client.number] ?? client.lastSeen
            return client
        }
    }

    /// Whether a client's token is good.
    public func isWelcome(_ number: Int64, now: Date) async throws -> Bool {
        guard !visits.isRevoked(number) else { return false }
        return try await queue.read { db in
            try Row.fetchOne(db, sql: "SELECT \(Self.columns) FROM client WHERE number = ?", arguments: [number])
                .flatMap(Self.client)
        }?.isWelcome(at: now) ?? false
    }

    /// Puts a client out; its token is not good any more.
    ///
    /// - Returns: whether there was one to put out.
    /// - Throws: ``AccessError`` where that cannot be written; the client is out until this process ends all the same.
    public func revoke(_ number: Int64, now: Date) async throws -> Bool {
        defer { departed.ring() }
        visits.revoke([number])
        return try await queue.write { [visits] db in
            try db.execute(
                sql: "UPDATE client SET revoked_at = ? WHERE number = ? AND revoked_at IS NULL",
                arguments: [now.timeIntervalSince1970, number])
            if db.changesCount > 0 { return true }
            // The next client that is let in may get this number. It cannot be let in before this write has ended.
            if try Row.fetchOne(db, sql: "SELECT 1 FROM client WHERE number = ?", arguments: [number]) == nil {
                visits.spare(number)
            }
            return false
        }
    }

    /// Puts everybody out.
    ///
    /// - Returns: how many there were.
    /// - Throws: ``AccessError`` where that cannot be written; all are out until this process ends all the same.
    public func revokeAll(now: Date) async throws -> Int {
        defer { departed.ring() }
        visits.revoke(try await clients().filter { $0.isWelcome(at: now) }.map(\.number))
        return try await queue.write { db in
            try db.execute(
                sql: "UPDATE client SET revoked_at = ? WHERE revoked_at IS NULL AND expires_at > ?",
                arguments: [now.timeIntervalSince1970, now.timeIntervalSince1970])
            return db.changesCount
        }
    }

    /// Whether it is to be written when somebody was last here.
    var hasVisits: Bool { !visits.pending.isEmpty }

    /// Writes entries of the audit log, and when clients were last here.
    func record(_ entries: [AuditEntry]) async throws {
        let seen = visits.pending
        try await queue.write { db in
            for entry in entries {
                let isCounted = entry.retention == .traffic
                try db.execute(
                    sql: """
                        INSERT INTO audit (retention, hour, first_at, last_at, event, client, route, status, count)
                        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                        """
                            + (isCounted
                                ? """

                                ON CONFLICT (hour, event, ifnull(client, 0), ifnull(route, ''), ifnull(status, 0))
                                    WHERE hour IS NOT NULL
                                DO UPDATE SET count = count + excluded.count, last_at = max(last_at, excluded.last_at)
                                """ : ""),
                    arguments: [
                        entry.retention.rawValue, isCounted ? entry.bucket.hour : nil, entry.at.timeIntervalSince1970,
                        entry.lastAt.timeIntervalSince1970, entry.event, entry.client, entry.route, entry.status,
                        entry.count,
                    ])
            }
            for retention in Set(entries.map(\.retention)) {
                try db.execute(
                    sql: """
                        DELETE FROM audit WHERE retention = ? AND key <= (
                            SELECT key FROM audit WHERE retention = ? ORDER BY key DESC LIMIT 1 OFFSET ?)
                        """, arguments: [retention.rawValue, retention.rawValue, Self.auditRows])
            }
            for (number, time) in seen {
                try db.execute(
                    sql: "UPDATE client SET last_seen = ? WHERE number = ?",
                    arguments: [time.timeIntervalSince1970, number])
            }
        }
        visits.written(seen)
    }

    /// The newest entries of the audit log, the newest first.
    func audit(limit: Int) async throws -> [AuditEntry] {
        try await queue.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT first_at, last_at, event, client, route, status, count, scope, person
                    FROM audit LEFT JOIN client ON client.number = audit.client
                    ORDER BY last_at DESC, key DESC LIMIT ?
                    """, arguments: [limit]
            ).map { row in
                AuditEntry(
                    at: Date(timeIntervalSince1970: row[0]), lastAt: Date(timeIntervalSince1970: row[1]), event: row[2],
                    client: row[3], route: row[4], status: row[5], count: row[6], grant: Self.grant(row[7], row[8]))
            }
        }
    }

    /// What the connection that writes does before a change counts: 2 is FULL, which a power cut does not undo.
    func synchronousLevel() async throws -> Int? {
        try await queue.write { db in try Int.fetchOne(db, sql: "PRAGMA synchronous") }
    }

    /// Forgets what is older than 90 days: the audit log's entries, and clients whose token ended then.
    public func prune(now: Date) async throws {
        let limit = now.timeIntervalSince1970 - Self.auditLifetime
        try await queue.write { db in
            try db.execute(sql: "DELETE FROM audit WHERE last_at < ?", arguments: [limit])
            try db.execute(
                sql: "DELETE FROM client WHERE expires_at < ? OR revoked_at < ?", arguments: [limit, limit])
        }
    }

    /// Forgets who was served readings, and the names of persons that were removed; with everybody's erasure every entry
    /// too, and all who were ever let in: their tokens are not good any more. The file is written anew, so that no octet
    /// of it is left there.
    ///
    /// - Parameters:
    ///   - routes: those that serve readings.
    ///   - people: whose clients lose their names; see ``revoke(people:now:)``.
    ///   - everybody: whether every entry and every client goes.
    public func forget(routes: [String], people: [String] = [], everybody: Bool) async throws {
        defer { if everybody { departed.ring() } }
        if everybody { visits.forget() }
        try await queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA secure_delete = ON")
            if everybody {
                try db.execute(sql: "DELETE FROM audit; DELETE FROM client; DELETE FROM secret")
            } else {
                let marks = routes.map { _ in "?" }.joined(separator: ", ")
                try db.execute(
                    sql: "DELETE FROM audit WHERE route IN (\(marks))", arguments: StatementArguments(routes))
                try scrub(people, db)
            }
            try db.execute(sql: "VACUUM")
            _ = try db.checkpoint(.truncate)
        }
    }

    /// Closes the file.
    public func close() throws { try queue.close() }

    private static let columns =
        "number, name, kind, created_at, expires_at, last_seen, revoked_at, scope, person, days"

    private static func client(_ row: Row) -> AccessClient? {
        guard let kind = AccessClient.Kind(rawValue: row[2]), let grant = grant(row[7], row[8]) else { return nil }
        func date(_ column: Int) -> Date? { (row[column] as Double?).map(Date.init(timeIntervalSince1970:)) }
        guard let createdAt = date(3), let expiresAt = date(4) else { return nil }
        let days: Int? = row[9]
        // A link shows one person's figures of so many days, and nothing else.
        guard kind != .link || grant.scope == .read && grant.person != nil && days != nil else { return nil }
        return AccessClient(
            number: row[0], name: row[1], kind: kind, grant: grant, createdAt: createdAt, expiresAt: expiresAt,
            lastSeen: date(5), revokedAt: date(6), days: days)
    }

    /// What a row's columns say; `nil` for what this version does not know, so that nobody gets in by it.
    private static func grant(_ scope: String?, _ person: String?) -> AccessGrant? {
        scope.flatMap(AccessScope.init).flatMap { AccessGrant($0, person: person) }
    }
}

/// What is known of clients and not on disk yet.
final class Visits: Sendable {
    private struct State {
        var seen: [Int64: Date] = [:]
        var revoked: Set<Int64> = []
    }

    private let state = Mutex(State())

    /// When clients were last here, where that is still to be written.
    var pending: [Int64: Date] { state.withLock(\.seen) }

    func note(_ client: Int64, _ now: Date) { state.withLock { $0.seen[client] = now } }

    /// These are on disk; who has come again meanwhile stays.
    func written(_ times: [Int64: Date]) {
        state.withLock { state in state.seen = state.seen.filter { times[$0.key] != $0.value } }
    }

    /// These are out, whether or not the disk takes it.
    func revoke(_ clients: [Int64]) { state.withLock { $0.revoked.formUnion(clients) } }
    /// There is no such client.
    func spare(_ client: Int64) { _ = state.withLock { $0.revoked.remove(client) } }
    func isRevoked(_ client: Int64) -> Bool { state.withLock { $0.revoked.contains(client) } }

    func forget() { state.withLock { $0.seen = [:] } }
}
