import Foundation
import GRDB
import HealthReadings

/// A reading as its row: one list of columns, written and read in the same order.
enum ReadingRow {
    /// The columns of `reading AS r` that make a reading.
    static let columns = """
        r.key, r.id, r.kind, r.device, r.sequence, r.base_time, r.time_offset_minutes, r.time_offset_unknown, \
        r.record_exclusion, r.time_exclusion, r.time, r.time_basis, r.time_uncertainty_minutes, r.clock_difference, \
        r.clock_read_at, r.received_at, r.content
        """
    /// How many there are: what a statement adds begins at this column.
    static let count: Int32 = 17

    static let insert = """
        INSERT INTO reading (
            key, id, kind, device, user, sequence_epoch, clash, sequence, base_time, time_offset_minutes,
            time_offset_unknown, record_exclusion, time_exclusion, time, time_basis, time_uncertainty_minutes,
            clock_difference, clock_read_at, received_at, content
        ) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
        """

    static func key(_ row: PreparedStatement) -> Int64 { row.int(0) }

    /// What the reading's id stands as in its row.
    static func storedID(_ row: PreparedStatement) throws -> ReadingID { try row.readingID(1) }

    static func device(_ row: PreparedStatement) -> Int64 { row.int(3) }
}

/// Makes readings of their rows; belongs to one connection's turn.
struct RowReader {
    let sealing: Sealing
    let devices: DeviceCache
    private let opener: RowOpener

    init(_ db: Database, _ sealing: Sealing) {
        self.sealing = sealing
        opener = RowOpener(sealing)
        devices = DeviceCache(db, sealing)
    }

    func reading(_ row: PreparedStatement) throws -> Reading {
        let (id, content) = try content(row)
        let time = ResolvedTime(
            instant: row.optionalInt(10).map(Instant.init(seconds:)), basis: try TimeBasis(code: row.int(11)),
            uncertaintyMinutes: row.optionalInt(12).map(Int.init),
            clock: row.optionalInt(13).map { difference in
                ClockComparison(differenceSeconds: difference, readAt: Instant(microseconds: row.int(14)))
            })
        let record = try record(row, content)
        return Reading(
            id: id, record: record, context: content.context, device: try devices.description(ReadingRow.device(row)),
            time: time, excluded: try record.exclusion ?? row.optionalInt(9).map(Exclusion.init(code:)),
            receivedAt: Instant(microseconds: row.int(15)))
    }

    func record(_ row: PreparedStatement) throws -> (ReadingID, Record) {
        let (id, content) = try content(row)
        return (id, try record(row, content))
    }

    func content(_ row: PreparedStatement) throws -> (ReadingID, ReadingContent) {
        let (octets, wasSealed) = try row.withOctets(16) { try opener.open($0, at: .reading(ReadingRow.key(row))) }
        // In the clear the id stands in its column, else with what is sealed.
        guard wasSealed else { return (try ReadingRow.storedID(row), try ReadingContent(octets)) }
        guard octets.count > 16 else { throw StoreError.corrupt(detail: "reading \(ReadingRow.key(row)) has no id") }
        return (ReadingID(octets: octets[..<16]), try ReadingContent(octets, from: 16))
    }

    private func record(_ row: PreparedStatement, _ content: ReadingContent) throws -> Record {
        guard try ReadingKind(code: row.int(2)) == content.value.kind else {
            throw StoreError.corrupt(detail: "reading \(ReadingRow.key(row)) holds the values of another kind")
        }
        return Record(
            value: content.value, sequence: row.optionalInt(4).map { UInt16(truncatingIfNeeded: $0) },
            baseTime: row.optionalInt(5).map(WallTime.init(secondsSinceEpoch:)),
            timeOffsetMinutes: row.optionalInt(6).map { Int16(truncatingIfNeeded: $0) },
            timeOffsetIsUnknown: row.int(7) != 0, status: content.status, userSlot: content.userSlot,
            exclusion: try row.optionalInt(8).map(Exclusion.init(code:)), sensor: content.sensor)
    }
}

extension Sealing {
    /// The blob of a reading's row.
    func seal(_ content: ReadingContent, of id: ReadingID, row: Int64) throws -> [UInt8] {
        try seal(current == 0 ? content.octets : id.octets + content.octets, at: .reading(row))
    }
}

extension ReadingID {
    /// The 16 octets of an id.
    init(octets: ArraySlice<UInt8>) {
        let (high, low) = octets.withUnsafeBytes { octets in
            (octets.loadUnaligned(as: UInt64.self), octets.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
        self.init(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
    }
}

/// Binds parameters one after the other.
struct Parameters {
    let statement: PreparedStatement
    private var index: Int32 = 0

    init(of statement: PreparedStatement) { self.statement = statement }

    mutating func put(_ value: Int64?) {
        index += 1
        statement.bind(index, value)
    }

    mutating func put(_ id: ReadingID) {
        index += 1
        statement.bind(index, id)
    }

    mutating func put(text: String?) {
        index += 1
        statement.bind(index, text)
    }

    mutating func put(octets: [UInt8]?) {
        index += 1
        statement.bind(index, octets: octets)
    }
}

/// Descriptions of devices, each fetched once for a statement that gives many readings.
final class DeviceCache {
    private let db: Database
    private let sealing: Sealing
    private var known: [Int64: DeviceDescription] = [:]
    // One turn's only: nothing else can be in the middle of it.
    @exclusivity(unchecked)
    private var last: (key: Int64, description: DeviceDescription)?

    init(_ db: Database, _ sealing: Sealing) {
        self.db = db
        self.sealing = sealing
    }

    func description(_ key: Int64) throws -> DeviceDescription {
        if let last, last.key == key { return last.description }
        let description = try known[key] ?? fetch(key)
        known[key] = description
        last = (key, description)
        return description
    }

    private func fetch(_ key: Int64) throws -> DeviceDescription {
        let select = try PreparedStatement(
            db,
            """
            SELECT coalesce(d.address, a.address), coalesce(d.address_kind, a.address_kind), d.model, d.label, d.provider
            FROM device AS d LEFT JOIN device_address AS a ON a.device = d.key WHERE d.key = ?
            ORDER BY a.last_seen DESC LIMIT 1
            """)
        select.bind(1, key)
        guard try select.next() else { throw StoreError.corrupt(detail: "device \(key) is missing") }
        defer { select.reset() }
        // A label that is damaged, or locked, keeps no reading from being read: the device is known by its address.
        let label = select.isNull(3) ? nil : try? sealing.label(Data(select.octets(3)), of: key)
        return DeviceDescription(
            address: DeviceAddress(bits: select.optionalInt(0), kind: select.optionalInt(1)), model: select.text(2),
            serial: label?.serial, name: label?.name, provider: select.text(4) ?? "manual")
    }
}

extension DeviceAddress {
    /// The address of its two columns; nil where there is none.
    init?(bits: Int64?, kind: Int64?) {
        guard let bits, let kind else { return nil }
        self.init(bits: UInt64(truncatingIfNeeded: bits), kind: kind == 1 ? .public : .random)
    }

    /// The column of ``kind``: 1 public, 2 random.
    var kindCode: Int64 { kind == .public ? 1 : 2 }
}
