import HealthReadings

/// Finger sticks by the meal that the person told the meter, or by the time of day where none was told.
public struct MealFigures: Sendable {
    /// The readings of a meal or of a part of the day.
    public struct Slot: Sendable {
        /// `fasting`, `preprandial`, …, or a part of the day: `night`, `morning`, `midday`, `evening`.
        public var name: String
        /// Whether the slot is a part of the day: nobody told the meter a meal.
        public var isByTime: Bool
        /// The readings.
        public var figures: GlucoseFigures
    }

    /// The slots that have readings.
    public let slots: [Slot]
    /// How many readings before a meal have one after it, one to three hours later.
    public let pairs: Int
    /// By how much the readings after meals are higher, in the unit of the figures; `nil` without pairs.
    public let meanRise: ExactDecimal?

    private static let tags = ["fasting", "preprandial", "postprandial", "casual", "bedtime"]
    private static let parts: [(name: String, hours: Range<Int>)] = [
        ("night", 0..<5), ("morning", 5..<11), ("midday", 11..<16), ("evening", 16..<24),
    ]

    /// Computes the slots.
    ///
    /// - Parameters:
    ///   - points: the readings of meters, oldest first.
    ///   - ranges: the person's bounds.
    ///   - unit: mg/dL or mmol/L.
    ///   - period: the period.
    public init(_ points: [GlucosePoint], ranges: GlucoseRanges, unit: MeasurementUnit, period: FigurePeriod) {
        func slot(_ name: String, _ isByTime: Bool, _ chosen: [GlucosePoint]) -> Slot? {
            guard !chosen.isEmpty else { return nil }
            return Slot(
                name: name, isByTime: isByTime,
                figures: GlucoseFigures(chosen, ranges: ranges, unit: unit, period: period))
        }
        let known = Set(Self.tags)
        let untold = points.filter { point in !(point.meal.map(known.contains) ?? false) }
        slots =
            Self.tags.compactMap { tag in slot(tag, false, points.filter { $0.meal == tag }) }
            + Self.parts.compactMap { part in
                slot(
                    part.name, true, untold.filter { part.hours.contains(period.wallTime(at: $0.time).timeOfDay.hour) })
            }
        var (before, rises): (GlucosePoint?, [Ratio]) = (nil, [])
        let divisor = MeasuredValues.factor(from: unit, to: .milligramsPerDecilitre)?.ratio ?? Ratio(1)
        for point in points {
            if point.meal == "preprandial" || point.meal == "fasting" {
                before = point
            } else if point.meal == "postprandial", let first = before {
                let seconds = point.time.seconds - first.time.seconds
                guard (3600...3 * 3600).contains(seconds), let low = first.mass, let high = point.mass,
                    let rise = high.plus(Ratio(-low.numerator, low.denominator))
                else { continue }
                rises.append(rise)
                before = nil
            }
        }
        pairs = rises.count
        let sum = rises.reduce(Ratio(0)) { sum, rise in sum.plus(rise) ?? sum }
        meanRise =
            rises.isEmpty
            ? nil : sum.over(Ratio(Int128(rises.count)))?.over(divisor)?.rounded(unit.usualPlaces)
    }
}

extension GlucosePoint {
    /// The number in mg/dL, unrounded; `nil` for HI and LO.
    fileprivate var mass: Ratio? {
        guard let number, let factor = MeasuredValues.factor(from: unit, to: .milligramsPerDecilitre) else {
            return nil
        }
        return number.ratio.times(factor.ratio)
    }
}
