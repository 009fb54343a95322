import HealthReadings

/// The values of one sensor as figures take them: each once, in the order of their times, with the time each stands for.
public struct SensorSeries: Sendable {
    /// A value with the time it stands for.
    public struct Value: Sendable {
        /// The value.
        public var point: GlucosePoint
        /// How many seconds it stands for.
        public var seconds: Int64
        /// The seconds between values of its sensor.
        public var pace: Int64

        /// How many seconds of data it is: a value that is followed late stands for a longer time, and is no more data.
        public var covered: Int64 { min(seconds, pace) }
    }

    /// The values, oldest first.
    public let values: [Value]
    /// Values of the trend, and scans, that the sensor's own history replaces.
    public let replaced: Int
    /// Values that repeat another one of about the same time.
    public let repeated: Int

    /// Seconds before its own time at which a value already counts as the next one, of a sensor whose pace is known.
    private static let tolerance: Int64 = 10

    /// Takes the values of one sensor.
    ///
    /// A sensor's history counts, and of its trend and of scans only what is newer than the newest history. Values are taken in the
    /// order of their times; behind each, others are ignored until 10 s before the next one is due. A sensor whose pace isn't known
    /// has the median distance of its history as its pace, or of its scans where it has no history; a value then stands for the time
    /// until the next one, at most twice the pace. Its next one may come a quarter of the pace early: some files have times in whole
    /// minutes, and four minutes after one value is then the next of a sensor that gives one in five.
    ///
    /// - Parameter points: the values, in any order.
    public init(_ points: [GlucosePoint]) {
        let sorted = points.isInOrder ? points : points.sorted { $0.precedes($1) }
        let (kept, pace) = Self.counted(sorted)
        let replaced = sorted.count - kept.count
        var values: [Value] = []
        values.reserveCapacity(kept.count)
        var (next, repeated) = (Instant(microseconds: .min), 0)
        for place in kept.indices {
            guard kept[place].time >= next else {
                repeated += 1
                continue
            }
            let seconds = kept[place].source.seconds ?? pace
            values.append(Value(point: kept[place], seconds: seconds, pace: seconds))
            let isKnown = kept[place].source.seconds != nil
            let early = isKnown ? Self.tolerance : max(Self.tolerance, seconds / 4)
            next = kept[place].time.advanced(bySeconds: max(1, seconds - early))
        }
        for place in values.indices.dropLast() where values[place].point.source.seconds == nil {
            let gap = values[place + 1].point.time.microseconds - values[place].point.time.microseconds
            values[place].seconds = min((gap + 500_000) / 1_000_000, 2 * pace)
        }
        (self.values, self.replaced, self.repeated) = (values, replaced, repeated)
    }

    /// The values that count, and the pace of those whose pace isn't known. Nothing is copied of a sensor that has history alone.
    ///
    /// - Parameter sorted: all values, oldest first.
    private static func counted(_ sorted: [GlucosePoint]) -> (kept: [GlucosePoint], pace: Int64) {
        if sorted.indices.allSatisfy({ sorted[$0].source.isKept }) { return (sorted, medianGap(sorted)) }
        guard let last = sorted.indices.last(where: { sorted[$0].source.isKept }) else {
            return (sorted, medianGap(sorted))
        }
        let newest = sorted[last].time
        let kept = sorted.filter { $0.source.isKept || $0.time > newest }
        return (kept, medianGap(sorted.filter(\.source.isKept)))
    }

    private init(_ values: [Value], replaced: Int, repeated: Int) {
        (self.values, self.replaced, self.repeated) = (values, replaced, repeated)
    }

    /// The median distance of neighbours in seconds, at least half a minute; five minutes where there are no neighbours.
    private static func medianGap(_ points: [GlucosePoint]) -> Int64 {
        let gaps = points.indices.dropFirst().compactMap { place -> Int64? in
            let gap = (points[place].time.microseconds - points[place - 1].time.microseconds) / 1_000_000
            return gap >= 30 ? gap : nil
        }.sorted()
        return gaps.isEmpty ? 300 : gaps[(gaps.count - 1) / 2]
    }

    /// The values within a period.
    func within(_ period: FigurePeriod) -> SensorSeries {
        if let first = values.first, let last = values.last, period.start <= first.point.time,
            last.point.time < period.end
        {
            return self
        }
        return excerpt(of: period)
    }

    private func excerpt(of period: FigurePeriod) -> SensorSeries {
        SensorSeries(
            values.filter { period.start <= $0.point.time && $0.point.time < period.end }, replaced: replaced,
            repeated: repeated)
    }

    /// The seconds that the values stand for.
    public var seconds: Int64 { values.reduce(0) { $0 + $1.seconds } }

    /// How much each value counts in means, deviations and percentiles: by the time between two values of its sensor, so that a sensor
    /// of a value a minute counts no more than one of a value every quarter of an hour. Empty if all count the same.
    var weights: [Int64] {
        guard let first = values.first?.pace, values.indices.contains(where: { values[$0].pace != first }) else {
            return []
        }
        let paces = values.indices.map { max(1, values[$0].pace) }
        let shared = paces.reduce(0) { Int64(Ratio.greatestCommonDivisor(UInt128($0), UInt128($1))) }
        return paces.map { $0 / shared }
    }

    /// Whether some value is this gateway's estimate of a sensor's raw value.
    public var hasEstimates: Bool { values.indices.contains { values[$0].point.isEstimate } }

    /// Whether a line between two neighbours is to be broken: where the gap is longer than 2.5 times the pace and a minute.
    public static func isGap(from value: Value, to next: Value) -> Bool {
        2 * (next.point.time.microseconds - value.point.time.microseconds) > (5 * value.pace + 120) * 1_000_000
    }

    /// What shows no value for longer, in seconds, counts as not worn meanwhile.
    private static let longestSilence: Int64 = 3 * 3600

    /// The times from the first to the last value, without those in which there was none for hours.
    private var worn: [ClosedRange<Instant>] {
        var spans: [ClosedRange<Instant>] = []
        for place in values.indices {
            let time = values[place].point.time
            if let last = spans.last, time <= last.upperBound.advanced(bySeconds: Self.longestSilence) {
                spans[spans.count - 1] = last.lowerBound...time
            } else {
                spans.append(time...time)
            }
        }
        return spans
    }

    /// One series of all sensors that a person has worn one after the other.
    ///
    /// Of two that were worn at the same time, the one with more values counts; of the other only what lies outside of the times in
    /// which it was worn. A series may be that of a phone or a program that shows many sensors: while it shows nothing for hours,
    /// another one's values are all that there is.
    ///
    /// - Parameter series: the series of each sensor.
    /// - Returns: the values, and how many are left out because another sensor was worn at the same time.
    public static func joined(_ series: [SensorSeries]) -> (series: SensorSeries, overlapping: Int) {
        if series.count == 1 { return (series[0], 0) }
        let order = series.filter { !$0.values.isEmpty }.sorted {
            let (one, other) = ($0.values[0].point, $1.values[0].point)
            return (-$0.values.count, one.time, one.reading) < (-$1.values.count, other.time, other.reading)
        }
        var (spans, values, overlapping): ([ClosedRange<Instant>], [Value], Int) = ([], [], 0)
        for one in order {
            let free = one.values.filter { value in !spans.contains { $0.contains(value.point.time) } }
            overlapping += one.values.count - free.count
            values += free
            spans += one.worn
        }
        values.sort { ($0.point.time, $0.point.reading) < ($1.point.time, $1.point.reading) }
        return (
            SensorSeries(
                values, replaced: series.reduce(0) { $0 + $1.replaced }, repeated: series.reduce(0) { $0 + $1.repeated }
            ),
            overlapping
        )
    }
}

extension GlucosePoint.Source {
    /// The seconds that a value stands for; `nil` where the pace isn't known.
    public var seconds: Int64? {
        switch self {
        case .history(let seconds), .trend(let seconds): seconds
        case .blood, .sensor, .scan: nil
        }
    }

    /// Whether the values are those that the sensor keeps by itself: what else it shows counts only behind the newest of them.
    fileprivate var isKept: Bool {
        switch self {
        case .history, .sensor: true
        case .blood, .trend, .scan: false
        }
    }

    /// Whether it is a sensor in the interstitial fluid.
    public var isSensor: Bool { self != .blood }
}

extension GlucosePoint {
    fileprivate func precedes(_ other: GlucosePoint) -> Bool { (time, reading) < (other.time, other.reading) }
}

extension [GlucosePoint] {
    /// Whether each comes before the next one.
    fileprivate var isInOrder: Bool { indices.dropFirst().allSatisfy { self[$0 - 1].precedes(self[$0]) } }
}

/// A person's glucose values of a period, by what measured them: the two kinds are never mixed.
public struct GlucoseCollection: Sendable {
    /// The period.
    public private(set) var period: FigurePeriod
    /// Values of meters, oldest first.
    public private(set) var blood: [GlucosePoint] = []
    /// Readings of meters in the period that are in no figure, by reason.
    public private(set) var leftOut: [FigureExclusion: Int] = [:]
    /// Readings of sensors in the period that are in no figure, by reason.
    public private(set) var sensorsLeftOut: [FigureExclusion: Int] = [:]
    /// Values of meters that repeat a sensor's value of the same moment.
    public private(set) var echoes = 0
    /// How many values were taken for a sensor's by their pace, by unit: see ``SensorPace``.
    public private(set) var judgedByPace: [MeasurementUnit: Int] = [:]

    private var sensors: [ObjectIdentifier: [GlucosePoint]] = [:]
    private var boxes: [DeviceDescription: DeviceBox] = [:]
    private var latest: DeviceBox?
    private let limits:
        @Sendable (DeviceDescription, MeasurementUnit) -> (lowest: ExactDecimal?, highest: ExactDecimal?)

    /// Makes a collection without values.
    ///
    /// - Parameters:
    ///   - period: the period.
    ///   - limits: what devices can show.
    public init(
        _ period: FigurePeriod,
        limits:
            @escaping @Sendable (DeviceDescription, MeasurementUnit) -> (
                lowest: ExactDecimal?, highest: ExactDecimal?
            ) = { _, _ in (nil, nil) }
    ) {
        (self.period, self.limits) = (period, limits)
    }

    /// Adds a reading. Each reading is to be added once, and ``finish(at:)`` to be called behind the last.
    ///
    /// - Returns: whether it counts in figures.
    @discardableResult
    public mutating func add(_ reading: Reading) -> Bool {
        guard reading.kind == .glucose, let time = reading.time.instant, period.start <= time, time < period.end else {
            return false
        }
        guard let point = GlucosePoint(reading, limits: limits) else {
            let reason = reading.figureExclusion ?? .excluded(.noValue)
            if reading.isOfSensor { sensorsLeftOut[reason, default: 0] += 1 } else { leftOut[reason, default: 0] += 1 }
            return false
        }
        add(point)
        return true
    }

    /// Adds a value.
    public mutating func add(_ point: GlucosePoint) {
        var point = point
        // Neighbours are mostly of one device, and to compare two takes less time than to look one up.
        if latest != point.box {
            latest = boxes[point.device] ?? point.box
            boxes[point.device] = latest
        }
        if let latest { point.box = latest }
        guard point.source.isSensor else { return blood.append(point) }
        let place = ObjectIdentifier(point.box)
        sensors[place, default: []].append(point)
    }

    /// Puts the values in order. Those that are already are left as they are: to sort tens of thousands copies each.
    public mutating func arrange() {
        if !blood.isInOrder { blood.sort { $0.precedes($1) } }
        for place in Array(sensors.keys) where sensors[place]?.isInOrder == false {
            sensors[place]?.sort { $0.precedes($1) }
        }
    }

    /// Puts the values in order, drops echoes, and tells sensors by their pace: see ``SensorPace``.
    ///
    /// Where more than ten values of meters have the value and, within half a second, the time of a sensor's, another program has
    /// stored the sensor's values as a meter's: they are echoes.
    ///
    /// - Parameter now: the moment that figures are of; `nil`: that of the period.
    public mutating func finish(at now: Instant? = nil) {
        if let now { period = period.at(now) }
        arrange()
        dropEchoes()
        judgeByPace()
    }

    /// Gives sensors the values that have a sensor's pace.
    private mutating func judgeByPace() {
        let places = SensorPace.places(in: blood)
        guard !places.isEmpty else { return }
        var isJudged = [Bool](repeating: false, count: blood.count)
        for place in places {
            isJudged[place] = true
            var point = blood[place]
            point.source = .sensor
            judgedByPace[point.unit, default: 0] += 1
            sensors[ObjectIdentifier(point.box), default: []].append(point)
        }
        blood = zip(blood, isJudged).filter { !$1 }.map(\.0)
        arrange()
    }

    /// Drops values of meters that repeat a sensor's.
    private mutating func dropEchoes() {
        guard !sensors.isEmpty, !blood.isEmpty else { return }
        let times = blood.map(\.time.microseconds)
        var repeats = [Bool](repeating: false, count: times.count)
        for points in sensors.values {
            for index in points.indices {
                let time = points[index].time.microseconds
                var (low, high) = (0, times.count)
                while low < high {
                    let middle = (low + high) / 2
                    if times[middle] < time - 500_000 { low = middle + 1 } else { high = middle }
                }
                while low < times.count, times[low] <= time + 500_000 {
                    if points[index].level == blood[low].level, points[index].unit == blood[low].unit {
                        repeats[low] = true
                    }
                    low += 1
                }
            }
        }
        let count = repeats.count { $0 }
        guard count > 10 else { return }
        echoes += count
        blood = zip(blood, repeats).filter { !$1 }.map(\.0)
    }

    /// Whether a sensor measured.
    public var hasSensors: Bool { !sensors.isEmpty }

    /// The series of each sensor, in the order of their first values.
    public var series: [(device: DeviceDescription, series: SensorSeries)] {
        sensors.values.map { ($0[0].device, SensorSeries($0)) }.sorted {
            let (one, other) = ($0.1.values.first?.point, $1.1.values.first?.point)
            return (one?.time ?? period.end, one?.reading ?? ReadingID(high: 0, low: 0))
                < (other?.time ?? period.end, other?.reading ?? ReadingID(high: 0, low: 0))
        }
    }
}
