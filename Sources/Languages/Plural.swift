/// The plural categories of CLDR for cardinal numbers.
enum PluralCategory: String, Sendable, CaseIterable {
    case zero, one, two, few, many, other
}

extension Language {
    /// The categories of the language, in the order in which translations have their forms.
    ///
    /// French and Spanish have "many" for whole millions, which no count reaches here; they get the form of "other".
    var pluralCategories: [PluralCategory] {
        self == .arabic ? PluralCategory.allCases : [.one, .other]
    }

    /// The category of a count.
    func pluralCategory(of count: Int) -> PluralCategory {
        let number = count.magnitude
        switch self {
        case .english, .german, .spanish: return number == 1 ? .one : .other
        case .french: return number < 2 ? .one : .other
        case .arabic:
            switch (number, number % 100) {
            case (0, _): return .zero
            case (1, _): return .one
            case (2, _): return .two
            case (_, 3...10): return .few
            case (_, 11...99): return .many
            default: return .other
            }
        }
    }

    /// Which of the forms of a translation a count has.
    func pluralForm(of count: Int) -> Int {
        pluralCategories.firstIndex(of: pluralCategory(of: count)) ?? pluralCategories.count - 1
    }
}
