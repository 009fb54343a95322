import Foundation
import GRDB
import HealthReadings

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
    public func statistics(of destination: DestinationKey? = nil) async throws -> StoreStatistics {
        let size = octetsOnDisk()
        return try await read { db in
            func count(_ sql: String) throws -> Int { try Int.fetchOne(db, sql: "SELECT count(*) FROM " + sql) ?? 0 }
            func distinct(_ column: String, _ sql: String) throws -> Int {
                try Int.fetchOne(db, sql: "SELECT count(DISTINCT \(column)) FROM " + sql) ?? 0
            }
            var readings: [ReadingKind: Int] = [:]
            for row in try Row.fetchAll(db, sql: "SELECT kind, count(*) FROM reading GROUP BY kind") {
                readings[try ReadingKind(code: try row.value(0))] = try row.value(1)
            }
            let place =
                "destination "
                + (destination.map { "= \($0.rawValue)" }
                    ?? "IN (SELECT key FROM destination WHERE state <> \(destination: .removed))")
            return StoreStatistics(
                readings: readings,
                excluded: try count("reading WHERE record_exclusion IS NOT NULL OR time_exclusion IS NOT NULL"),
                frames: try count("frame"), malformedFrames: try count("frame WHERE state = \(frame: .malformed)"),
                pendingFrames: try count("frame WHERE state = \(frame: .pending)"),
                waitingContexts: try count("waiting_context"),
                contacts: try count("contact"), devices: try count("device"),
                waiting: try distinct("reading", "outbox WHERE state = \(outbox: .waiting) AND \(place)"),
                delivered: try distinct("reading", "outbox WHERE state = \(outbox: .delivered) AND \(place)")
                    + distinct("identity", "pruned_place WHERE delivered_at IS NOT NULL AND \(place)"),
                refused: try distinct("reading", "outbox WHERE state = \(outbox: .refused) AND \(place)"),
                lastDelivery: try Int64.fetchOne(
                    db,
                    sql: """
                        SELECT max(delivered_at) FROM (
                            SELECT delivered_at FROM outbox WHERE \(place)
                            UNION ALL SELECT delivered_at FROM pruned_place WHERE \(place))
                        """
                )
                .map(Instant.init(microseconds:)),
                octetsOnDisk: size)
        }
    }

    private func octetsOnDisk() -> Int64 {
        ["", "-wal", "-shm"].reduce(0) { sum, suffix in
            var status = stat()
            let isThere = stat(directory + "/" + StoreFiles.databaseName + suffix, &status) == 0
            return sum + (isThere ? Int64(status.st_size) : 0)
        }
    }
}
