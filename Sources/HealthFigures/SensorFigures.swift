import HealthReadings

/// A time that a sensor's values spent on one side of the target without coming back for a quarter of an hour.
public struct GlucoseEpisode: Sendable, Hashable {
    /// The first value beyond the target.
    public var begin: Instant
    /// The first value back in target, or the end of the data.
    public var end: Instant
    /// The class of its most extreme value.
    public var worst: GlucoseClass
    /// The most extreme value.
    public var extreme: GlucosePoint

    /// How long it was.
    public var seconds: Int64 { end.seconds - begin.seconds }
    /// Whether it is on the low side.
    public var isLow: Bool { worst < .target }
    /// Whether it is low for more than two hours.
    public var isExtendedLow: Bool { isLow && seconds > 2 * 3600 }

    /// How long values have to be beyond the target, and back, for an episode to begin and end.
    public static let least: Int64 = 15 * 60

    /// Finds the episodes of a series.
    ///
    /// An episode begins with a quarter of an hour beyond the target and ends with a quarter of an hour back; a run on one side is
    /// one episode, whatever levels it goes through. A gap in the data ends it.
    ///
    /// - Parameters:
    ///   - series: the values.
    ///   - ranges: the person's bounds.
    public static func find(in series: SensorSeries, ranges: GlucoseRanges) -> [GlucoseEpisode] {
        find(in: series, classes: series.classes(by: ranges))
    }

    /// - Parameter classes: those of the values.
    static func find(in series: SensorSeries, classes: [GlucoseClass]) -> [GlucoseEpisode] {
        let values = series.values
        var runs = (low: Run(isLow: true), high: Run(isLow: false))
        for (place, kind) in classes.enumerated() {
            let hasNext = values.indices.contains(place + 1)
            let breaks = !hasNext || SensorSeries.isGap(from: values[place], to: values[place + 1])
            let time = values[place].point.time
            let stood = breaks ? values[place].seconds : values[place + 1].point.time.seconds - time.seconds
            runs.low.take(values, place, kind, seconds: stood)
            runs.high.take(values, place, kind, seconds: stood)
            if breaks {
                runs.low.close(at: time.advanced(bySeconds: stood))
                runs.high.close(at: time.advanced(bySeconds: stood))
            }
        }
        return (runs.low.found + runs.high.found).sorted { ($0.begin, $0.worst) < ($1.begin, $1.worst) }
    }

    private struct Run {
        let isLow: Bool
        var found: [GlucoseEpisode] = []
        private var begin: Instant?
        private var extreme: GlucosePoint?
        private var worst = GlucoseClass.target
        private var beyond: Int64 = 0
        private var hasBegun = false
        private var backSince: Instant?
        private var back: Int64 = 0

        init(isLow: Bool) { self.isLow = isLow }

        mutating func take(_ values: [SensorSeries.Value], _ place: Int, _ kind: GlucoseClass, seconds: Int64) {
            guard isLow ? kind < .target : kind > .target else {
                guard begin != nil else { return }
                if !hasBegun { return reset() }
                let time = values[place].point.time
                backSince = backSince ?? time
                back += seconds
                if back >= GlucoseEpisode.least { close(at: backSince ?? time) }
                return
            }
            let point = values[place].point
            (backSince, back) = (nil, 0)
            begin = begin ?? point.time
            beyond += seconds
            if beyond >= GlucoseEpisode.least { hasBegun = true }
            let isWorse = extreme.map { isLow ? point.isLower(than: $0) : $0.isLower(than: point) } ?? true
            if isWorse { extreme = point }
            worst = isLow ? min(worst, kind) : max(worst, kind)
        }

        mutating func close(at end: Instant) {
            if hasBegun, let begin, let extreme {
                found.append(
                    GlucoseEpisode(begin: begin, end: backSince ?? end, worst: worst, extreme: extreme))
            }
            reset()
        }

        private mutating func reset() {
            (begin, extreme, worst, beyond, hasBegun, backSince, back) = (nil, nil, .target, 0, false, nil, 0)
        }
    }
}

/// Figures of a sensor over a period: what a page, a report and the API show, all by one definition.
public struct SensorFigures: Sendable {
    /// Whether there is enough data for figures.
    public enum Sufficiency: String, Sendable, Hashable {
        /// Less than a day of data: no figures.
        case notEnough = "not_enough"
        /// Less than 14 days, or than 70 % of the time: figures that may not be representative, without a management indicator.
        case limited
        /// 14 days with data and 70 % of the period, or more.
        case full
    }

    /// The values that the figures are of.
    public let series: SensorSeries
    /// Values left out because another sensor was worn at the same time.
    public let overlapping: Int
    /// Mean, deviation, extremes and classes of the values.
    public let figures: GlucoseFigures
    /// The seconds of data.
    public let seconds: Int64
    private let classes: [GlucoseClass]
    /// How much each value counts: ``SensorSeries/weights``.
    private let weights: [Int64]
    /// The seconds of each class.
    public let classSeconds: [GlucoseClass: Int64]
    /// The seconds of data of each day of the period.
    public let daySeconds: [Int64]
    /// The period.
    public let period: FigurePeriod
    /// The episodes beyond the target.
    public let episodes: [GlucoseEpisode]
    /// The percentiles of the hours of the day over the last 14 days of the period; `nil` where there is too little data.
    public let pattern: DailyPattern?

    /// Computes the figures of the sensors of a collection.
    ///
    /// - Parameters:
    ///   - collection: the values, after ``GlucoseCollection/finish(at:)``.
    ///   - ranges: the person's bounds.
    ///   - unit: mg/dL or mmol/L.
    public init(_ collection: GlucoseCollection, ranges: GlucoseRanges, unit: MeasurementUnit) {
        let joined = SensorSeries.joined(collection.series.map(\.series))
        self.init(joined.series, overlapping: joined.overlapping, ranges: ranges, unit: unit, period: collection.period)
    }

    /// Computes the figures of a series.
    ///
    /// - Parameters:
    ///   - series: the values.
    ///   - overlapping: values that were left out because another sensor was worn at the same time.
    ///   - ranges: the person's bounds.
    ///   - unit: mg/dL or mmol/L.
    ///   - period: the period.
    public init(
        _ series: SensorSeries, overlapping: Int = 0, ranges: GlucoseRanges, unit: MeasurementUnit, period: FigurePeriod
    ) {
        let series = series.within(period)
        (self.series, self.overlapping, self.period) = (series, overlapping, period)
        (classes, weights) = (series.classes(by: ranges), series.weights)
        figures = GlucoseFigures(
            series.values[...], classes[...], weights: weights[...], unit: unit, period: period)
        var (sums, finder, seconds) = (ClassSums(), DayFinder(period), Int64(0))
        var daySeconds = [Int64](repeating: 0, count: period.days.count)
        for place in series.values.indices {
            let covered = series.values[place].covered
            sums.add(series.values[place].seconds, to: classes[place])
            seconds += covered
            if let day = finder.index(of: series.values[place].point.time) { daySeconds[day] += covered }
        }
        (classSeconds, self.daySeconds, self.seconds) = (sums.byClass, daySeconds, seconds)
        episodes = GlucoseEpisode.find(in: series, classes: classes)
        let last = period.last(14)
        let begin = series.values.place(from: last.start)
        pattern =
            Self.hasPattern(daySeconds: Array(daySeconds.suffix(14)), last)
            ? DailyPattern(
                series.values[begin...].map(\.point), weights: Array(weights.dropFirst(begin)), period: last, unit: unit
            )
            : nil
    }

    /// Seven days with an hour of data each, of which the best seven have 70 % of what they could have.
    private static func hasPattern(daySeconds: [Int64], _ period: FigurePeriod) -> Bool {
        let shares = daySeconds.indices.compactMap { day -> Ratio? in
            let possible = period.possibleSeconds(day)
            guard daySeconds[day] >= 3600, possible > 0 else { return nil }
            return Ratio(Int128(min(daySeconds[day], possible)), Int128(possible))
        }.sorted { $0.approximation > $1.approximation }.prefix(7)
        guard shares.count == 7 else { return false }
        return shares.reduce(0.0) { $0 + $1.approximation } / 7 >= 0.7 - 1e-9
    }

    /// The days of the period with data.
    public var daysWithData: Int { figures.daysWithReadings }

    /// The share of the period's time that has data, in per cent to a tenth: the seconds that values stand for, of the seconds of the
    /// period until now.
    public var activeOfPeriod: ExactDecimal? { Self.percent(seconds, period.possibleSeconds) }

    /// The share of the time from the first to the last value that has data, in per cent to a tenth, as reports of the ambulatory
    /// glucose profile define it.
    public var activeOfSpan: ExactDecimal? {
        guard let first = series.values.first, let last = series.values.last else { return nil }
        return Self.percent(seconds, last.point.time.seconds - first.point.time.seconds + last.seconds)
    }

    private static func percent(_ part: Int64, _ whole: Int64) -> ExactDecimal? {
        whole <= 0 ? nil : Ratio(Int128(min(part, whole)) * 100, Int128(whole)).rounded(1)
    }

    /// Whether there is enough data.
    public var sufficiency: Sufficiency {
        if seconds < 86_400 { return .notEnough }
        let isActive = Int128(seconds) * 100 >= Int128(period.possibleSeconds) * 70
        return daysWithData >= 14 && isActive ? .full : .limited
    }

    /// The glucose management indicator in per cent and in mmol/mol; `nil` unless there are 14 days of data and 70 % of the period.
    public var managementIndicator: (percent: ExactDecimal, millimolesPerMole: ExactDecimal)? {
        sufficiency == .full ? figures.managementIndicator : nil
    }

    /// The shares of time by class.
    public var timeInRanges: PercentShares? { PercentShares(classSeconds) }

    /// The mean seconds of a day in a class: its share of the data, of 24 hours.
    public func secondsOfDay(_ kind: GlucoseClass) -> Int64? {
        let total = classSeconds.values.reduce(0, +)
        guard total > 0 else { return nil }
        return Int64(Ratio.halfEven(Int128(classSeconds[kind] ?? 0) * 86_400, Int128(total)))
    }

    /// The figures of each day of the period.
    public var byDay: [GlucoseFigures] {
        period.days.indices.map { day in
            let places = places(ofDay: day)
            return GlucoseFigures(
                series.values[places], classes[places], weights: weights.isEmpty ? [] : weights[places],
                unit: figures.unit, period: period)
        }
    }

    /// The seconds of each class in one day of the period.
    public func classSeconds(ofDay index: Int) -> [GlucoseClass: Int64] {
        var sums = ClassSums()
        for place in places(ofDay: index) { sums.add(series.values[place].seconds, to: classes[place]) }
        return sums.byClass
    }

    /// The values of one day of the period.
    public func values(ofDay index: Int) -> ArraySlice<SensorSeries.Value> { series.values[places(ofDay: index)] }

    private func places(ofDay index: Int) -> Range<Int> {
        let day = period.days[index]
        let begin = series.values.place(from: day.start)
        return begin..<max(begin, series.values.place(from: day.end))
    }
}

extension SensorSeries {
    /// The class of each value.
    fileprivate func classes(by ranges: GlucoseRanges) -> [GlucoseClass] {
        values.indices.map { values[$0].point.level.classified(values[$0].point.unit, by: ranges) }
    }
}

extension [SensorSeries.Value] {
    /// The first place whose value was measured at an instant or later.
    fileprivate func place(from instant: Instant) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].point.time >= instant { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
