import Foundation
import HealthReadings
import HomeOfDecade

/// `decade-fill DIRECTORY COUNT [SEED]` fills a store with what a home measures until it has about COUNT readings.
///
/// 10 million readings are ten years. Fewer are the same home over a shorter time: 1 million are a year, 100,000 are 37
/// days, 10,000 are four. The last day has the same date at each size. Sensors that measure each minute are read once a
/// day, so that a commit holds 1440 readings; everything else comes in the contacts and commits that the gateway has.
///
/// One that was stopped goes on with the day that it was at, which the file `filling` in the directory says.
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
        let place = URL(fileURLWithPath: arguments[1]).appendingPathComponent("filling")
        let done = (try? String(contentsOf: place, encoding: .utf8)).flatMap { Filling.Progress($0) }
        if let done { report("goes on behind day \(done.days)") }
        let readings = try await Filling(filled, home, days: days).run(
            after: done ?? Filling.Progress(), report: { report($0) },
            ended: { try Data($0.line.utf8).write(to: place, options: .atomic) })
        try filled.close()
        print("\(readings) readings of \(days) days in \(Int((ContinuousClock().now - begin) / .seconds(1))) s")
    }

    /// Tells how far it is, for whoever waits.
    private static func report(_ line: String) { FileHandle.standardError.write(Data("\(line)\n".utf8)) }
}
