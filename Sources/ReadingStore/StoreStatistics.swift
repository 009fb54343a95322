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
    /// Octets on disk, the write-ahead log included.
    public var octetsOnDisk: Int64
}

extension ReadingStore {
    /// Counts what the store holds, and how much of it one destination has; `nil`: any that was not removed. A reading
    /// counts once, however many destinations it waits for.
    ///
    /// What was counted is remembered until the next commit.
    public func statistics(of destination: DestinationKey? = nil) async throws -> StoreStatistics {
        let (commits, size) = (commitCount, octetsOnDisk())
        if var known = counted.withLock({ $0.at(commits).statistics[destination] }) {
            known.octetsOnDisk = size
            return known
        }
        let found = try await read { [self] db in
            func count(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: "SELECT count(*) FROM " + sql) ?? 0 }
            var readings: [ReadingKind: Int] = [:]
            for row in try Row.fetchAll(db, sql: "SELECT kind, count(*) FROM reading GROUP BY kind") {
                readings[try ReadingKind(code: try row.value(0))] = try row.value(1)
            }
            let place =
                "destination "
                + (destination.map { "= \($0.rawValue)" }
                    ?? "IN (SELECT key FROM destination WHERE state <> \(destination: .removed))")
            let outbox = try outboxTally(db, at: commits)
            let counts = destination.map { outbox.places[$0.rawValue] ?? .init() } ?? outbox.anywhere
            let pruned = try Row.fetchOne(
                db,
                sql: """
                    SELECT count(DISTINCT identity), max(delivered_at) FROM pruned_place
                    WHERE delivered_at IS NOT NULL AND \(place)
                    """)
            let last = [counts.lastDelivery, try pruned?.value(1)].compactMap(\.self).max()
            return StoreStatistics(
                readings: readings,
                excluded: try count("reading WHERE record_exclusion IS NOT NULL OR time_exclusion IS NOT NULL"),
                frames: try count("frame"), malformedFrames: try count("frame WHERE state = \(frame: .malformed)"),
                pendingFrames: try count("frame WHERE state = \(frame: .pending)"),
                waitingContexts: try count("waiting_context"),
                contacts: try count("contact"), devices: try count("device"),
                waiting: counts.waiting, delivered: try counts.delivered + (pruned?.value(0) ?? 0),
                refused: counts.refused, lastDelivery: last.map(Instant.init(microseconds:)), octetsOnDisk: size)
        }
        counted.withLock { counted in
            counted = counted.at(commits)
            counted.statistics[destination] = found
        }
        return found
    }

    /// How the outbox stands; it is counted once between two commits.
    ///
    /// - Parameter commits: how many commits there were before `db` began to read.
    func outboxTally(_ db: Database, at commits: Int) throws -> OutboxTally {
        if let known = counted.withLock({ $0.at(commits).outbox }) { return known }
        let tally = try OutboxTally(db)
        counted.withLock { counted in
            counted = counted.at(commits)
            counted.outbox = tally
        }
        return tally
    }

    private func octetsOnDisk() -> Int64 {
        ["", "-wal", "-shm"].reduce(0) { sum, suffix in
            var status = stat()
            let isThere = stat(directory + "/" + StoreFiles.databaseName + suffix, &status) == 0
            return sum + (isThere ? Int64(status.st_size) : 0)
        }
    }
}

/// What was counted in a store, and how many commits there were before.
struct CountedStore: Sendable {
    private var commits = 0
    var statistics: [DestinationKey?: StoreStatistics] = [:]
    var outbox: OutboxTally?

    /// The same while there were no more commits; else nothing.
    func at(_ commits: Int) -> CountedStore {
        if self.commits == commits { return self }
        var empty = CountedStore()
        empty.commits = commits
        return empty
    }
}

/// How the outbox stands, in one walk along its rows.
struct OutboxTally: Sendable {
    struct Counts: Sendable {
        fileprivate(set) var waiting = 0
        fileprivate(set) var delivered = 0
        fileprivate(set) var refused = 0
        /// In microseconds since 1970.
        fileprivate(set) var lastDelivery: Int64?
    }

    /// Where readings wait, and as whose and what.
    struct Target: Hashable, Sendable {
        var destination: Int64
        var user: Int64
        var resource: Int64
        var provider: String
    }

    /// By destination.
    private(set) var places: [Int64: Counts] = [:]
    /// At all destinations that were not removed: a reading counts once.
    private(set) var anywhere = Counts()
    /// How many readings wait, by target.
    private(set) var waiting: [Target: Int] = [:]

    init(_ db: Database) throws {
        let removed = try Set(
            Int64.fetchAll(db, sql: "SELECT key FROM destination WHERE state = \(destination: .removed)"))
        let rows = try PreparedStatement(
            db,
            "SELECT reading, destination, state, delivered_at, user, resource, provider FROM outbox ORDER BY reading")
        defer { rows.reset() }
        var (reading, states): (Int64?, OutboxStates) = (nil, [])
        // Neighbours are mostly of one target.
        var (target, count): (Target?, Int) = (nil, 0)
        while try rows.next() {
            if rows.int(0) != reading {
                anywhere.add(states)
                (reading, states) = (rows.int(0), [])
            }
            let place = rows.int(1)
            let (state, deliveredAt) = (OutboxStates(of: rows.int(2)), rows.optionalInt(3))
            places[place, default: Counts()].add(state, deliveredAt)
            if !removed.contains(place) {
                states.formUnion(state)
                anywhere.add([], deliveredAt)
            }
            guard state == .waiting else { continue }
            if target.map({ $0.isOf(rows) }) != true {
                if let target { waiting[target, default: 0] += count }
                (target, count) = (Target(rows), 0)
            }
            count += 1
        }
        anywhere.add(states)
        if let target { waiting[target, default: 0] += count }
    }
}

/// States that a reading has at several destinations.
private struct OutboxStates: OptionSet {
    let rawValue: Int64

    static let waiting = OutboxStates(of: OutboxState.waiting.rawValue)
    static let delivered = OutboxStates(of: OutboxState.delivered.rawValue)
    static let refused = OutboxStates(of: OutboxState.refused.rawValue)

    init(rawValue: Int64) { self.rawValue = rawValue }
    init(of state: Int64) { rawValue = 1 << state }
}

extension OutboxTally.Counts {
    fileprivate mutating func add(_ states: OutboxStates, _ delivery: Int64? = nil) {
        if states.contains(.waiting) { waiting += 1 }
        if states.contains(.delivered) { delivered += 1 }
        if states.contains(.refused) { refused += 1 }
        if let delivery, delivery > lastDelivery ?? .min { lastDelivery = delivery }
    }
}

extension OutboxTally.Target {
    fileprivate init(_ row: PreparedStatement) {
        self.init(destination: row.int(1), user: row.int(4), resource: row.int(5), provider: row.text(6) ?? "")
    }

    fileprivate func isOf(_ row: PreparedStatement) -> Bool {
        destination == row.int(1) && user == row.int(4) && resource == row.int(5) && row.isText(6, provider)
    }
}
