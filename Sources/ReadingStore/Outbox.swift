import GRDB
import HealthReadings

/// Names one thing to deliver: a reading, and which revision of it.
///
/// An acknowledgement of an older revision leaves the newer one waiting.
public struct OutboxID: Sendable, Hashable {
    /// The store's number of the reading.
    public let reading: Int64
    /// Where it is delivered.
    public let destination: DestinationKey
    /// How often what would be sent has changed, from 0.
    public let revision: Int64
}

/// A reading that waits to be delivered, at the timestamp that was chosen for it once and for ever.
public struct OutboxItem: Sendable, Hashable {
    /// What to acknowledge or refuse it with.
    public var id: OutboxID
    /// The reading; its `Reading.deliveries` are not computed here.
    public var reading: Reading
    /// The server's key for the sample, whole seconds: the reading's time, or later where that second was taken.
    public var timestamp: Instant
    /// The reading's own time where ``timestamp`` differs from it: belongs into the sample's metadata.
    public var originalTime: Instant?
    /// How often it was offered to the server and not acknowledged.
    public var attempts: Int
    /// Whether an earlier revision of it was delivered.
    public var wasDelivered = false
    /// Whether it was measured before the device was first met: part of a backfill, nothing new.
    public var isBackfill = false
    /// What becomes of the weight that came with a body composition.
    public var ownWeight = OwnWeight.sent
    /// The offset of the person's clock from UTC in minutes, chosen when the reading was queued and kept; `nil` for a
    /// destination that keeps none.
    public var offsetMinutes: Int?
    /// The person's zone when it was measured; `nil` if the store does not know it.
    public var timeZone: String?
}

/// What waits for one user, kind and provider.
public struct OutboxGroup: Sendable, Hashable {
    /// The user.
    public var user: UserKey
    /// The kind of readings, which is the server's resource.
    public var resource: ReadingKind
    /// The provider's slug.
    public var provider: String
    /// How many wait.
    public var count: Int
    /// The oldest timestamp among them.
    public var oldest: Instant
    /// Why they wait beyond the next delivery; nil where nothing holds them.
    public var held: Hold?
    /// Whether it is held because the server does not know the resource.
    public var isUnknownToServer = false
    /// Whether it is held because the server refuses every reading of it.
    public var isRefusedWhole = false
}

extension OutboxGroup {
    fileprivate func isOfSameTarget(as other: OutboxGroup) -> Bool {
        user == other.user && resource == other.resource && provider == other.provider
    }
}

/// What is delivered next of a group.
package enum NextBatch: Sendable {
    /// Nothing of the destination may be sent now, and why.
    case held(Hold)
    /// The oldest waiting items; none if nothing waits.
    case items([OutboxItem])
}

/// A reading that the server refused and that waits for a person.
public struct RefusedReading: Sendable, Hashable {
    /// The reading.
    public var id: ReadingID
    /// The server's words.
    public var serverSaid: String
}

extension ReadingStore {
    /// What waits, grouped as it is delivered; groups that hold nothing do not appear.
    ///
    /// - Parameters:
    ///   - range: only what waits with a timestamp in it, both ends included; nil: all.
    ///   - destination: the destination they wait for.
    ///   - heedsMode: whether what goes only when somebody asks is shown as held (`manual`): not to who asks.
    public func groupsWaiting(
        in range: ClosedRange<Instant>? = nil, at destination: DestinationKey = .vital, heedsMode: Bool = false
    ) async throws -> [OutboxGroup] {
        let seconds = Self.seconds(in: range)
        // A key that has come back is noticed here: it is where delivery begins.
        if sealing.refusal != nil { try await openKeys() }
        return try await read { [sealing] db in
            let holds = try HoldRules(db, sealing, heedsMode: heedsMode)
            guard let known = holds.destinations.first(where: { $0.key == destination }) else {
                throw StoreError.unknown("destination \(destination.rawValue)")
            }
            let apart = try Self.heldApart(db, destination, seconds)
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT user, resource, provider, count(*), min(timestamp) FROM outbox
                    WHERE destination = ? AND state = \(outbox: .waiting) AND timestamp BETWEEN ? AND ?
                    GROUP BY user, resource, provider ORDER BY user, resource, provider
                    """, arguments: [destination.rawValue, seconds.first, seconds.last]
            ).flatMap { row -> [OutboxGroup] in
                let (user, provider): (Int64, String) = (try row.value(0), try row.value(2))
                let kind = try ReadingKind(code: try row.value(1))
                var rest = OutboxGroup(
                    user: UserKey(rawValue: user), resource: kind, provider: provider, count: try row.value(3),
                    oldest: Instant(seconds: try row.value(4)),
                    held: holds.hold(user: user, provider: provider, kind: kind, at: known))
                if rest.held == .sourceError {
                    let target = UnknownResource(user: user, kind: kind, provider: provider)
                    rest.isUnknownToServer = holds.isUnknown(target, at: destination)
                    rest.isRefusedWhole = holds.isRefusedWhole(target, at: destination)
                }
                if rest.held == .locked { return [rest] }
                // A provider that is ignored holds all of it; what its devices hold is then no reason beside it.
                let parts = apart.filter {
                    $0.isOfSameTarget(as: rest)
                        && (rest.held != .ignored || $0.held == .noConsent || $0.held == .notSelected)
                }
                guard !parts.isEmpty else { return [rest] }
                rest.count -= parts.reduce(0) { $0 + $1.count }
                guard rest.count > 0 else { return parts }
                rest.oldest = try Self.oldestDeliverable(db, of: rest, destination, seconds) ?? rest.oldest
                return [rest] + parts
            }
        }
    }

    /// What is not delivered before its context has come, which may say that it is none of its kind.
    public func groupsAwaitingContext(at destination: DestinationKey = .vital) async throws -> [OutboxGroup] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT o.user, o.resource, o.provider, count(*), min(o.timestamp)
                    FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                    WHERE o.destination = ? AND o.state = \(outbox: .withdrawn)
                        AND r.record_exclusion IS NULL AND r.time_exclusion IS NULL
                    GROUP BY o.user, o.resource, o.provider
                    """, arguments: [destination.rawValue]
            ).map { row in
                OutboxGroup(
                    user: UserKey(rawValue: try row.value(0)), resource: try ReadingKind(code: try row.value(1)),
                    provider: try row.value(2), count: try row.value(3), oldest: Instant(seconds: try row.value(4)),
                    held: .awaitingContext)
            }
        }
    }

    /// What waits for its device's sake, whatever its source says.
    private static func heldApart(
        _ db: Database, _ destination: DestinationKey, _ seconds: (first: Int64, last: Int64)
    ) throws -> [OutboxGroup] {
        try DeviceHolds(db, destination).conditions.flatMap { hold, condition in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT o.user, o.resource, o.provider, count(*), min(o.timestamp)
                    FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                    WHERE o.destination = ? AND o.state = \(outbox: .waiting) AND o.timestamp BETWEEN ? AND ? AND \(condition)
                    GROUP BY o.user, o.resource, o.provider
                    """, arguments: [destination.rawValue, seconds.first, seconds.last]
            ).map { row in
                OutboxGroup(
                    user: UserKey(rawValue: try row.value(0)), resource: try ReadingKind(code: try row.value(1)),
                    provider: try row.value(2),
                    count: try row.value(3), oldest: Instant(seconds: try row.value(4)), held: hold)
            }
        }
    }

    private static func oldestDeliverable(
        _ db: Database, of group: OutboxGroup, _ destination: DestinationKey,
        _ seconds: (first: Int64, last: Int64)
    ) throws -> Instant? {
        try Int64.fetchOne(
            db,
            sql: """
                SELECT o.timestamp FROM outbox AS o INDEXED BY outbox_waiting JOIN reading AS r ON r.key = o.reading
                WHERE o.destination = ? AND o.state = \(outbox: .waiting) AND o.user = ? AND o.resource = ? AND o.provider = ?
                    AND o.timestamp BETWEEN ? AND ? \(try DeviceHolds(db, destination).deliverable) ORDER BY o.timestamp LIMIT 1
                """,
            arguments: [
                destination.rawValue, group.user.rawValue, group.resource.code, group.provider, seconds.first,
                seconds.last,
            ]
        ).map(Instant.init(seconds:))
    }

    /// The oldest waiting items of one group, by timestamp; not what is held for its device's sake.
    ///
    /// - Parameters:
    ///   - user: whose readings.
    ///   - resource: of which kind.
    ///   - provider: the provider's slug.
    ///   - range: only those with a timestamp in it, both ends included; nil: all.
    ///   - limit: 1 … 10,000.
    ///   - destination: the destination they wait for.
    /// - Throws: ``StoreError/limitOutOfRange(_:)``, or an error of the database.
    public func outboxBatch(
        user: UserKey, resource: ReadingKind, provider: String, in range: ClosedRange<Instant>? = nil, limit: Int,
        at destination: DestinationKey = .vital
    ) async throws -> [OutboxItem] {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        let group = GroupRange(user: user, resource: resource, provider: provider, seconds: Self.seconds(in: range))
        return try await read { [sealing] db in try Self.batch(db, sealing, of: group, limit, at: destination) }
    }

    /// What is delivered next of a group: ``outboxBatch(user:resource:provider:in:limit:at:)``, unless
    /// ``standingHold(at:)`` holds back everything of the destination. Both are read from the same commit.
    package func nextBatch(
        user: UserKey, resource: ReadingKind, provider: String, in range: ClosedRange<Instant>? = nil, limit: Int,
        at destination: DestinationKey
    ) async throws -> NextBatch {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        let group = GroupRange(user: user, resource: resource, provider: provider, seconds: Self.seconds(in: range))
        return try await read { [sealing] db in
            if let hold = try Self.standingHold(db, at: destination) { return .held(hold) }
            return .items(try Self.batch(db, sealing, of: group, limit, at: destination))
        }
    }

    /// What of a group is asked for.
    private struct GroupRange {
        var user: UserKey
        var resource: ReadingKind
        var provider: String
        var seconds: (first: Int64, last: Int64)
    }

    private static func batch(
        _ db: Database, _ sealing: Sealing, of group: GroupRange, _ limit: Int, at destination: DestinationKey
    ) throws -> [OutboxItem] {
        try sealing.requireKeys()
        let (user, resource, provider, seconds) = (group.user, group.resource, group.provider, group.seconds)
        let firstContacts = try DeviceHolds.firstContacts(db)
        let named = try PreparedStatement(db, "SELECT name FROM destination WHERE key = ?")
        named.bind(1, destination.rawValue)
        let name = try named.next() ? named.text(0) ?? "" : ""
        named.reset()
        // Nearly always the destination has nothing to take back first, and then no reading has to be looked up there.
        let blocked = try PreparedStatement(
            db, "SELECT EXISTS (SELECT 1 FROM retraction WHERE destination = ? AND blocks IS NOT NULL)")
        blocked.bind(1, destination.rawValue)
        let isAnyBlocked = try blocked.firstInt() == 1
        let unblocked = """
            AND NOT EXISTS (SELECT 1 FROM retraction WHERE blocks = o.reading AND destination = o.destination)
            """
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), o.type, o.timestamp, o.tag, o.revision, o.attempts, o.offset_minutes,
                o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL
            FROM outbox AS o INDEXED BY outbox_waiting JOIN reading AS r ON r.key = o.reading
            WHERE o.destination = ?7 AND o.state = \(outbox: .waiting) AND o.user = ?1 AND o.resource = ?2 AND o.provider = ?3
                AND o.timestamp BETWEEN ?5 AND ?6 \(try DeviceHolds(db, destination).deliverable)
                \(isAnyBlocked ? unblocked : "")
            ORDER BY o.timestamp LIMIT ?4
            """)
        select.bind(1, user.rawValue)
        select.bind(2, resource.code)
        select.bind(3, provider)
        select.bind(4, Int64(limit))
        select.bind(5, seconds.first)
        select.bind(6, seconds.last)
        select.bind(7, destination.rawValue)
        defer { select.reset() }
        let (rows, first) = (RowReader(db, sealing), ReadingRow.count)
        var items: [OutboxItem] = []
        items.reserveCapacity(limit)
        while try select.next() {
            let reading = try rows.reading(select)
            let key = ReadingRow.key(select)
            let place = OutboxTag(
                reading: key, destination: name, user: user.rawValue, resource: resource.code, provider: provider,
                type: select.int(first), timestamp: select.int(first + 1))
            try select.withOctets(first + 2) { try place.check($0, sealing) }
            guard reading.excluded == nil else {
                throw StoreError.corrupt(detail: "reading \(key) is excluded and waits to be delivered")
            }
            let timestamp = Instant(seconds: place.timestamp)
            items.append(
                OutboxItem(
                    id: OutboxID(reading: key, destination: destination, revision: select.int(first + 3)),
                    reading: reading, timestamp: timestamp,
                    originalTime: reading.time.instant.flatMap { $0 == timestamp ? nil : $0 },
                    attempts: Int(select.int(first + 4)), wasDelivered: select.int(first + 6) != 0,
                    isBackfill: firstContacts[ReadingRow.device(select)].map { timestamp.seconds < $0 } ?? false,
                    offsetMinutes: select.optionalInt(first + 5).map { Int($0) }))
        }
        try addZones(to: &items, db, of: user.rawValue)
        if BodySummaryRules.kinds.contains(resource) {
            try BodySummaryRules.complete(
                &items, db, at: destination.rawValue, user: user, resource: resource, provider: provider)
        }
        return items
    }

    /// Whether more of a backfill waits in a group behind a timestamp.
    public func isMoreBackfillWaiting(
        user: UserKey, resource: ReadingKind, provider: String, after timestamp: Instant,
        in range: ClosedRange<Instant>? = nil, at destination: DestinationKey = .vital
    ) async throws -> Bool {
        let seconds = Self.seconds(in: range)
        return try await read { db in
            // Nothing measured since the last device was first met is a backfill: the walk ends there.
            guard let latest = try DeviceHolds.firstContacts(db).values.max() else { return false }
            return try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM outbox AS o INDEXED BY outbox_waiting JOIN reading AS r ON r.key = o.reading
                        WHERE o.destination = ? AND o.state = \(outbox: .waiting) AND o.user = ? AND o.resource = ? AND o.provider = ?
                            AND o.timestamp > ? AND o.timestamp < ? AND o.timestamp <= ?
                            AND o.timestamp < (SELECT min(started_at) / 1000000 FROM contact WHERE device = r.device)
                            \(try DeviceHolds(db, destination).deliverable))
                    """,
                arguments: [
                    destination.rawValue, user.rawValue, resource.code, provider, timestamp.seconds, latest,
                    seconds.last,
                ]) ?? false
        }
    }

    /// The whole seconds within a range: timestamps are whole seconds, its ends need not be.
    static func seconds(in range: ClosedRange<Instant>?) -> (first: Int64, last: Int64) {
        guard let range else { return (.min, .max) }
        let begin = range.lowerBound.seconds
        return (range.lowerBound == range.lowerBound.flooredToSecond ? begin : begin + 1, range.upperBound.seconds)
    }

    /// Notes that the server has taken these: they wait no longer. A revision that came meanwhile still waits.
    public func acknowledge(_ ids: [OutboxID], at instant: Instant) async throws {
        guard !ids.isEmpty else { return }
        try await write(.acknowledge) { db in
            let update = try PreparedStatement(
                db,
                """
                \(OutboxRun.update) SET state = \(outbox: .delivered), delivered_at = ?5, handed_over_at = NULL
                WHERE \(OutboxRun.condition) AND revision = ?4 AND state IN (\(outbox: .waiting), \(outbox: .handedOver))
                """)
            // They were excluded on their way: the destination has them all the same.
            let late = try PreparedStatement(
                db,
                """
                \(OutboxRun.update) SET delivered_at = ?5
                WHERE \(OutboxRun.condition) AND state = \(outbox: .withdrawn)
                """)
            for run in OutboxRun.runs(of: ids) {
                update.bind(run)
                update.bind(5, instant.microseconds)
                guard try update.run() < run.count else { continue }
                late.bind(run)
                late.bind(5, instant.microseconds)
                try late.run()
            }
        }
    }

    /// Notes that an attempt to deliver these failed for now; they go on waiting.
    public func noteAttempt(_ ids: [OutboxID], serverSaid words: String?) async throws {
        try await write(.attempt) { [sealing] db in
            for id in ids {
                try db.execute(
                    sql: """
                        UPDATE outbox SET attempts = attempts + 1, words = coalesce(?, words)
                        WHERE reading = ? AND destination = ? AND revision = ? AND state = \(outbox: .waiting)
                        """,
                    arguments: [
                        try words.map { try sealing.seal($0, on: id.reading, at: id.destination.rawValue) }, id.reading,
                        id.destination.rawValue, id.revision,
                    ])
            }
        }
    }

    /// Sets one item aside with the server's words: it blocks nothing and is shown as `refused`.
    public func reject(_ id: OutboxID, serverSaid words: String) async throws {
        try await write(.reject) { [sealing] db in
            try db.execute(
                sql: """
                    UPDATE outbox SET state = \(outbox: .refused), attempts = attempts + 1, words = ?
                    WHERE reading = ? AND destination = ? AND revision = ? AND state IN (\(outbox: .waiting), \(outbox: .handedOver))
                    """,
                arguments: [
                    try sealing.seal(words, on: id.reading, at: id.destination.rawValue), id.reading,
                    id.destination.rawValue, id.revision,
                ])
        }
    }

    /// The readings the server refused, newest first.
    ///
    /// - Parameters:
    ///   - limit: 1 … 10,000.
    ///   - destination: the destination they wait for.
    public func refused(limit: Int = 1000, at destination: DestinationKey = .vital) async throws -> [RefusedReading] {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        return try await read { [sealing] db in
            try sealing.requireKeys()
            let select = try PreparedStatement(
                db,
                """
                SELECT \(ReadingRow.columns), o.words FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                WHERE o.destination = ?2 AND o.state = \(outbox: .refused) ORDER BY o.timestamp DESC LIMIT ?1
                """)
            select.bind(1, Int64(limit))
            select.bind(2, destination.rawValue)
            defer { select.reset() }
            let rows = RowReader(db, sealing)
            var refused: [RefusedReading] = []
            while try select.next() {
                let words = select.octets(ReadingRow.count)
                refused.append(
                    RefusedReading(
                        id: try rows.content(select).0,
                        serverSaid: try sealing.words(
                            words, on: ReadingRow.key(select), at: destination.rawValue)))
            }
            return refused
        }
    }

    /// Has the server's copy of a reading sent again, at the same timestamp: what would be sent has changed.
    public func requeue(_ id: ReadingID, at destination: DestinationKey = .vital) async throws {
        try await write(.requeue) { [sealing] db in
            for candidate in try sealing.candidates(for: id) {
                try db.execute(
                    sql: """
                        UPDATE outbox SET state = \(outbox: .waiting), revision = revision + 1, attempts = 0, words = NULL
                        WHERE reading = (SELECT key FROM reading WHERE id = ?) AND destination = ?
                        """, arguments: [candidate.data, destination.rawValue])
            }
        }
    }

    /// Has refused readings wait again, as they were offered before: what refused them may have been mended.
    ///
    /// - Parameters:
    ///   - ids: only these; nil: all.
    ///   - destination: only what this one refused; nil: all.
    /// - Returns: how many wait again.
    /// - Throws: ``StoreError/notRefused(_:)`` for an id of no refused reading: then none waits again.
    @discardableResult
    public func retryRefused(_ ids: [ReadingID]? = nil, at destination: DestinationKey? = nil) async throws -> Int {
        try await write(.requeue) { [sealing] db in
            let place = destination.map { " AND destination = \($0.rawValue)" } ?? ""
            let again =
                "UPDATE outbox SET state = \(outbox: .waiting), attempts = 0, words = NULL WHERE state = \(outbox: .refused)"
                + place
            guard let ids else {
                try db.execute(sql: again)
                return db.changesCount
            }
            for id in Set(ids) {
                let isRefused = try sealing.candidates(for: id).contains { candidate in
                    try db.execute(
                        sql: again + " AND reading = (SELECT key FROM reading WHERE id = ?)",
                        arguments: [candidate.data])
                    return db.changesCount > 0
                }
                guard isRefused else { throw StoreError.notRefused(id) }
            }
            return Set(ids).count
        }
    }

    /// Whether delivery is switched on; where it is not, everything that waits is held as `sync_disabled`.
    public func isSyncEnabled() async throws -> Bool {
        try await read { db in try Self.isSyncEnabled(db) }
    }

    /// Switches delivery on or off; kept over restarts.
    public func setSyncEnabled(_ isEnabled: Bool) async throws {
        try await write(.setting) { db in
            try db.execute(
                sql: "INSERT OR REPLACE INTO setting (name, value) VALUES ('sync.enabled', ?)",
                arguments: [isEnabled ? "1" : "0"])
        }
    }

    static func isSyncEnabled(_ db: Database) throws -> Bool {
        let select = try PreparedStatement(db, "SELECT value FROM setting WHERE name = 'sync.enabled'")
        defer { select.reset() }
        return try !select.next() || select.text(0) != "0"
    }
}
