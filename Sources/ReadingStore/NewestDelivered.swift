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

extension ReadingStore {
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
