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
        let instant = Instant(seconds: seconds)
        return Reading(
            id: ReadingID(high: 1, low: UInt64(seconds)), record: Record(value: .vital(vital)),
            device: DeviceDescription(address: nil, model: "thermometer"),
            time: ResolvedTime(instant: instant, basis: .reception), excluded: excluded, receivedAt: instant)
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
            for reading in order { figures.add(reading) }
            #expect(figures.byDay.map(\.date) == ["2026-10-24", "2026-10-25", "2026-10-26"])
            #expect(figures.byDay.map(\.span.count) == [1, 2, 1])
            #expect(figures.byDay[1].span.lowest.value.description == "37.5")
            #expect(figures.byDay[1].span.highest.value.description == "37.9")
            #expect(figures.all?.count == 4 && figures.all?.lowest.value.description == "36.4")
            #expect(figures.all?.lowest.site == "ear")
            #expect(figures.leftOut == [.excluded(.implausible): 1, .excluded(.noValue): 1])
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

    @Test("kinds with a report of their own have none here")
    func kinds() throws {
        let period = try Self.period()
        #expect(VitalFigures(.glucose, period) == nil)
        #expect(VitalFigures(.weight, period) == nil)
        #expect(VitalFigures(.heartRate, period)?.all == nil)
    }
}
