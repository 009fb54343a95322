import HealthReadings

/// The zones of a person, each from an instant on: what a person's local days are made of.
public struct ZoneHistory: Sendable {
    /// A zone, and when it is in force.
    struct Period: Sendable {
        /// `nil`: from ever.
        var begin: Instant?
        /// `nil`: for ever.
        var end: Instant?
        var zone: ZoneRules
    }

    let periods: [Period]

    /// The zones of a person who has always been in one.
    ///
    /// - Parameter zone: the zone.
    public init(_ zone: ZoneRules) { periods = [Period(zone: zone)] }

    /// The zones of a person.
    ///
    /// - Parameter zones: the zones with the instants at which they came into force, in any order. The first one counts for all
    ///   time before, too.
    /// - Returns: `nil` if there is none.
    public init?(_ zones: [(begin: Instant, zone: ZoneRules)]) {
        guard !zones.isEmpty else { return nil }
        let sorted = zones.sorted { $0.begin < $1.begin }
        periods = sorted.enumerated().map { index, change in
            Period(
                begin: index == 0 ? nil : change.begin,
                end: sorted.indices.contains(index + 1) ? sorted[index + 1].begin : nil, zone: change.zone)
        }
    }

    /// The zone in force at an instant.
    public func zone(at instant: Instant) -> ZoneRules {
        (periods.last { $0.begin.map { $0 <= instant } ?? true } ?? periods[0]).zone
    }

    /// The day that an instant belongs to.
    public func day(of instant: Instant) -> PersonDay {
        let day = LocalDay(of: instant, in: zone(at: instant))
        return PersonDay(date: day.description, parts: parts(year: day.year, month: day.month, day: day.day))
    }

    /// The day with a date.
    ///
    /// - Parameters:
    ///   - year: the year, 1 … 9999.
    ///   - month: the month, 1 … 12.
    ///   - day: the day of the month, 1 … 31.
    /// - Returns: `nil` if the calendar has no such date, or the person's clocks never showed it.
    public func day(year: Int, month: Int, day: Int) -> PersonDay? {
        let parts = parts(year: year, month: month, day: day)
        guard let zone = parts.first?.zone, let local = LocalDay(year: year, month: month, day: day, in: zone) else {
            return nil
        }
        return PersonDay(date: local.description, parts: parts)
    }

    /// The days of a period, each once; dates that the person's clocks never showed are left out.
    ///
    /// - Parameters:
    ///   - first: the first day.
    ///   - last: the last day.
    ///   - limit: how many dates there may be.
    /// - Returns: `nil` if there are more.
    public func days(from first: PersonDay, through last: PersonDay, atMost limit: Int) -> [PersonDay]? {
        guard var date = WallTime(first.date + "T00:00:00"), let end = WallTime(last.date + "T00:00:00") else {
            return nil
        }
        var (days, count): ([PersonDay], Int) = ([], 0)
        while date <= end {
            count += 1
            guard count <= limit else { return nil }
            let (year, month, day) = date.date
            if let found = self.day(year: year, month: month, day: day) { days.append(found) }
            date = date.advanced(byMinutes: 24 * 60)
        }
        return days
    }

    private func parts(year: Int, month: Int, day: Int) -> [PersonDay.Part] {
        periods.compactMap { period in
            guard let local = LocalDay(year: year, month: month, day: day, in: period.zone) else { return nil }
            let start = max(local.start, period.begin ?? local.start)
            let end = min(local.end, period.end ?? local.end)
            return start < end ? PersonDay.Part(start: start, end: end, zone: period.zone) : nil
        }
    }
}

/// One calendar day of a person who may have changed zones: a date, and every instant at which the person's clocks showed it.
///
/// On a day without a change it is the ``LocalDay`` of the date. Somebody who flies west has a longer day. Somebody who flies over
/// the date line may see a date twice, with another in between.
public struct PersonDay: Sendable, Hashable {
    /// A part of the day that was spent in one zone.
    struct Part: Sendable {
        var start: Instant
        var end: Instant
        var zone: ZoneRules
    }

    /// The date: `2026-11-22`.
    public let date: String
    let parts: [Part]

    init(date: String, parts: [Part]) { (self.date, self.parts) = (date, parts) }

    /// A day spent in one zone.
    ///
    /// - Parameter day: the day.
    public init(_ day: LocalDay) {
        self.init(date: day.description, parts: [Part(start: day.start, end: day.end, zone: day.zone)])
    }

    /// The first instant of the day.
    public var start: Instant { parts.first?.start ?? Instant(seconds: 0) }
    /// The first instant after the day.
    public var end: Instant { parts.last?.end ?? Instant(seconds: 0) }
    /// The seconds for which the person's clocks showed the date: 86,400 on most days.
    public var seconds: Int64 { parts.reduce(0) { $0 + $1.end.seconds - $1.start.seconds } }

    /// Whether the person's clocks showed the date at an instant.
    public func contains(_ instant: Instant) -> Bool { parts.contains { $0.start <= instant && instant < $0.end } }

    /// The time without a break, within the day, that holds an instant.
    func part(of instant: Instant) -> Range<Instant>? {
        parts.first { $0.start <= instant && instant < $0.end }.map { $0.start..<$0.end }
    }

    /// The person's zone at an instant of the day; for ``end`` and anything else that is not of it, the last one.
    ///
    /// - Returns: `nil` for a date that the person's clocks never showed.
    public func zone(at instant: Instant) -> ZoneRules? {
        (parts.first { $0.start <= instant && instant < $0.end } ?? parts.last)?.zone
    }

    /// Whether both are the same date between the same instants.
    public static func == (lhs: PersonDay, rhs: PersonDay) -> Bool {
        (lhs.date, lhs.start, lhs.end) == (rhs.date, rhs.start, rhs.end)
    }

    /// Hashes the date and where it begins.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(date)
        hasher.combine(start)
    }
}
