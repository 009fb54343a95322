import GRDB
import HealthReadings

extension ReadingStore {
    /// Whose readings a device's are: the person to whom the settings give it whole, else the person it is assigned to, else the
    /// current user. The device need not have been met.
    ///
    /// - Parameter address: any address of the device.
    public func person(ofDevice address: DeviceAddress) async throws -> UserKey {
        try await read { db in try Self.person(db, ofDevice: address) }
    }

    /// The kinds of readings that the person of a device consents to, so that they may be recorded.
    ///
    /// What is said of one destination alone does not count: the recording is this gateway's own.
    public func recordableKinds(of address: DeviceAddress) async throws -> Set<ReadingKind> {
        try await read { db in
            let person = try Self.person(db, ofDevice: address)
            let rules = try ConsentWords(db).holds(at: nil)
            return Set(ReadingKind.allCases.filter { rules.isGranted(user: person.rawValue, kind: $0.code) })
        }
    }

    private static func person(_ db: Database, ofDevice address: DeviceAddress) throws -> UserKey {
        if let whole = try SlotOwners(db, of: address).whole { return UserKey(rawValue: whole) }
        let bits = Int64(bitPattern: address.bits)
        let person = try Int64.fetchOne(
            db,
            sql: """
                SELECT coalesce(
                    (SELECT user FROM device WHERE address = ?1 AND user IS NOT NULL LIMIT 1),
                    (SELECT d.user FROM device_address AS a JOIN device AS d ON d.key = a.device
                        WHERE a.address = ?1 AND d.user IS NOT NULL LIMIT 1),
                    (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'user.current'))
                """, arguments: [bits])
        guard let person else { throw StoreError.unknown("current user") }
        return UserKey(rawValue: person)
    }
}
