import HealthReadings
import Testing

@testable import HealthFigures

@Suite struct ConversionTests {
    @Test(arguments: [
        ("95", MeasurementUnit.milligramsPerDecilitre, MeasurementUnit.millimolesPerLitre, Int16(4), "5.2732"),
        ("5.9", .millimolesPerLitre, .milligramsPerDecilitre, 0, "106"),
        ("16.9", .kilopascal, .millimetresOfMercury, 2, "126.76"),
        ("97.9", .degreesFahrenheit, .degreesCelsius, 2, "36.61"),
        ("32", .degreesFahrenheit, .degreesCelsius, 2, "0.00"),
        ("154.3", .pounds, .kilograms, 3, "69.989"), ("71205", .grams, .kilograms, 3, "71.205"),
        ("70.0", .inches, .metres, 3, "1.778"),
        // What is in the unit already keeps its digits, as far as there are places for them.
        ("36.60", .degreesCelsius, .degreesCelsius, 2, "36.60"), ("97", .percent, .percent, 2, "97"),
        ("36.605", .degreesCelsius, .degreesCelsius, 2, "36.60"),
    ]) func numberInAnotherUnit(
        text: String, unit: MeasurementUnit, target: MeasurementUnit, places: Int16, expected: String
    ) throws {
        let quantity = Quantity(try #require(ExactDecimal(text)), unit)
        #expect(quantity.number(in: target, places: places)?.description == expected)
    }

    @Test func temperatureOfTensOfDegreesIsConverted() {
        let quantity = Quantity(ExactDecimal(significand: 10, exponent: 1), .degreesFahrenheit)
        #expect(quantity.number(in: .degreesCelsius, places: 2)?.description == "37.78")
    }

    @Test func whatHasNoNumberOrNoConversionIsNil() {
        #expect(Quantity(.notANumber, .kilopascal).number(in: .millimetresOfMercury, places: 2) == nil)
        #expect(Quantity(ExactDecimal(significand: 5), .percent).number(in: .kilograms, places: 2) == nil)
        let implausible = Quantity(.implausible(ExactDecimal(significand: 5)), .percent)
        #expect(implausible.number(in: .percent, places: 2) == nil)
    }
}
