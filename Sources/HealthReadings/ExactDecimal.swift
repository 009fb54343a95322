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

    /// The same digits with the decimal point moved: exact, whatever the value.
    public func scaled(byPowerOfTen power: Int16) -> ExactDecimal {
        ExactDecimal(significand: significand, exponent: exponent + power)
    }

    /// Whether both denote the same number, whatever their precision.
    public func isNumericallyEqual(to other: ExactDecimal) -> Bool {
        let (lhs, rhs) = (normalized, other.normalized)
        return lhs.significand == rhs.significand && lhs.exponent == rhs.exponent
    }

    /// Without trailing zeros; zero has exponent 0.
    private var normalized: ExactDecimal {
        guard significand != 0 else { return ExactDecimal(significand: 0) }
        var result = self
        while result.significand % 10 == 0 {
            result.significand /= 10
            result.exponent += 1
        }
        return result
    }

    /// The nearest binary floating-point number: for plausibility checks and charts, never for storage or delivery.
    public var approximation: Double { Double(description) ?? .nan }

    /// This value times `factor`, rounded half to even at `places` decimal places (0 … 9).
    ///
    /// Exact decimal arithmetic: no intermediate binary rounding. Returns nil where the product does not fit 128 bits,
    /// which no number a device can send reaches.
    public func multiplied(by factor: ExactDecimal, places: Int16) -> ExactDecimal? {
        let (product, overflow) = Int128(significand).multipliedReportingOverflow(by: Int128(factor.significand))
        return overflow ? nil : Self.rounded(product, exponent: exponent + factor.exponent, places: places)
    }

    /// This value divided by `divisor`, rounded half to even at `places` decimal places (0 … 9).
    ///
    /// Returns nil for a divisor of zero, or where the quotient does not fit.
    public func divided(by divisor: ExactDecimal, places: Int16) -> ExactDecimal? {
        guard divisor.significand != 0 else { return nil }
        // value = a/b × 10^e; the wanted significand is a × 10^(e + places) / b.
        let shift = exponent - divisor.exponent + places
        var (numerator, denominator) = (Int128(significand), Int128(divisor.significand))
        for _ in 0..<abs(Int(shift)) {
            let (scaled, overflow) = (shift > 0 ? numerator : denominator).multipliedReportingOverflow(by: 10)
            // A numerator this large makes a quotient beyond 64 bits, a denominator this large one that rounds to 0.
            guard !overflow else { return shift > 0 ? nil : ExactDecimal(significand: 0, exponent: -places) }
            if shift > 0 { numerator = scaled } else { denominator = scaled }
        }
        guard let digits = Int64(exactly: Self.quotient(numerator, denominator)) else { return nil }
        return ExactDecimal(significand: digits, exponent: -places)
    }

    private static func rounded(_ digits: Int128, exponent: Int16, places: Int16) -> ExactDecimal? {
        let excess = Int(-places) - Int(exponent)
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
        let places = Int(-exponent)
        let digits = String(significand.magnitude)
        let padded = String(repeating: "0", count: max(0, places + 1 - digits.count)) + digits
        let point = padded.index(padded.endIndex, offsetBy: -places)
        return (significand < 0 ? "-" : "") + padded[..<point] + "." + padded[point...]
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
