import Foundation
import HealthReadings
import Testing

/// The catalogues of the pages' languages beside the pages' own words.
@Suite("The pages' languages") struct PageLanguageTests {
    /// Each language with its plural categories for whole numbers that a page shows (CLDR).
    static let languages: [(code: String, forms: Set<String>)] = [
        ("de", ["one", "other"]), ("fr", ["one", "other"]), ("es", ["one", "other"]),
        ("ar", ["zero", "one", "two", "few", "many", "other"]),
    ]

    /// What a catalogue is of: the script with its English phrases, the pages with its English sentences, what its files are
    /// called before the language, and the scripts that say the phrases.
    struct Pages: Sendable, CustomTestStringConvertible {
        let words: String
        let pages: [String]
        let prefix: String
        let scripts: [String]
        let phrases: Int
        var testDescription: String { words }
    }

    static let pages = [
        Pages(
            words: "words.js", pages: ["page.html", "wall.html"], prefix: "",
            scripts: ["page.js", "reports.js", "figures.js", "pairing.js", "measure.js", "wall.js"], phrases: 150),
        Pages(
            words: "setup-words.js", pages: ["setup.html"], prefix: "setup-", scripts: ["setup.js", "steps.js"],
            phrases: 120),
    ]

    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Sources/LocalAPI/Page")

    private static func source(_ name: String) throws -> String {
        try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
    }

    /// A phrase: its text by plural category, `other` for one that has no forms.
    private static func catalogue(_ pages: Pages, _ code: String) throws -> [String: [String: String]] {
        let data = try Data(contentsOf: folder.appendingPathComponent("lang/\(pages.prefix)\(code).json"))
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        return try object.mapValues { phrase in
            if let text = phrase as? String { return ["other": text] }
            return try #require(phrase as? [String: String])
        }
    }

    /// The English phrases of a script.
    private static func phrases(_ pages: Pages) throws -> [String: [String: String]] {
        let script = try source(pages.words)
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
    private static func elements(_ pages: Pages) throws -> [String: [String: String]] {
        var phrases: [String: [String: String]] = [:]
        for page in pages.pages {
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

    /// All that is said in English.
    private static func english(_ pages: Pages) throws -> [String: [String: String]] {
        try phrases(pages).merging(elements(pages)) { words, _ in words }
    }

    private static func places(_ text: String) -> [String] {
        text.matches(of: #/\{(\w+)\}/#).map { String($0.1) }.sorted()
    }

    @Test("every language has every phrase of the pages and no others", arguments: pages, languages.map(\.code))
    func whole(_ pages: Pages, _ code: String) throws {
        let catalogue = try Self.catalogue(pages, code)
        // The page and the wall display show names of the API too.
        let codes =
            pages.prefix.isEmpty
            ? Exclusion.allCases.map(\.rawValue) + Hold.allCases.map(\.rawValue)
                + ReadingKind.allCases.map(\.rawValue) : []
        let english = try Self.english(pages)
        #expect(english.count > pages.phrases)
        let wanted = Set(english.keys).union(codes.map { "code_\($0)" })
        #expect(wanted.subtracting(catalogue.keys).sorted() == [], "missing")
        #expect(Set(catalogue.keys).subtracting(wanted).sorted() == [], "not used")
    }

    @Test(
        "a translation has the places of its phrase, and a form for each plural category", arguments: pages, languages)
    func forms(_ pages: Pages, _ language: (code: String, forms: Set<String>)) throws {
        let catalogue = try Self.catalogue(pages, language.code)
        for (name, english) in try Self.english(pages) {
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

    @Test("the pages say the same in English as the script does", arguments: pages)
    func english(_ pages: Pages) throws {
        let (phrases, elements) = (try Self.phrases(pages), try Self.elements(pages))
        for (name, words) in elements where phrases[name] != nil {
            #expect(phrases[name] == words, "\(name)")
        }
    }

    @Test("a script says no phrase that isn't there", arguments: pages)
    func said(_ pages: Pages) throws {
        let english = try Self.english(pages)
        for name in pages.scripts {
            let script = try Self.source(name)
            let said = Set(script.matches(of: #/\b(?:t|sentence)\("(\w+)"[,)]/#).map { String($0.1) })
            #expect(said.subtracting(english.keys).sorted() == [], "\(name)")
        }
    }

    @Test("each kind of reading has a name in the set-up, and each kind of destination the names of its settings")
    func kinds() throws {
        let phrases = try Self.phrases(Self.pages[1])
        #expect(ReadingKind.allCases.filter { phrases["kind_\($0.rawValue)"] == nil } == [])
        let settings = try Self.source("steps.js").matches(of: #/"(destination_\w+)"/#).map { String($0.1) }
        #expect(settings.count > 10 && settings.filter { phrases[$0] == nil } == [])
    }

    @Test("the script knows the languages that there are catalogues of")
    func known() throws {
        let files = try FileManager.default.contentsOfDirectory(
            atPath: Self.folder.appendingPathComponent("lang").path)
        #expect(
            Set(files)
                == Set(Self.languages.map(\.code).flatMap { ["\($0).json", "setup-\($0).json"] }))
        let script = try Self.source("languages.js")
        for language in Self.languages {
            #expect(script.contains(" \(language.code): {name: "), "\(language.code)")
        }
    }
}
