import HealthReadings
import TestSupport
import Testing

@Suite("exact decimals")
struct ExactDecimalTests {
    private func decimal(_ generator: inout SeededGenerator) -> ExactDecimal {
        ExactDecimal(significand: generator.integer(), exponent: Int16.random(in: -40...40, using: &generator))
    }

    private func rounded(_ digits: LongInteger, over divisor: LongInteger, power: Int, places: Int16) -> ExactDecimal? {
        let quotient =
            power >= 0
            ? digits.timesPowerOfTen(power).dividedHalfEven(by: divisor)
            : digits.dividedHalfEven(by: divisor.timesPowerOfTen(-power))
        return quotient.int64.map { ExactDecimal(significand: $0, exponent: -places) }
    }

    @Test("multiplication rounds half to even, as long multiplication on paper does")
    func multiplication() {
        forAll { generator in
            let (lhs, rhs) = (decimal(&generator), decimal(&generator))
            let places = Int16.random(in: 0...9, using: &generator)
            let expected = rounded(
                LongInteger(lhs.significand) * LongInteger(rhs.significand), over: LongInteger(1),
                power: Int(lhs.exponent) + Int(rhs.exponent) + Int(places), places: places)
            return (lhs.multiplied(by: rhs, places: places), expected, about: "\(lhs) × \(rhs) at \(places) places")
        }
    }

    @Test("division rounds half to even, as long division on paper does")
    func division() {
        forAll { generator in
            let (lhs, rhs) = (decimal(&generator), decimal(&generator))
            let places = Int16.random(in: 0...9, using: &generator)
            let expected =
                rhs.significand == 0
                ? nil
                : rounded(
                    LongInteger(lhs.significand), over: LongInteger(rhs.significand),
                    power: Int(lhs.exponent) - Int(rhs.exponent) + Int(places), places: places)
            return (lhs.divided(by: rhs, places: places), expected, about: "\(lhs) / \(rhs) at \(places) places")
        }
    }

    @Test("ties go to the even digit, on both sides of zero")
    func ties() {
        let one = ExactDecimal(significand: 1)
        for (tenths, expected) in [
            (5, 0), (15, 2), (25, 2), (35, 4), (-5, 0), (-15, -2), (-25, -2), (26, 3), (-24, -2),
        ] {
            let value = ExactDecimal(significand: Int64(tenths), exponent: -1)
            #expect(value.multiplied(by: one, places: 0)?.significand == Int64(expected))
            #expect(value.divided(by: one, places: 0)?.significand == Int64(expected))
        }
    }

    @Test("each glucose a meter can send converts to the nearest ten-thousandth of a mmol/L")
    func glucoseConversion() throws {
        let factor = try #require(ExactDecimal("18.0156"))
        for milligrams in Int64(1)...1500 {
            let found = ExactDecimal(significand: milligrams).divided(by: factor, places: 4)
            let expected = LongInteger(milligrams).timesPowerOfTen(8).dividedHalfEven(by: LongInteger(180_156)).int64
            #expect(found?.significand == expected)
        }
    }

    @Test("text keeps the device's digits, both ways")
    func text() {
        for text in ["127.0", "5.5", "950", "0", "0.00", "-0.5", "0.005", "-12.50", "2", "2.0", "2.00"] {
            #expect(ExactDecimal(text)?.description == text)
        }
        #expect(ExactDecimal(significand: 95, exponent: 1).description == "950")
        #expect(ExactDecimal(significand: 0, exponent: 3).description == "0")
        #expect(ExactDecimal(significand: -5, exponent: -3).description == "-0.005")
        for text in ["", "-", ".", "1.", ".5", "1e3", "+1", " 1", "1,0", "1.2.3", "1234567890123456789", "٣", "--1"] {
            #expect(ExactDecimal(text) == nil, "\(text)")
        }
        forAll { generator in
            let value = ExactDecimal(
                significand: Int64.random(in: -99_999_999...99_999_999, using: &generator),
                exponent: Int16.random(in: -9...0, using: &generator))
            return (ExactDecimal(value.description), value, about: "\(value)")
        }
    }

    @Test("the approximation is the nearest binary number, whatever the digits and the power")
    func approximation() throws {
        forAll { generator in
            let digits =
                Int64.random(in: .min ... .max, using: &generator) >> Int64.random(in: 0...62, using: &generator)
            let value = ExactDecimal(
                significand: digits, exponent: Int16.random(in: -40...40, using: &generator))
            return (Double("\(digits)e\(value.exponent)"), value.approximation, about: "\(value)")
        }
        #expect(ExactDecimal(significand: 1 << 53 + 1, exponent: -22).approximation == Double("\(1 << 53 + 1)e-22"))
        #expect(ExactDecimal(significand: 1, exponent: 400).approximation == .infinity)
    }

    @Test("2, 2.0 and 2.00 differ in precision and are one number")
    func equality() throws {
        let values = ["2", "2.0", "2.00"].compactMap { ExactDecimal($0) }
        #expect(Set(values).count == 3)
        #expect(values.allSatisfy { $0.isNumericallyEqual(to: ExactDecimal(significand: 2)) })
        #expect(
            ExactDecimal(significand: 0, exponent: 5).isNumericallyEqual(to: ExactDecimal(significand: 0, exponent: -5))
        )
        #expect(!ExactDecimal(significand: 2).isNumericallyEqual(to: ExactDecimal(significand: 2, exponent: 1)))
        #expect(ExactDecimal(significand: 95, exponent: -5).scaled(byPowerOfTen: 5) == ExactDecimal(significand: 95))
    }
}
