import GRDB
import HealthReadings
import Synchronization

/// Something that verification found wrong.
public struct VerificationFinding: Sendable, Hashable {
    /// What is wrong.
    public enum Problem: String, Sendable, Hashable {
        /// SQLite's own check of its pages, or that of its indexes.
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
    /// With what: a reading's id (or its row's number, where that is unreadable), a frame's number, or words about the file.
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
    ) async throws -> [VerificationFinding] { try await verify(atOnce: Walk.atOnce, progress: progress) }

    /// - Parameter atOnce: how many rows are read in one go; others are read and written between.
    func verify(
        atOnce: Int, progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> [VerificationFinding] {
        try sealing.requireKeys()
        progress(StoreProgress(.checkingFile))
        let walk = Walk(store: self, atOnce: atOnce, tell: progress)
        return try await withThrowingTaskGroup(of: Checked.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                .file(try await Self.fileFindings(walk).map { VerificationFinding(problem: .database, subject: $0) })
            }
            group.addTask {
                do { return .rows(.success(try await self.rowFindings(walk))) } catch { return .rows(.failure(error)) }
            }
            var rows: Result<[VerificationFinding], any Error>?
            var isSound = false
            while let checked = try await group.next() {
                switch checked {
                // A damaged file answers all other questions wrongly, or not at all.
                case .file(let damages) where !damages.isEmpty: return damages
                case .file: isSound = true
                case .rows(let found): rows = found
                }
                if isSound, let rows { return try rows.get() }
                // The file's own check may take longer than all others.
                if rows != nil {
                    group.addTask {
                        while true {
                            progress(StoreProgress(.checkingFile))
                            try await Task.sleep(for: .seconds(1))
                        }
                    }
                }
            }
            throw CancellationError()
        }
    }

    /// What was checked side by side.
    private enum Checked: Sendable {
        /// The file's pages and indexes.
        case file([VerificationFinding])
        /// What the rows say, or why they could not be read.
        case rows(Result<[VerificationFinding], any Error>)
    }

    /// What is wrong with the file: with its pages, or with an index.
    private static func fileFindings(_ walk: Walk) async throws -> [String] {
        // Rows that break a CHECK constraint are none of it, on a connection that only reads: they are told as rows.
        let damages = try await walk.read { db in
            try String.fetchAll(db, sql: "PRAGMA quick_check(100)").filter { $0 != "ok" }
        }
        guard damages.isEmpty else { return damages }
        let tables = try await walk.read(IndexCheck.tables)
        return try await withThrowingTaskGroup(of: [String].self) { group in
            for table in tables {
                group.addTask { try await walk.read { db in try IndexCheck.findings(db, table: table) } }
            }
            var findings: [String] = []
            for try await found in group { findings += found }
            return findings.sorted()
        }
    }

    private func rowFindings(_ walk: Walk) async throws -> [VerificationFinding] {
        let decoder = decoder
        var findings: [VerificationFinding] = try await walk.read { db in
            try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { row in
                let (table, key): (String, Int64?) = (try row.value(0), try row.value(1))
                return VerificationFinding(problem: .reference, subject: "\(table) \(key ?? 0)")
            }
                + Int64.fetchAll(
                    db,
                    sql: """
                        SELECT key FROM frame WHERE state = \(frame: .record)
                            AND NOT EXISTS (SELECT 1 FROM reading_frame WHERE frame = frame.key)
                        """
                ).map { VerificationFinding(problem: .noReading, subject: String($0)) }
                + Int64.fetchAll(
                    db, sql: "SELECT key FROM contact WHERE started_at NOT BETWEEN ? AND ?",
                    arguments: [DeviceHolds.plausibleStarts.lowerBound, DeviceHolds.plausibleStarts.upperBound]
                ).map { VerificationFinding(problem: .contactTime, subject: "contact \($0)") }
        }
        let places = try await walk.findings(.checkingQueue, in: "outbox", Self.changedFindings)
        let readings = try await walk.findings(.checkingReadings, in: "reading") { db, rows, keys in
            RowFindings(
                notQueued: try Self.notQueued(db, rows, keys),
                differing: try Self.frameFindings(db, rows, keys, decoder: decoder),
                decided: try Self.figureFindings(db, rows, keys, decoder: decoder))
        }
        findings += Set(readings.flatMap(\.notQueued)).map(\.description).sorted()
            .map { VerificationFinding(problem: .notQueued, subject: $0) }
        findings += places.flatMap(\.self)
        let hadPruneKey = pruneKey.withLock { $0 != nil }
        findings += try await walk.read { [sealing] db in
            try sealing.requireKeys()
            var findings = try Retracting.findings(db, sealing)
            findings += try Changes(db: db).findings()
            findings += try PeopleTags(db: db, sealing: sealing).findings()
            // The first pruning makes the key, and the last erasure destroys it.
            let hasPruneKey = hadPruneKey || self.pruneKey.withLock { $0 != nil }
            if !hasPruneKey, try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") == true {
                findings.append(VerificationFinding(problem: .pruneKey, subject: PruneKey.fileName))
            }
            findings += try Row.fetchAll(db, sql: "SELECT key, label FROM device WHERE label IS NOT NULL")
                .compactMap { row in
                    let key: Int64 = try row.value(0)
                    if (try? sealing.label(row.value(1), of: key)) != nil { return nil }
                    return VerificationFinding(problem: .unreadable, subject: "device \(key)")
                }
            return findings + (try Self.apartFindings(db, RowReader(db, sealing)))
        }
        return findings + readings.flatMap(\.differing) + readings.flatMap(\.decided)
    }

    /// Readings that a destination is to get, and that are not queued for it.
    private static func notQueued(_ db: Database, _ rows: RowReader, _ keys: ClosedRange<Int64>) throws -> [ReadingID] {
        var missing: [ReadingID] = []
        for destination in try Self.destinations(db) where destination.state != .removed {
            // Earlier versions had one destination, and did not deliver all kinds that there are now.
            let isFirst = destination.enabledAt == nil
            let delivered = destination.kinds.filter {
                $0.isDelivered && (!isFirst || [.glucose, .bloodPressure].contains($0))
            }
            let kinds = delivered.map { String($0.code) }.sorted()
            let first = isFirst ? Int64.min : try Backlog.queued(db, destination)
            // With the plus signs SQLite keeps to the range of keys.
            let select = try PreparedStatement(
                db,
                """
                SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key BETWEEN ?3 AND ?4
                    AND record_exclusion IS NULL AND time_exclusion IS NULL AND +r.kind IN (\(kinds.joined(separator: ",")))
                    AND +r.time >= ?1 AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND destination = ?2)
                """)
            defer { select.reset() }
            select.bind(1, first)
            select.bind(2, destination.key.rawValue)
            select.bind(3, keys.lowerBound)
            select.bind(4, keys.upperBound)
            while try select.next() {
                // One that cannot be read is told of where its frame is looked at.
                guard let (id, content) = try? rows.content(select), Record(value: content.value).isDelivered else {
                    continue
                }
                missing.append(id)
            }
        }
        return missing
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
    @Sendable private static func changedFindings(
        _ db: Database, _ rows: RowReader, _ places: ClosedRange<Int64>
    ) throws -> [VerificationFinding] {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(OutboxTag.columns), o.words,
                (o.state = \(outbox: .waiting) AND (r.record_exclusion IS NOT NULL OR r.time_exclusion IS NOT NULL))
                    OR (o.state = \(outbox: .delivered) AND o.delivered_at IS NULL)
                    OR (o.state = \(outbox: .handedOver) AND o.handed_over_at IS NULL)
                    OR o.state NOT IN (\(OutboxState.allCases.map { String($0.rawValue) }.joined(separator: ", "))),
                o.destination
            FROM outbox AS o CROSS JOIN reading AS r ON r.key = o.reading WHERE o.rowid BETWEEN ? AND ?
            """)
        defer { select.reset() }
        select.bind(1, places.lowerBound)
        select.bind(2, places.upperBound)
        var findings: [VerificationFinding] = []
        while try select.next() {
            let row = OutboxTag(select)
            if !row.holds(select, rows.sealing) || select.int(OutboxTag.count + 1) != 0 {
                findings.append(VerificationFinding(problem: .queueChanged, subject: "reading \(row.reading)"))
            }
            if (try? rows.sealing.words(
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
        _ db: Database, _ rows: RowReader, _ keys: ClosedRange<Int64>, decoder: any FrameDecoding
    ) throws -> [VerificationFinding] {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), \(FrameRow.columns)
            FROM reading AS r LEFT JOIN frame AS f ON f.key =
                (SELECT max(frame) FROM reading_frame WHERE reading = r.key AND role = \(role: .record))
            WHERE r.key BETWEEN ? AND ?
            """)
        defer { select.reset() }
        select.bind(1, keys.lowerBound)
        select.bind(2, keys.upperBound)
        let dropped = try FrameBatch.horizon(db)
        var findings: [VerificationFinding] = []
        while try select.next() {
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
        return findings
    }

    /// Whether an earlier frame is what was stored: the newest one is of an older version of another program's record than the
    /// stored one, or it is a scan of a sensor that was in another state.
    private static func isOfEarlierFrame(
        _ db: Database, _ rows: RowReader, key: Int64, _ reading: Reading, newest: Frame, _ decoder: any FrameDecoding
    ) throws -> Bool {
        var isOlder = false
        if case .imported(let sample) = decoder.decode(newest, model: nil) {
            isOlder = reading.record.imported?.isNewer(than: sample.updatedAt) == true
        }
        guard isOlder || reading.record.sensor != nil else { return false }
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

/// What some readings were found to be.
private struct RowFindings: Sendable {
    /// Those that a destination is to get, and that are not queued for it.
    var notQueued: [ReadingID]
    /// Those that are not as their frames say.
    var differing: [VerificationFinding]
    /// Those of which a person decided otherwise than is stored.
    var decided: [VerificationFinding]
}

/// Walks along tables, some rows at a time and on two cores. A connection that reads is left for others.
private struct Walk: Sendable {
    /// How many rows are read in one go: some hundredths of a second.
    static let atOnce = 4096
    private static let width = 2

    let store: ReadingStore
    let atOnce: Int
    let tell: StoreProgress.Handler
    private let turns = Turnstile(width: width)

    init(store: ReadingStore, atOnce: Int, tell: @escaping StoreProgress.Handler) {
        (self.store, self.atOnce, self.tell) = (store, atOnce, tell)
    }

    /// Reads from the last commit, in turn.
    func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        try await turns.pass { try await store.read(body) }
    }

    /// What was found of a table's rows, in their order. Rows that come meanwhile may be left out.
    ///
    /// - Parameter look: looks at the rows whose keys are in a range.
    func findings<Found: Sendable>(
        _ step: StoreProgress.Step, in table: String,
        _ look: @escaping @Sendable (Database, RowReader, ClosedRange<Int64>) throws -> Found
    ) async throws -> [Found] {
        let total = try await store.read { db in try Int64.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? 0 }
        var progress = StoreProgress(step, of: total)
        return try await withThrowingTaskGroup(of: (piece: Int, rows: Int64, found: Found).self) { group in
            var found: [Int: Found] = [:]
            var (piece, first) = (0, Int64?.some(.min))
            /// Begins with the next rows, if there are any.
            func begin() async throws {
                guard let start = first, let next = try await rows(from: start, in: table) else { return first = nil }
                first = next.keys.upperBound == .max ? nil : next.keys.upperBound + 1
                group.addTask { [piece] in
                    let found = try await read { [sealing = store.sealing] db in
                        try sealing.requireKeys()
                        return try look(db, RowReader(db, sealing), start...next.keys.upperBound)
                    }
                    return (piece, next.count, found)
                }
                piece += 1
            }
            for _ in 0..<Self.width { try await begin() }
            while let looked = try await group.next() {
                found[looked.piece] = looked.found
                // Some come and go meanwhile.
                progress.done = min(progress.done + looked.rows, total)
                tell(progress)
                try await begin()
            }
            if progress.done < total {
                progress.done = total
                tell(progress)
            }
            return (0..<piece).compactMap { found[$0] }
        }
    }

    /// The keys of the next rows, and how many there are.
    private func rows(from start: Int64, in table: String) async throws -> (keys: ClosedRange<Int64>, count: Int64)? {
        try await store.read { [atOnce] db in
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT max(rowid), count(*) FROM (SELECT rowid FROM \(table) WHERE rowid >= ? ORDER BY rowid LIMIT ?)
                    """,
                arguments: [start, atOnce])
            guard let row, let last = row[0] as Int64? else { return nil }
            // The file may be damaged: its check goes on beside the walk.
            guard last >= start else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
            return (start...last, try row.value(1))
        }
    }
}

extension Reading {
    /// Whether it is what a frame says.
    fileprivate func isAsRead(from frame: Frame, _ decoder: any FrameDecoding) -> Bool {
        // What was stored before its device's model was known stays as it was read then.
        [device.model, nil].contains { model in
            let decoded = decoder.decode(frame, model: model)
            // Earlier versions placed the rings of a sensor that has ended at its age, excluded. They stay as they were stored.
            if decoded.hasEnded(recordOf: record) { return true }
            guard let found = decoded.record(like: record)?.heeding(record) else { return false }
            return found.asEarlier(record, in: frame.format) == record
        }
    }
}

extension Record {
    /// The record as an earlier version has read it in the same octets, if a stored one shows that: it stays as it was stored.
    ///
    /// - Parameters:
    ///   - stored: the record as it was stored.
    ///   - format: the format of its frame.
    func asEarlier(_ stored: Record, in format: FrameFormat) -> Record {
        var found = format == .cloudRecord ? asEarlierOfCloud(stored) : self
        // Earlier versions excluded all that an expired sensor still held.
        if stored.sensor != nil, stored.exclusion == .sensorNotActive, exclusion == nil {
            found.exclusion = stored.exclusion
        }
        // They delivered what an oximeter measured while it calibrated, or had a malfunction.
        if stored.value.kind == .spo2, exclusion == .errorRecord,
            [nil, Exclusion.notANumber, .implausible].contains(stored.exclusion)
        {
            found.exclusion = stored.exclusion
        }
        // They took what a scale calls the weight of a thing for a person's.
        if stored.value.kind == .weight, exclusion == .errorRecord,
            [nil, Exclusion.implausible].contains(stored.exclusion)
        {
            found.exclusion = stored.exclusion
        }
        // They took a bit of an Omron monitor's records for a low battery. No other cuff's record has that status.
        if stored.value.kind == .bloodPressure, stored.status.contains(.deviceBatteryLow) {
            found.status.insert(.deviceBatteryLow)
        }
        // They took the number that a meter sends in place of HI or LO for what it measured, or for none that it can measure.
        if isBeyondNumbers, [nil, Exclusion.implausible].contains(stored.exclusion) {
            found.status.subtract([.resultTooHigh, .resultTooLow])
            found.exclusion = stored.exclusion
        }
        // They excluded what a health sensor (2B8B) called an early estimate or beyond its limits, and kept no mark of a doubt.
        if stored.exclusion == .errorRecord { found.exclusion = stored.exclusion }
        if !stored.status.contains(.questionable) { found.status.remove(.questionable) }
        return found
    }

    /// The same of a record of a cloud.
    private func asEarlierOfCloud(_ stored: Record) -> Record {
        guard let facts = stored.imported else { return self }
        var found = self
        // They didn't know until when a summary goes, nor that a person had typed it in there.
        if facts.updatedAt == nil { found.imported?.updatedAt = nil }
        if !facts.isEntered { found.imported?.isEntered = false }
        if facts.utcOffsetMinutes == 0, let minutes = imported?.utcOffsetMinutes, let local = baseTime {
            // They didn't know the name that a snapshot has for its offset.
            let start = local.advanced(byMinutes: -minutes)
            found.imported?.utcOffsetMinutes = 0
            found.baseTime = start
            // They took a start with a fraction for none, and placed the record at the beginning of its day.
            if let day = stored.baseTime, day.secondsSinceEpoch % Self.day == 0,
                (0..<Self.day).contains(local.secondsSinceEpoch - day.secondsSinceEpoch)
            {
                let seconds = day.secondsSinceEpoch - start.secondsSinceEpoch
                found.baseTime = day
                let (end, updatedAt) = (found.imported?.end, found.imported?.updatedAt)
                found.imported?.end = end?.advanced(bySeconds: seconds)
                found.imported?.updatedAt = updatedAt?.advanced(bySeconds: seconds)
            }
        }
        // They ended a night too early.
        if stored.value.kind == .sleep, let early = facts.end, let end = found.imported?.end, early < end {
            found.imported?.end = early
        }
        return found
    }

    /// A day, in seconds.
    private static var day: Int64 { 86_400 }

    /// Whether its number stands for HI or LO only.
    private var isBeyondNumbers: Bool {
        guard exclusion == .notANumber, case .glucose(let glucose) = value else { return false }
        return glucose.concentration?.number.number != nil
    }
}

extension DecodedFrame {
    /// Whether a sensor that measures no more shows an excluded record in the same ring, at whatever minute.
    fileprivate func hasEnded(recordOf stored: Record) -> Bool {
        guard case .sensor(let scan) = self, !scan.isRunning, stored.exclusion != nil, let facts = stored.sensor
        else { return false }
        return scan.records.contains { record in
            var record = record
            record.sensor?.minute = facts.minute
            record.exclusion = stored.exclusion
            return record == stored
        }
    }

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
