import GRDB
import HealthReadings
import Logging
import Synchronization

/// One person among several, and which readings of shared devices are theirs.
public struct StorePerson: Sendable, Hashable {
    /// What of a device is a person's.
    public struct Share: Sendable, Hashable {
        /// Bits of the device's address, public or random; see `DeviceAddress.bits`.
        public var address: UInt64
        /// The slot of the device's own that stands for the person; nil: every reading of the device is theirs.
        public var slot: UInt8?

        /// Makes a share.
        public init(address: UInt64, slot: UInt8?) {
            self.address = address
            self.slot = slot
        }
    }

    /// The client's id of the person.
    public var clientUserID: String
    /// Their zone, an IANA id.
    public var timeZone: String
    /// Their devices.
    public var shares: [Share]

    /// Makes a person.
    public init(clientUserID: String, timeZone: String, shares: [Share]) {
        self.clientUserID = clientUserID
        self.timeZone = timeZone
        self.shares = shares
    }
}

extension ReadingStore {
    /// Says which people share devices with the current user; kept over restarts.
    ///
    /// It counts for readings that come from now on: what is stored stays whose it is.
    ///
    /// Where the key is missing (``lockedBecause``) and somebody is new, everything waits until it is there.
    ///
    /// - Throws: ``StoreError/unknownTimeZone(_:)``; ``StoreError/corrupt(detail:)`` if the row of one of them was changed
    ///   outside of this program: then nothing is changed; or an error of the database.
    public func setPeople(_ people: [StorePerson]) async throws {
        let now = now()
        do {
            _ = try await write(.user) { [sealing] db in
                try Self.adoptPeople(db, sealing, people, now: now)
            } committed: { [self] isDone in
                waitingPeople.withLock { $0.shared = isDone ? nil : people }
                outdateContacts()
            }
        } catch let error as StoreError where error.isCorrupt {
            logger.error("\(error)", metadata: ["mend": "\(error.hint)"])
            throw error
        }
    }

    /// - Returns: whether it is done: not where the key is missing and somebody is new. Nothing was changed then.
    static func adoptPeople(
        _ db: Database, _ sealing: Sealing, _ people: [StorePerson], now: Instant
    ) throws -> Bool {
        if sealing.refusal != nil {
            for person in people
            where try user(db, sealing, named: person.clientUserID) == nil { return false }
        }
        var lines: [String] = []
        for person in people {
            let user = try adoptUser(
                db, sealing, person.clientUserID, timeZone: person.timeZone, now: now, becomesCurrent: false)
            guard let user else { return false }
            for share in person.shares {
                lines.append("\(share.address) \(share.slot.map(String.init) ?? "all") \(user.key.rawValue)")
            }
        }
        try set(db, SlotOwners.setting, lines: lines)
        return true
    }
}

/// Whose the readings of one device are.
struct SlotOwners: Sendable {
    static let setting = "users.slots"

    private var owners: [UInt8: Int64] = [:]
    /// Whose every reading is that no slot gives to somebody else; nil: the contact's person.
    private(set) var whole: Int64?

    /// Everybody who is named for the device.
    var people: Set<Int64> { Set(owners.values).union(whole.map { [$0] } ?? []) }

    init(_ db: Database, device: Int64) throws {
        try self.init(db) { try Self.addresses(db, of: device) }
    }

    /// Those of the device with this address, which need not have been met.
    init(_ db: Database, of address: DeviceAddress) throws {
        try self.init(db) {
            var addresses: Set<UInt64> = [address.bits]
            let bits = String(Int64(bitPattern: address.bits))
            for device in try Int64.fetchAll(db, sql: OwnReadings.devices(of: [bits])) {
                addresses.formUnion(try Self.addresses(db, of: device))
            }
            return addresses
        }
    }

    private init(_ db: Database, addresses find: () throws -> Set<UInt64>) throws {
        let lines = try ReadingStore.lines(db, Self.setting)
        guard !lines.isEmpty else { return }
        let addresses = try find()
        for line in lines {
            let parts = line.split(separator: " ")
            guard parts.count == 3, let address = UInt64(parts[0]), addresses.contains(address),
                let user = Int64(parts[2]),
                // Somebody who was erased owns nothing.
                try Bool.fetchOne(
                    db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM user WHERE key = ?)"), arguments: [user])
                    == true
            else { continue }
            if let slot = UInt8(parts[1]) { owners[slot] = user } else { whole = user }
        }
    }

    private static func addresses(_ db: Database, of device: Int64) throws -> Set<UInt64> {
        Set(
            try Int64.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT address FROM device_address WHERE device = ?1
                        UNION SELECT address FROM device WHERE key = ?1 AND address IS NOT NULL
                        """), arguments: [device]
            ).map { UInt64(bitPattern: $0) })
    }

    /// Whether the settings give an address and a known device to different people whole.
    static func areDifferent(_ db: Database, of address: DeviceAddress, and device: Int64) throws -> Bool {
        let lines = try ReadingStore.lines(db, setting)
        guard !lines.isEmpty else { return false }
        let addresses = try addresses(db, of: device)
        var (one, other): (Set<Substring>, Set<Substring>) = ([], [])
        for parts in lines.map({ $0.split(separator: " ") }) where parts.count == 3 && parts[1] == "all" {
            guard let bits = UInt64(parts[0]) else { continue }
            if bits == address.bits { one.insert(parts[2]) } else if addresses.contains(bits) { other.insert(parts[2]) }
        }
        return !one.isEmpty && !other.isEmpty && one.isDisjoint(with: other)
    }

    /// The devices of which a person has a slot, or all, and those that are another person's whole.
    static func devices(_ db: Database, of user: Int64) throws -> (shared: [Int64], others: [Int64]) {
        let addresses = try ReadingStore.lines(db, setting).compactMap { line -> String? in
            guard let address = line.split(separator: " ").first, let bits = UInt64(address) else { return nil }
            return String(Int64(bitPattern: bits))
        }
        var devices: (shared: [Int64], others: [Int64]) = ([], [])
        for device in try Int64.fetchAll(db, sql: OwnReadings.devices(of: addresses)) {
            let slots = try SlotOwners(db, device: device)
            if slots.people.contains(user) {
                devices.shared.append(device)
            } else if slots.whole != nil {
                devices.others.append(device)
            }
        }
        return devices
    }

    /// Whose a record of this slot is; nil: nobody's we know.
    ///
    /// - Parameter user: whose the contact is: where that person has no slot of their own, every slot that is nobody
    ///   else's is theirs.
    func owner(of slot: UInt8?, otherwise user: Int64) -> Int64? {
        if owners.isEmpty { return whole ?? user }
        // A shared device's record that does not say of whom it is may be anyone's.
        guard let slot else { return nil }
        if let owner = owners[slot] { return owner }
        let main = whole ?? user
        return owners.values.contains(main) ? nil : main
    }
}
