import GATTProfiles
import HealthReadings
import Testing

@Suite("Date Time 2A08")
struct DateTimeTests {
    @Test("a device's date and time is its wall time")
    func plain() throws {
        let value = try DateTime(decoding: hex("EA07 0B 14 0C 1E 05"))
        #expect(value.wallTime?.description == "2026-11-20T12:30:05")
        #expect(value.encoded == hex("EA07 0B 14 0C 1E 05"))
    }

    @Test(
        "promise 7: a date with an unknown or impossible part is no instant, and its parts stay as sent",
        arguments: [
            "0000 00 00 00 00 00", "0000 0B 14 0C 1E 05", "EA07 00 14 0C 1E 05", "EA07 0B 00 0C 1E 05",
            "EA07 0D 14 0C 1E 05", "EA07 0B 1F 0C 1E 05", "EA07 02 1D 0C 1E 05", "EA07 0B 14 18 1E 05",
            "EA07 0B 14 0C 3C 05", "EA07 0B 14 0C 1E 3C", "2D06 0B 14 0C 1E 05", "1027 0B 14 0C 1E 05",
            "FFFF FF FF FF FF FF",
        ])
    func unknown(text: String) throws {
        let value = try DateTime(decoding: hex(text))
        #expect(value.wallTime == nil)
        #expect(value.encoded == hex(text))
    }

    @Test("midnight, leap days and the format's first and last year are times")
    func edges() {
        #expect(DateTime(year: 2024, month: 2, day: 29, hour: 0, minute: 0, second: 0).wallTime != nil)
        #expect(DateTime(year: 2000, month: 2, day: 29, hour: 0, minute: 0, second: 0).wallTime != nil)
        #expect(DateTime(year: 2100, month: 2, day: 29, hour: 0, minute: 0, second: 0).wallTime == nil)
        #expect(DateTime(year: 1582, month: 1, day: 1, hour: 0, minute: 0, second: 0).wallTime != nil)
        #expect(DateTime(year: 9999, month: 12, day: 31, hour: 23, minute: 59, second: 59).wallTime != nil)
    }

    @Test("a wall time survives the way out and back; one the format cannot say becomes unknown")
    func wallTimeRoundTrip() throws {
        let (first, last) = (WallTime("1582-01-01T00:00:00"), WallTime("9999-12-31T23:59:59"))
        let (low, high) = (try #require(first).secondsSinceEpoch, try #require(last).secondsSinceEpoch)
        try forAll { generator in
            let wall = WallTime(secondsSinceEpoch: Int64.random(in: low...high, using: &generator))
            return try DateTime(decoding: DateTime(wall).encoded).wallTime == wall
        }
        #expect(DateTime(WallTime(secondsSinceEpoch: low - 1)) == .unknown)
        #expect(DateTime(WallTime(secondsSinceEpoch: high + 1)) == .unknown)
    }
}
