import Testing

@testable import Languages

/// The catalogues against the sentences of the sources.
@Suite struct CatalogueTests {
    /// The modules whose texts are translated.
    private static let modules = ["ReportPages"]

    private static func keys() throws -> Set<String> {
        var keys: Set<String> = []
        for module in modules { keys.formUnion(try SourceKeys(module: module).places.keys) }
        return keys
    }

    @Test("keys are found in literals of one and of several lines, with their places and contexts")
    func scanning() {
        let found = SourceKeys(
            source: #"""
                a.words("plain") + words("low", in: "glucose")  // words(comment)
                let otherwords(x)
                words("\(count: f("x").count, "reading", "readings") of \(g(h("(")))")
                words(
                    """
                    one \(a ?? "b") \
                    two "three"
                    """)
                words("\u{D7} \("\u{1}")"); words(variable)
                """#)
        #expect(
            Set(found.places.keys) == [
                "plain", "low [glucose]", "{0|# reading|# readings} of {1}", "one {0} two \"three\"", "\u{D7} {0}",
            ])
        #expect(found.strays == ["source:9"])
    }

    @Test("each sentence is a literal, and is in each catalogue; no catalogue has one that is used nowhere")
    func complete() throws {
        for module in Self.modules {
            let strays = try SourceKeys(module: module).strays
            #expect(strays.isEmpty, "no literal: \(strays)")
        }
        let keys = try Self.keys()
        #expect(keys.count > 250)
        for language in Language.allCases where language != .english {
            let entries = Catalogue.entries(Catalogue.octets(language))
            let translated = Set(entries.map(\.key))
            #expect(translated.count == entries.count, "\(language): a key stands twice")
            #expect(keys.subtracting(translated).sorted() == [], "\(language): not translated")
            #expect(translated.subtracting(keys).sorted() == [], "\(language): used nowhere")
            #expect(
                entries.map(\.key)
                    == entries.map(\.key).sorted { $0.unicodeScalars.lexicographicallyPrecedes($1.unicodeScalars) })
        }
    }

    @Test("a translation has the places of its key, and a form for each plural category where the key has a count")
    func places() {
        for language in Language.allCases where language != .english {
            for (key, text) in Catalogue.entries(Catalogue.octets(language)) {
                let (english, other) = (Self.places(Template(key)), Self.places(Template(text)))
                #expect(Set(english.keys) == Set(other.keys), "\(language): \(key)")
                for (place, forms) in other where forms > 0 {
                    // A place without forms in English is no count.
                    #expect(english[place] ?? 0 > 0, "\(language): {\(place)} of \(key) is no count")
                    #expect(forms == language.pluralCategories.count, "\(language): forms of {\(place)} of \(key)")
                }
                #expect(!text.isEmpty && !text.hasPrefix(" ") && !text.hasSuffix(" "))
                #expect(!text.unicodeScalars.contains(where: Isolation.isMark), "\(language): \(key)")
            }
        }
    }

    /// The places of a template, with the number of forms.
    private static func places(_ template: Template) -> [Int: Int] {
        template.parts.reduce(into: [:]) { places, part in
            switch part {
            case .words: break
            case .place(let place): places[place] = max(places[place] ?? 0, 0)
            case .forms(let place, let forms): places[place] = forms.count
            }
        }
    }

    @Test("counts are inflected as the language does it")
    func counts() {
        func readings(_ language: Language) -> [String] {
            [0, 1, 2, 3, 11, 100].map { count in
                language("the period before (\(count: count, "reading", "readings"))")
            }
        }
        #expect(
            readings(.german).prefix(3) == [
                "Zeitraum davor (0 Messungen)", "Zeitraum davor (1 Messung)", "Zeitraum davor (2 Messungen)",
            ])
        #expect(
            readings(.french).prefix(3) == [
                "période précédente (0 mesure)", "période précédente (1 mesure)", "période précédente (2 mesures)",
            ])
        #expect(readings(.spanish)[1] == "período anterior (1 medición)")
        #expect(
            readings(.arabic).map { $0.replacing("الفترة السابقة ", with: "") } == [
                "(0 قراءة)", "(قراءة واحدة)", "(قراءتان)", "(3 قراءات)", "(11 قراءة)", "(100 قراءة)",
            ])
    }
}
