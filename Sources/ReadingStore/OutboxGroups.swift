import GRDB
import HealthReadings

extension OutboxGroup {
    fileprivate func isOfSameTarget(as other: OutboxGroup) -> Bool {
        user == other.user && resource == other.resource && provider == other.provider
    }
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
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT user, resource, provider, count(*), min(timestamp) FROM outbox
                    WHERE destination = ? AND state = \(outbox: .waiting) AND timestamp BETWEEN ? AND ?
                    GROUP BY user, resource, provider ORDER BY user, resource, provider
                    """, arguments: [destination.rawValue, seconds.first, seconds.last])
            guard let oldest = try rows.map({ try $0.value(4) as Int64 }).min() else { return [] }
            let apart = try Self.heldApart(db, destination, seconds, since: oldest)
            return try rows.flatMap { row -> [OutboxGroup] in
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
    ///
    /// - Parameter oldest: the oldest timestamp of what waits. Mostly it says that nothing is too old, and then a backlog
    ///   is not searched for it.
    private static func heldApart(
        _ db: Database, _ destination: DestinationKey, _ seconds: (first: Int64, last: Int64), since oldest: Int64
    ) throws -> [OutboxGroup] {
        try DeviceHolds(db, destination).conditions(since: oldest).flatMap { hold, condition in
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

    /// The whole seconds within a range: timestamps are whole seconds, its ends need not be.
    static func seconds(in range: ClosedRange<Instant>?) -> (first: Int64, last: Int64) {
        guard let range else { return (.min, .max) }
        let begin = range.lowerBound.seconds
        return (range.lowerBound == range.lowerBound.flooredToSecond ? begin : begin + 1, range.upperBound.seconds)
    }
}
