import Foundation
import HealthReadings
import HomeOfDecade
import ReadingStore
import Synchronization

/// Stores some days of a home in the commits that the gateway has, in a store that `decade-fill` has filled before:
///
/// - `decade-bytes ours DIRECTORY FILLED DAYS [SEED]` prints how many readings and commits these were, and how many bytes
///   the kernel counts as written by this process.
/// - `decade-bytes clear …` is the same for a store that isn't sealed, and fills it first.
/// - `decade-bytes plan FILE FILLED DAYS [SEED]` writes down what was committed when, for others to do the same.
@main
enum DecadeBytes {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard (5...6).contains(arguments.count), let count = Int(arguments[3]), let days = Int(arguments[4]),
            let seed = arguments.count == 6 ? UInt64(arguments[5]) : 1
        else {
            FileHandle.standardError.write(Data("usage: decade-bytes ours|clear|plan PATH FILLED DAYS [SEED]\n".utf8))
            exit(64)
        }
        let filled = Filling.days(for: count)
        let home = try Home(days: filled, seed: seed)
        switch arguments[1] {
        case "plan":
            let directory = arguments[2] + ".store"
            defer { try? FileManager.default.removeItem(atPath: directory) }
            let store = try await HomeStore(directory, at: home.start, encryption: .off())
            let plan = try Plan(path: arguments[2])
            let filling = try await Filling(store, home, days: filled)
            _ = try await filling.run(report: { _ in }, committed: { try plan.note($0) })
            try await settle(store, filling.places)
            try plan.beginDays()
            _ = try await live(store, home, filling.places, from: filled, days) {
                try plan.note($0)
            } acknowledged: {
                try plan.acknowledge($0, $1)
            }
            try plan.close()
            try store.close()
        case let mode:
            if mode == "clear" {
                let store = try await HomeStore(arguments[2], at: home.start, encryption: .off())
                _ = try await Filling(store, home, days: filled).run(report: { _ in })
                try store.close()
            }
            let encryption: StoreEncryption = mode == "clear" ? .off() : .on()
            let settling = try await HomeStore(arguments[2], at: Home.end, encryption: encryption)
            try await settle(settling, try await settling.furnish())
            // What it wrote must not be folded into the file later, as if the day had written it.
            try settling.close()
            let store = try await HomeStore(arguments[2], at: Home.end, encryption: encryption)
            let places = try await store.furnish()
            let before = try written()
            let commits = Atomic(0)
            let readings = try await live(store, home, places, from: filled, days) { _ in
                commits.add(1, ordering: .relaxed)
            } acknowledged: { _, _ in
                commits.add(1, ordering: .relaxed)
            }
            // What the log holds belongs to what was written: closing folds it into the file.
            try store.close()
            let during = try written() - before
            print("{\"readings\":\(readings),\"commits\":\(commits.load(ordering: .relaxed)),\"written\":\(during)}")
        }
    }

    /// Delivers what waits everywhere: from here on each reading is acknowledged when it comes.
    private static func settle(_ store: HomeStore, _ places: [Place: DestinationKey]) async throws {
        try await store.store.setDestinationEnabled(true, Place.clinic.rawValue)
        for place in Place.allCases {
            if let key = places[place] { try await store.deliver(to: key) }
        }
    }

    /// Stores days as they come: sensors are read every five minutes, and each destination acknowledges what came in a
    /// contact in one commit.
    private static func live(
        _ store: HomeStore, _ home: Home, _ places: [Place: DestinationKey], from first: Int, _ days: Int,
        committed: @Sendable (HomeStore.Committed) throws -> Void,
        acknowledged: @Sendable (Place, Int) throws -> Void
    ) async throws -> Int {
        var readings = 0
        for day in first..<first + days {
            for visit in try home.visits(on: day, sensorsEvery: 5) {
                readings += try await store.keep(visit, keepsGrowing: true) { try committed($0) }
                for place in Place.allCases {
                    guard let key = places[place] else { continue }
                    try await store.deliver(to: key) { try acknowledged(place, $0) }
                }
            }
        }
        return readings
    }

    /// How many bytes this process has had written to disks.
    private static func written() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/io", encoding: .utf8)
        let line = text.split(separator: "\n").first { $0.hasPrefix("write_bytes: ") }
        return line.flatMap { Int($0.dropFirst("write_bytes: ".count)) } ?? 0
    }
}
