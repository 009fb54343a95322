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

    @Test("where only one number could be, it becomes any of its digits, itself as often as another")
    func alone() {
        // 1 × 10³ mg/dL is the only whole thousand up to 1,500; 1 is the only implausible number of one digit.
        for all in [
            Self.replaced(.milligrams, 1, exponent: 3), Self.replaced(ReplacedNumber(5...8, within: 2...300), 1),
        ] { #expect(Set(all) == Set(1...9), "\(Set(all))") }
    }

    @Test(
        "what a number becomes tells nothing of it but whether it can be a person's",
        arguments: [
            ([1, 8, 4, 12, 60], ReplacedNumber.any), ([-1, 0, 3, 25], .change), ([60, 72, 140], .rate),
            ([1, 9], .rate),
        ])
    func distribution(_ originals: [Int], _ number: ReplacedNumber) {
        let all = originals.map { original in
            let found = (0..<8).flatMap { _ in Self.replaced(number, original) }
            return Set(found)
        }
        #expect(Set(all).count == 1, "\(all)")
        // None is left out, the originals neither: what is missing of many would tell what there was.
        for (original, found) in zip(originals, all) where original != 0 && all[0].contains(originals[0]) {
            #expect(found.contains(original) || number.usual.contains(Double(original)) == false)
        }
    }

    @Test("no number is replaced by itself alone; what was plausible stays so where it can, within the highest")
    func every() {
        let numbers: [(number: ReplacedNumber, name: String)] = [
            (.milligrams, "mg/dL"), (.saturation, "%"), (.rate, "1/min"), (.celsius, "°C"), (.fahrenheit, "°F"),
            (.systolic(inKilopascal: false), "mmHg"), (.systolic(inKilopascal: true), "kPa"),
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
