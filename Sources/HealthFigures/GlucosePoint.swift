import HealthReadings

/// A glucose value among those that figures are computed of.
public struct GlucosePoint: Sendable, Hashable {
    /// What the device showed.
    public enum Level: Sendable, Hashable {
        /// A number.
        case number(ExactDecimal)
        /// "HI": above what the device can measure, and that limit where it is known.
        case above(limit: ExactDecimal?)
        /// "LO": below what the device can measure, and that limit where it is known.
        case below(limit: ExactDecimal?)
    }

    /// What measured it.
    public enum Source: Sendable, Hashable {
        /// A meter, in a drop of blood, or a person who typed it in.
        case blood
        /// The memory of a sensor that keeps a value every so many seconds.
        case history(seconds: Int64)
        /// The newest values of such a sensor, one every so many seconds.
        case trend(seconds: Int64)
        /// A sensor whose pace isn't known.
        case sensor
        /// A value that a person asked a sensor for, beside those that the sensor keeps by itself.
        case scan

        /// What measured a value.
        ///
        /// - Parameters:
        ///   - glucose: the value.
        ///   - facts: what a sensor that counts its own minutes says besides.
        ///   - imported: what another program says of it.
        public init(of glucose: GlucoseValue, _ facts: SensorFacts?, _ imported: ImportFacts? = nil) {
            switch (facts?.source, imported?.sensorSource) {
            case (.history, _), (nil, .history): self = .history(seconds: 15 * 60)
            case (.trend, _), (nil, .trend): self = .trend(seconds: 60)
            case (nil, .scan): self = .scan
            case (nil, nil):
                let isSensor = glucose.sampleType == .interstitialFluid || glucose.continuous != nil
                self = isSensor ? .sensor : .blood
            }
        }
    }

    /// When it was measured.
    public var time: Instant
    /// The reading it is from.
    public var reading: ReadingID
    /// What the device showed.
    public var level: Level
    /// The unit of the number and of the limits.
    public var unit: MeasurementUnit
    /// What measured it.
    public var source: Source
    /// The device.
    public var device: DeviceDescription {
        get { box.device }
        set { box = DeviceBox(newValue) }
    }
    /// Tens of thousands of values are of one sensor: they share its description.
    var box: DeviceBox
    /// The meal that the person told the meter: `preprandial`, …
    public var meal: String? {
        get { words?.meal }
        set { words = Words(meal: newValue, note: note) }
    }
    /// What the person wrote beside it.
    public var note: String? {
        get { words?.note }
        set { words = Words(meal: meal, note: newValue) }
    }
    private var words: Words?
    /// Whether the number is this gateway's estimate of a sensor's raw value.
    public var isEstimate = false
    /// Whether another program passed the value on without saying what measured it, so that its pace may tell a sensor: see
    /// ``SensorPace``.
    public var isUnspecified = false

    /// The number; `nil` for HI and LO.
    public var number: ExactDecimal? {
        if case .number(let number) = level { number } else { nil }
    }

    /// The lowest and the highest number that a device can show, in a unit; `nil` where it is not known.
    public typealias Limits = (DeviceDescription, MeasurementUnit) -> (lowest: ExactDecimal?, highest: ExactDecimal?)

    /// Makes a point.
    public init(
        time: Instant, reading: ReadingID, level: Level, unit: MeasurementUnit, source: Source,
        device: DeviceDescription, meal: String? = nil, note: String? = nil
    ) {
        (self.time, self.reading, self.level, self.unit, self.source) = (time, reading, level, unit, source)
        (box, words) = (DeviceBox(device), Words(meal: meal, note: note))
    }

    /// Takes a reading.
    ///
    /// HI and LO become a level without a number, also where the meter sent a number with its "result too high" or "too low": 401
    /// from a sensor that ends at 400 is no measurement. Their readings are excluded from delivery for want of a number, and count
    /// here as what they are.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - limits: what devices can show.
    /// - Returns: `nil` for a reading that is no glucose, has no time, or is left out of figures: `Reading.figureExclusion` says why.
    public init?(_ reading: Reading, limits: Limits) {
        guard reading.leftOut == nil, case .glucose(let glucose) = reading.record.value, let time = reading.time.instant
        else { return nil }
        let unit = glucose.concentration?.unit ?? .milligramsPerDecilitre
        guard unit == .milligramsPerDecilitre || unit == .millimolesPerLitre else { return nil }
        let number = glucose.concentration?.number
        let status = reading.record.status
        let isHigh = status.contains(.resultTooHigh) || number == .positiveInfinity
        let isLow = status.contains(.resultTooLow) || number == .negativeInfinity
        let level: Level
        switch reading.excluded {
        case nil, .noValue, .notANumber:
            // A meter that says both, or that its strip failed, says neither.
            if isHigh != isLow, status.isDisjoint(with: .measurementFailed) {
                let range = limits(reading.device, unit)
                level = isHigh ? .above(limit: range.highest) : .below(limit: range.lowest)
            } else if reading.excluded == nil, let value = number?.number {
                level = .number(value)
            } else {
                return nil
            }
        default: return nil
        }
        self.init(
            time: time, reading: reading.id, level: level, unit: unit,
            source: Source(of: glucose, reading.record.sensor, reading.record.imported),
            device: reading.measuringDevice, meal: reading.context?.meal, note: reading.record.entry?.note)
        (isEstimate, isUnspecified) = (reading.record.isEstimate, reading.isUnspecifiedGlucose)
    }

    /// Takes a reading with its number as a document of its day has it.
    ///
    /// - Parameters:
    ///   - reading: the reading, also one that a person leaves out of figures.
    ///   - number: its number.
    ///   - unit: the unit of the number.
    /// - Returns: `nil` for a reading that is no glucose, or has no time.
    public init?(_ reading: Reading, number: ExactDecimal, unit: MeasurementUnit) {
        guard case .glucose(let glucose) = reading.record.value, let time = reading.time.instant else { return nil }
        self.init(
            time: time, reading: reading.id, level: .number(number), unit: unit,
            source: Source(of: glucose, reading.record.sensor, reading.record.imported),
            device: reading.measuringDevice)
        (isEstimate, isUnspecified) = (reading.record.isEstimate, reading.isUnspecifiedGlucose)
    }

    /// The class by a person's bounds.
    ///
    /// HI and LO have the class of the limit of their device, which the value lies beyond; where the limit isn't known, the outermost.
    public func classified(by ranges: GlucoseRanges) -> GlucoseClass {
        level.classified(unit, by: ranges)
    }

    /// The value as people read it: `142`, `7.9`, `HI (>600)`, `LO (<1.1)`.
    public func text(in target: MeasurementUnit) -> String {
        func limit(_ sign: String, _ number: ExactDecimal?) -> String {
            number?.shown(unit, in: target).map { " (\(sign)\($0))" } ?? ""
        }
        switch level {
        case .number(let number): return (number.shown(unit, in: target) ?? number).description
        case .above(let number): return "HI" + limit(">", number)
        case .below(let number): return "LO" + limit("<", number)
        }
    }
}

/// The description of a device, once for all its values.
final class DeviceBox: Sendable, Hashable {
    let device: DeviceDescription

    init(_ device: DeviceDescription) { self.device = device }

    static func == (lhs: DeviceBox, rhs: DeviceBox) -> Bool { lhs === rhs || lhs.device == rhs.device }

    func hash(into hasher: inout Hasher) { hasher.combine(device) }
}

/// What a person told of a value. A sensor's values have none, and are copied faster without room for it.
private final class Words: Sendable, Hashable {
    let meal: String?
    let note: String?

    init?(meal: String?, note: String?) {
        if meal == nil, note == nil { return nil }
        (self.meal, self.note) = (meal, note)
    }

    static func == (lhs: Words, rhs: Words) -> Bool { (lhs.meal, lhs.note) == (rhs.meal, rhs.note) }

    func hash(into hasher: inout Hasher) {
        hasher.combine(meal)
        hasher.combine(note)
    }
}

extension GlucoseClass: Comparable {
    /// Orders from very low to very high.
    public static func < (lhs: GlucoseClass, rhs: GlucoseClass) -> Bool { lhs.rawValue < rhs.rawValue }
}

extension Reading {
    /// Whether it is a glucose that a sensor under the skin measured, not a meter in a drop of blood, as far as the reading says it.
    /// What another program passes on may not say it: see ``SensorPace``.
    public var isOfSensor: Bool {
        guard case .glucose(let glucose) = record.value else { return false }
        return GlucosePoint.Source(of: glucose, record.sensor, record.imported).isSensor
    }
}
