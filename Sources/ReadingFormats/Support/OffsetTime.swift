import HealthReadings

extension Instant {
    /// RFC 3339 with the offset of a zone: `2026-11-22T08:15:00+01:00`.
    ///
    /// - Parameters:
    ///   - zone: the zone whose offset is shown. An offset that has seconds, as before 1972, is cut to minutes, and the text
    ///     still names this instant.
    ///   - fractionDigits: the digits of the second's fraction, 0 … 6; what doesn't fit is cut off.
    /// - Returns: `nil` outside the years 1 to 9999.
    func rfc3339(in zone: ZoneRules, fractionDigits: Int = 0) -> String? {
        rfc3339(offsetSeconds: zone.offsetSeconds(at: self), fractionDigits: fractionDigits)
    }

    /// RFC 3339 with an offset in seconds east of UTC; as ``rfc3339(in:fractionDigits:)``.
    func rfc3339(offsetSeconds: Int64, fractionDigits: Int = 0) -> String? {
        let offsetMinutes = offsetSeconds / 60
        let wall = WallTime(secondsSinceEpoch: seconds).advanced(byMinutes: Int(offsetMinutes))
        guard (1...9999).contains(wall.date.year) else { return nil }
        var text = wall.description
        if fractionDigits > 0 {
            text += "." + String(microseconds - seconds * 1_000_000, digits: 6).prefix(fractionDigits)
        }
        let size = offsetMinutes.magnitude
        return text + (offsetMinutes < 0 ? "-" : "+") + Self.pair(size / 60) + ":" + Self.pair(size % 60)
    }

    /// RFC 3339 in UTC with six digits of the second's fraction: `2026-11-22T07:15:00.000000Z`; nil outside the years 1 to 9999.
    var rfc3339WithMicroseconds: String? {
        let wall = WallTime(secondsSinceEpoch: seconds)
        guard (1...9999).contains(wall.date.year) else { return nil }
        return wall.description + "." + String(microseconds - seconds * 1_000_000, digits: 6) + "Z"
    }

    private static func pair(_ number: UInt64) -> String { number < 10 ? "0\(number)" : "\(number)" }
}

extension [UInt8] {
    /// Appends an instant with milliseconds and an offset: `2026-11-22T08:15:00.000+01:00`; `Z` for UTC.
    ///
    /// - Returns: `false` outside the years 1 to 9999, and nothing was appended.
    mutating func append(_ instant: Instant, offsetMinutes: Int) -> Bool {
        let wall = WallTime(secondsSinceEpoch: instant.seconds).advanced(byMinutes: offsetMinutes)
        guard (1...9999).contains(wall.date.year) else { return false }
        append(wall)
        append(UInt8(ascii: "."))
        let milliseconds = (instant.microseconds - instant.seconds * 1_000_000) / 1000
        append(UInt8(ascii: "0") + UInt8(milliseconds / 100))
        append(pair: UInt64(milliseconds % 100))
        guard offsetMinutes != 0 else {
            append(UInt8(ascii: "Z"))
            return true
        }
        append(UInt8(ascii: offsetMinutes < 0 ? "-" : "+"))
        append(pair: UInt64(offsetMinutes.magnitude) / 60)
        append(UInt8(ascii: ":"))
        append(pair: UInt64(offsetMinutes.magnitude) % 60)
        return true
    }

    private mutating func append(pair number: UInt64) {
        if number < 10 { append(UInt8(ascii: "0")) }
        append(digits: Int64(number))
    }
}
