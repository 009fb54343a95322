import HealthReadings

/// Outside which values a number is no value of a person: ``stated`` has each range and where it is from.
///
/// Wider than any device on sale measures, so that only garbage falls out: a value that is merely alarming is a
/// reading.
public enum Plausibility {
    /// Highest glucose concentration in mg/dL.
    public static let highestGlucoseMilligramsPerDecilitre = ExactDecimal(significand: 1500)
    /// The same in mmol/L, rounded to a whole number.
    public static let highestGlucoseMillimolesPerLitre = ExactDecimal(significand: 83)
    /// Highest pressure in mmHg.
    public static let highestPressureMillimetresOfMercury = ExactDecimal(significand: 400)
    /// The same in kPa (1 kPa = 7.500617 mmHg), rounded down to the tenths cuffs show.
    public static let highestPressureKilopascal = ExactDecimal(significand: 533, exponent: -1)

    /// Whether a concentration can be a person's: above 0, at most the highest. False for special values.
    public static func isPlausible(glucose: Quantity) -> Bool {
        switch glucose.unit {
        case .milligramsPerDecilitre: isWithin(glucose, highestGlucoseMilligramsPerDecilitre)
        case .millimolesPerLitre: isWithin(glucose, highestGlucoseMillimolesPerLitre)
        default: false
        }
    }

    /// Whether a pressure can be a person's: above 0, at most the highest. False for special values.
    public static func isPlausible(pressure: Quantity) -> Bool {
        switch pressure.unit {
        case .millimetresOfMercury: isWithin(pressure, highestPressureMillimetresOfMercury)
        case .kilopascal: isWithin(pressure, highestPressureKilopascal)
        default: false
        }
    }

    /// Whether both pressures can be a person's, the diastolic not above the systolic. False for special values.
    public static func isPlausible(systolic: Quantity, diastolic: Quantity) -> Bool {
        guard isPlausible(pressure: systolic), isPlausible(pressure: diastolic), systolic.unit == diastolic.unit,
            let high = systolic.number.number, let low = diastolic.number.number
        else { return false }
        return !high.isNumericallyLess(than: low)
    }

    /// Heart rates in beats per minute.
    public static let heartRates: ClosedRange<Double> = 20...300
    /// Oxygen saturations in per cent.
    public static let saturations: ClosedRange<Double> = 1...100
    /// Variabilities of the heart rate in milliseconds: as far as two beats within ``heartRates`` can differ.
    public static let variabilities: ClosedRange<Double> = 0...2800
    /// Body temperatures in degrees Celsius.
    public static let temperatures: ClosedRange<Double> = 13...47
    /// Weights in kilograms.
    public static let weights: ClosedRange<Double> = 0.2...700
    /// Body fat in per cent.
    public static let bodyFats: ClosedRange<Double> = 1...85

    /// Whether the main quantity can be a person's. False for special values; a pulse beside a saturation does not count.
    public static func isPlausible(_ vital: VitalValue) -> Bool {
        guard let main = vital.main, let number = main.number.number?.approximation else { return false }
        return switch (vital.kind, main.unit) {
        case (.heartRate, _): heartRates.contains(number)
        case (.spo2, _): saturations.contains(number)
        case (.temperature, .degreesFahrenheit): temperatures.contains((number - 32) / 1.8)
        case (.temperature, _): temperatures.contains(number)
        case (.weight, .pounds): weights.contains(number * 0.453_592_37)
        case (.weight, .grams): weights.contains(number / 1000)
        case (.weight, _): weights.contains(number)
        case (.bodyComposition, _): bodyFats.contains(number)
        case (.hrv, _): variabilities.contains(number)
        case (.glucose, _), (.bloodPressure, _), (.activity, _), (.sleep, _), (.other, _): false
        }
    }

    private static func isWithin(_ quantity: Quantity, _ highest: ExactDecimal) -> Bool {
        guard let number = quantity.number.number else { return false }
        return number.significand > 0 && !highest.isNumericallyLess(than: number)
    }
}
