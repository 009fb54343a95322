import Foundation
import GRDB
import HealthReadings

/// A reading as its row: one list of columns, written and read in the same order.
enum ReadingRow {
    /// The columns of `reading AS r` that make a reading.
    static let columns = """
        r.key, r.id, r.kind, r.device, r.sequence, r.base_time, r.time_offset_minutes, r.time_offset_unknown, \
        r.record_exclusion, r.time_exclusion, r.time, r.time_basis, r.time_uncertainty_minutes, r.clock_difference, \
        r.clock_read_at, r.received_at, r.content, r.user, r.sequence_epoch, r.clash
        """
    /// How many there are: what a statement adds begins at this column.
    static let count: Int32 = 20
    /// The column of the content.
    static let content: Int32 = 16

    private static let bound = """
        id, kind, device, user, sequence_epoch, clash, sequence, base_time, time_offset_minutes, time_offset_unknown, \
        record_exclusion, time_exclusion, time, time_basis, time_uncertainty_minutes, clock_difference, clock_read_at, \
        received_at, content
        """

    static let insert = "INSERT INTO reading (\(bound), key) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    private static let update = "UPDATE reading SET (\(bound)) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE key = ?"

    static func key(_ row: PreparedStatement) -> Int64 { row.int(0) }

    /// What the reading's id stands as in its row.
    static func storedID(_ row: PreparedStatement) throws -> ReadingID { try row.readingID(1) }

    static func device(_ row: PreparedStatement) -> Int64 { row.int(3) }

    /// In seconds; only of a reading that has one.
    static func time(_ row: PreparedStatement) -> Int64 { row.int(10) }

    /// Binds all of a row's values, its number last.
    static func bind(_ statement: PreparedStatement, _ columns: ReadingColumns, content: [UInt8], key: Int64) {
        var parameters = Parameters(of: statement)
        parameters.put(columns.id)
        parameters.put(columns.kind)
        parameters.put(columns.device)
        parameters.put(columns.user)
        parameters.put(columns.sequenceEpoch)
        parameters.put(columns.clash)
        parameters.put(columns.sequence)
        parameters.put(columns.baseTime)
        parameters.put(columns.timeOffsetMinutes)
        parameters.put(columns.timeOffsetIsUnknown)
        parameters.put(columns.recordExclusion)
        parameters.put(columns.timeExclusion)
        parameters.put(columns.time)
        parameters.put(columns.timeBasis)
        parameters.put(columns.timeUncertaintyMinutes)
        parameters.put(columns.clockDifference)
        parameters.put(columns.clockReadAt)
        parameters.put(columns.receivedAt)
        parameters.put(octets: content)
        parameters.put(key)
    }

    /// Writes a row anew, sealed under the newest key.
    static func write(_ db: Database, _ reading: StoredReading, _ sealing: Sealing) throws {
        let update = try PreparedStatement(db, update)
        bind(update, reading.columns, content: try sealing.blob(of: reading), key: reading.key)
        try update.run()
    }

    /// Writes what of a row is under a key, sealed under the newest one.
    ///
    /// SQLite writes a row's places anew in each index of a column that is named, also where nothing of it differs.
    static func seal(_ db: Database, _ reading: StoredReading, _ sealing: Sealing) throws {
        let update = try PreparedStatement(db, "UPDATE reading SET id = ?, content = ? WHERE key = ?")
        update.bind(1, reading.columns.id)
        update.bind(2, octets: try sealing.blob(of: reading))
        update.bind(3, reading.key)
        try update.run()
    }

    /// Changes a row: its columns and its content are sealed together again, and what waits of it is bound to the same
    /// key.
    ///
    /// - Returns: whether the row differs from before.
    @discardableResult
    static func change(
        _ db: Database, _ key: Int64, _ rows: RowReader, _ body: (inout StoredReading) throws -> Void
    ) throws -> Bool {
        let select = try PreparedStatement(db, "SELECT \(columns) FROM reading AS r WHERE r.key = ?")
        select.bind(1, key)
        guard try select.next() else { throw StoreError.corrupt(detail: "reading \(key) is missing") }
        let former = try rows.stored(select)
        let generation = try Sealing.generation(of: select.octets(content))
        select.reset()
        var reading = former
        try body(&reading)
        reading.columns.id = try rows.sealing.stored(reading.id)
        if reading.columns == former.columns {
            // Its place in every index stays.
            let update = try PreparedStatement(db, "UPDATE reading SET content = ? WHERE key = ?")
            update.bind(1, octets: try rows.sealing.blob(of: reading))
            update.bind(2, key)
            try update.run()
        } else {
            try write(db, reading, rows.sealing)
        }
        if generation != rows.sealing.current { try OutboxTag.renewAll(db, reading: key, rows.sealing) }
        return reading.columns != former.columns || reading.content != former.content
    }
}

/// A reading's row, taken apart.
struct StoredReading {
    let key: Int64
    let id: ReadingID
    var columns: ReadingColumns
    var content: ReadingContent
}

/// Makes readings of their rows; belongs to one connection's turn.
struct RowReader {
    let sealing: Sealing
    let devices: DeviceCache
    let people: PeopleCache

    init(_ db: Database, _ sealing: Sealing) {
        self.sealing = sealing
        people = PeopleCache(db, sealing)
        devices = DeviceCache(db, sealing)
    }

    func reading(_ row: PreparedStatement) throws -> Reading {
        let columns = try columns(row)
        let (id, content) = try content(row, columns)
        return try reading(ReadingRow.key(row), columns, id, content)
    }

    /// - Parameter deliveries: how the reading stands with each destination.
    func reading(
        _ key: Int64, _ columns: ReadingColumns, _ id: ReadingID, _ content: ReadingContent,
        deliveries: [DestinationDelivery] = []
    ) throws -> Reading {
        let time = ResolvedTime(
            instant: columns.time.map(Instant.init(seconds:)), basis: try TimeBasis(code: columns.timeBasis),
            uncertaintyMinutes: columns.timeUncertaintyMinutes.map(Int.init),
            clock: columns.clockDifference.map { difference in
                ClockComparison(
                    differenceSeconds: difference, readAt: Instant(microseconds: columns.clockReadAt ?? 0))
            })
        let record = try Record(columns, content, key: key)
        var reading = Reading(
            id: id, record: record, context: content.context, device: try devices.description(columns.device),
            time: time, person: try people.name(columns.user),
            excluded: try record.exclusion ?? columns.timeExclusion.map(Exclusion.init(code:)),
            deliveries: deliveries, receivedAt: Instant(microseconds: columns.receivedAt))
        reading.leftOut = content.leftOut
        return reading
    }

    func record(_ row: PreparedStatement) throws -> (ReadingID, Record) {
        let columns = try columns(row)
        let (id, content) = try content(row, columns)
        return (id, try Record(columns, content, key: ReadingRow.key(row)))
    }

    func content(_ row: PreparedStatement) throws -> (ReadingID, ReadingContent) {
        try content(row, columns(row))
    }

    func stored(_ row: PreparedStatement) throws -> StoredReading {
        let columns = try columns(row)
        let (id, content) = try content(row, columns)
        return StoredReading(key: ReadingRow.key(row), id: id, columns: columns, content: content)
    }

    func columns(_ row: PreparedStatement) throws -> ReadingColumns {
        ReadingColumns(
            id: try ReadingRow.storedID(row), kind: row.int(2), device: row.int(3), user: row.int(17),
            sequenceEpoch: row.int(18), clash: row.int(19), sequence: row.optionalInt(4), baseTime: row.optionalInt(5),
            timeOffsetMinutes: row.optionalInt(6), timeOffsetIsUnknown: row.int(7), recordExclusion: row.optionalInt(8),
            timeExclusion: row.optionalInt(9), time: row.optionalInt(10), timeBasis: row.int(11),
            timeUncertaintyMinutes: row.optionalInt(12), clockDifference: row.optionalInt(13),
            clockReadAt: row.optionalInt(14), receivedAt: row.int(15))
    }

    func content(_ row: PreparedStatement, _ columns: ReadingColumns) throws -> (ReadingID, ReadingContent) {
        try row.withOctets(ReadingRow.content) { blob in
            try sealing.content(blob, of: ReadingRow.key(row), columns)
        }
    }

    /// The frame of a row whose columns from `first` on are ``FrameRow/columns``.
    func frame(_ row: PreparedStatement, from first: Int32 = 0) throws -> StoredFrame {
        let key = row.int(first)
        let columns = FrameColumns(
            device: row.int(first + 2), contact: row.int(first + 3), format: row.int(first + 4),
            ordinal: row.int(first + 5), receivedAt: row.int(first + 6))
        let (payload, _) = try row.withOctets(first + 1) { try sealing.open($0, at: .frame(key), with: columns) }
        return StoredFrame(key: key, columns: columns, payload: payload)
    }
}

/// A frame as its row.
enum FrameRow {
    /// The columns of `frame AS f` that make a frame.
    static let columns = "f.key, f.payload, f.device, f.contact, f.format, f.ordinal, f.received_at"
    /// How many there are.
    static let count: Int32 = 7
}

/// A frame's row, taken apart.
struct StoredFrame {
    let key: Int64
    var columns: FrameColumns
    let payload: [UInt8]

    var frame: Frame {
        Frame(
            format: FrameFormat(rawValue: UInt32(truncatingIfNeeded: columns.format)), payload: payload,
            receivedAt: Instant(microseconds: columns.receivedAt), ordinal: Int(columns.ordinal))
    }
}

extension Sealing {
    /// What a row's blob holds.
    func content(
        _ blob: UnsafeRawBufferPointer, of key: Int64, _ columns: ReadingColumns
    ) throws -> (ReadingID, ReadingContent) {
        let (octets, wasSealed) = try open(blob, at: .reading(key), with: columns)
        // In the clear the id stands in its column, else with what is sealed.
        guard wasSealed else { return (columns.id, try ReadingContent(octets)) }
        guard octets.count > 16 else { throw StoreError.corrupt(detail: "reading \(key) has no id") }
        return (ReadingID(octets: octets[..<16]), try ReadingContent(octets, from: 16))
    }

    /// The blob of a reading's row.
    func blob(of reading: StoredReading) throws -> [UInt8] {
        try seal(
            current == 0 ? reading.content.octets : reading.id.octets + reading.content.octets,
            at: .reading(reading.key), with: reading.columns)
    }

    /// The blob of a frame's row.
    func blob(of frame: StoredFrame) throws -> [UInt8] {
        try seal(frame.payload, at: .frame(frame.key), with: frame.columns)
    }
}

extension Record {
    fileprivate init(_ columns: ReadingColumns, _ content: ReadingContent, key: Int64) throws {
        guard try ReadingKind(code: columns.kind) == content.value.kind else {
            throw StoreError.corrupt(detail: "reading \(key) holds the values of another kind")
        }
        self.init(
            value: content.value, sequence: columns.sequence.map { UInt16(truncatingIfNeeded: $0) },
            baseTime: columns.baseTime.map(WallTime.init(secondsSinceEpoch:)),
            timeOffsetMinutes: columns.timeOffsetMinutes.map { Int16(truncatingIfNeeded: $0) },
            timeOffsetIsUnknown: columns.timeOffsetIsUnknown != 0, status: content.status, userSlot: content.userSlot,
            occurrence: content.occurrence,
            exclusion: try columns.recordExclusion.map(Exclusion.init(code:)), sensor: content.sensor)
        entry = content.entry
        imported = content.imported
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

/// The names of people, each fetched once for a statement that gives many readings.
final class PeopleCache {
    private let db: Database
    private let sealing: Sealing
    private var known: [Int64: String?] = [:]
    // One turn's only: nothing else can be in the middle of it.
    @exclusivity(unchecked)
    private var last: (key: Int64, name: String?)?

    init(_ db: Database, _ sealing: Sealing) {
        self.db = db
        self.sealing = sealing
    }

    /// The client's id of a person; `nil` if they have no name yet, or if it was changed outside of this program.
    func name(_ key: Int64) throws -> String? {
        if let last, last.key == key { return last.name }
        let name = try known[key] ?? fetch(key)
        known[key] = .some(name)
        last = (key, name)
        return name
    }

    private func fetch(_ key: Int64) throws -> String? {
        let select = try PreparedStatement(db, "SELECT client_user_id, tag FROM user WHERE key = ?")
        select.bind(1, key)
        defer { select.reset() }
        guard try select.next(), let name = select.text(0), !name.isEmpty,
            PersonTag.person(key, clientUserID: name).holds(select.octets(1), sealing)
        else { return nil }
        return name
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
        let label = select.isNull(3) ? nil : select.withOctets(3) { try? sealing.label($0, of: key) }
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
