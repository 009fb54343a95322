import HealthReadings
import Testing

@testable import HealthFigures

@Suite struct MeanTests {
    @Test(arguments: [
        (["128.0", "121.0"], Int16(1), "124.5"), (["64.0", "72", "61"], 1, "65.7"), (["1", "2"], 0, "2"),
        (["2", "3"], 0, "2"), (["0.25", "0.3"], 2, "0.28"), (["97"], 1, "97.0"), (["-1", "1"], 1, "0.0"),
    ]) func meanIsRoundedHalfToEven(texts: [String], places: Int16, expected: String) throws {
        let numbers = try texts.map { try #require(ExactDecimal($0)) }
        #expect(ExactDecimal.mean(of: numbers, places: places)?.description == expected)
        #expect(ExactDecimal.mean(of: numbers.reversed(), places: places)?.description == expected)
    }

    @Test func thereIsNoMeanOfNothingOrOfWhatDoesNotFit() {
        #expect(ExactDecimal.mean(of: [], places: 1) == nil)
        let huge = ExactDecimal(significand: .max)
        #expect(ExactDecimal.mean(of: [huge, huge], places: 0) == nil)
        #expect(
            ExactDecimal.mean(
                of: [ExactDecimal(significand: 1, exponent: 30), ExactDecimal(significand: 1, exponent: -9)], places: 0)
                == nil)
    }
}
