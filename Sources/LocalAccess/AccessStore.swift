import Foundation
import GRDB
import Glibc

/// Who may use the gateway over the network, and what they did: a file of its own beside the store of readings.
///
/// Of a token only its SHA-256 is kept. The audit log is kept for 90 days.
public struct AccessStore: Sendable {
    /// The file's name in the state directory.
    public static let fileName = "access.sqlite"
    /// How long the audit log is kept, in seconds.
    public static let auditLifetime: TimeInterval = 90 * 86_400
    /// How long a token is good at most, in seconds.
    public static let tokenLifetime: TimeInterval = 30 * 86_400

    private let queue: AccessQueue
    let departed = Departures()

    /// Opens the list of a state directory, making it where it is missing (mode 0600).
    public init(directory: String) throws {
        let path = directory + "/" + Self.fileName
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
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
        return migrator
    }()

    /// Lets a client in.
    ///
    /// - Parameter expiresAt: when its token ends to be good.
    public func admit(
        _ name: String, as kind: AccessClient.Kind, now: Date, expiresAt: Date
    ) async throws -> (token: AccessToken, client: AccessClient) {
        let token = AccessToken()
        let name = AccessClient.cleaned(name)
        let digest = Data(token.digest)
        let number = try await queue.write { db in
            try db.execute(
                sql: "INSERT INTO client (digest, name, kind, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
                arguments: [
                    digest, name, kind.rawValue, now.timeIntervalSince1970, expiresAt.timeIntervalSince1970,
                ])
            return db.lastInsertedRowID
        }
        let client = AccessClient(number: number, name: name, kind: kind, createdAt: now, expiresAt: expiresAt)
        return (token, client)
    }

    /// The client whose token this is, where it is good; notes to the minute that it was here.
    public func client(with token: AccessToken, now: Date) async throws -> AccessClient? {
        let digest = Data(token.digest)
        let found = try await queue.read { db in
            try Row.fetchOne(db, sql: "SELECT \(Self.columns) FROM client WHERE digest = ?", arguments: [digest])
                .flatMap(Self.client)
        }
        guard let client = found, client.isWelcome(at: now) else { return nil }
        if client.lastSeen.map({ now.timeIntervalSince($0) >= 60 }) ?? true {
            try await queue.write { db in
                try db.execute(
                    sql: "UPDATE client SET last_seen = ? WHERE number = ?",
                    arguments: [now.timeIntervalSince1970, client.number])
            }
        }
        return client
    }

    /// All clients that were ever let in and not forgotten, the newest first.
    public func clients() async throws -> [AccessClient] {
        try await queue.read { db in
            try Row.fetchAll(db, sql: "SELECT \(Self.columns) FROM client ORDER BY number DESC").compactMap(Self.client)
        }
    }

    /// Whether a client's token is good.
    public func isWelcome(_ number: Int64, now: Date) async throws -> Bool {
        try await queue.read { db in
            try Row.fetchOne(db, sql: "SELECT \(Self.columns) FROM client WHERE number = ?", arguments: [number])
                .flatMap(Self.client)
        }?.isWelcome(at: now) ?? false
    }

    /// Puts a client out; its token is not good any more.
    ///
    /// - Returns: whether there was one to put out.
    public func revoke(_ number: Int64, now: Date) async throws -> Bool {
        defer { departed.ring() }
        return try await queue.write { db in
            try db.execute(
                sql: "UPDATE client SET revoked_at = ? WHERE number = ? AND revoked_at IS NULL",
                arguments: [now.timeIntervalSince1970, number])
            return db.changesCount > 0
        }
    }

    /// Puts everybody out.
    ///
    /// - Returns: how many there were.
    public func revokeAll(now: Date) async throws -> Int {
        defer { departed.ring() }
        return try await queue.write { db in
            try db.execute(
                sql: "UPDATE client SET revoked_at = ? WHERE revoked_at IS NULL AND expires_at > ?",
                arguments: [now.timeIntervalSince1970, now.timeIntervalSince1970])
            return db.changesCount
        }
    }

    /// Writes entries of the audit log.
    func record(_ entries: [AuditEntry]) async throws {
        try await queue.write { db in
            for entry in entries {
                try db.execute(
                    sql: "INSERT INTO audit (at, event, client, route, status, count) VALUES (?, ?, ?, ?, ?, ?)",
                    arguments: [
                        entry.at.timeIntervalSince1970, entry.event, entry.client, entry.route, entry.status,
                        entry.count,
                    ])
            }
        }
    }

    /// The newest entries of the audit log, the newest first.
    func audit(limit: Int) async throws -> [AuditEntry] {
        try await queue.read { db in
            try Row.fetchAll(
                db, sql: "SELECT at, event, client, route, status, count FROM audit ORDER BY key DESC LIMIT ?",
                arguments: [limit]
            ).map { row in
                AuditEntry(
                    at: Date(timeIntervalSince1970: row[0]), event: row[1], client: row[2], route: row[3],
                    status: row[4], count: row[5])
            }
        }
    }

    /// Forgets what is older than 90 days: the audit log's entries, and clients whose token ended then.
    public func prune(now: Date) async throws {
        let limit = now.timeIntervalSince1970 - Self.auditLifetime
        try await queue.write { db in
            try db.execute(sql: "DELETE FROM audit WHERE at < ?", arguments: [limit])
            try db.execute(
                sql: "DELETE FROM client WHERE expires_at < ? OR revoked_at < ?", arguments: [limit, limit])
        }
    }

    /// Forgets who was served readings; with everybody's erasure every entry too, and all who were ever let in: their
    /// tokens are not good any more. The file is written anew, so that no octet of it is left there.
    ///
    /// - Parameter routes: those that serve readings.
    public func forget(routes: [String], everybody: Bool) async throws {
        defer { if everybody { departed.ring() } }
        try await queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA secure_delete = ON")
            if everybody {
                try db.execute(sql: "DELETE FROM audit; DELETE FROM client")
            } else {
                let marks = routes.map { _ in "?" }.joined(separator: ", ")
                try db.execute(
                    sql: "DELETE FROM audit WHERE route IN (\(marks))", arguments: StatementArguments(routes))
            }
            try db.execute(sql: "VACUUM")
            _ = try db.checkpoint(.truncate)
        }
    }

    /// Closes the file.
    public func close() throws { try queue.close() }

    private static let columns = "number, name, kind, created_at, expires_at, last_seen, revoked_at"

    private static func client(_ row: Row) -> AccessClient? {
        guard let kind = AccessClient.Kind(rawValue: row[2]) else { return nil }
        func date(_ column: Int) -> Date? { (row[column] as Double?).map(Date.init(timeIntervalSince1970:)) }
        guard let createdAt = date(3), let expiresAt = date(4) else { return nil }
        return AccessClient(
            number: row[0], name: row[1], kind: kind, createdAt: createdAt, expiresAt: expiresAt, lastSeen: date(5),
            revokedAt: date(6))
    }
}
