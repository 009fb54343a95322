import GRDB
import HealthReadings
import Synchronization

/// A place in the order in which readings came and changed.
///
/// It stays good while the program is stopped: keep its text, and go on behind it with ``ReadingStore/changes(after:of:)``.
public struct ChangePosition: Sendable, Hashable {
    /// Before everything that is stored.
    public static let beginning = ChangePosition(feed: "", number: 0)

    /// The store's name of the order; empty for the beginning of any.
    package let feed: String
    /// How far: numbers grow, with gaps.
    package let number: Int64

    package init(feed: String, number: Int64) {
        self.feed = feed
        self.number = number
    }
}

extension ChangePosition: LosslessStringConvertible {
    /// `b1946ac92492-1234`; the beginning is `0`.
    public var description: String { feed.isEmpty ? String(number) : "\(feed)-\(number)" }

    /// Reads what ``description`` gives; `nil` for anything else.
    public init?(_ text: String) {
        if text == "0" {
            self = .beginning
            return
        }
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard text.utf8.count <= 40, parts.count == 2, parts[0].utf8.count == 12,
            parts[0].utf8.allSatisfy({ ReadingID.isDigit($0) }), let number = Int64(parts[1]), number >= 0,
            parts[1].utf8.first != UInt8(ascii: "+")
        else { return nil }
        self.init(feed: String(parts[0]), number: number)
    }
}

extension ReadingID {
    fileprivate static func isDigit(_ octet: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet)
            || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(octet)
    }
}

/// Which changes somebody reads.
public struct ChangeScope: Sendable, Hashable {
    /// Every change of every person.
    public static let everything = ChangeScope()

    /// Only readings of these kinds; `nil`: of all.
    public var kinds: Set<ReadingKind>?
    /// Only readings of this person; `nil`: of everybody. Of a device that several people share, what may be another's is
    /// not the person's.
    public var person: UserKey?
    /// Whether readings that are another person's now are told of for everybody whose they were.
    package var includesDepartures = false

    /// Makes a scope.
    public init(kinds: Set<ReadingKind>? = nil, person: UserKey? = nil) {
        self.kinds = kinds
        self.person = person
    }
}

/// One change: a reading that came or is another now, or word of readings that are gone.
public struct ReadingChange: Sendable, Hashable {
    /// What happened.
    public enum Event: Sendable, Hashable {
        /// The reading was stored.
        case added(Reading)
        /// The reading is another now: a revision, a context, an exclusion, a correction or withdrawal, another person's.
        case revised(Reading)
        /// The reading with this id, of this kind, is another person's now.
        case left(ReadingID, ReadingKind)
        /// Readings that destinations have were pruned; which ones is not kept.
        case pruned
        /// Readings were erased; which ones is not kept.
        case erased
        /// A reading is stored whose row cannot be read: ``ReadingStore/verify(progress:)`` names it.
        case unreadable
    }

    /// What happened.
    public var event: Event
    /// Where to go on behind it.
    public var position: ChangePosition
    /// How often the reading has been stored: 1 for a new one, more for each time that it differs. A change that comes
    /// twice, since its reader ended before noting that it had it, has the same. 0 where it is of no reading.
    public var revision: Int
    /// When the reading was last changed, by the gateway's clock, in whole seconds. Of what a version without changes has
    /// stored, when it came.
    public var lastUpdated: Instant
    /// Whose the reading certainly is, or was, or who had what was pruned.
    public var owner: UserKey?

    /// The reading, where the change has one.
    public var reading: Reading? {
        switch event {
        case .added(let reading), .revised(let reading): reading
        case .left, .pruned, .erased, .unreadable: nil
        }
    }
}

/// Some changes that follow one another.
public struct ChangePage: Sendable, Hashable {
    /// The changes, in order; some or none.
    public var changes: [ReadingChange]
    /// Where to go on: behind them, and behind changes out of scope that came after them.
    public var position: ChangePosition
    /// Whether nothing is behind them.
    public var isLast: Bool
}

extension ReadingStore {
    /// Readings as they came and changed behind a position, then as they do, for as long as somebody asks: in the order in
    /// which the store committed them, every one, with those that were excluded, corrected or withdrawn.
    ///
    /// A reading that changed several times comes once, as it is now. Erased readings do not come: an
    /// ``ReadingChange/Event/erased`` says that there were some. However far behind the position is, only a page of changes
    /// is in memory.
    ///
    /// ```swift
    /// let saved = "5f0c6e2b9a11-41"
    /// for try await change in store.changes(after: ChangePosition(saved) ?? .beginning) {
    ///     print(change.revision, change.reading?.document.text ?? "\(change.event)")
    ///     // Keep the position only now: a change that comes again has the same id and revision.
    ///     print(change.position)
    /// }
    /// ```
    ///
    /// The sequence ends when its task is cancelled, the store is closed or the person of the scope is erased.
    ///
    /// - Parameters:
    ///   - position: where the reader was; ``ChangePosition/beginning`` for everything that is stored.
    ///   - scope: which changes.
    public func changes(after position: ChangePosition, of scope: ChangeScope = .everything) -> ReadingChanges {
        ReadingChanges(pages: changePages(after: position, of: scope))
    }

    /// The same in pages, for a reader that notes where it is once for many changes.
    ///
    /// - Parameters:
    ///   - position: where the reader was.
    ///   - scope: which changes.
    ///   - limit: changes of a page, 1 … 10,000.
    public func changePages(
        after position: ChangePosition, of scope: ChangeScope = .everything, limit: Int = 100
    ) -> ReadingChangePages {
        ReadingChangePages(store: self, position: position, scope: scope, limit: limit)
    }

    /// The position behind everything that is stored.
    public func newestChange() async throws -> ChangePosition {
        try await read { db in
            let changes = Changes(db: db)
            return ChangePosition(feed: try changes.feed(), number: try changes.newest())
        }
    }

    /// One page of what is stored behind a position.
    ///
    /// - Parameters:
    ///   - position: where the reader was.
    ///   - scope: which changes.
    ///   - limit: 1 … 10,000.
    /// - Returns: `nil` if the store no longer knows the person of the scope.
    /// - Throws: ``StoreError/unknownPosition`` for a position of another store, or of a later state of this one;
    ///   ``StoreError/limitOutOfRange(_:)``; ``lockedBecause`` if the key is missing.
    public func changePage(
        after position: ChangePosition, of scope: ChangeScope = .everything, limit: Int = 100
    ) async throws -> ChangePage? {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        try await requireKeys()
        let holds = HoldLookup(self)
        return try await read { [sealing] db in
            guard let reader = try ChangeReader(db, sealing, holds, scope) else { return nil }
            return try reader.page(after: position, limit: limit)
        }
    }
}

/// Changes in order, without end; see ``ReadingStore/changes(after:of:)``.
public struct ReadingChanges: AsyncSequence, Sendable {
    /// What it gives.
    public typealias Element = ReadingChange

    let pages: ReadingChangePages

    /// Begins to read.
    public func makeAsyncIterator() -> Iterator { Iterator(pages: pages.makeAsyncIterator()) }

    /// Where one reader is.
    public struct Iterator: AsyncIteratorProtocol {
        var pages: ReadingChangePages.Iterator
        private var page: ArraySlice<ReadingChange> = []

        init(pages: ReadingChangePages.Iterator) { self.pages = pages }

        /// The next change; waits for it.
        public mutating func next() async throws -> ReadingChange? {
            while page.isEmpty {
                guard let next = try await pages.next() else { return nil }
                page = next.changes[...]
            }
            return page.popFirst()
        }
    }
}

/// Changes in order, a page at a time, without end; see ``ReadingStore/changePages(after:of:limit:)``.
public struct ReadingChangePages: AsyncSequence, Sendable {
    /// What it gives.
    public typealias Element = ChangePage

    let store: ReadingStore
    let position: ChangePosition
    let scope: ChangeScope
    let limit: Int

    /// Begins to read.
    public func makeAsyncIterator() -> Iterator {
        Iterator(store: store, position: position, scope: scope, limit: limit)
    }

    /// Where one reader is.
    public struct Iterator: AsyncIteratorProtocol {
        private let store: ReadingStore
        private let scope: ChangeScope
        private let limit: Int
        private var position: ChangePosition
        private var bells: AsyncStream<Void>.Iterator
        private var isAtEnd = false

        init(store: ReadingStore, position: ChangePosition, scope: ChangeScope, limit: Int) {
            self.store = store
            self.scope = scope
            self.limit = limit
            self.position = position
            // Listening begins before the first look: nothing comes between the two.
            bells = store.changeBells.listen(buffering: 1).makeAsyncIterator()
        }

        /// The next page: some changes, or none where only the position has moved. Waits for it.
        public mutating func next() async throws -> ChangePage? {
            while true {
                if isAtEnd, await bells.next() == nil { return nil }
                try Task.checkCancellation()
                guard let page = try await store.changePage(after: position, of: scope, limit: limit) else {
                    return nil
                }
                isAtEnd = page.isLast
                guard page.position != position else { continue }
                position = page.position
                return page
            }
        }
    }
}

/// Reads changes within one transaction.
private struct ChangeReader {
    /// How many numbers one page walks over at most: what is out of scope keeps nobody else from reading.
    private static let span: Int64 = 20_000

    private struct Place {
        var number: Int64
        var kind: Int64?
        var reading: Int64?
        var user: Int64?
        var revision: Int
    }

    private let db: Database
    private let changes: Changes
    private let rows: RowReader
    private let deliveries: DeliveryReader
    private let scope: ChangeScope
    private let own: String

    /// - Returns: `nil` if the person of the scope is not there.
    init?(_ db: Database, _ sealing: Sealing, _ holds: HoldLookup, _ scope: ChangeScope) throws {
        try sealing.requireKeys()
        if let person = scope.person {
            let isKnown = try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM user WHERE key = ?)", arguments: [person.rawValue])
            guard isKnown == true else { return nil }
        }
        self.db = db
        self.scope = scope
        changes = Changes(db: db)
        rows = RowReader(db, sealing)
        deliveries = try DeliveryReader(db, holds.rules(db), sealing)
        own = try OwnReadings(db).condition
    }

    func page(after position: ChangePosition, limit: Int) throws -> ChangePage {
        let (feed, newest) = (try changes.feed(), try changes.newest())
        let isKnown = position.feed == feed || position == .beginning
        guard isKnown, position.number <= newest else { throw StoreError.unknownPosition }
        let last = min(newest, position.number + Self.span)
        var places = try added(position.number, last, limit + 1) + changed(position.number, last, limit + 1)
        places.sort { $0.number < $1.number }
        let isCut = places.count > limit
        places = Array(places.prefix(limit))
        let end = isCut ? places.last?.number ?? last : last
        return ChangePage(
            changes: try load(places, feed), position: ChangePosition(feed: feed, number: end), isLast: end == newest)
    }

    private var kinds: String {
        guard let kinds = scope.kinds, kinds.count < ReadingKind.allCases.count else { return "" }
        return " AND r.kind IN (\(kinds.map { String($0.code) }.sorted().joined(separator: ",")))"
    }

    private var ofPerson: String { scope.person == nil ? "" : " AND r.user = ?4 AND \(own)" }

    /// Readings that have not changed since they were stored.
    private func added(_ after: Int64, _ last: Int64, _ limit: Int) throws -> [Place] {
        let select = try bound(
            """
            SELECT r.key FROM reading AS r WHERE r.key > ?1 AND r.key <= ?2
                AND NOT EXISTS (SELECT 1 FROM change WHERE reading = r.key AND kind = \(Changes.Kind.revised.rawValue))
                \(kinds)\(ofPerson) ORDER BY r.key LIMIT ?3
            """, after, last, limit)
        defer { select.reset() }
        var places: [Place] = []
        while try select.next() {
            places.append(Place(number: select.int(0), reading: select.int(0), revision: 1))
        }
        return places
    }

    private func changed(_ after: Int64, _ last: Int64, _ limit: Int) throws -> [Place] {
        let (revised, left) = (Changes.Kind.revised.rawValue, Changes.Kind.left.rawValue)
        let (pruned, erased) = (Changes.Kind.pruned.rawValue, Changes.Kind.erased.rawValue)
        let conditions =
            scope.person == nil
            ? "(c.kind = \(revised)\(kinds)) OR c.kind IN (\(pruned), \(erased)\(scope.includesDepartures ? ", \(left)" : ""))"
            : """
            (c.kind = \(revised)\(kinds)\(ofPerson)) OR (c.kind = \(left) AND c.user = ?4\(kinds))
                OR (c.kind = \(pruned) AND c.user = ?4)
            """
        let select = try bound(
            """
            SELECT c.number, c.kind, c.reading, c.user, c.revision FROM change AS c LEFT JOIN reading AS r ON r.key = c.reading
            WHERE c.number > ?1 AND c.number <= ?2 AND (\(conditions)) ORDER BY c.number LIMIT ?3
            """, after, last, limit)
        defer { select.reset() }
        var places: [Place] = []
        while try select.next() {
            places.append(
                Place(
                    number: select.int(0), kind: select.int(1), reading: select.optionalInt(2),
                    user: select.optionalInt(3), revision: Int(select.int(4))))
        }
        return places
    }

    private func bound(_ sql: String, _ after: Int64, _ last: Int64, _ limit: Int) throws -> PreparedStatement {
        let select = try PreparedStatement(db, sql)
        select.bind(1, after)
        select.bind(2, last)
        select.bind(3, Int64(limit))
        if let person = scope.person { select.bind(4, person.rawValue) }
        return select
    }

    private func load(_ places: [Place], _ feed: String) throws -> [ReadingChange] {
        let keys = places.map { $0.reading ?? 0 }
        let entries = try deliveries.entries(of: keys)
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), CASE WHEN \(own) THEN r.user END FROM reading AS r WHERE r.key = ?
            """)
        defer { select.reset() }
        return try places.indices.map { index in
            let place = places[index]
            var change = ReadingChange(
                event: .unreadable, position: ChangePosition(feed: feed, number: place.number),
                revision: place.revision, lastUpdated: try changes.instant(of: place.number) ?? Instant(seconds: 0),
                owner: place.user.map(UserKey.init(rawValue:)))
            switch place.kind.map(Changes.Kind.init(rawValue:)) {
            case .some(.pruned): change.event = .pruned
            case .some(.erased): change.event = .erased
            case nil, .some(.revised), .some(.left):
                select.bind(1, keys[index])
                guard try select.next() else { throw StoreError.corrupt(detail: "reading \(keys[index]) is missing") }
                defer { select.reset() }
                let columns = try rows.columns(select)
                if place.kind != Changes.Kind.left.rawValue {
                    change.owner = select.optionalInt(ReadingRow.count).map(UserKey.init(rawValue:))
                }
                // One damaged row keeps nobody from those behind it.
                let read = try StoreError.unlessCorrupt { () -> ReadingChange.Event in
                    let (id, content) = try rows.content(select, columns)
                    if place.kind == Changes.Kind.left.rawValue {
                        return .left(id, try ReadingKind(code: columns.kind))
                    }
                    var reading = try rows.reading(keys[index], columns, id, content)
                    reading.deliveries = try deliveries.deliveries(entries[index], of: keys[index], columns)
                    return place.kind == nil ? .added(reading) : .revised(reading)
                }
                if let read { change.event = read }
                if change.lastUpdated.seconds == 0 { change.lastUpdated = Instant(microseconds: columns.receivedAt) }
            case .some(nil): throw StoreError.corrupt(detail: "change \(place.number) is of an unknown kind")
            }
            return change
        }
    }
}
