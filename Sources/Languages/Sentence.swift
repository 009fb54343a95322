import HealthReadings

/// A sentence of the program with its values, written as a literal.
///
/// `"Page \(number) of \(count)"` has the key `Page {0} of {1}`. A value with its noun is written as
/// `"\(count: number, "reading", "readings")"`, whose key is `{0|# reading|# readings}`; translations have a form for each of the plural
/// categories of their language. A noun that English doesn't inflect has one form, and is inflected by other languages.
public struct Sentence: Sendable, Hashable, ExpressibleByStringInterpolation {
    enum Value: Sendable, Hashable {
        case text(String)
        case number(ExactDecimal)
        case count(Int)
    }

    /// What the sentence is called in catalogues.
    let key: String
    let values: [Value]

    /// Makes a sentence without values.
    public init(stringLiteral value: String) { (key, values) = (value, []) }

    /// Makes a sentence with values.
    public init(stringInterpolation: StringInterpolation) {
        (key, values) = (stringInterpolation.key, stringInterpolation.values)
    }

    /// Collects the parts of a literal.
    public struct StringInterpolation: StringInterpolationProtocol {
        var key = ""
        var values: [Value] = []

        /// Makes room.
        public init(literalCapacity: Int, interpolationCount: Int) {
            key.reserveCapacity(literalCapacity + 3 * interpolationCount)
            values.reserveCapacity(interpolationCount)
        }

        /// Adds words.
        public mutating func appendLiteral(_ literal: String) { key += literal }

        /// Adds a text that is the same in every language, or is translated already.
        public mutating func appendInterpolation(_ text: String) { append(.text(text)) }

        /// Adds a number, which gets the decimal mark of the language.
        public mutating func appendInterpolation(_ number: ExactDecimal) { append(.number(number)) }

        /// Adds a whole number.
        public mutating func appendInterpolation(_ number: Int) { append(.count(number)) }

        /// Adds a whole number with its noun.
        ///
        /// - Parameters:
        ///   - count: the number.
        ///   - forms: the English noun, singular and plural, or one form for both.
        public mutating func appendInterpolation(count: Int, _ forms: StaticString...) {
            append(.count(count), forms.map { "|# \($0)" }.joined())
        }

        private mutating func append(_ value: Value, _ forms: String = "") {
            key += "{\(values.count)\(forms)}"
            values.append(value)
        }
    }
}
