import Crypto
import Foundation
import GRDB
import HealthReadings

extension AccessStore {
    /// How long a token for the set-up is good, in seconds.
    public static let setupTokenLifetime: TimeInterval = 3600

    /// Why a token for the set-up was not taken.
    public enum ClaimRefusal: Error, Sendable, Hashable {
        /// The gateway has an owner.
        case claimed
        /// There is no such token, or it was replaced by a newer one.
        case wrongToken
        /// The token is older than an hour.
        case expired
    }

    /// Whether the gateway has an owner, or has ever let a client in.
    public func isClaimed() async throws -> Bool { try await queue.read(Self.isClaimed) }

    private static func isClaimed(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT * FROM claim) OR EXISTS (SELECT * FROM client)") ?? true
    }

    /// Writes down that the gateway has an owner. It stays so, whatever is erased later: else whoever comes first after
    /// an erasure would own the gateway.
    ///
    /// - Parameters:
    ///   - reason: what shows it: `store`, `page`, `invite`, `link`.
    ///   - now: when.
    public func markClaimed(by reason: String, now: Date) async throws {
        try await queue.write { db in try Self.markClaimed(db, by: reason, now: now) }
    }

    private static func markClaimed(_ db: Database, by reason: String, now: Date) throws {
        try db.execute(
            sql: "INSERT OR IGNORE INTO claim (key, at, reason) VALUES (1, ?, ?)",
            arguments: [now.timeIntervalSince1970, reason])
        try db.execute(sql: "DELETE FROM setup_token")
    }

    /// Makes a token that lets one browser claim the gateway; the one before is not good any more.
    ///
    /// - Returns: the token, and when it ends to be good.
    /// - Throws: ``ClaimRefusal/claimed``, ``AccessError``.
    public func issueSetupToken(now: Date) async throws -> (token: String, expiresAt: Date) {
        var generator = SystemRandomNumberGenerator()
        let token = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }.hexadecimal()
        let (digest, end) = (Self.digest(token), now + Self.setupTokenLifetime)
        try await queue.write { db in
            guard try !Self.isClaimed(db) else { throw ClaimRefusal.claimed }
            try db.execute(
                sql: "INSERT OR REPLACE INTO setup_token (key, digest, issued_at, expires_at) VALUES (1, ?, ?, ?)",
                arguments: [digest, now.timeIntervalSince1970, end.timeIntervalSince1970])
        }
        return (token, end)
    }

    /// Lets the browser in that has the token: as the first owner. Of several at once one succeeds.
    ///
    /// - Throws: ``ClaimRefusal``, ``AccessError``.
    public func claim(
        with token: String, name: String, now: Date, expiresAt: Date
    ) async throws -> (token: AccessToken, client: AccessClient) {
        let (digest, session) = (Self.digest(token), AccessToken())
        return try await queue.write { db in
            guard try !Self.isClaimed(db) else { throw ClaimRefusal.claimed }
            let row = try Row.fetchOne(db, sql: "SELECT digest, issued_at, expires_at FROM setup_token")
            guard let row, let known: Data = row["digest"], Self.isEqual(known, digest) else {
                throw ClaimRefusal.wrongToken
            }
            // A clock that was set back must not make it live longer.
            let seconds = now.timeIntervalSince1970
            guard let begin: Double = row["issued_at"], let end: Double = row["expires_at"], seconds < end,
                seconds >= begin - 60
            else { throw ClaimRefusal.expired }
            try Self.markClaimed(db, by: "setup", now: now)
            let client = try Self.insert(
                db, session, AccessClient.cleaned(name), .page, .owner, now: now, expiresAt: expiresAt)
            return (session, client)
        }
    }

    private static func digest(_ token: String) -> Data { Data(SHA256.hash(data: Array(token.utf8))) }

    /// Takes as long whichever byte differs.
    private static func isEqual(_ lhs: Data, _ rhs: Data) -> Bool {
        lhs.count == rhs.count && zip(lhs, rhs).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
