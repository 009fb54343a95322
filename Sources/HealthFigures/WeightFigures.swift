import HealthReadings

/// Weights of a period with their trend.
///
/// The first weighing of a day counts. The trend follows it by a tenth of the difference a day: `T = T + (1 - 0.9^days)(W - T)`, where
/// days are those since the weighing before. It lags behind a steady change.
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
    private let values: MeasuredValues

    /// Computes the figures.
    ///
    /// - Parameters:
    ///   - points: the weighings.
    ///   - period: the period; others are left out.
    ///   - unit: kg or lb.
    public init(_ points: [Point], period: FigurePeriod, unit: MeasurementUnit) {
        let sorted = points.filter { period.index(of: $0.time) != nil }.sorted {
            ($0.time, $0.reading) < ($1.time, $1.reading)
        }
        var (days, trend): ([Day], Double?) = ([], nil)
        for point in sorted {
            guard let offset = period.index(of: point.time) else { continue }
            if days.last?.offset == offset {
                days[days.count - 1].count += 1
                continue
            }
            let weight = (point.weight.shown(point.unit, in: unit, places: 6) ?? point.weight).approximation
            if let before = trend, let last = days.last {
                let kept = (0..<(offset - last.offset)).reduce(1.0) { power, _ in power * 0.9 }
                trend = before + (1 - kept) * (weight - before)
            } else {
                trend = weight
            }
            days.append(
                Day(date: period.days[offset].date, first: point, count: 1, trend: trend ?? weight, offset: offset))
        }
        (self.period, self.unit, self.days, self.points) = (period, unit, days, sorted)
        values = MeasuredValues(days.map { (number: $0.first.weight, unit: $0.first.unit) }, base: .kilograms)
    }

    /// The mean of the first weighings, to a tenth.
    public var mean: ExactDecimal? { values.mean(in: unit, places: 1) }

    /// The change of the trend in a week over the last 28 days, to two places; `nil` unless weighings reach back two weeks or more.
    public var changePerWeek: ExactDecimal? {
        guard let last = days.last, let first = days.first(where: { last.offset - $0.offset <= 28 }),
            last.offset - first.offset >= 14
        else { return nil }
        let change = (last.trend - first.trend) * 7 / Double(last.offset - first.offset)
        return ExactDecimal(significand: Int64((change * 100).rounded(.toNearestOrEven)), exponent: -2)
    }

    /// A trend as people read it, to a tenth.
    public static func text(ofTrend trend: Double) -> ExactDecimal {
        ExactDecimal(significand: Int64((trend * 10).rounded(.toNearestOrEven)), exponent: -1)
    }
}
