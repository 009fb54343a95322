import Foundation
import HealthReadings
import HomeOfDecade

/// `decade-fill DIRECTORY COUNT [SEED]` fills a store with what a home measures until it has about COUNT readings.
///
/// 10 million readings are ten years. Fewer are the same home over a shorter time: 1 million are a year, 100,000 are 37
/// days, 10,000 are four. The last day has the same date at each size. Sensors that measure each minute are read once a
/// day, so that a commit holds 1440 readings; everything else comes in the contacts and commits that the gateway has.
@main
enum DecadeFill {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard (3...4).contains(arguments.count), let count = Int(arguments[2]), count > 0,
            let seed = arguments.count == 4 ? UInt64(arguments[3]) : 1
        else {
            report("usage: decade-fill DIRECTORY COUNT [SEED]")
            exit(64)
        }
        let days = Filling.days(for: count)
        let home = try Home(days: days, seed: seed)
        let filled = try await HomeStore(arguments[1], at: home.start)
        let begin = ContinuousClock().now
        let readings = try await Filling(filled, home, days: days).run(report: { report($0) })
        try filled.close()
        print("\(readings) readings of \(days) days in \(Int((ContinuousClock().now - begin) / .seconds(1))) s")
    }

    /// Tells how far it is, for whoever waits.
    private static func report(_ line: String) { FileHandle.standardError.write(Data("\(line)\n".utf8)) }
}
