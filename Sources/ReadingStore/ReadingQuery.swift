import GRDB
import HealthReadings
import Synchronization

/// Which readings are asked for.
public struct ReadingQuery: Sendable, Hashable {
    /// The limits a query or batch may have.
    public static let limits = 1...10_000

    /// The kinds; nil for all.
    public var kinds: Set<ReadingKind>?
    /// The earliest time, inclusive; readings without a time are left out where this or ``to`` is given.
    public var from: Instant?
    /// The latest time, inclusive.
    public var to: Instant?
    /// How many at most: 1 … 10,000.
    public var limit: Int
    /// How many to pass over; not together with ``cursor``.
    public var offset: Int
    /// Where an earlier page ended (``ReadingPage/cursor``).
    public var cursor: String?
    /// Only the newest of each kind. Such a page has no cursor, and never says that there are more.
    public var latest: Bool
    /// One user's; nil for everybody's. What a shared device measured and may be somebody else's is not among a user's.
    public var user: UserKey?

    /// Makes a query for the newest readings.
    public init(
        kinds: Set<ReadingKind>? = nil, from: Instant? = nil, to: Instant? = nil, limit: Int = 1000, offset: Int = 0,
        cursor: String? = nil, latest: Bool = false, user: UserKey? = nil
    ) {
        self.kinds = kinds
        self.from = from
        self.to = to
        self.limit = limit
        self.offset = offset
        self.cursor = cursor
        self.latest = latest
        self.user = user
    }
}

/// A page of readings, newest first by (time, id), those without a time last.
public struct ReadingPage: Sendable, Hashable {
    /// The readings.
    public var readings: [Reading]
    /// Whether there are more behind them.
    public var more: Bool
    /// Where this page ended, to go on from whatever was stored meanwhile; nil for a page without readings.
    public var cursor: String?
}

/// Hands over readings, one after the other.
package typealias EachReading = (_ body: (Reading) -> Void) throws -> Void

/// A page of readings in the form in which they were gathered.
package struct GatheredPage<Contents: Sendable>: Sendable {
    /// What was made of the readings, in their order.
    package var contents: Contents
    /// Whether there are more behind them.
    package var more: Bool
    /// Where this page ended; nil for a page without readings.
    package var cursor: String?
}

extension ReadingStore {
    /// The readings asked for, newest first by (time, id), those without a time last.
    ///
    /// - Throws: ``StoreError/limitOutOfRange(_:)``, ``StoreError/offsetOutOfRange(_:)``,
    ///   ``StoreError/invalidCursor(_:)``, ``StoreError/tookTooLong``, or an error of the database.
    public func query(_ query: ReadingQuery) async throws -> ReadingPage {
        try await self.query(query, within: Self.queryPatience)
    }

    /// How long a page may take: a large offset walks over all it passes, and must not keep others from reading.
    static let queryPatience: Duration = .seconds(10)

    func query(_ query: ReadingQuery, within patience: Duration) async throws -> ReadingPage {
        let page = try await gather(query, within: patience) { each in
            var readings: [Reading] = []
            try each { readings.append($0) }
            return readings
        }
        return ReadingPage(readings: page.contents, more: page.more, cursor: page.cursor)
    }

    /// The readings asked for, as ``query(_:)`` has them, gathered as they are needed: a page of ten thousand never stands
    /// in memory as readings.
    ///
    /// - Parameters:
    ///   - query: which readings.
    ///   - contents: makes of the readings what is needed.
    package func gather<Contents: Sendable>(
        _ query: ReadingQuery, _ contents: @escaping @Sendable (_ each: EachReading) throws -> Contents
    ) async throws -> GatheredPage<Contents> {
        try await gather(query, within: Self.queryPatience, contents)
    }

    private func gather<Contents: Sendable>(
        _ query: ReadingQuery, within patience: Duration,
        _ contents: @escaping @Sendable (_ each: EachReading) throws -> Contents
    ) async throws -> GatheredPage<Contents> {
        guard ReadingQuery.limits.contains(query.limit) else { throw StoreError.limitOutOfRange(query.limit) }
        guard query.offset >= 0 else { throw StoreError.offsetOutOfRange(query.offset) }
        let cursor = try query.cursor.map(PageCursor.init(text:))
        try await requireKeys()
        let (commits, holds) = (commitCount, HoldLookup(self))
        return try await read(within: patience) { [self] db in
            let reader = try PageReader(
                db, query, sealing, holds: holds, counts: countsOfKinds(db, query.user, holds, at: commits))
            return try query.latest ? reader.latest(contents) : reader.page(after: cursor, contents)
        }
    }

    /// Every reading that is asked for, in the order of ``query(_:)`` and without its deliveries, put into one value: what
    /// figures are computed of.
    ///
    /// - Parameters:
    ///   - query: which readings. Its limit is how many are taken from the store at once; others are read and written between.
    ///   - contents: the value before the first reading.
    ///   - add: puts in a reading.
    package func collect<Contents: Sendable>(
        _ query: ReadingQuery, into contents: Contents,
        _ add: @escaping @Sendable (inout Contents, Reading) -> Void
    ) async throws -> Contents {
        guard ReadingQuery.limits.contains(query.limit) else { throw StoreError.limitOutOfRange(query.limit) }
        try await requireKeys()
        var (query, cursor) = (query, try query.cursor.map(PageCursor.init(text:)))
        let collected = Collected(contents)
        while true {
            let (commits, holds) = (commitCount, HoldLookup(self))
            let page = try await read(within: Self.queryPatience) { [self, query, cursor] db in
                let counts = try countsOfKinds(db, query.user, holds, at: commits)
                return try PageReader(db, query, sealing, counts: counts).bare(after: cursor) { each in
                    try collected.change { contents in try each { add(&contents, $0) } }
                }
            }
            guard page.more, let last = page.cursor else { return try collected.taken() }
            cursor = try PageCursor(text: last)
            query.offset = 0
        }
    }

    /// How many readings of each kind are certainly a person's, where it is known: whoever has few is not looked for among
    /// those of everybody else.
    private func countsOfKinds(
        _ db: Database, _ user: UserKey?, _ holds: HoldLookup, at commits: Int
    ) throws -> [Int64: Int]? {
        guard let user, let tally = try knownTally(db, holds.rules(db), at: commits) else { return nil }
        let counts = tally.people[user.rawValue]?.kinds ?? [:]
        // Of a kind that there is not, the row that has it is told of.
        return counts.keys.allSatisfy { (try? ReadingKind(code: $0)) != nil } ? counts : nil
    }

    /// One reading; nil where the store has none with this id.
    ///
    /// - Parameters:
    ///   - id: the reading's id.
    ///   - user: whose it has to be; `nil`: anybody's.
    public func reading(_ id: ReadingID, of user: UserKey? = nil) async throws -> Reading? {
        let holds = HoldLookup(self)
        return try await read { [sealing] db in
            try PageReader(db, ReadingQuery(limit: 1, user: user), sealing, holds: holds).reading(id)
        }
    }
}

/// A value that grows from page to page. It is moved, never copied: a year of it is large.
private final class Collected<Contents: Sendable>: Sendable {
    private let contents: Mutex<Contents?>

    init(_ contents: Contents) { self.contents = Mutex(contents) }

    func change(_ body: (inout Contents) throws -> Void) throws {
        try contents.withLock { contents in
            guard var present = contents.take() else { throw Self.missing }
            try body(&present)
            contents = present
        }
    }

    func taken() throws -> Contents {
        guard let contents = contents.withLock({ $0.take() }) else { throw Self.missing }
        return contents
    }

    private static var missing: StoreError { .internalFault(detail: "what was gathered is gone") }
}

extension ReadingQuery {
    /// Hands over those of its readings whose rows are numbered higher.
    func later(
        _ db: Database, _ sealing: Sealing, than number: Int64, _ body: (Reading) -> Void
    ) throws {
        try PageReader(db, self, sealing).later(than: number, body)
    }
}

/// Reads one page.
///
/// What follows a cursor is asked for in two statements, so that each is one walk along an index: the rest of those with
/// a time, then those without. Each is walked twice: for the rows' keys, by which the outbox is read, and for the readings.
private struct PageReader {
    /// A walk along an index.
    private struct Walk {
        var condition: String
        var kinds: Set<ReadingKind>?
        var after: (seconds: Int64?, id: ReadingID?)?
        var offset = 0
        var limit: Int
        var index: String?
        /// Only rows with higher numbers.
        var behind: Int64?
    }

    private let db: Database
    private let query: ReadingQuery
    private let rows: RowReader
    private let holds: HoldLookup?
    /// How many readings there are at most of what is asked for.
    private let most: Int

    /// - Parameters:
    ///   - holds: by which readings wait; `nil` if nobody asks for deliveries.
    ///   - counts: how many readings of each kind there are of the person who is asked for, by its code; `nil`: not known.
    init(
        _ db: Database, _ query: ReadingQuery, _ sealing: Sealing, holds: HoldLookup? = nil, counts: [Int64: Int]? = nil
    ) throws {
        try sealing.requireKeys()
        var (query, most) = (query, Int.max)
        if let counts {
            let kinds = (query.kinds ?? Set(ReadingKind.allCases)).filter { counts[$0.code, default: 0] > 0 }
            (query.kinds, most) = (kinds, kinds.reduce(0) { $0 + counts[$1.code, default: 0] })
        }
        (self.db, self.query, self.holds, self.most) = (db, query, holds, most)
        rows = RowReader(db, sealing)
    }

    /// A page of readings without their deliveries: one walk, and nothing of it is kept for the next page.
    func bare(after cursor: PageCursor?, _ contents: (_ each: EachReading) throws -> Void) throws -> GatheredPage<Void>
    {
        var (count, more, last) = (0, false, ReadingColumns?.none)
        try contents { body in
            for var walk in walks(after: cursor) {
                walk.limit = min(query.limit + 1, most) - count
                let statement = try statement(ReadingRow.columns, walk)
                defer { statement.reset() }
                while try statement.next() {
                    guard count < query.limit else {
                        more = true
                        return
                    }
                    let columns = try rows.columns(statement)
                    let (id, content) = try rows.content(statement, columns)
                    body(try rows.reading(ReadingRow.key(statement), columns, id, content))
                    (count, last) = (count + 1, columns)
                }
            }
        }
        return GatheredPage(contents: (), more: more, cursor: last.map(cursor(behind:)))
    }

    func later(than number: Int64, _ body: (Reading) -> Void) throws {
        let statement = try statement(
            ReadingRow.columns,
            Walk(
                condition: "r.key > ?8 AND r.time IS NOT NULL", kinds: query.kinds, limit: -1, index: "NOT INDEXED",
                behind: number))
        defer { statement.reset() }
        while try statement.next() { body(try rows.reading(statement)) }
    }

    private func cursor(behind last: ReadingColumns) -> String {
        // Rows are in the order of what the ids stand as in them.
        PageCursor(seconds: last.time, id: last.id, generation: rows.sealing.current).text
    }

    func page<Contents: Sendable>(
        after cursor: PageCursor?, _ contents: (_ each: EachReading) throws -> Contents
    ) throws -> GatheredPage<Contents> {
        var (walks, keys) = (walks(after: cursor), [Int64]())
        for place in walks.indices {
            walks[place].limit = min(query.limit + 1, most) - keys.count
            keys += try self.keys(walks[place])
        }
        let more = keys.count > query.limit
        // One more was asked for, no more than that.
        if more { keys.removeLast() }
        var last: ReadingColumns?
        let gathered = try contents { body in last = try readings(walks, keys, body) }
        return GatheredPage(contents: gathered, more: more, cursor: last.map(cursor(behind:)))
    }

    private func walks(after cursor: PageCursor?) -> [Walk] {
        let hasTimeRange = query.from != nil || query.to != nil
        func walk(_ condition: String, after: (seconds: Int64?, id: ReadingID?)? = nil, offset: Int = 0) -> Walk {
            Walk(condition: condition, kinds: query.kinds, after: after, offset: offset, limit: 0)
        }
        let withoutTime = hasTimeRange ? [] : [walk("r.time IS NULL")]
        guard let cursor else {
            return [walk(hasTimeRange ? "r.time IS NOT NULL" : "TRUE", offset: query.offset)]
        }
        guard cursor.isOf(rows.sealing.current) else {
            // Ids stand under another key now: from the beginning of its second on.
            return (cursor.seconds.map { [walk("r.time <= ?5", after: ($0, nil))] } ?? []) + withoutTime
        }
        if let seconds = cursor.seconds {
            return [walk("(r.time, r.id) < (?5, ?6)", after: (seconds, cursor.id))] + withoutTime
        }
        return hasTimeRange ? [] : [walk("r.time IS NULL AND r.id < ?6", after: (nil, cursor.id))]
    }

    func latest<Contents: Sendable>(
        _ contents: (_ each: EachReading) throws -> Contents
    ) throws -> GatheredPage<Contents> {
        let condition = query.from != nil || query.to != nil ? "r.time IS NOT NULL" : "TRUE"
        let walks = ReadingKind.allCases.filter { query.kinds?.contains($0) ?? true }.map {
            Walk(condition: condition, kinds: [$0], limit: 1)
        }
        var newest: [Reading] = []
        try readings(walks, walks.flatMap(keys)) { newest.append($0) }
        newest.sort { lhs, rhs in
            (lhs.time.instant?.seconds ?? .min, lhs.id) > (rhs.time.instant?.seconds ?? .min, rhs.id)
        }
        // No cursor leads behind it: who goes on as long as there is more would never end.
        return GatheredPage(
            contents: try contents { newest.prefix(query.limit).forEach($0) }, more: false, cursor: nil)
    }

    func reading(_ id: ReadingID) throws -> Reading? {
        for place in try rows.sealing.candidates(for: id) {
            let walk = Walk(condition: "r.id = ?6", after: (nil, place), limit: 1, index: "")
            var found: Reading?
            try readings([walk], keys(walk)) { found = $0 }
            if let found { return found }
        }
        return nil
    }

    private func keys(_ walk: Walk) throws -> [Int64] {
        guard walk.limit > 0 else { return [] }
        let statement = try statement("r.key", walk)
        defer { statement.reset() }
        var keys: [Int64] = []
        while try statement.next() { keys.append(statement.int(0)) }
        return keys
    }

    /// Hands over the readings of walks, which have these keys.
    ///
    /// - Returns: the columns of the last one.
    @discardableResult
    private func readings(_ walks: [Walk], _ keys: [Int64], _ body: (Reading) -> Void) throws -> ReadingColumns? {
        let rules = try holds?.rules(db) ?? HoldRules(db, rows.sealing)
        let deliveries = try DeliveryReader(db, rules, rows.sealing)
        let entries = try deliveries.entries(of: keys)
        var (place, last, opened) = (0, ReadingColumns?.none, [OpenedContent]())
        var known = rows.sealing.knownContents
        for walk in walks where place < keys.count {
            let statement = try statement(ReadingRow.columns, walk)
            defer { statement.reset() }
            while place < keys.count, try statement.next() {
                let (key, columns) = (ReadingRow.key(statement), try rows.columns(statement))
                guard key == keys[place] else {
                    throw StoreError.corrupt(detail: "reading \(key) is where reading \(keys[place]) was")
                }
                let (id, content) = try statement.withOctets(ReadingRow.content) { blob in
                    if let content = known.content(of: key, columns, blob) { return (content.id, content.content) }
                    let (id, content) = try rows.sealing.content(blob, of: key, columns)
                    if blob.first != 0 { opened.append(OpenedContent(key, columns, blob, id, content)) }
                    return (id, content)
                }
                body(
                    try rows.reading(
                        key, columns, id, content,
                        deliveries: deliveries.deliveries(entries[place], of: key, columns)))
                (place, last) = (place + 1, columns)
            }
        }
        known = OpenedContents()
        rows.sealing.keep(opened, of: keys)
        return last
    }

    private func statement(_ columns: String, _ walk: Walk) throws -> PreparedStatement {
        var conditions = [walk.condition]
        let all = walk.kinds.map { $0.count == ReadingKind.allCases.count } ?? true
        let one = walk.kinds?.count == 1
        if !all {
            conditions.append(
                "r.kind IN (\((walk.kinds ?? []).map { String($0.code) }.sorted().joined(separator: ",")))")
        }
        if query.from != nil { conditions.append("r.time >= ?1") }
        if query.to != nil { conditions.append("r.time <= ?2") }
        if query.user != nil { conditions.append("r.user = ?7 AND \(try OwnReadings(db).condition)") }
        let index = walk.index ?? (one && !all ? "INDEXED BY reading_kind_time" : "INDEXED BY reading_time")
        let statement = try PreparedStatement(
            db,
            """
            SELECT \(columns) FROM reading AS r \(index)
            WHERE \(conditions.joined(separator: " AND ")) ORDER BY r.time DESC, r.id DESC LIMIT ?3 OFFSET ?4
            """)
        // An inclusive range in microseconds over times in whole seconds: the first second not before, the last not after.
        if let from = query.from {
            statement.bind(1, from.seconds + (from == from.flooredToSecond ? 0 : 1))
        }
        if let to = query.to { statement.bind(2, to.seconds) }
        statement.bind(3, Int64(walk.limit))
        statement.bind(4, Int64(walk.offset))
        if let after = walk.after {
            if after.seconds != nil { statement.bind(5, after.seconds) }
            if let id = after.id { statement.bind(6, id) }
        }
        if let user = query.user { statement.bind(7, user.rawValue) }
        if let number = walk.behind { statement.bind(8, number) }
        return statement
    }
}
