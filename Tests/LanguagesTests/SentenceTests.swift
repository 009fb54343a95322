import HealthReadings
import Testing

@testable import Languages

/// Sentences with their values, in each language.
@Suite struct SentenceTests {
    @Test("a sentence's key has numbered places, and English is the key filled in")
    func keys() {
        func key(_ sentence: Sentence) -> String { sentence.key }
        #expect(key("readings") == "readings")
        #expect(key("Page \(3) of \(7)") == "Page {0} of {1}")
        #expect(key("\(count: 2, "reading", "readings") on \("x")") == "{0|# reading|# readings} on {1}")
        let words = Language.english
        #expect(words("Page \(3) of \(7)") == "Page 3 of 7")
        #expect(
            [0, 1, 2].map { words("\(count: $0, "reading", "readings")") } == ["0 readings", "1 reading", "2 readings"])
        #expect([0, 1, 2].map { words("\(count: $0, "readings")") } == ["0 readings", "1 readings", "2 readings"])
        #expect(words("low", in: "glucose") == "low")
        let number = ExactDecimal(significand: 560, exponent: -2)
        #expect(words("mean \(number)") == "mean 5.60")
    }

    @Test("a sentence that nobody has translated is English, with its values in the language's own way")
    func missing() {
        for language in Language.allCases where !language.isRightToLeft {
            #expect(language("nobody translates \("this")") == "nobody translates this")
            #expect(language("nobody translates \(count: 1, "this", "these")") == "nobody translates 1 this")
        }
        #expect(Language.arabic("nobody translates \("this")") == "nobody translates \u{2068}this\u{2069}")
    }

    @Test("values are never read as places, forms or marks of direction")
    func hostile() {
        let values = [
            "{0}", "{1}", "{0|# a|# b}", "#", "|", "{", "}", "{{0}}", "\\(x)", "<b>", "\u{202E}evil",
            "\u{2069}\u{2069}",
            "\u{2066}\u{2067}", "\u{2068}a", "", " ", "{99}", "{-1}", "%@", "\u{0}",
        ]
        for language in Language.allCases {
            for one in values {
                for other in values {
                    let text = language("Page \(one) of \(other)")
                    guard language.isRightToLeft else {
                        #expect(text.contains(one) && text.contains(other))
                        continue
                    }
                    // What turns the direction is within its isolate, or replaced.
                    #expect(Isolation.balanced(text) == text && !text.contains("\u{202E}"))
                }
                let counted = language("\(one): \(count: 3, "value", "values")")
                #expect(counted.contains("3"))
            }
        }
        let template = Template("{0} {1} {7} {x} {0")
        #expect(template.filled(with: [.text("{1}"), .text("b")], in: .english, isolating: false) == "{1} b  {x} {0")
    }

    @Test("isolates end within the text, and everything else that turns the direction is replaced")
    func isolation() {
        #expect(Isolation.balanced("a\u{2068}b\u{2069}c") == "a\u{2068}b\u{2069}c")
        #expect(Isolation.balanced("a\u{2069}b") == "a\u{FFFD}b" && Isolation.balanced("\u{2067}a") == "\u{FFFD}a")
        #expect(Isolation.balanced("\u{202E}a\u{202C}") == "\u{FFFD}a\u{FFFD}")
        // A sentence whose letters are all within isolates has its own direction.
        #expect(Isolation.isolated("\u{2068}ب\u{2069} 1") == "\u{2067}\u{2068}ب\u{2069} 1\u{2069}")
        #expect(Isolation.isolated("") == "" && Isolation.isolated("a") == "\u{2068}a\u{2069}")
        #expect(Isolation.closed("\u{2067}a\u{2068}b") == "\u{2067}a\u{2068}b\u{2069}\u{2069}")
        #expect(Language.german.isolated("a") == "a" && Language.arabic.isolated("a") == "\u{2068}a\u{2069}")
    }

    @Test("numbers, dates and days are written as the language has them, with Latin digits")
    func formats() {
        #expect(
            Language.allCases.map { $0.number("17.5/10.9") }.joined(separator: " ")
                == "17.5/10.9 17,5/10,9 17,5/10,9 17,5/10,9 17.5/10.9")
        #expect(
            Language.allCases.map { $0.date("2026-11-20") }
                == ["2026-11-20", "20.11.2026", "20/11/2026", "20/11/2026", "20/11/2026"])
        #expect(
            Language.allCases.map { $0.dayAndMonth("2026-11-20") } == ["11-20", "20.11.", "20/11", "20/11", "20/11"])
        #expect(Language.allCases.map { $0.weekday(0) } == ["Mon", "Mo", "lun.", "lun", "الاثنين"])
        #expect(Language.allCases.allSatisfy { $0.weekday(7).isEmpty && $0.date("") == "" && $0.date("x") == "x" })
        #expect(Language.allCases.map(\.direction.rawValue) == ["ltr", "ltr", "ltr", "ltr", "rtl"])
        #expect(Language.german.list(["a", "b"]) == "a, b" && Language.french.series(["a", "b"]) == "a\u{A0}; b")
        #expect(Language.arabic.list(["a", "ب"]) == "\u{2068}a\u{2069}، \u{2068}ب\u{2069}")
    }
}
