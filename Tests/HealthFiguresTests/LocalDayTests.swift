import HealthReadings
import Testing

@testable import HealthFigures

@Suite struct LocalDayTests {
    private func zone(_ name: String) throws -> ZoneRules { try #require(ZoneRules.named(name)) }

    @Test(arguments: [
        ("Europe/Berlin", 2026, 11, 22, "2026-11-21T23:00:00Z", 24),
        // Clocks go forward at 02:00 and back at 03:00.
        ("Europe/Berlin", 2026, 3, 29, "2026-03-28T23:00:00Z", 23),
        ("Europe/Berlin", 2026, 10, 25, "2026-10-24T22:00:00Z", 25),
        // Clocks went from 00:00 to 01:00: the day has no midnight.
        ("America/Sao_Paulo", 2018, 11, 4, "2018-11-04T03:00:00Z", 23),
        // Clocks went from 24:00 back to 23:00: the day before is the long one.
        ("America/Sao_Paulo", 2018, 2, 17, "2018-02-17T02:00:00Z", 25),
        ("America/Sao_Paulo", 2018, 2, 18, "2018-02-18T03:00:00Z", 24),
        // Clocks go from 01:00 back to 00:00: the day begins with the first midnight.
        ("America/Havana", 2026, 11, 1, "2026-11-01T04:00:00Z", 25),
        ("Asia/Kathmandu", 2026, 11, 22, "2026-11-21T18:15:00Z", 24),
    ]) func dayBeginsAndEndsByItsZone(
        name: String, year: Int, month: Int, day: Int, start: String, hours: Int64
    ) throws {
        let day = try #require(LocalDay(year: year, month: month, day: day, in: zone(name)))
        #expect(day.start.description == start)
        #expect(day.seconds == hours * 3600)
        #expect(day.next.start == day.end)
        #expect(day.previous.end == day.start)
    }

    @Test func halfAnHourIsADaysChangeOfClocksOnLordHowe() throws {
        let day = try #require(LocalDay(year: 2026, month: 10, day: 4, in: zone("Australia/Lord_Howe")))
        #expect(day.seconds == 23 * 3600 + 1800)
    }

    @Test func skippedDateHasNoTime() throws {
        let day = try #require(LocalDay(year: 2011, month: 12, day: 30, in: zone("Pacific/Apia")))
        #expect(day.seconds == 0)
        #expect(!day.contains(day.start))
        #expect(LocalDay(of: day.start, in: day.zone).description == "2011-12-31")
        #expect(LocalDay(of: day.start.advanced(bySeconds: -1), in: day.zone).description == "2011-12-29")
    }

    @Test func hourRepeatedBeforeMidnightBelongsToTheDayThatHadBegun() throws {
        // St John's set its clocks back from 00:01 to 23:01 of the day before.
        let zone = try zone("America/St_Johns")
        let day = try #require(LocalDay(year: 2010, month: 11, day: 7, in: zone))
        #expect(day.start.description == "2010-11-07T02:30:00Z")
        let repeated = day.start.advanced(bySeconds: 30 * 60)
        #expect(zone.wallTime(at: repeated).description == "2010-11-06T23:30:00")
        #expect(LocalDay(of: repeated, in: zone) == day)
    }

    @Test(arguments: ["Europe/Berlin", "Pacific/Apia", "America/St_Johns", "America/Sao_Paulo", "Asia/Tehran", "UTC"])
    func everyInstantBelongsToTheDayThatIsMadeOfIt(name: String) throws {
        let zone = try zone(name)
        var instant = Instant(seconds: 1_262_304_000)
        for step in 0..<2000 {
            instant = instant.advanced(bySeconds: Int64(step * 7919 % 400_000))
            let day = LocalDay(of: instant, in: zone)
            #expect(day.contains(instant), "\(instant)")
            #expect(!day.next.contains(instant) && !day.previous.contains(instant), "\(instant)")
        }
    }

    @Test func impossibleDateIsNoDay() throws {
        #expect(LocalDay(year: 2026, month: 2, day: 29, in: try zone("UTC")) == nil)
    }
}
