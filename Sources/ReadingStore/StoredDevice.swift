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
    ///
    /// - Parameter since: only those that were seen, or else paired, then or later.
    public func devices(since: Instant? = nil) async throws -> [StoredDevice] {
        let commits = commitCount
        return try await read { [self] db in try devices(db, at: commits, since: since).map(\.device) }
    }

    /// The same with the devices' keys.
    ///
    /// - Parameter commits: how many commits there were before `db` began to read.
    func devices(
        _ db: Database, at commits: Int, since: Instant? = nil
    ) throws -> [(key: Int64, device: StoredDevice)] {
        let (cache, people) = (DeviceCache(db, sealing), PeopleCache(db, sealing))
        let counts = try readingsByDevice(db, at: commits)
        func newest(in table: String) -> String {
            """
            (SELECT sequence FROM \(table) INDEXED BY \(table)_sequence
                WHERE device = d.key AND sequence_epoch = d.sequence_epoch AND sequence IS NOT NULL
                ORDER BY sequence DESC LIMIT 1)
            """
        }
        let rows = try PreparedStatement(
            db,
            """
            SELECT key, is_paired, is_proven, last_seen, battery_percent, sequence_epoch, is_barred, user,
                \(newest(in: "reading")), \(newest(in: "pruned"))
            FROM device AS d WHERE coalesce(last_seen, paired_at) >= ? ORDER BY key
            """)
        defer { rows.reset() }
        rows.bind(1, since?.microseconds ?? .min)
        var devices: [(key: Int64, device: StoredDevice)] = []
        while try rows.next() {
            let (key, epoch) = (rows.int(0), Int(rows.int(5)))
            let last = [rows.optionalInt(8), rows.optionalInt(9)].compactMap(\.self).max()
            let epochs = try ClockEpochs(db, device: key, zone: nil)
            let device = StoredDevice(
                description: try cache.description(key), addresses: try Self.addresses(db, device: key),
                isPaired: rows.int(1) != 0, isProven: rows.int(2) != 0, isBarred: rows.int(6) != 0,
                lastSeen: rows.optionalInt(3).map(Instant.init(microseconds:)),
                batteryPercent: rows.optionalInt(4).map { UInt8(truncatingIfNeeded: $0) },
                clock: epochs.newest,
                driftPartsPerMillion: epochs.driftPartsPerMillion,
                lastSequence: last.map { UInt16(truncatingIfNeeded: $0) },
                sequenceEpoch: epoch, readings: counts[key] ?? 0,
                user: try rows.optionalInt(7).map { try people.name($0) ?? "" })
            devices.append((key, device))
        }
        return devices
    }

    static func addresses(_ db: Database, device: Int64) throws -> [DeviceAddress] {
        let rows = try PreparedStatement(
            db, "SELECT address, address_kind FROM device_address WHERE device = ? ORDER BY last_seen DESC, address")
        defer { rows.reset() }
        rows.bind(1, device)
        var addresses: [DeviceAddress] = []
        while try rows.next() {
            if let address = DeviceAddress(bits: rows.optionalInt(0), kind: rows.optionalInt(1)) {
                addresses.append(address)
            }
        }
        return addresses
    }
}
