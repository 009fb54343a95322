import GRDB
import HealthReadings

/// Something that verification found wrong.
public struct VerificationFinding: Sendable, Hashable {
    /// What is wrong.
    public enum Problem: String, Sendable, Hashable {
        /// SQLite's own integrity check.
        case database = "database_damaged"
        /// A row names another that is not there.
        case reference = "reference_missing"
        /// A reading without the frame it came as.
        case noFrame = "reading_without_frame"
        /// A frame that decodes to another record than is stored.
        case differs = "reading_differs_from_frame"
        /// A frame that was a record, and belongs to no reading.
        case noReading = "frame_without_reading"
        /// A reading that is to be delivered, and is not in the outbox.
        case notQueued = "reading_not_queued"
        /// Readings were pruned, and the key is missing by which they would be recognised when they come again.
        case pruneKey = "prune_key_missing"
    }

    /// What is wrong.
    public var problem: Problem
    /// With what: a reading's id, a frame's number, SQLite's words.
    public var subject: String
}

extension ReadingStore {
    /// Checks the file, and every reading against the frame it came as.
    ///
    /// - Parameter progress: called now and then with how many readings of how many were checked.
    /// - Returns: what is wrong; empty for a sound store.
    public func verify(
        progress: @escaping @Sendable (_ done: Int, _ total: Int) -> Void = { _, _ in }
    ) async throws -> [VerificationFinding] {
        let decoder = decoder
        let hasPruneKey = pruneKey.withLock { $0 != nil }
        return try await read { db in
            var findings = try String.fetchAll(db, sql: "PRAGMA integrity_check(100)").filter { $0 != "ok" }
                .map { VerificationFinding(problem: .database, subject: $0) }
            // A damaged file answers the questions below wrongly.
            guard findings.isEmpty else { return findings }
            findings += try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { row in
                VerificationFinding(problem: .reference, subject: "\(row[0] as String) \(row[1] as Int64? ?? 0)")
            }
            findings += try Int64.fetchAll(
                db,
                sql: """
                    SELECT key FROM frame WHERE state = 1
                        AND NOT EXISTS (SELECT 1 FROM reading_frame WHERE frame = frame.key)
                    """
            ).map { VerificationFinding(problem: .noReading, subject: String($0)) }
            findings += try Self.queueFindings(db)
            if !hasPruneKey, try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") == true {
                findings.append(VerificationFinding(problem: .pruneKey, subject: PruneKey.fileName))
            }
            findings += try Self.frameFindings(db, decoder: decoder, progress: progress)
            return findings
        }
    }

    private static func queueFindings(_ db: Database) throws -> [VerificationFinding] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT id FROM reading WHERE record_exclusion IS NULL AND time_exclusion IS NULL
                    AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = reading.key)
                """
        ).map { VerificationFinding(problem: .notQueued, subject: try ReadingID(blob: $0[0]).description) }
    }

    /// Decodes the newest frame of every reading again.
    private static func frameFindings(
        _ db: Database, decoder: any FrameDecoding, progress: (Int, Int) -> Void
    ) throws -> [VerificationFinding] {
        let total = try Int.fetchOne(db, sql: "SELECT count(*) FROM reading") ?? 0
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), f.format, f.payload, f.received_at, f.ordinal
            FROM reading AS r \(ReadingRow.joins)
            LEFT JOIN frame AS f ON f.key =
                (SELECT max(frame) FROM reading_frame WHERE reading = r.key AND role = 1)
            """)
        defer { select.reset() }
        let devices = DeviceCache(db)
        var (findings, done): ([VerificationFinding], Int) = ([], 0)
        while try select.next() {
            done += 1
            if done % 10_000 == 0 { progress(done, total) }
            let reading = try ReadingRow.reading(select, devices: devices)
            let first = ReadingRow.count
            guard !select.isNull(first) else {
                findings.append(VerificationFinding(problem: .noFrame, subject: reading.id.description))
                continue
            }
            let frame = Frame(
                format: FrameFormat(rawValue: UInt32(truncatingIfNeeded: select.int(first))),
                payload: select.octets(first + 1), receivedAt: Instant(microseconds: select.int(first + 2)),
                ordinal: Int(select.int(first + 3)))
            guard decoder.decode(frame, model: reading.device.model).record(like: reading.record) == reading.record
            else {
                findings.append(VerificationFinding(problem: .differs, subject: reading.id.description))
                continue
            }
        }
        progress(done, total)
        return findings
    }
}

extension DecodedFrame {
    /// The record of this frame that a stored one must be: the only one, or a scan's of the same minute and ring.
    fileprivate func record(like stored: Record) -> Record? {
        switch self {
        case .record(let record): record
        case .sensor(let scan):
            scan.records.first { record in
                record.sensor?.minute == stored.sensor?.minute && record.sensor?.source == stored.sensor?.source
            }
        case .glucoseContext, .nothing, .malformed: nil
        }
    }
}
