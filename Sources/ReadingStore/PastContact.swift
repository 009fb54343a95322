import GRDB
import HealthReadings

/// How a contact with a device went.
public struct PastContact: Sendable, Hashable {
    /// When the connection was made.
    public var startedAt: Instant
    /// When it was over; nil where it goes on, or the program died in it.
    public var endedAt: Instant?
    /// How it ended; nil where it has no end.
    public var summary: ContactSummary?
}

extension ReadingStore {
    /// The latest contact with each device.
    public func latestContacts() async throws -> [DeviceDescription: PastContact] {
        try await read { [sealing] db in
            let cache = DeviceCache(db, sealing)
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT device, started_at, ended_at, is_complete, error, announced, received FROM contact
                    WHERE key IN (SELECT max(key) FROM contact GROUP BY device)
                    """)
            return Dictionary(
                try rows.map { row in
                    let endedAt = (row[2] as Int64?).map(Instant.init(microseconds:))
                    let summary = ContactSummary(
                        isComplete: row[3] ?? false, error: row[4], announced: row[5], received: row[6] ?? 0)
                    return (
                        try cache.description(row[0]),
                        PastContact(
                            startedAt: Instant(microseconds: row[1]), endedAt: endedAt,
                            summary: endedAt == nil ? nil : summary)
                    )
                }
            ) { $0.startedAt < $1.startedAt ? $1 : $0 }
        }
    }

    /// When the newest contact began; nil for a store without any. Never waits for other reads.
    public func newestContact() async throws -> Instant? {
        try await readAtOnce { db in
            try Int64.fetchOne(db, sql: "SELECT max(started_at) FROM contact").map(Instant.init(microseconds:))
        }
    }
}
