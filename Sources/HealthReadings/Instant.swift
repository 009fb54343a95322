/// A point in time in UTC: microseconds since 1970-01-01T00:00:00Z, leap seconds not counted (POSIX time).
///
/// Captures carry microseconds, so readings and frames do too; a device's own clock has whole seconds. Arithmetic that
/// would leave the range, 292,000 years to both sides, stays at its limit.
public struct Instant: Sendable, Hashable, Comparable {
    /// Microseconds since the POSIX epoch; negative before it.
    public var microseconds: Int64

    /// The first and last second of the years 1 to 9999, which RFC 3339 can write.
    package static let calendar: ClosedRange<Int64> = -62_135_596_800...253_402_300_799

    /// Makes an instant from microseconds since the POSIX epoch.
    public init(microseconds: Int64) { self.microseconds = microseconds }

    /// Makes an instant from whole seconds since the POSIX epoch.
    public init(seconds: Int64) {
        microseconds = Self.saturated(seconds.multipliedReportingOverflow(by: 1_000_000), seconds)
    }

    /// Whole seconds since the POSIX epoch, rounded down.
    public var seconds: Int64 { microseconds.flooredDivision(by: 1_000_000) }

    /// The same instant without its fraction of a second (rounded down).
    public var flooredToSecond: Instant { Instant(seconds: seconds) }

    /// This instant moved by a number of seconds.
    public func advanced(bySeconds seconds: Int64) -> Instant {
        let duration = Instant(seconds: seconds).microseconds
        return Instant(microseconds: Self.saturated(microseconds.addingReportingOverflow(duration), duration))
    }

    /// This instant moved by a duration, to the microsecond.
    public func advanced(by duration: Duration) -> Instant {
        let parts = duration.components
        let fraction = parts.attoseconds / 1_000_000_000_000
        let moved = advanced(bySeconds: parts.seconds)
        return Instant(microseconds: Self.saturated(moved.microseconds.addingReportingOverflow(fraction), fraction))
    }

    /// The result of an operation, or the limit in the direction of its operand.
    private static func saturated(_ result: (partialValue: Int64, overflow: Bool), _ operand: Int64) -> Int64 {
        guard result.overflow else { return result.partialValue }
        return operand < 0 ? .min : .max
    }

    /// Orders by time.
    public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.microseconds < rhs.microseconds }
}

extension Instant: CustomStringConvertible {
    /// RFC 3339 in UTC: `2026-11-20T12:30:00Z`, with a fraction only where there is one (`…00.25Z`).
    public var description: String {
        let remainder = microseconds % 1_000_000
        let fraction = remainder < 0 ? remainder + 1_000_000 : remainder
        let clock = WallTime(secondsSinceEpoch: seconds).description
        guard fraction != 0 else { return clock + "Z" }
        var digits = String(fraction, digits: 6)
        while digits.last == "0" { digits.removeLast() }
        return clock + "." + digits + "Z"
    }

    /// Reads RFC 3339 (`2026-11-20T13:30:00+01:00`, `…T12:30:00.5Z`); digits beyond microseconds are dropped.
    ///
    /// Returns nil for anything else: for impossible dates, and for those that are outside of the years 1 to 9999 in UTC.
    public init?(rfc3339 text: some StringProtocol) {
        let octets = Array(text.utf8)
        guard octets.count >= 20, let wall = WallTime(String(decoding: octets[0..<19], as: UTF8.self)) else {
            return nil
        }
        var rest = octets[19...]
        var fraction: Int64 = 0
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard !digits.isEmpty else { return nil }
            for place in 0..<6 {
                fraction = fraction * 10 + (place < digits.count ? Int64(digits[digits.startIndex + place] - 48) : 0)
            }
            rest = rest[digits.endIndex...]
        }
        let zone = String(decoding: rest, as: UTF8.self)
        var offset: Int64 = 0
        if zone != "Z" && zone != "z" {
            let parts = zone.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
            guard let sign = zone.first, sign == "+" || sign == "-", parts.count == 2,
                parts.allSatisfy({ $0.utf8.count == 2 }),
                let hours = UInt8(parts[0]), let minutes = UInt8(parts[1]), hours < 24, minutes < 60
            else { return nil }
            offset = (Int64(hours) * 60 + Int64(minutes)) * (sign == "+" ? 60 : -60)
        }
        let seconds = wall.secondsSinceEpoch - offset
        guard Self.calendar.contains(seconds) else { return nil }
        self.init(microseconds: seconds * 1_000_000 + fraction)
    }
}
