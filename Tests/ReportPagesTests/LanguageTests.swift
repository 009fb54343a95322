import Foundation
import HealthFigures
import HealthReadings
import Languages
import Testing

@testable import ReportPages

/// Reports in each language.
@Suite struct LanguageTests {
    /// Every report of the fixtures, and those that say what they seldom say.
    static func reports(_ language: Language, person: String = "anna") throws -> [any Report] {
        var subject = try ReportTests.subject(person: person)
        subject.language = language
        let start = subject.period.start
        subject.leftOut = [
            .init(
                time: start.advanced(bySeconds: 5000), words: "7", reason: .excluded(.controlSolution)),
            .init(
                time: nil, words: "7", reason: .leftOut, reading: ReadingID(high: 1, low: 2),
                omission: FigureOmission(reason: person, by: person, at: start)),
        ]
        let (glucose, weights) = (ReportTests.glucose(subject), ReportTests.weights(subject))
        var cuffed = ReportTests.pressures(subject)
        cuffed.add(
            PressurePoint(
                time: start.advanced(bySeconds: 30_000), reading: ReadingID(high: 7, low: 7),
                systolic: ExactDecimal(significand: 170), diastolic: ExactDecimal(significand: 90),
                unit: .millimetresOfMercury, pulse: nil, status: PressurePoint.flags,
                device: DeviceDescription(address: nil, model: person)))
        let reports: [any Report] =
            ReportTests.reports(subject, name: person) + ReportTests.empty(subject) + [
                PressureReport(
                    subject, PressureFigures(cuffed, unit: .kilopascal), before: nil, kind: .aha,
                    line: PressureLine("135/85")),
                GlucoseReport(
                    subject, glucose, before: nil, ranges: GlucoseRanges(.older), unit: .millimolesPerLitre,
                    line: GlucoseLine("80-150")),
                SensorReport(
                    subject, glucose, before: glucose, ranges: GlucoseRanges(.pregnancy), showsGoals: true,
                    unit: .milligramsPerDecilitre, line: GlucoseLine("4.4-8.3")),
                WeightReport(
                    subject, weights, before: weights, leftOut: [.leftOut: 2, .excluded(.otherUser): 1],
                    line: WeightLine("160.5 lb")),
            ]
            + [ReadingKind.heartRate, .hrv, .spo2, .temperature, .bodyComposition].compactMap { kind in
                VitalFigures(kind, subject.period).map { VitalReport(subject, $0, before: nil) }
            }
        return try reports + ReportTests.vitals(subject)
    }

    /// The words of keys that are whole English phrases, which nothing else on a page says.
    private static func english(_ language: Language) throws -> [String] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources/Languages/Catalogues/\(language.code).json")
        let entries = try JSONDecoder().decode([String: String].self, from: Data(contentsOf: file))
        var phrases: Set<String> = []
        for (key, text) in entries {
            for part in key.replacing(#/ \[.*\]$/#, with: "").split(separator: #/\{[^}]*\}/#) {
                let phrase = part.trimmingCharacters(in: .whitespaces)
                let isPhrase = phrase.count { $0 == " " } > 0 && phrase.count { $0.isLetter } > 7
                if isPhrase, !text.contains(phrase) { phrases.insert(phrase) }
            }
        }
        return phrases.sorted()
    }

    @Test("no report says anything in English, and each is well formed in every form", arguments: Language.allCases)
    func translated(_ language: Language) throws {
        let phrases = language == .english ? [] : try Self.english(language)
        #expect(language == .english || phrases.count > 100)
        var documents: [String] = []
        let disclaimer = language("Shows what meters measured; no advice.")
        for report in try Self.reports(language) {
            let (html, part) = (report.document.html(paper: .a4), report.fragment(identifier: "part"))
            let pages = report.document.pages(paper: .letter)
            documents += pages + [part, html].map(Self.asXML)
            #expect(html.contains("<html lang=\"\(language.code)\" dir=\"\(language.direction.rawValue)\">"))
            #expect(part.contains(" lang=\"\(language.code)\" dir=\"") == (language != .english))
            #expect(pages.allSatisfy { $0.contains(disclaimer) } && html.contains(disclaimer))
        }
        let texts = try ReportTests.texts(documents)
        #expect(texts.count == documents.count)
        for text in Set(texts.joined()) {
            for phrase in phrases where text.contains(phrase) {
                Issue.record("\(language): '\(phrase)' in '\(text)'")
            }
        }
    }

    /// HTML but for its doctype, its void elements and its attributes without values is XML.
    private static func asXML(_ html: String) -> String {
        html.replacing("<!DOCTYPE html>\n", with: "").replacing(#/<meta [^>]*>/#, with: "")
            .replacing(" data-left-out>", with: ">")
    }

    @Test("titles of columns and names fit into the page in each language", arguments: Language.allCases)
    func fitting(_ language: Language) throws {
        var (pages, allowed): ([String], [String]) = ([], [])
        for report in try Self.reports(language) {
            let document = report.document
            pages += document.pages(paper: .a4)
            allowed += [document.leftOut] + document.facts.map(\.value)
            for case .table(let table) in document.blocks {
                // What people typed and devices call themselves may be longer than a column.
                let own = ["script", "HI (>", "anna"]
                for row in table.rows {
                    allowed += row.cells.map(\.text).filter { text in own.contains { text.contains($0) } }
                }
            }
        }
        func bare(_ text: some StringProtocol) -> String {
            String(String.UnicodeScalarView(text.unicodeScalars.filter { !Isolation.isMark($0) && $0 != "\u{FFFD}" }))
        }
        let full = Set(allowed.map(bare))
        for text in Set(try ReportTests.texts(pages).joined()) where text.contains("…") {
            let beginning = bare(text.prefix { $0 != "…" })
            #expect(full.contains { $0.hasPrefix(beginning) }, "\(language): '\(text)'")
        }
    }

    @Test("JSON and CSV have no language")
    func data() throws {
        let english = try Self.reports(.english)
        for language in Language.allCases {
            for (one, other) in zip(english, try Self.reports(language)) {
                #expect(one.json == other.json)
                for style in [ReportCSV.Style.comma, .semicolon] { #expect(one.csv(style) == other.csv(style)) }
            }
        }
    }

    @Test("numbers, dates and clocks are the language's, by the person's zone")
    func formats() throws {
        let german = try Self.reports(.german)
        let pages = try ReportTests.texts(german[0].document.pages(paper: .a4)).joined().joined(separator: "\n")
        #expect(pages.contains("19.10.2026 bis 01.11.2026 (14 Tage)") && pages.contains("19.10.2026 Mo"))
        #expect(pages.contains("04:00 bis 12:00") && !pages.contains("2026-"))
        let sensor = german[2].fragment(identifier: "part")
        #expect(sensor.contains(/Mittelwert<\/th><td>\d+,\d</) && !sensor.contains(/\d\.\d mmol/))
        let french = try Self.reports(.french)[2].fragment(identifier: "part")
        #expect(french.contains(/moyenne<\/th><td>\d+,\d</) && french.contains("19/10/2026 lun."))
        let arabic = try Self.reports(.arabic)[2].fragment(identifier: "part")
        #expect(!arabic.contains(/[\u{660}-\u{669}]/) && arabic.contains("19/10/2026"))
    }

    @Test("a name from right to left turns no date at the head of a page, and a long one cuts none off")
    func names() throws {
        for name in ["محمد", "דנה", String(repeating: "anna ", count: 40)] {
            for report in try Self.reports(.english, person: name) {
                for page in try ReportTests.texts(report.document.pages(paper: .a4)).dropFirst() {
                    let head = try #require(page.first { $0.contains(" · ") })
                    let parts = head.split(separator: " · ").map(String.init)
                    #expect(parts.count == 3 && parts[1] == "2026-10-19 to 2026-11-01 (14 days)")
                    #expect(parts.last == name || parts.last?.hasSuffix("…") == true)
                }
            }
        }
    }

    @Test(
        "what people type is text in each language: no place, no form, no markup, no turn of direction",
        arguments: [Language.english, .german, .arabic])
    func hostile(_ language: Language) throws {
        let names = [
            "{0} {1|# a|# b} #|", "\u{202E}\u{2067}\u{2069}\u{2069}</bdi><script>x</script>&{2}\"'\u{2068}",
        ]
        for name in names {
            var documents: [String] = []
            for report in try Self.reports(language, person: name) {
                let (html, part) = (report.document.html(paper: .a4), report.fragment(identifier: "part"))
                let pages = report.document.pages(paper: .a4)
                for text in [html, part] + pages {
                    #expect(!text.contains("<script") && !text.contains("\u{202E}"))
                    #expect(Isolation.balanced(text) == text)
                }
                if name.hasPrefix("{0}") { #expect(html.contains("{0} {1|# a|# b} #|")) }
                documents += pages + [html, part].map(Self.asXML)
            }
            #expect(try ReportTests.texts(documents).count == documents.count)
        }
    }
}
