import HealthReadings
import Testing

@testable import HealthFigures

/// Extremes of vital signs by day and by parts of a period.
@Suite struct VitalFiguresTests {
    /// The days around the end of summer time in Berlin: the second has 25 hours.
    private static func period() throws -> FigurePeriod {
        let zones = ZoneHistory(try #require(ZoneRules.named("Europe/Berlin")))
        let first = try #require(zones.day(year: 2026, month: 10, day: 24))
        let last = try #require(zones.day(year: 2026, month: 10, day: 26))
        let now = Instant(seconds: 1_793_800_000)
        return try #require(FigurePeriod(from: first, through: last, in: zones, now: now))
    }

    private static func reading(
        _ seconds: Int64, _ value: String, _ unit: MeasurementUnit = .degreesCelsius, excluded: Exclusion? = nil
    ) throws -> Reading {
        let number = try #require(ExactDecimal(value[...]))
        let vital = VitalValue(kind: .temperature, [.init(.temperature, Quantity(number, unit))], site: "ear")
        return Self.reading(vital, at: Instant(seconds: seconds), excluded: excluded, model: "thermometer")
    }

    private static func reading(
        _ vital: VitalValue, at instant: Instant, excluded: Exclusion? = nil, model: String = "ring"
    ) -> Reading {
        Reading(
            id: ReadingID(high: 1, low: UInt64(instant.seconds)), record: Record(value: .vital(vital)),
            device: DeviceDescription(address: nil, model: model),
            time: ResolvedTime(instant: instant, basis: .reception), excluded: excluded, receivedAt: instant)
    }

    /// What an oximeter records in a night: a saturation a minute, and the mean of all.
    private static func night(from begin: Instant, _ values: [Int64?], excluded: Exclusion? = nil) throws -> Reading {
        let samples = values.enumerated().map { minute, value in
            SampleSeries.Sample(
                milliseconds: minute * 60_000, value: value.map { ExactDecimal(significand: $0) })
        }
        let numbers = values.compactMap { $0.map { ExactDecimal(significand: $0) } }
        let mean = try #require(ExactDecimal.mean(of: numbers, places: 1))
        let vital = VitalValue(
            kind: .spo2, [.init(.saturation, Quantity(mean, .percent))], series: SampleSeries(samples))
        return reading(vital, at: begin, excluded: excluded)
    }

    private static func variability(
        _ quantities: [(VitalValue.Part, Int64)], at instant: Instant
    ) -> Reading {
        let measured = quantities.map {
            VitalValue.Measured($0.0, Quantity(ExactDecimal(significand: $0.1), .milliseconds))
        }
        return reading(VitalValue(kind: .hrv, measured), at: instant, model: "strap")
    }

    @Test(
        "days are the person's, also with 25 hours; the extremes don't depend on the order; other units are converted")
    func days() throws {
        let period = try Self.period()
        let second = period.days[1]
        #expect(second.seconds == 25 * 3600)
        let readings = try [
            Self.reading(period.start.seconds, "36.5"), Self.reading(second.end.seconds - 1, "37.9"),
            Self.reading(second.start.seconds, "99.5", .degreesFahrenheit), Self.reading(second.end.seconds, "36.4"),
            Self.reading(second.start.seconds + 60, "41", excluded: .implausible),
            // Outside of the period.
            Self.reading(period.end.seconds, "39.9"),
        ]
        for order in [readings, readings.reversed()] {
            var figures = try #require(VitalFigures(.temperature, period))
            let taken = order.map { figures.add($0) }
            #expect(taken.count { !$0 } == 1)
            #expect(figures.byDay.map(\.date) == ["2026-10-24", "2026-10-25", "2026-10-26"])
            #expect(figures.byDay.map(\.span.count) == [1, 2, 1])
            #expect(figures.byDay[1].span.lowest.value.description == "37.5")
            #expect(figures.byDay[1].span.highest.value.description == "37.9")
            #expect(figures.all?.count == 4 && figures.all?.lowest.value.description == "36.4")
            #expect(figures.all?.lowest.site == "ear")
            #expect(figures.leftOut == [.excluded(.implausible): 1])
            // Two of them are a second apart.
            #expect(figures.byPart.count == 3 && figures.devices.count == 1)
        }
    }

    @Test("a value a second takes no more room than the parts of the period")
    func bounded() throws {
        let period = try Self.period()
        var figures = try #require(VitalFigures(.temperature, period))
        for second in stride(from: Int64(0), to: 73 * 3600, by: 60) {
            figures.add(try Self.reading(period.start.seconds + second, second % 7200 == 0 ? "38.5" : "36.6"))
        }
        #expect(figures.byPart.count == VitalFigures.partCount)
        #expect(figures.byPart.map(\.count).reduce(0, +) == 73 * 60)
        #expect(figures.all?.highest.time == period.start)
    }

    @Test("a night has its extremes on each of its days, also if it began before the period, and counts once")
    func nights() throws {
        let period = try Self.period()
        // From 22:00 on the evening before the period to 08:00: 65 before midnight, 71 behind it.
        var first = [Int64?](repeating: 97, count: 600)
        for (minute, value) in [(60, 65), (150, 71), (151, nil), (400, 99)] as [(Int, Int64?)] { first[minute] = value }
        // From 22:00 on the first day: 88 on this day, 80 on the next.
        var second = [Int64?](repeating: 96, count: 600)
        for (minute, value) in [(30, 88), (300, 80)] as [(Int, Int64)] { second[minute] = value }
        let begin = Instant(seconds: period.start.seconds - 2 * 3600)
        let later = Instant(seconds: period.days[0].end.seconds - 2 * 3600)
        let nights = try [Self.night(from: begin, first), Self.night(from: later, second)]
        for order in [nights, nights.reversed()] {
            var figures = try #require(VitalFigures(.spo2, period))
            let taken = order.map { figures.add($0) }
            #expect(taken == [true, true])
            let all = try #require(figures.all)
            #expect(all.count == 2 && all.lowest.value.description == "71" && all.highest.value.description == "99")
            #expect(all.lowest.time == begin.advanced(bySeconds: 150 * 60) && all.lowest.reading == nights[0].id)
            #expect(figures.byDay.map(\.date) == ["2026-10-24", "2026-10-25"])
            #expect(figures.byDay.map(\.span.count) == [2, 1])
            #expect(figures.byDay.map(\.span.lowest.value.description) == ["71", "80"])
            #expect(figures.byDay.map(\.span.highest.value.description) == ["99", "96"])
            // Each night goes through many parts, and is one reading in each.
            #expect(figures.byPart.count > 80 && figures.byPart.allSatisfy { $0.count == 1 })
            let lows = figures.byPart.filter { $0.lowest.value.description == "71" }
            #expect(lows.map(\.highest.value.description) == ["97"])
            #expect(figures.leftOut.isEmpty)
        }
        // What has nothing in the period is none of it, and is not left out either.
        var none = try #require(VitalFigures(.spo2, period))
        let before = Instant(seconds: period.start.seconds - 12 * 3600)
        let others = try [
            Self.night(from: before, first), Self.night(from: begin, first, excluded: .otherUser),
        ].map { none.add($0) }
        #expect(others == [false, false] && none.all == nil && none.leftOut.isEmpty && none.devices.isEmpty)
        let excluded = try none.add(Self.night(from: later, second, excluded: .otherUser))
        #expect(excluded && none.leftOut == [.excluded(.otherUser): 1])
    }

    @Test("RMSSD and SDNN are two sets: a reading is in that of RMSSD, and in SDNN's only without it")
    func variabilities() throws {
        let period = try Self.period()
        func time(_ hour: Int64) -> Instant { period.start.advanced(bySeconds: hour * 3600) }
        let strap = Self.variability([(.rmssd, 40), (.sdnn, 60)], at: time(1))
        // The order in which a device sends them is no matter.
        let turned = Self.variability([(.sdnn, 70), (.rmssd, 30)], at: time(2))
        let watch = Self.variability([(.sdnn, 120)], at: time(3))
        var figures = try #require(VitalFigures(.hrv, period))
        for reading in [watch, strap, turned] {
            figures.add(reading)
            #expect(VitalFigures.counts(reading))
        }
        #expect(figures.part == .rmssd && figures.all?.count == 2)
        #expect(figures.all?.lowest.value.description == "30" && figures.all?.highest.value.description == "40")
        let measured = figures.measured
        #expect(measured.map(\.part) == [.rmssd, .sdnn] && measured.map { $0.all?.count } == [2, 1])
        #expect(measured[1].byDay.map(\.span.highest.value.description) == ["120"] && measured[1].byPart.count == 1)
        #expect(figures.leftOut.isEmpty)
        var alone = try #require(VitalFigures(.hrv, period))
        alone.add(watch)
        #expect(alone.all == nil && alone.measured.map(\.part) == [.sdnn])
        #expect(!VitalFigures.counts(Self.variability([], at: time(4))))
    }

    @Test("kinds with a report of their own have none here")
    func kinds() throws {
        let period = try Self.period()
        #expect(VitalFigures(.glucose, period) == nil)
        #expect(VitalFigures(.weight, period) == nil)
        #expect(VitalFigures(.heartRate, period)?.all == nil)
    }
}
