import Foundation
import HealthReadings

/// The `Retry-After` field (RFC 9110, 10.2.3).
package enum RetryAfter {
    /// Reads seconds, or a date.
    ///
    /// - Returns: at most a day, also for a number that no integer holds; `nil` for a time that is over (0, a date in the
    ///   past), and for anything else.
    package static func delay(_ text: String) -> Duration? {
        // Swift would also read "0x10", "inf" and "nan".
        if text.first?.isASCIIDigit == true, text.allSatisfy({ $0.isASCIIDigit || "eE+".contains($0) }),
            let seconds = Double(text)
        {
            return usable(Int64(min(seconds, 86_400)))
        }
        guard let date = httpDate(text) else { return nil }
        return usable(min(date - Int64(Date().timeIntervalSince1970), 86_400))
    }

    /// A server that asks for no wait, or whose clock is behind, says nothing of when to come back.
    private static func usable(_ seconds: Int64) -> Duration? { seconds > 0 ? .seconds(seconds) : nil }

    /// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110, 5.6.7); nil for anything else.
    private static func httpDate(_ text: String) -> Int64? {
        let parts = text.split(separator: " ")
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard parts.count == 6, parts[5] == "GMT", let month = months.firstIndex(of: String(parts[2])) else {
            return nil
        }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return WallTime("\(parts[3])-\(number)-\(parts[1])T\(parts[4])")?.secondsSinceEpoch
    }
}

extension Character {
    fileprivate var isASCIIDigit: Bool { ("0"..."9").contains(self) && isASCII }
}
