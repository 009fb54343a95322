import HealthReadings

/// A decimal number in 32 bits: IEEE 11073-20601 FLOAT, called medfloat32 in the GATT Specification Supplement.
///
/// 24-bit mantissa and 8-bit exponent of ten, both in two's complement. Five mantissas are no numbers, and only where
/// the exponent is 0.
public struct MedFloat32: RawRepresentable, Sendable, Hashable {
    /// The 32 bits: exponent in the highest eight, mantissa in the others.
    public let rawValue: UInt32

    /// Makes a number of its 32 bits; each pattern is valid.
    @inlinable
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// NaN: not a number.
    public static let notANumber = MedFloat32(rawValue: 0x007F_FFFF)
    /// NRes: not at this resolution.
    public static let notAtThisResolution = MedFloat32(rawValue: 0x0080_0000)
    /// +INFINITY.
    public static let positiveInfinity = MedFloat32(rawValue: 0x007F_FFFE)
    /// -INFINITY.
    public static let negativeInfinity = MedFloat32(rawValue: 0x0080_0002)
    /// Reserved for future use.
    public static let reserved = MedFloat32(rawValue: 0x0080_0001)

    /// The number with the precision it was sent with, or why there is none.
    @inlinable @inline(__always)
    public var number: MeasuredNumber {
        switch rawValue {
        case 0x007F_FFFF: return .notANumber
        case 0x0080_0000: return .notAtThisResolution
        case 0x007F_FFFE: return .positiveInfinity
        case 0x0080_0002: return .negativeInfinity
        case 0x0080_0001: return .reserved
        default:
            let mantissa = Int32(bitPattern: rawValue << 8) >> 8
            let exponent = Int32(bitPattern: rawValue) >> 24
            return .value(ExactDecimal(significand: Int64(mantissa), exponent: Int16(truncatingIfNeeded: exponent)))
        }
    }

    /// Encodes a number with exactly its precision.
    ///
    /// - Throws: ``UnencodableNumber`` where digits or exponent do not fit (-8388608 … 8388607, -128 … 127), or where
    ///   the pattern would mean one of the special values.
    public init(encoding number: MeasuredNumber) throws(UnencodableNumber) {
        switch number {
        case .notANumber: self = .notANumber
        case .notAtThisResolution: self = .notAtThisResolution
        case .positiveInfinity: self = .positiveInfinity
        case .negativeInfinity: self = .negativeInfinity
        case .reserved: self = .reserved
        case .value(let value), .implausible(let value):
            guard (-8_388_608...8_388_607).contains(value.significand), (-128...127).contains(value.exponent) else {
                throw UnencodableNumber(number: value, format: "FLOAT")
            }
            let mantissa = UInt32(truncatingIfNeeded: value.significand) & 0x00FF_FFFF
            self.init(rawValue: UInt32(truncatingIfNeeded: Int32(value.exponent)) << 24 | mantissa)
            guard self.number == .value(value) else { throw UnencodableNumber(number: value, format: "FLOAT") }
        }
    }
}
