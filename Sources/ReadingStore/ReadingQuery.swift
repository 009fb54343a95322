import GRDB
import HealthReadings

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
    /// Only the newest of each kind.
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
        guard ReadingQuery.limits.contains(query.limit) else { throw StoreError.limitOutOfRange(query.limit) }
        guard query.offset >= 0 else { throw StoreError.offsetOutOfRange(query.offset) }
        let cursor = try query.cursor.map(PageCursor.init(text:))
        try await requireKeys()
        return try await read(within: patience) { [sealing] db in
            var reader = try PageReader(db, query, sealing)
            return try query.latest ? reader.latest() : reader.page(after: cursor)
        }
    }

    /// One reading; nil where the store has none with this id.
    ///
    /// - Parameters:
    ///   - id: the reading's id.
    ///   - user: whose it has to be; `nil`: anybody's.
    public func reading(_ id: ReadingID, of user: UserKey? = nil) async throws -> Reading? {
        try await read { [sealing] db in
            var reader = try PageReader(db, ReadingQuery(limit: 1, user: user), sealing)
            return try reader.reading(id)
        }
    }
}

/// Reads one page.
///
/// What follows a cursor is asked for in two statements, so that each is one walk along an index: the rest of those with
/// a time, then those without.
private struct PageReader {
    private let db: Database
    private let query: ReadingQuery
    private let deliveries: DeliveryReader
    private let rows: RowReader
    private var readings: [Reading] = []
    /// What the ids of the last reading, and of the one before it, stand as in their rows, by which pages are put in order.
    private var places: (last: ReadingID?, beforeLast: ReadingID?)

    init(_ db: Database, _ query: ReadingQuery, _ sealing: Sealing) throws {
        try sealing.requireKeys()
        self.db = db
        self.query = query
        deliveries = try DeliveryReader(db, HoldRules(db, sealing), sealing)
        rows = RowReader(db, sealing)
    }

    mutating func page(after cursor: PageCursor?) throws -> ReadingPage {
        readings.reserveCapacity(query.limit + 1)
        let hasTimeRange = query.from != nil || query.to != nil
        switch cursor {
        case nil:
            try fetch(hasTimeRange ? "r.time IS NOT NULL" : "TRUE", kinds: query.kinds, offset: query.offset)
        case .some(let cursor) where !cursor.isOf(rows.sealing.current):
            // Ids stand under another key now: from the beginning of its second on.
            if let seconds = cursor.seconds {
                try fetch("r.time <= ?5", kinds: query.kinds, after: (seconds, nil))
            }
            if readings.count <= query.limit, !hasTimeRange { try fetch("r.time IS NULL", kinds: query.kinds) }
        case .some(let cursor):
            if let seconds = cursor.seconds {
                try fetch("(r.time, r.id) < (?5, ?6)", kinds: query.kinds, after: (seconds, cursor.id))
                if readings.count <= query.limit, !hasTimeRange { try fetch("r.time IS NULL", kinds: query.kinds) }
            } else if !hasTimeRange {
                try fetch("r.time IS NULL AND r.id < ?6", kinds: query.kinds, after: (nil, cursor.id))
            }
        }
        let more = readings.count > query.limit
        // One more was asked for, no more than that.
        if more { readings.removeLast() }
        let place = more ? places.beforeLast : places.last
        return ReadingPage(
            readings: readings, more: more,
            cursor: place.map {
                PageCursor(
                    seconds: readings.last?.time.instant?.seconds, id: $0, generation: rows.sealing.current
                ).text
            })
    }

    mutating func latest() throws -> ReadingPage {
        let condition = query.from != nil || query.to != nil ? "r.time IS NOT NULL" : "TRUE"
        for kind in ReadingKind.allCases where query.kinds?.contains(kind) ?? true {
            try fetch(condition, kinds: [kind], only: 1)
        }
        readings.sort { lhs, rhs in
            (lhs.time.instant?.seconds ?? .min, lhs.id) > (rhs.time.instant?.seconds ?? .min, rhs.id)
        }
        let isCut = readings.count > query.limit
        if isCut { readings.removeLast(readings.count - query.limit) }
        return ReadingPage(readings: readings, more: isCut, cursor: nil)
    }

    mutating func reading(_ id: ReadingID) throws -> Reading? {
        for place in try rows.sealing.candidates(for: id) where readings.isEmpty {
            try fetch("r.id = ?6", kinds: nil, after: (nil, place), index: "")
        }
        return readings.first
    }

    /// Appends readings that meet a condition, up to one more than the limit.
    private mutating func fetch(
        _ condition: String, kinds: Set<ReadingKind>?, after: (seconds: Int64?, id: ReadingID?)? = nil, offset: Int = 0,
        only: Int? = nil, index: String? = nil
    ) throws {
        var conditions = [condition]
        let all = kinds.map { $0.count == ReadingKind.allCases.count } ?? true
        let one = kinds?.count == 1
        if !all {
            conditions.append("r.kind IN (\((kinds ?? []).map { String($0.code) }.sorted().joined(separator: ",")))")
        }
        if query.from != nil { conditions.append("r.time >= ?1") }
        if query.to != nil { conditions.append("r.time <= ?2") }
        if query.user != nil { conditions.append("r.user = ?7 AND \(try OwnReadings(db).condition)") }
        let walk = index ?? (one && !all ? "INDEXED BY reading_kind_time" : "INDEXED BY reading_time")
        let statement = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), r.user FROM reading AS r \(walk)
            WHERE \(conditions.joined(separator: " AND ")) ORDER BY r.time DESC, r.id DESC LIMIT ?3 OFFSET ?4
            """)
        // An inclusive range in microseconds over times in whole seconds: the first second not before, the last not after.
        if let from = query.from {
            statement.bind(1, from.seconds + (from == from.flooredToSecond ? 0 : 1))
        }
        if let to = query.to { statement.bind(2, to.seconds) }
        statement.bind(3, Int64(only ?? query.limit + 1 - readings.count))
        statement.bind(4, Int64(offset))
        if let after {
            if after.seconds != nil { statement.bind(5, after.seconds) }
            if let id = after.id { statement.bind(6, id) }
        }
        if let user = query.user { statement.bind(7, user.rawValue) }
        defer { statement.reset() }
        var found: [(row: SealedReading, user: Int64)] = []
        while try statement.next() {
            found.append((try rows.sealed(statement), statement.int(ReadingRow.count)))
            places = (try ReadingRow.storedID(statement), places.last)
        }
        for (var reading, (row, user)) in zip(try rows.sealing.readings(found.map(\.row)), found) {
            reading.deliveries = try deliveries.deliveries(of: reading, row.key, user: user, device: row.columns.device)
            readings.append(reading)
        }
    }
}
