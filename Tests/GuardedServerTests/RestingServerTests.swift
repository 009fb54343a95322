import Foundation
import GuardedServer
import HealthReadings
import Testing

@Suite struct RestingServerTests {
    @Test("dates are written as HTTP writes them")
    func dates() throws {
        let example = try #require(Instant(rfc3339: "1994-11-06T08:49:37Z"))
        #expect(example.httpDate == "Sun, 06 Nov 1994 08:49:37 GMT")
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "UTC")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        for _ in 0..<500 {
            let seconds = Int64.random(in: -2_000_000_000...6_000_000_000)
            let expected = formatter.string(from: Date(timeIntervalSince1970: TimeInterval(seconds)))
            #expect(Instant(seconds: seconds).httpDate == expected)
        }
    }
}
