/// A decimal number that keeps the digits its device sent: `significand × 10^exponent`.
///
/// Bluetooth's SFLOAT and FLOAT types carry a decimal mantissa and exponent, and the exponent says how precise the
/// device is: 2, 2.0 and 2.00 are three different encodings. Two values are equal (`==`) when they denote the same
/// number *and* the same precision; use ``isNumericallyEqual(to:)`` to compare numbers alone.
public struct ExactDecimal: Sendable, Hashable {
    /// The digits, with sign.
    public var significand: Int64
    /// The power of ten the digits are scaled by. A device sends -8 … 7 (SFLOAT) or -128 … 127 (FLOAT).
    public var exponent: Int16

    /// Makes `significand × 10^exponent`.
    public init(significand: Int64, exponent: Int16 = 0) {
        self.significand = significand
        self.exponent = exponent
    }

    /// The exponents that a store accepts: what devices send (-128 … 127), with room for a change of unit.
    public static let storableExponents: ClosedRange<Int16> = -200...200

    /// The same digits with the decimal point moved.
    ///
    /// Exact for everything a device can send; an exponent that does not fit 16 bits stays at their limit.
    public func scaled(byPowerOfTen power: Int16) -> ExactDecimal {
        let (sum, overflow) = exponent.addingReportingOverflow(power)
        return ExactDecimal(significand: significand, exponent: overflow ? (power < 0 ? .min : .max) : sum)
    }

    /// Whether both denote the same number, whatever their precision.
    public func isNumericallyEqual(to other: ExactDecimal) -> Bool { comparison(with: other) == 0 }

    /// Whether this number is less than another, whatever their precision. Exact; takes nothing from the heap.
    public func isNumericallyLess(than other: ExactDecimal) -> Bool { comparison(with: other) < 0 }

    /// The sum with a multiple of a number of few digits, such as a bound and its step.
    ///
    /// Exact where both have at most nine digits and their exponents lie within nine of each other; else this number.
    public func adding(_ other: ExactDecimal, times: Int64) -> ExactDecimal {
        let finer = min(exponent, other.exponent)
        func digits(_ number: ExactDecimal) -> Int64? {
            let places = Int(number.exponent) - Int(finer)
            guard places <= 9, number.significand.magnitude < 1_000_000_000 else { return nil }
            return (0..<places).reduce(number.significand) { value, _ in value * 10 }
        }
        guard let own = digits(self), let others = digits(other) else { return self }
        let (product, overflow) = others.multipliedReportingOverflow(by: times)
        let (sum, sumOverflow) = own.addingReportingOverflow(product)
        return overflow || sumOverflow ? self : ExactDecimal(significand: sum, exponent: finer)
    }

    /// -1, 0 or 1 where this number is less than, equal to or greater than another.
    private func comparison(with other: ExactDecimal) -> Int {
        let (sign, otherSign) = (significand.signum(), other.significand.signum())
        guard sign == otherSign, sign != 0 else { return sign < otherSign ? -1 : sign > otherSign ? 1 : 0 }
        let lead = Int(exponent) - Int(other.exponent)
        // A magnitude that no longer fits 128 bits once it is shifted is the greater one.
        let order: Int
        if let shifted = Self.shifted((lead > 0 ? self : other).significand.magnitude, by: abs(lead)) {
            let rest = UInt128((lead > 0 ? other : self).significand.magnitude)
            let difference = shifted < rest ? -1 : shifted > rest ? 1 : 0
            order = lead > 0 ? difference : -difference
        } else {
            order = lead > 0 ? 1 : -1
        }
        return sign > 0 ? order : -order
    }

    /// Digits times a power of ten; nil where the product does not fit.
    private static func shifted(_ digits: UInt64, by places: Int) -> UInt128? {
        // 10^39 is beyond 128 bits.
        guard places < 39 else { return nil }
        var result = UInt128(digits)
        for _ in 0..<places {
            let (product, overflow) = result.multipliedReportingOverflow(by: 10)
            if overflow { return nil }
            result = product
        }
        return result
    }

    /// The nearest binary floating-point number: for plausibility checks and charts, never for storage or delivery.
    public var approximation: Double {
        // Digits and power are both exact in binary, so that one operation rounds once. Charts have thousands of numbers.
        guard significand.magnitude <= 1 << 53, exponent.magnitude < Self.powersOfTen.count else {
            return Double(description) ?? .nan
        }
        let power = Self.powersOfTen[Int(exponent.magnitude)]
        return exponent < 0 ? Double(significand) / power : Double(significand) * power
    }

    /// Those that a binary floating-point number has without rounding.
    private static let powersOfTen: [Double] = [
        1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20,
        1e21, 1e22,
    ]

    /// This value times `factor`, rounded half to even at `places` decimal places (0 … 9).
    ///
    /// Exact decimal arithmetic: no intermediate binary rounding. Returns nil where the product does not fit 128 bits,
    /// which no number a device can send reaches.
    public func multiplied(by factor: ExactDecimal, places: Int16) -> ExactDecimal? {
        let (product, overflow) = Int128(significand).multipliedReportingOverflow(by: Int128(factor.significand))
        return overflow ? nil : Self.rounded(product, exponent: Int(exponent) + Int(factor.exponent), places: places)
    }

    /// This value divided by `divisor`, rounded half to even at `places` decimal places (0 … 9).
    ///
    /// Returns nil for a divisor of zero, or where the quotient does not fit.
    public func divided(by divisor: ExactDecimal, places: Int16) -> ExactDecimal? {
        guard divisor.significand != 0, places > .min else { return nil }
        guard significand != 0 else { return ExactDecimal(significand: 0, exponent: -places) }
        // value = a/b × 10^e; the wanted significand is a × 10^(e + places) / b.
        let shift = Int(exponent) - Int(divisor.exponent) + Int(places)
        var (numerator, denominator) = (Int128(significand), Int128(divisor.significand))
        for _ in 0..<abs(shift) {
            let (scaled, overflow) = (shift > 0 ? numerator : denominator).multipliedReportingOverflow(by: 10)
            // A numerator this large makes a quotient beyond 64 bits, a denominator this large one that rounds to 0.
            guard !overflow else { return shift > 0 ? nil : ExactDecimal(significand: 0, exponent: -places) }
            if shift > 0 { numerator = scaled } else { denominator = scaled }
        }
        guard let digits = Int64(exactly: Self.quotient(numerator, denominator)) else { return nil }
        return ExactDecimal(significand: digits, exponent: -places)
    }

    private static func rounded(_ digits: Int128, exponent: Int, places: Int16) -> ExactDecimal? {
        guard places > .min else { return nil }
        guard digits != 0 else { return ExactDecimal(significand: 0, exponent: -places) }
        let excess = -Int(places) - exponent
        var result = digits
        if excess > 38 {
            result = 0
        } else if excess > 0 {
            result = quotient(digits, (0..<excess).reduce(Int128(1)) { power, _ in power * 10 })
        } else {
            for _ in 0..<(-excess) {
                let (scaled, overflow) = result.multipliedReportingOverflow(by: 10)
                guard !overflow else { return nil }
                result = scaled
            }
        }
        return Int64(exactly: result).map { ExactDecimal(significand: $0, exponent: -places) }
    }

    /// Division rounded half to even.
    private static func quotient(_ numerator: Int128, _ denominator: Int128) -> Int128 {
        let (quotient, remainder) = numerator.quotientAndRemainder(dividingBy: denominator)
        let (left, size) = (remainder.magnitude, denominator.magnitude)
        let roundsAway = left > size - left || (left == size - left && !quotient.isMultiple(of: 2))
        guard roundsAway else { return quotient }
        return (numerator < 0) == (denominator < 0) ? quotient + 1 : quotient - 1
    }
}

extension ExactDecimal: CustomStringConvertible {
    /// The digits in plain notation with as many decimal places as the device sent: `127.0`, `5.5`, `950`.
    public var description: String {
        if exponent >= 0 {
            return significand == 0 ? "0" : String(significand) + String(repeating: "0", count: Int(exponent))
        }
        // Every document has many numbers: the digits are written once, from the last to the first.
        let places = -Int(exponent)
        var rest = significand.magnitude
        var digits = 1
        while rest >= 10 { (rest, digits) = (rest / 10, digits + 1) }
        let sign = significand < 0 ? 1 : 0
        let count = sign + max(digits, places + 1) + 1
        rest = significand.magnitude
        return String(unsafeUninitializedCapacity: count) { octets in
            for place in stride(from: count - 1, through: sign, by: -1) {
                guard count - 1 - place != places else {
                    octets[place] = UInt8(ascii: ".")
                    continue
                }
                octets[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            }
            if sign > 0 { octets[0] = UInt8(ascii: "-") }
            return count
        }
    }

    /// Reads plain decimal notation (`-12.50`); the number of decimal places becomes the precision.
    ///
    /// Returns nil for anything else, exponents and more than 18 digits included.
    public init?(_ text: some StringProtocol) {
        var digits = text[...]
        let isNegative = digits.first == "-"
        if isNegative { digits = digits.dropFirst() }
        let parts = digits.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        let fraction = parts.count == 2 ? parts[1] : ""
        let all = String(parts[0]) + fraction
        guard !parts[0].isEmpty, parts.count == 1 || !fraction.isEmpty, all.count <= 18,
            all.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let value = Int64(all)
        else { return nil }
        self.init(significand: isNegative ? -value : value, exponent: -Int16(fraction.count))
    }
}
