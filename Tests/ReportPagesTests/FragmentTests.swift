import Foundation
import HealthFigures
import HealthReadings
import Testing

@testable import ReportPages

/// Reports as parts of the gateway's page.
@Suite struct FragmentTests {
    private static func bodies(_ text: String) -> [String] {
        text.matches(of: /<g aria-hidden="true">.*?<\/g><\/svg>/).map { String($0.output) }
    }

    @Test("a part is well formed, with names for charts and tables; its charts are those of the report")
    func parts() throws {
        let subject = try ReportTests.subject()
        for (number, report) in ReportTests.reports(subject).enumerated() {
            let part = report.fragment(identifier: "part\(number)")
            _ = try ReportTests.texts([part])
            let (shown, printed) = (Self.bodies(part), Self.bodies(report.document.html(paper: .a4)))
            #expect(!shown.isEmpty)
            // The page has one chart of its own: a sensor's course instead of its days.
            #expect(Set(shown).subtracting(printed).count == (report is SensorReport ? 1 : 0))
            #expect(part.contains("data-empty=\"false\""))
            #expect(part.matches(of: /<summary>Show as table<\/summary>/).count == shown.count, "\(type(of: report))")
            #expect(!part.contains("style="))
            let ids = part.matches(of: #/ id="([^"]*)"/#).map { String($0.output.1) }
            #expect(Set(ids).count == ids.count && ids.allSatisfy { $0.hasPrefix("part\(number)-") })
        }
        for report in ReportTests.empty(subject) {
            let part = report.fragment(identifier: "none")
            _ = try ReportTests.texts([part])
            #expect(part.contains("data-empty=\"true\"") && !part.contains("<svg"))
        }
    }

    @Test("each chart of readings can be gone through by keys, the modal day too; its places are in order")
    func keys() throws {
        let subject = try ReportTests.subject()
        let part = ReportTests.reports(subject)[1].fragment(identifier: "part")
        #expect(part.contains("aria-label=\"Readings by the time of day. Left and right arrow keys go through it.\""))
        for match in part.matches(of: /data-marks="([^"]*)"/) {
            let text = String(match.output.1).replacing("&quot;", with: "\"").replacing("&#39;", with: "'")
                .replacing("&lt;", with: "<").replacing("&gt;", with: ">").replacing("&amp;", with: "&")
            let marks = try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[Any]])
            let places = marks.compactMap { ($0[0] as? NSNumber)?.doubleValue }
            #expect(places.count > 10 && places == places.sorted())
        }
    }

    @Test("a part doesn't change with the clock, so that the page leaves it as it is")
    func timeless() throws {
        let subject = try ReportTests.subject()
        var later = subject
        let last = try #require(subject.period.days.last)
        let period = FigurePeriod(
            from: subject.period.days[0], through: last, in: subject.period.zones,
            now: subject.period.now.advanced(bySeconds: 600))
        later.period = try #require(period)
        for (one, other) in zip(ReportTests.reports(subject), ReportTests.reports(later)) {
            #expect(one.fragment(identifier: "a") == other.fragment(identifier: "a"))
        }
    }

    @Test("what people type is text in a part too, in what a chart's places say as well")
    func hostile() throws {
        let subject = try ReportTests.subject(person: ReportTests.hostile)
        for report in ReportTests.reports(subject, name: ReportTests.hostile) {
            let part = report.fragment(identifier: "part")
            _ = try ReportTests.texts([part])
            #expect(!part.contains("<script") && !part.contains("\u{202E}"))
            for match in part.matches(of: /data-marks="([^"]*)"/) {
                let text = String(match.output.1).replacing("&quot;", with: "\"").replacing("&#39;", with: "'")
                    .replacing("&lt;", with: "<").replacing("&gt;", with: ">").replacing("&amp;", with: "&")
                let marks = try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[Any]])
                #expect(!marks.isEmpty && marks.allSatisfy { $0.count == 2 && $0[0] is NSNumber && $0[1] is String })
            }
        }
    }

    @Test("a day's clock is the person's on the day it is put back: midnight, then every three hours that pass")
    func clock() throws {
        let subject = try ReportTests.subject("2026-10-25", "2026-10-25")
        let report = try #require(ReportTests.reports(subject).first { $0 is SensorReport })
        let course = try #require(
            Self.bodies(report.fragment(identifier: "part")).first { $0.contains("line: sensor") })
        let labels = course.matches(of: />(\d\d:\d\d)</).map { String($0.output.1) }
        #expect(labels == ["00:00", "02:00", "05:00", "08:00", "11:00", "14:00", "17:00", "20:00", "23:00"])
    }

    @Test(
        "a line that can't show every value keeps the lowest and the highest, and its gaps; of months each day is a bar"
    )
    func thinning() throws {
        let subject = try ReportTests.subject("2026-10-02", "2026-11-01")
        let collection = ReportTests.glucose(subject)
        let figures = SensorFigures(collection, ranges: GlucoseRanges(.standard), unit: .milligramsPerDecilitre)
        let axis = GlucoseAxis(unit: .milligramsPerDecilitre, ranges: GlucoseRanges(.standard))
        let chart = axis.course([], sensor: (figures, figures.byDay), subject.period)
        #expect(figures.figures.count > 2900 && (700...900).contains(chart.marks.count), "\(chart.marks.count)")
        for extreme in [figures.figures.lowest, figures.figures.highest] {
            let value = try #require(extreme).text(in: .milligramsPerDecilitre)
            #expect(chart.marks.contains { $0.text.contains(": \(value) mg/dL") }, "\(value)")
        }
        #expect(chart.body.matches(of: /stroke="#3B1F7A" stroke-width="0.8"/).count == 2)
        #expect(chart.marks == chart.marks.sorted { $0.x < $1.x })
        let months = try ReportTests.subject("2026-08-04", "2026-11-01")
        let long = SensorFigures(
            ReportTests.glucose(months), ranges: GlucoseRanges(.standard), unit: .milligramsPerDecilitre)
        let bars = axis.course(
            ReportTests.glucose(months).blood, sensor: (long, long.byDay), months.period)
        #expect(bars.marks.filter { $0.text.contains("mean") }.count == 90)
        #expect(bars.marks.count == 90)
    }

    @Test("a year of a sensor, finger sticks, two cuffs and a scale is less than 225 kB as it is sent")
    func year() throws {
        let subject = try ReportTests.subject("2025-11-02", "2026-11-01")
        let parts = ReportTests.reports(subject).enumerated().map {
            $0.element.fragment(identifier: "part\($0.offset)")
        }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).html")
        defer { try? FileManager.default.removeItem(at: file) }
        var sizes: [Int] = []
        for part in parts {
            try Data(part.utf8).write(to: file)
            let process = Process()
            let pipe = Pipe()
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", "gzip -c \"$0\" | wc -c", file.path]
            process.standardOutput = pipe
            try process.run()
            let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            sizes.append(try #require(Int(text.trimmingCharacters(in: .whitespacesAndNewlines))))
        }
        #expect(sizes.reduce(0, +) < 225_000, "\(sizes) of \(parts.map(\.utf8.count))")
        print("a year as parts of a page: \(sizes) of \(parts.map(\.utf8.count)) bytes")
    }
}
