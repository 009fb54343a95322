import Foundation
import HealthReadings
import Testing

@Suite("wall time and instants")
struct TimeTests {
    private static let first: Int64 = -62_135_596_800
    private static let last: Int64 = 253_402_300_799

    /// The seconds of 400 Gregorian years, after which dates and leap days repeat.
    private static let cycle: Int64 = 146_097 * 86_400

    /// Foundation's calendar changes to the Julian before October 1582; earlier years are compared 1600 years on.
    private static func shift(year: Int) -> Int { year <= 1582 ? 1600 : 0 }

    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .iso8601)
        calendar.timeZone = .gmt
        return calendar
    }()

    @Test("plain arithmetic and Foundation's calendar agree on every date of the years 1 to 9999 that is tried")
    func calendar() {
        forAll(20_000) { generator in
            let seconds = Int64.random(in: Self.first...Self.last, using: &generator)
            let wall = WallTime(secondsSinceEpoch: seconds)
            let (date, time) = (wall.date, wall.timeOfDay)
            let shift = Self.shift(year: date.year)
            let there = Date(timeIntervalSince1970: Double(seconds + Int64(shift / 400) * Self.cycle))
            let parts = Self.calendar.dateComponents([.year, .month, .day, .hour, .minute, .second], from: there)
            let found = [date.year + shift, date.month, date.day, time.hour, time.minute, time.second]
            let expected = [parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second].map { $0 ?? -1 }
            return (found, expected, about: "\(seconds)")
        }
    }

    @Test("parts, text and seconds are one time")
    func roundTrip() {
        forAll { generator in
            let wall = WallTime(secondsSinceEpoch: Int64.random(in: Self.first...Self.last, using: &generator))
            let (date, time) = (wall.date, wall.timeOfDay)
            let made = WallTime(
                year: date.year, month: date.month, day: date.day, hour: time.hour, minute: time.minute,
                second: time.second)
            return ([made, WallTime(wall.description)], [wall, wall], about: wall.description)
        }
    }

    @Test("each month of leap and common years has its days, and no more")
    func months() {
        for year in [1, 4, 100, 400, 1582, 1900, 2000, 2023, 2024, 2100, 9999] {
            for month in 0...13 {
                let start = DateComponents(year: year + Self.shift(year: year), month: month)
                let days =
                    (1...12).contains(month)
                    ? Self.calendar.date(from: start).flatMap { Self.calendar.range(of: .day, in: .month, for: $0) }
                    : nil
                for day in 0...32 {
                    let wall = WallTime(year: year, month: month, day: day, hour: 0, minute: 0, second: 0)
                    #expect((wall != nil) == (days?.contains(day) ?? false), "\(year)-\(month)-\(day)")
                }
            }
        }
    }

    @Test(
        "text that is no time is refused",
        arguments: [
            "", "2026-11-20", "2026-11-20T12:30", "2026-13-20T12:30:00", "2026-02-29T12:30:00", "2026-11-20T24:00:00",
            "2026-11-20T12:60:00", "2026-11-20T12:30:60", "0000-11-20T12:30:00", "2026/11/20T12:30:00",
            "2026-11-20T12:30:0Z", "-026-11-20T12:30:00", "2026-11-20T12:30:00Z", "２０２６-11-20T1",
        ])
    func refused(text: String) {
        #expect(WallTime(text) == nil)
    }

    @Test("an offset in minutes crosses midnight, months and years")
    func offsets() {
        let wall = WallTime("2026-12-31T23:30:00")
        #expect(wall?.advanced(byMinutes: 60).description == "2027-01-01T00:30:00")
        #expect(wall?.advanced(byMinutes: -32_767).description == "2026-12-09T05:23:00")
        // Beyond years of four digits, where nothing that is read gets, a text is still the time's own.
        #expect(WallTime(secondsSinceEpoch: Self.last + 1).description == "10000-01-01T00:00:00")
        #expect(WallTime(secondsSinceEpoch: Self.first - 1).description == "0000-12-31T23:59:59")
        #expect(WallTime(secondsSinceEpoch: Self.first - 366 * 86_400 - 1).description == "-0001-12-31T23:59:59")
        #expect(WallTime(secondsSinceEpoch: .min).description.utf8.count > 19)
    }

    @Test("RFC 3339 comes back as it went out, to the microsecond")
    func instantRoundTrip() {
        forAll { generator in
            let seconds = Int64.random(in: Self.first...Self.last, using: &generator)
            let fraction =
                [0, 500_000, 1, 999_999, Int64.random(in: 0..<1_000_000, using: &generator)]
                .randomElement(using: &generator) ?? 0
            let instant = Instant(microseconds: seconds * 1_000_000 + fraction)
            return (Instant(rfc3339: instant.description), instant, about: instant.description)
        }
    }

    @Test("RFC 3339 in any zone is the instant Foundation finds")
    func instantAgainstFoundation() throws {
        try forAll(2000) { generator in
            let wall = WallTime(
                secondsSinceEpoch: Int64.random(in: Self.first + 4 * Self.cycle...Self.last - 86_400, using: &generator)
            )
            let (hours, minutes) = (
                Int.random(in: 0...14, using: &generator), Int.random(in: 0...59, using: &generator)
            )
            let sign = Bool.random(using: &generator) ? "+" : "-"
            let zone = hours + minutes == 0 ? "Z" : String(format: "%@%02d:%02d", sign, hours, minutes)
            let text = wall.description + zone
            let expected = try Date(text, strategy: .iso8601)
            return (Instant(rfc3339: text)?.seconds, Int64(expected.timeIntervalSince1970), about: text)
        }
    }

    @Test(
        "fractions, small letters and zones are read; digits beyond microseconds are dropped",
        arguments: [
            ("2026-11-20T13:30:00+01:00", "2026-11-20T12:30:00Z"), ("2026-11-20t12:30:00z", "2026-11-20T12:30:00Z"),
            ("2026-11-20T12:30:00.5Z", "2026-11-20T12:30:00.5Z"),
            ("2026-11-20T12:30:00.1234567Z", "2026-11-20T12:30:00.123456Z"),
            ("2026-11-20T12:30:00-05:30", "2026-11-20T18:00:00Z"), ("2026-11-20T12:30:00.000Z", "2026-11-20T12:30:00Z"),
        ])
    func instantForms(text: String, normal: String) {
        #expect(Instant(rfc3339: text)?.description == normal)
    }

    @Test(
        "text that is no instant is refused",
        arguments: [
            "", "2026-11-20T12:30:00", "2026-11-20", "2026-11-20T12:30:00.Z", "2026-11-20T12:30:00+1:00",
            "2026-11-20T12:30:00+0100", "2026-11-20T12:30:00+24:00", "2026-11-20T12:30:00+01:60",
            "2026-02-30T12:30:00Z", "2026-11-20T12:30:00Z ", "2026-11-20T12:30:00 01:00", "2026-11-20T12:30:00++1:-1",
            // In UTC they are in years that RFC 3339 can't write.
            "9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01",
        ])
    func instantRefused(text: String) {
        #expect(Instant(rfc3339: text) == nil)
    }

    @Test("before 1970, seconds round down and the text stays right")
    func negativeInstants() {
        let instant = Instant(microseconds: -1)
        #expect(instant.seconds == -1)
        #expect(instant.description == "1969-12-31T23:59:59.999999Z")
        #expect(instant.flooredToSecond == Instant(seconds: -1))
        #expect(Instant(microseconds: -1_000_000).seconds == -1)
        #expect(Instant(seconds: 10).advanced(by: .milliseconds(1500)).microseconds == 11_500_000)
        #expect(Instant(seconds: 10).advanced(bySeconds: -11) < Instant(seconds: 0))
    }

    @Test(
        "a clock's difference is rounded to whole minutes; under two minutes is none",
        arguments: [
            (0, 0), (119, 0), (-119, 0), (120, 120), (-120, -120), (149, 120), (150, 180), (-149, -120), (-150, -180),
            (2220, 2220), (2249, 2220), (2250, 2280),
        ] as [(Int64, Int64)])
    func correction(difference: Int64, correction: Int64) {
        let comparison = ClockComparison(differenceSeconds: difference, readAt: Instant(seconds: 0))
        #expect(comparison.correctionSeconds == correction)
    }
}
