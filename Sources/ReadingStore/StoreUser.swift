import Foundation
import GRDB
import HealthReadings
import Synchronization

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
    ///
    /// - Throws: ``StoreError/corrupt(detail:)`` if their row was changed outside of this program, as every function does
    ///   that returns a person. Without the key (``lockedBecause``) rows are returned as they are.
    public func currentUser(at destination: DestinationKey = .vital) async throws -> StoreUser {
        guard let user = try await lastUser(at: destination) else { throw StoreError.unknown("a current user") }
        return user
    }

    /// The current user; nil for a store that is new.
    func lastUser(at destination: DestinationKey = .vital) async throws -> StoreUser? {
        try await read { [sealing] db in try Self.currentUser(db, sealing, at: destination) }
    }

    /// The user with the client's id; nil where there is none.
    public func user(_ clientUserID: String, at destination: DestinationKey = .vital) async throws -> StoreUser? {
        try await read { [sealing] db in
            try Self.user(db, sealing, named: clientUserID, at: destination)
        }
    }

    /// The user with the store's number; nil where there is none.
    public func user(_ key: UserKey, at destination: DestinationKey = .vital) async throws -> StoreUser? {
        try await read { [sealing] db in
            try Self.user(db, sealing, where: "key = ?", [key.rawValue], at: destination)
        }
    }

    /// All users, in the order they were made.
    public func users(at destination: DestinationKey = .vital) async throws -> [StoreUser] {
        try await read { [sealing] db in
            try Row.fetchAll(db.cachedStatement(sql: "SELECT key FROM user ORDER BY key")).compactMap { row in
                try Self.user(db, sealing, where: "key = ?", [try row.value(0) as Int64], at: destination)
            }
        }
    }

    /// Makes the user current, creating them where the store does not know them. Readings stay with whom they belong to.
    ///
    /// - Parameters:
    ///   - clientUserID: the person's name here and at destinations.
    ///   - timeZone: an IANA id; where it differs from the user's newest, a zone change begins now.
    /// - Throws: ``StoreError/unknownTimeZone(_:)``; ``lockedBecause`` if the key is missing and the store does not know
    ///   the user yet; or an error of the database.
    @discardableResult
    public func setCurrentUser(_ clientUserID: String, timeZone: String) async throws -> StoreUser {
        let now = now()
        return try await write(.user) { [sealing] db in
            guard let user = try Self.adoptUser(db, sealing, clientUserID, timeZone: timeZone, now: now) else {
                throw sealing.refusal ?? StoreError.unknown("user")
            }
            return user
        }
    }

    /// Makes the user of the settings current. A name that the store does not know yet waits for the key where that is
    /// missing: nothing is read for anybody before.
    func adoptUser(_ clientUserID: String, timeZone: String) async throws {
        let now = now()
        _ = try await write(.user) { [sealing] db in
            if try Self.adoptUser(db, sealing, clientUserID, timeZone: timeZone, now: now) != nil { return true }
            if try Self.currentUser(db, sealing, at: .vital) == nil {
                _ = try Self.adoptUser(db, sealing, "", timeZone: timeZone, now: now)
            }
            return false
        } committed: { [self] isKnown in
            waitingPeople.withLock { $0.current = isKnown ? nil : (clientUserID, timeZone) }
        }
    }

    /// Notes the server's id of a user; nil forgets it.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)`` if the user's row was changed outside of this program;
    ///   ``lockedBecause`` if an id is to be noted and the key is missing.
    public func setServerUserID(
        _ serverUserID: String?, of user: UserKey, at destination: DestinationKey = .vital
    ) async throws {
        try await write(.user) { [sealing] db in
            guard try Self.user(db, sealing, where: "key = ?", [user.rawValue], isChecked: false) != nil else {
                throw StoreError.unknown("user \(user.rawValue)")
            }
            guard let serverUserID else {
                return try db.execute(
                    sql: "DELETE FROM destination_user WHERE destination = ? AND user = ?",
                    arguments: [destination.rawValue, user.rawValue])
            }
            try PeopleTags(db: db, sealing: sealing).check(person: user.rawValue)
            let tag = try PersonTag.id(of: user.rawValue, at: Self.name(db, of: destination), serverUserID)
                .made(sealing)
            try db.execute(
                sql: "INSERT OR REPLACE INTO destination_user (destination, user, id, tag) VALUES (?, ?, ?, ?)",
                arguments: [destination.rawValue, user.rawValue, serverUserID, tag.map { Data($0) }])
        }
    }

    /// Forgets what destinations call the current user: each is asked again. An id that was changed outside of this program
    /// goes, too, and a source that was counts as revoked: it stays so until the owner connects it again.
    ///
    /// This ends no delivery: a worker that goes on asks the server for the person, and delivers. Where the person is to be
    /// disconnected, switch delivery off before (``setSyncEnabled(_:)``).
    ///
    /// - Throws: ``lockedBecause`` if the key is missing.
    public func forgetServerUserIDs() async throws {
        try await write(.user) { [sealing] db in
            try sealing.requireKeys()
            let current = try Int64.fetchOne(
                db, sql: "SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'user.current'")
            guard let user = current.map(UserKey.init(rawValue:)) else { return }
            try db.execute(sql: "DELETE FROM destination_user WHERE user = ?", arguments: [user.rawValue])
            for destination in try Self.destinations(db).map(\.key) {
                try Self.revokeChangedSources(db, sealing, of: user, at: destination)
            }
        }
    }

    /// The name of a destination, which the tags of its rows are bound to.
    static func name(_ db: Database, of destination: DestinationKey) throws -> String {
        try String.fetchOne(db, sql: "SELECT name FROM destination WHERE key = ?", arguments: [destination.rawValue])
            ?? ""
    }

    private static func currentUser(
        _ db: Database, _ sealing: Sealing, at destination: DestinationKey
    ) throws -> StoreUser? {
        try user(
            db, sealing, where: "key = (SELECT value FROM setting WHERE name = 'user.current')", at: destination)
    }

    /// The person with this name, in whichever of its spellings in Unicode they are known: to a person and to Swift, an é is one
    /// letter however it is composed, and to SQLite it is not.
    static func user(
        _ db: Database, _ sealing: Sealing, named name: String, at destination: DestinationKey = .vital
    ) throws -> StoreUser? {
        if let user = try user(db, sealing, where: "client_user_id = ?", [name], at: destination) { return user }
        let names = try String.fetchAll(db.cachedStatement(sql: "SELECT client_user_id FROM user ORDER BY key"))
        guard let known = names.first(where: { $0 == name }) else { return nil }
        return try user(db, sealing, where: "client_user_id = ?", [known], at: destination)
    }

    /// - Parameter isChecked: whether the row has to be as the store wrote it.
    static func user(
        _ db: Database, _ sealing: Sealing, where condition: String, _ arguments: StatementArguments = [],
        at destination: DestinationKey = .vital, isChecked: Bool = true
    ) throws -> StoreUser? {
        // Destinations ask before each batch, and there are few conditions.
        let select = try db.cachedStatement(
            sql: """
                SELECT u.key, u.client_user_id, i.id,
                    (SELECT zone FROM user_zone WHERE user = u.key ORDER BY begins_at DESC LIMIT 1),
                    u.tag, i.tag, d.name
                FROM user AS u LEFT JOIN destination_user AS i
                    ON i.user = u.key AND i.destination = \(destination.rawValue)
                LEFT JOIN destination AS d ON d.key = i.destination
                WHERE u.\(condition)
                """)
        guard let row = try Row.fetchOne(select, arguments: arguments) else { return nil }
        let user = StoreUser(
            key: UserKey(rawValue: try row.value(0)), clientUserID: try row.value(1), serverUserID: try row.value(2),
            timeZone: try (row.value(3) as String?) ?? "UTC")
        guard isChecked else { return user }
        try PersonTag.person(user.key.rawValue, clientUserID: user.clientUserID).check(row.octets(4), sealing)
        if let id = user.serverUserID {
            try PersonTag.id(of: user.key.rawValue, at: try row.value(6) ?? "", id).check(row.octets(5), sealing)
        }
        return user
    }

    /// Makes `clientUserID` the current user, with `timeZone` in force from now, or from ever for a new one.
    ///
    /// - Parameter becomesCurrent: false: only known, beside the current user.
    /// - Returns: `nil` if the store does not know the name and the key is missing that would sign it; nothing was
    ///   changed then. Somebody without a name is made all the same, and signed once the key is there.
    static func adoptUser(
        _ db: Database, _ sealing: Sealing, _ clientUserID: String, timeZone: String, now: Instant,
        becomesCurrent: Bool = true
    ) throws -> StoreUser? {
        guard ZoneRules.named(timeZone) != nil else { throw StoreError.unknownTimeZone(timeZone) }
        let people = PeopleTags(db: db, sealing: sealing)
        var known = try user(db, sealing, named: clientUserID)
        if known == nil {
            // It may be the name of one whose row was changed.
            if !clientUserID.isEmpty { try people.checkPeople() }
            guard sealing.refusal == nil || clientUserID.isEmpty else { return nil }
        }
        if known == nil, becomesCurrent, let unnamed = try user(db, sealing, where: "client_user_id = ''") {
            try db.execute(
                sql: "UPDATE user SET client_user_id = ? WHERE key = ?",
                arguments: [clientUserID, unnamed.key.rawValue])
            try people.sign(person: unnamed.key.rawValue)
            known = unnamed
            known?.clientUserID = clientUserID
        }
        if known == nil {
            try db.execute(
                sql: "INSERT INTO user (key, client_user_id, created_at) VALUES (?, ?, ?)",
                arguments: [try nextKey(db, of: "user"), clientUserID, now.microseconds])
        }
        let key = known?.key.rawValue ?? db.lastInsertedRowID
        if known == nil, sealing.refusal == nil { try people.sign(person: key) }
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
            key: UserKey(rawValue: key), clientUserID: known?.clientUserID ?? clientUserID,
            serverUserID: known?.serverUserID,
            timeZone: timeZone)
    }

    /// The zones of a user with the instants from which on they were in force, the oldest first. What the first one says of
    /// its beginning is before every reading.
    ///
    /// - Throws: ``StoreError/unknownTimeZone(_:)`` if a zone is not one of this machine's.
    public func zones(of user: UserKey) async throws -> [(begin: Instant, zone: ZoneRules)] {
        try await read { db in
            try Row.fetchAll(
                db.cachedStatement(sql: "SELECT begins_at, zone FROM user_zone WHERE user = ? ORDER BY begins_at"),
                arguments: [user.rawValue]
            ).map { row in
                let name: String = try row.value(1)
                guard let zone = ZoneRules.named(name) else { throw StoreError.unknownTimeZone(name) }
                return (Instant(microseconds: try row.value(0)), zone)
            }
        }
    }

    /// Names the zone that each item was measured in: a document that shows local times stays the same after a move.
    static func addZones(to items: inout [OutboxItem], _ db: Database, of user: Int64) throws {
        let select = try db.cachedStatement(
            sql: "SELECT begins_at, zone FROM user_zone WHERE user = ? ORDER BY begins_at")
        let zones = try Row.fetchAll(select, arguments: [user]).map { row in
            (beginning: try row.value(0) as Int64, name: try row.value(1) as String)
        }
        for index in items.indices {
            let moment = items[index].timestamp.microseconds
            items[index].timeZone = zones.last { $0.beginning <= moment }?.name
        }
    }

    /// The zone of a user that was in force at an instant.
    static func zone(_ db: Database, of user: Int64, at instant: Instant) throws -> String? {
        let select = try PreparedStatement(
            db, "SELECT zone FROM user_zone WHERE user = ? AND begins_at <= ? ORDER BY begins_at DESC LIMIT 1")
        select.bind(1, user)
        select.bind(2, instant.microseconds)
        defer { select.reset() }
        return try select.next() ? select.text(0) : nil
    }
}

/// What the settings say of people, while the key is missing that would sign them.
struct WaitingPeople: Sendable {
    var current: (clientUserID: String, timeZone: String)?
    var shared: [StorePerson]?

    /// Makes people known that have waited for the key.
    ///
    /// - Returns: what is wrong with a row, which keeps the key from nothing else.
    func apply(_ db: Database, _ sealing: Sealing, now: Instant) throws -> StoreError? {
        do {
            if let current {
                _ = try ReadingStore.adoptUser(
                    db, sealing, current.clientUserID, timeZone: current.timeZone, now: now)
            }
            if let shared { _ = try ReadingStore.adoptPeople(db, sealing, shared, now: now) }
            return nil
        } catch let error as StoreError where error.isCorrupt {
            return error
        }
    }
}
