import GRDB
import HealthReadings

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
    func isRestarted(by scan: SensorScan, scannedAt: Instant) throws -> Bool {
        try life.isRestarted(by: scan, scannedAt: scannedAt) { try newestMinute() }
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

    /// Whether a scan that was made now shows that the contact's sensor was started anew since the last one: it is younger than
    /// a record that is stored, and was started at another time. Begin another sequence epoch then, before the scan is stored.
    ///
    /// - Parameters:
    ///   - scan: what the scan says.
    ///   - contact: the contact that has just begun with the sensor.
    ///   - scannedAt: when the scan was made.
    /// - Throws: ``StoreError``.
    public func isRestarted(_ scan: SensorScan, in contact: Contact, scannedAt: Instant) async throws -> Bool {
        try await read { db in
            guard
                let device = try Int64.fetchOne(
                    db, sql: "SELECT device FROM contact WHERE key = ?", arguments: [contact.id])
            else { throw StoreError.unknown("contact \(contact.id)") }
            return try SensorStarts(db, device: device, epoch: contact.sequenceEpoch)
                .isRestarted(by: scan, scannedAt: scannedAt)
        }
    }
}
