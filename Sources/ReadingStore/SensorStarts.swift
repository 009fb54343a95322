import GRDB
import HealthReadings
import Synchronization

/// When a sensor started, as the store keeps it: one life for each of its sequence epochs.
struct SensorStarts {
    private let db: Database
    private let device: Int64
    private let epoch: Int
    /// What is added to the minutes in the table: those of an epoch follow all that the one before can have.
    private let base: Int64
    private var life: SensorLife

    init(_ db: Database, device: Int64, epoch: Int) throws {
        self.db = db
        self.device = device
        self.epoch = epoch
        let base = Int64(epoch) << 16
        self.base = base
        let spans = try Row.fetchAll(
            db,
            sql: """
                SELECT from_minute, started_at, scanned_at FROM sensor_start
                WHERE device = ? AND from_minute >= ? AND from_minute < ? ORDER BY from_minute
                """, arguments: [device, base, base + (1 << 16)]
        ).map { row in
            let place: Int64 = try row.value(0)
            return SensorLife.Span(
                fromMinute: Int(place - base), time: SensorTime(start: Instant(seconds: try row.value(1))),
                scannedAt: Instant(microseconds: try row.value(2)))
        }
        life = SensorLife(spans)
    }

    /// Takes notice of what a scan shows, and keeps the start that it begins.
    mutating func note(_ scan: SensorScan, scannedAt: Instant) throws {
        var next = life
        guard let span = try next.note(scan, scannedAt: scannedAt, newestMinute: { try newestMinute() }) else { return }
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO sensor_start (device, from_minute, started_at, scanned_at) VALUES (?, ?, ?, ?)
                """,
            arguments: [
                device, base + Int64(span.fromMinute), span.time.start.seconds, span.scannedAt.microseconds,
            ])
        life = next
    }

    /// Whether a scan that was made now shows that the sensor was started anew.
    ///
    /// - Parameter isKnown: as `SensorLife` asks it.
    func isRestarted(
        by scan: SensorScan, scannedAt: Instant, isKnown: (Record) throws -> Bool?
    ) throws -> Bool {
        try life.isRestarted(
            by: scan, scannedAt: scannedAt, newestMinute: { try newestMinute() }, isKnown: isKnown)
    }

    /// The newest minute of which a record is stored, or was.
    private func newestMinute() throws -> Int? {
        try Int.fetchOne(
            db,
            sql: """
                SELECT max(minute) FROM (
                    SELECT s.minute FROM sensor_record AS s JOIN reading AS r ON r.key = s.reading
                    WHERE s.device = ?1 AND r.sequence_epoch = ?2
                    UNION ALL SELECT minute FROM pruned WHERE device = ?1 AND sequence_epoch = ?2)
                """, arguments: [device, epoch])
    }

    /// The start that the newest scan of a sensor found; `nil` if none has found one.
    static func newest(_ db: Database, device: Int64) throws -> Instant? {
        try Int64.fetchOne(
            db, sql: "SELECT started_at FROM sensor_start WHERE device = ? ORDER BY from_minute DESC LIMIT 1",
            arguments: [device]
        ).map { Instant(seconds: $0) }
    }

    /// When a record was made.
    func resolve(_ facts: SensorFacts, scannedAt: Instant) -> ResolvedTime {
        life.resolve(facts, scannedAt: scannedAt)
    }
}

/// The records of a sensor's life that are stored, or were.
private struct StoredRecords {
    let db: Database
    let device: Int64
    let serial: String
    let epoch: Int
    let rows: RowReader
    let pruned: PrunedReadings?

    /// Whether a record is known with the raw numbers it has here; `nil` if none of its minute and ring is.
    func isKnown(_ record: Record) throws -> Bool? {
        guard let facts = record.sensor else { return nil }
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns) FROM sensor_record AS s JOIN reading AS r ON r.key = s.reading
            WHERE s.device = ? AND s.minute = ? AND s.source = ? AND r.sequence_epoch = ?
            """)
        select.bind(1, device)
        select.bind(2, Int64(facts.minute))
        select.bind(3, Int64(facts.source.rawValue))
        select.bind(4, Int64(epoch))
        defer { select.reset() }
        var stored = 0
        while try select.next() {
            // How it was calibrated is no matter: a scan with a damaged footer has the same records, without values.
            if try rows.record(select).1.sensor?.raw == facts.raw { return true }
            stored += 1
        }
        var isOther = stored > 0
        var clash = 0
        while true {
            let id = ReadingIdentity.sensor(
                serial: serial, epoch: epoch, minute: facts.minute, source: facts.source, clash: clash
            ).id(device: nil, kind: record.value.kind)
            let match: PrunedReadings.Match = try pruned?.find(id, record) ?? .none
            switch match {
            case .same: return true
            // Of what was pruned the numbers can't be told from the value: without one, nothing says that it is another.
            case .other where facts.calibration == .none && !facts.hasError: return true
            case .other: isOther = true
            // Those that are stored and those that were pruned are counted in one.
            case .none where stored > 0: stored -= 1
            case .none: return isOther ? false : nil
            }
            clash += 1
        }
    }
}

/// A sensor that was scanned before.
package struct KnownSensor: Sendable, Hashable {
    /// When it started, as far as is known.
    package var start: Instant?
}

extension ReadingStore {
    /// What is known of a sensor; `nil` for one that was never scanned.
    package func sensor(serial: String, model: String?) async throws -> KnownSensor? {
        try await read { [sealing, logger] db in
            let register = DeviceRegister(db: db, sealing: sealing, logger: logger)
            guard let device = try register.sensor(serial: serial, model: model) else { return nil }
            return KnownSensor(start: try SensorStarts.newest(db, device: device))
        }
    }

    /// Whether a scan that was made now shows that the contact's sensor was started anew since the last one: it shows another
    /// start, and is younger than a record that is stored, or has other records of minutes that are stored. Begin another sequence
    /// epoch then, before the scan is stored.
    ///
    /// - Parameters:
    ///   - scan: what the scan says.
    ///   - contact: the contact that has just begun with the sensor.
    ///   - scannedAt: when the scan was made.
    /// - Throws: ``StoreError``.
    public func isRestarted(_ scan: SensorScan, in contact: Contact, scannedAt: Instant) async throws -> Bool {
        try await read { [self] db in
            guard
                let device = try Int64.fetchOne(
                    db, sql: "SELECT device FROM contact WHERE key = ?", arguments: [contact.id])
            else { throw StoreError.unknown("contact \(contact.id)") }
            let epoch = contact.sequenceEpoch
            let records = StoredRecords(
                db: db, device: device, serial: contact.device.serial ?? "", epoch: epoch, rows: RowReader(db, sealing),
                pruned: try PrunedReadings(db, key: pruneKey.withLock(\.self)))
            return try SensorStarts(db, device: device, epoch: epoch)
                .isRestarted(by: scan, scannedAt: scannedAt) { try records.isKnown($0) }
        }
    }
}
