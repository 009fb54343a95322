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

    /// The furthest that people set a clock back: across all time zones. Beyond that it was reset, and a record that can
    /// have been made since by the new clock was.
    private static let largestSetting: Int64 = 26 * 3600

    private let zone: ZoneRules
    private let clock: ClockComparison?
    private let earlier: EarlierClock?
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
    ///   - earlier: how the clock stood in the epoch before: a record may have been made in it and come only now.
    ///   - unfollowed: the last change of the zone's that the clock was seen not to follow.
    public init(
        zone: ZoneRules, clock: ClockComparison?, earlier: EarlierClock? = nil, unfollowed: UnfollowedChange? = nil
    ) {
        self.zone = zone
        self.clock = clock
        self.unfollowed = unfollowed
        self.earlier = clock.flatMap { clock in earlier.flatMap { Self.isBreak($0, clock, zone) ? $0 : nil } }
    }

    /// Whether the clock was changed between two epochs; false where it ran on, and the user's zone changed.
    private static func isBreak(_ earlier: EarlierClock, _ clock: ClockComparison, _ zone: ZoneRules) -> Bool {
        func shown(_ comparison: ClockComparison) -> Int64 {
            comparison.differenceSeconds + zone.offsetSeconds(at: comparison.readAt)
        }
        return isBreak(from: shown(earlier.comparison), to: shown(clock))
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
        guard let earlier else { return now }
        return try choose(
            now, resolve(shown, by: earlier.comparison, precedingInstant: precedingInstant), earlier, receivedAt)
    }

    /// Which of two clocks a record was made by: each is asked whether it can have been, at the instant it gives.
    ///
    /// Where both can, the newer is taken; where the clock was set back, so that it has shown the same times twice, the
    /// doubt is said. A clock that was changed is never silently bridged.
    private func choose(
        _ now: ResolvedTime, _ before: ResolvedTime, _ earlier: EarlierClock, _ receivedAt: Instant
    ) -> ResolvedTime {
        guard let late = now.instant, let early = before.instant, late != early else { return now }
        let canBeNow =
            late >= earlier.comparison.readAt.advanced(bySeconds: -Self.tolerance)
            && late <= receivedAt.advanced(bySeconds: Self.tolerance)
        guard early <= earlier.changedBy.advanced(bySeconds: Self.tolerance) else { return now }
        guard canBeNow else { return before }
        guard let clock, clock.differenceSeconds < earlier.comparison.differenceSeconds,
            late.seconds - early.seconds <= Self.largestSetting
        else { return now }
        var doubtful = now
        let minutes = Int((abs(late.seconds - early.seconds) + 59) / 60)
        doubtful.uncertaintyMinutes = max(minutes, now.uncertaintyMinutes ?? 0)
        return doubtful
    }

    private func resolve(
        _ deviceTime: WallTime, by clock: ClockComparison?, precedingInstant: () throws -> Instant?
    ) rethrows -> ResolvedTime {
        let basis: TimeBasis = clock == nil ? .assumedZone : .corrected
        if let instant = unchangedClock(deviceTime, clock) {
            return ResolvedTime(instant: instant, basis: basis, clock: clock)
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

    /// The instant of a record made before a change of clocks that the device has not followed.
    ///
    /// Its clock then differs from the user's by exactly the change, and that difference is no error of the record's
    /// time: it was made when the device's clock and the user's agreed.
    private func unchangedClock(_ deviceTime: WallTime, _ clock: ClockComparison?) -> Instant? {
        guard let clock, clock.correctionSeconds != 0, abs(clock.correctionSeconds) <= Self.largestChangeOfClocks else {
            return nil
        }
        let fixedOffset = zone.offsetSeconds(at: clock.readAt) + clock.correctionSeconds
        let instant = Instant(seconds: deviceTime.secondsSinceEpoch - fixedOffset)
        return zone.offsetSeconds(at: instant) == fixedOffset ? instant : nil
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
