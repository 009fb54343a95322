import HealthReadings

/// Measured numbers of one quantity, whatever unit each was measured in, and the figures of them in any unit.
///
/// Sums are exact: a figure doesn't depend on the order of the numbers, and is rounded once, half to even. Numbers that were
/// measured in two units are brought to one by the exact factor, without rounding. Numbers may have weights, such as the time
/// that each stands for.
public struct MeasuredValues: Sendable {
    /// The numbers in the base unit, times 10^places.
    let digits: [Int64]
    /// Decimal places of ``digits``, 0 … 8.
    let places: Int16
    /// The unit of ``digits``.
    let base: MeasurementUnit
    /// How much each of ``digits`` counts; empty if all count the same.
    let weights: [Int64]

    /// How many numbers there are.
    public var count: Int { digits.count }

    /// Takes numbers.
    ///
    /// - Parameters:
    ///   - quantities: the numbers with their units; a number in a unit that can't become the base unit is left out.
    ///   - base: the unit that others become: mg/dL, mmHg, or the only one there is.
    public init(_ quantities: some Collection<(number: ExactDecimal, unit: MeasurementUnit)>, base: MeasurementUnit) {
        self.init(quantities, base: base, weights: [])
    }

    /// Takes numbers of which some count more than others.
    ///
    /// - Parameters:
    ///   - quantities: the numbers with their units; a number in a unit that can't become the base unit is left out.
    ///   - base: the unit that others become.
    ///   - weights: how much each number counts, 1 or more; empty if all count the same.
    init(
        _ quantities: some Collection<(number: ExactDecimal, unit: MeasurementUnit)>, base: MeasurementUnit,
        weights: [Int64]
    ) {
        self.base = base
        var finest: Int16 = 0
        for quantity in quantities {
            if quantity.unit == base, -quantity.number.exponent <= finest { continue }
            let factor = Self.factor(from: quantity.unit, to: base)
            finest = max(finest, -(quantity.number.exponent + (factor?.exponent ?? 0)))
        }
        // Nothing that a device sends has more places than these.
        let places = min(finest, 8)
        self.places = places
        guard !weights.isEmpty else {
            digits = quantities.compactMap { Self.digits(of: $0.number, $0.unit, base: base, places: places) }
            self.weights = []
            return
        }
        var (found, kept): ([Int64], [Int64]) = ([], [])
        for (quantity, weight) in zip(quantities, weights) {
            guard let own = Self.digits(of: quantity.number, quantity.unit, base: base, places: places) else {
                continue
            }
            found.append(own)
            kept.append(weight)
        }
        (digits, self.weights) = (found, kept)
    }

    private static func digits(
        of number: ExactDecimal, _ unit: MeasurementUnit, base: MeasurementUnit, places: Int16
    ) -> Int64? {
        if unit == base, number.exponent == -places {
            let digits = number.significand
            return digits.magnitude < 1_000_000_000_000_000 ? digits : nil
        }
        guard let factor = factor(from: unit, to: base),
            let digits = number.multiplied(by: factor, places: places)?.significand
        else { return nil }
        // Sums of what a device can send fit; a number beyond this is none that it can.
        return digits.magnitude < 1_000_000_000_000_000 ? digits : nil
    }

    /// What a number is multiplied by to change its unit; `nil` if there is no such change.
    static func factor(from unit: MeasurementUnit, to base: MeasurementUnit) -> ExactDecimal? {
        if unit == base { return ExactDecimal(significand: 1) }
        switch (unit, base) {
        case (.millimolesPerLitre, .milligramsPerDecilitre):
            return ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre
        case (.kilopascal, .millimetresOfMercury): return ConversionFactor.millimetresOfMercuryInOneKilopascal
        case (.pounds, .kilograms): return ConversionFactor.kilogramsInOnePound
        case (.grams, .kilograms): return ExactDecimal(significand: 1, exponent: -3)
        default: return nil
        }
    }

    /// What a number in the base unit is divided by to be in another.
    private func divisor(_ unit: MeasurementUnit) -> Ratio? { Self.factor(from: unit, to: base)?.ratio }

    /// The sum in units of 10^-places, each number as often as it counts.
    private var sum: Int128 {
        var sum: Int128 = 0
        guard !weights.isEmpty else {
            for value in digits { sum += Int128(value) }
            return sum
        }
        for (value, weight) in zip(digits, weights) { sum += Int128(weight) * Int128(value) }
        return sum
    }

    /// How much all numbers count.
    private var weight: Int128 {
        var weight: Int128 = 0
        for one in weights { weight += Int128(one) }
        return weights.isEmpty ? Int128(count) : weight
    }

    /// The mean before it is rounded, in the base unit; `nil` for no numbers.
    var exactMean: Ratio? { digits.isEmpty ? nil : Ratio(sum, weight * Ratio.power(places)) }

    /// The mean.
    ///
    /// - Parameters:
    ///   - unit: the unit of the mean.
    ///   - places: the decimal places of the mean, 0 … 9.
    /// - Returns: `nil` for no numbers, or if there is no conversion to the unit.
    public func mean(in unit: MeasurementUnit, places: Int16) -> ExactDecimal? {
        guard let mean = exactMean, let divisor = divisor(unit) else { return nil }
        return mean.over(divisor)?.rounded(places)
    }

    /// The standard deviation of a sample: `sqrt(Σ(x - mean)² / (n - 1))`; of numbers with weights
    /// `sqrt(Σw(x - mean)² / Σw × n / (n - 1))`.
    ///
    /// - Parameters:
    ///   - unit: the unit of the deviation.
    ///   - places: its decimal places, 0 … 9.
    /// - Returns: `nil` for fewer than two numbers, or if there is no conversion to the unit.
    public func deviation(in unit: MeasurementUnit, places: Int16) -> ExactDecimal? {
        guard count > 1, let squares = squareDifference, let divisor = divisor(unit) else { return nil }
        let variance = Ratio(squares, weight * weight).times(Ratio(Int128(count), Int128(count - 1)))?
            .over(Ratio(Ratio.power(2 * self.places)))?.over(divisor)?.over(divisor)
        if let variance, let root = Ratio.root(variance.numerator, variance.denominator, places: places) {
            return root
        }
        // Weights, and what another program has converted, may have more digits than 128 bits hold.
        let size = Double(weight)
        let share = Double(squares) / size / size * Double(count) / Double(count - 1)
        let own = share.squareRoot() / Double(Ratio.power(self.places)) / divisor.approximation
        return Self.rounded(own, places)
    }

    /// The coefficient of variation in per cent: 100 × deviation / mean. It is the same in every unit.
    ///
    /// - Parameter places: its decimal places, 0 … 9.
    /// - Returns: `nil` for fewer than two numbers, or a mean of 0.
    public func variation(places: Int16) -> ExactDecimal? {
        guard count > 1, let squares = squareDifference, sum != 0 else { return nil }
        let (square, overflow) = sum.multipliedReportingOverflow(by: sum)
        guard !overflow else { return nil }
        let ratio = Ratio(squares, square).times(Ratio(Int128(count) * 10_000, Int128(count - 1)))
        if let ratio, let root = Ratio.root(ratio.numerator, ratio.denominator, places: places) { return root }
        // A year of numbers that another program has converted has more digits than 128 bits hold.
        let share = Double(squares) / Double(square) * Double(count) / Double(count - 1)
        return Self.rounded(100 * share.squareRoot(), places)
    }

    private static func rounded(_ number: Double, _ places: Int16) -> ExactDecimal? {
        let digits = (number * Double(Ratio.power(places))).rounded(.toNearestOrEven)
        return Int64(exactly: digits).map { ExactDecimal(significand: $0, exponent: -places) }
    }

    /// Σw Σwx² - (Σwx)², where without weights Σw is n, in units of 10^(-2 places); `nil` if it doesn't fit 128 bits.
    private var squareDifference: Int128? {
        var squares: Int128 = 0
        if weights.isEmpty {
            for value in digits { squares += Int128(value) * Int128(value) }
        } else {
            for (value, weight) in zip(digits, weights) { squares += Int128(weight) * Int128(value) * Int128(value) }
        }
        let total = sum
        let (first, one) = squares.multipliedReportingOverflow(by: weight)
        let (second, other) = total.multipliedReportingOverflow(by: total)
        return one || other ? nil : first - second
    }
}

extension MeasurementUnit {
    /// The decimal places that people read numbers of this unit with: whole mg/dL and mmHg, one place for mmol/L and kPa.
    public var usualPlaces: Int16 {
        switch self {
        case .millimolesPerLitre, .kilopascal, .kilograms, .pounds, .degreesCelsius, .degreesFahrenheit: 1
        default: 0
        }
    }
}

extension ExactDecimal {
    /// A measured number as people read it in a unit: converted exactly where it must be, and rounded once, half to even.
    ///
    /// - Parameters:
    ///   - unit: the unit the number was measured in.
    ///   - target: the unit to show it in.
    ///   - places: the decimal places; `nil`: the usual ones of the unit.
    /// - Returns: `nil` if there is no conversion.
    public func shown(_ unit: MeasurementUnit, in target: MeasurementUnit, places: Int16? = nil) -> ExactDecimal? {
        let places = places ?? target.usualPlaces
        if unit == target { return multiplied(by: ExactDecimal(significand: 1), places: places) }
        if let factor = MeasuredValues.factor(from: unit, to: target) { return multiplied(by: factor, places: places) }
        guard let factor = MeasuredValues.factor(from: target, to: unit) else { return nil }
        return divided(by: factor, places: places)
    }
}
