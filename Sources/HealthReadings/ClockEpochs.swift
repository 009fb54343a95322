/// The spans of time in which a device's clock kept its difference, the newest first.
///
/// An epoch ends with each whole minute that the clock drifts, with each change of the user's zone, and where the clock
/// was reset, set, or lost its battery. Only the last of these is a break: across the others the clock has run on.
package struct ClockEpochs: Sendable {
    /// One of these spans.
    package struct Epoch: Sendable {
        /// What whoever keeps it knows it by.
        package let key: Int64
        package let startedAt: Instant
        let correctionMinutes: Int64
        /// The newest comparison, with the wall of the zone that was the user's then.
        package private(set) var newest: ClockComparison
        /// Seconds that the clock showed beyond UTC at the epoch's beginning, and when it was read last. The differences of
        /// two epochs say nothing together, as they may be those to two zones; these do.
        let first: Int64
        private(set) var last: Int64

        /// An epoch as it was kept.
        package init(
            key: Int64, startedAt: Instant, correctionMinutes: Int64, newest: ClockComparison, first: Int64, last: Int64
        ) {
            self.key = key
            self.startedAt = startedAt
            self.correctionMinutes = correctionMinutes
            self.newest = newest
            self.first = first
            self.last = last
        }

        /// An epoch that begins with a reading of the clock.
        package init(key: Int64, _ comparison: ClockComparison, in zone: ZoneRules) {
            let shown = comparison.shown(in: zone)
            self.init(
                key: key, startedAt: comparison.readAt, correctionMinutes: comparison.correctionSeconds / 60,
                newest: comparison, first: shown, last: shown)
        }

        /// Notes a later reading of the clock, which has kept its difference.
        package mutating func goOn(to comparison: ClockComparison, in zone: ZoneRules) {
            newest = comparison
            last = comparison.shown(in: zone)
        }

        /// The newest comparison, with the wall of a zone.
        func comparison(in zone: ZoneRules) -> ClockComparison {
            ClockComparison(differenceSeconds: last - zone.offsetSeconds(at: newest.readAt), readAt: newest.readAt)
        }
    }

    /// What a reading of the clock means.
    package enum Step: Sendable {
        /// The newest epoch goes on: the rounded difference is the same, and the clock was not changed.
        case goesOn(Epoch)
        /// A new epoch begins.
        case begins
        /// The newest epoch has a later reading.
        case isKnown
    }

    /// How many times a clock may have been reset or set, for a record that was made before to be placed: a battery that
    /// was put in twice, and what the owner set then.
    package static let mostBreaks = 4

    /// Seconds in which a zone does not change three times, and most not twice.
    private static let season: Int64 = 120 * 86_400

    private var epochs: [Epoch] = []
    /// The places of those that ended with a break, the newest first.
    private var breaks: [Int] = []

    package init() {}

    /// Adds the epoch before the oldest.
    package mutating func append(_ older: Epoch) {
        if let newer = epochs.last, TimeResolution.isBreak(from: older.last, to: newer.first) {
            breaks.append(epochs.count)
        }
        epochs.append(older)
    }

    /// How many of the epochs ended with a break.
    package var breakCount: Int { breaks.count }

    /// Where the clock ran on without a break: how many of the epochs, from the newest on.
    private var unbroken: Int { breaks.first ?? epochs.count }

    /// The newest comparison, with the wall of the zone that was the user's then; nil where the clock was never read.
    package var newest: ClockComparison? { epochs.first?.newest }

    /// When the clock was last read, and how many seconds it showed beyond UTC then; nil where it was never read.
    package var last: (readAt: Instant, beyondUTC: Int64)? {
        epochs.first.map { (readAt: $0.newest.readAt, beyondUTC: $0.last) }
    }

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

    /// How fast the clock gains (positive) or loses since it was last set, in parts per million; nil before a day of it.
    package var driftPartsPerMillion: Double? {
        guard let newest = epochs.first else { return nil }
        let oldest = epochs[unbroken - 1]
        let seconds = newest.newest.readAt.seconds - oldest.startedAt.seconds
        // Both are whole seconds: below a day their rounding alone would be 23 ppm.
        return seconds < 86_400 ? nil : Double(newest.last - oldest.first) / Double(seconds) * 1e6
    }

    /// What a reading of the clock means, given the epochs that had begun by then.
    package func step(to comparison: ClockComparison, in zone: ZoneRules) -> Step {
        guard let current = epochs.first, current.correctionMinutes == comparison.correctionSeconds / 60,
            !TimeResolution.isBreak(from: current.last, to: comparison.shown(in: zone))
        else { return .begins }
        return current.newest.readAt <= comparison.readAt ? .goesOn(current) : .isKnown
    }
}

extension ClockComparison {
    /// Seconds that the clock showed beyond UTC.
    fileprivate func shown(in zone: ZoneRules) -> Int64 { differenceSeconds + zone.offsetSeconds(at: readAt) }
}

extension TimeResolution {
    /// Resolves times of one contact by how the device's clock stood in it and before.
    ///
    /// - Parameters:
    ///   - zone: the user's zone at the contact.
    ///   - epochs: those that had begun in the contact.
    package init(zone: ZoneRules, epochs: ClockEpochs) {
        self.init(
            zone: zone, clock: epochs.comparison(in: zone), earlier: epochs.beforeBreaks(in: zone),
            unfollowed: epochs.unfollowedChange(in: zone))
    }
}
