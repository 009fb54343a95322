import HealthReadings

/// Tells a sensor's values by their pace, where another program passes them on without saying what measured them.
///
/// Apple Health has one type of glucose for meters and sensors. Nobody pricks a finger ``least`` times in a row, each time within
/// ``longestGap`` seconds of the last; a sensor does so all day. Where it did once, two in a row are enough. A value that was typed in, that has a meal, or whose sample type is
/// known is never judged.
public enum SensorPace {
    /// The least number of values in a row that make them a sensor's.
    public static let least = 12
    /// The longest time between two values of such a row, in seconds.
    public static let longestGap: Int64 = 16 * 60
    /// Providers that have one type of glucose for all that measures it. The others say what it was: LibreView tells strips from
    /// sensors.
    static let plainProviders: Set<String> = ["apple_health_kit"]
    /// Values less than this many seconds apart count as one: programs may pass on the same measurement twice.
    static let shortestGap: Int64 = 30

    /// A value whose pace is looked at.
    struct Candidate {
        /// Its place among all values.
        var place: Int
        var device: DeviceDescription
        var time: Instant
        /// Whose it is; `nil` where all are of one person.
        var person: String?
    }

    /// Whose values make a row.
    private struct Owner: Hashable {
        var device: DeviceDescription
        var person: String?
    }

    /// The places of the values that sensors measured.
    ///
    /// - Parameter candidates: values of any devices, in any order.
    /// - Returns: their places, in ascending order.
    static func places(of candidates: [Candidate]) -> [Int] {
        guard candidates.count >= least else { return [] }
        let owners = Dictionary(grouping: candidates) { Owner(device: $0.device, person: $0.person) }
        return owners.values.flatMap { own in
            rows(own.sorted { ($0.time, $0.place) < ($1.time, $1.place) })
        }.sorted()
    }

    /// The places of the values of one owner that are in rows of ``least`` values or more. If there is one, shorter rows are
    /// that sensor's too: between two lost signals, or at the beginning of a period.
    private static func rows(_ sorted: [Candidate]) -> [Int] {
        var (found, short, row, count): ([Int], [Int], [Int], Int) = ([], [], [], 0)
        var (last, counted) = (Instant(microseconds: .min), Instant(microseconds: .min))
        func close() {
            if count >= least { found += row } else if count > 1 { short += row }
            (row, count) = ([], 0)
        }
        for candidate in sorted {
            if !row.isEmpty, candidate.time > last.advanced(bySeconds: longestGap) { close() }
            if row.isEmpty || candidate.time >= counted.advanced(bySeconds: shortestGap) {
                count += 1
                counted = candidate.time
            }
            row.append(candidate.place)
            last = candidate.time
        }
        close()
        return found.isEmpty ? [] : found + short
    }

    /// The places of values that sensors measured, of those that the values themselves don't say it of.
    ///
    /// - Parameter points: values of any devices.
    static func places(in points: [GlucosePoint]) -> [Int] {
        places(
            of: points.indices.compactMap { place -> Candidate? in
                let isOpen = points[place].isUnspecified && !points[place].source.isSensor
                return isOpen ? Candidate(place: place, device: points[place].device, time: points[place].time) : nil
            })
    }
}

extension Sequence where Element == Reading {
    /// The ids of the glucose readings among these that sensors measured: those that say it, and those that ``SensorPace`` tells.
    public var idsOfSensors: Set<ReadingID> {
        var (found, ids): (Set<ReadingID>, [ReadingID]) = ([], [])
        var candidates: [SensorPace.Candidate] = []
        for reading in self {
            if reading.isOfSensor {
                found.insert(reading.id)
            } else if reading.excluded == nil, reading.isUnspecifiedGlucose, let time = reading.time.instant {
                candidates.append(
                    .init(place: ids.count, device: reading.measuringDevice, time: time, person: reading.person))
                ids.append(reading.id)
            }
        }
        return found.union(SensorPace.places(of: candidates).map { ids[$0] })
    }
}

extension Reading {
    /// Whether it is a glucose that another program passed on without saying what measured it.
    var isUnspecifiedGlucose: Bool {
        guard SensorPace.plainProviders.contains(device.provider), case .glucose(let glucose) = record.value,
            let imported = record.imported, imported.source != nil, !imported.isEntered, glucose.sampleType == nil,
            context?.meal == nil
        else { return false }
        return !isOfSensor
    }
}

/// A person's glucose values of a day, those of meters and those of sensors apart.
public struct DayGlucose: Sendable {
    /// What meters measured, oldest first.
    public let blood: [GlucosePoint]
    /// What sensors measured, oldest first.
    public let sensor: [GlucosePoint]

    /// Takes the values of a day.
    ///
    /// - Parameter points: the values, in any order.
    public init(_ points: [GlucosePoint]) {
        var sorted = points.sorted { ($0.time, $0.reading) < ($1.time, $1.reading) }
        for place in SensorPace.places(in: sorted) { sorted[place].source = .sensor }
        blood = sorted.filter { !$0.source.isSensor }
        sensor = sorted.filter(\.source.isSensor)
    }

    /// The values of sensors that figures are of, as reports take them: of a sensor its history, of its trend and scans only what is
    /// newer, and of two sensors that were worn at once the one with more values, as ``SensorSeries/joined(_:)`` tells it.
    public var counted: [GlucosePoint] { series.values.map(\.point) }

    private var series: SensorSeries {
        SensorSeries.joined(Dictionary(grouping: sensor, by: \.device).values.map { SensorSeries($0) }).series
    }

    /// The mean of ``counted`` in mg/dL, as reports have it: each value counts by the time between two values of its sensor.
    ///
    /// - Parameters:
    ///   - places: the decimal places of the mean, 0 … 9.
    ///   - isWithBlood: whether the values of meters count, too, each as much as one of the sensor with the longest time between two:
    ///     for receivers that have one average for all glucose of a day.
    /// - Returns: `nil` for no numbers.
    public func mean(places: Int16, withBlood isWithBlood: Bool = false) -> ExactDecimal? {
        let (own, unit) = (series, MeasurementUnit.milligramsPerDecilitre)
        let weights = own.weights
        let most = weights.max()
        var (numbers, counts): ([(number: ExactDecimal, unit: MeasurementUnit)], [Int64]) = ([], [])
        for (place, value) in own.values.enumerated() {
            guard let number = value.point.number else { continue }
            numbers.append((number: number, unit: value.point.unit))
            if !weights.isEmpty { counts.append(weights[place]) }
        }
        for point in isWithBlood ? blood : [] {
            guard let number = point.number else { continue }
            numbers.append((number: number, unit: point.unit))
            if let most { counts.append(most) }
        }
        return MeasuredValues(numbers, base: unit, weights: counts).mean(in: unit, places: places)
    }
}
