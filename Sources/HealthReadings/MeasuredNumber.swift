/// A number as a device reports it: a value, or one of the reasons why there is none.
///
/// IEEE 11073-20601 reserves mantissas at exponent 0 for the special values; they never become numbers here.
public enum MeasuredNumber: Sendable, Hashable {
    /// An ordinary number with the device's precision.
    case value(ExactDecimal)
    /// NaN: the device could not measure.
    case notANumber
    /// NRes: the value does not fit the resolution of the format.
    case notAtThisResolution
    /// +INFINITY: above what the device can measure.
    case positiveInfinity
    /// -INFINITY: below what the device can measure.
    case negativeInfinity
    /// The mantissa that the standard reserves for future use.
    case reserved

    /// The number, or nil for a special value.
    public var number: ExactDecimal? {
        if case .value(let number) = self { number } else { nil }
    }

    /// The number with its decimal point moved; special values stay what they are.
    public func scaled(byPowerOfTen power: Int16) -> MeasuredNumber {
        if case .value(let number) = self { .value(number.scaled(byPowerOfTen: power)) } else { self }
    }
}
