import HealthReadings

/// A fraction of two whole numbers: what figures are before they are rounded, once.
struct Ratio: Sendable, Hashable {
    /// Above the line.
    let numerator: Int128
    /// Below the line; 1 or more.
    let denominator: Int128

    /// Makes a fraction in its lowest terms.
    init(_ numerator: Int128, _ denominator: Int128 = 1) {
        let shared = Self.greatestCommonDivisor(numerator.magnitude, denominator.magnitude)
        let divisor = Int128(shared == 0 ? 1 : shared)
        let sign: Int128 = denominator < 0 ? -1 : 1
        (self.numerator, self.denominator) = (sign * numerator / divisor, max(1, sign * denominator / divisor))
    }

    /// The number as a decimal, rounded half to even at `places` decimal places; `nil` if it doesn't fit 64 bits.
    func rounded(_ places: Int16) -> ExactDecimal? {
        let (scaled, overflow) = numerator.multipliedReportingOverflow(by: Self.power(places))
        guard !overflow, let digits = Int64(exactly: Self.halfEven(scaled, denominator)) else { return nil }
        return ExactDecimal(significand: digits, exponent: -places)
    }

    /// The nearest binary number: for places in a chart alone.
    var approximation: Double { Double(numerator) / Double(denominator) }

    /// The sum; `nil` if it doesn't fit.
    func plus(_ other: Ratio) -> Ratio? {
        guard let left = Self.product(numerator, other.denominator),
            let right = Self.product(other.numerator, denominator),
            let bottom = Self.product(denominator, other.denominator)
        else { return nil }
        let (top, overflow) = left.addingReportingOverflow(right)
        return overflow ? nil : Ratio(top, bottom)
    }

    /// The product; `nil` if it doesn't fit.
    func times(_ other: Ratio) -> Ratio? {
        // Lowest terms first: the numbers stay small.
        let (one, two) = (Ratio(numerator, other.denominator), Ratio(other.numerator, denominator))
        guard let top = Self.product(one.numerator, two.numerator),
            let bottom = Self.product(one.denominator, two.denominator)
        else { return nil }
        return Ratio(top, bottom)
    }

    /// The quotient; `nil` for a divisor of 0, or if it doesn't fit.
    func over(_ other: Ratio) -> Ratio? {
        other.numerator == 0 ? nil : times(Ratio(other.denominator, other.numerator))
    }

    private static func product(_ one: Int128, _ other: Int128) -> Int128? {
        let (product, overflow) = one.multipliedReportingOverflow(by: other)
        return overflow ? nil : product
    }

    /// 10 to a power, 0 … 36.
    static func power(_ places: Int16) -> Int128 { (0..<max(0, places)).reduce(1) { power, _ in power * 10 } }

    /// Division rounded half to even; the divisor is positive.
    static func halfEven(_ numerator: Int128, _ denominator: Int128) -> Int128 {
        let (quotient, remainder) = numerator.quotientAndRemainder(dividingBy: denominator)
        let (left, size) = (remainder.magnitude, denominator.magnitude)
        let roundsAway = left > size - left || (left == size - left && !quotient.isMultiple(of: 2))
        return roundsAway ? quotient + (numerator < 0 ? -1 : 1) : quotient
    }

    /// The square root of a fraction, rounded half to even at `places` decimal places.
    ///
    /// - Returns: `nil` for a negative fraction, or if numbers on the way don't fit.
    static func root(_ numerator: Int128, _ denominator: Int128, places: Int16) -> ExactDecimal? {
        guard numerator >= 0, denominator > 0 else { return nil }
        let (scaled, overflow) = UInt128(numerator).multipliedReportingOverflow(by: UInt128(power(2 * places)))
        guard !overflow else { return nil }
        let divisor = UInt128(denominator)
        let quotient = scaled / divisor
        var root = UInt128(Double(quotient).squareRoot())
        while root > 0, root * root > quotient { root -= 1 }
        while (root + 1) * (root + 1) <= quotient { root += 1 }
        // The next number is nearer where (2 root + 1)² / 4 < scaled / divisor.
        let (odd, tooLarge) = (2 * root + 1).multipliedReportingOverflow(by: 2 * root + 1)
        guard !tooLarge else { return nil }
        let (half, whole) = (odd.multipliedFullWidth(by: divisor), scaled.multipliedFullWidth(by: 4))
        let isEqual = half.high == whole.high && half.low == whole.low
        let isLess = half.high < whole.high || (half.high == whole.high && half.low < whole.low)
        if isLess || (isEqual && !root.isMultiple(of: 2)) { root += 1 }
        return Int64(exactly: root).map { ExactDecimal(significand: $0, exponent: -places) }
    }

    static func greatestCommonDivisor(_ one: UInt128, _ other: UInt128) -> UInt128 {
        var (one, other) = (one, other)
        while other != 0 { (one, other) = (other, one % other) }
        return one
    }
}

extension ExactDecimal {
    /// The number as a fraction; exponents beyond what devices send (±18) count as these.
    var ratio: Ratio {
        exponent >= 0
            ? Ratio(Int128(significand) * Ratio.power(min(exponent, 18)))
            : Ratio(Int128(significand), Ratio.power(min(-exponent, 18)))
    }
}
