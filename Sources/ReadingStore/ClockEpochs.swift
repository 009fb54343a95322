import GRDB
import HealthReadings

/// The clocks of devices, as the store keeps them.
extension ClockEpochs {
    /// The epochs of a device that had begun in a contact, back to the one before the oldest break.
    init(_ db: Database, device: Int64, contactAt start: Instant, zone: ZoneRules) throws {
        // The clock is read after the connection was made: a reading of the same contact may be a minute younger.
        let last = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT max(clock_read_at) FROM contact WHERE device = ? AND started_at = ?"),
            arguments: [device, start.microseconds])
        try self.init(db, device: device, until: last ?? start.microseconds, breaks: Self.mostBreaks, zone: zone)
    }

    /// The epochs of a device that had begun at an instant; where none is given, whenever they began.
    ///
    /// - Parameters:
    ///   - most: how many are looked back.
    ///   - mostBreaks: how many times it was reset, set, or lost its battery until no more are looked at.
    ///   - zone: the user's where the contact is gone that an epoch was seen in.
    init(
        _ db: Database, device: Int64, until end: Int64 = .max, most: Int64 = Self.years, breaks mostBreaks: Int = 1,
        zone: ZoneRules?
    ) throws {
        let rows = try PreparedStatement(
            db,
            """
            SELECT key, correction_minutes, first_difference, difference, started_at, read_at,
                (SELECT zone FROM contact AS c WHERE c.device = e.device AND c.started_at <= e.started_at
                    ORDER BY c.started_at DESC LIMIT 1),
                (SELECT zone FROM contact AS c WHERE c.device = e.device AND c.started_at <= e.read_at
                    ORDER BY c.started_at DESC LIMIT 1)
            FROM clock_epoch AS e WHERE device = ? AND started_at <= ? ORDER BY started_at DESC LIMIT ?
            """)
        defer { rows.reset() }
        rows.bind(1, device)
        rows.bind(2, end)
        rows.bind(3, most)
        self.init()
        while try rows.next() {
            let epoch: Epoch
            do { epoch = try Epoch(rows, zone) } catch {
                // Before a break, a row that was changed hides the older clocks alone.
                guard breakCount == 0 else { break }
                throw error
            }
            append(epoch)
            if breakCount == mostBreaks { break }
        }
    }

    /// How many epochs are years of drift.
    private static var years: Int64 { 200 }

    /// Notes a reading of the clock.
    static func note(_ db: Database, device: Int64, _ reading: ClockReading, zone: ZoneRules) throws {
        let comparison = ClockComparison(reading, zone: zone)
        let known = try ClockEpochs(db, device: device, until: comparison.readAt.microseconds, most: 1, zone: zone)
        switch known.step(to: comparison, in: zone) {
        case .goesOn(let epoch):
            try db.executeCached(
                sql: "UPDATE clock_epoch SET difference = ?, read_at = ? WHERE key = ?",
                arguments: [comparison.differenceSeconds, comparison.readAt.microseconds, epoch.key])
        case .begins:
            try db.executeCached(
                sql: """
                    INSERT INTO clock_epoch (device, correction_minutes, started_at, first_difference, difference, read_at)
                    VALUES (?1, ?2, ?3, ?4, ?4, ?3)
                    """,
                arguments: [
                    device, comparison.correctionSeconds / 60, comparison.readAt.microseconds,
                    comparison.differenceSeconds,
                ])
        case .isKnown: return
        }
    }
}

extension ClockEpochs.Epoch {
    /// Seconds that a clock may differ by: some ten thousand years.
    private static var differences: ClosedRange<Int64> { -400_000_000_000...400_000_000_000 }

    fileprivate init(_ row: PreparedStatement, _ zone: ZoneRules?) throws {
        func shown(_ difference: Int64, _ at: Instant, _ name: String?) -> Int64 {
            // The comparison bounds what a damaged row may hold.
            ClockComparison(differenceSeconds: difference, readAt: at).differenceSeconds
                + ((name.flatMap(ZoneRules.named) ?? zone)?.offsetSeconds(at: at) ?? 0)
        }
        let (first, last) = (row.int(2), row.int(3))
        guard Self.differences.contains(first), Self.differences.contains(last) else {
            throw StoreError.corrupt(detail: "a clock differs by \(first) and \(last) seconds")
        }
        let (startedAt, readAt) = (Instant(microseconds: row.int(4)), Instant(microseconds: row.int(5)))
        self.init(
            key: row.int(0), startedAt: startedAt, correctionMinutes: row.int(1),
            newest: ClockComparison(differenceSeconds: last, readAt: readAt),
            first: shown(first, startedAt, row.text(6)), last: shown(last, readAt, row.text(7)))
    }
}
