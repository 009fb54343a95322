import HealthReadings

/// The factors between the units devices measure in and the units others take.
public enum ConversionFactor {
    /// mg/dL = mmol/L × 18.0156: a tenth of the molar mass of glucose, 180.156 g/mol.
    public static let milligramsPerDecilitreInOneMillimolePerLitre = ExactDecimal(significand: 180_156, exponent: -4)
    /// mmHg = kPa × 7.500617: 1 mmHg is 133.322387 Pa.
    public static let millimetresOfMercuryInOneKilopascal = ExactDecimal(significand: 7_500_617, exponent: -6)
    /// kg = lb × 0.45359237, by definition.
    public static let kilogramsInOnePound = ExactDecimal(significand: 45_359_237, exponent: -8)
    /// °C = (°F - 32) / 1.8.
    public static let degreesFahrenheitInOneKelvin = ExactDecimal(significand: 18, exponent: -1)
    /// m = in × 0.0254, by definition.
    public static let metresInOneInch = ExactDecimal(significand: 254, exponent: -4)
    /// kJ = kcal × 4.184, the thermochemical calorie.
    public static let kilojoulesInOneKilocalorie = ExactDecimal(significand: 4184, exponent: -3)
    /// Decimal places of a weight in kg: scales send steps of 5 g.
    public static let weightPlaces: Int16 = 3
    /// Decimal places of an oxygen saturation in per cent and of a temperature in °C.
    public static let vitalPlaces: Int16 = 2
    /// Decimal places of a concentration in mmol/L.
    public static let concentrationPlaces: Int16 = 4
    /// Decimal places of a pressure in mmHg and of a pulse in beats per minute.
    public static let pressurePlaces: Int16 = 2
}

extension ExactDecimal {
    /// The number with at most so many decimal places: rounded half to even if it has more, and as it is if not.
    ///
    /// - Parameter places: 0 … 9.
    /// - Returns: `nil` if the number doesn't fit 64 bits, which no number that a device sends reaches.
    public func rounded(toPlaces places: Int16) -> ExactDecimal? {
        exponent >= -places ? self : multiplied(by: ExactDecimal(significand: 1), places: places)
    }
}

extension Quantity {
    /// The number in another unit, in exact decimal arithmetic.
    ///
    /// A number that is in the unit already keeps its digits, as far as there are places for them. Any other is rounded half to
    /// even at `places`.
    ///
    /// - Parameters:
    ///   - target: the unit to express the number in.
    ///   - places: the decimal places of the result, 0 … 9.
    /// - Returns: `nil` if there is no number, or no conversion between the two units.
    public func number(in target: MeasurementUnit, places: Int16) -> ExactDecimal? {
        guard let number = number.number else { return nil }
        guard unit != target else { return number.rounded(toPlaces: places) }
        switch (unit, target) {
        case (.milligramsPerDecilitre, .millimolesPerLitre):
            return number.divided(by: ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre, places: places)
        case (.millimolesPerLitre, .milligramsPerDecilitre):
            return number.multiplied(
                by: ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre, places: places)
        case (.kilopascal, .millimetresOfMercury):
            return number.multiplied(by: ConversionFactor.millimetresOfMercuryInOneKilopascal, places: places)
        case (.degreesFahrenheit, .degreesCelsius):
            return number.aboveFreezing?.divided(by: ConversionFactor.degreesFahrenheitInOneKelvin, places: places)
        case (.pounds, .kilograms): return number.multiplied(by: ConversionFactor.kilogramsInOnePound, places: places)
        case (.grams, .kilograms): return number.scaled(byPowerOfTen: -3).rounded(toPlaces: places)
        case (.inches, .metres): return number.multiplied(by: ConversionFactor.metresInOneInch, places: places)
        default: return nil
        }
    }
}

extension ExactDecimal {
    /// Degrees Fahrenheit above the freezing point of water; nil where the number has more digits than a thermometer sends.
    fileprivate var aboveFreezing: ExactDecimal? {
        // A positive exponent becomes digits first, so that 32 can be taken from them.
        guard let plain = exponent > 0 ? multiplied(by: ExactDecimal(significand: 1), places: 0) : self else {
            return nil
        }
        let places = -Int(plain.exponent)
        guard (0...8).contains(places) else { return nil }
        let freezing = (0..<places).reduce(32 as Int64) { value, _ in value * 10 }
        let (above, overflow) = plain.significand.subtractingReportingOverflow(freezing)
        return overflow ? nil : ExactDecimal(significand: above, exponent: plain.exponent)
    }
}
