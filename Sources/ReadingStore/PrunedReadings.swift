import Crypto
import Foundation
import GRDB
import HealthReadings

/// Readings that were pruned: that they were there is known, their values are not.
///
/// Each is a row with two keyed digests, one of its id and one of its value, and with what the next contact and the
/// outbox must know of it: its place in the device's numbers, its times, and its key at the server. A record that comes
/// again is so told from another one that shares its number or its minute.
struct PrunedReadings {
    private let db: Database
    private let key: SymmetricKey
    private let findIdentity: PreparedStatement
    private let findTimestamp: PreparedStatement

    /// Nil where nothing was pruned, or the key it is recognised by is not there.
    init?(_ db: Database, key: SymmetricKey?) throws {
        guard let key else { return nil }
        let any = try PreparedStatement(db, "SELECT EXISTS (SELECT 1 FROM pruned)")
        guard try any.firstInt() == 1 else { return nil }
        self.db = db
        self.key = key
        findIdentity = try PreparedStatement(db, "SELECT value FROM pruned WHERE identity = ?")
        findTimestamp = try PreparedStatement(
            db,
            """
            SELECT 1 FROM pruned_place AS p INDEXED BY pruned_place_timestamp JOIN pruned AS r ON r.identity = p.identity
            WHERE \(PrunedPlaces.holds("?1")) AND r.user = ?2 AND r.kind = ?3 AND p.provider = ?4 AND p.type = ?5
                AND p.timestamp = ?6
            """)
    }

    /// What became of an id.
    enum Match {
        /// No reading of this id was pruned.
        case none
        /// This reading was.
        case same
        /// One with this id and another value was.
        case other
    }

    func find(_ id: ReadingID, _ record: Record) throws -> Match {
        findIdentity.bind(1, octets: Self.identity(of: id, key))
        guard try findIdentity.next() else { return .none }
        defer { findIdentity.reset() }
        let value = findIdentity.octets(0)
        if value == Self.value(of: record, id, key) { return .same }
        // It may have come as another gateway's export has it: with less beside its main value.
        return record.plainForms.contains { value == Self.value(of: $0, id, key) } ? .same : .other
    }

    /// Notes what a record says that has the id of a pruned reading: it is the same when it comes again.
    func note(_ record: Record, of id: ReadingID) throws {
        let update = try PreparedStatement(db, "UPDATE pruned SET value = ? WHERE identity = ?")
        update.bind(1, octets: Self.value(of: record, id, key))
        update.bind(2, octets: Self.identity(of: id, key))
        try update.run()
    }

    /// Whose a pruned reading is; `nil` if none of this id was pruned.
    func owner(of id: ReadingID) throws -> Int64? {
        try Self.owner(of: Data(Self.identity(of: id, key)), db)
    }

    static func owner(of identity: Data, _ db: Database) throws -> Int64? {
        let find = try PreparedStatement(db, "SELECT user FROM pruned WHERE identity = ?")
        find.bind(1, octets: Array(identity))
        return try find.firstInt()
    }

    /// Whether a pruned reading is at a destination under this key.
    func holds(
        at destination: Int64, user: Int64, kind: Int64, provider: String, type: Int64, timestamp: Int64
    ) throws -> Bool {
        var parameters = Parameters(of: findTimestamp)
        parameters.put(destination)
        parameters.put(user)
        parameters.put(kind)
        parameters.put(text: provider)
        parameters.put(type)
        parameters.put(timestamp)
        return try findTimestamp.firstInt() != nil
    }

    /// Whether a pruned reading of a device is at a destination at this second.
    func holds(at destination: Int64, user: Int64, kind: Int64, device: Int64, timestamp: Int64) throws -> Bool {
        let find = try PreparedStatement(
            db,
            """
            SELECT 1 FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
            WHERE \(PrunedPlaces.holds("?1")) AND p.timestamp = ?2 AND r.user = ?3 AND r.kind = ?4 AND r.device = ?5 LIMIT 1
            """)
        var parameters = Parameters(of: find)
        for number in [destination, timestamp, user, kind, device] { parameters.put(number) }
        return try find.firstInt() != nil
    }

    /// Whether a record of this number was pruned.
    func hasSequence(_ sequence: UInt16, device: Int64, epoch: Int) throws -> Bool {
        let find = try PreparedStatement(
            db, "SELECT 1 FROM pruned WHERE device = ? AND sequence_epoch = ? AND sequence = ? LIMIT 1")
        find.bind(1, device)
        find.bind(2, Int64(epoch))
        find.bind(3, Int64(sequence))
        return try find.firstInt() != nil
    }

    /// Whether a delivered record of a sensor's minute was pruned.
    func hasMinute(
        _ minute: UInt16, _ source: SensorFacts.Source, device: Int64, epoch: Int, user: Int64
    ) throws -> Bool {
        let find = try PreparedStatement(
            db,
            """
            SELECT 1 FROM pruned
            WHERE device = ? AND minute = ? AND source = ? AND user = ? AND sequence_epoch = ?
                AND EXISTS (SELECT 1 FROM pruned_place AS p WHERE p.identity = pruned.identity
                    AND p.delivered_at IS NOT NULL) LIMIT 1
            """)
        find.bind(1, device)
        find.bind(2, Int64(minute))
        find.bind(3, Int64(source.rawValue))
        find.bind(4, user)
        find.bind(5, Int64(epoch))
        return try find.firstInt() != nil
    }

    /// Hands on the timestamps that a minute's pruned trend record has at destinations.
    func takeTimestamps(
        ofTrend minute: UInt16, device: Int64, epoch: Int, user: Int64
    ) throws -> [(destination: Int64, timestamp: Int64, deliveredAt: Int64?)] {
        let condition = """
            timestamp IS NOT NULL AND identity IN (
                SELECT identity FROM pruned
                WHERE device = ? AND minute = ? AND source = 1 AND user = ? AND sequence_epoch = ?)
            """
        let arguments: StatementArguments = [device, Int64(minute), user, epoch]
        let places = try Row.fetchAll(
            db, sql: "SELECT block, destinations, timestamp, delivered_at FROM pruned_place WHERE \(condition)",
            arguments: arguments)
        try db.execute(sql: "UPDATE pruned_place SET timestamp = NULL WHERE \(condition)", arguments: arguments)
        return try places.flatMap { row in
            let (timestamp, deliveredAt): (Int64, Int64?) = (try row.value(2), try row.value(3))
            return PrunedPlaces.destinations(try row.value(0), try row.value(1)).map { ($0, timestamp, deliveredAt) }
        }.sorted { $0.0 < $1.0 }
    }

    // MARK: Digests

    static func identity(of id: ReadingID, _ key: SymmetricKey) -> [UInt8] { digest([1] + id.octets, key) }

    /// The digest of all by which a record that comes again is told from another of the same id.
    static func value(of record: Record, _ id: ReadingID, _ key: SymmetricKey) -> [UInt8] {
        var octets: [UInt8] = [2] + id.octets
        func append(_ value: Int64?) {
            octets.append(value == nil ? 0 : 1)
            for shift in stride(from: 56, through: 0, by: -8) {
                octets.append(UInt8(truncatingIfNeeded: (value ?? 0) >> Int64(shift)))
            }
        }
        func append(_ quantity: Quantity?) {
            append(quantity?.number.columns.digits)
            append(quantity?.number.columns.exponent)
            append(quantity.map { Int64($0.unit.rawValue) })
        }
        append(record.value.kind.code)
        switch record.value {
        case .glucose(let glucose):
            append(glucose.concentration)
            append(glucose.sampleType.map { Int64($0.rawValue) })
            append(glucose.sampleLocation.map { Int64($0.rawValue) })
        case .bloodPressure(let pressure):
            for quantity in [pressure.systolic, pressure.diastolic, pressure.meanArterial, pressure.pulse] {
                append(quantity)
            }
        case .vital(let vital):
            for measured in vital.quantities {
                append(Int64(measured.part.rawValue))
                append(measured.quantity)
            }
        case .kept(let sample):
            for text in [sample.type, sample.unit] {
                append(Int64(text.utf8.count))
                octets += text.utf8
            }
            append(sample.value.significand)
            append(Int64(sample.value.exponent))
        }
        if let sensor = record.sensor {
            for number in [
                Int64(sensor.source.rawValue), Int64(sensor.minute), Int64(sensor.glucose), Int64(sensor.temperature),
                Int64(sensor.adjustment), Int64(sensor.quality), Int64(sensor.flags), sensor.hasError ? 1 : 0,
                Int64(sensor.calibration.rawValue),
            ] { append(number) }
        }
        return digest(octets, key)
    }

    private static func digest(_ octets: [UInt8], _ key: SymmetricKey) -> [UInt8] {
        HMAC<SHA256>.authenticationCode(for: octets, using: key).withUnsafeBytes { Array($0.prefix(16)) }
    }
}

extension ReadingStore {
    /// Whether a destination has readings of a person's that were pruned here.
    ///
    /// - Parameters:
    ///   - user: the person.
    ///   - destination: the destination. What it was given at an address that it has no more doesn't count.
    ///   - kinds: the kinds that count.
    ///   - start: the earliest timestamp.
    ///   - end: the first timestamp that does not count any more.
    public func hasPruned(
        of user: UserKey, at destination: DestinationKey, _ kinds: [ReadingKind] = ReadingKind.allCases,
        from start: Instant, to end: Instant
    ) async throws -> Bool {
        try await read { db in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM pruned_place AS p INDEXED BY pruned_place_timestamp
                        JOIN pruned AS r ON r.identity = p.identity
                        WHERE \(PrunedPlaces.holds("?1")) AND p.timestamp >= ?2 AND p.timestamp < ?3
                            AND p.delivered_at > ?5 AND r.user = ?4
                            AND r.kind IN (\(kinds.map { String($0.code) }.joined(separator: ", "))))
                    """,
                arguments: [
                    destination.rawValue, start.seconds, end.seconds, user.rawValue,
                    Self.movedAt(db, destination) ?? .min,
                ]) ?? false
        }
    }
}
