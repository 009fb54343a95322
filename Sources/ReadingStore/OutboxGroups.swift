import GRDB
import HealthReadings
import Synchronization

extension OutboxGroup {
    fileprivate init(_ target: ReadingTally.Target, _ part: ReadingTally.Held, held: Hold) throws {
        self.init(
            user: UserKey(rawValue: target.user), resource: try ReadingKind(code: target.resource),
            provider: target.provider, count: part.count, oldest: Instant(seconds: part.oldest), held: held)
    }

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
        try await groups(in: range, at: destination, heedsMode: heedsMode, countsAll: true)
    }

    /// ``groupsWaiting(in:at:heedsMode:)`` for who delivers them: the ``OutboxGroup/count`` of a group that nothing holds
    /// is 0, since counting a backlog takes as long as reading it.
    package func groupsToDeliver(
        in range: ClosedRange<Instant>? = nil, at destination: DestinationKey
    ) async throws -> [OutboxGroup] {
        try await groups(in: range, at: destination, heedsMode: false, countsAll: false)
    }

    /// How many readings of a target wait.
    package func waitingCount(
        user: UserKey, resource: ReadingKind, provider: String, in range: ClosedRange<Instant>? = nil,
        at destination: DestinationKey
    ) async throws -> Int {
        let seconds = Self.seconds(in: range)
        return try await read { db in
            try WaitingGroups(db, destination, seconds).count(
                WaitingGroups.Group(user: user.rawValue, resource: resource.code, provider: provider))
        }
    }

    private func groups(
        in range: ClosedRange<Instant>?, at destination: DestinationKey, heedsMode: Bool, countsAll: Bool
    ) async throws -> [OutboxGroup] {
        let seconds = Self.seconds(in: range)
        // A key that has come back is noticed here: it is where delivery begins.
        if sealing.refusal != nil { try await openKeys() }
        let (commits, known) = (commitCount, HoldLookup(self))
        return try await read { [self] db in
            // What is about to be delivered asks the database itself.
            let holds = try heedsMode ? known.rules(db) : HoldRules(db, sealing, heedsMode: false)
            guard let known = holds.destinations.first(where: { $0.key == destination }) else {
                throw StoreError.unknown("destination \(destination.rawValue)")
            }
            let waiting = try WaitingGroups(db, destination, seconds)
            let groups = try waiting.all()
            guard let oldest = groups.map(\.oldest).min() else { return [] }
            let tally =
                range == nil
                ? try tally(db, holds, countsAll: countsAll, at: destination, since: oldest, commits) : nil
            let apart = try tally?.heldApart(at: destination) ?? Self.heldApart(db, destination, seconds, since: oldest)
            if range == nil { heldCounts.withLock { $0[destination] = apart.reduce(0) { $0 + $1.count } } }
            return try groups.flatMap { group -> [OutboxGroup] in
                let kind = try ReadingKind(code: group.resource)
                var rest = OutboxGroup(
                    user: UserKey(rawValue: group.user), resource: kind, provider: group.provider, count: 0,
                    oldest: Instant(seconds: group.oldest),
                    held: holds.hold(user: group.user, provider: group.provider, kind: kind, at: known))
                if rest.held == .sourceError {
                    let target = UnknownResource(user: group.user, kind: kind, provider: group.provider)
                    rest.isUnknownToServer = holds.isUnknown(target, at: destination)
                    rest.isRefusedWhole = holds.isRefusedWhole(target, at: destination)
                }
                // A provider that is ignored holds all of it; what its devices hold is then no reason beside it.
                let parts =
                    rest.held == .locked
                    ? []
                    : apart.filter {
                        $0.isOfSameTarget(as: rest)
                            && (rest.held != .ignored || $0.held == .noConsent || $0.held == .notSelected)
                    }
                if countsAll || rest.held != nil || !parts.isEmpty {
                    rest.count = try tally?.count(group, at: destination) ?? waiting.count(group)
                }
                guard !parts.isEmpty else { return [rest] }
                rest.count -= parts.reduce(0) { $0 + $1.count }
                guard rest.count > 0 else { return parts }
                // Without the counts it walks along all that is held and older.
                rest.oldest =
                    try tally?.oldestFree(group, at: destination)
                    ?? Self.oldestDeliverable(db, of: rest, destination, seconds) ?? rest.oldest
                return [rest] + parts
            }
        }
    }

    /// What the readings were counted to be, where it takes less time than to walk along what waits.
    private func tally(
        _ db: Database, _ holds: HoldRules, countsAll: Bool, at destination: DestinationKey, since oldest: Int64,
        _ commits: Int
    ) throws -> ReadingTally? {
        if countsAll {
            // Until the readings were counted once, counting what waits takes less time.
            return countedReadings.withLock(\.isBegun) ? try readingTally(db, holds, at: commits) : nil
        }
        // Mostly nothing is held, and what waits is little.
        guard holds.devices[destination]?.conditions(since: oldest).isEmpty == false else { return nil }
        if let known = try knownTally(db, holds, at: commits) { return known }
        // What nobody asks for, such as one person's readings at a destination for another, waits for ever. Each pass would
        // walk along all of it.
        let isMuchHeld = heldCounts.withLock { $0[destination] ?? 0 } > Self.manyHeld
        return isMuchHeld ? try readingTally(db, holds, at: commits) : nil
    }

    /// From so many held readings on, having all readings counted once, and then only what changes, takes less than each pass's walk.
    private static let manyHeld = 100_000

    /// What is not delivered before its context has come, which may say that it is none of its kind.
    public func groupsAwaitingContext(at destination: DestinationKey = .vital) async throws -> [OutboxGroup] {
        let (commits, holds) = (commitCount, HoldLookup(self))
        return try await read { [self] db in
            // What was withdrawn stays where it was: a walk along all of it is the longer the older the store is.
            if let tally = try knownTally(db, holds.rules(db), at: commits) {
                return try tally.groupsAwaitingContext(at: destination)
            }
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT o.user, o.resource, o.provider, count(*), min(o.timestamp)
                    FROM outbox AS o INDEXED BY outbox_withdrawn JOIN reading AS r ON r.key = o.reading
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
        let holds = try DeviceHolds(db, destination).only(user: group.user.rawValue, kind: group.resource)
        return try Int64.fetchOne(
            db,
            sql: """
                SELECT o.timestamp FROM outbox AS o INDEXED BY outbox_waiting JOIN reading AS r ON r.key = o.reading
                WHERE o.destination = ? AND o.state = \(outbox: .waiting) AND o.user = ? AND o.resource = ? AND o.provider = ?
                    AND o.timestamp BETWEEN ? AND ? \(holds.deliverable) ORDER BY o.timestamp LIMIT 1
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

/// What waits for a destination, by its target: it goes from one target to the next, and does not walk along what waits.
private struct WaitingGroups {
    struct Group {
        var user: Int64
        var resource: Int64
        var provider: String
        var oldest: Int64 = 0
    }

    /// The next target: with another provider of the same person and kind, then of another kind, then of another person.
    ///
    /// In one statement, `(user, resource, provider) > (…)`, SQLite walks along all that waits of the target before.
    private let next: [PreparedStatement]
    private let first: PreparedStatement
    private let counted: PreparedStatement

    init(_ db: Database, _ destination: DestinationKey, _ seconds: (first: Int64, last: Int64)) throws {
        let waiting = """
            FROM outbox INDEXED BY outbox_waiting WHERE destination = ?1 AND state = \(outbox: .waiting)
            """
        let ofTarget = "\(waiting) AND user = ?2 AND resource = ?3 AND provider = ?4 AND timestamp BETWEEN ?5 AND ?6"
        let behind = ["user = ?2 AND resource = ?3 AND provider > ?4", "user = ?2 AND resource > ?3", "user > ?2"]
        next = try behind.map {
            try PreparedStatement(
                db,
                """
                SELECT user, resource, provider \(waiting) AND \($0) ORDER BY user, resource, provider LIMIT 1
                """)
        }
        first = try PreparedStatement(db, "SELECT timestamp \(ofTarget) ORDER BY timestamp LIMIT 1")
        counted = try PreparedStatement(db, "SELECT count(*) \(ofTarget)")
        for statement in next + [first, counted] { statement.bind(1, destination.rawValue) }
        for statement in [first, counted] {
            statement.bind(5, seconds.first)
            statement.bind(6, seconds.last)
        }
    }

    /// The groups that hold something, in the order of their targets.
    func all() throws -> [Group] {
        var groups: [Group] = []
        var last = Group(user: .min, resource: .min, provider: "")
        while var found = try group(behind: last) {
            // A target that is not text of UTF-8 is found again and again.
            guard (found.user, found.resource, found.provider) != (last.user, last.resource, last.provider) else {
                throw StoreError.corrupt(detail: "the target of what waits is damaged")
            }
            last = found
            Self.bind(first, found)
            guard let oldest = try first.firstInt() else { continue }
            found.oldest = oldest
            groups.append(found)
        }
        return groups
    }

    func count(_ group: Group) throws -> Int {
        Self.bind(counted, group)
        return Int(try counted.firstInt() ?? 0)
    }

    private func group(behind last: Group) throws -> Group? {
        for (place, statement) in next.enumerated() {
            statement.bind(2, last.user)
            if place < 2 { statement.bind(3, last.resource) }
            if place < 1 { statement.bind(4, last.provider) }
            guard try statement.next() else { continue }
            defer { statement.reset() }
            return Group(user: statement.int(0), resource: statement.int(1), provider: statement.text(2) ?? "")
        }
        return nil
    }

    private static func bind(_ statement: PreparedStatement, _ group: Group) {
        statement.bind(2, group.user)
        statement.bind(3, group.resource)
        statement.bind(4, group.provider)
    }
}

extension ReadingTally {
    fileprivate func count(_ group: WaitingGroups.Group, at destination: DestinationKey) -> Int? {
        waiting[target(of: group, at: destination)]
    }

    fileprivate func oldestFree(_ group: WaitingGroups.Group, at destination: DestinationKey) -> Instant? {
        oldestFree[target(of: group, at: destination)].map(Instant.init(seconds:))
    }

    private func target(of group: WaitingGroups.Group, at destination: DestinationKey) -> Target {
        Target(
            destination: destination.rawValue, user: group.user, resource: group.resource, provider: group.provider)
    }

    /// What waits for its device's sake, whatever its source says.
    fileprivate func heldApart(at destination: DestinationKey) throws -> [OutboxGroup] {
        let targets = Self.sorted(held.keys, at: destination)
        return try DeviceHolds.order.flatMap { hold in
            try targets.compactMap { target in
                try held[target]?[hold].map { try OutboxGroup(target, $0, held: hold) }
            }
        }
    }

    fileprivate func groupsAwaitingContext(at destination: DestinationKey) throws -> [OutboxGroup] {
        try Self.sorted(awaitingContext.keys, at: destination).compactMap { target in
            try awaitingContext[target].map { try OutboxGroup(target, $0, held: .awaitingContext) }
        }
    }

    private static func sorted(_ targets: some Sequence<Target>, at destination: DestinationKey) -> [Target] {
        targets.filter { $0.destination == destination.rawValue }
            .sorted { ($0.user, $0.resource, $0.provider) < ($1.user, $1.resource, $1.provider) }
    }
}
