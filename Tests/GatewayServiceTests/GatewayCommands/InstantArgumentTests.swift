import Foundation
import HealthReadings
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("Instants as arguments")
struct InstantArgumentTests {
    private func instant(_ text: String, _ end: InstantArgument.End, _ zone: String) throws -> String {
        let rules = try #require(ZoneRules.named(zone))
        return try InstantArgument.instant(text, "--from", end: end, zone: rules).description
    }

    @Test(
        "a date is the user's day, whatever its length",
        arguments: [
            // 24, 23 and 25 hours; a day that begins at one; a midnight that comes twice.
            ("Europe/Berlin", "2026-11-20", "2026-11-19T23:00:00Z", "2026-11-20T22:59:59.999999Z"),
            ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59.999999Z"),
            ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59.999999Z"),
            ("Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T20:59:59.999999Z"),
            ("America/Havana", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T04:59:59.999999Z"),
            ("Asia/Kathmandu", "2026-01-01", "2025-12-31T18:15:00Z", "2026-01-01T18:14:59.999999Z"),
            ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00:00Z", "2026-04-05T13:29:59.999999Z"),
            ("UTC", "2024-02-29", "2024-02-29T00:00:00Z", "2024-02-29T23:59:59.999999Z"),
        ])
    func days(_ zone: String, _ date: String, _ start: String, _ end: String) throws {
        #expect(try instant(date, .start, zone) == start)
        #expect(try instant(date, .end, zone) == end)
    }

    @Test(
        "days follow each other without gap or overlap and begin where Foundation's calendar begins them",
        arguments: [
            "Europe/Berlin", "America/New_York", "America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana",
            "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns", "UTC",
        ])
    func everyDay(_ zone: String) throws {
        let rules = try #require(ZoneRules.named(zone))
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: zone))
        var previous: Instant?
        var wall = try #require(WallTime("2024-01-01T00:00:00"))
        while wall.date.year < 2028 {
            let date = String(wall.description.prefix(10))
            let start = try InstantArgument.instant(date, "--from", end: .start, zone: rules)
            let end = try InstantArgument.instant(date, "--to", end: .end, zone: rules)
            #expect(start < end, "\(date)")
            if let previous { #expect(start.microseconds == previous.microseconds + 1, "\(date)") }
            previous = end
            let noon = DateComponents(year: wall.date.year, month: wall.date.month, day: wall.date.day, hour: 12)
            let begins = calendar.startOfDay(for: try #require(calendar.date(from: noon)))
            #expect(start.seconds == Int64(begins.timeIntervalSince1970), "\(date)")
            wall = wall.advanced(byMinutes: 24 * 60)
        }
    }

    @Test(
        "an instant is itself in every zone and at either end",
        arguments: [
            ("2026-11-20T13:30:00Z", "2026-11-20T13:30:00Z"), ("2026-11-20T13:30:00+01:00", "2026-11-20T12:30:00Z"),
            ("2026-11-20t13:30:00.25-02:30", "2026-11-20T16:00:00.25Z"),
        ])
    func instants(_ text: String, _ expected: String) throws {
        for zone in ["UTC", "Pacific/Apia", "America/St_Johns"] {
            for end in [InstantArgument.End.start, .end] { #expect(try instant(text, end, zone) == expected) }
        }
    }

    @Test(
        "anything else is 64, names its flag and says what was expected and found",
        arguments: [
            "", "yesterday", "2026-02-29", "2026-13-01", "2026-1-1", "20261120", "2026-11-20T13:30:00", "2026-11-20 ",
            "2026-11-20T24:00:00Z", "2026/11/20", "٢٠٢٦-١١-٢٠", "2026-11-2O", "0000-01-01",
        ])
    func refused(_ text: String) throws {
        let rules = try #require(ZoneRules.named("Europe/Berlin"))
        let problem = #expect(throws: Problem.self) {
            try InstantArgument.instant(text, "--to", end: .end, zone: rules)
        }
        #expect(problem?.status == .usage && problem?.code == "usage")
        #expect(problem?.message.hasPrefix("--to: expected") == true && problem?.message.contains("'\(text)'") == true)
    }
}
