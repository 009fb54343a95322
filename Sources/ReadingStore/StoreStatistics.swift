import Foundation
import GRDB
import HealthReadings
import Synchronization

/// What the store holds.
public struct StoreStatistics: Sendable, Hashable {
    /// Readings, by kind; a kind without any is missing.
    public var readings: [ReadingKind: Int]
    /// Readings that are never delivered.
    public var excluded: Int
    /// Frames stored.
    public var frames: Int
    /// Frames that were no record and are kept as they came.
    public var malformedFrames: Int
    /// Frames still to be decoded.
    public var pendingFrames: Int
    /// Contexts whose record has not come.
    public var waitingContexts: Int
    /// Contacts.
    public var contacts: Int
    /// Devices.
    public var devices: Int
    /// Readings that wait for a destination. One that a destination has and another has not counts here and as delivered.
    public var waiting: Int
    /// Readings that a destination has taken, those pruned since included.
    public var delivered: Int
    /// Readings that a destination refused.
    public var refused: Int
    /// When a destination last took a reading.
    public var lastDelivery: Instant?
    /// What was let go since the store was made, because it is not to be kept for longer.
    public var letGo: [Thinning]
    /// Octets on disk, the write-ahead log included.
    public var octetsOnDisk: Int64
}

extension ReadingStore {
    /// Counts what the store holds, and how much of it one destination has; `nil`: any that was not removed. A reading
    /// counts once, however many destinations it waits for.
    ///
    /// What was counted is remembered: only what changed since is counted anew.
    public func statistics(of destination: DestinationKey? = nil) async throws -> StoreStatistics {
        let (commits, size, holds) = (commitCount, octetsOnDisk(), HoldLookup(self))
        if var known = statisticsKnown.withLock({ $0.at(commits).statistics[destination] }) {
            known.octetsOnDisk = size
            return known
        }
        let found = try await read { [self] db in
            func count(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: "SELECT count(*) FROM " + sql) ?? 0 }
            let readings = try readingTally(db, holds.rules(db), at: commits)
            let frames = try frameTally(db, at: commits)
            let counts = destination.map { readings.places[$0.rawValue] ?? .init() } ?? readings.anywhere
            let pruned = try deliveriesOfPruned(db, of: destination, at: commits)
            let last = [counts.lastDelivery, pruned.last].compactMap(\.self).max()
            return StoreStatistics(
                readings: try Dictionary(
                    uniqueKeysWithValues: readings.kinds.map { (try ReadingKind(code: $0), $1) }),
                excluded: readings.excluded, frames: frames.count, malformedFrames: frames.malformed,
                pendingFrames: frames.pending,
                waitingContexts: try count("waiting_context"),
                contacts: try contactTally(db, at: commits).count, devices: try count("device"),
                waiting: counts.waiting, delivered: counts.delivered + pruned.count,
                refused: counts.refused, lastDelivery: last.map(Instant.init(microseconds:)),
                letGo: try Thinning.all(db),
                octetsOnDisk: size)
        }
        statisticsKnown.withLock { known in
            known = known.at(commits)
            known.statistics[destination] = found
        }
        return found
    }

    /// What a destination, or any that was not removed, has of the readings that were pruned.
    func deliveriesOfPruned(
        _ db: Database, of destination: DestinationKey?, user: Int64? = nil, at commits: Int
    ) throws -> KnownPrunedDeliveries.Deliveries {
        let states = try Self.destinations(db).filter {
            destination == nil ? $0.state != .removed : $0.key == destination
        }
        let places = states.map(\.key.rawValue).sorted()
        let query = KnownPrunedDeliveries.Query(destinations: places, user: user)
        if let known = prunedDeliveries.withLock({ $0.known(query, from: commits) }) { return known }
        var found = KnownPrunedDeliveries.Deliveries()
        if let row = try Row.fetchOne(
            db,
            sql: """
                SELECT count(DISTINCT identity), max(delivered_at) FROM pruned_place AS p
                WHERE delivered_at IS NOT NULL AND \(PrunedPlaces.holdsAny(of: places))
                    AND (?1 IS NULL OR (SELECT user FROM pruned WHERE identity = p.identity) = ?1)
                """, arguments: [user])
        {
            (found.count, found.last) = (try row.value(0), try row.value(1))
        }
        prunedDeliveries.withLock { $0.keep(found, query, at: commits) }
        return found
    }

    /// Whether there is any reading, without counting them.
    public func hasReadings() async throws -> Bool {
        try await read { db in try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM reading)") ?? false }
    }

    /// How many readings there are, and how many octets they take on disk with everything beside them.
    public func size() async throws -> (readings: Int, octetsOnDisk: Int64) {
        let commits = commitCount
        let readings = try await read { [self] db in
            // Until everything was counted once, counting the rows alone takes less time.
            if countedReadings.withLock(\.isBegun) {
                return try readingTally(db, at: commits).kinds.values.reduce(0, +)
            }
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM reading") ?? 0
        }
        return (readings, octetsOnDisk())
    }

    private func octetsOnDisk() -> Int64 {
        ["", "-wal", "-shm"].reduce(0) { sum, suffix in
            var status = stat()
            let isThere = stat(directory + "/" + StoreFiles.databaseName + suffix, &status) == 0
            return sum + (isThere ? Int64(status.st_size) : 0)
        }
    }
}

/// Statistics of a store, and how many commits there were before.
struct KnownStatistics: Sendable {
    private var commits = 0
    var statistics: [DestinationKey?: StoreStatistics] = [:]

    /// The same while there were no more commits; else nothing.
    func at(_ commits: Int) -> KnownStatistics {
        if self.commits == commits { return self }
        var empty = KnownStatistics()
        empty.commits = commits
        return empty
    }
}

/// What destinations have of the readings that were pruned, counted until a commit changes it.
struct KnownPrunedDeliveries: Sendable {
    struct Deliveries: Sendable {
        var count = 0
        /// In microseconds since 1970.
        var last: Int64?
    }

    /// What was counted.
    struct Query: Hashable {
        var destinations: [Int64]
        /// Whose; `nil`: everybody's.
        var user: Int64?
    }

    /// The last commit that changed it.
    var touched = 0
    /// With how many commits there were before it was counted.
    private var counted: [Query: (deliveries: Deliveries, commits: Int)] = [:]

    /// What was counted, if that is what a reader sees.
    ///
    /// - Parameter commits: how many there were before the reader began. What others have counted since may be newer
    ///   than what it reads: a reading that was pruned meanwhile would count twice.
    func known(_ query: Query, from commits: Int) -> Deliveries? {
        guard touched <= commits, let known = counted[query], known.commits >= touched else { return nil }
        return known.deliveries
    }

    /// Keeps what was counted.
    ///
    /// - Parameter commits: how many there were before it was counted.
    mutating func keep(_ found: Deliveries, _ query: Query, at commits: Int) {
        counted = counted.filter { $0.value.commits >= touched }
        // A reader that began before the last change replaces nothing that was counted behind it.
        guard commits >= touched else { return }
        counted[query] = (found, commits)
    }
}
