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
                    let endedAt = (try row.value(2) as Int64?).map(Instant.init(microseconds:))
                    let summary = ContactSummary(
                        isComplete: try (row.value(3) as Bool?) ?? false, error: try row.value(4),
                        announced: try row.value(5),
                        received: try (row.value(6) as Int?) ?? 0)
                    return (
                        try cache.description(try row.value(0)),
                        PastContact(
                            startedAt: Instant(microseconds: try row.value(1)), endedAt: endedAt,
                            summary: endedAt == nil ? nil : summary)
                    )
                }
            ) { $0.startedAt < $1.startedAt ? $1 : $0 }
        }
    }

    /// When the newest contact began; nil for a store without any. Contacts that were set aside do not count.
    /// Never waits for other reads.
    public func newestContact() async throws -> Instant? {
        try await readAtOnce { db in
            let (key, after) = try Self.contactsSetAside(db) ?? (0, Int64.max)
            // By the index, which has the contacts of each device by their time: an old store has tens of thousands, and
            // whoever asks for a health check or adds a reading waits.
            return try Int64.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT max((SELECT started_at FROM contact WHERE device = device.key AND (key > ? OR started_at <= ?)
                            ORDER BY started_at DESC LIMIT 1))
                        FROM device
                        """),
                arguments: [key, after]
            ).map(Instant.init(microseconds:))
        }
    }

    /// Sets aside the contacts that began after an instant: the gateway's clock was wrong when they did, and they prove
    /// nothing about it. Their readings, and those readings' times, stay as they are.
    ///
    /// What else was noted in that future counts from now on, and not only once it has come: when a sensor that is read
    /// again started, the user's time zone, when a destination was switched on. How a device's clock differed from the wrong
    /// one is forgotten.
    ///
    /// - Returns: how many contacts are set aside.
    public func setContactsAside(after instant: Instant) async throws -> Int {
        let present = min(now(), instant)
        return try await write(.setting) { db in
            let newest = try Int64.fetchOne(db, sql: "SELECT max(key) FROM contact") ?? 0
            try Self.set(db, Self.asideSetting, lines: [String(newest), String(instant.microseconds)])
            try Self.bringBack(db, from: instant, to: present)
            return try Int.fetchOne(
                db, sql: "SELECT count(*) FROM contact WHERE started_at > ?", arguments: [instant.microseconds]) ?? 0
        } committed: { [self] _ in
            // One that goes on may have a comparison that is forgotten now.
            outdateContacts()
        }
    }

    /// Brings what was noted in the future back to the present.
    private static func bringBack(_ db: Database, from instant: Instant, to present: Instant) throws {
        let (after, now) = (instant.microseconds, present.microseconds)
        try db.execute(sql: "DELETE FROM clock_epoch WHERE started_at > ?", arguments: [after])
        try db.execute(
            sql: "UPDATE clock_epoch SET difference = first_difference, read_at = started_at WHERE read_at > ?",
            arguments: [after])
        for (table, column) in [
            // The next scan says when it started.
            ("sensor_start", "scanned_at"), ("device", "last_seen"), ("device_address", "last_seen"),
            ("destination", "enabled_at"),
        ] {
            try db.execute(
                sql: "UPDATE \(table) SET \(column) = ? WHERE \(column) > ?", arguments: [now, after])
        }
        let zones = try Row.fetchAll(
            db, sql: "SELECT user, zone, max(begins_at) FROM user_zone WHERE begins_at > ? GROUP BY user",
            arguments: [after])
        try db.execute(sql: "DELETE FROM user_zone WHERE begins_at > ?", arguments: [after])
        for row in zones {
            let (user, zone): (Int64, String) = (try row.value(0), try row.value(1))
            try db.execute(
                sql: "INSERT OR REPLACE INTO user_zone (user, begins_at, zone) VALUES (?, ?, ?)",
                arguments: [user, now, zone])
        }
    }

    /// How many contacts are set aside, and when the last of them began; nil: none.
    public func contactsSetAside() async throws -> (count: Int, newest: Instant)? {
        try await read { db in
            guard let aside = try Self.contactsSetAside(db),
                let row = try Row.fetchOne(
                    db, sql: "SELECT count(*), max(started_at) FROM contact WHERE key <= ? AND started_at > ?",
                    arguments: [aside.key, aside.after]),
                let newest = try row.value(1) as Int64?
            else { return nil }
            return (try row.value(0), Instant(microseconds: newest))
        }
    }

    private static let asideSetting = "clock.contacts_aside"

    /// Contacts up to this key that began after this instant, in microseconds, are set aside.
    static func contactsSetAside(_ db: Database) throws -> (key: Int64, after: Int64)? {
        let numbers = try lines(db, asideSetting).compactMap { Int64($0) }
        return numbers.count == 2 ? (numbers[0], numbers[1]) : nil
    }
}
