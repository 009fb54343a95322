import GRDB
import HealthReadings

/// What is delivered next of a group.
package enum NextBatch: Sendable {
    /// Nothing of the destination, or of the group's provider, may be sent now, and why.
    case held(Hold)
    /// The oldest waiting items, none if nothing waits; and whether that is all.
    case items([OutboxItem], isAll: Bool)
}

extension ReadingStore {
    /// The oldest items of one group that may be delivered now, by timestamp. Readings of devices that are held back stay in the
    /// queue, and so does the whole group while its provider is ignored.
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
        return try await read { [sealing] db in
            guard try !Self.isIgnored(provider: group.provider, db) else { return [] }
            return try Self.batch(db, sealing, of: group, limit, at: destination).items
        }
    }

    /// What is delivered next of a group: ``outboxBatch(user:resource:provider:in:limit:at:)``, unless
    /// ``standingHold(at:)`` holds back everything of the destination, or the provider is ignored. All of it is read from the same
    /// commit.
    ///
    /// - Parameters:
    ///   - last: what the items follow, in the order of their timestamps; `nil`: from the first on.
    ///   - oldest: the timestamp of the first, where it is known: what is held and older is then not walked along.
    package func nextBatch(
        user: UserKey, resource: ReadingKind, provider: String, in range: ClosedRange<Instant>? = nil,
        after last: OutboxItem? = nil, from oldest: Instant? = nil, limit: Int, at destination: DestinationKey
    ) async throws -> NextBatch {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        var group = GroupRange(user: user, resource: resource, provider: provider, seconds: Self.seconds(in: range))
        if let oldest { group.seconds.first = max(group.seconds.first, oldest.seconds) }
        if let last { (group.seconds.first, group.reading) = (last.timestamp.seconds, last.id.reading + 1) }
        return try await read { [sealing, group] db in
            if let hold = try Self.standingHold(db, at: destination) { return .held(hold) }
            if try Self.isIgnored(provider: group.provider, db) { return .held(.ignored) }
            let (items, isAll) = try Self.batch(db, sealing, of: group, limit, at: destination)
            return .items(items, isAll: isAll)
        }
    }

    /// What of a group is asked for.
    private struct GroupRange {
        var user: UserKey
        var resource: ReadingKind
        var provider: String
        var seconds: (first: Int64, last: Int64)
        /// The first reading of the first second.
        var reading = Int64.min
    }

    private static func batch(
        _ db: Database, _ sealing: Sealing, of group: GroupRange, _ limit: Int, at destination: DestinationKey
    ) throws -> (items: [OutboxItem], isAll: Bool) {
        try sealing.requireKeys()
        let (user, resource, provider, seconds) = (group.user, group.resource, group.provider, group.seconds)
        let firstContacts = try DeviceHolds.firstContacts(db)
        let named = try PreparedStatement(db, "SELECT name FROM destination WHERE key = ?")
        named.bind(1, destination.rawValue)
        let name = try named.next() ? named.text(0) ?? "" : ""
        named.reset()
        let holds = try DeviceHolds(db, destination).only(user: user.rawValue, kind: resource)
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
                AND (o.timestamp, o.reading) >= (?5, ?8) AND o.timestamp <= ?6 \(holds.deliverable)
                \(isAnyBlocked ? unblocked : "")
            ORDER BY o.timestamp, o.reading LIMIT ?4
            """, isKept: false)
        select.bind(1, user.rawValue)
        select.bind(2, resource.code)
        select.bind(3, provider)
        // One more than is wanted says whether anything follows.
        select.bind(4, Int64(limit) + 1)
        select.bind(5, seconds.first)
        select.bind(6, seconds.last)
        select.bind(7, destination.rawValue)
        select.bind(8, group.reading)
        defer { select.reset() }
        let (rows, first) = (RowReader(db, sealing), ReadingRow.count)
        var items: [OutboxItem] = []
        items.reserveCapacity(limit)
        var isAll = true
        while try select.next() {
            guard items.count < limit else {
                isAll = false
                break
            }
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
        return (items, isAll)
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
                            \(try DeviceHolds(db, destination).only(user: user.rawValue, kind: resource).deliverable))
                    """,
                arguments: [
                    destination.rawValue, user.rawValue, resource.code, provider, timestamp.seconds, latest,
                    seconds.last,
                ]) ?? false
        }
    }
}
