import HealthReadings
import Testing

@testable import HealthFigures

/// What counts in figures at their edges: between two sensors, before a period, beyond what a meter shows, over a year.
@Suite struct FigureEdgeTests {
    private static let mass = MeasurementUnit.milligramsPerDecilitre

    private static func period(_ first: String, _ last: String) throws -> FigurePeriod {
        let zones = ZoneHistory(try #require(ZoneRules.named("Europe/Berlin")))
        func day(_ text: String) throws -> PersonDay {
            let date = try #require(WallTime(text + "T00:00:00")).date
            return try #require(zones.day(year: date.year, month: date.month, day: date.day))
        }
        let (begin, end) = (try day(first), try day(last))
        let now = try #require(Instant(rfc3339: "2027-06-01T00:00:00Z"))
        return try #require(FigurePeriod(from: begin, through: end, in: zones, now: now))
    }

    @Test(
        "what another device shows counts while the one with more values shows nothing for hours, not in an hour's gap",
        arguments: [(40..<44, 96), (40..<60, 76), (0..<96, 0)])
    func sensorsInTurn(_ missing: Range<Int>, _ overlapping: Int) throws {
        let period = try Self.period("2026-06-01", "2026-06-03")
        // A phone that shows one sensor after the other for weeks, and was away; a reader shows the second day.
        var collection = GlucoseCollection(period)
        func add(_ value: Int64, _ slot: Int, _ device: String) {
            let time = period.start.advanced(bySeconds: Int64(slot) * 900)
            collection.add(
                GlucosePoint(
                    time: time, reading: ReadingID(high: UInt64(value), low: UInt64(slot)),
                    level: .number(ExactDecimal(significand: value)), unit: Self.mass, source: .history(seconds: 900),
                    device: DeviceDescription(address: nil, name: device)))
        }
        for slot in 0..<288 where !missing.contains(slot - 96) { add(100, slot, "phone") }
        for slot in 96..<192 { add(200, slot, "reader") }
        collection.finish()
        let figures = SensorFigures(collection, ranges: GlucoseRanges(.standard), unit: Self.mass)
        #expect(figures.overlapping == overlapping)
        #expect(figures.figures.count == 288 - missing.count + 96 - overlapping)
        let isFilled = missing.count == 96 - overlapping
        #expect(figures.activeOfPeriod?.description == (isFilled ? "100.0" : "98.6"))
    }

    @Test("a sensor whose times are in whole minutes loses no value: four minutes are not the same moment")
    func wholeMinutes() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        let points = (0..<288).map { number in
            let second = Int64(number) * 300 - (number % 10 == 5 ? 60 : 0)
            return GlucosePoint(
                time: period.start.advanced(bySeconds: second), reading: ReadingID(high: 1, low: UInt64(number)),
                level: .number(ExactDecimal(significand: 120)), unit: Self.mass, source: .sensor,
                device: DeviceDescription(address: nil, name: "phone"))
        }
        let series = SensorSeries(points)
        #expect(series.values.count == 288 && series.repeated == 0 && series.seconds == 86_400)
        // What is sent twice, or within the same moment, counts once.
        let echoes = points.map { point in
            var point = point
            point.time = point.time.advanced(bySeconds: 170)
            return point
        }
        let twice = SensorSeries(points + points + echoes.prefix(20))
        #expect(twice.values.count == 288 && twice.repeated == 308)
    }

    @Test("figures of a period alone take nothing of the weighings before it, in no trend and no change")
    func ownDays() throws {
        let all = try Self.period("2026-05-01", "2026-06-30")
        let points = all.days.enumerated().map { number, day in
            WeightFigures.Point(
                time: day.start.advanced(bySeconds: 25_000), reading: ReadingID(high: UInt64(number), low: 0),
                weight: ExactDecimal(significand: 90_000 - Int64(number) * 100, exponent: -3), unit: .kilograms,
                device: DeviceDescription(address: nil))
        }
        for days in [1, 7, 14, 15, 30] {
            let period = all.last(days)
            let alone = WeightFigures(points, period: period, unit: .kilograms, isOfPeriodAlone: true)
            let inside = WeightFigures(
                points.filter { period.start <= $0.time }, period: period, unit: .kilograms)
            #expect(alone.days.map(\.trend) == inside.days.map(\.trend) && alone.days.count == days)
            #expect(abs((alone.days.first?.trend ?? 0) - (90 - Double(61 - days) * 0.1)) < 1e-9)
            #expect(alone.change == inside.change && (alone.change != nil) == (days >= 15), "\(days)")
            if let first = alone.change?.first { #expect(first >= period.days[0].date) }
            // With what lies before, the trend lags behind.
            let whole = WeightFigures(points, period: period, unit: .kilograms)
            #expect(whole.change?.first == "2026-06-02" && whole.days[0].trend > (alone.days.first?.trend ?? 100) + 0.5)
        }
    }

    @Test("a HI that a person leaves out is left out by that choice; what is no value of theirs keeps its own reason")
    func leftOut() throws {
        let period = try Self.period("2026-06-01", "2026-06-01")
        let cases: [(status: ReadingStatus, excluded: Exclusion, expected: FigureExclusion)] = [
            (.resultTooHigh, .noValue, .leftOut), (.resultTooLow, .notANumber, .leftOut),
            ([], .noValue, .excluded(.noValue)), (.resultTooHigh, .controlSolution, .excluded(.controlSolution)),
        ]
        for each in cases {
            var reading = Reading(
                id: ReadingID(high: 1, low: 1),
                record: Record(value: .glucose(GlucoseValue(concentration: nil)), status: each.status),
                device: DeviceDescription(address: nil), time: ResolvedTime(instant: period.start, basis: .corrected),
                excluded: each.excluded, receivedAt: period.start)
            #expect(reading.figureExclusion == .excluded(each.excluded))
            reading.leftOut = FigureOmission(reason: "sweet fingers", by: "command", at: period.start)
            #expect(reading.figureExclusion == each.expected)
            var collection = GlucoseCollection(period)
            let counts = collection.add(reading)
            #expect(!counts && collection.leftOut == [each.expected: 1])
        }
    }

    @Test("a year of numbers with many digits has a coefficient of variation")
    func yearOfDigits() {
        var state: UInt64 = 1
        let numbers = (0..<100_003).map { _ -> (number: ExactDecimal, unit: MeasurementUnit) in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let digits = 4_000_000_000 + Int64(state >> 29) % 22_000_000_001
            return (number: ExactDecimal(significand: digits, exponent: -8), unit: Self.mass)
        }
        #expect(MeasuredValues(numbers, base: Self.mass).variation(places: 1)?.description == "45.0")
    }
}
