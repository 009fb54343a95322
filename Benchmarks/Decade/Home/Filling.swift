import HealthReadings
import ReadingStore

/// The filling of a store with a home's days, in commits that are large but that a gateway also has after a day out of
/// reach of its sensors.
public struct Filling: Sendable {
    private let filled: HomeStore
    private let home: Home
    private let days: Int
    /// The destinations.
    public let places: [Place: DestinationKey]

    /// Begins with a store and the number of days that it is to hold.
    public init(_ filled: HomeStore, _ home: Home, days: Int) async throws {
        (self.filled, self.home, self.days) = (filled, home, days)
        places = try await filled.furnish()
    }

    /// How many days hold so many readings.
    public static func days(for readings: Int) -> Int { (readings + Home.readingsPerDay - 1) / Home.readingsPerDay }

    /// How far a store is filled.
    public struct Progress: Sendable {
        /// Days that are stored.
        public var days = 0
        /// Their readings.
        public var readings = 0

        /// Nothing is stored.
        public init() {}

        /// Reads what ``line`` gives; `nil` for anything else.
        public init?(_ line: String) {
            let numbers = line.split(separator: " ").map { Int($0) }
            guard numbers.count == 2, let days = numbers[0], let readings = numbers[1] else { return nil }
            (self.days, self.readings) = (days, readings)
        }

        /// One line for a file.
        public var line: String { "\(days) \(readings)" }
    }

    /// Stores all days, or those that are left: what a day that was begun has brought is not stored twice.
    ///
    /// - Parameters:
    ///   - done: what is stored.
    ///   - report: called now and then with how far it is.
    ///   - ended: called after each day.
    ///   - visiting: called in place of each visit, which it makes.
    ///   - committed: called after each commit that stores frames.
    /// - Returns: how many readings were stored.
    public func run(
        after done: Progress = Progress(), report: @Sendable (String) -> Void,
        ended: @Sendable (Progress) throws -> Void = { _ in },
        visiting: @escaping @Sendable (Visit, @Sendable () async throws -> Int) async throws -> Int = {
            try await $1()
        },
        committed: @Sendable (HomeStore.Committed) async throws -> Void = { _ in }
    ) async throws -> Int {
        var progress = done
        // The first fortieth of the time is pruned once it was delivered: what a device still has of it isn't stored again.
        let pruned = max(1, days / 20)
        let age = Int64(pruned + 1) * 86_400 - Int64(days) * 86_400 / 40
        for day in done.days..<max(days, done.days) {
            for visit in try home.visits(on: day, sensorsEvery: 1440) {
                progress.readings += try await visiting(visit) {
                    try await filled.keep(visit, keepsGrowing: false, committed: committed)
                }
            }
            for entry in home.entries(on: day) { try await filled.keep(entry) }
            for place in Place.allCases where takes(place, on: day) {
                if let key = places[place] { try await filled.deliver(to: key) }
            }
            if day == days / 2 { try await filled.store.setDestinationEnabled(false, Place.clinic.rawValue) }
            if day == pruned, days > 2 {
                let gone = try await filled.store.prune(olderThan: .seconds(age))
                report("pruned \(gone.readings) readings")
            }
            if day % 100 == 99 { report("day \(day + 1) of \(days), \(progress.readings) readings") }
            progress.days = day + 1
            try ended(progress)
        }
        return progress.readings
    }

    /// Whether a destination takes what it's offered on a day.
    private func takes(_ place: Place, on day: Int) -> Bool {
        switch place {
        case .archive: day < days - 1
        case .diary: day < days - max(1, min(7, days / 4))
        case .clinic: day < days / 2
        }
    }
}
