import GRDB
import HealthReadings

/// A device as the store knows it.
public struct StoredDevice: Sendable, Hashable {
    /// What it says of itself.
    public var description: DeviceDescription
    /// All its addresses, the one seen last first.
    public var addresses: [DeviceAddress]
    /// Whether a bond exists.
    public var isPaired: Bool
    /// Whether a bonded reconnect and an encrypted operation have succeeded.
    public var isProven: Bool
    /// Whether its person was erased: it is not read before it is paired anew.
    public var isBarred: Bool
    /// When a contact with it last began.
    public var lastSeen: Instant?
    /// Battery, 0 … 100 per cent, as last read.
    public var batteryPercent: UInt8?
    /// The newest comparison of its clock with ours.
    public var clock: ClockComparison?
    /// How fast its clock gains (positive) or loses, in parts per million, since it was last set; nil before a day of comparisons.
    public var driftPartsPerMillion: Double?
    /// The number of the newest record of its current sequence epoch.
    public var lastSequence: UInt16?
    /// The current sequence epoch, from 0.
    public var sequenceEpoch: Int
    /// How many readings are stored of it.
    public var readings: Int
    /// The client's id of the user it is assigned to; nil for the current user, empty if that row was changed outside of
    /// this program.
    public var user: String?
}

extension ReadingStore {
    /// The devices known, in the order they were first seen; not those whose first pairing came to nothing.
    public func devices() async throws -> [StoredDevice] {
        let commits = commitCount
        return try await read { [self] db in try devices(db, at: commits).map(\.device) }
    }

    /// The same with the devices' keys.
    ///
    /// - Parameter commits: how many commits there were before `db` began to read.
    func devices(_ db: Database, at commits: Int) throws -> [(key: Int64, device: StoredDevice)] {
        let cache = DeviceCache(db, sealing)
        let counts = try readingsByDevice(db, at: commits)
        return try Row.fetchAll(
            db,
            sql: """
                SELECT d.key, d.is_paired, d.is_proven, d.last_seen, d.battery_percent, d.sequence_epoch,
                    u.client_user_id, d.is_barred, u.key, u.tag
                FROM device AS d LEFT JOIN user AS u ON u.key = d.user
                WHERE d.last_seen IS NOT NULL OR d.paired_at IS NOT NULL ORDER BY d.key
                """
        ).map { row in
            let key: Int64 = try row.value(0)
            let epochs = try ClockEpochs(db, device: key, zone: nil)
            let user = try (row.value(8) as Int64?).map { user in
                let name: String = try row.value(6)
                return try PersonTag.person(user, clientUserID: name).holds(row.octets(9), sealing) ? name : ""
            }
            return (
                key,
                StoredDevice(
                    description: try cache.description(key), addresses: try Self.addresses(db, device: key),
                    isPaired: try row.value(1), isProven: try row.value(2), isBarred: try row.value(7),
                    lastSeen: (try row.value(3) as Int64?).map(Instant.init(microseconds:)),
                    batteryPercent: (try row.value(4) as Int64?).map { UInt8(truncatingIfNeeded: $0) },
                    clock: epochs.newest,
                    driftPartsPerMillion: epochs.driftPartsPerMillion,
                    lastSequence: try Self.newestRecord(db, device: key, epoch: try row.value(5))?.sequence,
                    sequenceEpoch: try row.value(5),
                    readings: counts[key] ?? 0, user: user)
            )
        }
    }

    static func addresses(_ db: Database, device: Int64) throws -> [DeviceAddress] {
        try Row.fetchAll(
            try db.cachedStatement(
                sql: """
                    SELECT address, address_kind FROM device_address WHERE device = ? ORDER BY last_seen DESC, address
                    """), arguments: [device]
        ).compactMap { row in try DeviceAddress(bits: row.value(0), kind: row.value(1)) }
    }
}
