import HealthReadings

/// One calendar day of a person, in the person's time zone.
///
/// The days of a zone follow each other without a gap and without an overlap: every instant belongs to one of them. A day has
/// 23 or 25 hours if clocks are set forward or back on it, and none if the zone skips its date (Samoa, 30 December 2011).
public struct LocalDay: Sendable {
    /// The year, 1 … 9999.
    public let year: Int
    /// The month, 1 … 12.
    public let month: Int
    /// The day of the month, 1 … 31.
    public let day: Int
    /// The zone whose clocks show the date.
    public let zone: ZoneRules
    /// The first instant of the day, in whole seconds.
    public let start: Instant
    /// The first instant after the day, in whole seconds: the start of the next one.
    public let end: Instant

    private let midnight: WallTime

    /// Makes the day with a date.
    ///
    /// - Parameters:
    ///   - year: the year, 1 … 9999.
    ///   - month: the month, 1 … 12.
    ///   - day: the day of the month, 1 … 31.
    ///   - zone: the person's zone.
    /// - Returns: `nil` if the calendar has no such date.
    public init?(year: Int, month: Int, day: Int, in zone: ZoneRules) {
        guard let midnight = WallTime(year: year, month: month, day: day, hour: 0, minute: 0, second: 0) else {
            return nil
        }
        self.init(midnight: midnight, zone: zone)
    }

    /// Makes the day that an instant belongs to.
    ///
    /// - Parameters:
    ///   - instant: any instant of the day.
    ///   - zone: the person's zone.
    public init(of instant: Instant, in zone: ZoneRules) {
        let wall = zone.wallTime(at: instant)
        let (hour, minute, second) = wall.timeOfDay
        let intoDay = Int64((hour * 60 + minute) * 60 + second)
        let shown = LocalDay(midnight: WallTime(secondsSinceEpoch: wall.secondsSinceEpoch - intoDay), zone: zone)
        // Clocks that are set back over midnight show the last hour of a day again after the next one has begun.
        self = shown.contains(instant) ? shown : shown.next
    }

    private init(midnight: WallTime, zone: ZoneRules) {
        self.midnight = midnight
        self.zone = zone
        (year, month, day) = midnight.date
        start = Self.firstInstant(of: midnight, in: zone)
        end = Self.firstInstant(of: midnight.advanced(byMinutes: Self.minutes), in: zone)
    }

    /// Whether an instant belongs to the day.
    public func contains(_ instant: Instant) -> Bool { start <= instant && instant < end }

    /// The day with the next date.
    public var next: LocalDay { LocalDay(midnight: midnight.advanced(byMinutes: Self.minutes), zone: zone) }

    /// The day with the date before.
    public var previous: LocalDay { LocalDay(midnight: midnight.advanced(byMinutes: -Self.minutes), zone: zone) }

    /// The length in seconds: 86,400 on most days, and 0 for a date that the zone skips.
    public var seconds: Int64 { end.seconds - start.seconds }

    /// The minutes of a day on which nobody sets a clock.
    private static let minutes = 24 * 60

    /// The first instant at which the zone's clocks have reached a date.
    private static func firstInstant(of midnight: WallTime, in zone: ZoneRules) -> Instant {
        switch zone.moment(midnight) {
        case .once(let instant), .twice(let instant, _): return instant
        case .never(let moved):
            // Clocks were set forward over midnight. The change lies within the skipped time before `moved`.
            let skipped = zone.wallTime(at: moved).secondsSinceEpoch - midnight.secondsSinceEpoch
            var (before, after) = (moved.seconds - skipped, moved.seconds)
            while after - before > 1 {
                let middle = before + (after - before) / 2
                if zone.wallTime(at: Instant(seconds: middle)) < midnight { before = middle } else { after = middle }
            }
            return Instant(seconds: after)
        }
    }
}

extension LocalDay: Hashable {
    /// Whether both are the same date in the same zone.
    public static func == (lhs: LocalDay, rhs: LocalDay) -> Bool {
        lhs.midnight == rhs.midnight && lhs.zone.name == rhs.zone.name
    }

    /// Hashes the date and the zone's name.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(midnight)
        hasher.combine(zone.name)
    }
}

extension LocalDay: CustomStringConvertible {
    /// The date: `2026-11-22`.
    public var description: String { String(midnight.description.prefix { $0 != "T" }) }
}
