import GRDB
import HealthReadings
import Synchronization

extension ReadingStore: DeviceMemory {
    /// Begins a contact: remembers the device, its battery and its clock. Durable when it returns.
    ///
    /// - Throws: ``StoreError`` where it cannot be remembered: the device must then be left alone.
    public func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        // A device is not asked for what could not be kept.
        try await requireKeys()
        let (contact, judged, _) = try await write(.contact) { [self] db in
            let key = try DeviceRegister(db: db, sealing: sealing, logger: logger).note(
                device, at: start, batteryPercent: batteryPercent)
            // The model may be known only now.
            let judged = try judgement(db).run(only: key)
            guard let person = try Self.user(db, forDevice: key),
                let zoneName = try Self.zone(db, of: person, at: start), let zone = ZoneRules.named(zoneName)
            else { throw StoreError.corrupt(detail: "the person of a device has no time zone that can be used") }
            if let clock {
                try ClockEpochs.note(db, device: key, clock, zone: zone)
            }
            try db.executeCached(
                sql: """
                    INSERT INTO contact
                        (key, device, user, started_at, zone, sequence_epoch, clock_device_time, clock_read_at)
                    VALUES (?7, ?1, ?2, ?3, ?4, (SELECT sequence_epoch FROM device WHERE key = ?1), ?5, ?6)
                    """,
                arguments: [
                    key, person, start.microseconds, zoneName, clock?.deviceTime.secondsSinceEpoch,
                    clock?.readAt.microseconds, try Self.nextKey(db, of: "contact"),
                ])
            let number = db.lastInsertedRowID
            let state = try ContactState(db, sealing, contact: number)
            let epoch = try Int.fetchOne(
                db.cachedStatement(sql: "SELECT sequence_epoch FROM device WHERE key = ?"), arguments: [key])
            let contact = Contact(
                id: number, device: state.description, startedAt: start, sequenceEpoch: epoch ?? 0, clock: clock)
            return (contact, judged, key)
        } committed: { [self] _, _, device in
            // A contact with this device that never ended has ended now.
            contacts.withLock { $0 = $0.filter { $0.value.device != device } }
            // Two devices may just have become one.
            outdateContacts()
        }
        if !judged.isEmpty { publish(judged) }
        return contact
    }

    /// The newest stored record of the contact's sequence epoch; nil where none is.
    public func lastRecord(of contact: Contact) async throws -> LastRecord? {
        try await read { db in
            guard
                let device = try Int64.fetchOne(
                    db.cachedStatement(sql: "SELECT device FROM contact WHERE key = ?"), arguments: [contact.id])
            else { throw StoreError.unknown("contact \(contact.id)") }
            return try Self.lastRecord(db, device: device, epoch: contact.sequenceEpoch, before: contact.id)
        }
    }

    /// The number, base time and time of an epoch's newest record.
    static func newestRecord(
        _ db: Database, device: Int64, epoch: Int
    ) throws -> (sequence: UInt16, baseTime: Int64?, time: Int64?)? {
        let newest = try [("reading", "key"), ("pruned", "base_time")].compactMap { table, order in
            let rows = try PreparedStatement(
                db,
                """
                SELECT sequence, base_time, time FROM \(table) INDEXED BY \(table)_sequence
                WHERE device = ? AND sequence_epoch = ? AND sequence IS NOT NULL
                ORDER BY sequence DESC, \(order) DESC LIMIT 1
                """)
            defer { rows.reset() }
            rows.bind(1, device)
            rows.bind(2, Int64(epoch))
            return try rows.next() ? (number: rows.int(0), rows.optionalInt(1), rows.optionalInt(2)) : nil
        }
        // The one that is kept, where both have the same number.
        guard let first = newest.first else { return nil }
        let last = newest.dropFirst().first { $0.number > first.number } ?? first
        return (UInt16(truncatingIfNeeded: last.number), last.1, last.2)
    }

    /// The newest record of an epoch, as the contact with this number finds it.
    static func lastRecord(_ db: Database, device: Int64, epoch: Int, before contact: Int64 = .max) throws
        -> LastRecord?
    {
        guard let newest = try newestRecord(db, device: device, epoch: epoch) else { return nil }
        // In the order of the indexes, so that no table of all numbers has to be made.
        let count = try Int.fetchOne(
            try db.cachedStatement(
                sql: """
                    SELECT (SELECT count(*) FROM (
                            SELECT DISTINCT sequence FROM reading INDEXED BY reading_sequence
                            WHERE device = ?1 AND sequence_epoch = ?2 AND sequence IS NOT NULL))
                        + (SELECT count(*) FROM (
                            SELECT DISTINCT sequence FROM pruned INDEXED BY pruned_sequence
                            WHERE device = ?1 AND sequence_epoch = ?2 AND sequence IS NOT NULL) AS p
                        WHERE NOT EXISTS (
                            SELECT 1 FROM reading INDEXED BY reading_sequence
                            WHERE device = ?1 AND sequence_epoch = ?2 AND sequence = p.sequence))
                    """), arguments: [device, epoch])
        // The last contact may have been an older one of a capture: what the newest left behind is missing all the same. The
        // last is looked for backwards along the table: the index would be walked along for all contacts of the device. One that
        // is set aside would be the newest until the time has come that the wrong clock showed.
        let (aside, after) = try Self.contactsSetAside(db) ?? (0, Int64.max)
        let lastWasComplete = try Bool.fetchOne(
            try db.cachedStatement(
                sql: """
                    SELECT coalesce((
                            SELECT is_complete FROM contact NOT INDEXED
                            WHERE device = ?1 AND key < ?2 ORDER BY key DESC LIMIT 1), 0)
                        AND coalesce((
                            SELECT is_complete FROM contact INDEXED BY contact_device
                            WHERE device = ?1 AND key < ?2 AND (key > ?3 OR started_at <= ?4)
                            ORDER BY started_at DESC, key DESC LIMIT 1), 0)
                    """), arguments: [device, contact, aside, after])
        return LastRecord(
            sequence: newest.sequence, baseTime: newest.baseTime.map(WallTime.init(secondsSinceEpoch:)),
            time: newest.time.map(Instant.init(seconds:)), count: count ?? 0,
            followsCompleteTransfer: lastWasComplete ?? false)
    }

    /// How the device's contact before this one ended; `nil` where there was none, it never ended, or it was an older one
    /// that was replayed.
    public func previousSummary(before contact: Contact) async throws -> ContactSummary? {
        try await read { db in
            let (aside, after) = try Self.contactsSetAside(db) ?? (0, Int64.max)
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT is_complete, error, announced, coalesce(received, 0),
                            coalesce(started_at < (
                                SELECT started_at FROM contact INDEXED BY contact_device
                                WHERE device = last.device AND key < ?1 AND (key > ?2 OR started_at <= ?3)
                                ORDER BY started_at DESC LIMIT 1), 0),
                            gaps
                        FROM contact AS last NOT INDEXED
                        WHERE device = (SELECT device FROM contact WHERE key = ?1) AND key < ?1 ORDER BY key DESC LIMIT 1
                        """), arguments: [contact.id, aside, after])
            guard let row, let isComplete = try row.value(0) as Bool?, try !row.value(4) as Bool else { return nil }
            let gaps: String? = try row.value(5)
            return ContactSummary(
                isComplete: isComplete, error: try row.value(1), announced: try row.value(2),
                received: try row.value(3), gaps: Self.gaps(in: gaps ?? ""))
        }
    }

    /// The gaps that ``endContact(_:_:)`` has written.
    private static func gaps(in text: String) -> [ClosedRange<UInt16>] {
        text.split(separator: ",").compactMap { gap -> ClosedRange<UInt16>? in
            let bounds = gap.split(separator: "-").compactMap { UInt16($0) }
            guard bounds.count == 2, bounds[0] <= bounds[1] else { return nil }
            return bounds[0]...bounds[1]
        }
    }

    /// Which of these recordings of the contact's device are stored, or were until they were pruned, and the lengths of their
    /// frames.
    ///
    /// A recording that is stored without its octets, which an earlier version let go, is left out: it may have gone on
    /// since. It is read once more, and its octets are kept from then on.
    public func recordings(of contact: Contact, beganAt starts: [WallTime]) async throws -> [WallTime: Set<Int>] {
        guard let first = starts.min(), let last = starts.max() else { return [:] }
        return try await read { [sealing] db in
            let rows = RowReader(db, sealing)
            var known: [WallTime: Set<Int>] = [:]
            var withoutOctets: Set<WallTime> = []
            func note(_ condition: String, _ span: StatementArguments) throws {
                let of: StatementArguments = [ReadingKind.spo2.code, contact.id]
                let found = try Row.fetchAll(
                    db.cachedStatement(
                        sql: """
                            SELECT key, base_time FROM reading INDEXED BY reading_kind_time
                            WHERE kind = ?1 AND base_time IS NOT NULL
                                AND device = (SELECT device FROM contact WHERE key = ?2) AND \(condition)
                            """), arguments: of + span)
                for row in found {
                    let start = WallTime(secondsSinceEpoch: try row.value(1))
                    guard starts.contains(start) else { continue }
                    let lengths = try rows.lengths(db, ofFramesOf: row.value(0))
                    if lengths.isEmpty {
                        withoutOctets.insert(start)
                    } else {
                        known[start, default: []].formUnion(lengths)
                    }
                }
            }
            // Where a clock is wrong, recordings lie at other times than their own. They are looked for at both.
            let clock = contact.clock.map { $0.readAt.seconds - $0.deviceTime.secondsSinceEpoch } ?? 0
            for moved in Set([0, clock]) {
                try note(
                    "time BETWEEN ?3 AND ?4",
                    [
                        first.secondsSinceEpoch + moved - Journal.otherFormSpan,
                        last.secondsSinceEpoch + moved + Journal.otherFormSpan,
                    ])
            }
            try note("time IS NULL", [])
            let pruned = try Int64.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT DISTINCT base_time FROM pruned
                        WHERE kind = ?1 AND device = (SELECT device FROM contact WHERE key = ?2)
                            AND base_time BETWEEN ?3 AND ?4
                        """),
                arguments: [ReadingKind.spo2.code, contact.id, first.secondsSinceEpoch, last.secondsSinceEpoch])
            for start in pruned.map(WallTime.init(secondsSinceEpoch:))
            where starts.contains(start) && !withoutOctets.contains(start) {
                known[start] = known[start] ?? []
            }
            return known
        }
    }

    /// Begins a new sequence epoch: the device has restarted or wrapped its numbers.
    ///
    /// In an older contact, which is read from a capture, none begins: the numbers are those that the device had then.
    public func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        let now = now()
        let epoch = try await write(.contact) { db -> Int? in
            guard try !Self.isOlder(contact, db, now: now) else { return contact.sequenceEpoch }
            try db.executeCached(
                sql: """
                    UPDATE device SET sequence_epoch = max(sequence_epoch, ?) + 1
                    WHERE key = (SELECT device FROM contact WHERE key = ?)
                    """, arguments: [contact.sequenceEpoch, contact.id])
            guard db.changesCount == 1 else { throw StoreError.unknown("contact \(contact.id)") }
            try db.executeCached(
                sql: """
                    UPDATE contact SET sequence_epoch = (SELECT sequence_epoch FROM device WHERE key = contact.device)
                    WHERE key = ?
                    """, arguments: [contact.id])
            return try Int.fetchOne(
                db.cachedStatement(sql: "SELECT sequence_epoch FROM contact WHERE key = ?"), arguments: [contact.id])
        } committed: { [self] epoch in
            if epoch != contact.sequenceEpoch { contacts.withLock { $0[contact.id]?.records = [:] } }
        }
        var renewed = contact
        renewed.sequenceEpoch = epoch ?? contact.sequenceEpoch + 1
        return renewed
    }

    /// Whether its device has had a contact that began later: this one is read from a capture.
    ///
    /// A contact of the future was begun while the clock was wrong, and makes no other an older one.
    private static func isOlder(_ contact: Contact, _ db: Database, now: Instant) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM contact INDEXED BY contact_device
                        WHERE device = (SELECT device FROM contact WHERE key = ?) AND started_at > ? AND started_at <= ?)
                    """), arguments: [contact.id, contact.startedAt.microseconds, now.microseconds]) ?? false
    }

    /// Ends a contact and notes how it went.
    public func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        let now = now()
        let gaps = summary.gaps.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
        try await write(.contact) { db in
            try db.executeCached(
                sql: """
                    UPDATE contact SET ended_at = ?, is_complete = ?, error = ?, announced = ?, received = ?, gaps = ?
                    WHERE key = ?
                    """,
                arguments: [
                    now.microseconds, summary.isComplete, summary.error, summary.announced, summary.received,
                    gaps.nonEmpty, contact.id,
                ])
            guard db.changesCount == 1 else { throw StoreError.unknown("contact \(contact.id)") }
            // Everything came that there is: a context that was announced and has not come will not come, but for those of a
            // later contact. Few wait so, while the device may have years of readings: without the index, SQLite walks along
            // all of them.
            if summary.isComplete, try !Self.isOlder(contact, db, now: now) {
                try db.executeCached(
                    sql: """
                        UPDATE outbox INDEXED BY outbox_withdrawn SET state = \(outbox: .waiting)
                        WHERE state = \(outbox: .withdrawn) AND EXISTS (
                            SELECT 1 FROM reading AS r JOIN contact AS c ON c.device = r.device
                            WHERE r.key = outbox.reading AND c.key = ?
                                AND r.record_exclusion IS NULL AND r.time_exclusion IS NULL)
                        """, arguments: [contact.id])
            }
        } committed: { [self] in
            contacts.withLock { $0[contact.id] = nil }
        }
    }

    /// Whose readings a device's are: the person to whom the settings give it whole, else the one it is assigned to, else the
    /// current one. What it sends belongs to that person even where it makes no reading, and its clock shows their time.
    static func user(_ db: Database, forDevice key: Int64) throws -> Int64? {
        if let whole = try SlotOwners(db, device: key).whole { return whole }
        return try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT coalesce(
                        (SELECT user FROM device WHERE key = ?),
                        (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'user.current'))
                    """), arguments: [key])
    }
}

extension RowReader {
    /// How many octets the record frames of a reading have.
    fileprivate func lengths(_ db: Database, ofFramesOf reading: Int64) throws -> Set<Int> {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns) FROM reading_frame AS x JOIN frame AS f ON f.key = x.frame
            WHERE x.reading = ? AND x.role = \(role: .record)
            """)
        select.bind(1, reading)
        defer { select.reset() }
        var lengths: Set<Int> = []
        while try select.next() { lengths.insert(try frame(select).frame.payload.count) }
        return lengths
    }
}
