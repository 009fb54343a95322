import GRDB
import HealthReadings
import Synchronization

/// The store's number of a destination.
public struct DestinationKey: RawRepresentable, Sendable, Hashable {
    /// The row of the destination.
    public let rawValue: Int64

    /// Names a destination by its row.
    public init(rawValue: Int64) { self.rawValue = rawValue }

    /// The destination named `vital`, which every store has.
    public static let vital = DestinationKey(rawValue: 1)
}

/// What the store knows of a destination.
public struct StoredDestination: Sendable, Hashable {
    /// Where a destination stands.
    public enum State: Int64, Sendable, Hashable {
        /// Readings are queued and delivered.
        case enabled = 1
        /// Readings are queued and wait; they cannot be pruned.
        case disabled
        /// Nothing is queued, and what was delivered elsewhere can be pruned.
        case removed
        /// Readings are queued and wait until the owner accepts the new address.
        case moved
    }

    /// The name of the destination that every store has.
    static let first = "vital"

    /// The store's number.
    public var key: DestinationKey
    /// The name in the settings.
    public var name: String
    /// What it is: `vital`, `file`, …
    public var kind: String
    /// The kinds of readings it can express and was selected for.
    public var kinds: Set<ReadingKind>
    /// Whether no two readings of a series may share a second there.
    public var hasUniqueSeconds: Bool
    /// Whether readings of a kind are one series there, whoever made their device and whatever was sampled.
    public var isOneSeries = false
    /// Whether each device's readings are a series of their own there.
    public var isSeriesByDevice = false
    /// Whether the offset of the person's clock is kept with each reading that is queued for it.
    public var keepsOffset = false
    /// Whether readings wait until their provider is a connected source.
    public var needsSource: Bool
    /// Whether it can take back what it has.
    public var canRetract: Bool
    /// Where it stands.
    public var state: State
    /// When it was first enabled; `nil` if it was there before destinations were told apart.
    public var enabledAt: Instant?
    /// A fingerprint of its address; `nil` if none was named.
    public var address: String?

    /// Whether readings of a kind are queued for it.
    func takes(_ kind: ReadingKind) -> Bool { state != .removed && kinds.contains(kind) }

    /// Why what waits for it waits; `nil` if it may be delivered.
    ///
    /// - Parameter isManual: whether readings go only when somebody asks, and nobody does.
    func hold(isManual: Bool = false) -> Hold? {
        switch state {
        case .enabled: isManual ? .manual : nil
        case .disabled, .removed: .destinationDisabled
        case .moved: .otherEndpoint
        }
    }
}

extension ReadingStore {
    /// Makes a destination known, or notes what has changed of it, and queues for it what it may get.
    ///
    /// A new destination gets what was measured since the backfill began, counted from now, and more if the backfill is
    /// longer than when it was asked for last. Everything is one commit, so that no reading can be pruned between the two. A
    /// destination whose address has changed waits until ``acceptAddress(_:of:)``, or until the former address is back. One
    /// that is of another kind now is a new one: nothing is known any more of what the former had.
    ///
    /// - Parameters:
    ///   - name: the destination's name.
    ///   - kind: what the destination is: `vital`, `file`, …
    ///   - kinds: the kinds of readings it can express and is selected for.
    ///   - hasUniqueSeconds: whether no two readings of a series may share a second there.
    ///   - isOneSeries: whether readings of a kind are one series there, whoever made their device and whatever was sampled.
    ///   - isSeriesByDevice: whether each device's readings are a series of their own there.
    ///   - keepsOffset: whether the offset of the person's clock is kept with each reading that is queued.
    ///   - needsSource: whether readings go only from a source that the person has connected there.
    ///   - canRetract: whether it can take back what it has; `nil` leaves what is known.
    ///   - address: a fingerprint of its address; `nil` leaves the known one.
    @discardableResult
    public func setDestination(
        _ name: String, kind: String, kinds: Set<ReadingKind>, hasUniqueSeconds: Bool, isOneSeries: Bool = false,
        isSeriesByDevice: Bool = false, keepsOffset: Bool = false, needsSource: Bool,
        canRetract: Bool? = nil, address: String? = nil
    ) async throws -> DestinationKey {
        let now = now()
        let known = try await destinations().first { $0.name == name }
        if let known, known.state != .removed, known.kind == kind, known.kinds == kinds,
            known.hasUniqueSeconds == hasUniqueSeconds, known.isOneSeries == isOneSeries,
            known.isSeriesByDevice == isSeriesByDevice, known.keepsOffset == keepsOffset,
            known.needsSource == needsSource,
            canRetract == nil || known.canRetract == canRetract,
            address == nil || known.address == address && known.state != .moved,
            try await read({ db in try Backlog.isQueued(db, known) })
        {
            return known.key
        }
        try await requireKeys()
        return try await write(.setting) { [self] db in
            if let known, known.kind != kind { try Self.forgetContents(db, of: known.key, now: now) }
            try db.execute(
                sql: """
                    INSERT INTO destination
                        (name, kind, kinds, has_unique_seconds, needs_source, state, enabled_at, address, can_retract)
                    VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, coalesce(?8, 0))
                    ON CONFLICT (name) DO UPDATE SET kind = ?2, kinds = ?3, has_unique_seconds = ?4, needs_source = ?5,
                        state = CASE WHEN state = \(destination: .disabled) THEN \(destination: .disabled) WHEN ?7 <> address THEN \(destination: .moved)
                            WHEN state = \(destination: .removed) OR ?7 = address THEN \(destination: .enabled) ELSE state END,
                        address = coalesce(address, ?7), can_retract = coalesce(?8, can_retract)
                    """,
                arguments: [
                    name, kind, Self.mask(kinds),
                    (hasUniqueSeconds ? 1 : 0) | (isOneSeries ? 2 : 0) | (keepsOffset ? 4 : 0)
                        | (isSeriesByDevice ? 8 : 0), needsSource,
                    now.microseconds, address, canRetract,
                ])
            guard let made = try Self.destinations(db).first(where: { $0.name == name }) else {
                throw StoreError.unknown("destination \(name)")
            }
            if made.key != .vital || known?.state == .removed || known?.kind != kind {
                let pruned = try PrunedReadings(db, key: pruneKey.withLock(\.self))
                try Backlog(db, sealing, made, pruned).queue()
            }
            return made.key
        }
    }

    /// The destinations, removed ones included.
    public func destinations() async throws -> [StoredDestination] { try await read(Self.destinations) }

    /// Why nothing goes to a destination now, whatever waits for it: delivery or the destination is switched off.
    public func standingHold(at destination: DestinationKey) async throws -> Hold? {
        try await read { db in
            guard try Self.isSyncEnabled(db) else { return .syncDisabled }
            return try Self.destinations(db).first { $0.key == destination }?.hold()
        }
    }

    /// Has a destination's readings wait, or delivers them again.
    ///
    /// - Throws: why the key is missing, if it is to deliver again: without it nothing of the queue can be checked.
    public func setDestinationEnabled(_ isEnabled: Bool, _ name: String) async throws {
        if isEnabled { try await requireKeys() }
        try await setState(
            isEnabled ? .enabled : .disabled, of: name, from: isEnabled ? [.disabled] : [.enabled, .moved])
    }

    /// Delivers to a destination's new address what waited for the former one. Another address is another server: which
    /// ids and sources people have there is asked of it anew.
    ///
    /// - Parameters:
    ///   - address: the fingerprint of the new address; `nil` leaves the known one.
    ///   - name: the destination's name.
    /// - Throws: why the key is missing.
    public func acceptAddress(_ address: String?, of name: String) async throws {
        try await requireKeys()
        let now = now()
        try await write(.setting) { db in
            guard let known = try Self.destinations(db).first(where: { $0.name == name }) else {
                throw StoreError.unknown("destination \(name)")
            }
            if let address, let former = known.address, address != former {
                try Self.forgetPeople(db, at: known.key)
                try Self.set(db, Self.movedSetting(known.key), lines: [String(now.microseconds)])
            }
            try db.execute(
                sql: """
                    UPDATE destination SET state = CASE state WHEN 4 THEN 1 ELSE state END, address = coalesce(?, address)
                    WHERE name = ?
                    """, arguments: [address, name])
        }
    }

    /// When the destination's address last became another; what it was given before is at the former one.
    static func movedAt(_ db: Database, _ destination: DestinationKey) throws -> Int64? {
        try lines(db, movedSetting(destination)).first.flatMap(Int64.init)
    }

    private static func movedSetting(_ destination: DestinationKey) -> String {
        "destination.moved.\(destination.rawValue)"
    }

    /// Forgets what a server calls people, which sources they have there, and which zone it was told of.
    private static func forgetPeople(_ db: Database, at destination: DestinationKey) throws {
        for table in ["source", "destination_user"] as [StaticString] {
            try db.execute(sql: "DELETE FROM \(table) WHERE destination = ?", arguments: [destination.rawValue])
        }
        for user in try Int64.fetchAll(db, sql: "SELECT key FROM user") {
            try set(db, zoneSetting(user, destination), lines: [])
        }
    }

    /// Forgets all that a destination was given, as if it had not been named before.
    private static func forgetContents(_ db: Database, of destination: DestinationKey, now: Instant) throws {
        try forgetPeople(db, at: destination)
        try set(db, movedSetting(destination), lines: [])
        for table in ["retraction", "outbox", "pruned_place"] as [StaticString] {
            try db.execute(sql: "DELETE FROM \(table) WHERE destination = ?", arguments: [destination.rawValue])
        }
        try db.execute(
            sql: """
                UPDATE destination SET address = NULL, enabled_at = ?, left_behind = 0, state =
                    CASE state WHEN \(destination: .moved) THEN \(destination: .enabled) ELSE state END WHERE key = ?
                """, arguments: [now.microseconds, destination.rawValue])
    }

    /// Queues nothing for a destination any more. What was delivered there stays known, in case it comes back; what it was
    /// still to take back is left behind.
    public func removeDestination(_ name: String) async throws {
        try await setState(.removed, of: name, from: [.enabled, .disabled, .moved])
    }

    private func setState(
        _ state: StoredDestination.State, of name: String, from former: Set<StoredDestination.State>
    ) async throws {
        try await write(.setting) { db in
            guard let known = try Self.destinations(db).first(where: { $0.name == name }) else {
                throw StoreError.unknown("destination \(name)")
            }
            guard former.contains(known.state) else { return }
            try db.execute(
                sql: "UPDATE destination SET state = ? WHERE key = ?", arguments: [state.rawValue, known.key.rawValue])
            guard state == .removed else { return }
            try db.execute(
                sql: """
                    UPDATE destination SET left_behind = left_behind + (
                        SELECT count(*) FROM retraction WHERE destination = ?1 AND reading IS NULL) WHERE key = ?1
                    """, arguments: [known.key.rawValue])
            try db.execute(sql: "DELETE FROM retraction WHERE destination = ?", arguments: [known.key.rawValue])
        }
    }

    static func destinations(_ db: Database) throws -> [StoredDestination] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT key, name, kind, kinds, has_unique_seconds, needs_source, state, enabled_at, address, can_retract
                FROM destination ORDER BY key
                """
        ).map { row in
            let (mask, code, seconds): (Int64, Int64, Int64) = (try row.value(3), try row.value(6), try row.value(4))
            guard let state = StoredDestination.State(rawValue: code) else {
                throw StoreError.corrupt(detail: "a destination's state is \(code)")
            }
            return StoredDestination(
                key: DestinationKey(rawValue: try row.value(0)), name: try row.value(1), kind: try row.value(2),
                kinds: Set(ReadingKind.allCases.filter { mask >> $0.code & 1 == 1 }),
                hasUniqueSeconds: seconds & 1 != 0, isOneSeries: seconds & 2 != 0, isSeriesByDevice: seconds & 8 != 0,
                keepsOffset: seconds & 4 != 0,
                needsSource: try row.value(5), canRetract: try row.value(9),
                state: state,
                enabledAt: (try row.value(7) as Int64?).map(Instant.init(microseconds:)), address: try row.value(8))
        }
    }

    private static func mask(_ kinds: Set<ReadingKind>) -> Int64 { kinds.reduce(0) { $0 | 1 << $1.code } }
}

/// Chooses the place of a reading at a destination and queues it there.
struct OutboxPlacement {
    let db: Database
    let sealing: Sealing
    let destinations: [StoredDestination]
    let pruned: PrunedReadings?
    let insert: PreparedStatement

    /// Queues a reading at its time, or at the first free second behind it: chosen once, kept for ever.
    ///
    /// - Parameter start: the first second that may be free.
    /// - Returns: the second it has.
    func queue(
        _ reading: Int64, of kind: ReadingKind, device: (key: Int64, description: DeviceDescription),
        in series: ContactState.Series, from start: Int64, at destination: StoredDestination
    ) throws -> Int64 {
        let share = destination.hasUniqueSeconds ? Self.share(of: device.description, at: destination) : reading
        insert.bind(1, reading)
        insert.bind(2, destination.key.rawValue)
        insert.bind(3, series.user)
        insert.bind(4, series.kind)
        insert.bind(5, series.provider)
        insert.bind(6, series.type)
        insert.bind(8, share)
        insert.bind(10, destination.keepsOffset ? try offset(of: series.user, at: start) : nil)
        let others = destination.hasUniqueSeconds ? formerNames(of: destination) : []
        var timestamp = try second(of: reading, at: others) ?? start
        while true {
            let tag = OutboxTag(
                reading: reading, destination: destination.name, user: series.user, resource: series.kind,
                provider: series.provider, type: series.type, timestamp: timestamp)
            insert.bind(7, timestamp)
            insert.bind(9, octets: try tag.made(sealing))
            let isHeld =
                try destination.hasUniqueSeconds
                && (isTaken(timestamp, kind, device: device.key, series, at: destination)
                    || destination.isOneSeries
                        && ([destination.key.rawValue] + others).contains { place in
                            // A weight and the weight of a composition are the same kind of event there.
                            try (BodySummaryRules.kinds.contains(kind) ? BodySummaryRules.kinds : [kind]).contains {
                                try isTakenByKind($0, timestamp, series, reading, at: place)
                            }
                        }
                    || others.contains { other in
                        try isTaken(timestamp, kind, device: device.key, series, at: destination, as: other)
                            || isTakenByAnother(reading, timestamp, series, share, at: other)
                    })
            if !isHeld, try insert.run() > 0 { return timestamp }
            timestamp &+= 1
        }
    }

    /// Destinations that are the same place under another name: what they were given is there.
    private func formerNames(of destination: StoredDestination) -> [Int64] {
        guard let address = destination.address else { return [] }
        return destinations.filter {
            $0.key != destination.key && $0.kind == destination.kind && $0.address == address
        }.map(\.key.rawValue)
    }

    /// The second that a reading has at one of these.
    private func second(of reading: Int64, at destinations: [Int64]) throws -> Int64? {
        for destination in destinations {
            let timestamp = try Int64.fetchOne(
                db, sql: "SELECT timestamp FROM outbox WHERE reading = ? AND destination = ?",
                arguments: [reading, destination])
            if let timestamp { return timestamp }
        }
        return nil
    }

    /// What tells readings of one second apart at a destination with unique seconds, besides the series: nothing, or the
    /// device, by the digits that it is known by there.
    private static func share(of device: DeviceDescription, at destination: StoredDestination) -> Int64 {
        guard destination.isSeriesByDevice else { return 0 }
        return (Int64(DeviceAlias(device).digits, radix: 16) ?? -1) + 2
    }

    private func isTakenByAnother(
        _ reading: Int64, _ timestamp: Int64, _ series: ContactState.Series, _ share: Int64, at destination: Int64
    ) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM outbox WHERE destination = ? AND user = ? AND resource = ? AND provider = ?
                    AND type = ? AND timestamp = ? AND share = ? AND reading <> ?)
                """,
            arguments: [
                destination, series.user, series.kind, series.provider, series.type, timestamp, share, reading,
            ]) ?? false
    }

    static let schema = """
        -- What the person's clock showed ahead of UTC, in minutes, when the reading was queued; for destinations that keep it.
        ALTER TABLE outbox ADD COLUMN offset_minutes INTEGER;
        """

    /// Every sample type, as SQL lists them.
    private static let types = Record.sampleTypeCodes.map(String.init).joined(separator: ",")

    /// The offset of a person's clock at an instant, in minutes; chosen once, since a zone's rules may be corrected later.
    private func offset(of user: Int64, at seconds: Int64) throws -> Int64? {
        let instant = Instant(seconds: seconds)
        let zone = try ReadingStore.zone(db, of: user, at: instant).flatMap(ZoneRules.named)
        return zone.map { $0.offsetSeconds(at: instant) / 60 }
    }

    /// Whether a reading of the same kind has a second at a destination for which they are one series.
    private func isTakenByKind(
        _ kind: ReadingKind, _ timestamp: Int64, _ series: ContactState.Series, _ reading: Int64, at destination: Int64
    ) throws -> Bool {
        // The index is by provider and type before the second: it is asked for the few of either, each by itself.
        let select = try PreparedStatement(
            db,
            """
            WITH RECURSIVE known(provider) AS (
                SELECT min(provider) FROM outbox WHERE destination = ?1 AND user = ?2 AND resource = ?3
                UNION ALL
                SELECT (SELECT min(provider) FROM outbox
                    WHERE destination = ?1 AND user = ?2 AND resource = ?3 AND provider > known.provider)
                FROM known WHERE provider IS NOT NULL)
            SELECT EXISTS (
                SELECT 1 FROM outbox WHERE destination = ?1 AND user = ?2 AND resource = ?3
                    AND provider IN (SELECT provider FROM known WHERE provider IS NOT NULL)
                    AND type IN (\(Self.types)) AND timestamp = ?4 AND reading <> ?5)
                OR EXISTS (
                SELECT 1 FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                WHERE p.destination = ?1 AND p.timestamp = ?4 AND r.user = ?2 AND r.kind = ?3)
            """)
        defer { select.reset() }
        select.bind(1, destination)
        select.bind(2, series.user)
        select.bind(3, kind.code)
        select.bind(4, timestamp)
        select.bind(5, reading)
        return try select.firstInt() == 1
    }

    /// - Parameter former: the row under which the destination was known before; `nil`: its own.
    private func isTaken(
        _ timestamp: Int64, _ kind: ReadingKind, device: Int64, _ series: ContactState.Series,
        at destination: StoredDestination, as former: Int64? = nil
    ) throws -> Bool {
        let place = former ?? destination.key.rawValue
        guard !destination.isSeriesByDevice else {
            return try pruned != nil
                && Bool.fetchOne(
                    db,
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                            WHERE p.destination = ? AND p.timestamp = ? AND r.user = ? AND r.kind = ? AND r.device = ?)
                        """, arguments: [place, timestamp, series.user, series.kind, device]) ?? false
        }
        return try BodySummaryRules.isTaken(
            timestamp, db, at: place, kind: kind, user: series.user, provider: series.provider, device: device)
            || pruned?.holds(
                at: place, user: series.user, kind: series.kind, provider: series.provider, type: series.type,
                timestamp: timestamp) ?? false
    }
}

/// Queues for a destination what the store has for it already.
struct Backlog {
    private let db: Database
    private let destination: StoredDestination
    private let placement: OutboxPlacement
    private let rows: RowReader

    init(_ db: Database, _ sealing: Sealing, _ destination: StoredDestination, _ pruned: PrunedReadings?) throws {
        self.db = db
        self.destination = destination
        placement = OutboxPlacement(
            db: db, sealing: sealing, destinations: try ReadingStore.destinations(db), pruned: pruned,
            insert: try PreparedStatement(db, JournalStatements.insertOutboxSQL))
        rows = RowReader(db, sealing)
    }

    func queue() throws {
        var after: Int64 = 0
        while let last = try queue(after: after) { after = last }
        let first = try Self.cutoff(db, destination)
        try ReadingStore.set(db, Self.setting(destination), lines: [String(first)])
    }

    /// Whether everything that belongs to the backfill has been queued; what came since then is queued as it comes.
    static func isQueued(_ db: Database, _ destination: StoredDestination) throws -> Bool {
        // Every store begins with it, and queues everything for it.
        try destination.enabledAt == nil || queued(db, destination) <= cutoff(db, destination)
    }

    /// The first second of what has been queued; what was stored while it was not named, and is older, was not.
    static func queued(_ db: Database, _ destination: StoredDestination) throws -> Int64 {
        try ReadingStore.lines(db, setting(destination)).first.flatMap(Int64.init) ?? .max
    }

    private static func setting(_ destination: StoredDestination) -> String {
        "destination.queued.\(destination.key.rawValue)"
    }

    /// The first second that belongs to the backfill.
    private static func cutoff(_ db: Database, _ destination: StoredDestination) throws -> Int64 {
        guard
            let days = try ReadingStore.rule(db, of: destination.name).backfillDays ?? ReadingStore.backfillDays(db),
            let enabled = destination.enabledAt
        else { return .min }
        let seconds = Int64(days).multipliedReportingOverflow(by: 86_400)
        let cutoff = enabled.seconds.subtractingReportingOverflow(seconds.partialValue)
        return seconds.overflow || cutoff.overflow ? .min : cutoff.partialValue
    }

    private func queue(after: Int64) throws -> Int64? {
        let kinds = destination.kinds.map { String($0.code) }.sorted().joined(separator: ",")
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), r.user, d.provider,
                EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND state = \(outbox: .withdrawn))
            FROM reading AS r JOIN device AS d ON d.key = r.device
            WHERE r.key > ?1 AND r.kind IN (\(kinds)) AND r.record_exclusion IS NULL AND r.time_exclusion IS NULL
                AND r.time >= ?2 AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND destination = ?3)
            ORDER BY r.key LIMIT 500
            """)
        select.bind(1, after)
        select.bind(2, try Self.cutoff(db, destination))
        select.bind(3, destination.key.rawValue)
        var found: [(key: Int64, reading: Reading, device: Int64, user: Int64, provider: String, isWithdrawn: Bool)] =
            []
        var last: Int64?
        while try select.next() {
            let (key, first) = (ReadingRow.key(select), ReadingRow.count)
            last = key
            // A damaged row stays as it is; verification reports it.
            guard let reading = try? rows.reading(select), reading.kind.isDelivered else { continue }
            found.append(
                (
                    key, reading, ReadingRow.device(select), select.int(first), select.text(first + 1) ?? "",
                    select.int(first + 2) == 1
                ))
        }
        select.reset()
        for item in found {
            guard let wanted = item.reading.time.instant?.seconds else { continue }
            let series = ContactState.Series(
                user: item.user, kind: item.reading.kind.code, provider: item.provider,
                type: item.reading.record.sampleTypeCode)
            _ = try placement.queue(
                item.key, of: item.reading.kind, device: (item.device, item.reading.device), in: series, from: wanted,
                at: destination)
            // Until its context has come it may be none of the kind it looks like.
            if item.isWithdrawn {
                try db.execute(
                    sql: "UPDATE outbox SET state = \(outbox: .withdrawn) WHERE reading = ? AND destination = ?",
                    arguments: [item.key, destination.key.rawValue])
            }
        }
        return last
    }
}
