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
    /// Digits that cannot be a value of a person; see ``SecondaryQuantity``. They tell records apart, and are never
    /// shown, delivered or computed with.
    case implausible(ExactDecimal)

    /// The number; nil for a special value, and for one that is implausible.
    public var number: ExactDecimal? {
        if case .value(let number) = self { number } else { nil }
    }

    /// The number with its decimal point moved; special values stay what they are.
    public func scaled(byPowerOfTen power: Int16) -> MeasuredNumber {
        switch self {
        case .value(let number): .value(number.scaled(byPowerOfTen: power))
        case .implausible(let number): .implausible(number.scaled(byPowerOfTen: power))
        case .notANumber, .notAtThisResolution, .positiveInfinity, .negativeInfinity, .reserved: self
        }
    }

    /// Why there is no number; nil where there is one.
    public var absence: Exclusion? {
        switch self {
        case .value: nil
        case .implausible: .implausible
        case .notANumber, .notAtThisResolution, .positiveInfinity, .negativeInfinity, .reserved: .notANumber
        }
    }
}
