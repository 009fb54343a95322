import GRDB
import HealthReadings
import Synchronization

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
        /// A reading that would be delivered elsewhere, or at another time, than was written; one that waits though it is
        /// excluded; or one that is in no state that there is.
        case queueChanged = "queue_changed"
        /// A person, their id at a destination or a source of theirs that is not as the store wrote it.
        case personChanged = "person_changed"
        /// A contact that began at no plausible time.
        case contactTime = "contact_time_implausible"
        /// A row whose content cannot be read: it is damaged, or its seal does not hold.
        case unreadable = "row_unreadable"
        /// Readings were pruned, and the key is missing by which they would be recognised when they come again.
        case pruneKey = "prune_key_missing"
        /// The order of changes, or what a subscriber has of it, is not as the store wrote it: what a subscriber is given
        /// may not be complete.
        case changesDamaged = "changes_damaged"
    }

    /// What is wrong.
    public var problem: Problem
    /// With what: a reading's id (or its row's number, where that is unreadable), a frame's number, SQLite's words.
    public var subject: String
}

extension ReadingStore {
    /// Checks the file, that every row can be read, and every reading against the frame it came as.
    ///
    /// - Parameter progress: called now and then.
    /// - Returns: what is wrong; empty for a sound store.
    /// - Throws: ``StoreError/keyMissing(path:)``, ``StoreError/keyWrong(path:)``: without the key nothing can be said;
    ///   `CancellationError`.
    public func verify(
        progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> [VerificationFinding] {
        let decoder = decoder
        let hasPruneKey = pruneKey.withLock { $0 != nil }
        return try await read { [sealing] db in
            try sealing.requireKeys()
            let rows = RowReader(db, sealing)
            progress(StoreProgress(.checkingFile))
            var findings = try String.fetchAll(db, sql: "PRAGMA integrity_check(100)").filter { $0 != "ok" }
                .map { VerificationFinding(problem: .database, subject: $0) }
            // A damaged file answers the questions below wrongly.
            guard findings.isEmpty else { return findings }
            findings += try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { row in
                let (table, key): (String, Int64?) = (try row.value(0), try row.value(1))
                return VerificationFinding(problem: .reference, subject: "\(table) \(key ?? 0)")
            }
            findings += try Int64.fetchAll(
                db,
                sql: """
                    SELECT key FROM frame WHERE state = \(frame: .record)
                        AND NOT EXISTS (SELECT 1 FROM reading_frame WHERE frame = frame.key)
                    """
            ).map { VerificationFinding(problem: .noReading, subject: String($0)) }
            findings += try Int64.fetchAll(
                db, sql: "SELECT key FROM contact WHERE started_at NOT BETWEEN ? AND ?",
                arguments: [DeviceHolds.plausibleStarts.lowerBound, DeviceHolds.plausibleStarts.upperBound]
            ).map { VerificationFinding(problem: .contactTime, subject: "contact \($0)") }
            findings += try Self.queueFindings(db, rows)
            findings += try Self.changedFindings(db, sealing, progress)
            findings += try Retracting.findings(db, sealing)
            findings += try Changes(db: db).findings()
            findings += try PeopleTags(db: db, sealing: sealing).findings()
            if !hasPruneKey, try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") == true {
                findings.append(VerificationFinding(problem: .pruneKey, subject: PruneKey.fileName))
            }
            findings += try Row.fetchAll(db, sql: "SELECT key, label FROM device WHERE label IS NOT NULL")
                .compactMap { row in
                    let key: Int64 = try row.value(0)
                    if (try? sealing.label(row.value(1), of: key)) != nil { return nil }
                    return VerificationFinding(problem: .unreadable, subject: "device \(key)")
                }
            findings += try Self.apartFindings(db, rows)
            findings += try Self.frameFindings(db, rows, decoder: decoder, progress: progress)
            findings += try Self.figureFindings(db, rows, decoder: decoder)
            return findings
        }
    }

    /// Readings that a destination is to get, and that are not queued for it.
    private static func queueFindings(_ db: Database, _ rows: RowReader) throws -> [VerificationFinding] {
        var missing: Set<ReadingID> = []
        for destination in try Self.destinations(db) where destination.state != .removed {
            // Earlier versions had one destination, and did not deliver all kinds that there are now.
            let isFirst = destination.enabledAt == nil
            let delivered = destination.kinds.filter {
                $0.isDelivered && (!isFirst || [.glucose, .bloodPressure].contains($0))
            }
            let kinds = delivered.map { String($0.code) }.sorted()
            let first = isFirst ? Int64.min : try Backlog.queued(db, destination)
            let select = try PreparedStatement(
                db,
                """
                SELECT \(ReadingRow.columns) FROM reading AS r
                WHERE record_exclusion IS NULL AND time_exclusion IS NULL AND r.kind IN (\(kinds.joined(separator: ",")))
                    AND r.time >= ?1 AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND destination = ?2)
                """)
            defer { select.reset() }
            select.bind(1, first)
            select.bind(2, destination.key.rawValue)
            while try select.next() {
                // One that cannot be read is told of where its frame is looked at.
                guard let (id, content) = try? rows.content(select), Record(value: content.value).isDelivered else {
                    continue
                }
                missing.insert(id)
            }
        }
        return missing.map(\.description).sorted().map { VerificationFinding(problem: .notQueued, subject: $0) }
    }

    /// Opens the frames that belong to no reading, and the contexts of those that do.
    private static func apartFindings(_ db: Database, _ rows: RowReader) throws -> [VerificationFinding] {
        let select = try PreparedStatement(
            db, "SELECT \(FrameRow.columns) FROM frame AS f WHERE f.state <> \(frame: .record)")
        defer { select.reset() }
        var findings: [VerificationFinding] = []
        while try select.next() {
            do { _ = try rows.frame(select) } catch {
                findings.append(VerificationFinding(problem: .unreadable, subject: "frame \(select.int(0))"))
            }
        }
        return findings
    }

    /// Checks where readings are delivered, and opens the server's words on them.
    private static func changedFindings(
        _ db: Database, _ sealing: Sealing, _ progress: @escaping StoreProgress.Handler
    ) throws -> [VerificationFinding] {
        let total = try Int64.fetchOne(db, sql: "SELECT count(*) FROM outbox") ?? 0
        var tally = WalkTally(.checkingQueue, of: total, progress)
        let select = try PreparedStatement(
            db,
            """
            SELECT \(OutboxTag.columns), o.words,
                (o.state = \(outbox: .waiting) AND (r.record_exclusion IS NOT NULL OR r.time_exclusion IS NOT NULL))
                    OR (o.state = \(outbox: .delivered) AND o.delivered_at IS NULL)
                    OR (o.state = \(outbox: .handedOver) AND o.handed_over_at IS NULL)
                    OR o.state NOT IN (\(OutboxState.allCases.map { String($0.rawValue) }.joined(separator: ", "))),
                o.destination
            FROM outbox AS o JOIN reading AS r ON r.key = o.reading
            """)
        defer { select.reset() }
        var findings: [VerificationFinding] = []
        while try select.next() {
            tally.count()
            let row = OutboxTag(select)
            if !row.holds(select, sealing) || select.int(OutboxTag.count + 1) != 0 {
                findings.append(VerificationFinding(problem: .queueChanged, subject: "reading \(row.reading)"))
            }
            if (try? sealing.words(
                select.octets(OutboxTag.count), on: row.reading, at: select.int(OutboxTag.count + 2))) == nil
            {
                findings.append(
                    VerificationFinding(problem: .unreadable, subject: "words on reading \(row.reading)"))
            }
        }
        return findings
    }

    /// Decodes the newest frame of every reading again.
    private static func frameFindings(
        _ db: Database, _ rows: RowReader, decoder: any FrameDecoding, progress: @escaping StoreProgress.Handler
    ) throws -> [VerificationFinding] {
        let total = try Int64.fetchOne(db, sql: "SELECT count(*) FROM reading") ?? 0
        var tally = WalkTally(.checkingReadings, of: total, progress)
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), \(FrameRow.columns)
            FROM reading AS r LEFT JOIN frame AS f ON f.key =
                (SELECT max(frame) FROM reading_frame WHERE reading = r.key AND role = \(role: .record))
            """)
        defer { select.reset() }
        let dropped = try FrameBatch.horizon(db)
        var findings: [VerificationFinding] = []
        while try select.next() {
            tally.count()
            guard let reading = try? rows.reading(select) else {
                findings.append(
                    VerificationFinding(problem: .unreadable, subject: "reading \(ReadingRow.key(select))"))
                continue
            }
            let first = ReadingRow.count
            guard !select.isNull(first) else {
                // The octets of older ones may have been let go.
                guard reading.receivedAt.microseconds >= dropped else { continue }
                findings.append(VerificationFinding(problem: .noFrame, subject: reading.id.description))
                continue
            }
            guard let frame = try? rows.frame(select, from: first).frame else {
                findings.append(VerificationFinding(problem: .unreadable, subject: "frame \(select.int(first))"))
                continue
            }
            let isElsewhere = reading.record.exclusion == .superseded && decoder.isPlacedByModel(frame)
            guard
                try isElsewhere || reading.isAsRead(from: frame, decoder)
                    || isOfEarlierFrame(db, rows, key: ReadingRow.key(select), reading, newest: frame, decoder)
            else {
                findings.append(VerificationFinding(problem: .differs, subject: reading.id.description))
                continue
            }
        }
        tally.end()
        return findings
    }

    /// Whether the newest frame is of an older version of another program's record than the stored one, and an earlier frame is what
    /// was stored.
    private static func isOfEarlierFrame(
        _ db: Database, _ rows: RowReader, key: Int64, _ reading: Reading, newest: Frame, _ decoder: any FrameDecoding
    ) throws -> Bool {
        guard case .imported(let sample) = decoder.decode(newest, model: nil),
            reading.record.imported?.isNewer(than: sample.updatedAt) == true
        else { return false }
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns) FROM reading_frame AS x JOIN frame AS f ON f.key = x.frame
            WHERE x.reading = ? AND x.role = \(role: .record) ORDER BY f.key DESC
            """)
        select.bind(1, key)
        defer { select.reset() }
        while try select.next() {
            if let frame = try? rows.frame(select).frame, reading.isAsRead(from: frame, decoder) { return true }
        }
        return false
    }
}

/// Counts the rows of a walk, and tells of every thousandth.
private struct WalkTally {
    private var progress: StoreProgress
    private let tell: StoreProgress.Handler

    init(_ step: StoreProgress.Step, of total: Int64, _ tell: @escaping StoreProgress.Handler) {
        (progress, self.tell) = (StoreProgress(step, of: total), tell)
    }

    mutating func count() {
        progress.done += 1
        if progress.done % 1000 == 0 { tell(progress) }
    }

    func end() { tell(progress) }
}

extension Reading {
    /// Whether it is what a frame says.
    fileprivate func isAsRead(from frame: Frame, _ decoder: any FrameDecoding) -> Bool {
        // What was stored before its device's model was known stays as it was read then.
        [device.model, nil].contains { model in
            decoder.decode(frame, model: model).record(like: record)?.heeding(record) == record
        }
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
        case .entry(let entry): entry.record
        case .imported(let sample): sample.record
        case .glucoseContext, .withdrawal, .figures, .nothing, .malformed: nil
        }
    }
}
