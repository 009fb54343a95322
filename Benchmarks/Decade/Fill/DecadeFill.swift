import Foundation
import HealthReadings
import HomeOfDecade
import Synchronization

/// `decade-fill DIRECTORY COUNT [SEED]` fills a store with what a home measures until it has about COUNT readings.
///
/// 10 million readings are ten years. Fewer are the same home over a shorter time: 1 million are a year, 100,000 are 37
/// days, 10,000 are four. The last day has the same date at each size. Sensors that measure each minute are read once a
/// day, so that a commit holds 1440 readings; everything else comes in the contacts and commits that the gateway has.
///
/// One that was stopped goes on with the day that it was at, which the file `filling` in the directory says. In the end it prints
/// what a reading took of the sensor that has begun its numbers anew the most often: a store that has grown must not make it more.
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
        let lastDays = min(30, max(1, days / 4))
        let transmitter = Mutex((isLast: (done?.days ?? 0) >= days - lastDays, readings: 0, processor: 0.0))
        let readings = try await Filling(filled, home, days: days).run(
            after: done ?? Filling.Progress(), report: { report($0) },
            ended: { progress in
                try Data(progress.line.utf8).write(to: place, options: .atomic)
                transmitter.withLock { $0.isLast = progress.days >= days - lastDays }
            },
            visiting: { visit, make in
                guard visit.device.address == Home.transmitter, transmitter.withLock(\.isLast) else {
                    return try await make()
                }
                let before = processor()
                let new = try await make()
                let used = processor() - before
                transmitter.withLock { ($0.readings, $0.processor) = ($0.readings + new, $0.processor + used) }
                return new
            })
        try filled.close()
        print("\(readings) readings of \(days) days in \(Int((ContinuousClock().now - begin) / .seconds(1))) s")
        let last = transmitter.withLock(\.self)
        if last.readings > 0 {
            let apiece = String(format: "%.1f", last.processor / Double(last.readings) * 1_000_000)
            print("of the last \(lastDays) days, one of the sensor with a transmitter took \(apiece) µs")
        }
    }

    /// Seconds of the processor that this process has taken.
    private static func processor() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }

    /// Tells how far it is, for whoever waits.
    private static func report(_ line: String) { FileHandle.standardError.write(Data("\(line)\n".utf8)) }
}
