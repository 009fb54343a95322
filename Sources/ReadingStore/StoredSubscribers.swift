import Crypto
import Foundation
import GRDB
import HealthReadings
import Synchronization

/// Somebody who reads changes under a name, so that the store knows where they are.
public struct Subscriber: Sendable, Hashable {
    /// The name: `[a-z0-9_-]`, at most 64 characters.
    public var name: String
    /// Everything up to here was taken.
    public var position: ChangePosition
    /// The kinds that it is given; `nil`: all.
    public var kinds: Set<ReadingKind>?
    /// The client's id of the person whose readings it is given; `nil`: everybody's.
    public var person: String?
    /// How many changes wait for it.
    public var waiting: Int
    /// When the name was first used.
    public var createdAt: Instant
    /// When it last took something.
    public var advancedAt: Instant?
    /// Whether somebody reads under the name now.
    public var isAttached: Bool
}

/// Why nobody can read under a name.
public enum SubscriberError: Error, Sendable, Hashable {
    /// A name may have `[a-z0-9_-]`, and 64 characters at most.
    case invalidName(String)
    /// Somebody reads under this name at the moment: two would each get a part.
    case inUse(String)
    /// The name was first used for other kinds, or for another person: what it was not given then would be lost.
    case otherScope(String)
    /// There is no such subscriber, or it was removed meanwhile.
    case unknown(String)
    /// The name was for one person, who was erased: under the same name nobody gets other people's changes by accident.
    case ended(String)
}

extension SubscriberError: CustomStringConvertible {
    /// The error's published name in snake_case.
    public var code: String {
        switch self {
        case .invalidName: "subscriber_name_invalid"
        case .inUse: "subscriber_in_use"
        case .otherScope: "subscriber_differs"
        case .unknown, .ended: "no_such_subscriber"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .invalidName(let name):
            "expected a subscriber's name of a-z, 0-9, _ and -, 64 at most, found '\(name.prefix(80))'"
        case .inUse(let name): "somebody reads as the subscriber \(name) at the moment"
        case .otherScope(let name): "the subscriber \(name) was made for other kinds, or for another person"
        case .unknown(let name): "there is no subscriber \(name.prefix(80))"
        case .ended(let name):
            "the subscriber \(name) was for a person who was erased"
        }
    }

    /// What to do next, for people.
    public var hint: String {
        switch self {
        case .invalidName: "Choose another name."
        case .inUse: "Stop the other one, or choose another name."
        case .otherScope:
            "Leave the kinds and the person out to go on as it was made, choose another name, or remove it first: "
                + "`healthrelay subscriber remove NAME`."
        case .unknown: "`healthrelay subscriber list` shows them."
        case .ended: "`healthrelay subscriber remove NAME` frees the name for other changes."
        }
    }
}

extension ReadingStore {
    /// Where a new subscriber begins.
    public enum SubscriberStart: String, Codable, Sendable, Hashable {
        /// With everything that is stored.
        case beginning
        /// With what comes next.
        case now
    }

    /// Reads changes under a name: from where whoever read under it last had noted that it had them, or, for a new name,
    /// from `start`. Only one at a time reads under a name.
    ///
    /// ```swift
    /// let subscription = try await store.subscribe(as: "dashboard", from: .beginning)
    /// for try await page in subscription.pages() {
    ///     for change in page.changes { print(change.reading?.document.text ?? "\(change.event)") }
    ///     // Only now: what was not shown comes again.
    ///     try await subscription.advance(to: page.position)
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - name: the name.
    ///   - scope: which changes; `nil`: those that the name was made for, or all for a new one.
    ///   - start: where a new name begins; one that is known goes on where it was.
    /// - Throws: ``SubscriberError``; an error of the database.
    public func subscribe(
        as name: String, to scope: ChangeScope? = nil, from start: SubscriberStart = .now
    ) async throws -> Subscription {
        guard Self.isSubscriberName(name) else { throw SubscriberError.invalidName(name) }
        guard attached.withLock({ $0.insert(name).inserted }) else { throw SubscriberError.inUse(name) }
        do {
            let (position, scope) = try await adopt(name, scope, start)
            return Subscription(name: name, store: self, position: position, scope: scope)
        } catch {
            detach(name)
            throw error
        }
    }

    private static func isSubscriberName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { octet in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(octet)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet) || octet == UInt8(ascii: "_")
                    || octet == UInt8(ascii: "-")
            }
    }

    private func adopt(
        _ name: String, _ scope: ChangeScope?, _ start: SubscriberStart
    ) async throws -> (ChangePosition, ChangeScope) {
        let now = now()
        return try await write(.subscriber) { db in
            let changes = Changes(db: db)
            let feed = try changes.feed()
            if let known = try Self.subscriberRow(db, name) {
                guard scope?.isSame(as: known.scope) ?? true else { throw SubscriberError.otherScope(name) }
                return (ChangePosition(feed: feed, number: known.position), known.scope)
            }
            guard try scope?.person != nil || !Self.hasEnded(db, name) else { throw SubscriberError.ended(name) }
            let (scope, position) = (scope ?? .everything, start == .now ? try changes.newest() : 0)
            try db.execute(
                sql: "INSERT INTO subscriber (name, position, kinds, user, created_at) VALUES (?, ?, ?, ?, ?)",
                arguments: [name, position, scope.bits, scope.person?.rawValue, now.microseconds])
            return (ChangePosition(feed: feed, number: position), scope)
        }
    }

    /// The names that were for erased people, as hashes: a name may tell of its person.
    private static let endedSetting = "subscribers.ended"

    private static func endedMark(_ name: String) -> String {
        SHA256.hash(data: Data("subscriber\u{0}\(name)".utf8)).hexadecimal()
    }

    private static func hasEnded(_ db: Database, _ name: String) throws -> Bool {
        try lines(db, endedSetting).contains(endedMark(name))
    }

    /// Ends the subscribers of a person who is erased.
    static func endSubscribers(of user: Int64, _ db: Database) throws {
        let names = try String.fetchAll(db, sql: "SELECT name FROM subscriber WHERE user = ?", arguments: [user])
        try set(db, endedSetting, lines: Set(lines(db, endedSetting) + names.map(endedMark)).sorted())
        try db.execute(sql: "DELETE FROM subscriber WHERE user = ?", arguments: [user])
    }

    /// Everybody who reads changes under a name, by name.
    public func subscriberList() async throws -> [Subscriber] {
        let attached = attached.withLock(\.self)
        return try await read { [sealing] db in
            let feed = try Changes(db: db).feed()
            let people = PeopleCache(db, sealing)
            return try String.fetchAll(db, sql: "SELECT name FROM subscriber ORDER BY name").compactMap { name in
                guard let row = try Self.subscriberRow(db, name) else { return nil }
                return Subscriber(
                    name: name, position: ChangePosition(feed: feed, number: row.position), kinds: row.scope.kinds,
                    person: try row.scope.person.flatMap { try people.name($0.rawValue) },
                    waiting: try ChangeCount(db, row.scope).count(after: row.position), createdAt: row.createdAt,
                    advancedAt: row.advancedAt, isAttached: attached.contains(name))
            }
        }
    }

    /// Whether there is a subscriber of this name.
    public func hasSubscriber(_ name: String) async throws -> Bool {
        try await read { db in try Self.subscriberRow(db, name) != nil }
    }

    /// Forgets a subscriber: whoever reads under the name is told so when they next note where they are.
    ///
    /// - Throws: ``SubscriberError/unknown(_:)``.
    public func removeSubscriber(_ name: String) async throws {
        let isGone = try await write(.subscriber) { db in
            try db.execute(sql: "DELETE FROM subscriber WHERE name = ?", arguments: [name])
            let (isKnown, hadEnded) = (db.changesCount > 0, try Self.hasEnded(db, name))
            if hadEnded {
                let mark = Self.endedMark(name)
                try Self.set(db, Self.endedSetting, lines: Self.lines(db, Self.endedSetting).filter { $0 != mark })
            }
            return isKnown || hadEnded
        }
        guard isGone else { throw SubscriberError.unknown(name) }
        changeBells.ring()
    }

    fileprivate func advance(_ name: String, to position: ChangePosition) async throws {
        let now = now()
        let isKnown = try await write(.subscriber) { db in
            let changes = Changes(db: db)
            guard try position.feed == changes.feed(), try position.number <= changes.newest() else {
                throw StoreError.unknownPosition
            }
            try db.execute(
                sql: "UPDATE subscriber SET position = max(position, ?), advanced_at = ? WHERE name = ?",
                arguments: [position.number, now.microseconds, name])
            return db.changesCount > 0
        }
        guard isKnown else { throw SubscriberError.unknown(name) }
    }

    fileprivate func detach(_ name: String) { attached.withLock { _ = $0.remove(name) } }

    private struct SubscriberRow {
        var position: Int64
        var scope: ChangeScope
        var createdAt: Instant
        var advancedAt: Instant?
    }

    private static func subscriberRow(_ db: Database, _ name: String) throws -> SubscriberRow? {
        try Row.fetchOne(
            db, sql: "SELECT position, kinds, user, created_at, advanced_at FROM subscriber WHERE name = ?",
            arguments: [name]
        ).map { row in
            SubscriberRow(
                position: try row.value(0),
                scope: ChangeScope(
                    bits: try row.value(1), person: (try row.value(2) as Int64?).map(UserKey.init(rawValue:))),
                createdAt: Instant(microseconds: try row.value(3)),
                advancedAt: (try row.value(4) as Int64?).map(Instant.init(microseconds:)))
        }
    }
}

/// One reader's turn under a name; it ends with ``end()``, or when nothing refers to it any more.
public final class Subscription: Sendable {
    /// The name.
    public let name: String
    /// Which changes it is given.
    public let scope: ChangeScope
    /// Where it began.
    public let start: ChangePosition
    private let store: ReadingStore
    private let isOver = Mutex(false)

    fileprivate init(name: String, store: ReadingStore, position: ChangePosition, scope: ChangeScope) {
        self.name = name
        self.store = store
        self.scope = scope
        start = position
    }

    deinit { end() }

    /// What waits for it, then what comes.
    ///
    /// - Parameter limit: changes of a page, 1 … 10,000.
    public func pages(limit: Int = 100) -> ReadingChangePages {
        store.changePages(after: start, of: scope, limit: limit)
    }

    /// Notes that everything up to a position was taken; durable when it returns. It never goes back.
    ///
    /// - Throws: ``SubscriberError/unknown(_:)`` if the subscriber was removed, or its person erased.
    public func advance(to position: ChangePosition) async throws {
        guard !isOver.withLock(\.self) else { throw SubscriberError.inUse(name) }
        try await store.advance(name, to: position)
    }

    /// Lets somebody else read under the name.
    public func end() {
        let isFirst = isOver.withLock { isOver in
            defer { isOver = true }
            return !isOver
        }
        if isFirst { store.detach(name) }
    }
}

/// How many changes are behind a position.
private struct ChangeCount {
    private let db: Database
    private let person: Int64?
    private let kinds: String
    private let own: String

    init(_ db: Database, _ scope: ChangeScope) throws {
        self.db = db
        person = scope.person?.rawValue
        own = try OwnReadings(db).condition
        kinds =
            scope.kinds.map { " AND r.kind IN (\($0.map { String($0.code) }.sorted().joined(separator: ",")))" } ?? ""
    }

    func count(after position: Int64) throws -> Int {
        let ofPerson = person == nil ? "" : " AND r.user = ?2 AND \(own)"
        let notices =
            person == nil ? "c.kind IN (3, 4)" : "(c.kind = 2\(kinds) AND c.user = ?2) OR (c.kind = 3 AND c.user = ?2)"
        let select = try PreparedStatement(
            db,
            """
            SELECT (SELECT count(*) FROM reading AS r WHERE r.key > ?1 AND NOT EXISTS (
                    SELECT 1 FROM change WHERE reading = r.key AND kind = 1)\(kinds)\(ofPerson))
                + (SELECT count(*) FROM change AS c LEFT JOIN reading AS r ON r.key = c.reading
                    WHERE c.number > ?1 AND ((c.kind = 1\(kinds)\(ofPerson)) OR \(notices)))
            """)
        select.bind(1, position)
        if let person { select.bind(2, person) }
        return Int(try select.firstInt() ?? 0)
    }
}

extension ChangeScope {
    /// A bit for each kind; `nil` for all.
    fileprivate var bits: Int64? {
        kinds.flatMap { $0.count == ReadingKind.allCases.count ? nil : $0.reduce(0) { $0 | 1 << $1.code } }
    }

    fileprivate init(bits: Int64?, person: UserKey?) {
        self.init(
            kinds: bits.map { bits in Set(ReadingKind.allCases.filter { bits >> $0.code & 1 == 1 }) }, person: person)
    }

    fileprivate func isSame(as other: ChangeScope) -> Bool { bits == other.bits && person == other.person }
}
