import HealthReadings

/// Weights of a period with their trend.
///
/// The first weighing of a day counts. The trend follows it by a tenth of the difference a day: `T = T + (1 - 0.9^days)(W - T)`, where
/// days are those since the weighing before. It lags behind a steady change. It begins with the first weighing of the ``runIn``
/// before the period, so that a day has the same trend in every period, unless the figures are ``isOfPeriodAlone``.
public struct WeightFigures: Sendable {
    /// A weighing.
    public struct Point: Sendable, Hashable {
        /// When.
        public var time: Instant
        /// The reading it is from.
        public var reading: ReadingID
        /// The weight.
        public var weight: ExactDecimal
        /// Its unit: kg or lb.
        public var unit: MeasurementUnit
        /// The scale.
        public var device: DeviceDescription

        /// Makes a weighing.
        public init(
            time: Instant, reading: ReadingID, weight: ExactDecimal, unit: MeasurementUnit, device: DeviceDescription
        ) {
            (self.time, self.reading, self.weight, self.unit, self.device) = (time, reading, weight, unit, device)
        }

        /// Takes a reading; `nil` for one that has no weight or no time, is excluded, or is left out of figures.
        public init?(_ reading: Reading) {
            guard reading.figureExclusion == nil, reading.kind == .weight,
                case .vital(let vital) = reading.record.value,
                let time = reading.time.instant, let quantity = vital[.weight], let number = quantity.number.number,
                MeasuredValues.factor(from: quantity.unit, to: .kilograms) != nil
            else { return nil }
            self.init(
                time: time, reading: reading.id, weight: number, unit: quantity.unit, device: reading.measuringDevice)
        }
    }

    /// The first weighing of a day.
    public struct Day: Sendable {
        /// The date.
        public var date: String
        /// The weighing.
        public var first: Point
        /// How many weighings the day has.
        public var count: Int
        /// The trend, in ``WeightFigures/unit``, unrounded.
        public var trend: Double
        /// Days since the first day of the period.
        public var offset: Int
    }

    /// The period.
    public let period: FigurePeriod
    /// The unit of weights and trend.
    public let unit: MeasurementUnit
    /// The days with weighings, oldest first.
    public let days: [Day]
    /// All weighings, oldest first.
    public let points: [Point]
    /// Whether no weighing before the period counts, not even for the trend.
    public let isOfPeriodAlone: Bool
    private let values: MeasuredValues
    /// The first weighings of days up to the period's last, those before the period among them.
    private let course: [(number: Int, date: String, trend: Double)]

    /// How long before a period weighings still count for its trend, in seconds: 400 days, after which less than a millionth of a
    /// billionth of a difference is left.
    public static let runIn: Int64 = 400 * 86_400

    /// Computes the figures.
    ///
    /// - Parameters:
    ///   - points: the weighings of the period, and those of the ``runIn`` before it, which count for the trend alone.
    ///   - period: the period.
    ///   - unit: kg or lb.
    ///   - isOfPeriodAlone: whether no weighing before the period counts: the trend would tell of days that somebody may not see.
    public init(_ points: [Point], period: FigurePeriod, unit: MeasurementUnit, isOfPeriodAlone: Bool = false) {
        let begin = isOfPeriodAlone ? period.start : period.start.advanced(bySeconds: -Self.runIn)
        let sorted = points.filter { begin <= $0.time && $0.time < period.end }.sorted {
            ($0.time, $0.reading) < ($1.time, $1.reading)
        }
        var (days, course): ([Day], [(number: Int, date: String, trend: Double)]) = ([], [])
        for point in sorted {
            let offset = period.index(of: point.time)
            guard offset != nil || point.time < period.start else { continue }
            let date = offset.map { period.days[$0].date } ?? period.zones.day(of: point.time).date
            if course.last?.date == date {
                if offset != nil, !days.isEmpty { days[days.count - 1].count += 1 }
                continue
            }
            let number = Self.number(of: date)
            let weight = (point.weight.shown(point.unit, in: unit, places: 6) ?? point.weight).approximation
            var trend = weight
            if let before = course.last {
                let kept = (0..<max(0, number - before.number)).reduce(1.0) { power, _ in power * 0.9 }
                trend = before.trend + (1 - kept) * (weight - before.trend)
            }
            course.append((number, date, trend))
            if let offset {
                days.append(
                    Day(date: date, first: point, count: 1, trend: trend, offset: offset))
            }
        }
        (self.course, self.isOfPeriodAlone) = (course, isOfPeriodAlone)
        let shown = sorted.filter { period.index(of: $0.time) != nil }
        (self.period, self.unit, self.days, self.points) = (period, unit, days, shown)
        values = MeasuredValues(days.map { (number: $0.first.weight, unit: $0.first.unit) }, base: .kilograms)
    }

    /// The mean of the first weighings, to a tenth.
    public var mean: ExactDecimal? { values.mean(in: unit, places: 1) }

    /// The change of the trend in a week over the last 28 days, whether or not the period is as long; of figures that are
    /// ``isOfPeriodAlone``, over what of them lies in it.
    public struct Change: Sendable, Hashable {
        /// The change in a week, to two places.
        public var perWeek: ExactDecimal
        /// The date of the first weighing that it is of.
        public var first: String
        /// The date of the last.
        public var last: String
    }

    /// The change of the trend in a week over the 28 days up to the last weighing of the period; `nil` unless weighings reach back
    /// two weeks or more of them.
    public var change: Change? {
        guard !days.isEmpty, let last = course.last, let first = course.first(where: { last.number - $0.number <= 28 }),
            last.number - first.number >= 14
        else { return nil }
        let change = (last.trend - first.trend) * 7 / Double(last.number - first.number)
        return Change(
            perWeek: ExactDecimal(significand: Int64((change * 100).rounded(.toNearestOrEven)), exponent: -2),
            first: first.date, last: last.date)
    }

    /// ``change`` in a week.
    public var changePerWeek: ExactDecimal? { change?.perWeek }

    /// The number of a date among all days.
    private static func number(of date: String) -> Int {
        WallTime(date + "T00:00:00").map { Int($0.secondsSinceEpoch / 86_400) } ?? 0
    }

    /// A trend as people read it, to a tenth.
    public static func text(ofTrend trend: Double) -> ExactDecimal {
        ExactDecimal(significand: Int64((trend * 10).rounded(.toNearestOrEven)), exponent: -1)
    }
}
