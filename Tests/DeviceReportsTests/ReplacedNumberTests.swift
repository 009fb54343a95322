import Testing

@testable import DeviceReports

/// What a number of a report is replaced by.
struct ReplacedNumberTests {
    private static func replaced(_ number: ReplacedNumber, _ mantissa: Int, exponent: Int = 0, highest: Int = 2045)
        -> [Int]
    {
        var generator = SystemRandomNumberGenerator()
        return (0..<500).map { _ in
            number.mantissa(mantissa, exponent: exponent, highest: highest, using: &generator)
        }
    }

    @Test("where the exponent leaves one plausible number alone, that number does not stay")
    func alone() {
        // 1 × 10³ mg/dL is the only whole thousand up to 1,500.
        let all = Self.replaced(.milligrams, 1, exponent: 3)
        #expect(!all.contains(1) && all.allSatisfy { (2...9).contains($0) }, "\(Set(all))")
    }

    @Test("the only implausible number of its digits does not stay")
    func implausible() {
        let all = Self.replaced(ReplacedNumber(5...8, within: 2...300), 1)
        #expect(!all.contains(1) && all.allSatisfy { (2...9).contains($0) }, "\(Set(all))")
    }

    @Test("no number is replaced by itself alone; what was plausible stays so where it can, within the highest")
    func every() {
        let numbers: [(number: ReplacedNumber, name: String)] = [
            (.milligrams, "mg/dL"), (.saturation, "%"), (.rate, "1/min"), (.celsius, "°C"), (.fahrenheit, "°F"),
            (.systolic(inKilopascal: false), "mmHg"), (.systolic(inKilopascal: true), "kPa"), (.any, "any"),
        ]
        for (number, name) in numbers {
            for mantissa in [-254, -7, 1, 5, 9, 10, 37, 97, 98, 120, 160, 254] {
                for exponent in [-3, -1, 0, 2, 7] {
                    let all = Self.replaced(number, mantissa, exponent: exponent, highest: 254)
                    #expect(Set(all) != [mantissa], "\(name): \(mantissa) × 10^\(exponent)")
                    #expect(all.allSatisfy { abs($0) <= 254 && $0.signum() == mantissa.signum() }, "\(name): \(all)")
                }
            }
        }
        #expect(Self.replaced(.milligrams, 0).allSatisfy { $0 == 0 })
        #expect(Self.replaced(.rate, 72).allSatisfy { (55...95).contains($0) })
        #expect(Self.replaced(.rate, 301).allSatisfy { $0 > 300 })
    }
}
