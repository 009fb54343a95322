/// A language that texts for people are written in, with the way it writes numbers and dates.
///
/// The English sentence stands in the code, and is the key of its translations:
///
///     let words = Language.german
///     words("Made on \(words.date("2026-11-20"))")  // Erstellt am 20.11.2026
///
/// Digits are Latin in every language, as on the devices. Data for programs, such as JSON and CSV, has no language.
public enum Language: String, Sendable, Hashable, CaseIterable, Codable {
    case english = "en"
    case german = "de"
    case french = "fr"
    case spanish = "es"
    case arabic = "ar"

    /// Where a line of text begins.
    public enum Direction: String, Sendable, Hashable {
        case leftToRight = "ltr"
        case rightToLeft = "rtl"
    }

    /// The code of BCP 47, as `<html lang>` has it.
    public var code: String { rawValue }

    /// Where a line of text begins.
    public var direction: Direction { self == .arabic ? .rightToLeft : .leftToRight }

    /// Whether a line of text begins on the right.
    public var isRightToLeft: Bool { direction == .rightToLeft }

    /// The sentence in this language; in English if nobody has translated it.
    ///
    /// In a language that is written from right to left each value is isolated: it never changes the order of what stands around it.
    ///
    /// - Parameters:
    ///   - sentence: a literal, whose values are never read as a part of the sentence.
    ///   - context: what it is about, if the same English words mean something else elsewhere.
    public func callAsFunction(_ sentence: Sentence, in context: String? = nil) -> String {
        let key = context.map { "\(sentence.key) [\($0)]" } ?? sentence.key
        guard self != .english, let template = Catalogue.all[self]?.templates[key] else {
            return Template.english(sentence.key).filled(with: sentence.values, in: .english, isolating: isRightToLeft)
        }
        return template.filled(with: sentence.values, in: self, isolating: isRightToLeft)
    }
}
