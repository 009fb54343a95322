import GRDB
import HealthReadings

/// When a sensor started, for each of its minutes.
///
/// Fixed at the first scan. A later scan that proves it wrong begins another start, which counts from the first minute
/// that is not stored yet: what is stored may be at the server, or on its way there, under its time.
///
/// A sensor that was reset counts its minutes from 0 once more. Its new life is another sequence epoch, of which all of this
/// begins anew.
struct SensorStarts {
    private struct Span {
        var fromMinute: Int64
        var time: SensorTime
        var scannedAt: Instant
    }

    private let db: Database
    private let device: Int64
    private let epoch: Int
    /// What is added to the minutes in the table: those of an epoch follow all that the one before can have.
    private let base: Int64
    private var spans: [Span] = []

    init(_ db: Database, device: Int64, epoch: Int) throws {
        self.db = db
        self.device = device
        self.epoch = epoch
        let base = Int64(epoch) << 16
        self.base = base
        spans = try Row.fetchAll(
            db,
            sql: """
                SELECT from_minute, started_at, scanned_at FROM sensor_start
                WHERE device = ? AND from_minute >= ? AND from_minute < ? ORDER BY from_minute
                """, arguments: [device, base, base + (1 << 16)]
        ).map { row in
            let place: Int64 = try row.value(0)
            return Span(
                fromMinute: place - base, time: SensorTime(start: Instant(seconds: try row.value(1))),
                scannedAt: Instant(microseconds: try row.value(2)))
        }
    }

    /// Takes notice of what a scan shows. A scan that is older than one already noted, by a clock that was set back or
    /// being read again, proves nothing; nor does a sensor whose age stands still.
    mutating func note(_ scan: SensorScan, scannedAt: Instant) throws {
        guard scan.isRunning else { return }
        let shown = SensorTime(scannedAt: scannedAt, ageMinutes: scan.ageMinutes)
        guard let last = spans.last else {
            return try begin(Span(fromMinute: 0, time: shown, scannedAt: scannedAt))
        }
        guard scannedAt > last.scannedAt, last.time.isDisproved(by: shown) else { return }
        let next = max(try newestMinute().map { $0 + 1 } ?? 0, last.fromMinute)
        try begin(Span(fromMinute: next, time: shown, scannedAt: scannedAt))
    }

    /// Whether a scan that was made now shows that the sensor was started anew: it is younger than a record of it that is
    /// stored, and was started at another time.
    func isRestarted(by scan: SensorScan, scannedAt: Instant) throws -> Bool {
        guard scan.isRunning, let last = spans.last,
            last.time.isDisproved(by: SensorTime(scannedAt: scannedAt, ageMinutes: scan.ageMinutes))
        else { return false }
        return try newestMinute().map { $0 > Int64(scan.ageMinutes) } ?? false
    }

    /// The newest minute of which a record is stored, or was.
    private func newestMinute() throws -> Int64? {
        try Int64.fetchOne(
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

    private mutating func begin(_ span: Span) throws {
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO sensor_start (device, from_minute, started_at, scanned_at) VALUES (?, ?, ?, ?)
                """,
            arguments: [device, base + span.fromMinute, span.time.start.seconds, span.scannedAt.microseconds])
        if spans.last?.fromMinute == span.fromMinute { spans.removeLast() }
        spans.append(span)
    }

    /// When a record was made.
    func resolve(_ facts: SensorFacts, scannedAt: Instant) -> ResolvedTime {
        guard var span = spans.last(where: { $0.fromMinute <= Int64(facts.minute) }), let newest = spans.last else {
            return ResolvedTime(instant: nil, basis: .unknown)
        }
        // No record is younger than the scan that brings it: the start that says so was fixed under a wrong clock.
        if span.time.isAfter(scannedAt, minute: facts.minute) { span = newest }
        return span.time.resolve(facts, scannedAt: scannedAt)
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

    /// Whether a scan that was made now shows that the contact's sensor was started anew since the last one.
    package func isRestarted(_ scan: SensorScan, in contact: Contact, scannedAt: Instant) async throws -> Bool {
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
