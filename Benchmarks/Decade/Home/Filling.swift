import HealthReadings
import ReadingStore

/// The filling of a store with a home's days, in commits that are large but that a gateway also has after a day out of
/// reach of its sensors.
public struct Filling {
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

    /// Stores all days.
    ///
    /// - Parameters:
    ///   - report: called now and then with how far it is.
    ///   - committed: called after each commit that stores frames.
    /// - Returns: how many readings were stored.
    public func run(
        report: @Sendable (String) -> Void, committed: @Sendable (HomeStore.Committed) async throws -> Void = { _ in }
    ) async throws -> Int {
        var readings = 0
        // The first fortieth of the time is pruned once it was delivered: what a device still has of it isn't stored again.
        let pruned = max(1, days / 20)
        let age = Int64(pruned + 1) * 86_400 - Int64(days) * 86_400 / 40
        for day in 0..<days {
            for visit in try home.visits(on: day, sensorsEvery: 1440) {
                readings += try await filled.keep(visit, keepsGrowing: false, committed: committed)
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
            if day % 100 == 99 { report("day \(day + 1) of \(days), \(readings) readings") }
        }
        return readings
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
