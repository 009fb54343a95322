/// Finds when a record was made: once, when it is first stored.
///
/// A device's clock is local, often wrong and without zone. Where it can be read, the record's time is shifted by the
/// difference it showed; else it is taken to be right in the user's zone. No instant is invented.
public struct TimeResolution: Sendable {
    /// A record cannot be made after it was received. One day covers a device one zone change ahead of its user (at
    /// most 26 hours lie between two places, and few people cross them all) and a gateway whose clock is a little slow.
    public static let latestAfterReception: Int64 = 24 * 3600

    /// 2010-01-01T00:00:00Z. The Glucose and Blood Pressure services were adopted in 2011, so no device with them has
    /// measured before; what says so has a clock that was never set (2000 and 2008 are what reset clocks begin with).
    public static let earliest = Instant(seconds: 1_262_304_000)

    /// A repeated or missing hour leaves the time this uncertain.
    public static let changeOfClocksMinutes = 60

    /// The largest difference that a change to or from daylight saving time explains.
    private static let largestChangeOfClocks: Int64 = 2 * 3600

    /// How far a clock may be off that counts as right: readings are a minute apart from what they tell of at most.
    private static let tolerance: Int64 = 120

    /// How far a clock that was not moved with the user's may be off besides: people set it once, and it drifts.
    private static let toleranceOfUnmoved: Int64 = 600

    /// The furthest that people set a clock: across all time zones. Beyond that it was reset, and a record that can have
    /// been made since by the new clock was.
    private static let largestSetting: Int64 = 26 * 3600

    private let zone: ZoneRules
    private let clock: ClockComparison?
    private let earlier: [EarlierClock]
    private let unfollowed: UnfollowedChange?

    /// How a device's clock stood before it was reset, set, or lost its battery.
    public struct EarlierClock: Sendable, Hashable {
        /// The last comparison before.
        public var comparison: ClockComparison
        /// When it was first seen to have changed.
        public var changedBy: Instant

        /// Makes it.
        public init(_ comparison: ClockComparison, changedBy: Instant) {
            self.comparison = comparison
            self.changedBy = changedBy
        }
    }

    /// A change to or from daylight saving time that a device's clock has not followed: it kept its distance to UTC from one
    /// reading of it to the next, and the user's zone did not.
    public struct UnfollowedChange: Sendable, Hashable {
        /// Since when the clock had that distance before the change.
        public var since: Instant
        /// When it was first read after the change.
        public var until: Instant

        /// Makes it.
        public init(since: Instant, until: Instant) {
            self.since = since
            self.until = until
        }
    }

    /// Resolves times of one contact.
    ///
    /// - Parameters:
    ///   - zone: the user's zone at the contact.
    ///   - clock: the comparison of the device's clock epoch; nil where the clock cannot be read.
    ///   - earlier: how the clock stood before it was reset, set, or lost its battery, and before that, the newest first: a
    ///     record may have been made then and come only now.
    ///   - unfollowed: the last change of the zone's that the clock was seen not to follow.
    public init(
        zone: ZoneRules, clock: ClockComparison?, earlier: [EarlierClock] = [], unfollowed: UnfollowedChange? = nil
    ) {
        self.zone = zone
        self.clock = clock
        self.unfollowed = unfollowed
        var newer = clock
        self.earlier = earlier.filter { each in
            guard let clock = newer, Self.isBreak(each.comparison, clock, zone) else { return false }
            newer = each.comparison
            return true
        }
    }

    /// Whether the clock was changed between two readings; false where it ran on, and the user's zone changed.
    private static func isBreak(_ earlier: ClockComparison, _ later: ClockComparison, _ zone: ZoneRules) -> Bool {
        func shown(_ comparison: ClockComparison) -> Int64 {
            comparison.differenceSeconds + zone.offsetSeconds(at: comparison.readAt)
        }
        return isBreak(from: shown(earlier), to: shown(later))
    }

    /// Whether a clock was reset, set, or lost its battery between two readings, as it does not run on from one to the
    /// other.
    ///
    /// - Parameters:
    ///   - before: seconds that it showed beyond UTC at the earlier reading.
    ///   - after: the same at the later.
    public static func isBreak(from before: Int64, to after: Int64) -> Bool { abs(after - before) >= tolerance }

    /// When a record was made.
    ///
    /// - Parameters:
    ///   - record: the record, with the time that the device gave it.
    ///   - receivedAt: when its frame was received.
    ///   - byBaseTime: whether the clock that was compared shows base time.
    ///   - precedingInstant: the instant of the nearest record with a lower number in the same epoch; asked only where
    ///     the device's time was shown twice, to tell which.
    public func resolve(
        _ record: Record, receivedAt: Instant, byBaseTime: Bool = false, precedingInstant: () throws -> Instant?
    ) rethrows -> ResolvedTime {
        // A clock that shows base time says nothing of what the user saw, and the base time is right by it.
        guard let shown = byBaseTime && clock != nil ? record.baseTime : record.deviceTime else {
            // What a memory recalls without a time was not made when it was received.
            guard record.value.kind != .glucose, record.baseTime == nil, record.occurrence == nil else {
                return ResolvedTime(instant: nil, basis: .unknown)
            }
            return ResolvedTime(instant: receivedAt.flooredToSecond, basis: .reception)
        }
        let now =
            if let clock, let instant = ranOn(shown, clock), (record.timeOffsetMinutes ?? 0) == 0 || byBaseTime {
                ResolvedTime(instant: instant, basis: .corrected, clock: clock)
            } else {
                try resolve(shown, by: clock, precedingInstant: precedingInstant)
            }
        guard !earlier.isEmpty else { return now }
        return choose(
            now, try earlier.map { try resolve(shown, by: $0.comparison, precedingInstant: precedingInstant) },
            unmoved(shown), receivedAt)
    }

    /// Which of the clocks a record was made by: each is asked whether it can have been, at the instant it gives.
    ///
    /// The newest that can is taken. Where another can, too, nothing tells when it was changed, and the doubt is said. A clock
    /// that was changed is never silently bridged.
    ///
    /// - Parameters:
    ///   - before: what the earlier clocks give.
    ///   - others: at which instants it may have been made besides.
    private func choose(
        _ now: ResolvedTime, _ before: [ResolvedTime], _ others: [Instant], _ receivedAt: Instant
    ) -> ResolvedTime {
        let ends = [receivedAt] + earlier.map(\.changedBy)
        let begins = earlier.map { Optional($0.comparison.readAt) } + [nil]
        var possible: [(instant: Instant, time: ResolvedTime)] = []
        for (time, (begin, end)) in zip([now] + before, zip(begins, ends)) {
            guard let instant = time.instant, instant <= end.advanced(bySeconds: Self.tolerance) else { continue }
            if let begin, instant < begin.advanced(bySeconds: -Self.tolerance) { continue }
            possible.append((instant, time))
        }
        guard let (instant, time) = possible.first else { return now }
        let apart =
            (possible.map(\.instant) + others).map { abs($0.seconds - instant.seconds) }
            .filter { $0 <= Self.largestSetting }.max() ?? 0
        var chosen = instant == now.instant ? now : time
        if apart > 0 { chosen.uncertaintyMinutes = max(Int((apart + 59) / 60), chosen.uncertaintyMinutes ?? 0) }
        return chosen
    }

    /// The instants at which earlier clocks showed a time, had they been set only some time after the user's clocks were
    /// changed: one that was right before, and is when it is read again, has told nothing of the days between.
    private func unmoved(_ deviceTime: WallTime) -> [Instant] {
        earlier.compactMap { clock in
            let offset = zone.offsetSeconds(at: clock.comparison.readAt)
            let instant = Instant(
                seconds: deviceTime.secondsSinceEpoch - offset - clock.comparison.correctionSeconds)
            let isBetween = instant >= clock.comparison.readAt && instant <= clock.changedBy
            return isBetween && zone.offsetSeconds(at: instant) != offset ? instant : nil
        }
    }

    private func resolve(
        _ deviceTime: WallTime, by clock: ClockComparison?, precedingInstant: () throws -> Instant?
    ) rethrows -> ResolvedTime {
        let basis: TimeBasis = clock == nil ? .assumedZone : .corrected
        if let (instant, minutes) = unchangedClock(deviceTime, clock) {
            return ResolvedTime(instant: instant, basis: basis, uncertaintyMinutes: minutes, clock: clock)
        }
        let correction = clock?.correctionSeconds ?? 0
        let wall = WallTime(secondsSinceEpoch: deviceTime.secondsSinceEpoch - correction)
        switch zone.moment(wall) {
        case .once(let instant):
            return ResolvedTime(instant: instant, basis: basis, clock: clock)
        case .never(let instant):
            return ResolvedTime(
                instant: instant, basis: basis, uncertaintyMinutes: Self.changeOfClocksMinutes, clock: clock)
        case .twice(let earlier, let later):
            let isLater = try precedingInstant().map { $0 > earlier } ?? false
            return ResolvedTime(
                instant: isLater ? later : earlier, basis: basis, uncertaintyMinutes: Self.changeOfClocksMinutes,
                clock: clock)
        }
    }

    /// Why a record is excluded by its time alone.
    public static func exclusion(of time: ResolvedTime, receivedAt: Instant) -> Exclusion? {
        guard let instant = time.instant else { return .noTime }
        let isPlausible = instant >= earliest && instant <= receivedAt.advanced(bySeconds: latestAfterReception)
        return isPlausible ? nil : .implausibleTime
    }

    /// The instant of a record made while the clock is known to have run on, although the user's clocks were changed.
    ///
    /// A meter that is left in winter time is an hour slow in summer, and right again in the first morning of winter: by its
    /// difference of then, a record of the evening before would be an hour early.
    private func ranOn(_ deviceTime: WallTime, _ clock: ClockComparison) -> Instant? {
        guard let unfollowed else { return nil }
        let offset = zone.offsetSeconds(at: clock.readAt) + clock.correctionSeconds
        let instant = Instant(seconds: deviceTime.secondsSinceEpoch - offset)
        return instant >= unfollowed.since && instant <= unfollowed.until ? instant : nil
    }

    /// The instant of a record made before a change of clocks that the device has not followed, and how uncertain that is.
    ///
    /// Its clock then differs from the user's by the change, and that difference is no error of the record's time: it was
    /// made when the device's clock and the user's agreed. Where it is minutes off besides, it may as well have been set
    /// wrong, and the doubt is said.
    private func unchangedClock(
        _ deviceTime: WallTime, _ clock: ClockComparison?
    ) -> (instant: Instant, uncertaintyMinutes: Int?)? {
        guard let clock, clock.correctionSeconds != 0 else { return nil }
        let offset = zone.offsetSeconds(at: clock.readAt)
        let instant = Instant(seconds: deviceTime.secondsSinceEpoch - offset - clock.correctionSeconds)
        let change = zone.offsetSeconds(at: instant) - offset
        let error = abs(clock.correctionSeconds - change)
        guard change != 0, abs(change) <= Self.largestChangeOfClocks, error <= Self.toleranceOfUnmoved else {
            return nil
        }
        return (instant, error <= Self.tolerance ? nil : Int(abs(change) / 60))
    }
}

extension ClockComparison {
    /// Compares a device's clock with what a clock in the user's zone showed when it was read.
    public init(_ reading: ClockReading, zone: ZoneRules) {
        self.init(
            differenceSeconds: reading.deviceTime.secondsSinceEpoch
                - zone.wallTime(at: reading.readAt).secondsSinceEpoch,
            readAt: reading.readAt)
    }
}
