import Foundation
import HealthFigures
import HealthReadings
import HomeOfDecade
import ReadingStore

/// `decade-calls DIRECTORY MIDDLE DAY` measures calls of the library on a store that `decade-fill` has filled.
///
/// It prints a line of JSON: seconds of the processor for one call, the median of five series. MIDDLE is the time that the page of 10,000
/// ends at and DAY the first second of the day that is summed up, both in seconds since 1970. What it enters stays in the store.
@main
enum DecadeCalls {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let middle = Int64(arguments[2]), let day = Int64(arguments[3]) else {
            FileHandle.standardError.write(Data("usage: decade-calls DIRECTORY MIDDLE DAY\n".utf8))
            exit(64)
        }
        let now = Instant(seconds: Int64(Date.now.timeIntervalSince1970))
        let home = try await HomeStore(arguments[1], at: now)
        let store = home.store
        guard let anna = try await store.user(Home.people.anna) else { throw CallError.noHome }
        let zones = try await store.zones(of: anna.key)
        guard let summed = ZoneHistory(zones)?.day(of: Instant(seconds: day)) else { throw CallError.noHome }

        var found: [String: Double] = [:]
        found["newest 100"] = try await seconds { _ in
            guard try await store.query(ReadingQuery(limit: 100)).readings.count == 100 else { throw CallError.noHome }
        }
        found["page of 10,000 from the middle"] = try await seconds { _ in
            _ = try await store.query(ReadingQuery(to: Instant(seconds: middle), limit: 10_000))
        }
        let query = ReadingQuery(
            from: summed.start, to: Instant(microseconds: summed.end.microseconds - 1), limit: 10_000, user: anna.key)
        found["a daily summary"] = try await seconds { _ in
            var summary = DaySummary(summed)
            for reading in try await store.query(query).readings { summary.add(reading) }
            _ = summary.figures(of: .glucose)
        }
        // Few: what is entered stays, and the smallest store has no more than 10,000.
        found["adding a reading"] = try await seconds(atMost: 40) { round in
            let at = now.advanced(bySeconds: -172_800 + round * 13)
            let entry = EntryText(kind: "temperature", value: "36.\(round % 10)", unit: "°C", time: at.description)
            try await store.enter(ManualEntry(entry, person: Home.people.anna, zones: zones, now: now))
        }
        try home.close()
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        print(String(decoding: try encoder.encode(found), as: UTF8.self))
    }

    /// The processor's seconds of one round.
    ///
    /// - Parameters:
    ///   - most: how many rounds a series has at most.
    ///   - work: is given the round's number.
    private static func seconds(
        atMost most: Double = .infinity, _ work: @Sendable (Int64) async throws -> Void
    ) async throws -> Double {
        var round: Int64 = 0
        try await work(round)
        var series: [Double] = []
        for _ in 0..<5 {
            let before = processor()
            var count = 0.0
            while count == 0 || (processor() - before < 0.1 && count < most) {
                round += 1
                try await work(round)
                count += 1
            }
            series.append((processor() - before) / count)
        }
        return series.sorted()[2]
    }

    /// Seconds of the processor that this process has taken.
    private static func processor() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }
}

/// Why nothing could be measured.
private enum CallError: Error {
    /// The directory has no store that `decade-fill` has filled.
    case noHome
}
