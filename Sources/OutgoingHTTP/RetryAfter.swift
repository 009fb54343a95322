import Foundation
import HealthReadings

/// The `Retry-After` field (RFC 9110, 10.2.3).
package enum RetryAfter {
    /// Reads seconds, or a date.
    ///
    /// - Returns: at most a day, also for a number that no integer holds; `nil` for a time that is over (0, a date in the
    ///   past), and for anything else.
    package static func delay(_ text: String) -> Duration? {
        delay(text, now: Int64(Date().timeIntervalSince1970))
    }

    /// - Parameter now: seconds since 1970.
    package static func delay(_ text: String, now: Int64) -> Duration? {
        // Swift would also read "0x10", "inf" and "nan".
        if text.first?.isASCIIDigit == true, text.allSatisfy({ $0.isASCIIDigit || "eE+".contains($0) }),
            let seconds = Double(text)
        {
            return usable(Int64(min(seconds, 86_400)))
        }
        guard let date = httpDate(text, now: now) else { return nil }
        return usable(min(date - now, 86_400))
    }

    /// A server that asks for no wait, or whose clock is behind, says nothing of when to come back.
    private static func usable(_ seconds: Int64) -> Duration? { seconds > 0 ? .seconds(seconds) : nil }

    /// Seconds since 1970 of a date in one of the three forms of RFC 9110, 5.6.7; `nil` for anything else.
    ///
    /// | form | example |
    /// |---|---|
    /// | IMF-fixdate | `Sun, 06 Nov 1994 08:49:37 GMT` |
    /// | of RFC 850 | `Sunday, 06-Nov-94 08:49:37 GMT` |
    /// | of `asctime` | `Sun Nov  6 08:49:37 1994` |
    private static func httpDate(_ text: String, now: Int64) -> Int64? {
        let parts = text.split(separator: " ").map(String.init)
        switch (parts.count, parts.last) {
        case (6, "GMT"): return seconds(year: parts[3], month: parts[2], day: parts[1], time: parts[4])
        case (4, "GMT"):
            let date = parts[1].split(separator: "-", omittingEmptySubsequences: false).map(String.init)
            guard date.count == 3, date[2].count == 2, date[2].allSatisfy(\.isASCIIDigit),
                let century = Int(Instant(seconds: now).description.prefix(2))
            else { return nil }
            // What would be more than 50 years ahead is the latest year behind it with these digits.
            return [century + 1, century, century - 1].lazy
                .compactMap { seconds(year: "\($0)" + date[2], month: date[1], day: date[0], time: parts[2]) }
                .first { $0 <= now + 50 * 31_556_952 }
        case (5, _):
            let day = parts[2].count == 1 ? "0" + parts[2] : parts[2]
            return seconds(year: parts[4], month: parts[1], day: day, time: parts[3])
        default: return nil
        }
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func seconds(year: String, month: String, day: String, time: String) -> Int64? {
        guard let month = months.firstIndex(of: month) else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return WallTime("\(year)-\(number)-\(day)T\(time)")?.secondsSinceEpoch
    }
}

extension Character {
    fileprivate var isASCIIDigit: Bool { ("0"..."9").contains(self) && isASCII }
}
