import HealthReadings

/// Values of a vital sign over a period: what is lowest and highest, by day and by short parts of the period.
///
/// A strap may send a value a second. The figures keep no value of their own but the extremes, so that they take the same memory
/// whatever was measured. A recording has the lowest and the highest of its samples in each day and part that it goes through, at
/// their own times, and counts once in each. Readings may be added in any order.
///
/// Of a heart-rate variability the figures are of RMSSD, and apart from it of SDNN where a reading has no RMSSD: see ``measured``.
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
        /// How many readings there are.
        public private(set) var count = 1
        /// The lowest value; the earliest of several.
        public private(set) var lowest: Point
        /// The highest value; the earliest of several.
        public private(set) var highest: Point

        init(_ point: Point) { (lowest, highest) = (point, point) }

        /// Adds a value of the same reading.
        mutating func widen(_ point: Point) {
            if point.isLower(than: lowest) { lowest = point }
            if point.isHigher(than: highest) { highest = point }
        }

        /// Adds values of the same reading.
        mutating func widen(_ span: Span) {
            widen(span.lowest)
            widen(span.highest)
        }

        /// Adds what other readings have.
        mutating func add(_ other: Span) {
            count += other.count
            widen(other)
        }
    }

    /// Where in the period values lie.
    private struct Place {
        var day: Int
        var part: Int
        var span: Span
    }

    /// The values of one quantity.
    private struct Values: Sendable {
        var all: Span?
        var days: [Int: Span] = [:]
        var parts: [Int: Span] = [:]

        /// Adds a reading, which counts once in each day and part.
        mutating func add(_ places: [Place]) {
            guard var whole = places.first?.span else { return }
            var (ofDays, ofParts): ([Int: Span], [Int: Span]) = ([:], [:])
            for place in places {
                whole.widen(place.span)
                if ofDays[place.day]?.widen(place.span) == nil { ofDays[place.day] = place.span }
                if ofParts[place.part]?.widen(place.span) == nil { ofParts[place.part] = place.span }
            }
            if all?.add(whole) == nil { all = whole }
            for (day, span) in ofDays { if days[day]?.add(span) == nil { days[day] = span } }
            for (part, span) in ofParts { if parts[part]?.add(span) == nil { parts[part] = span } }
        }
    }

    /// The kind of readings.
    public let kind: ReadingKind
    /// The period.
    public let period: FigurePeriod
    /// The unit of the values.
    public let unit: MeasurementUnit
    /// What the values are: the main quantity of the kind, or of a variability RMSSD or SDNN.
    public private(set) var part: VitalValue.Part
    /// The devices that measured.
    public private(set) var devices: Set<DeviceDescription> = []
    /// Readings that are in no figure, by reason.
    public private(set) var leftOut: [FigureExclusion: Int] = [:]
    private var values: [VitalValue.Part: Values] = [:]

    /// How many parts of the same length a period has.
    public static let partCount = 400

    /// Makes figures without values.
    ///
    /// - Parameters:
    ///   - kind: heart rate, its variability, oxygen saturation, temperature or body composition.
    ///   - period: the period.
    /// - Returns: `nil` for another kind.
    public init?(_ kind: ReadingKind, _ period: FigurePeriod) {
        guard let (part, unit) = Self.quantity(kind) else { return nil }
        (self.kind, self.period, self.part, self.unit) = (kind, period, part, unit)
    }

    private static func quantity(_ kind: ReadingKind) -> (part: VitalValue.Part, unit: MeasurementUnit)? {
        switch kind {
        case .heartRate: (.heartRate, .beatsPerMinute)
        case .hrv: (.rmssd, .milliseconds)
        case .spo2: (.saturation, .percent)
        case .bodyComposition: (.bodyFat, .percent)
        case .temperature: (.temperature, .degreesCelsius)
        default: nil
        }
    }

    /// Adds a reading; one that is in no figure is counted with its reason.
    ///
    /// - Returns: whether the period has something of it: of a recording that began earlier, its samples in the period. Anything else
    ///   is not counted.
    @discardableResult
    public mutating func add(_ reading: Reading) -> Bool {
        guard reading.kind == kind, case .vital(let vital) = reading.record.value else { return false }
        let places = places(of: reading, vital)
        guard !places.isEmpty else {
            // A reading without a time is of every period. A recording may begin in one that has none of its samples.
            guard reading.time.instant.map({ period.index(of: $0) != nil }) ?? true,
                reading.figureExclusion != nil || vital.series == nil
            else { return false }
            leftOut[reading.figureExclusion ?? .excluded(.noValue), default: 0] += 1
            return true
        }
        devices.insert(reading.measuringDevice)
        values[kind == .hrv ? vital.figured?.part ?? part : part, default: Values()].add(places)
        return true
    }

    /// The values that a reading has in the period, those that lie together in one; none for a reading that is in no figure.
    private func places(of reading: Reading, _ vital: VitalValue) -> [Place] {
        guard reading.figureExclusion == nil, let time = reading.time.instant, let main = vital.figured else {
            return []
        }
        let (site, note) = (vital.site, reading.record.entry?.note)
        let whole = max(1, period.end.seconds - period.start.seconds)
        var (finder, places): (DayFinder, [Place]) = (DayFinder(period), [])
        func take(_ time: Instant, _ number: ExactDecimal) {
            let value = main.unit == unit ? number : Quantity(number, main.unit).number(in: unit, places: 1)
            guard let value, let day = finder.index(of: time) else { return }
            let point = Point(time: time, reading: reading.id, value: value, site: site, note: note)
            let part = Int((time.seconds - period.start.seconds) * Int64(Self.partCount) / whole)
            if let last = places.last, last.day == day, last.part == part {
                places[places.count - 1].span.widen(point)
            } else {
                places.append(Place(day: day, part: part, span: Span(point)))
            }
        }
        let samples = reading.samples()
        for sample in samples { take(sample.time, sample.value) }
        if samples.isEmpty { take(time, main.number) }
        return places
    }

    /// Whether a reading is in the figures.
    public static func counts(_ reading: Reading) -> Bool {
        guard case .vital(let vital) = reading.record.value else { return false }
        return reading.figureExclusion == nil && reading.time.instant != nil && vital.figured != nil
    }

    /// All values; `nil` for none.
    public var all: Span? { values[part]?.all }

    /// The days with values, oldest first.
    public var byDay: [(date: String, span: Span)] {
        (values[part]?.days ?? [:]).sorted { $0.key < $1.key }.map { (period.days[$0.key].date, $0.value) }
    }

    /// Parts of the period with values, oldest first; each is ``partCount``th of it.
    public var byPart: [Span] { (values[part]?.parts ?? [:]).sorted { $0.key < $1.key }.map(\.value) }

    /// The figures of each quantity that was measured: of a variability RMSSD, and SDNN behind it. The two are never compared.
    public var measured: [VitalFigures] {
        let parts: [VitalValue.Part] = kind == .hrv ? [.rmssd, .sdnn] : [part]
        return parts.map { figures(of: $0) }.filter { $0.all != nil }
    }

    /// The figures of another quantity of the same readings.
    public func figures(of part: VitalValue.Part) -> VitalFigures {
        var figures = self
        figures.part = part
        return figures
    }
}

extension VitalValue {
    /// The number that figures are of: the main one, and of a variability RMSSD, or SDNN where there is no RMSSD; `nil` for none.
    public var figured: (part: Part, number: ExactDecimal, unit: MeasurementUnit)? {
        guard kind == .hrv else {
            guard let first = quantities.first, let number = first.quantity.number.number else { return nil }
            return (first.part, number, first.quantity.unit)
        }
        for part in [Part.rmssd, .sdnn] {
            if let quantity = self[part], let number = quantity.number.number { return (part, number, quantity.unit) }
        }
        return nil
    }
}
