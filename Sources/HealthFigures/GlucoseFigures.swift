import HealthReadings

/// Figures of glucose values, computed once for everything that shows them.
///
/// HI and LO count as readings and in their class, and as ±infinity in percentiles; the mean, the deviation and the management
/// indicator are of numbers alone.
public struct GlucoseFigures: Sendable {
    /// The unit that figures are given in.
    public let unit: MeasurementUnit
    /// How many readings there are, HI and LO among them.
    public let count: Int
    /// How many of them are HI.
    public let above: Int
    /// How many of them are LO.
    public let below: Int
    /// Days of the period with readings.
    public let daysWithReadings: Int
    /// The lowest reading; LO before any number. The earliest of several.
    public let lowest: GlucosePoint?
    /// The highest reading; HI after any number. The earliest of several.
    public let highest: GlucosePoint?
    /// How many readings are in each class.
    public let classCounts: [GlucoseClass: Int64]
    /// The numbers.
    let values: MeasuredValues

    /// The least number of readings that a deviation is computed of.
    public static let leastForDeviation = 30

    /// Computes the figures of values.
    ///
    /// - Parameters:
    ///   - points: the values, oldest first, each once.
    ///   - ranges: the person's bounds.
    ///   - unit: mg/dL or mmol/L.
    ///   - period: the period they are of.
    public init(
        _ points: some Collection<GlucosePoint>, ranges: GlucoseRanges, unit: MeasurementUnit, period: FigurePeriod
    ) {
        var sums = GlucoseSums(period, room: points.count)
        for (place, point) in points.enumerated() {
            sums.add(point.level, point.unit, at: point.time, point.classified(by: ranges), place)
        }
        self.init(sums, unit) { points[points.index(points.startIndex, offsetBy: $0)] }
    }

    /// Computes the figures of a sensor's values.
    ///
    /// - Parameters:
    ///   - classes: those of the values.
    ///   - weights: how much each value counts: ``SensorSeries/weights``.
    init(
        _ values: ArraySlice<SensorSeries.Value>, _ classes: ArraySlice<GlucoseClass>, weights: ArraySlice<Int64>,
        unit: MeasurementUnit, period: FigurePeriod
    ) {
        var sums = GlucoseSums(period, room: values.count)
        // A value is read by its parts: to copy each takes longer than everything that is computed of it.
        for (place, kind) in zip(values.indices, classes) {
            sums.add(
                values[place].point.level, values[place].point.unit, at: values[place].point.time, kind, place,
                weight: weights.isEmpty ? nil : weights[place])
        }
        self.init(sums, unit) { values[$0].point }
    }

    private init(_ sums: GlucoseSums, _ unit: MeasurementUnit, _ point: (Int) -> GlucosePoint) {
        self.unit = unit
        (count, above, below, daysWithReadings) = (sums.count, sums.above, sums.below, sums.days.count)
        classCounts = sums.classes.byClass
        (lowest, highest) = ((sums.lowest?.place).map(point), (sums.highest?.place).map(point))
        values = MeasuredValues(sums.numbers, base: .milligramsPerDecilitre, weights: sums.weights)
    }

    /// The mean of the numbers in ``unit``; whole mg/dL or tenths of a mmol/L.
    public var mean: ExactDecimal? { values.mean(in: unit, places: unit.usualPlaces) }

    /// The standard deviation; `nil` for fewer than 30 numbers.
    public var deviation: ExactDecimal? {
        values.count < Self.leastForDeviation ? nil : values.deviation(in: unit, places: unit.usualPlaces)
    }

    /// The coefficient of variation in per cent, to a tenth; `nil` for fewer than 30 numbers.
    public var variation: ExactDecimal? {
        values.count < Self.leastForDeviation ? nil : values.variation(places: 1)
    }

    /// The shares of readings by class: "per cent of readings" of a meter.
    public var shares: PercentShares? { PercentShares(classCounts) }

    /// Readings a day, over all days of the period, to a tenth.
    public func readingsPerDay(_ period: FigurePeriod) -> ExactDecimal? {
        Ratio(Int128(count), Int128(period.days.count)).rounded(1)
    }

    /// Readings a day, over the days that have any, to a tenth; `nil` without readings.
    public var readingsPerDayWithReadings: ExactDecimal? {
        daysWithReadings == 0 ? nil : Ratio(Int128(count), Int128(daysWithReadings)).rounded(1)
    }

    /// The glucose management indicator of the mean, in per cent to a tenth and in mmol/mol to a whole (Bergenstal 2018).
    ///
    /// It is printed for sensors alone: see ``SensorFigures/managementIndicator``.
    var managementIndicator: (percent: ExactDecimal, millimolesPerMole: ExactDecimal)? {
        guard let mean = values.exactMean,
            let percent = Ratio(2392, 100_000).times(mean)?.plus(Ratio(331, 100))?.rounded(1),
            let molar = mean.over(ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre.ratio),
            let ifcc = Ratio(470_587, 100_000).times(molar)?.plus(Ratio(1271, 100))?.rounded(0)
        else { return nil }
        return (percent, ifcc)
    }
}

/// What figures are computed of, added up value by value.
private struct GlucoseSums {
    struct Extreme {
        var place: Int
        var level: GlucosePoint.Level
        var unit: MeasurementUnit
    }

    var count = 0
    var above = 0
    var below = 0
    var days: Set<Int> = []
    var classes = ClassSums()
    /// The earliest of several.
    var lowest: Extreme?
    var highest: Extreme?
    var numbers: [(number: ExactDecimal, unit: MeasurementUnit)] = []
    /// How much each number counts; empty if all count the same.
    var weights: [Int64] = []
    private var finder: DayFinder
    private var day: Int?

    init(_ period: FigurePeriod, room: Int) {
        finder = DayFinder(period)
        numbers.reserveCapacity(room)
    }

    mutating func add(
        _ level: GlucosePoint.Level, _ unit: MeasurementUnit, at time: Instant, _ kind: GlucoseClass, _ place: Int,
        weight: Int64? = nil
    ) {
        count += 1
        switch level {
        case .number(let number):
            numbers.append((number, unit))
            if let weight { weights.append(weight) }
        case .above: above += 1
        case .below: below += 1
        }
        classes.add(1, to: kind)
        let found = finder.index(of: time)
        if let found, found != day { days.insert(found) }
        day = found
        let own = Extreme(place: place, level: level, unit: unit)
        if let low = lowest, !level.isLower(unit, than: low.level, low.unit) {} else { lowest = own }
        if let high = highest, !high.level.isLower(high.unit, than: level, unit) {} else { highest = own }
    }
}

/// Sums by class.
struct ClassSums {
    private var sums = [Int64](repeating: 0, count: GlucoseClass.allCases.count)

    mutating func add(_ amount: Int64, to kind: GlucoseClass) { sums[kind.rawValue] += amount }

    /// Those that are not zero.
    var byClass: [GlucoseClass: Int64] {
        var found: [GlucoseClass: Int64] = [:]
        for kind in GlucoseClass.allCases where sums[kind.rawValue] != 0 { found[kind] = sums[kind.rawValue] }
        return found
    }
}

extension GlucosePoint {
    /// Whether a value is lower than another, whatever their units.
    func isLower(than other: GlucosePoint) -> Bool { level.isLower(unit, than: other.level, other.unit) }
}

extension GlucosePoint.Level {
    /// Whether a level is lower than another, whatever their units.
    func isLower(_ unit: MeasurementUnit, than other: Self, _ otherUnit: MeasurementUnit) -> Bool {
        switch (self, other) {
        case (.below, .below), (.above, .above), (.above, _), (_, .below): return false
        case (.below, _), (_, .above): return true
        case (.number(let own), .number(let theirs)):
            if unit == otherUnit { return own.isNumericallyLess(than: theirs) }
            let factor = ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre
            let base = MeasurementUnit.milligramsPerDecilitre
            let (left, right) = (
                unit == base ? own : own.multiplied(by: factor, places: 9),
                otherUnit == base ? theirs : theirs.multiplied(by: factor, places: 9)
            )
            guard let left, let right else { return false }
            return left.isNumericallyLess(than: right)
        }
    }

    /// The class by a person's bounds: see ``GlucosePoint/classified(by:)``.
    func classified(_ unit: MeasurementUnit, by ranges: GlucoseRanges) -> GlucoseClass {
        switch self {
        case .number(let number): return ranges.classify(number, unit)
        case .above(let limit?): return max(ranges.classify(limit, unit), .target)
        case .below(let limit?): return min(ranges.classify(limit, unit), .target)
        case .above(nil): return ranges.classes.last ?? .high
        case .below(nil): return ranges.classes.first ?? .low
        }
    }
}

/// A percentile of glucose values.
public enum GlucosePercentile: Sendable, Hashable {
    /// A number: rounded for people, and unrounded for its place in a chart, both in the unit asked for.
    case number(ExactDecimal, place: Double)
    /// Above what the device can measure.
    case above
    /// Below what the device can measure.
    case below
}

/// Percentiles by linear interpolation between the neighbours of `(n - 1) p` (type 7 of Hyndman and Fan).
struct Percentiles {
    /// ±infinity stands for HI and LO.
    enum Value: Sendable, Hashable {
        case number(Ratio)
        case above, below
    }

    /// In ascending order: digits in units of 10^-places, `Int64.min` for LO and `Int64.max` for HI.
    private let sorted: [Int64]
    /// How much the values up to each of ``sorted`` count together; empty if all count the same.
    private let ends: [Int64]
    private let places: Int16

    /// - Parameter weights: how much each value counts: it stands in the order as often; empty if all count the same.
    init(_ points: some Collection<GlucosePoint>, weights: [Int64] = []) {
        let ofNumbers = zip(points, weights).filter { $0.0.number != nil }.map(\.1)
        let values = MeasuredValues(
            points.compactMap { point in point.number.map { (number: $0, unit: point.unit) } },
            base: .milligramsPerDecilitre, weights: ofNumbers)
        var (all, counts) = (values.digits, values.weights)
        for (place, point) in points.enumerated() {
            switch point.level {
            case .number: continue
            case .above: all.append(.max)
            case .below: all.append(.min)
            }
            if !weights.isEmpty { counts.append(weights[place]) }
        }
        places = values.places
        guard !counts.isEmpty else {
            (sorted, ends) = (all.sorted(), [])
            return
        }
        let order = all.indices.sorted { all[$0] < all[$1] }
        sorted = order.map { all[$0] }
        var (sums, sum): ([Int64], Int64) = ([], 0)
        for place in order {
            sum += counts[place]
            sums.append(sum)
        }
        ends = sums
    }

    /// The value at a place of the order.
    private func value(at place: Int) -> Int64 {
        guard !ends.isEmpty else { return sorted[place] }
        var (low, high) = (0, ends.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if ends[middle] > Int64(place) { high = middle } else { low = middle + 1 }
        }
        return sorted[low]
    }

    /// The percentile; `nil` for no values, or between HI and LO.
    func value(_ percent: Int) -> Value? {
        guard !sorted.isEmpty else { return nil }
        let position = ((ends.last.map { Int($0) } ?? sorted.count) - 1) * percent
        let (index, rest) = (position / 100, position % 100)
        let low = value(at: index)
        let high = rest == 0 ? low : value(at: index + 1)
        let hasInfinity = low == .min || high == .max || low == .max || high == .min
        guard !hasInfinity else {
            if low == .max { return .above }
            if high == .min { return .below }
            return low == .min && high == .max ? nil : (high == .max ? .above : .below)
        }
        let hundredths = Int128(low) * Int128(100 - rest) + Int128(high) * Int128(rest)
        return .number(Ratio(hundredths, 100 * Ratio.power(places)))
    }
}

/// The daily pattern of a sensor: the percentiles of each hour of the day, smoothed over midnight.
///
/// The mathematics are those of the ambulatory glucose profile: hours by the person's clocks, percentiles 5, 25, 50, 75 and 95 of
/// each, and each curve smoothed with the weights 1, 4, 1.
public struct DailyPattern: Sendable {
    /// One hour of the day.
    public struct Hour: Sendable {
        /// 0 … 23: values from this hour to the next, drawn at half past. Of a pattern with longer bins the bin's number.
        public var hour: Int
        /// How many values there are.
        public var count: Int
        /// The percentiles by their number; none where there are too few values.
        public var percentiles: [Int: GlucosePercentile]
    }

    /// The percentiles, and the least number of values in an hour for each.
    public static let percentiles: [(percent: Int, least: Int)] = [(5, 20), (25, 5), (50, 3), (75, 5), (95, 20)]

    /// The hours, 0 … 23.
    public let hours: [Hour]

    /// Computes the pattern.
    ///
    /// - Parameters:
    ///   - points: the values of the days that the pattern is of.
    ///   - period: those days.
    ///   - unit: the unit of the percentiles.
    ///   - hoursPerBin: how many hours are taken together: 1 of a sensor's values, 3 of a meter's.
    public init(
        _ points: some Collection<GlucosePoint>, period: FigurePeriod, unit: MeasurementUnit, hoursPerBin: Int = 1
    ) {
        self.init(points, weights: [], period: period, unit: unit, hoursPerBin: hoursPerBin)
    }

    /// - Parameter weights: how much each value counts: ``SensorSeries/weights``.
    init(
        _ points: some Collection<GlucosePoint>, weights: [Int64], period: FigurePeriod, unit: MeasurementUnit,
        hoursPerBin: Int = 1
    ) {
        let width = max(1, hoursPerBin)
        var bins = [[GlucosePoint]](repeating: [], count: 24 / width)
        var counts = [[Int64]](repeating: [], count: bins.count)
        for (place, point) in points.enumerated() {
            let bin = min(bins.count - 1, period.wallTime(at: point.time).timeOfDay.hour / width)
            bins[bin].append(point)
            if !weights.isEmpty { counts[bin].append(weights[place]) }
        }
        let divisor =
            MeasuredValues.factor(from: unit, to: .milligramsPerDecilitre)?.ratio ?? Ratio(1)
        var hours = bins.indices.map { Hour(hour: $0, count: bins[$0].count, percentiles: [:]) }
        let all = bins.indices.map { Percentiles(bins[$0], weights: counts[$0]) }
        for (percent, least) in Self.percentiles {
            let raw = bins.indices.map { bins[$0].count >= least ? all[$0].value(percent) : nil }
            for (hour, value) in Self.smoothed(raw).enumerated() {
                switch value {
                case .above: hours[hour].percentiles[percent] = .above
                case .below: hours[hour].percentiles[percent] = .below
                case .number(let ratio):
                    guard let own = ratio.over(divisor), let shown = own.rounded(unit.usualPlaces) else { continue }
                    hours[hour].percentiles[percent] = .number(shown, place: own.approximation)
                case nil: break
                }
            }
        }
        self.hours = hours
    }

    /// A curve smoothed over midnight: (before + 4 own + after) / 6, with one empty neighbour (4 own + the other) / 5. An empty hour
    /// stays empty.
    static func smoothed(_ raw: [Percentiles.Value?]) -> [Percentiles.Value?] {
        raw.indices.map { hour in
            guard let own = raw[hour] else { return nil }
            let neighbours = [raw[(hour + raw.count - 1) % raw.count], raw[(hour + 1) % raw.count]].compactMap(\.self)
            // An infinity stays one, and makes its neighbours one: its weight in a mean is without bound.
            let all = [own] + neighbours
            if all.contains(.above) { return all.contains(.below) ? own : .above }
            if all.contains(.below) { return .below }
            guard case .number(let middle) = own, var sum = middle.times(Ratio(4)) else { return own }
            for case .number(let neighbour) in neighbours {
                guard let total = sum.plus(neighbour) else { return own }
                sum = total
            }
            return sum.over(Ratio(Int128(4 + neighbours.count))).map { .number($0) } ?? own
        }
    }
}
