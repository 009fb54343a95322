import Testing

@testable import Languages

/// The plural rules against the samples that CLDR publishes with them (common/supplemental/plurals.xml, `@integer`).
@Suite struct PluralTests {
    private static let samples: [(Language, PluralCategory, [Int])] = [
        (.english, .one, [1]), (.english, .other, [0] + Array(2...16) + [100, 1000, 10_000, 100_000, 1_000_000]),
        (.german, .one, [1]), (.german, .other, [0] + Array(2...16) + [100, 1000, 10_000, 100_000, 1_000_000]),
        (.french, .one, [0, 1]), (.french, .other, Array(2...17) + [100, 1000, 10_000, 100_000]),
        (.spanish, .one, [1]), (.spanish, .other, [0] + Array(2...16) + [100, 1000, 10_000, 100_000]),
        (.arabic, .zero, [0]), (.arabic, .one, [1]), (.arabic, .two, [2]),
        (.arabic, .few, Array(3...10) + Array(103...110) + [1003]),
        (.arabic, .many, Array(11...26) + [111, 1011]),
        (
            .arabic, .other,
            Array(100...102) + Array(200...202) + Array(300...302) + [400, 500, 600, 1000, 10_000, 100_000]
        ),
    ]

    @Test("each language's categories are those of CLDR")
    func categories() {
        for (language, category, numbers) in Self.samples {
            for number in numbers {
                #expect(language.pluralCategory(of: number) == category, "\(language) \(number)")
            }
        }
        for language in Language.allCases {
            let sampled = Set(Self.samples.filter { $0.0 == language }.map(\.1))
            #expect(Set(language.pluralCategories) == sampled)
            for number in 0...1200 {
                #expect(
                    language.pluralCategories[language.pluralForm(of: number)] == language.pluralCategory(of: number))
            }
        }
    }
}
