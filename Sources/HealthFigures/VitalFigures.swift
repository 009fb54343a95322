import HealthReadings

/// Values of a vital sign over a period: what is lowest and highest, by day and by short parts of the period.
///
/// A strap may send a value a second. The figures keep no value of their own but the extremes, so that they take the same memory
/// whatever was measured. Readings may be added in any order.
public struct VitalFigures: Sendable {
    /// A value of the vital sign.
    public struct Point: Sendable, Hashable {
        /// When it was measured.
        public var time: Instant
        /// The reading it is from.
        public var reading: ReadingID
        /// The number, in the unit of the figures.
        public var value: ExactDecimal
        /// Where it was measured: `ear`; `nil` where that is unknown.
        public var site: String?
        /// What the person wrote beside it.
        public var note: String?

        func isLower(than other: Point) -> Bool {
            value.isNumericallyLess(than: other.value)
                || !other.value.isNumericallyLess(than: value) && time < other.time
        }

        func isHigher(than other: Point) -> Bool {
            other.value.isNumericallyLess(than: value)
                || !value.isNumericallyLess(than: other.value) && time < other.time
        }
    }

    /// What lies in a part of the period.
    public struct Span: Sendable {
        /// How many values there are.
        public private(set) var count = 1
        /// The lowest value; the earliest of several.
        public private(set) var lowest: Point
        /// The highest value; the earliest of several.
        public private(set) var highest: Point

        init(_ point: Point) { (lowest, highest) = (point, point) }

        mutating func add(_ point: Point) {
            count += 1
            if point.isLower(than: lowest) { lowest = point }
            if point.isHigher(than: highest) { highest = point }
        }
    }

    /// The kind of readings.
    public let kind: ReadingKind
    /// The period.
    public let period: FigurePeriod
    /// The unit of the values.
    public let unit: MeasurementUnit
    /// The devices that measured.
    public private(set) var devices: Set<DeviceDescription> = []
    /// All values; `nil` for none.
    public private(set) var all: Span?
    /// Readings that are in no figure, by reason.
    public private(set) var leftOut: [FigureExclusion: Int] = [:]
    private var days: [Int: Span] = [:]
    private var parts: [Int: Span] = [:]

    /// How many parts of the same length a period has.
    public static let partCount = 400

    /// Makes figures without values.
    ///
    /// - Parameters:
    ///   - kind: heart rate, its variability, oxygen saturation, temperature or body composition.
    ///   - period: the period.
    /// - Returns: `nil` for another kind.
    public init?(_ kind: ReadingKind, _ period: FigurePeriod) {
        guard let unit = Self.unit(kind) else { return nil }
        (self.kind, self.period, self.unit) = (kind, period, unit)
    }

    private static func unit(_ kind: ReadingKind) -> MeasurementUnit? {
        switch kind {
        case .heartRate: .beatsPerMinute
        case .hrv: .milliseconds
        case .spo2, .bodyComposition: .percent
        case .temperature: .degreesCelsius
        default: nil
        }
    }

    /// Adds a reading; one that is in no figure is counted with its reason.
    public mutating func add(_ reading: Reading) {
        guard reading.kind == kind, case .vital(let vital) = reading.record.value else { return }
        guard reading.figureExclusion == nil, let time = reading.time.instant, let quantity = vital.main,
            let value = quantity.unit == unit ? quantity.number.number : quantity.number(in: unit, places: 1),
            let day = period.index(of: time)
        else {
            leftOut[reading.figureExclusion ?? .excluded(.noValue), default: 0] += 1
            return
        }
        let point = Point(
            time: time, reading: reading.id, value: value, site: vital.site, note: reading.record.entry?.note)
        devices.insert(reading.measuringDevice)
        let whole = max(1, period.end.seconds - period.start.seconds)
        let part = Int((time.seconds - period.start.seconds) * Int64(Self.partCount) / whole)
        if all?.add(point) == nil { all = Span(point) }
        if days[day]?.add(point) == nil { days[day] = Span(point) }
        if parts[part]?.add(point) == nil { parts[part] = Span(point) }
    }

    /// Whether a reading is in the figures.
    public static func counts(_ reading: Reading) -> Bool {
        guard case .vital(let vital) = reading.record.value else { return false }
        return reading.figureExclusion == nil && reading.time.instant != nil && vital.main?.number.number != nil
    }

    /// The days with values, oldest first.
    public var byDay: [(date: String, span: Span)] {
        days.sorted { $0.key < $1.key }.map { (period.days[$0.key].date, $0.value) }
    }

    /// Parts of the period with values, oldest first; each is ``partCount``th of it.
    public var byPart: [Span] { parts.sorted { $0.key < $1.key }.map(\.value) }
}
