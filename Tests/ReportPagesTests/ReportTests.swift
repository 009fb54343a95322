import Foundation
import HealthFigures
import HealthReadings
import Languages
import Testing

@testable import ReportPages

/// Reports of made-up readings, on pages, as HTML, JSON and CSV.
@Suite struct ReportTests {
    /// What a person may type, or a device may call itself.
    static let hostile = "<script>alert('x')</script>&\"\u{202E}=cmd|' /C calc'!A0"

    static func subject(_ first: String = "2026-10-19", _ last: String = "2026-11-01", person: String = "anna") throws
        -> ReportSubject
    {
        let zones = ZoneHistory(try #require(ZoneRules.named("Europe/Berlin")))
        func day(_ text: String) throws -> PersonDay {
            let date = try #require(WallTime(text + "T00:00:00")).date
            return try #require(zones.day(year: date.year, month: date.month, day: date.day))
        }
        let (begin, end) = (try day(first), try day(last))
        let period = try #require(
            FigurePeriod(from: begin, through: end, in: zones, now: Instant(seconds: 1_793_800_000)))
        return ReportSubject(person: person, period: period, version: "0.0")
    }

    static func pressures(_ subject: ReportSubject, name: String = "Cuff") -> PressureCollection {
        var collection = PressureCollection(subject.period)
        for (number, day) in subject.period.days.enumerated() {
            for (place, hour) in [7, 7, 20, 20].enumerated() {
                var point = PressurePoint(
                    time: day.start.advanced(bySeconds: Int64(hour) * 3600 + Int64(place % 2) * 60),
                    reading: ReadingID(high: UInt64(number), low: UInt64(place)),
                    systolic: ExactDecimal(significand: 120 + Int64((number * 7 + place * 5) % 31)),
                    diastolic: ExactDecimal(significand: 75 + Int64((number * 3 + place) % 17)),
                    unit: .millimetresOfMercury, pulse: ExactDecimal(significand: 60 + Int64(number % 9)),
                    status: number % 6 == 0 && place == 0 ? .irregularPulse : [],
                    device: DeviceDescription(address: nil, model: name, serial: "S1"))
                if number == 3 { point.note = hostile }
                collection.add(point)
            }
        }
        return collection
    }

    static func glucose(_ subject: ReportSubject, name: String = "Meter") -> GlucoseCollection {
        var collection = GlucoseCollection(subject.period)
        let sensor = DeviceDescription(address: nil, model: "Libre", serial: "3MH0")
        let meter = DeviceDescription(address: nil, model: name)
        var number: UInt64 = 0
        func point(
            _ time: Instant, _ value: Int64, _ source: GlucosePoint.Source, _ device: DeviceDescription
        ) -> GlucosePoint {
            number += 1
            let level: GlucosePoint.Level =
                value > 320 ? .above(limit: ExactDecimal(significand: 320)) : .number(ExactDecimal(significand: value))
            return GlucosePoint(
                time: time, reading: ReadingID(high: 1, low: number), level: level, unit: .milligramsPerDecilitre,
                source: source, device: device)
        }
        for (index, day) in subject.period.days.enumerated() {
            for step in stride(from: Int64(0), to: day.seconds, by: 900) where !(index == 4 && step < 20_000) {
                let hour = Double(step) / 3600
                let value =
                    130 + 60 * (hour / 24 * 6.28).approximateSine + Double((index * 37 + Int(step / 900) * 11) % 70)
                collection.add(
                    point(day.start.advanced(bySeconds: step), Int64(value), .history(seconds: 900), sensor))
            }
            for (place, hour) in [7, 9, 12, 14, 22].enumerated() {
                var one = point(
                    day.start.advanced(bySeconds: Int64(hour) * 3600 + 240),
                    Int64(60 + (index * 53 + place * 41) % 290),
                    .blood, meter)
                one.meal = [nil, "postprandial", "preprandial", "postprandial", "bedtime"][place]
                if index == 2 { one.note = hostile }
                collection.add(one)
            }
        }
        collection.finish()
        return collection
    }

    static func weights(_ subject: ReportSubject) -> WeightFigures {
        WeightFigures(
            subject.period.days.enumerated().filter { $0.offset % 4 != 3 }.map { number, day in
                WeightFigures.Point(
                    time: day.start.advanced(bySeconds: 7 * 3600), reading: ReadingID(high: 2, low: UInt64(number)),
                    weight: ExactDecimal(significand: 80_000 - Int64(number * 37 % 500), exponent: -3),
                    unit: .kilograms, device: DeviceDescription(address: nil, model: "Scale"))
            }, period: subject.period, unit: .kilograms)
    }

    static func reports(_ subject: ReportSubject, name: String = "Meter") -> [any Report] {
        let pressure = PressureFigures(pressures(subject, name: name), unit: .millimetresOfMercury)
        let glucose = glucose(subject, name: name)
        return [
            PressureReport(subject, pressure, before: pressure, kind: .esh, line: PressureLine("135/85")),
            GlucoseReport(
                subject, glucose, before: glucose, ranges: GlucoseRanges(.standard), unit: .milligramsPerDecilitre),
            SensorReport(
                subject, glucose, before: nil, ranges: GlucoseRanges(.standard), showsGoals: true,
                unit: .millimolesPerLitre),
            WeightReport(subject, weights(subject), before: nil, leftOut: [.excluded(.implausible): 1]),
        ]
    }

    /// What the page shows of vital signs: a night of an oximeter, temperatures with a note, and the variability of a strap and of a
    /// watch.
    static func vitals(_ subject: ReportSubject) throws -> [any Report] {
        let start = subject.period.start
        func reading(_ vital: VitalValue, _ number: UInt64, _ hours: Int64, note: String? = nil) -> Reading {
            let time = start.advanced(bySeconds: hours * 3600)
            var record = Record(value: .vital(vital))
            record.entry = note.map { EntryFacts(note: $0) }
            return Reading(
                id: ReadingID(high: 3, low: number), record: record,
                device: DeviceDescription(address: nil, model: "Meter", serial: "S3"),
                time: ResolvedTime(instant: time, basis: .reception), receivedAt: time)
        }
        func vital(
            _ kind: ReadingKind, _ quantities: [(VitalValue.Part, Int64, MeasurementUnit)], series: SampleSeries? = nil
        ) -> VitalValue {
            VitalValue(
                kind: kind, quantities.map { .init($0.0, Quantity(ExactDecimal(significand: $0.1), $0.2)) },
                series: series)
        }
        let samples = (0..<480).map { minute in
            SampleSeries.Sample(
                milliseconds: minute * 60_000, value: ExactDecimal(significand: minute == 200 ? 71 : 97))
        }
        // It began on the evening before the period.
        let night = vital(.spo2, [(.saturation, 97, .percent)], series: SampleSeries(samples))
        let readings = [
            reading(night, 1, -2),
            reading(vital(.temperature, [(.temperature, 37, .degreesCelsius)]), 2, 8, note: hostile),
            reading(vital(.temperature, [(.temperature, 39, .degreesCelsius)]), 3, 80, note: hostile),
            reading(vital(.hrv, [(.rmssd, 42, .milliseconds), (.sdnn, 58, .milliseconds)]), 4, 9),
            reading(vital(.hrv, [(.sdnn, 121, .milliseconds)]), 5, 10, note: hostile),
        ]
        return try [ReadingKind.spo2, .temperature, .hrv].map { kind -> any Report in
            var figures = try #require(VitalFigures(kind, subject.period))
            for reading in readings { figures.add(reading) }
            return VitalReport(subject, figures, before: nil)
        }
    }

    /// Reports of nothing.
    static func empty(_ subject: ReportSubject) -> [any Report] {
        [
            PressureReport(
                subject, PressureFigures(PressureCollection(subject.period), unit: .millimetresOfMercury), before: nil,
                kind: .nice, line: nil),
            GlucoseReport(
                subject, GlucoseCollection(subject.period), before: nil, ranges: GlucoseRanges(.standard),
                unit: .milligramsPerDecilitre),
            SensorReport(
                subject, GlucoseCollection(subject.period), before: nil, ranges: GlucoseRanges(.standard),
                showsGoals: false, unit: .milligramsPerDecilitre),
            WeightReport(
                subject, WeightFigures([], period: subject.period, unit: .kilograms), before: nil, leftOut: [:]),
        ]
    }

    /// Whether documents are XML, as Python's parser reads it, and what texts they hold.
    static func texts(_ documents: [String]) throws -> [[String]] {
        let process = Process()
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", "-c",
            """
            import json, sys, xml.etree.ElementTree as tree
            for text in json.load(sys.stdin):
                print(json.dumps([t.strip() for t in tree.fromstring(text).itertext() if t.strip()]))
            """,
        ]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        let octets = try JSONEncoder().encode(documents)
        let writing = Thread {
            try? input.fileHandleForWriting.write(contentsOf: octets)
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return try data.split(separator: UInt8(ascii: "\n")).map { try JSONDecoder().decode([String].self, from: $0) }
    }

    @Test("pages are SVG that a parser reads, with the number of each, the last words, and nothing beyond the paper")
    func pages() throws {
        let subject = try Self.subject()
        for paper in ReportPaper.allCases {
            for report in Self.reports(subject) + Self.empty(subject) {
                let pages = report.document.pages(paper: paper)
                let texts = try Self.texts(pages + [report.document.svg(paper: paper)])
                try #require(texts.count == pages.count + 1)
                for (place, text) in texts.dropLast().enumerated() {
                    #expect(text.last == "Page \(place + 1) of \(pages.count)")
                    #expect(text.contains { $0.hasSuffix(ReportDocument.disclaimer) })
                    for text in pages[place].matches(of: /<text x="([-0-9.]+)" y="([-0-9.]+)" font-size="([0-9.]+)"/) {
                        let (x, y) = (Double(text.1) ?? -1, Double(text.2) ?? -1)
                        #expect(x >= 0 && y >= 0 && x <= paper.size.width && y <= paper.size.height - 20)
                    }
                }
            }
        }
    }

    @Test("the same figures give the same bytes")
    func determinism() throws {
        let subject = try Self.subject()
        for (one, other) in zip(Self.reports(subject), Self.reports(subject)) {
            #expect(one.document.pages(paper: .a4) == other.document.pages(paper: .a4))
            #expect(one.document.html(paper: .a4) == other.document.html(paper: .a4))
            #expect(one.json == other.json && one.csv(.comma) == other.csv(.comma))
        }
    }

    @Test("what people type and devices call themselves is text everywhere, and no formula of a spreadsheet")
    func escaping() throws {
        let subject = try Self.subject(person: Self.hostile)
        for report in Self.reports(subject, name: Self.hostile) {
            let html = report.document.html(paper: .letter)
            #expect(!html.contains("<script") && !html.contains("\u{202E}"))
            #expect(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"))
            let pages = report.document.pages(paper: .a4)
            #expect(!pages.contains { $0.contains("<script") })
            #expect(try Self.texts(pages).count == pages.count)
        }
    }

    @Test("the pages of one picture fill it: their lengths are in its own units", arguments: [ReportPaper.a4, .letter])
    func stackedPages(paper: ReportPaper) throws {
        for report in Self.reports(try Self.subject()) {
            let (svg, count) = (report.document.svg(paper: paper), report.document.pages(paper: paper).count)
            let (width, height) = (Self.lengths(svg, "width"), Self.lengths(svg, "height"))
            let outer = try #require(svg.firstMatch(of: /<svg[^>]* viewBox="0 0 ([0-9.]+) ([0-9.]+)"/))
            #expect(width.count == count + 1 && height.count == count + 1)
            // An inner picture with a unit would be 4/3 as large as the place it has.
            #expect(width.dropFirst().allSatisfy { $0 == String(outer.1) }, "\(width)")
            let page = try #require(Double(height.last ?? ""))
            #expect(abs(page * Double(count) - (Double(outer.2) ?? 0)) < 0.5, "\(height)")
            #expect(report.document.pages(paper: paper).allSatisfy { $0.contains("pt\" viewBox") })
        }
    }

    /// A length of each picture, the outer one first.
    private static func lengths(_ svg: String, _ name: String) -> [String] {
        svg.matches(of: /<svg[^>]*>/).compactMap { match in
            let parts = match.output.split(separator: " \(name)=\"")
            return parts.count > 1 ? parts[1].split(separator: "\"").first.map(String.init) : nil
        }
    }

    @Test("without single readings a report shows no device, no list of readings, no note, and nobody who left one out")
    func withoutReadings() throws {
        var subject = try Self.subject()
        // What a chart says of a reading has its note where readings are shown.
        let shown = try Self.reports(subject) + Self.vitals(subject)
        #expect(shown.map { $0.fragment(identifier: "r") }.count { $0.contains("alert(") } == 5)
        subject.showsReadings = false
        for report in try Self.reports(subject) + Self.vitals(subject) {
            for text in [report.fragment(identifier: "r"), report.document.html(paper: .a4)] {
                for words in ["Devices", "3MH0", "Meter", "Scale", "All readings", "Libre", "alert("] {
                    #expect(!text.contains(words), "\(report.document.title): \(words)")
                }
            }
        }
    }

    @Test("a night is shown as its lowest and highest sample, and SDNN apart from RMSSD")
    func vitalSigns() throws {
        let subject = try Self.subject()
        let reports = try Self.vitals(subject)
        let night = reports[0].fragment(identifier: "r")
        _ = try Self.texts(reports.map { $0.fragment(identifier: "r") })
        #expect(night.contains("71 on 2026-10-19 at 01:20") && night.contains("in 1 reading&quot;"))
        #expect(reports[0].csv(.comma).contains("2026-10-19,1,71,97,%\r\n"))
        let hrv = reports[2]
        #expect(hrv.document.title == "Heart-rate variability (RMSSD)")
        let headings = hrv.document.blocks.compactMap { block -> String? in
            if case .heading(let text) = block { text } else { nil }
        }
        #expect(headings == ["Heart-rate variability (SDNN)"])
        #expect(
            hrv.csv(.comma).split(separator: "\r\n") == [
                "date,readings,lowest,highest,unit,measure", "2026-10-19,1,42,42,ms,rmssd",
                "2026-10-19,1,121,121,ms,sdnn",
            ])
        #expect(hrv.json["measure"] == .string("rmssd") && hrv.json["readings"] == .integer(1))
        guard case .array(let others)? = hrv.json["others"] else {
            Issue.record("no other measure")
            return
        }
        #expect(others.count == 1 && others.first?["measure"] == .string("sdnn"))
        // A watch alone.
        var figures = try #require(VitalFigures(.hrv, subject.period))
        let time = subject.period.start.advanced(bySeconds: 100)
        let quantity = Quantity(ExactDecimal(significand: 121), .milliseconds)
        figures.add(
            Reading(
                id: ReadingID(high: 3, low: 9),
                record: Record(value: .vital(VitalValue(kind: .hrv, [.init(.sdnn, quantity)]))),
                device: DeviceDescription(address: nil), time: ResolvedTime(instant: time, basis: .reception),
                receivedAt: time))
        let watch = VitalReport(subject, figures, before: nil)
        #expect(watch.document.title == "Heart-rate variability (SDNN)" && !watch.isEmpty)
        #expect(!watch.document.html(paper: .a4).contains("(RMSSD)"))
    }

    @Test("a report says how many values are a sensor's by their pace alone")
    func sensorByPace() throws {
        let subject = try Self.subject()
        var collection = GlucoseCollection(subject.period)
        for number in 0..<600 {
            var point = GlucosePoint(
                time: subject.period.start.advanced(bySeconds: Int64(number) * 300),
                reading: ReadingID(high: 4, low: UInt64(number)), level: .number(ExactDecimal(significand: 120)),
                unit: .milligramsPerDecilitre, source: .blood, device: DeviceDescription(address: nil, name: "app"))
            point.isUnspecified = true
            collection.add(point)
        }
        collection.finish()
        let ranges = GlucoseRanges(.standard)
        let sensor = SensorReport(
            subject, collection, before: nil, ranges: ranges, showsGoals: false, unit: .milligramsPerDecilitre)
        let glucose = GlucoseReport(subject, collection, before: nil, ranges: ranges, unit: .milligramsPerDecilitre)
        #expect(!sensor.isEmpty && sensor.json["sensor_by_pace"] == .integer(600))
        #expect(sensor.fragment(identifier: "r").contains("By their pace 600 values count as a sensor&#39;s"))
        #expect(glucose.isEmpty && glucose.json["sensor_by_pace"] == .integer(600))
        #expect(glucose.fragment(identifier: "r").contains("600 that have the pace of a sensor"))
        for report in Self.reports(subject)[1...2] { #expect(report.json["sensor_by_pace"] == .integer(0)) }
    }

    @Test("a figure has one type in JSON: a number, with HI and LO beside it")
    func jsonTypes() throws {
        let subject = try Self.subject()
        let (glucose, sensor) = (Self.reports(subject)[1].json, Self.reports(subject)[2].json)
        func isNumber(_ value: JSONValue?) -> Bool {
            switch value {
            case .number, .integer, .null: true
            default: false
            }
        }
        for key in ["mean", "lowest", "highest", "deviation"] { #expect(isNumber(glucose[key]), "\(key)") }
        #expect(glucose["highest_beyond"] == .string("high") && glucose["highest"] == .null)
        #expect(glucose["lowest_beyond"] == .null && glucose["lowest"] != .null)
        guard case .array(let hours)? = sensor["pattern"], case .array(let episodes)? = sensor["episodes"] else {
            Issue.record("no pattern")
            return
        }
        for hour in hours {
            for key in ["p5", "p25", "p50", "p75", "p95"] {
                #expect(isNumber(hour[key]) && hour["beyond"]?[key] != nil)
            }
        }
        for episode in episodes { #expect(isNumber(episode["extreme"])) }
    }

    @Test("numbers of a spreadsheet have its comma, and cells their quotes")
    func csv() throws {
        let subject = try Self.subject()
        let reports = Self.reports(subject)
        let weight = reports[3].csv(.semicolon).split(separator: "\r\n")
        #expect(
            weight.first == "id;time;local_date;local_time;time_zone;weight;unit;trend;trend_unit;counts;model;serial")
        #expect(weight[1].contains(";80,000;kg;80,0;kg;yes;Scale;"))
        #expect(weight[1].contains(";2026-10-19T07:00:00+02:00;2026-10-19;07:00:00;Europe/Berlin;"))
        let pressure = reports[0].csv(.comma)
        #expect(pressure.split(separator: "\r\n").count == 1 + 14 * 4)
        #expect(pressure.contains("\"<script>alert('x')</script>&\"\"\u{202E}=cmd|' /C calc'!A0\""))
        // The winter's hour, behind the change of clocks.
        #expect(pressure.contains("2026-10-25T06:00:00+01:00") || pressure.contains("2026-10-26T07:00:00+01:00"))
    }

    @Test("the numbers of HTML, pages and JSON are one")
    func sameNumbers() throws {
        let subject = try Self.subject()
        let report = Self.reports(subject)[0]
        let mean = try #require(report.json["all"])
        guard case .number(let systolic)? = mean["systolic"], case .number(let diastolic)? = mean["diastolic"] else {
            Issue.record("no mean")
            return
        }
        let texts = try Self.texts(report.document.pages(paper: .a4)).joined()
        #expect(texts.contains { $0.contains("mean \(systolic)/\(diastolic) mmHg") })
        #expect(report.document.html(paper: .a4).contains("mean \(systolic)/\(diastolic) mmHg"))
        #expect(report.json["protocol"]?["used"] == .integer(24))
    }

    @Test("nothing measured is said, and still a page")
    func nothing() throws {
        for report in Self.empty(try Self.subject()) {
            #expect(report.isEmpty && report.document.pages(paper: .a4).count == 1)
            #expect(report.document.html(paper: .a4).contains("in this period."))
        }
        for report in Self.reports(try Self.subject()) { #expect(!report.isEmpty) }
    }

    @Test("HTML has a heading, a language, a table with headings of rows and columns, and charts with names")
    func accessible() throws {
        for report in Self.reports(try Self.subject()) {
            let html = report.document.html(paper: .a4)
            #expect(html.hasPrefix("<!DOCTYPE html>") && html.contains("<html lang=\"en\" dir=\"ltr\">"))
            let charts = html.matches(of: /role="img" aria-labelledby="(chart[0-9]+)-t (chart[0-9]+)-d"/)
            #expect(!charts.isEmpty)
            for chart in charts {
                #expect(html.contains("<title id=\"\(chart.1)-t\">") && html.contains("<desc id=\"\(chart.2)-d\">"))
            }
            #expect(Set(charts.map { String($0.1) }).count == charts.count)
            #expect(html.contains("<caption>") && html.contains("scope=\"col\"") && html.contains("scope=\"row\""))
            let others = html.replacing("http://www.w3.org/2000/svg", with: "")
            #expect(!others.contains("http:") && !others.contains("https:") && !others.contains("<script"))
        }
    }

    @Test("lines of glucose and weight are drawn and named in every form, counted unrounded, and none without one")
    func ownLines() throws {
        let subject = try Self.subject()
        let glucose = Self.glucose(subject)
        let lines = try #require(GlucoseLine("4.4-8.3"))
        #expect(lines.unit == .millimolesPerLitre && GlucoseLine("80-150")?.unit == .milligramsPerDecilitre)
        for text in ["150-80", "80", "80-", "-80-150", "a-b", "80-900", "0-5"] { #expect(GlucoseLine(text) == nil) }
        for text in ["72.5", "72,5 kg", "0 kg", "72.5 st", "kg 72.5"] { #expect(WeightLine(text) == nil) }
        func reports(_ lines: GlucoseLine?, _ weight: WeightLine?) -> [any Report] {
            [
                GlucoseReport(
                    subject, glucose, before: nil, ranges: GlucoseRanges(.standard), unit: .milligramsPerDecilitre,
                    line: lines),
                SensorReport(
                    subject, glucose, before: nil, ranges: GlucoseRanges(.standard), showsGoals: false,
                    unit: .milligramsPerDecilitre, line: lines),
                WeightReport(subject, Self.weights(subject), before: nil, leftOut: [:], line: weight),
            ]
        }
        for report in reports(lines, WeightLine("160 lb")) {
            #expect(report.document.html(paper: .a4).contains("your line"))
            #expect(report.fragment(identifier: "part").contains("your line"))
        }
        for report in reports(nil, nil) {
            #expect(!report.fragment(identifier: "part").contains("your line"))
            #expect(report.json.text.contains("\"line\":null"))
        }
        // 79.26864 and 149.52948 mg/dL: 79 is below and 80 is not, 150 is above and 149 is not.
        func point(_ value: Int64) -> GlucosePoint {
            GlucosePoint(
                time: subject.period.start, reading: ReadingID(high: 9, low: UInt64(value)),
                level: .number(ExactDecimal(significand: value)), unit: .milligramsPerDecilitre, source: .blood,
                device: DeviceDescription(address: nil, model: "Meter"))
        }
        let counts = lines.count(beyond: [79, 80, 149, 150].map(point))
        #expect(counts.below == 1 && counts.above == 1)
    }

    @Test("lines and readings that are in no figure are said in the report's unit, as people read numbers of it")
    func oneUnit() throws {
        let line = try #require(GlucoseLine("80-150"))
        #expect(line.text(in: .english, unit: .millimolesPerLitre) == "4.4 to 8.3 mmol/L")
        #expect(line.text(in: .english, unit: .milligramsPerDecilitre) == "80 to 150 mg/dL")
        func glucose(_ number: Int64, _ unit: MeasurementUnit) -> Record {
            Record(value: .glucose(GlucoseValue(concentration: Quantity(ExactDecimal(significand: number), unit))))
        }
        for (record, words) in [
            (glucose(9000, .milligramsPerDecilitre), "glucose 499.6 mmol/L"),
            (glucose(9, .millimolesPerLitre), "glucose 9.0 mmol/L"),
        ] {
            #expect(record.text(in: .english, unit: .millimolesPerLitre) == words)
        }
        #expect(glucose(9000, .milligramsPerDecilitre).text(in: .english) == "glucose 9000 mg/dL")
    }

    @Test("a line is a pair of pressures, and none without one")
    func lines() {
        #expect(PressureLine("135/85")?.text == "135/85" && PressureLine("135.5/85")?.text == "135.5/85")
        for text in ["", "135", "85/135", "135/85/1", "a/b", "135/-85", "1350/85", "135/"] {
            #expect(PressureLine(text) == nil, "\(text)")
        }
    }

    @Test("text is broken and shortened to a width")
    func widths() {
        #expect(TextWidth.lines("one two three", width: 30, size: 10) == ["one", "two", "three"])
        #expect(TextWidth.lines("", width: 30, size: 10) == [""])
        #expect(TextWidth.lines(String(repeating: "x", count: 9), width: 20, size: 10).count == 3)
        #expect(TextWidth.fitted("abc", width: 100, size: 10) == "abc")
        #expect(TextWidth.fitted("abcdefghijkl", width: 40, size: 10).hasSuffix("…"))
        #expect([0.0, 1, -1.5, 2.25, 0.005, .nan].map(Markup.number) == ["0", "1", "-1.5", "2.25", "0", "0"])
    }
}

extension Double {
    /// Bhaskara's approximation: the test needs a curve, and the same one everywhere.
    fileprivate var approximateSine: Double {
        let (angle, sign) = self > 3.1415926 ? (self - 3.1415926, -1.0) : (self, 1.0)
        let part = angle * (3.1415926 - angle)
        return sign * 16 * part / (49.348 - 4 * part)
    }
}
