import HealthReadings

/// Where a glucose value lies among the bounds of a person.
public enum GlucoseClass: Int, Sendable, Hashable, CaseIterable {
    case veryLow, low, target, high, veryHigh

    /// The name in documents: `very_low`, …
    public var name: String {
        switch self {
        case .veryLow: "very_low"
        case .low: "low"
        case .target: "target"
        case .high: "high"
        case .veryHigh: "very_high"
        }
    }
}

/// The bounds of glucose classes, for values in mg/dL and for values in mmol/L.
///
/// A value is classed in the unit that it was measured in, with that unit's bounds, never after a conversion: 181 mg/dL is high, and
/// rounded to 10.0 mmol/L it would not be. Bounds belong to the class nearer to the target: 70 and 180 mg/dL are in target, 54 is
/// low, 250 is high. What another program has converted is classed in the unit that it was measured in, too: 180.15588 mg/dL is 10.0
/// mmol/L, and in target.
public struct GlucoseRanges: Sendable, Hashable {
    /// The bounds in one unit.
    public struct Bounds: Sendable, Hashable {
        /// Values below it are very low; `nil`: low values are not split.
        public var veryLow: ExactDecimal?
        /// The lowest value in target.
        public var lowest: ExactDecimal
        /// The highest value in target.
        public var highest: ExactDecimal
        /// Values above it are very high; `nil`: high values are not split.
        public var veryHigh: ExactDecimal?

        /// Makes bounds.
        public init(
            veryLow: ExactDecimal? = nil, lowest: ExactDecimal, highest: ExactDecimal, veryHigh: ExactDecimal? = nil
        ) {
            (self.veryLow, self.lowest, self.highest, self.veryHigh) = (veryLow, lowest, highest, veryHigh)
        }
    }

    /// What consensus statements propose.
    public enum Preset: String, Sendable, Hashable, CaseIterable {
        /// Type 1 and type 2 diabetes (Battelino 2019).
        case standard
        /// Older people and people at high risk.
        case older
        /// Type 1 diabetes in pregnancy.
        case pregnancy
        /// Gestational diabetes, and type 2 diabetes in pregnancy: the bounds of pregnancy without an agreed goal.
        case gestational
    }

    /// A goal as consensus statements print it: the share of time within, below or above bounds.
    public struct Goal: Sendable, Hashable {
        /// The classes whose shares are added.
        public var classes: [GlucoseClass]
        /// Whether the share is to be above (and not below) the number.
        public var isLeast: Bool
        /// Per cent.
        public var percent: Int
    }

    /// The bounds of values in mg/dL.
    public let milligrams: Bounds
    /// The bounds of values in mmol/L.
    public let millimoles: Bounds
    /// The preset the bounds are of; `nil` for bounds of the person's own.
    public let preset: Preset?

    /// The bounds of a preset.
    public init(_ preset: Preset) {
        func whole(_ value: Int64?) -> ExactDecimal? { value.map { ExactDecimal(significand: $0) } }
        func tenths(_ value: Int64?) -> ExactDecimal? { value.map { ExactDecimal(significand: $0, exponent: -1) } }
        func bounds(_ make: (Int64?) -> ExactDecimal?, _ numbers: (Int64?, Int64, Int64, Int64?)) -> Bounds {
            let zero = ExactDecimal(significand: 0)
            return Bounds(
                veryLow: make(numbers.0), lowest: make(numbers.1) ?? zero, highest: make(numbers.2) ?? zero,
                veryHigh: make(numbers.3))
        }
        self.preset = preset
        switch preset {
        case .standard:
            (milligrams, millimoles) = (bounds(whole, (54, 70, 180, 250)), bounds(tenths, (30, 39, 100, 139)))
        case .older:
            (milligrams, millimoles) = (bounds(whole, (nil, 70, 180, 250)), bounds(tenths, (nil, 39, 100, 139)))
        case .pregnancy, .gestational:
            (milligrams, millimoles) = (bounds(whole, (54, 63, 140, nil)), bounds(tenths, (30, 35, 78, nil)))
        }
    }

    /// Bounds of a person's own, in one unit; in the other they are converted, to whole mg/dL or tenths of a mmol/L.
    ///
    /// - Parameters:
    ///   - bounds: the bounds.
    ///   - unit: their unit, mg/dL or mmol/L.
    /// - Returns: `nil` for another unit, or bounds that are not in ascending order.
    public init?(_ bounds: Bounds, in unit: MeasurementUnit) {
        let order = [bounds.veryLow, bounds.lowest, bounds.highest, bounds.veryHigh].compactMap(\.self)
        guard unit == .milligramsPerDecilitre || unit == .millimolesPerLitre,
            zip(order, order.dropFirst()).allSatisfy({ $0.isNumericallyLess(than: $1) }), order[0].significand > 0
        else { return nil }
        let other: MeasurementUnit = unit == .millimolesPerLitre ? .milligramsPerDecilitre : .millimolesPerLitre
        func converted(_ number: ExactDecimal?) -> ExactDecimal? { number?.shown(unit, in: other) }
        guard let lowest = converted(bounds.lowest), let highest = converted(bounds.highest) else { return nil }
        let others = Bounds(
            veryLow: converted(bounds.veryLow), lowest: lowest, highest: highest, veryHigh: converted(bounds.veryHigh))
        (milligrams, millimoles) = unit == .milligramsPerDecilitre ? (bounds, others) : (others, bounds)
        preset = nil
    }

    /// The bounds of values in a unit.
    public func bounds(in unit: MeasurementUnit) -> Bounds { unit == .millimolesPerLitre ? millimoles : milligrams }

    /// The class of a number, by the bounds of the unit that it was measured in.
    ///
    /// A number with more digits than devices show in its unit is classed in the other unit, if it is what a conversion makes of a
    /// number there. A mean is mostly no such number, and is classed as it is.
    public func classify(_ number: ExactDecimal, _ unit: MeasurementUnit) -> GlucoseClass {
        let (number, unit) = Self.measured(number, unit)
        let bounds = bounds(in: unit)
        if number.isNumericallyLess(than: bounds.lowest) {
            return bounds.veryLow.map { number.isNumericallyLess(than: $0) } == true ? .veryLow : .low
        }
        guard bounds.highest.isNumericallyLess(than: number) else { return .target }
        return bounds.veryHigh.map { $0.isNumericallyLess(than: number) } == true ? .veryHigh : .high
    }

    /// A number as its device showed it: that of the other unit, if a program has converted it.
    ///
    /// Devices show whole mg/dL and tenths of a mmol/L. A number that is finer and within half of its last digit, or within 0.015 %, of
    /// such a number of the other unit comes from there: programs convert with factors from 18.0156 to 18.0182.
    private static func measured(
        _ number: ExactDecimal, _ unit: MeasurementUnit
    ) -> (number: ExactDecimal, unit: MeasurementUnit) {
        // Nearly every number is as its device showed it, and this is asked of tens of thousands.
        guard (-18..<(-unit.usualPlaces)).contains(number.exponent), number.significand > 0,
            number.shown(unit, in: unit)?.isNumericallyEqual(to: number) == false
        else { return (number, unit) }
        let isMolar = unit == .millimolesPerLitre
        let other: MeasurementUnit = isMolar ? .milligramsPerDecilitre : .millimolesPerLitre
        guard let origin = number.shown(unit, in: other) else { return (number, unit) }
        // The origin in this unit is its digits × top / bottom; a tenth of a mmol/L is 1.80156 mg/dL.
        let (top, bottom): (Int128, Int128) = isMolar ? (10_000, 180_156) : (180_156, 100_000)
        let digits = Int128(number.significand)
        let distance = Int128(origin.significand) * top * Ratio.power(-number.exponent) - digits * bottom
        let isNear = 200_000 * distance.magnitude <= (bottom * max(100_000, 30 * digits)).magnitude
        return isNear ? (origin, other) : (number, unit)
    }

    /// The classes there are: very low and very high only where the bounds split them.
    public var classes: [GlucoseClass] {
        GlucoseClass.allCases.filter {
            switch $0 {
            case .veryLow: milligrams.veryLow != nil
            case .veryHigh: milligrams.veryHigh != nil
            case .low, .target, .high: true
            }
        }
    }

    /// The goals that belong to a preset. A person's own bounds have none, nor has a preset without agreed goals.
    public var goals: [Goal] {
        let (below, above): ([GlucoseClass], [GlucoseClass]) = ([.veryLow, .low], [.high, .veryHigh])
        func least(_ percent: Int) -> Goal { Goal(classes: [.target], isLeast: true, percent: percent) }
        func most(_ classes: [GlucoseClass], _ percent: Int) -> Goal {
            Goal(classes: classes, isLeast: false, percent: percent)
        }
        switch preset {
        case .standard:
            return [least(70), most(below, 4), most([.veryLow], 1), most(above, 25), most([.veryHigh], 5)]
        case .older: return [least(50), most(below, 1), most(above, 50), most([.veryHigh], 10)]
        case .pregnancy: return [least(70), most(below, 4), most([.veryLow], 1), most(above, 25)]
        case .gestational, nil: return []
        }
    }
}
