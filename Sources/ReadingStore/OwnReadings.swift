import GRDB
import HealthReadings

/// Tells the readings that are certainly a person's from those that a shared device may have taken of somebody else.
///
/// A record of a shared device that names nobody we know is kept with the person of the contact and excluded as
/// `other_user`, unless an earlier reason excludes it. So of a device that people share by slots, nothing that is
/// excluded for such a reason counts as a person's.
struct OwnReadings: Sendable {
    /// The condition on `reading AS r` that it is certainly of the person in `r.user`.
    let condition: String

    init(_ db: Database) throws {
        let addresses = try Self.sharedAddresses(db)
        let devices = addresses.isEmpty ? "" : " OR r.device IN (\(Self.devices(of: addresses)))"
        condition =
            "NOT (r.time_exclusion IS NOT NULL AND (r.time_exclusion = \(Exclusion.otherUser.code)\(devices)))"
    }

    /// The devices that people share by slots.
    static func sharedDevices(_ db: Database) throws -> Set<Int64> {
        let addresses = try sharedAddresses(db)
        return addresses.isEmpty ? [] : try Int64.fetchSet(db, sql: devices(of: addresses))
    }

    private static func sharedAddresses(_ db: Database) throws -> [String] {
        try ReadingStore.lines(db, SlotOwners.setting).compactMap { line -> String? in
            let parts = line.split(separator: " ")
            guard parts.count == 3, parts[1] != "all", let address = UInt64(parts[0]) else { return nil }
            return String(Int64(bitPattern: address))
        }
    }

    /// The query for the devices that have one of these addresses.
    static func devices(of addresses: [String]) -> String {
        let list = addresses.joined(separator: ",")
        return
            "SELECT device FROM device_address WHERE address IN (\(list)) UNION SELECT key FROM device WHERE address IN (\(list))"
    }
}

/// How many readings the store has of one person, and what became of them.
public struct PersonCounts: Sendable, Hashable {
    /// Readings, by kind; a kind without any is missing.
    public var readings: [ReadingKind: Int]
    /// Readings that wait for a destination.
    public var waiting: Int
    /// Readings that a destination has taken, those pruned since included.
    public var delivered: Int
    /// Readings that a destination refused.
    public var refused: Int
    /// When a destination last took a reading.
    public var lastDelivery: Instant?
}

/// A device as one person may see it.
public struct PersonDevice: Sendable, Hashable {
    /// The device, with the person's readings alone counted; ``StoredDevice/lastSequence`` is nil where others use it too.
    public var device: StoredDevice
    /// Whether the readings to come of it are the person's.
    public var isOwn: Bool
    /// Whether it measures, or has measured, others too.
    public var isShared: Bool
}

extension ReadingStore {
    /// Whose readings are; those that are gone, or may be anybody's, are missing.
    public func owners(of ids: [ReadingID]) async throws -> [ReadingID: UserKey] {
        guard !ids.isEmpty else { return [:] }
        return try await read { [sealing] db in
            let own = try OwnReadings(db).condition
            let select = try PreparedStatement(db, "SELECT r.user FROM reading AS r WHERE r.id = ?1 AND \(own)")
            var owners: [ReadingID: UserKey] = [:]
            for id in ids {
                for candidate in try sealing.candidates(for: id) where owners[id] == nil {
                    select.bind(1, candidate)
                    if try select.next() { owners[id] = UserKey(rawValue: select.int(0)) }
                    select.reset()
                }
            }
            return owners
        }
    }

    /// Counts what the store has of a person, and how much of it one destination has; `nil`: any that was not removed. A
    /// reading counts once, however many destinations it waits for.
    public func counts(of user: UserKey, at destination: DestinationKey? = nil) async throws -> PersonCounts {
        let commits = commitCount
        return try await read { [self] db in
            let person = try readingTally(db, at: commits).people[user.rawValue] ?? .init()
            let counts = destination.map { person.places[$0.rawValue] ?? .init() } ?? person.anywhere
            let pruned = try deliveriesOfPruned(db, of: destination, user: user.rawValue, at: commits)
            let last = [counts.lastDelivery, pruned.last].compactMap(\.self).max()
            return PersonCounts(
                readings: try Dictionary(uniqueKeysWithValues: person.kinds.map { (try ReadingKind(code: $0), $1) }),
                waiting: counts.waiting, delivered: counts.delivered + pruned.count, refused: counts.refused,
                lastDelivery: last.map(Instant.init(microseconds:)))
        }
    }

    /// The devices that a person uses: those that measured them, are assigned to them, or are nobody else's.
    public func devices(of user: UserKey) async throws -> [PersonDevice] {
        let commits = commitCount
        return try await read { [self] db in
            let own = try readingTally(db, at: commits).people[user.rawValue]?.devices ?? [:]
            let view = try DeviceView(db, user: user.rawValue, own, met: contactTally(db, at: commits).people)
            return try devices(db, at: commits).compactMap { key, device in
                try view.personal(device, key: key, db)
            }
        }
    }
}

/// Which devices one person may see, and what of them.
private struct DeviceView {
    private let user: Int64
    private let isCurrent: Bool
    /// How many readings of each device are the person's.
    private let own: [Int64: Int]
    /// Who has met each device.
    private let met: [Int64: Set<Int64>]

    init(_ db: Database, user: Int64, _ own: [Int64: Int], met: [Int64: Set<Int64>]) throws {
        (self.user, self.own, self.met) = (user, own, met)
        let current = try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = 'user.current'")
        isCurrent = current == String(user)
    }

    func personal(_ device: StoredDevice, key: Int64, _ db: Database) throws -> PersonDevice? {
        let met = met[key] ?? []
        let readings = own[key] ?? 0
        let assigned = try Int64.fetchOne(db, sql: "SELECT user FROM device WHERE key = ?", arguments: [key])
        let slots = try SlotOwners(db, device: key)
        let isMain = assigned.map { $0 == user } ?? isCurrent
        let isOwn = slots.whole.map { $0 == user } ?? isMain
        // A meter that somebody used before this person became the current one is not theirs until it meets them.
        guard
            readings > 0 || slots.people.contains(user) || assigned == user
                || (isOwn && (met.contains(user) || met.isEmpty))
        else { return nil }
        let isShared = !slots.people.union(met).subtracting([user]).isEmpty || device.readings > readings
        var device = device
        device.readings = readings
        device.user = nil
        if isShared { device.lastSequence = nil }
        return PersonDevice(device: device, isOwn: isOwn, isShared: isShared)
    }
}
