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
    /// Decimal places of a weight in kg: scales send steps of 5 g.
    public static let weightPlaces: Int16 = 3
    /// Decimal places of an oxygen saturation in per cent and of a temperature in °C.
    public static let vitalPlaces: Int16 = 2
    /// Decimal places of a concentration in mmol/L.
    public static let concentrationPlaces: Int16 = 4
    /// Decimal places of a pressure in mmHg and of a pulse in beats per minute.
    public static let pressurePlaces: Int16 = 2
}
