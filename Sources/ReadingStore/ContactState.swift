import GRDB
import HealthReadings

/// What the journal needs to know of a contact that goes on. It can be made again from the database, but for what came
/// in the contact.
struct ContactState: Sendable {
    /// An address whose readings' ids were hashed while it was another device's.
    struct Alias: Sendable {
        var address: DeviceAddress
        /// The epoch of its numbers then.
        var ownEpoch: Int
        /// The epoch of the device it joined: while that lasts, its records are found under the old ids.
        var deviceEpoch: Int
    }

    /// What the server has as one series of samples: all of its key but the timestamp.
    struct Series: Hashable {
        /// Whose the reading is, which need not be whose the contact is.
        var user: Int64
        var kind: Int64
        var provider: String
        var type: Int64
    }

    /// The server's key of a sample: a later one with the same key replaces the earlier.
    struct SampleKey: Hashable {
        /// The destination's row.
        var destination: Int64
        var series: Series
        /// Seconds since 1970.
        var timestamp: Int64
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
    var records: [UInt16: Int64]
    /// The numbers of pruned records that came again in this contact: their contexts are left too.
    var prunedSequences: Set<UInt16>
    /// Where many readings of a series share a second: the next second that may be free, by the key they share.
    var nextFreeTimestamp: [SampleKey: Int64] = [:]
    /// Whether the database says something else of the contact or its device now.
    var isOutdated = false

    /// What is known of a contact: `known`, unless that is outdated.
    static func current(
        _ known: consuming ContactState?, _ db: Database, _ sealing: Sealing, contact: Int64
    ) throws -> ContactState {
        if let known, !known.isOutdated { return known }
        return try ContactState(db, sealing, contact: contact, after: known)
    }

    /// Makes it from the database. What came in the contact stands only in `earlier`.
    init(_ db: Database, _ sealing: Sealing, contact: Int64, after earlier: ContactState? = nil) throws {
        records = earlier?.records ?? [:]
        prunedSequences = earlier?.prunedSequences ?? []
        guard
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT c.device, c.user, c.started_at, c.zone, d.address, d.address_kind
                        FROM contact AS c JOIN device AS d ON d.key = c.device WHERE c.key = ?
                        """), arguments: [contact])
        else { throw StoreError.unknown("contact \(contact)") }
        let zoneName: String = try row.value(3)
        guard let zone = ZoneRules.named(zoneName) else { throw StoreError.unknownTimeZone(zoneName) }
        self.contact = contact
        device = try row.value(0)
        user = try row.value(1)
        slots = try SlotOwners(db, device: try row.value(0))
        startedAt = Instant(microseconds: try row.value(2))
        identity = DeviceAddress(bits: try row.value(4), kind: try row.value(5))
        description = try DeviceCache(db, sealing).description(device)
        aliases = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT address, address_kind, own_epoch, device_epoch FROM device_address
                    WHERE device = ? AND own_epoch IS NOT NULL
                    """), arguments: [device]
        ).compactMap { row in
            let (own, device): (Int, Int) = (try row.value(2), try row.value(3))
            return try DeviceAddress(bits: row.value(0), kind: row.value(1)).map {
                Alias(address: $0, ownEpoch: own, deviceEpoch: device)
            }
        }
        times = TimeResolution(
            zone: zone, epochs: try ClockEpochs(db, device: device, contactAt: startedAt, zone: zone))
    }

    /// Whose a record is; nil where people share the device and it says of none of them, or of somebody else.
    func owner(of record: Record) -> Int64? { slots.owner(of: record.userSlot, otherwise: user) }
}
