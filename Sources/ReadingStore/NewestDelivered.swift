import GRDB
import HealthReadings
import Synchronization

/// A reading that a destination has.
public struct DeliveredReading: Sendable, Hashable {
    /// The reading; its `Reading.deliveries` are not computed here.
    public var reading: Reading
    /// The client's id of the person.
    public var person: String
    /// The timestamp it was delivered at, whole seconds.
    public var timestamp: Instant
    /// Why it would not be delivered now: nobody consents any more, the destination is not selected for it, or it is ignored.
    public var hold: Hold?

    /// Creates it.
    public init(reading: Reading, person: String, timestamp: Instant, hold: Hold? = nil) {
        self.reading = reading
        self.person = person
        self.timestamp = timestamp
        self.hold = hold
    }
}

/// The devices, and what of them may be shown at a destination, whatever was measured and when.
package struct ShownDevices: Sendable {
    /// The devices, in the order they were first seen.
    package let devices: [StoredDevice]
    fileprivate let keys: [Int64]
    fileprivate let holds: DeviceHolds
    fileprivate let consents: ConsentHolds
    fileprivate let ignored: Set<String>

    /// Whether nothing is kept from it.
    package var areWhole: Bool { ignored.isEmpty && holds.holdsNothingButOld }

    /// Whether a kind is kept from it: the person doesn't consent, it is not selected, or its device or provider is ignored.
    ///
    /// - Parameters:
    ///   - kind: the kind of readings.
    ///   - place: the device's place in ``devices``.
    ///   - person: whose readings.
    package func isHeld(_ kind: ReadingKind, at place: Int, of person: UserKey) -> Bool {
        ignored.contains(devices[place].description.provider)
            || holds.hold(user: person.rawValue, kind: kind, device: keys[place], seconds: nil) != nil
    }

    /// Whether a person consents to their weight being shown, also with a body composition.
    package func mayWeigh(_ person: UserKey) -> Bool {
        consents.isGranted(user: person.rawValue, kind: ReadingKind.weight.code)
    }
}

extension ReadingStore {
    /// The devices, and what of them may be shown at a destination: readings that were pruned, too, which it may still have.
    package func shownDevices(at destination: DestinationKey) async throws -> ShownDevices {
        let commits = commitCount
        return try await read { [self] db in
            let known = try devices(db, at: commits)
            return ShownDevices(
                devices: known.map(\.device), keys: known.map(\.key), holds: try DeviceHolds(db, destination),
                consents: try ConsentWords(db).holds(at: destination),
                ignored: try Self.ignoredOrigins(db).providers)
        }
    }

    /// The newest reading of each device, person and kind that a destination has and that still counts. It has one too that
    /// it was given and that waits to be delivered again.
    ///
    /// For a destination that shows what was measured last: after a restart it knows what it has shown, and once a reading
    /// was taken back, which one comes in its place. A reading that was pruned since is not among them; one whose row, or
    /// whose person's, was changed outside of this program is not either, and no older one in its place.
    ///
    /// - Throws: ``lockedBecause`` if the key is missing.
    public func newestDelivered(at destination: DestinationKey) async throws -> [DeliveredReading] {
        let commits = commitCount
        let destinations = shownAt.withLock { known in
            known.insert(destination.rawValue)
            return known
        }
        return try await read { [self] db in
            try sealing.requireKeys()
            let tally = try newestTally(db, destinations, at: commits)
            let newest = tally.newest.filter { $0.key.destination == destination.rawValue }.sorted { $0.key < $1.key }
            let select = try PreparedStatement(
                db,
                """
                SELECT \(ReadingRow.columns), \(OutboxTag.columns) FROM reading AS r JOIN outbox AS o ON o.reading = r.key
                WHERE r.key = ?1 AND o.destination = ?2
                """)
            select.bind(2, destination.rawValue)
            defer { select.reset() }
            let (rows, holds) = (RowReader(db, sealing), try DeviceHolds(db, destination))
            let consents = try ConsentWords(db).holds(at: destination)
            let ignored = try Self.ignoredOrigins(db).providers
            var people: [Int64: String?] = [:]
            func person(_ key: Int64) throws -> String? {
                if let known = people[key] { return known }
                let name = try skippingDamage { try Self.user(db, sealing, where: "key = ?", [key])?.clientUserID }
                people[key] = .some(name ?? nil)
                return name ?? nil
            }
            var found: [DeliveredReading] = []
            for (_, last) in newest {
                select.reset()
                select.bind(1, last.reading)
                guard try select.next() else { continue }
                let place = OutboxTag(select, from: ReadingRow.count)
                let reading = try skippingDamage {
                    try place.check(select, from: ReadingRow.count, sealing)
                    return try rows.reading(select)
                }
                guard let reading, reading.excluded == nil, let person = try person(place.user) else { continue }
                let mayWeigh = consents.isGranted(user: place.user, kind: ReadingKind.weight.code)
                // One that was delivered is not too old.
                let apart = holds.hold(
                    user: place.user, kind: reading.kind, device: ReadingRow.device(select), seconds: nil)
                found.append(
                    DeliveredReading(
                        reading: mayWeigh ? reading : reading.withholdingWeight, person: person,
                        timestamp: Instant(seconds: place.timestamp),
                        hold: apart ?? (ignored.contains(place.provider) ? .ignored : nil)))
            }
            return found
        }
    }
}

/// The result of work on a row; `nil` if the row was changed outside of this program.
private func skippingDamage<Value>(_ work: () throws -> Value) throws -> Value? {
    do {
        return try work()
    } catch let error as StoreError where error.isCorrupt {
        return nil
    }
}
