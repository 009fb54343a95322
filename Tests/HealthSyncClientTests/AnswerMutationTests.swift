import TestSupport
import Testing

@testable import HealthSyncClient

/// A short run of what `make fuzz` does for long.
@Suite("Answers of any octets") struct AnswerMutationTests {
    private static let seeds = [
        #"{"status":"ok","samples":[{"id":"A","type":"heartRate","value":72.5e0,"unit":"count/min","startDate":"2026-11-20T12:00:00Z","endDate":"2026-11-20T12:00:00.5+01:00","sourceName":"W\u00e9","metadata":{"a":"b"}}],"message":null,"hasMore":false,"returnedCount":1}"#,
        #"{"status":"ok","version":"1","deviceName":"P","enabledTypes":["steps"],"serverTime":"2026-11-20T12:00:00Z"}"#,
        #"{"token":"0123456789ABCDEF","expiresAt":"2026-12-20T12:00:00Z"}"#,
        #"{"version":"1","host":"192.168.1.2","port":4711,"code":"Ab3dE7gH","expiresAt":"2026-11-20T12:05:00Z","certificateFingerprint":"\#(String(repeating: "0a", count: 32))"}"#,
    ]

    @Test("none traps, and what is kept of a sample reads as the same sample")
    func mutations() {
        var random = SeededGenerator(seed: 20_261_120)
        let words: [[UInt8]] = [
            "{", "}", "[", "]", "\"", "\\u", "\\ud83d", "1e999", "-", "null", ",", ":", "9223372036854775808",
        ]
        .map { Array($0.utf8) }
        for _ in 0..<trials(20_000) {
            var octets = Array(Self.seeds.randomElement(using: &random).map { $0.utf8.map { $0 } } ?? [])
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let place = Int.random(in: 0...octets.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: octets.insert(UInt8.random(in: 0...255, using: &random), at: place)
                case 1 where place < octets.count: octets.remove(at: place)
                case 2: octets.insert(contentsOf: words.randomElement(using: &random) ?? [], at: place)
                default: octets.removeLast(min(octets.count, Int.random(in: 0...20, using: &random)))
                }
            }
            #expect(readHealthSyncAnswer([0] + octets) == nil)
        }
    }
}
