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
    /// How it tells readings apart, and what is kept for it.
    var traits: Traits
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

    /// Whether no two readings of a series may share a second there.
    public var hasUniqueSeconds: Bool { traits.contains(.uniqueSeconds) }
    /// Whether readings of a kind are one series there, whoever made their device and whatever was sampled.
    public var isOneSeries: Bool { traits.contains(.oneSeries) }
    /// Whether each device's readings are a series of their own there.
    public var isSeriesByDevice: Bool { traits.contains(.seriesByDevice) }
    /// Whether the offset of the person's clock is kept with each reading that is queued for it.
    public var keepsOffset: Bool { traits.contains(.keepsOffset) }
    /// Whether a glucose reading is sent again when its context comes after it.
    public var takesContexts: Bool { traits.contains(.takesContexts) }

    /// What the column `has_unique_seconds` has: it began with the first bit alone.
    struct Traits: OptionSet, Sendable, Hashable {
        let rawValue: Int64
        static let uniqueSeconds = Self(rawValue: 1)
        static let oneSeries = Self(rawValue: 2)
        static let keepsOffset = Self(rawValue: 4)
        static let seriesByDevice = Self(rawValue: 8)
        static let takesContexts = Self(rawValue: 16)
    }

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
    ///   - takesContexts: whether a glucose reading is sent again when its context comes after it.
    ///   - needsSource: whether readings go only from a source that the person has connected there.
    ///   - canRetract: whether it can take back what it has; `nil` leaves what is known.
    ///   - address: a fingerprint of its address; `nil` leaves the known one.
    @discardableResult
    public func setDestination(
        _ name: String, kind: String, kinds: Set<ReadingKind>, hasUniqueSeconds: Bool, isOneSeries: Bool = false,
        isSeriesByDevice: Bool = false, keepsOffset: Bool = false, takesContexts: Bool = true, needsSource: Bool,
        canRetract: Bool? = nil, address: String? = nil
    ) async throws -> DestinationKey {
        let now = now()
        let known = try await destinations().first { $0.name == name }
        let traits: StoredDestination.Traits = [
            hasUniqueSeconds ? .uniqueSeconds : [], isOneSeries ? .oneSeries : [],
            isSeriesByDevice ? .seriesByDevice : [], keepsOffset ? .keepsOffset : [],
            takesContexts ? .takesContexts : [],
        ]
        if let known, known.state != .removed, known.kind == kind, known.kinds == kinds, known.traits == traits,
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
                    name, kind, Self.mask(kinds), traits.rawValue, needsSource, now.microseconds, address, canRetract,
                ])
            guard let made = try Self.destinations(db).first(where: { $0.name == name }) else {
                throw StoreError.unknown("destination \(name)")
            }
            if let known, known.state == .removed || known.kind != kind { try Self.noteReturn(db, of: made.key) }
            if made.hasUniqueSeconds, known?.hasUniqueSeconds == false {
                // What it was given before is told apart by what it is: it takes its second, and may share it.
                try db.execute(
                    sql: "UPDATE OR IGNORE outbox SET share = reading WHERE destination = ? AND share IS NULL",
                    arguments: [made.key.rawValue])
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

    /// The number of the destination of a name.
    ///
    /// - Throws: ``StoreError/unknown(_:)``, or an error of the database.
    package func key(ofDestination name: String) async throws -> DestinationKey {
        guard let known = try await destinations().first(where: { $0.name == name }) else {
            throw StoreError.unknown("destination \(name)")
        }
        return known.key
    }

    /// Why nothing goes to a destination now, whatever waits for it: delivery or the destination is switched off.
    public func standingHold(at destination: DestinationKey) async throws -> Hold? {
        try await read { db in try Self.standingHold(db, at: destination) }
    }

    static func standingHold(_ db: Database, at destination: DestinationKey) throws -> Hold? {
        guard try isSyncEnabled(db) else { return .syncDisabled }
        return try destinations(db).first { $0.key == destination }?.hold()
    }

    /// Has a destination's readings wait, or delivers them again: unless its address has changed while they waited, which somebody
    /// has to accept first.
    ///
    /// - Parameters:
    ///   - isEnabled: whether they are delivered.
    ///   - name: the destination's name.
    ///   - address: a fingerprint of its address now; `nil`: the known one.
    /// - Throws: why the key is missing, if it is to deliver again: without it nothing of the queue can be checked.
    public func setDestinationEnabled(_ isEnabled: Bool, _ name: String, address: String? = nil) async throws {
        if isEnabled { try await requireKeys() }
        try await setState(of: name, from: isEnabled ? [.disabled] : [.enabled, .moved]) { known in
            guard isEnabled else { return .disabled }
            return address == nil || known == nil || known == address ? .enabled : .moved
        }
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
                try Self.noteReturn(db, of: known.key)
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

    /// Notes that a destination is back in the settings, or at another address: what was denied meanwhile to the same place under
    /// another name counts.
    private static func noteReturn(_ db: Database, of destination: DestinationKey) throws {
        let last = try PreparedStatement(db, "SELECT max(key) FROM consent").firstInt()
        try set(db, returnSetting(destination), lines: last.map { [String($0)] } ?? [])
    }

    /// The number of the last word about consent that was said before a destination came back; 0 if it never was away.
    static func lastWordBeforeReturn(_ db: Database, of destination: DestinationKey) throws -> Int64 {
        try lines(db, returnSetting(destination)).first.flatMap(Int64.init) ?? 0
    }

    private static func returnSetting(_ destination: DestinationKey) -> String {
        "destination.returned.\(destination.rawValue)"
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
        for setting in [movedSetting(destination), delaySetting(destination), warningSetting(destination)] {
            try set(db, setting, lines: [])
        }
        // It may become again what it was, at the same receiver.
        try OutboxRevision.leaveBehind(db, "destination = ?", destination.rawValue)
        for table in ["retraction", "outbox"] as [StaticString] {
            try db.execute(sql: "DELETE FROM \(table) WHERE destination = ?", arguments: [destination.rawValue])
        }
        try PrunedPlaces.forget(destination.rawValue, db)
        try db.execute(
            sql: """
                UPDATE destination SET address = NULL, enabled_at = ?, left_behind = 0, state =
                    CASE state WHEN \(destination: .moved) THEN \(destination: .enabled) ELSE state END WHERE key = ?
                """, arguments: [now.microseconds, destination.rawValue])
    }

    /// Queues nothing for a destination any more. What was delivered there stays known, in case it comes back: then it is
    /// also asked for what it was still to take back, which is left behind until then.
    public func removeDestination(_ name: String) async throws {
        try await setState(of: name, from: [.enabled, .disabled, .moved]) { _ in .removed }
        try await destroyKeyIfAsked()
    }

    /// - Parameter state: the state of a destination with this address.
    private func setState(
        of name: String, from former: Set<StoredDestination.State>,
        to state: @escaping @Sendable (_ address: String?) -> StoredDestination.State
    ) async throws {
        try await write(.setting) { db in
            guard let known = try Self.destinations(db).first(where: { $0.name == name }) else {
                throw StoreError.unknown("destination \(name)")
            }
            guard former.contains(known.state) else { return }
            try db.execute(
                sql: "UPDATE destination SET state = ? WHERE key = ?",
                arguments: [state(known.address).rawValue, known.key.rawValue])
        }
    }

    static func destinations(_ db: Database) throws -> [StoredDestination] {
        // Asked for before each batch.
        let select = try db.cachedStatement(
            sql: """
                SELECT key, name, kind, kinds, has_unique_seconds, needs_source, state, enabled_at, address, can_retract
                FROM destination ORDER BY key
                """)
        return try Row.fetchAll(select).map { row in
            let (mask, code): (Int64, Int64) = (try row.value(3), try row.value(6))
            guard let state = StoredDestination.State(rawValue: code) else {
                throw StoreError.corrupt(detail: "a destination's state is \(code)")
            }
            return StoredDestination(
                key: DestinationKey(rawValue: try row.value(0)), name: try row.value(1), kind: try row.value(2),
                kinds: Set(ReadingKind.allCases.filter { mask >> $0.code & 1 == 1 }),
                traits: StoredDestination.Traits(rawValue: try row.value(4)), needsSource: try row.value(5),
                canRetract: try row.value(9), state: state,
                enabledAt: (try row.value(7) as Int64?).map(Instant.init(microseconds:)), address: try row.value(8))
        }
    }

    private static func mask(_ kinds: Set<ReadingKind>) -> Int64 { kinds.reduce(0) { $0 | 1 << $1.code } }
}
