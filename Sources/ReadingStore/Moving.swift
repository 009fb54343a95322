import GRDB
import HealthReadings
import Logging
import Synchronization

/// Which stored readings are another person's than the store says.
public enum MoveSelection: Sendable, Hashable {
    /// Those with these ids.
    case readings([ReadingID])
    /// Those that a device measured.
    case device(DeviceReadings)

    /// Readings of one device.
    public struct DeviceReadings: Sendable, Hashable {
        /// The device, by any of its addresses.
        public var address: DeviceAddress
        /// The slot of the device's own that the record names; `nil`: any, or none.
        public var slot: UInt8?
        /// Only readings measured within it, both ends included; readings without a time are then left where they are.
        public var range: ClosedRange<Instant>?
        /// Only readings of this person; `nil`: of anybody.
        public var person: UserKey?

        /// Makes a selection.
        public init(
            address: DeviceAddress, slot: UInt8? = nil, range: ClosedRange<Instant>? = nil, person: UserKey? = nil
        ) {
            self.address = address
            self.slot = slot
            self.range = range
            self.person = person
        }
    }
}

/// What moving would come to, for a person to confirm.
public struct MovePreview: Sendable, Hashable {
    /// How many readings would move, by the client's id of the person who has them; "" for one without a name.
    public var readings: [String: Int] = [:]
    /// Readings that are the person's already.
    public var unchanged = 0
    /// Readings that a destination has, or may have, by its name.
    public var delivered: [String: Int] = [:]
    /// Readings of the device that were pruned, and stay whose they were.
    public var pruned = 0

    /// How many would move.
    public var count: Int { readings.values.reduce(0, +) }
}

/// What moving readings to another person has come to.
public struct ReadingMove: Sendable, Hashable {
    /// What it means at a destination.
    public struct Place: Sendable, Hashable {
        /// Readings that it is to take back from the former person: the next delivery asks for it.
        public var retracting = 0
        /// Readings that it has and cannot take back.
        public var leftBehind = 0
        /// Readings that wait for it as the new person's.
        public var waiting = 0
    }

    /// Readings that are the person's now.
    public var moved = 0
    /// Readings that were the person's already.
    public var unchanged = 0
    /// What it means at each destination, by its name; one that it means nothing to is missing.
    public var destinations: [String: Place] = [:]

    static func += (sum: inout ReadingMove, part: ReadingMove) {
        sum.moved += part.moved
        sum.unchanged += part.unchanged
        sum.destinations.merge(part.destinations) { lhs, rhs in
            Place(
                retracting: lhs.retracting + rhs.retracting, leftBehind: lhs.leftBehind + rhs.leftBehind,
                waiting: lhs.waiting + rhs.waiting)
        }
    }
}

/// Why readings cannot be moved.
public enum MoveError: Error, Sendable, Hashable {
    /// The store has no reading with this id.
    case noSuchReading(ReadingID)
    /// The store knows no device with this address.
    case noSuchDevice(DeviceAddress)
}

extension MoveError: CustomStringConvertible {
    /// The error's published name in snake_case.
    public var code: String {
        switch self {
        case .noSuchReading: "no_such_reading"
        case .noSuchDevice: "no_such_device"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .noSuchReading(let id): "the store has no reading \(id)"
        case .noSuchDevice(let address): "the store knows no device \(address)"
        }
    }

    /// What to do next, for people.
    public var hint: String {
        switch self {
        case .noSuchReading: "`healthrelay query` shows the ids."
        case .noSuchDevice: "`healthrelay devices` shows the addresses."
        }
    }
}

extension ReadingStore {
    /// What moving readings to a person would come to; nothing is changed.
    ///
    /// - Throws: ``MoveError``; ``StoreError/unknown(_:)`` for a person the store does not know; ``lockedBecause`` if the
    ///   key is missing.
    public func previewMove(of selection: MoveSelection, to person: UserKey) async throws -> MovePreview {
        try await requireKeys()
        return try await read { [sealing] db in
            try Mover.preview(db, sealing, selection, to: person.rawValue)
        }
    }

    /// Makes stored readings another person's: they were measured by somebody else than the store says.
    ///
    /// A reading keeps its id, its time and everything else. Destinations that have it are asked to take it back from the
    /// former person, and get it as the new person's, where that person's consent and the destination's people allow it. A
    /// record of a slot that was nobody's becomes an ordinary reading of the person. Reading the device again, or the same
    /// capture, changes nothing of that. Whose the device's next readings are is unchanged, but for a sensor without an address:
    /// one person wears it, so its next readings are that person's too.
    ///
    /// Readings move some hundred in a transaction: one that is cut short has moved each reading whole or not at all, and
    /// moving the same selection again moves the rest.
    ///
    /// - Parameters:
    ///   - selection: which readings.
    ///   - person: whose they are.
    ///   - progress: called after each transaction with how many readings were looked at, of how many.
    /// - Throws: ``MoveError``; ``StoreError/unknown(_:)`` for a person the store does not know; ``lockedBecause`` if the
    ///   key is missing; an error of the database.
    @discardableResult
    public func moveReadings(
        _ selection: MoveSelection, to person: UserKey,
        progress: @escaping @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
    ) async throws -> ReadingMove {
        try await requireKeys()
        let now = now()
        let keys = try await read { [sealing] db in
            try Mover.requirePerson(db, person.rawValue)
            return try Mover.keys(db, sealing, selection)
        }
        var (move, done) = (ReadingMove(), 0)
        while done < keys.count {
            let batch = Array(keys[done..<min(done + Mover.size, keys.count)])
            move += try await write(.move) { [self] db in
                let mover = try Mover(
                    db, sealing, pruned: PrunedReadings(db, key: pruneKey.withLock(\.self)), now: now)
                return try mover.move(batch, selection, to: person.rawValue)
            } committed: { [self] part in
                guard part.moved > 0 else { return }
                // Whoever keeps a copy of a reading shows it to somebody whose it is no longer.
                erasureCount.withLock { $0 += 1 }
                contacts.withLock { $0 = [:] }
            }
            done += batch.count
            publishRemoval()
            progress(done, keys.count)
            try Task.checkCancellation()
        }
        if move.moved > 0 { logger.notice("readings were moved", metadata: ["count": "\(move.moved)"]) }
        return move
    }
}

/// Moves readings within one transaction.
private struct Mover {
    /// How many readings a transaction moves.
    static let size = 200

    private let db: Database
    private let sealing: Sealing
    private let rows: RowReader
    private let placement: OutboxPlacement
    private let destinations: [StoredDestination]
    private let queued: [DestinationKey: Int64]
    private let numbers: RowNumbers
    private let own: String

    init(_ db: Database, _ sealing: Sealing, pruned: PrunedReadings?, now: Instant) throws {
        try sealing.requireKeys()
        self.db = db
        self.sealing = sealing
        rows = RowReader(db, sealing)
        destinations = try ReadingStore.destinations(db)
        placement = OutboxPlacement(
            db: db, sealing: sealing, destinations: destinations, pruned: pruned,
            insert: try PreparedStatement(db, JournalStatements.insertOutboxSQL))
        queued = Dictionary(
            uniqueKeysWithValues: try destinations.map { destination in
                (destination.key, destination.enabledAt == nil ? .min : try Backlog.queued(db, destination))
            })
        numbers = try RowNumbers(db, now: now)
        own = try OwnReadings(db).condition
    }

    // MARK: Which

    static func requirePerson(_ db: Database, _ person: Int64) throws {
        let isKnown = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM user WHERE key = ?)", arguments: [person])
        guard isKnown == true else { throw StoreError.unknown("user \(person)") }
    }

    /// The rows that may be meant; a device's slot is looked at in each.
    static func keys(_ db: Database, _ sealing: Sealing, _ selection: MoveSelection) throws -> [Int64] {
        switch selection {
        case .readings(let ids):
            return try Set(ids).map { id in
                for candidate in try sealing.candidates(for: id) {
                    let key = try Int64.fetchOne(
                        db, sql: "SELECT key FROM reading WHERE id = ?", arguments: [candidate.data])
                    if let key { return key }
                }
                throw MoveError.noSuchReading(id)
            }.sorted()
        case .device(let device):
            let seconds = ReadingStore.seconds(in: device.range)
            return try Int64.fetchAll(
                db,
                sql: """
                    SELECT key FROM reading WHERE device = ?1 AND (?2 IS NULL OR user = ?2)
                        AND (?3 = 0 OR time BETWEEN ?4 AND ?5) ORDER BY key
                    """,
                arguments: [
                    try row(of: device.address, db), device.person?.rawValue, device.range == nil ? 0 : 1,
                    seconds.first, seconds.last,
                ])
        }
    }

    private static func row(of address: DeviceAddress, _ db: Database) throws -> Int64 {
        let key = try Int64.fetchOne(
            db,
            sql: """
                SELECT key FROM device WHERE address = ?1 AND address_kind = ?2
                UNION ALL SELECT device FROM device_address WHERE address = ?1 AND address_kind = ?2 LIMIT 1
                """, arguments: [Int64(bitPattern: address.bits), address.kindCode])
        guard let key else { throw MoveError.noSuchDevice(address) }
        return key
    }

    private static func isMeant(_ content: ReadingContent, _ selection: MoveSelection) -> Bool {
        guard case .device(let device) = selection, let slot = device.slot else { return true }
        return content.userSlot == slot
    }

    /// Whether a reading would change: it is another's, or was excluded because it was nobody's.
    private static func isOther(_ columns: ReadingColumns, than person: Int64) -> Bool {
        columns.user != person || columns.timeExclusion == Exclusion.otherUser.code
    }

    static func preview(
        _ db: Database, _ sealing: Sealing, _ selection: MoveSelection, to person: Int64
    ) throws -> MovePreview {
        try requirePerson(db, person)
        var preview = MovePreview()
        let rows = RowReader(db, sealing)
        let select = try PreparedStatement(db, "SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key = ?")
        let places = try PreparedStatement(
            db,
            """
            SELECT d.name FROM outbox AS o JOIN destination AS d ON d.key = o.destination
            WHERE o.reading = ? AND (o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL)
            """)
        for key in try keys(db, sealing, selection) {
            select.bind(1, key)
            guard try select.next() else { continue }
            let stored = try rows.stored(select)
            select.reset()
            guard isMeant(stored.content, selection) else { continue }
            guard isOther(stored.columns, than: person) else {
                preview.unchanged += 1
                continue
            }
            preview.readings[try rows.people.name(stored.columns.user) ?? "", default: 0] += 1
            places.bind(1, key)
            while try places.next() { preview.delivered[places.text(0) ?? "", default: 0] += 1 }
        }
        if case .device(let device) = selection {
            let seconds = ReadingStore.seconds(in: device.range)
            preview.pruned =
                try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM pruned WHERE device = ?1 AND user <> ?2 AND (?3 IS NULL OR user = ?3)
                            AND time BETWEEN ?4 AND ?5
                        """,
                    arguments: [
                        try row(of: device.address, db), person, device.person?.rawValue, seconds.first, seconds.last,
                    ]) ?? 0
        }
        return preview
    }

    // MARK: Moving

    func move(_ keys: [Int64], _ selection: MoveSelection, to person: Int64) throws -> ReadingMove {
        try Self.requirePerson(db, person)
        // Nothing is delivered for somebody whose row was changed outside of this program.
        try PeopleTags(db: db, sealing: sealing).check(person: person)
        var move = ReadingMove()
        for key in keys { try self.move(key, selection, to: person, &move) }
        return move
    }

    private func move(
        _ key: Int64, _ selection: MoveSelection, to person: Int64, _ move: inout ReadingMove
    ) throws {
        let select = try PreparedStatement(
            db, "SELECT \(ReadingRow.columns), \(own) FROM reading AS r WHERE r.key = ?")
        select.bind(1, key)
        // It went meanwhile.
        guard try select.next() else { return }
        let stored = try rows.stored(select)
        let wasCertain = select.int(ReadingRow.count) != 0
        select.reset()
        guard Self.isMeant(stored.content, selection) else { return }
        guard Self.isOther(stored.columns, than: person) else {
            move.unchanged += 1
            return
        }
        let former = try places(of: key)
        try takeBack(key, stored.id, former, &move)
        try ReadingRow.change(db, key, rows) { stored in
            stored.columns.user = person
            // It was nobody's: now it is somebody's.
            if stored.columns.timeExclusion == Exclusion.otherUser.code { stored.columns.timeExclusion = nil }
        }
        if wasCertain, stored.columns.user != person {
            try Changes(db: db).noteDeparture(of: key, from: stored.columns.user, numbers)
        }
        try assignSensor(of: key, to: person)
        try Changes(db: db).noteRevision(of: key, numbers)
        let wasExcluded = stored.columns.recordExclusion != nil || stored.columns.timeExclusion != nil
        try queue(key, for: person, former, wasExcluded: wasExcluded, &move)
        move.moved += 1
    }

    /// Makes the sensor of a reading the person's: one person wears it, so its next readings are theirs too.
    private func assignSensor(of reading: Int64, to person: Int64) throws {
        try db.executeCached(
            sql: """
                UPDATE device SET user = ?1 WHERE user IS NOT ?1 AND address IS NULL
                    AND key = (SELECT device FROM sensor_record WHERE reading = ?2)
                """, arguments: [person, reading])
    }

    /// How a reading stood with a destination.
    private struct Place {
        var state: Int64
        var revision: Int64
    }

    private func places(of key: Int64) throws -> [Int64: Place] {
        Dictionary(
            uniqueKeysWithValues: try Row.fetchAll(
                db, sql: "SELECT destination, state, revision FROM outbox WHERE reading = ?", arguments: [key]
            ).map { (try $0.value(0), Place(state: try $0.value(1), revision: try $0.value(2))) })
    }

    /// Has every destination that may have the reading take it back from the former person, and takes it out of the queues.
    private func takeBack(_ key: Int64, _ id: ReadingID, _ former: [Int64: Place], _ move: inout ReadingMove) throws {
        let leftBehind = """
            can_retract = 0 AND EXISTS (SELECT 1 FROM outbox WHERE reading = ? AND destination = destination.key
                AND (delivered_at IS NOT NULL OR handed_over_at IS NOT NULL))
            """
        for name in try String.fetchAll(db, sql: "SELECT name FROM destination WHERE \(leftBehind)", arguments: [key]) {
            move.destinations[name, default: .init()].leftBehind += 1
        }
        try db.execute(
            sql: "UPDATE destination SET left_behind = left_behind + 1 WHERE \(leftBehind)", arguments: [key])
        for place in try Retracting(db: db, sealing: sealing).takeBack(key, id: id) {
            guard let destination = destinations.first(where: { $0.key.rawValue == place }) else { continue }
            move.destinations[destination.name, default: .init()].retracting += 1
        }
    }

    private func queue(
        _ key: Int64, for person: Int64, _ former: [Int64: Place], wasExcluded: Bool, _ move: inout ReadingMove
    ) throws {
        let select = try PreparedStatement(db, "SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key = ?")
        select.bind(1, key)
        guard try select.next() else { throw StoreError.corrupt(detail: "reading \(key) is missing") }
        let reading = try rows.reading(select)
        let device = ReadingRow.device(select)
        select.reset()
        guard reading.excluded == nil, reading.record.isDelivered, let wanted = reading.time.instant?.seconds else {
            return
        }
        let series = ContactState.Series(
            user: person, kind: reading.kind.code, provider: reading.device.provider,
            type: reading.record.sampleTypeCode)
        // Until its context has come it may be none of the kind it looks like.
        let isAwaiting = !wasExcluded && former.values.contains { $0.state == OutboxState.withdrawn.rawValue }
        for destination in destinations where destination.takes(reading.kind) {
            let place = former[destination.key.rawValue]
            guard place != nil || wanted >= queued[destination.key] ?? .max else { continue }
            _ = try placement.queue(
                key, of: reading.kind, device: (device, reading.device), in: series, from: wanted, at: destination)
            // What is on its way as the former person's acknowledges nothing of this.
            try db.execute(
                sql: """
                    UPDATE outbox SET revision = max(revision, ?, \(OutboxRevision.imported) + 1), state = ?
                    WHERE reading = ? AND destination = ?
                    """,
                arguments: [
                    (place?.revision ?? 0) + 1,
                    isAwaiting ? OutboxState.withdrawn.rawValue : OutboxState.waiting.rawValue,
                    key, destination.key.rawValue,
                ])
            if !isAwaiting { move.destinations[destination.name, default: .init()].waiting += 1 }
        }
    }
}
