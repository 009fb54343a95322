import Foundation
import GRDB
import HealthReadings

/// What the authority remembers: gateways, tokens by their SHA-256, and the certificates that it has given out.
///
/// One SQLite file. Each commit is synchronised, so that a token that was used is used after a power cut too. Commands may
/// open it while the server runs.
package struct AuthorityStore: Sendable {
    package static let fileName = "authority.sqlite"
    /// `HRFA`: says in the file's header whose it is.
    private static let applicationID: Int32 = 0x4852_4641
    /// How long after its end a revoked certificate still counts as one, for verifiers whose clock is behind.
    private static let slack: Int64 = 86_400
    /// By how much a certificate may begin in the future so that its gateway is given it again. One that begins later was made
    /// under a clock that was ahead: the gateway would refuse it each time until then.
    private static let clockSlack: Int64 = 3600
    /// How many certificates that haven't ended a gateway may have if it renews: each would be in the list if it were revoked,
    /// and a list that is too long is read by nobody. One in order has two.
    static let mostCertificates = 100

    private let queue: DatabaseQueue

    /// A certificate that was given out.
    struct Issued: Sendable, Hashable {
        var serial: String
        var gateway: String
        var keyDigest: String
        var pem: String
        var from: Instant
        var until: Instant
    }

    /// A gateway as `ca list` shows it.
    package struct Gateway: Sendable, Hashable {
        package var id: String
        package var revoked: Instant?
        /// When its newest certificate ends; `nil`: it has none.
        package var until: Instant?
        package var serial: String?
        /// When its open token ends; `nil`: it has none.
        package var tokenUntil: Instant?
        /// Whether the broker should let it in.
        package var isWantedAtBroker: Bool
        /// Whether the broker does as it should.
        package var isSettledAtBroker: Bool
        package var brokerError: String?
    }

    /// Opens the file of a directory, making it if there is none.
    package init(directory: String) throws(AuthorityError) {
        let path = directory + "/" + Self.fileName
        for suffix in ["", "-journal"] where !FileKind(at: path + suffix).isAbsentOrRegular {
            throw .unusableFile(path: path + suffix, reason: "it is no ordinary file")
        }
        let isNew = access(path, F_OK) != 0
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unusableFile(path: path, reason: String(cString: strerror(errno))) }
        close(descriptor)
        if isNew { _ = synchronizeDirectory(directory) }
        var configuration = Configuration()
        configuration.label = "healthrelay.authority"
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")
        }
        do {
            queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.inDatabase { db in try Self.prepare(db) }
        } catch let error as AuthorityError {
            throw error
        } catch {
            throw .store("\(error)")
        }
    }

    private static func prepare(_ db: Database) throws {
        try db.inTransaction(.immediate) {
            let isEmpty = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") == 0
            guard try isEmpty || Int32.fetchOne(db, sql: "PRAGMA application_id") == applicationID else {
                throw AuthorityError.store("\(fileName) wasn't made by healthrelay-collector ca")
            }
            let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
            guard version <= 1 else {
                throw AuthorityError.store("\(fileName) is of a newer version (\(version)); update the program")
            }
            if version < 1 { try db.execute(sql: schema) }
            try db.execute(sql: "PRAGMA application_id = \(applicationID); PRAGMA user_version = 1")
            return .commit
        }
    }

    private static let schema = """
        CREATE TABLE gateway(
            id TEXT PRIMARY KEY, revoked INTEGER, wanted INTEGER NOT NULL DEFAULT 0,
            settled INTEGER NOT NULL DEFAULT 1, broker_error TEXT) STRICT;
        CREATE TABLE token(
            digest TEXT PRIMARY KEY, gateway TEXT NOT NULL REFERENCES gateway(id), made INTEGER NOT NULL,
            expires INTEGER NOT NULL, used INTEGER, key_digest TEXT) STRICT;
        CREATE TABLE certificate(
            serial TEXT PRIMARY KEY, gateway TEXT NOT NULL REFERENCES gateway(id), key_digest TEXT NOT NULL,
            pem TEXT NOT NULL, not_before INTEGER NOT NULL, not_after INTEGER NOT NULL, revoked INTEGER) STRICT;
        CREATE INDEX certificate_of_gateway ON certificate(gateway, key_digest);
        CREATE TABLE list(number INTEGER NOT NULL) STRICT;
        INSERT INTO list VALUES (0);
        """

    private func write<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(AuthorityError) -> Result {
        do {
            return try await queue.writeWithoutTransaction { db in
                var result: Result?
                try db.inTransaction(.immediate) {
                    result = try body(db)
                    return .commit
                }
                guard let result else { throw AuthorityError.store("a transaction without a result") }
                return result
            }
        } catch let error as AuthorityError {
            throw error
        } catch {
            throw .store("\(error)")
        }
    }

    private func read<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(AuthorityError) -> Result {
        do {
            return try await queue.read(body)
        } catch let error as AuthorityError {
            throw error
        } catch {
            throw .store("\(error)")
        }
    }

    // MARK: Tokens

    /// Notes a token. Those of the gateway that nobody has used are withdrawn.
    ///
    /// - Parameters:
    ///   - readmits: whether a gateway that was revoked may come back.
    ///   - hasBroker: whether a broker is given the gateway's user again.
    ///   - oldCertificatesAreHarmless: whether the broker may be, although a revoked certificate hasn't ended.
    func add(
        token digest: String, for gateway: String, at now: Instant, until end: Instant, readmits: Bool,
        hasBroker: Bool, oldCertificatesAreHarmless: Bool
    ) async throws(AuthorityError) {
        try await write { db in
            try Self.requireOwnQueues(gateway, db)
            try db.execute(sql: "INSERT INTO gateway(id) VALUES (?) ON CONFLICT DO NOTHING", arguments: [gateway])
            if !readmits, let since = try Self.revoked(gateway, db) {
                throw AuthorityError.revoked(gateway: gateway, since: since)
            }
            // A broker has done something about the gateway: there is one, though these settings may not name it.
            let isAtBroker = try Bool.fetchOne(
                db, sql: "SELECT settled FROM gateway WHERE id = ?", arguments: [gateway])
            // Whether the gateway is marked as revoked doesn't matter: a database from a backup knows only the list.
            if !oldCertificatesAreHarmless, hasBroker || isAtBroker == true,
                let last = try Self.endOfRevoked(gateway, at: now, db)
            {
                throw AuthorityError.revokedCertificateGood(gateway: gateway, until: last)
            }
            try db.execute(sql: "UPDATE gateway SET revoked = NULL WHERE id = ?", arguments: [gateway])
            try db.execute(sql: "DELETE FROM token WHERE gateway = ? AND used IS NULL", arguments: [gateway])
            try db.execute(sql: "DELETE FROM token WHERE expires < ?", arguments: [now.seconds - 30 * 86_400])
            try db.execute(
                sql: "INSERT INTO token(digest, gateway, made, expires) VALUES (?, ?, ?, ?)",
                arguments: [digest, gateway, now.seconds, end.seconds])
        }
    }

    /// Refuses a new gateway's id where a test of one gateway would use the other one's queue at the broker.
    private static func requireOwnQueues(_ gateway: String, _ db: Database) throws {
        let ids = try String.fetchAll(db, sql: "SELECT id FROM gateway")
        guard !ids.contains(gateway) else { return }
        func isTest(_ id: String, of other: String) -> Bool {
            let prefix = String(other.prefix(19)) + "-t"
            let rest = id.dropFirst(prefix.count)
            return id.hasPrefix(prefix) && !rest.isEmpty && rest.utf8.allSatisfy { (0x30...0x39).contains($0) }
        }
        if let other = ids.first(where: { isTest($0, of: gateway) || isTest(gateway, of: $0) }) {
            throw AuthorityError.nameTaken(
                gateway, reason: "tests of a gateway add -t and a number to its id, and there is a gateway \(other)")
        }
    }

    /// Uses a token up and notes the certificate, or finds the one that the same key has got with it.
    ///
    /// Both happen in one transaction: of two requests at a time one wins, and a process that is killed has done all of
    /// it or nothing.
    func enrol(
        token digest: String, gateway: String, keyDigest: String, at now: Instant,
        sign: @escaping @Sendable () throws -> Issued
    ) async throws(AuthorityError) -> Issued {
        try await write { db in
            guard let row = try Row.fetchOne(db, sql: "SELECT * FROM token WHERE digest = ?", arguments: [digest])
            else { throw AuthorityError.unknownToken }
            let owner: String = row["gateway"]
            guard owner == gateway else { throw AuthorityError.otherGateway(expected: owner, found: gateway) }
            if let since = try Self.revoked(gateway, db) {
                throw AuthorityError.revoked(gateway: gateway, since: since)
            }
            let end = Instant(seconds: row["expires"])
            guard now < end else { throw AuthorityError.tokenExpired(end) }
            if let used: Int64 = row["used"] {
                let known: String? = row["key_digest"]
                guard known == keyDigest, let issued = try Self.issued(gateway, keyDigest, after: now, db) else {
                    throw AuthorityError.tokenUsed(Instant(seconds: used))
                }
                return issued
            }
            try Self.requireFreshKey(keyDigest, gateway, db)
            try db.execute(
                sql: "UPDATE token SET used = ?, key_digest = ? WHERE digest = ?",
                arguments: [now.seconds, keyDigest, digest])
            let issued = try sign()
            try Self.insert(issued, db)
            try db.execute(
                sql: "UPDATE gateway SET wanted = 1, settled = 0, broker_error = NULL WHERE id = ?",
                arguments: [gateway])
            return issued
        }
    }

    /// Notes the certificate that takes the place of another, or finds the one that the same key has got already.
    func renew(
        serial: String, gateway: String, keyDigest: String, at now: Instant,
        sign: @escaping @Sendable () throws -> Issued
    ) async throws(AuthorityError) -> Issued {
        try await write { db in
            if let since = try Self.revoked(gateway, db) {
                throw AuthorityError.revoked(gateway: gateway, since: since)
            }
            let row = try Row.fetchOne(
                db, sql: "SELECT gateway, revoked FROM certificate WHERE serial = ?", arguments: [serial])
            guard let row, row["gateway"] == gateway else { throw AuthorityError.unknownCertificate }
            if let revoked: Int64 = row["revoked"] {
                throw AuthorityError.revoked(gateway: gateway, since: Instant(seconds: revoked))
            }
            if let issued = try Self.issued(gateway, keyDigest, after: now, db) { return issued }
            let count = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM certificate WHERE gateway = ? AND not_after > ? AND revoked IS NULL",
                arguments: [gateway, now.seconds])
            guard count ?? 0 < Self.mostCertificates else {
                throw AuthorityError.tooManyCertificates(gateway: gateway)
            }
            try Self.requireFreshKey(keyDigest, gateway, db)
            let issued = try sign()
            try Self.insert(issued, db)
            return issued
        }
    }

    private static func revoked(_ gateway: String, _ db: Database) throws -> Instant? {
        try Int64.fetchOne(
            db, sql: "SELECT revoked FROM gateway WHERE id = ? AND revoked IS NOT NULL", arguments: [gateway]
        ).map(Instant.init(seconds:))
    }

    private static func endOfRevoked(_ gateway: String, at now: Instant, _ db: Database) throws -> Instant? {
        let last = try Int64.fetchOne(
            db, sql: "SELECT max(not_after) FROM certificate WHERE gateway = ? AND revoked IS NOT NULL",
            arguments: [gateway])
        return last.map { Instant(seconds: $0 + slack) }.flatMap { $0 > now ? $0 : nil }
    }

    /// Until when somebody who looks at no revocation list takes a gateway's revoked certificates; `nil`: all have ended.
    package func endOfRevoked(_ gateway: String, at now: Instant) async throws(AuthorityError) -> Instant? {
        try await read { db in try Self.endOfRevoked(gateway, at: now, db) }
    }

    /// Refuses a key that was revoked, which somebody else may have, and one of another gateway.
    private static func requireFreshKey(_ keyDigest: String, _ gateway: String, _ db: Database) throws {
        let isUsed = try Bool.fetchOne(
            db,
            sql: "SELECT 1 FROM certificate WHERE key_digest = ? AND (gateway <> ? OR revoked IS NOT NULL) LIMIT 1",
            arguments: [keyDigest, gateway])
        if isUsed != nil { throw AuthorityError.keyUsed }
    }

    private static func issued(
        _ gateway: String, _ keyDigest: String, after now: Instant, _ db: Database
    ) throws -> Issued? {
        try Row.fetchOne(
            db,
            sql: """
                SELECT * FROM certificate WHERE gateway = ? AND key_digest = ? AND revoked IS NULL AND not_after > ?
                    AND not_before <= ?
                ORDER BY not_after DESC LIMIT 1
                """, arguments: [gateway, keyDigest, now.seconds, now.seconds + clockSlack]
        ).map { row in
            Issued(
                serial: row["serial"], gateway: gateway, keyDigest: keyDigest, pem: row["pem"],
                from: Instant(seconds: row["not_before"]), until: Instant(seconds: row["not_after"]))
        }
    }

    private static func insert(_ issued: Issued, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO certificate(serial, gateway, key_digest, pem, not_before, not_after)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                issued.serial, issued.gateway, issued.keyDigest, issued.pem, issued.from.seconds, issued.until.seconds,
            ])
    }

    // MARK: Revocation

    /// Marks a gateway and all of its certificates as revoked, and withdraws its tokens.
    ///
    /// - Returns: how many certificates that had not ended it had.
    func revoke(_ gateway: String, at now: Instant) async throws(AuthorityError) -> Int {
        try await write { db in
            guard try Bool.fetchOne(db, sql: "SELECT 1 FROM gateway WHERE id = ?", arguments: [gateway]) != nil else {
                throw AuthorityError.noSuchGateway(gateway)
            }
            try db.execute(
                sql: """
                    UPDATE gateway SET revoked = coalesce(revoked, ?), wanted = 0, settled = 0, broker_error = NULL
                    WHERE id = ?
                    """, arguments: [now.seconds, gateway])
            try db.execute(sql: "DELETE FROM token WHERE gateway = ?", arguments: [gateway])
            let count = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM certificate WHERE gateway = ? AND revoked IS NULL AND not_after > ?",
                arguments: [gateway, now.seconds])
            // Also those that have ended: this machine's clock may be ahead, and the list would lack them for good.
            try db.execute(
                sql: "UPDATE certificate SET revoked = ? WHERE gateway = ? AND revoked IS NULL",
                arguments: [now.seconds, gateway])
            // A process that is killed before it has written the list leaves one with another number.
            try db.execute(sql: "UPDATE list SET number = number + 1")
            return count ?? 0
        }
    }

    /// The number that the newest list has to have.
    func listNumber() async throws(AuthorityError) -> Int64 {
        try await read { db in try Int64.fetchOne(db, sql: "SELECT number FROM list") ?? 0 }
    }

    /// Has a list made of what is revoked, under the next number. Two processes do it one after the other.
    ///
    /// What a former list refuses stays refused, also if the database is an older copy that knows nothing of it.
    ///
    /// - Parameters:
    ///   - known: the list in its place.
    ///   - write: told the entries, the number, and how many certificates the database had forgotten.
    func writeList(
        after known: RevocationList?, at now: Instant,
        _ write: @escaping @Sendable ([RevocationList.Entry], Int64, Int) throws -> Void
    ) async throws(AuthorityError) {
        try await self.write { db in
            var (strangers, forgotten): ([RevocationList.Entry], Int) = ([], 0)
            for entry in known?.entries ?? [] {
                try db.execute(
                    sql: "UPDATE certificate SET revoked = ? WHERE serial = ? AND revoked IS NULL",
                    arguments: [entry.since.seconds, entry.serial.serialText])
                forgotten += db.changesCount
                let row = try Int64.fetchOne(
                    db, sql: "SELECT not_after FROM certificate WHERE serial = ?", arguments: [entry.serial.serialText])
                // Nobody knows when it ends, but no certificate is good for longer than this.
                if row == nil, now < entry.since.advanced(bySeconds: Authority.longestLifetime + 86_400) {
                    strangers.append(entry)
                }
            }
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT serial, revoked FROM certificate WHERE revoked IS NOT NULL AND not_after > ?
                    ORDER BY revoked, serial
                    """, arguments: [now.seconds - Self.slack])
            let number = max(try Int64.fetchOne(db, sql: "SELECT number FROM list") ?? 0, known?.number ?? 0) + 1
            try db.execute(sql: "UPDATE list SET number = ?", arguments: [number])
            let own = rows.map { row in
                RevocationList.Entry(
                    serial: [UInt8](serial: row["serial"]), since: Instant(seconds: row["revoked"]))
            }
            try write(own + strangers, number, forgotten)
        }
    }

    // MARK: Gateways

    /// All gateways, by their ids.
    package func gateways(at now: Instant) async throws(AuthorityError) -> [Gateway] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT g.*, (SELECT max(expires) FROM token
                                 WHERE gateway = g.id AND used IS NULL AND expires > ?) AS token_until,
                        c.serial, c.not_after
                    FROM gateway g LEFT JOIN certificate c ON c.serial =
                        (SELECT serial FROM certificate WHERE gateway = g.id ORDER BY not_after DESC, serial LIMIT 1)
                    ORDER BY g.id
                    """, arguments: [now.seconds]
            ).map { row in
                let (revoked, until, token): (Int64?, Int64?, Int64?) = (
                    row["revoked"], row["not_after"], row["token_until"]
                )
                return Gateway(
                    id: row["id"], revoked: revoked.map(Instant.init(seconds:)),
                    until: until.map(Instant.init(seconds:)), serial: row["serial"],
                    tokenUntil: token.map(Instant.init(seconds:)), isWantedAtBroker: row["wanted"],
                    isSettledAtBroker: row["settled"], brokerError: row["broker_error"])
            }
        }
    }

    /// Notes what the broker did.
    ///
    /// - Parameter error: why it did nothing; `nil`: it did.
    func settle(_ gateway: String, isWanted: Bool, error: String?) async throws(AuthorityError) {
        try await write { db in
            try db.execute(
                sql: "UPDATE gateway SET settled = ?, broker_error = ? WHERE id = ? AND wanted = ?",
                arguments: [error == nil, error, gateway, isWanted])
            guard db.changesCount == 0 else { return }
            // It was revoked, or enrolled, meanwhile. Which of the two came last to the broker isn't known: it is told again.
            try Self.unsettle([gateway], db)
        }
    }

    /// Has the broker told again what it should do about gateways.
    func unsettle(_ gateways: [String]) async throws(AuthorityError) {
        try await write { db in try Self.unsettle(gateways, db) }
    }

    private static func unsettle(_ gateways: [String], _ db: Database) throws {
        for gateway in gateways {
            try db.execute(sql: "UPDATE gateway SET settled = 0 WHERE id = ?", arguments: [gateway])
        }
    }
}
