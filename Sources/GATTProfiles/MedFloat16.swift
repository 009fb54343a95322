import HealthReadings

/// A decimal number in 16 bits: IEEE 11073-20601 SFLOAT, called medfloat16 in the GATT Specification Supplement.
///
/// 12-bit mantissa and 4-bit exponent of ten, both in two's complement. Five mantissas are no numbers, and only where
/// the exponent is 0: F7FF is 204.7, 07FF is NaN.
public struct MedFloat16: RawRepresentable, Sendable, Hashable {
    /// The 16 bits: exponent in the highest four, mantissa in the others.
    public let rawValue: UInt16

    /// Makes a number of its 16 bits; each pattern is valid.
    @inlinable
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// NaN: not a number.
    public static let notANumber = MedFloat16(rawValue: 0x07FF)
    /// NRes: not at this resolution.
    public static let notAtThisResolution = MedFloat16(rawValue: 0x0800)
    /// +INFINITY.
    public static let positiveInfinity = MedFloat16(rawValue: 0x07FE)
    /// -INFINITY.
    public static let negativeInfinity = MedFloat16(rawValue: 0x0802)
    /// Reserved for future use.
    public static let reserved = MedFloat16(rawValue: 0x0801)

    /// The number with the precision it was sent with, or why there is none.
    @inlinable @inline(__always)
    public var number: MeasuredNumber {
        switch rawValue {
        case 0x07FF: return .notANumber
        case 0x0800: return .notAtThisResolution
        case 0x07FE: return .positiveInfinity
        case 0x0802: return .negativeInfinity
        case 0x0801: return .reserved
        default:
            // Shifting left first moves the sign of the mantissa into the sign of the word.
            let mantissa = Int16(bitPattern: rawValue << 4) >> 4
            let exponent = Int16(bitPattern: rawValue) >> 12
            return .value(ExactDecimal(significand: Int64(mantissa), exponent: exponent))
        }
    }

    /// Encodes a number with exactly its precision.
    ///
    /// - Throws: ``UnencodableNumber`` where digits or exponent do not fit (-2048 … 2047, -8 … 7), or where the pattern
    ///   would mean one of the special values.
    public init(encoding number: MeasuredNumber) throws(UnencodableNumber) {
        switch number {
        case .notANumber: self = .notANumber
        case .notAtThisResolution: self = .notAtThisResolution
        case .positiveInfinity: self = .positiveInfinity
        case .negativeInfinity: self = .negativeInfinity
        case .reserved: self = .reserved
        case .value(let value), .implausible(let value):
            guard (-2048...2047).contains(value.significand), (-8...7).contains(value.exponent) else {
                throw UnencodableNumber(number: value, format: "SFLOAT")
            }
            let mantissa = UInt16(truncatingIfNeeded: value.significand) & 0x0FFF
            self.init(rawValue: UInt16(bitPattern: value.exponent) << 12 | mantissa)
            guard self.number == .value(value) else { throw UnencodableNumber(number: value, format: "SFLOAT") }
        }
    }
}

/// A number that a wire format cannot carry with its precision.
public struct UnencodableNumber: Error, Sendable, Hashable, CustomStringConvertible {
    /// The number.
    public var number: ExactDecimal
    /// The format: `SFLOAT`, `FLOAT`.
    public var format: String

    /// Makes an error.
    public init(number: ExactDecimal, format: String) {
        self.number = number
        self.format = format
    }

    /// One line for people; the number itself is left out, because it may be a reading.
    public var description: String { "the number does not fit \(format) with its precision" }
}
