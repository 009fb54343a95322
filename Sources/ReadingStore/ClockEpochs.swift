import GRDB
import HealthReadings

/// The spans of time in which a device's clock kept its difference, the newest first.
///
/// An epoch ends with each whole minute that the clock drifts, with each change of the user's zone, and where the clock
/// was reset, set, or lost its battery. Only the last of these is a break: across the others the clock has run on.
struct ClockEpochs {
    private struct Epoch {
        var key: Int64
        var correctionMinutes: Int64
        /// The newest comparison, with the wall of the zone that was the user's then.
        var newest: ClockComparison
        var startedAt: Instant
        /// Seconds that the clock showed beyond UTC at the epoch's beginning, and when it was read last. The differences of
        /// two epochs say nothing together, as they may be those to two zones; these do.
        var (first, last): (Int64, Int64)

        /// Seconds that a clock may differ by: some ten thousand years.
        private static let differences: ClosedRange<Int64> = -400_000_000_000...400_000_000_000

        init(_ row: PreparedStatement, _ zone: ZoneRules?) throws {
            func shown(_ difference: Int64, _ at: Instant, _ name: String?) -> Int64 {
                // The comparison bounds what a damaged row may hold.
                ClockComparison(differenceSeconds: difference, readAt: at).differenceSeconds
                    + ((name.flatMap(ZoneRules.named) ?? zone)?.offsetSeconds(at: at) ?? 0)
            }
            let (first, last) = (row.int(2), row.int(3))
            guard Self.differences.contains(first), Self.differences.contains(last) else {
                throw StoreError.corrupt(detail: "a clock differs by \(first) and \(last) seconds")
            }
            let readAt = Instant(microseconds: row.int(5))
            key = row.int(0)
            correctionMinutes = row.int(1)
            newest = ClockComparison(differenceSeconds: last, readAt: readAt)
            startedAt = Instant(microseconds: row.int(4))
            self.first = shown(first, startedAt, row.text(6))
            self.last = shown(last, readAt, row.text(7))
        }

        /// The newest comparison, with the wall of a zone.
        func comparison(in zone: ZoneRules) -> ClockComparison {
            ClockComparison(differenceSeconds: last - zone.offsetSeconds(at: newest.readAt), readAt: newest.readAt)
        }
    }

    /// The newest first, back to the one before the oldest break.
    private let epochs: [Epoch]
    /// The places of those that ended with a break, the newest first.
    private let breaks: [Int]

    /// The epochs of a device that had begun in a contact.
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
    ///   - breaks: how many times it was reset, set, or lost its battery until no more are looked at.
    ///   - zone: the user's where the contact is gone that an epoch was seen in.
    init(
        _ db: Database, device: Int64, until end: Int64 = .max, most: Int64 = Self.years, breaks: Int = 1,
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
        var (epochs, found): ([Epoch], [Int]) = ([], [])
        while try rows.next() {
            let epoch: Epoch
            do { epoch = try Epoch(rows, zone) } catch {
                // Before a break, a row that was changed hides the older clocks alone.
                guard found.isEmpty else { break }
                throw error
            }
            if let newer = epochs.last, TimeResolution.isBreak(from: epoch.last, to: newer.first) {
                found.append(epochs.count)
            }
            epochs.append(epoch)
            if found.count == breaks { break }
        }
        (self.epochs, self.breaks) = (epochs, found)
    }

    /// How many epochs are years of drift.
    private static let years: Int64 = 200

    /// How many times a clock may have been reset or set, for a record that was made before to be placed: a battery that
    /// was put in twice, and what the owner set then.
    private static let mostBreaks = 4

    /// Where the clock ran on without a break: how many of the epochs, from the newest on.
    private var unbroken: Int { breaks.first ?? epochs.count }

    /// The newest comparison, with the wall of the zone that was the user's then; nil where the clock was never read.
    var newest: ClockComparison? { epochs.first?.newest }

    /// How the clock stands; nil where it was never read.
    func comparison(in zone: ZoneRules) -> ClockComparison? { epochs.first?.comparison(in: zone) }

    /// How the clock stood before each time that it was reset, set, or lost its battery, the newest first.
    func beforeBreaks(in zone: ZoneRules) -> [TimeResolution.EarlierClock] {
        breaks.map { TimeResolution.EarlierClock(epochs[$0].comparison(in: zone), changedBy: epochs[$0 - 1].startedAt) }
    }

    /// The last change of a zone's that the clock, read before and after, did not follow; nil where there is none.
    ///
    /// Two readings with the same difference to the zone say nothing of changes between them.
    func unfollowedChange(in zone: ZoneRules) -> TimeResolution.UnfollowedChange? {
        for place in 0..<max(0, unbroken - 1) {
            let (before, after) = (epochs[place + 1], epochs[place])
            let (last, first) = (before.newest.readAt, after.startedAt)
            let offset = zone.offsetSeconds(at: last)
            guard offset != zone.offsetSeconds(at: first), first.seconds - last.seconds <= Self.season else { continue }
            // It ran as it did since the epoch began, unless an earlier change lies between.
            let begin = max(before.startedAt, last.advanced(bySeconds: -Self.season / 2))
            return .init(since: zone.offsetSeconds(at: begin) == offset ? begin : last, until: first)
        }
        return nil
    }

    /// Seconds in which a zone does not change three times, and most not twice.
    private static let season: Int64 = 120 * 86_400

    /// How fast the clock gains (positive) or loses since it was last set, in parts per million; nil before a day of it.
    var driftPartsPerMillion: Double? {
        guard let newest = epochs.first else { return nil }
        let oldest = epochs[unbroken - 1]
        let seconds = newest.newest.readAt.seconds - oldest.startedAt.seconds
        // Both are whole seconds: below a day their rounding alone would be 23 ppm.
        return seconds < 86_400 ? nil : Double(newest.last - oldest.first) / Double(seconds) * 1e6
    }

    /// Notes a reading of the clock: the epoch goes on while the rounded difference stays and the clock was not changed,
    /// else a new one begins.
    static func note(_ db: Database, device: Int64, _ reading: ClockReading, zone: ZoneRules) throws {
        let comparison = ClockComparison(reading, zone: zone)
        let minutes = comparison.correctionSeconds / 60
        let shown = comparison.differenceSeconds + zone.offsetSeconds(at: comparison.readAt)
        let current = try ClockEpochs(db, device: device, until: comparison.readAt.microseconds, most: 1, zone: zone)
            .epochs.first
        if let current, current.correctionMinutes == minutes,
            !TimeResolution.isBreak(from: current.last, to: shown)
        {
            guard current.newest.readAt <= comparison.readAt else { return }
            try db.executeCached(
                sql: "UPDATE clock_epoch SET difference = ?, read_at = ? WHERE key = ?",
                arguments: [comparison.differenceSeconds, comparison.readAt.microseconds, current.key])
        } else {
            try db.executeCached(
                sql: """
                    INSERT INTO clock_epoch (device, correction_minutes, started_at, first_difference, difference, read_at)
                    VALUES (?1, ?2, ?3, ?4, ?4, ?3)
                    """,
                arguments: [device, minutes, comparison.readAt.microseconds, comparison.differenceSeconds])
        }
    }
}
