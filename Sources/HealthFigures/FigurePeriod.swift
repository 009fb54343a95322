import HealthReadings

/// The local days that figures are computed over: from the first midnight to the one behind the last day.
public struct FigurePeriod: Sendable {
    /// The days, in order; never empty.
    public let days: [PersonDay]
    /// The person's zones.
    public let zones: ZoneHistory
    /// The time at which the figures are made: what lies after it can't have been measured.
    public let now: Instant

    /// The longest period: ten years and some days.
    public static let mostDays = 3660

    /// Makes the period.
    ///
    /// - Parameters:
    ///   - first: the first day.
    ///   - last: the last day.
    ///   - zones: the person's zones.
    ///   - now: the time at which the figures are made.
    /// - Returns: `nil` if there is no day, or more than ``mostDays``.
    public init?(from first: PersonDay, through last: PersonDay, in zones: ZoneHistory, now: Instant) {
        guard let days = zones.days(from: first, through: last, atMost: Self.mostDays), !days.isEmpty else {
            return nil
        }
        (self.days, self.zones, self.now) = (days, zones, now)
    }

    private init(_ days: [PersonDay], _ zones: ZoneHistory, _ now: Instant) {
        (self.days, self.zones, self.now) = (days, zones, now)
    }

    /// The first instant.
    public var start: Instant { days.first?.start ?? now }
    /// The first instant behind the period.
    public var end: Instant { days.last?.end ?? now }

    /// The number of a day that an instant belongs to; `nil` for an instant outside of the period.
    public func index(of instant: Instant) -> Int? {
        var (low, high) = (0, days.count)
        while low < high {
            let middle = (low + high) / 2
            if days[middle].start <= instant { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return nil }
        // A date that was seen twice holds another day.
        return days[..<low].lastIndex { $0.contains(instant) }
    }

    /// The seconds of a day in which something can have been measured: all of them, or those until now.
    public func possibleSeconds(_ index: Int) -> Int64 {
        let day = days[index]
        if day.end <= now { return day.seconds }
        return day.start >= now ? 0 : min(day.seconds, now.seconds - day.start.seconds)
    }

    /// The seconds of the period in which something can have been measured.
    public var possibleSeconds: Int64 { days.indices.reduce(0) { $0 + possibleSeconds($1) } }

    /// What clocks of the person show at an instant.
    public func wallTime(at instant: Instant) -> WallTime { zones.zone(at: instant).wallTime(at: instant) }

    /// The last days of the period, at most so many.
    public func last(_ count: Int) -> FigurePeriod { FigurePeriod(Array(days.suffix(max(1, count))), zones, now) }

    /// The same days at another moment.
    func at(_ now: Instant) -> FigurePeriod { FigurePeriod(days, zones, now) }

    /// The days before the period, as many as it has; `nil` before the first year.
    public var before: FigurePeriod? {
        guard let first = days.first, let midnight = WallTime(first.date + "T00:00:00") else { return nil }
        var found: [PersonDay] = []
        for back in 1...days.count {
            let date = midnight.advanced(byMinutes: -back * 24 * 60).date
            if let day = zones.day(year: date.year, month: date.month, day: date.day) { found.append(day) }
        }
        return found.isEmpty ? nil : FigurePeriod(found.reversed(), zones, now)
    }
}

/// Finds the days of instants, which mostly are of the day of the one before.
struct DayFinder {
    private let period: FigurePeriod
    private var day: Int?
    private var part: Range<Instant>?

    init(_ period: FigurePeriod) { self.period = period }

    /// The place of the day that holds an instant; `nil` if it is outside of the period.
    mutating func index(of instant: Instant) -> Int? {
        if let part, part.contains(instant) { return day }
        day = period.index(of: instant)
        part = day.flatMap { period.days[$0].part(of: instant) }
        return day
    }
}
