import GRDB
import HealthReadings

/// The store's number of a user.
public struct UserKey: RawRepresentable, Sendable, Hashable {
    /// The number.
    public let rawValue: Int64
    /// Makes a key of its number.
    public init(rawValue: Int64) { self.rawValue = rawValue }
}

/// A person whose readings are kept: the client's name for them, and the server's once it is known.
public struct StoreUser: Sendable, Hashable {
    /// The store's number of the user.
    public var key: UserKey
    /// The client's id of the user: `white_bear`; empty as long as nobody has named them.
    public var clientUserID: String
    /// The id (a UUID) at the destination that was asked for, or at `vital`; nil until the user was created or adopted
    /// there.
    public var serverUserID: String?
    /// The IANA zone in force now: `Europe/Berlin`.
    public var timeZone: String
}

extension ReadingStore {
    /// The user readings belong to whose device is assigned to nobody.
    public func currentUser(at destination: DestinationKey = .vital) async throws -> StoreUser {
        guard let user = try await lastUser(at: destination) else { throw StoreError.unknown("a current user") }
        return user
    }

    /// The current user; nil for a store that is new.
    func lastUser(at destination: DestinationKey = .vital) async throws -> StoreUser? {
        try await read { db in
            try Self.user(db, where: "key = (SELECT value FROM setting WHERE name = 'user.current')", at: destination)
        }
    }

    /// The user with the client's id; nil where there is none.
    public func user(_ clientUserID: String, at destination: DestinationKey = .vital) async throws -> StoreUser? {
        try await read { db in try Self.user(db, where: "client_user_id = ?", [clientUserID], at: destination) }
    }

    /// All users, in the order they were made.
    public func users(at destination: DestinationKey = .vital) async throws -> [StoreUser] {
        try await read { db in
            try Row.fetchAll(db, sql: "SELECT key FROM user ORDER BY key").compactMap { row in
                try Self.user(db, where: "key = ?", [try row.value(0) as Int64], at: destination)
            }
        }
    }

    /// Makes the user current, creating them where the store does not know them. Readings stay with whom they belong to.
    ///
    /// - Parameters:
    ///   - clientUserID: the person's name here and at destinations.
    ///   - timeZone: an IANA id; where it differs from the user's newest, a zone change begins now.
    /// - Throws: ``StoreError/unknownTimeZone(_:)``, or an error of the database.
    @discardableResult
    public func setCurrentUser(_ clientUserID: String, timeZone: String) async throws -> StoreUser {
        let now = now()
        return try await write(.user) { db in
            try Self.adoptUser(db, clientUserID, timeZone: timeZone, now: now)
        }
    }

    /// Notes the server's id of a user; nil forgets it.
    public func setServerUserID(
        _ serverUserID: String?, of user: UserKey, at destination: DestinationKey = .vital
    ) async throws {
        try await write(.user) { db in
            guard try Self.user(db, where: "key = ?", [user.rawValue]) != nil else {
                throw StoreError.unknown("user \(user.rawValue)")
            }
            if let serverUserID {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO destination_user (destination, user, id) VALUES (?, ?, ?)",
                    arguments: [destination.rawValue, user.rawValue, serverUserID])
            } else {
                try db.execute(
                    sql: "DELETE FROM destination_user WHERE destination = ? AND user = ?",
                    arguments: [destination.rawValue, user.rawValue])
            }
        }
    }

    static func user(
        _ db: Database, where condition: String, _ arguments: StatementArguments = [],
        at destination: DestinationKey = .vital
    ) throws -> StoreUser? {
        try Row.fetchOne(
            db,
            sql: """
                SELECT key, client_user_id,
                    (SELECT id FROM destination_user WHERE user = user.key AND destination = \(destination.rawValue)),
                    (SELECT zone FROM user_zone WHERE user = user.key ORDER BY begins_at DESC LIMIT 1)
                FROM user WHERE \(condition)
                """, arguments: arguments
        ).map { row in
            StoreUser(
                key: UserKey(rawValue: try row.value(0)), clientUserID: try row.value(1),
                serverUserID: try row.value(2), timeZone: try (row.value(3) as String?) ?? "UTC")
        }
    }

    /// Makes `clientUserID` the current user, with `timeZone` in force from now, or from ever for a new one.
    ///
    /// - Parameter becomesCurrent: false: only known, beside the current user.
    static func adoptUser(
        _ db: Database, _ clientUserID: String, timeZone: String, now: Instant, becomesCurrent: Bool = true
    ) throws -> StoreUser {
        guard ZoneRules.named(timeZone) != nil else { throw StoreError.unknownTimeZone(timeZone) }
        var known = try user(db, where: "client_user_id = ?", [clientUserID])
        if known == nil, becomesCurrent, let unnamed = try user(db, where: "client_user_id = ''") {
            try db.execute(
                sql: "UPDATE user SET client_user_id = ? WHERE key = ?",
                arguments: [clientUserID, unnamed.key.rawValue])
            known = unnamed
        }
        if known == nil {
            try db.execute(
                sql: "INSERT INTO user (key, client_user_id, created_at) VALUES (?, ?, ?)",
                arguments: [try nextKey(db, of: "user"), clientUserID, now.microseconds])
        }
        let key = known?.key.rawValue ?? db.lastInsertedRowID
        if known?.timeZone != timeZone {
            try db.execute(
                sql: "INSERT OR REPLACE INTO user_zone (user, begins_at, zone) VALUES (?, ?, ?)",
                arguments: [key, known == nil ? Int64.min : now.microseconds, timeZone])
        }
        if becomesCurrent {
            try db.execute(
                sql: "INSERT OR REPLACE INTO setting (name, value) VALUES ('user.current', ?)",
                arguments: [String(key)])
        }
        return StoreUser(
            key: UserKey(rawValue: key), clientUserID: clientUserID, serverUserID: known?.serverUserID,
            timeZone: timeZone)
    }

    /// The zone of a user that was in force at an instant.
    static func zone(_ db: Database, of user: Int64, at instant: Instant) throws -> String? {
        try String.fetchOne(
            db, sql: "SELECT zone FROM user_zone WHERE user = ? AND begins_at <= ? ORDER BY begins_at DESC LIMIT 1",
            arguments: [user, instant.microseconds])
    }
}
