import GRDB
import HealthReadings

/// When a sensor started, for each of its minutes.
///
/// Fixed at the first scan. A later scan that proves it wrong begins another start, which counts from the first minute
/// that is not stored yet: what is stored may be at the server, or on its way there, under its time.
struct SensorStarts {
    private struct Span {
        var fromMinute: Int64
        var time: SensorTime
        var scannedAt: Instant
    }

    private let db: Database
    private let device: Int64
    private var spans: [Span] = []

    init(_ db: Database, device: Int64) throws {
        self.db = db
        self.device = device
        spans = try Row.fetchAll(
            db,
            sql: "SELECT from_minute, started_at, scanned_at FROM sensor_start WHERE device = ? ORDER BY from_minute",
            arguments: [device]
        ).map { row in
            Span(
                fromMinute: try row.value(0), time: SensorTime(start: Instant(seconds: try row.value(1))),
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
        let newest = try Int64.fetchOne(
            db,
            sql: """
                SELECT max(minute) FROM (SELECT minute FROM sensor_record WHERE device = ?1
                    UNION ALL SELECT minute FROM pruned WHERE device = ?1)
                """, arguments: [device])
        let next = max(newest.map { $0 + 1 } ?? 0, last.fromMinute)
        try begin(Span(fromMinute: next, time: shown, scannedAt: scannedAt))
    }

    /// The start that the newest scan found; `nil` if none has found one.
    var newest: Instant? { spans.last?.time.start }

    private mutating func begin(_ span: Span) throws {
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO sensor_start (device, from_minute, started_at, scanned_at) VALUES (?, ?, ?, ?)
                """,
            arguments: [device, span.fromMinute, span.time.start.seconds, span.scannedAt.microseconds])
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
            return KnownSensor(start: try SensorStarts(db, device: device).newest)
        }
    }
}
