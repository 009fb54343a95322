import Foundation
import HealthReadings
import TestSupport
import Testing

@testable import HealthFigures

/// The figures of thousands of random series beside those of a reference in Python.
@Suite struct FigureReferenceTests {
    private static func answers(_ cases: [JSONValue]) throws -> [[String: Any]] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "FigureReference/figures.py")
        let process = Process()
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", file.path]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        let lines = cases.map(\.text).joined(separator: "\n")
        // More than a pipe holds.
        let writing = Thread {
            try? input.fileHandleForWriting.write(contentsOf: Data(lines.utf8))
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return try data.split(separator: UInt8(ascii: "\n")).map {
            try #require(try JSONSerialization.jsonObject(with: $0) as? [String: Any])
        }
    }

    private static let zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
    /// A day before each change of clocks in Berlin, New York or Lord Howe, and a day of none.
    private static let starts: [Int64] = [1_774_652_400, 1_772_859_600, 1_775_219_400, 1_792_792_800, 1_782_000_000]

    private struct Frame {
        var period: FigurePeriod
        var zone: ZoneRules
        var members: [JSONValue.Member]
    }

    private static func frame(_ days: Int, _ now: Int64?, _ generator: inout SystemRandomNumberGenerator) throws
        -> Frame
    {
        let zone = try #require(ZoneRules.named(zones.randomElement(using: &generator) ?? ""))
        let history = ZoneHistory(zone)
        let first = history.day(of: Instant(seconds: starts.randomElement(using: &generator) ?? 0))
        var last = LocalDay(of: first.start, in: zone)
        for _ in 1..<days { last = last.next }
        let end = now.map { last.end.seconds - $0 } ?? last.end.seconds + 1000
        let period = try #require(
            FigurePeriod(from: first, through: PersonDay(last), in: history, now: Instant(seconds: end)))
        return Frame(
            period: period, zone: zone,
            members: [
                .init("zone", .string(zone.name)), .init("first", .string(first.date)),
                .init("last", .string(last.description)), .init("now", .integer(end)),
            ])
    }

    private static let sensor = DeviceDescription(address: nil, model: "libre", serial: "A")

    private static func point(
        _ number: Int, _ second: Int64, _ unit: MeasurementUnit, _ source: GlucosePoint.Source,
        around: Double, _ generator: inout SystemRandomNumberGenerator
    ) -> GlucosePoint {
        let level: GlucosePoint.Level
        switch Int.random(in: 0..<60, using: &generator) {
        case 0: level = .above(limit: Bool.random(using: &generator) ? ExactDecimal(significand: 400) : nil)
        case 1: level = .below(limit: nil)
        default:
            let milligrams = max(20, around + Double.random(in: -60...60, using: &generator))
            let isMolar = unit == .millimolesPerLitre
            let shown = ExactDecimal(
                significand: Int64(isMolar ? milligrams / 1.80156 : milligrams), exponent: isMolar ? -1 : 0)
            level = .number(
                Int.random(in: 0..<4, using: &generator) == 0 ? finer(shown, isMolar: isMolar, &generator) : shown)
        }
        return GlucosePoint(
            time: Instant(seconds: second), reading: ReadingID(high: 0, low: UInt64(number)), level: level, unit: unit,
            source: source, device: Self.sensor)
    }

    /// A number with more digits than devices show: what a program made of a number in the other unit, or about that.
    private static func finer(
        _ number: ExactDecimal, isMolar: Bool, _ generator: inout SystemRandomNumberGenerator
    ) -> ExactDecimal {
        let factors = ["18.0156", "18.01558800000541", "18.018", "18.0182", "18"].compactMap { ExactDecimal($0) }
        let factor = factors.randomElement(using: &generator) ?? number
        let places = Int16.random(in: 1...3, using: &generator) + (isMolar ? 1 : 0)
        let converted: ExactDecimal?
        if isMolar {
            // Around the numbers of mg/dL.
            let origin = ExactDecimal(significand: Int64(number.approximation * 18))
            converted = origin.divided(by: factor, places: places)
        } else {
            let origin = ExactDecimal(significand: Int64(number.approximation / 1.8), exponent: -1)
            converted = origin.multiplied(by: factor, places: places)
        }
        guard var found = converted else { return number }
        if Bool.random(using: &generator) { found.significand += Int64.random(in: -3...3, using: &generator) }
        return found
    }

    private static func document(_ point: GlucosePoint) -> JSONValue {
        var (level, limit, value) = ("number", JSONValue.null, JSONValue.null)
        switch point.level {
        case .number(let number): value = .string(number.description)
        case .above(let number): (level, limit) = ("hi", .optional(number?.description))
        case .below(let number): (level, limit) = ("lo", .optional(number?.description))
        }
        var source = "blood"
        if case .history = point.source { source = "history" }
        if case .trend = point.source { source = "trend" }
        if case .sensor = point.source { source = "sensor" }
        if case .scan = point.source { source = "scan" }
        return .object([
            "time": .integer(point.time.seconds), "id": .integer(Int64(point.reading.low)), "level": .string(level),
            "limit": limit, "value": value, "unit": .string(point.unit.symbol), "source": .string(source),
        ])
    }

    private static func glucose(
        _ frame: Frame, _ points: [GlucosePoint], _ unit: MeasurementUnit, _ preset: GlucoseRanges.Preset, sensor: Bool
    ) -> JSONValue {
        .object(
            [
                .init("kind", .string("glucose")), .init("unit", .string(unit.symbol)),
                .init("preset", .string(preset.rawValue)), .init("sensor", .bool(sensor)),
                .init("points", .array(points.map(document))),
            ] + frame.members)
    }

    private static func text(_ value: GlucosePercentile?) -> String? {
        switch value {
        case .number(let number, _): number.description
        case .above: "HI"
        case .below: "LO"
        case nil: nil
        }
    }

    private static func check(_ own: String?, _ theirs: Any?, _ name: String) {
        #expect(own == theirs as? String, "\(name): \(own ?? "nil"), expected \(theirs ?? "nil")")
    }

    private static func check(_ shares: PercentShares?, _ theirs: Any?, _ name: String) {
        let own = shares.map { shares in
            Dictionary(uniqueKeysWithValues: shares.shares.map { ($0.key.name, $0.value.text) })
        }
        let expected = (theirs as? [String: String])?.filter { own?[$0.key] != nil || $0.value != "0 %" }
        #expect(own == expected, "\(name)")
        if let shares { #expect(shares.shares.values.reduce(0) { $0 + $1.percent } == 100) }
    }

    @Test("finger sticks in two units, with HI and LO: every figure is that of the reference")
    func blood() throws {
        var generator = SystemRandomNumberGenerator()
        var (cases, own): ([JSONValue], [(GlucoseFigures, [GlucosePoint])]) = ([], [])
        for _ in 0..<trials(2000) {
            let frame = try Self.frame(Int.random(in: 1...20, using: &generator), nil, &generator)
            let around = Double.random(in: 50...260, using: &generator)
            let points = (0..<Int.random(in: 0...90, using: &generator)).map { number in
                Self.point(
                    number,
                    Int64.random(in: frame.period.start.seconds..<frame.period.end.seconds, using: &generator),
                    Bool.random(using: &generator) ? .milligramsPerDecilitre : .millimolesPerLitre, .blood,
                    around: around, &generator)
            }
            let preset = [GlucoseRanges.Preset.standard, .older, .pregnancy].randomElement(using: &generator) ?? .older
            let unit: MeasurementUnit = Bool.random(using: &generator) ? .milligramsPerDecilitre : .millimolesPerLitre
            cases.append(Self.glucose(frame, points, unit, preset, sensor: false))
            own.append(
                (GlucoseFigures(points, ranges: GlucoseRanges(preset), unit: unit, period: frame.period), points))
        }
        let answers = try Self.answers(cases)
        try #require(answers.count == cases.count)
        for ((figures, points), answer) in zip(own, answers) {
            #expect(figures.count == answer["count"] as? Int && figures.daysWithReadings == answer["days"] as? Int)
            Self.check(figures.mean?.description, answer["mean"], "mean")
            Self.check(figures.deviation?.description, answer["deviation"], "deviation")
            Self.check(figures.variation?.description, answer["variation"], "variation")
            Self.check(figures.shares, answer["shares"], "shares")
            let percentiles = Percentiles(points)
            let divisor = MeasuredValues.factor(from: figures.unit, to: .milligramsPerDecilitre)?.ratio ?? Ratio(1)
            for (place, percent) in [0, 5, 25, 50, 75, 95, 100].enumerated() where !points.isEmpty {
                let shown: String? =
                    switch percentiles.value(percent) {
                    case .number(let ratio): ratio.over(divisor)?.rounded(figures.unit.usualPlaces)?.description
                    case .above: "HI"
                    case .below: "LO"
                    case nil: nil
                    }
                Self.check(shown, (answer["percentiles"] as? [Any])?[place], "percentile \(percent)")
            }
        }
    }

    @Test(
        "sensors with history, trend or scans, gaps and repeated values, over changes of clocks: every figure is the reference's",
        arguments: [false, true])
    func sensors(hasScans: Bool) throws {
        var generator = SystemRandomNumberGenerator()
        var (cases, own): ([JSONValue], [SensorFigures]) = ([], [])
        for _ in 0..<trials(100) {
            let days = Int.random(in: 1...16, using: &generator)
            let frame = try Self.frame(
                days, Bool.random(using: &generator) ? Int64.random(in: 1...50_000, using: &generator) : nil, &generator
            )
            var (points, second, around): ([GlucosePoint], Int64, Double) = (
                [], frame.period.start.seconds + 17, Double.random(in: 60...240, using: &generator)
            )
            let end = min(frame.period.end, frame.period.now).seconds
            let gaps = Int.random(in: 20...400, using: &generator)
            // Of a LibreView file: history at a pace of its own, and scans among it as often as somebody likes.
            let pace: Int64 = hasScans && Bool.random(using: &generator) ? 300 : 900
            let (history, others): (GlucosePoint.Source, GlucosePoint.Source) =
                hasScans ? (.sensor, .scan) : (.history(seconds: 900), .trend(seconds: 60))
            let scans = hasScans ? Int.random(in: 0...3, using: &generator) : 0
            let isWithoutHistory = hasScans && Int.random(in: 0..<20, using: &generator) == 0
            let unit: MeasurementUnit = Bool.random(using: &generator) ? .milligramsPerDecilitre : .millimolesPerLitre
            while second < end - 16 * 60 {
                around = min(300, max(45, around + Double.random(in: -20...20, using: &generator)))
                if !isWithoutHistory {
                    points.append(Self.point(points.count, second, unit, history, around: around, &generator))
                }
                for _ in 0..<scans where Bool.random(using: &generator) {
                    let late = Int64.random(in: 0..<900, using: &generator)
                    points.append(
                        Self.point(points.count, second + late, unit, others, around: around + 90, &generator))
                }
                if Int.random(in: 0..<30, using: &generator) == 0 {
                    points.append(
                        Self.point(
                            points.count, second + Int64.random(in: 0..<900, using: &generator), unit,
                            isWithoutHistory ? others : history, around: around, &generator))
                }
                second +=
                    Int.random(in: 0..<gaps, using: &generator) == 0
                    ? Int64.random(in: 900...40_000, using: &generator)
                    : pace - Int64.random(in: 0...10, using: &generator)
            }
            for minute in 0..<40 where end - Int64(minute) * 60 > frame.period.start.seconds + 1 {
                points.append(
                    Self.point(
                        points.count, end - 1 - Int64(minute) * 60, unit, others, around: around,
                        &generator
                    ))
            }
            points.shuffle(using: &generator)
            let preset = [GlucoseRanges.Preset.standard, .older, .pregnancy].randomElement(using: &generator) ?? .older
            let shown: MeasurementUnit = Bool.random(using: &generator) ? .milligramsPerDecilitre : .millimolesPerLitre
            cases.append(Self.glucose(frame, points, shown, preset, sensor: true))
            own.append(
                SensorFigures(
                    SensorSeries(points), ranges: GlucoseRanges(preset), unit: shown, period: frame.period))
        }
        let answers = try Self.answers(cases)
        try #require(answers.count == cases.count)
        for (figures, answer) in zip(own, answers) {
            #expect(figures.figures.count == answer["count"] as? Int && figures.daysWithData == answer["days"] as? Int)
            Self.check(figures.figures.mean?.description, answer["mean"], "mean")
            Self.check(figures.figures.deviation?.description, answer["deviation"], "deviation")
            Self.check(figures.figures.variation?.description, answer["variation"], "variation")
            Self.check(figures.timeInRanges, answer["time_in_ranges"], "time in ranges")
            Self.check(figures.activeOfPeriod?.description, answer["active_of_period"], "active of the period")
            Self.check(figures.activeOfSpan?.description, answer["active_of_span"], "active of the span")
            Self.check(figures.sufficiency.rawValue, answer["sufficiency"], "sufficiency")
            Self.check(figures.managementIndicator?.percent.description, answer["gmi"], "GMI")
            Self.check(figures.managementIndicator?.millimolesPerMole.description, answer["gmi_ifcc"], "GMI, IFCC")
            let episodes = figures.episodes.map { "\($0.begin.seconds) \($0.end.seconds) \($0.worst.name)" }
            let expected = (answer["episodes"] as? [[Any]])?.map { "\($0[0]) \($0[1]) \($0[2])" }
            #expect(episodes == expected)
            let pattern = answer["pattern"] as? [String: [Any]]
            #expect((figures.pattern == nil) == (pattern == nil))
            for hour in figures.pattern?.hours ?? [] {
                for percent in [5, 25, 50, 75, 95] {
                    Self.check(
                        Self.text(hour.percentiles[percent]), pattern?[String(percent)]?[hour.hour],
                        "\(percent) at \(hour.hour)")
                }
            }
        }
    }

    @Test("what is a sensor's by its pace is the reference's, whatever gaps and repeats there are")
    func paces() throws {
        var generator = SystemRandomNumberGenerator()
        var (cases, own): ([JSONValue], [[Int]]) = ([], [])
        for _ in 0..<trials(500) {
            var (candidates, documents): ([SensorPace.Candidate], [JSONValue]) = ([], [])
            for device in 0..<Int64.random(in: 1...3, using: &generator) {
                var second = Int64.random(in: 0...1000, using: &generator)
                for _ in 0..<Int.random(in: 0...60, using: &generator) {
                    let gaps: [Int64] = [0, 20, 31, 300, 300, 300, 300, 300, 300, 900, 900, 960, 960, 961, 2000]
                    second += gaps.randomElement(using: &generator) ?? 0
                    let place = candidates.count
                    candidates.append(
                        .init(
                            place: place, device: DeviceDescription(address: nil, model: "\(device)"),
                            time: Instant(seconds: second)))
                    documents.append(
                        .object([
                            "id": .integer(Int64(place)), "device": .integer(device), "time": .integer(second),
                        ]))
                }
            }
            cases.append(.object(["kind": .string("pace"), "values": .array(documents)]))
            own.append(SensorPace.places(of: candidates.shuffled(using: &generator)))
        }
        let answers = try Self.answers(cases)
        try #require(answers.count == cases.count)
        for (places, answer) in zip(own, answers) { #expect(places == answer["sensors"] as? [Int]) }
    }

    @Test("extremes of nights and single readings by day are those of the reference, over changes of clocks")
    func vitals() throws {
        var generator = SystemRandomNumberGenerator()
        var (cases, own): ([JSONValue], [VitalFigures]) = ([], [])
        for _ in 0..<trials(300) {
            let frame = try Self.frame(Int.random(in: 1...6, using: &generator), nil, &generator)
            var figures = try #require(VitalFigures(.spo2, frame.period))
            var documents: [JSONValue] = []
            for number in 0..<Int.random(in: 0...12, using: &generator) {
                let begin = Int64.random(
                    in: frame.period.start.seconds - 50_000..<frame.period.end.seconds + 50_000, using: &generator)
                let count = Bool.random(using: &generator) ? 1 : Int.random(in: 2...200, using: &generator)
                let values = (0..<count).map { _ in Int64.random(in: 60...100, using: &generator) }
                let samples = values.enumerated().map { place, value in
                    SampleSeries.Sample(
                        milliseconds: place * 180_000, value: ExactDecimal(significand: value))
                }
                let time = Instant(seconds: begin)
                let main = Quantity(ExactDecimal(significand: values[0]), .percent)
                let vital = VitalValue(
                    kind: .spo2, [.init(.saturation, main)], series: count == 1 ? nil : SampleSeries(samples))
                figures.add(
                    Reading(
                        id: ReadingID(high: 0, low: UInt64(number)), record: Record(value: .vital(vital)),
                        device: Self.sensor, time: ResolvedTime(instant: time, basis: .reception), receivedAt: time))
                documents.append(
                    .array(
                        values.enumerated().map { place, value in
                            .array([.integer(begin + Int64(place) * 180), .integer(value)])
                        }))
            }
            cases.append(
                .object(
                    [.init("kind", .string("vital")), .init("readings", .array(documents))] + frame.members))
            own.append(figures)
        }
        let answers = try Self.answers(cases)
        try #require(answers.count == cases.count)
        for (figures, answer) in zip(own, answers) {
            #expect((figures.all?.count ?? 0) == answer["count"] as? Int && figures.leftOut.isEmpty)
            let days = figures.byDay.map { date, span in
                "\(date) \(span.count) \(span.lowest.value) \(span.highest.value)"
            }
            let expected = (answer["days"] as? [[Any]])?.map { "\($0[0]) \($0[1]) \($0[2]) \($0[3])" }
            #expect(days == expected)
        }
    }

    @Test("blood pressures of two cuffs in two units, over changes of clocks: sessions, windows and protocol means")
    func pressures() throws {
        var generator = SystemRandomNumberGenerator()
        var (cases, own): ([JSONValue], [PressureFigures]) = ([], [])
        let cuffs = ["a", "b"].map { DeviceDescription(address: nil, model: $0) }
        for _ in 0..<trials(1500) {
            let frame = try Self.frame(Int.random(in: 1...12, using: &generator), nil, &generator)
            var collection = PressureCollection(frame.period)
            var documents: [JSONValue] = []
            for number in 0..<Int.random(in: 0...50, using: &generator) {
                let cuff = cuffs.randomElement(using: &generator) ?? cuffs[0]
                let unit: MeasurementUnit =
                    Int.random(in: 0..<4, using: &generator) == 0 ? .kilopascal : .millimetresOfMercury
                func digits(_ range: ClosedRange<Int64>) -> ExactDecimal {
                    let value = Int64.random(in: range, using: &generator)
                    return unit == .kilopascal
                        ? ExactDecimal(significand: value * 10 / 75, exponent: -1)
                        : ExactDecimal(significand: value * 10 + (value.isMultiple(of: 3) ? 5 : 0), exponent: -1)
                }
                let second =
                    number > 0 && Bool.random(using: &generator)
                    ? (collection.points.last?.time.seconds ?? 0) + Int64.random(in: 30...700, using: &generator)
                    : Int64.random(in: collection.start.seconds..<collection.end.seconds, using: &generator)
                let point = PressurePoint(
                    time: Instant(seconds: min(second, collection.end.seconds - 1)),
                    reading: ReadingID(high: 0, low: UInt64(number)), systolic: digits(95...180),
                    diastolic: digits(55...110), unit: unit,
                    pulse: Bool.random(using: &generator)
                        ? ExactDecimal(significand: Int64.random(in: 45...120, using: &generator)) : nil, device: cuff)
                collection.add(point)
                documents.append(
                    .object([
                        "time": .integer(point.time.seconds), "id": .integer(Int64(number)),
                        "systolic": .string(point.systolic.description),
                        "diastolic": .string(point.diastolic.description),
                        "unit": .string(unit.symbol), "pulse": .optional(point.pulse?.description),
                        "device": .optional(cuff.model),
                    ]))
            }
            let unit: MeasurementUnit = Bool.random(using: &generator) ? .kilopascal : .millimetresOfMercury
            cases.append(
                .object(
                    [
                        .init("kind", .string("pressure")), .init("unit", .string(unit.symbol)),
                        .init("points", .array(documents)),
                    ] + frame.members))
            own.append(PressureFigures(collection, unit: unit))
        }
        let answers = try Self.answers(cases)
        try #require(answers.count == cases.count)
        func check(_ means: PressureMeans, _ theirs: Any?) {
            let theirs = theirs as? [String: Any]
            #expect(means.count == theirs?["count"] as? Int)
            Self.check(means.systolic?.description, theirs?["systolic"], "systolic")
            Self.check(means.diastolic?.description, theirs?["diastolic"], "diastolic")
            Self.check(means.pulse?.description, theirs?["pulse"], "pulse")
            Self.check(means.systolicDeviation?.description, theirs?["systolic_deviation"], "deviation")
            Self.check(means.diastolicDeviation?.description, theirs?["diastolic_deviation"], "deviation")
        }
        for (figures, answer) in zip(own, answers) {
            #expect(figures.days.count == answer["days"] as? Int)
            #expect(figures.days.flatMap(\.sessions).count == answer["sessions"] as? Int)
            check(figures.all, answer["all"])
            for window in DayWindow.allCases { check(figures.means(window), answer[window.rawValue]) }
            for kind in PressureProtocol.allCases {
                let (mean, theirs) = (figures.mean(kind), answer[kind.rawValue] as? [String: Any])
                check(mean.means, theirs)
                #expect(mean.isSufficient == theirs?["sufficient"] as? Bool)
                #expect(mean.left.ofFirstDay == theirs?["first_day"] as? Int)
                #expect(mean.left.beforeDays == theirs?["before"] as? Int)
                #expect(mean.means.count + mean.left.ofFirstDay + mean.left.beforeDays == figures.all.count)
            }
        }
    }

    @Test("the trend of weights is the reference's, whatever days are missing")
    func weights() throws {
        var generator = SystemRandomNumberGenerator()
        var (cases, own): ([JSONValue], [WeightFigures]) = ([], [])
        for _ in 0..<500 {
            let frame = try Self.frame(Int.random(in: 2...60, using: &generator), nil, &generator)
            // Longer than what counts for the trend, too.
            let runIn = Bool.random(using: &generator) ? Int64.random(in: 0...900, using: &generator) * 86_400 : 0
            let points = (0..<Int.random(in: 0...200, using: &generator)).map { number in
                WeightFigures.Point(
                    time: Instant(
                        seconds: Int64.random(
                            in: frame.period.start.seconds - runIn..<frame.period.end.seconds, using: &generator)),
                    reading: ReadingID(high: 0, low: UInt64(number)),
                    weight: ExactDecimal(
                        significand: Int64.random(in: 70_000...90_000, using: &generator), exponent: -3),
                    unit: .kilograms, device: Self.sensor)
            }
            cases.append(
                .object(
                    [
                        .init("kind", .string("weight")),
                        .init(
                            "points",
                            .array(
                                points.map {
                                    .object([
                                        "time": .integer($0.time.seconds), "value": .string($0.weight.description),
                                    ])
                                })),
                    ] + frame.members))
            own.append(WeightFigures(points, period: frame.period, unit: .kilograms))
        }
        let answers = try Self.answers(cases)
        try #require(answers.count == cases.count)
        for (figures, answer) in zip(own, answers) {
            let trends = answer["trends"] as? [Double] ?? []
            #expect(trends.count == figures.days.count)
            for (day, trend) in zip(figures.days, trends) { #expect(abs(day.trend - trend) < 1e-9) }
            let change = answer["change"] as? [String: Any]
            #expect(figures.change?.first == change?["first"] as? String)
            #expect(figures.change?.last == change?["last"] as? String)
            if let own = figures.change?.perWeek.approximation, let theirs = change?["per_week"] as? Double {
                #expect(abs(own - theirs) < 0.0051)
            }
        }
    }
}
