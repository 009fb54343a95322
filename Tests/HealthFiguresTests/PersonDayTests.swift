import HealthReadings
import Testing

@testable import HealthFigures

@Suite struct PersonDayTests {
    private func zone(_ name: String) throws -> ZoneRules { try #require(ZoneRules.named(name)) }

    private func instant(_ text: String) throws -> Instant { try #require(Instant(rfc3339: text)) }

    @Test func dayInOneZoneIsTheLocalDay() throws {
        let berlin = try zone("Europe/Berlin")
        let time = try instant("2026-10-25T12:00:00Z")
        let day = ZoneHistory(berlin).day(of: time)
        let local = LocalDay(of: time, in: berlin)
        #expect(day == PersonDay(local))
        #expect((day.date, day.start, day.end) == ("2026-10-25", local.start, local.end))
        #expect(day.contains(local.start) && !day.contains(local.end))
    }

    @Test func dayOfAFlightWestIsLonger() throws {
        let history = try #require(
            ZoneHistory([
                (Instant(microseconds: .min), try zone("Europe/Berlin")),
                (try instant("2026-11-20T12:00:00Z"), try zone("America/New_York")),
            ]))
        let day = history.day(of: try instant("2026-11-20T08:00:00Z"))
        #expect(day.date == "2026-11-20")
        #expect(day.start.description == "2026-11-19T23:00:00Z" && day.end.description == "2026-11-21T05:00:00Z")
        // In the evening there it is tomorrow in Berlin already.
        #expect(history.day(of: try instant("2026-11-21T01:00:00Z")) == day)
        #expect(try day.zone(at: instant("2026-11-20T08:00:00Z"))?.name == "Europe/Berlin")
        #expect(day.zone(at: day.end)?.name == "America/New_York")
        #expect(history.day(of: try instant("2026-11-21T05:00:00Z")).date == "2026-11-21")
    }

    @Test(arguments: [
        ["Europe/Berlin", "Asia/Tokyo"], ["Asia/Tokyo", "Pacific/Honolulu"],
        ["Pacific/Honolulu", "Pacific/Kiritimati"],
        ["Europe/Berlin", "America/New_York", "Europe/Berlin"],
    ]) func everyInstantBelongsToTheDayThatIsFoundForIt(names: [String]) throws {
        let change = try instant("2026-11-20T12:00:00Z")
        let zones = try names.enumerated().map { index, name in
            (Instant(seconds: change.seconds + Int64(index) * 40_000), try zone(name))
        }
        let history = try #require(ZoneHistory(zones))
        var byDate: [String: PersonDay] = [:]
        for minutes in stride(from: -5_000 as Int64, through: 10_000, by: 7) {
            let time = Instant(seconds: change.seconds + minutes * 60)
            let day = history.day(of: time)
            #expect(day.contains(time) && day.start <= time && time < day.end)
            #expect(day.zone(at: time)?.name == history.zone(at: time).name)
            #expect(byDate.updateValue(day, forKey: day.date).map { $0 == day } ?? true)
        }
    }

    @Test func nobodyHasNoZone() { #expect(ZoneHistory([]) == nil) }
}
