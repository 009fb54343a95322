import GRDB
import HealthReadings

/// What the journal needs to know of a contact that goes on; can be made again from the database at any time.
struct ContactState: Sendable {
    /// An address whose readings' ids were hashed while it was another device's.
    struct Alias: Sendable {
        var address: DeviceAddress
        /// The epoch of its numbers then.
        var ownEpoch: Int
        /// The epoch of the device it joined: while that lasts, its records are found under the old ids.
        var deviceEpoch: Int
    }

    let contact: Int64
    let device: Int64
    let user: Int64
    /// Whose readings are whose where people share the device.
    let slots: SlotOwners
    let startedAt: Instant
    /// The device as readings name it.
    let description: DeviceDescription
    /// The address that ids are hashed with; nil where a capture does not show it.
    let identity: DeviceAddress?
    let aliases: [Alias]
    let times: TimeResolution
    /// The readings of numbered records that came in this contact, new or not: what a context joins first.
    var records: [UInt16: Int64] = [:]
    /// The numbers of pruned records that came again in this contact: their contexts are left too.
    var prunedSequences: Set<UInt16> = []
    /// Where many readings share a second: the next second that may be free, by the one they share.
    var nextFreeTimestamp: [Int64: Int64] = [:]

    init(_ db: Database, _ sealing: Sealing, contact: Int64) throws {
        guard
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT c.device, c.user, c.started_at, c.zone, d.address, d.address_kind
                    FROM contact AS c JOIN device AS d ON d.key = c.device WHERE c.key = ?
                    """, arguments: [contact])
        else { throw StoreError.unknown("contact \(contact)") }
        let zoneName: String = row[3]
        guard let zone = ZoneRules.named(zoneName) else { throw StoreError.unknownTimeZone(zoneName) }
        self.contact = contact
        device = row[0]
        user = row[1]
        slots = try SlotOwners(db, device: row[0])
        startedAt = Instant(microseconds: row[2])
        identity = DeviceAddress(bits: row[4], kind: row[5])
        description = try DeviceCache(db, sealing).description(device)
        aliases = try Row.fetchAll(
            db,
            sql: """
                SELECT address, address_kind, own_epoch, device_epoch FROM device_address
                WHERE device = ? AND own_epoch IS NOT NULL
                """, arguments: [device]
        ).compactMap { row in
            DeviceAddress(bits: row[0], kind: row[1]).map { Alias(address: $0, ownEpoch: row[2], deviceEpoch: row[3]) }
        }
        times = TimeResolution(
            zone: zone, clock: try ClockEpochs.comparison(db, device: device, at: startedAt),
            earlier: try ClockEpochs.earlier(db, device: device, at: startedAt))
    }

    /// Whose a record is; nil where people share the device and it says of none of them, or of somebody else.
    func owner(of record: Record) -> Int64? { slots.owner(of: record.userSlot, otherwise: user) }
}

/// The spans of time in which a device's clock kept its difference.
enum ClockEpochs {
    /// Notes a reading of the clock: the epoch goes on while the rounded difference stays, else a new one begins.
    static func note(_ db: Database, device: Int64, _ comparison: ClockComparison) throws {
        let minutes = comparison.correctionSeconds / 60
        let current = try Row.fetchOne(
            db,
            sql: """
                SELECT key, correction_minutes, read_at FROM clock_epoch WHERE device = ? AND started_at <= ?
                ORDER BY started_at DESC LIMIT 1
                """, arguments: [device, comparison.readAt.microseconds])
        if let current, current[1] == minutes {
            guard (current[2] as Int64) <= comparison.readAt.microseconds else { return }
            try db.execute(
                sql: "UPDATE clock_epoch SET difference = ?, read_at = ? WHERE key = ?",
                arguments: [comparison.differenceSeconds, comparison.readAt.microseconds, current[0] as Int64])
        } else {
            try db.execute(
                sql: """
                    INSERT INTO clock_epoch (device, correction_minutes, started_at, first_difference, difference, read_at)
                    VALUES (?1, ?2, ?3, ?4, ?4, ?3)
                    """,
                arguments: [device, minutes, comparison.readAt.microseconds, comparison.differenceSeconds])
        }
    }

    /// How the clock stood in the epoch before the one that a contact falls into; nil where there was none.
    static func earlier(_ db: Database, device: Int64, at start: Instant) throws -> TimeResolution.EarlierClock? {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT e.difference, e.read_at, e.started_at FROM clock_epoch AS e
                WHERE e.device = ?1 AND e.started_at <= coalesce(
                    (SELECT max(clock_read_at) FROM contact WHERE device = ?1 AND started_at = ?2), ?2)
                ORDER BY e.started_at DESC LIMIT 2
                """, arguments: [device, start.microseconds])
        guard rows.count == 2 else { return nil }
        return TimeResolution.EarlierClock(
            ClockComparison(differenceSeconds: rows[1][0], readAt: Instant(microseconds: rows[1][1])),
            changedBy: Instant(microseconds: rows[0][2]))
    }

    /// The comparison of the epoch that a contact falls into; nil where the clock was never read until then.
    static func comparison(_ db: Database, device: Int64, at start: Instant) throws -> ClockComparison? {
        // The clock is read after the connection was made: a reading of the same contact may be a minute younger.
        try Row.fetchOne(
            db,
            sql: """
                SELECT e.difference, e.read_at FROM clock_epoch AS e WHERE e.device = ?1 AND e.started_at <= coalesce(
                    (SELECT max(clock_read_at) FROM contact WHERE device = ?1 AND started_at = ?2), ?2)
                ORDER BY e.started_at DESC LIMIT 1
                """, arguments: [device, start.microseconds]
        ).map { ClockComparison(differenceSeconds: $0[0], readAt: Instant(microseconds: $0[1])) }
    }
}
