import Foundation
import HealthReadings
import Testing

/// The catalogues of the page's languages beside the page's own words.
@Suite("The page's languages") struct PageLanguageTests {
    /// Each language with its plural categories for whole numbers that a page shows (CLDR).
    static let languages: [(code: String, forms: Set<String>)] = [
        ("de", ["one", "other"]), ("fr", ["one", "other"]), ("es", ["one", "other"]),
        ("ar", ["zero", "one", "two", "few", "many", "other"]),
    ]

    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Sources/LocalAPI/Page")

    private static func source(_ name: String) throws -> String {
        try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
    }

    /// A phrase: its text by plural category, `other` for one that has no forms.
    private static func catalogue(_ code: String) throws -> [String: [String: String]] {
        let data = try Data(contentsOf: folder.appendingPathComponent("lang/\(code).json"))
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        return try object.mapValues { phrase in
            if let text = phrase as? String { return ["other": text] }
            return try #require(phrase as? [String: String])
        }
    }

    /// The English phrases of words.js.
    private static func phrases() throws -> [String: [String: String]] {
        let script = try source("words.js")
        let begin = try #require(script.range(of: "const phrases = {\n"))
        let end = try #require(script.range(of: "\n};", range: begin.upperBound..<script.endIndex))
        var texts: [String] = []
        let block = script[begin.upperBound..<end.lowerBound].replacing(#/"((?:[^"\\]|\\.)*)"/#) { match in
            texts.append(String(match.1))
            return "§\(texts.count - 1)§"
        }
        var phrases: [String: [String: String]] = [:]
        for match in block.matches(of: #/(\w+): (?:§(\d+)§|\{([^}]*)\})/#) {
            var forms: [String: String] = [:]
            if let place = match.2.flatMap({ Int($0) }) { forms["other"] = texts[place] }
            for form in (match.3 ?? "").matches(of: #/(\w+): §(\d+)§/#) {
                forms[String(form.1)] = texts[try #require(Int(form.2))]
            }
            phrases[String(match.1)] = forms
        }
        return phrases
    }

    /// The words of the pages themselves, with `{0}` … for the elements within them.
    private static func elements() throws -> [String: [String: String]] {
        var phrases: [String: [String: String]] = [:]
        for page in ["page.html", "wall.html"] {
            let text = try source(page)
            for match in text.matches(of: #/<(\w+)[^>]* data-t="(\w+)">(.*?)<\/\1>/#) {
                var count = -1
                phrases[String(match.2)] = [
                    "other": String(match.3).replacing(#/<(\w+)>.*?<\/\1>/#) { _ in
                        count += 1
                        return "{\(count)}"
                    }
                ]
            }
            for match in text.matches(of: #/ data-t-label="(\w+)" aria-label="([^"]*)"/#) {
                phrases[String(match.1)] = ["other": String(match.2)]
            }
        }
        return phrases
    }

    private static func places(_ text: String) -> [String] {
        text.matches(of: #/\{(\w+)\}/#).map { String($0.1) }.sorted()
    }

    @Test("every language has every phrase of the page and no others", arguments: languages.map(\.code))
    func whole(_ code: String) throws {
        let catalogue = try Self.catalogue(code)
        let codes =
            Exclusion.allCases.map(\.rawValue) + Hold.allCases.map(\.rawValue) + ReadingKind.allCases.map(\.rawValue)
        let english = try Self.phrases().merging(Self.elements()) { words, _ in words }
        #expect(english.count > 150)
        let wanted = Set(english.keys).union(codes.map { "code_\($0)" })
        #expect(wanted.subtracting(catalogue.keys).sorted() == [], "missing")
        #expect(Set(catalogue.keys).subtracting(wanted).sorted() == [], "not used")
    }

    @Test("a translation has the places of its phrase, and a form for each plural category", arguments: languages)
    func forms(_ language: (code: String, forms: Set<String>)) throws {
        let catalogue = try Self.catalogue(language.code)
        for (name, english) in try Self.phrases().merging(Self.elements(), uniquingKeysWith: { words, _ in words }) {
            let own = try #require(catalogue[name], "\(name)")
            let wanted = Self.places(try #require(english["other"]))
            #expect(Set(own.keys) == (english.count > 1 ? language.forms : ["other"]), "\(name)")
            for (form, text) in own {
                // "An hour ago" needs no number.
                let mayLeaveOut: Set = ["one", "two"].contains(form) ? ["n"] : []
                let places = Self.places(text)
                #expect(Set(places).subtracting(wanted) == [], "\(name) \(form)")
                #expect(Set(wanted).subtracting(places).subtracting(mayLeaveOut) == [], "\(name) \(form)")
                #expect(!text.isEmpty && text == text.trimmingCharacters(in: .whitespaces), "\(name) \(form)")
            }
        }
    }

    @Test("the pages say the same in English as the script does")
    func english() throws {
        let (phrases, elements) = (try Self.phrases(), try Self.elements())
        for (name, words) in elements where phrases[name] != nil {
            #expect(phrases[name] == words, "\(name)")
        }
    }

    @Test("the script knows the languages that there are catalogues of")
    func known() throws {
        let files = try FileManager.default.contentsOfDirectory(
            atPath: Self.folder.appendingPathComponent("lang").path)
        #expect(Set(files) == Set(Self.languages.map { "\($0.code).json" }))
        let script = try Self.source("words.js")
        for language in Self.languages {
            #expect(script.contains(" \(language.code): {name: "), "\(language.code)")
        }
    }
}
