import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

extension ReadingStore {
    /// The setting that says which rule the minutes of stored trend records follow; versions before the second rule have
    /// none.
    static let trendRule = "sensor.trend_rule"

    /// Moves trend readings to their own minute where an earlier version stored them one minute late.
    ///
    /// Earlier versions took the newest trend record for one of the sensor's age, although the age may be a minute ahead of
    /// the ring. The scans are stored as they came, so this decodes them again. Each sensor is corrected in one transaction;
    /// a correction that is cut short goes on at the next opening.
    func correctTrendMinutes() async throws {
        let devices = try await read { db -> [Int64]? in
            guard try Self.lines(db, Self.trendRule).isEmpty else { return nil }
            return try Int64.fetchAll(
                db, sql: "SELECT DISTINCT device FROM sensor_record WHERE source = \(source: .trend) ORDER BY device")
        }
        guard let devices else { return }
        var (moved, withdrawn) = (0, 0)
        for device in devices {
            let corrected = try await write(.redecode) { [self] db in
                try TrendCorrection(
                    db, device: device, decoder: decoder, sealing: sealing,
                    pruned: PrunedReadings(db, key: pruneKey.withLock(\.self)), now: now()
                ).run()
            }
            moved += corrected.moved
            withdrawn += corrected.withdrawn
        }
        try await write(.setting) { db in try Self.set(db, Self.trendRule, lines: ["2"]) }
        guard moved + withdrawn > 0 else { return }
        logger.notice(
            "the minutes of trend readings that an earlier version stored late are corrected",
            metadata: ["moved": "\(moved)", "withdrawn": "\(withdrawn)"])
    }
}

/// Corrects the trend readings of one sensor within one transaction.
///
/// A reading that none of its scans shows at its minute is removed, and the record is stored again at the minute that the
/// scans show. What the server may know of it keeps its timestamp: the record's reading takes over that row of the outbox,
/// so the server gets no measurement under a second timestamp.
private struct TrendCorrection {
    /// The only destination of the versions whose readings are corrected. No other is added before the correction is
    /// done.
    static let place = DestinationKey.vital.rawValue

    private struct Scan {
        let frame: Frame
        let contact: Int64
        let epoch: Int
        /// The trend records by their minute.
        let trend: [UInt16: Record]
    }

    private struct Stored {
        let key: Int64
        let reading: Reading
        let facts: SensorFacts
        let sent: SentItem?
    }

    /// A reading that is taken out of the store to be stored again.
    private struct Lifted {
        let stored: Stored
        /// The record's own minute; `nil` if its scans do not tell.
        let minute: UInt16?
        var isMoved: Bool { minute.map { $0 != stored.facts.minute } ?? false }
    }

    private let db: Database
    private let device: Int64
    private let decoder: any FrameDecoding
    private let sealing: Sealing
    private let pruned: PrunedReadings?
    private let now: Instant

    init(
        _ db: Database, device: Int64, decoder: any FrameDecoding, sealing: Sealing, pruned: PrunedReadings?,
        now: Instant
    ) {
        self.now = now
        self.db = db
        self.device = device
        self.decoder = decoder
        self.sealing = sealing
        self.pruned = pruned
    }

    func run() throws -> (moved: Int, withdrawn: Int) {
        let (scans, frames) = (try scans(), try framesOfReadings())
        let lifted = try lift(scans, frames)
        guard !lifted.isEmpty else { return (0, 0) }
        let memory = try JournalMemory(db, sealing)
        let numbers = RowNumbers(db, memory, now: now)
        for each in lifted { try remove(each.stored.key) }
        let touched = Set(lifted.flatMap { frames[$0.stored.key] ?? [] }).sorted()
        // What the server knows of is stored first: no other reading may take its timestamp.
        var donors = Dictionary(
            grouping: lifted.filter { $0.minute != nil }, by: { RecordKey(at: $0.minute ?? 0, $0.stored.facts) })
        for isOfServer in [true, false] {
            for row in touched {
                guard let scan = scans[row] else { continue }
                let journal = try journal(scan, row, memory: memory, numbers: numbers)
                try store(scan, row, journal, onlyKnownToServer: isOfServer, &donors)
            }
        }
        for row in touched {
            guard let scan = scans[row], try isAlone(row) else { continue }
            let journal = try journal(scan, row, memory: memory, numbers: numbers)
            if scan.trend.isEmpty {
                _ = try journal.keep(scan.frame, .nothing)
            } else {
                // All its records were pruned.
                try journal.forgetStoredFrame()
            }
        }
        return (lifted.count { $0.isMoved }, lifted.count { $0.minute == nil })
    }

    // MARK: What is stored

    /// The sensor's scans that can be decoded, by the rows of their frames.
    private func scans() throws -> [Int64: Scan] {
        let model = try DeviceCache(db, sealing).description(device).model
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns), c.sequence_epoch FROM frame AS f JOIN contact AS c ON c.key = f.contact
            WHERE f.key IN (
                SELECT b.frame FROM sensor_record AS s JOIN reading_frame AS b ON b.reading = s.reading
                WHERE s.device = ? AND s.source = \(source: .trend) AND b.role = \(role: .record))
            """)
        select.bind(1, device)
        defer { select.reset() }
        let rows = RowReader(db, sealing)
        var scans: [Int64: Scan] = [:]
        while try select.next() {
            // A damaged frame says nothing of its readings: they stay as they are.
            guard let stored = try? rows.frame(select) else { continue }
            let frame = stored.frame
            guard case .sensor(let scan) = decoder.decode(frame, model: model) else { continue }
            var trend: [UInt16: Record] = [:]
            for record in scan.records {
                guard let facts = record.sensor, facts.source == .trend else { continue }
                trend[facts.minute] = record
            }
            scans[stored.key] = Scan(
                frame: frame, contact: stored.columns.contact, epoch: Int(select.int(FrameRow.count)), trend: trend)
        }
        return scans
    }

    /// The frames of the sensor's trend readings.
    private func framesOfReadings() throws -> [Int64: [Int64]] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT b.reading, b.frame FROM sensor_record AS s JOIN reading_frame AS b ON b.reading = s.reading
                WHERE s.device = ? AND s.source = \(source: .trend) AND b.role = \(role: .record) ORDER BY b.reading, b.frame
                """, arguments: [device])
        return try Dictionary(grouping: rows, by: { try $0.value(0) as Int64 }).mapValues { rows in
            try rows.map { try $0.value(1) }
        }
    }

    private func readings() throws -> [Stored] {
        let rows = RowReader(db, sealing)
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), o.state, o.timestamp, o.revision, o.attempts, o.delivered_at, o.words, \(OutboxTag.columns)
            FROM sensor_record AS s JOIN reading AS r ON r.key = s.reading LEFT JOIN outbox AS o
                ON o.reading = r.key AND o.destination = \(Self.place)
            WHERE s.device = ? AND s.source = \(source: .trend) ORDER BY r.key
            """)
        select.bind(1, device)
        defer { select.reset() }
        var stored: [Stored] = []
        while try select.next() {
            // A damaged row stays as it is; verification tells of it.
            guard let reading = try? rows.reading(select), let facts = reading.record.sensor else { continue }
            let key = ReadingRow.key(select)
            // So does one that was queued for another place or time than was written: nothing follows from that.
            let (isQueued, first) = (!select.isNull(ReadingRow.count), ReadingRow.count + SentItem.count)
            guard !isQueued || OutboxTag(select, from: first).holds(select, from: first, sealing) else { continue }
            stored.append(
                Stored(key: key, reading: reading, facts: facts, sent: try SentItem(select, sealing, reading: key)))
        }
        return stored
    }

    /// The readings that are at another minute than their scans show, and those that share a minute with one: their ids
    /// count what the minute has.
    private func lift(_ scans: [Int64: Scan], _ frames: [Int64: [Int64]]) throws -> [Lifted] {
        var (wrong, right): ([Lifted], [Stored]) = ([], [])
        for stored in try readings() {
            let shown = (frames[stored.key] ?? []).map { scans[$0] }
            guard !shown.isEmpty, shown.allSatisfy({ $0 != nil }) else { continue }
            func isShown(_ scan: Scan?, at minute: UInt16) -> Bool {
                guard let facts = scan?.trend[minute]?.sensor else { return false }
                return RecordKey(at: minute, facts) == RecordKey(at: minute, stored.facts)
            }
            let minute = stored.facts.minute
            let confirmed = shown.count { isShown($0, at: minute) }
            if confirmed == shown.count {
                right.append(stored)
            } else if confirmed > 0 {
                wrong.append(Lifted(stored: stored, minute: minute))
            } else {
                let isLate = minute > 0 && shown.contains { isShown($0, at: minute - 1) }
                wrong.append(Lifted(stored: stored, minute: isLate ? minute - 1 : nil))
            }
        }
        let crowded = Set(wrong.map(\.stored.facts.minute))
        return wrong
            + right.filter { crowded.contains($0.facts.minute) }.map { Lifted(stored: $0, minute: $0.facts.minute) }
    }

    // MARK: Storing again

    private func journal(_ scan: Scan, _ row: Int64, memory: JournalMemory, numbers: RowNumbers) throws -> Journal {
        var journal = try Journal(
            db, contact: ContactState(db, sealing, contact: scan.contact), epoch: scan.epoch, decoder: decoder,
            sealing: sealing, pruned: pruned, memory: memory, numbers: numbers)
        journal.storedFrame = row
        return journal
    }

    private func store(
        _ scan: Scan, _ row: Int64, _ journal: Journal, onlyKnownToServer: Bool, _ donors: inout [RecordKey: [Lifted]]
    ) throws {
        var journal = journal
        let starts = try SensorStarts(db, device: device, epoch: scan.epoch)
        for (minute, record) in scan.trend.sorted(by: { $0.key < $1.key }) {
            guard let facts = record.sensor else { continue }
            let key = RecordKey(at: minute, facts)
            let former = donors[key] ?? []
            // If the server has the record under two timestamps already, the one of its own minute is kept.
            let known = former.filter { $0.stored.sent?.mayBeAtServer == true }
            let sent = (known.first { !$0.isMoved } ?? known.first)?.stored.sent
            guard sent != nil || !onlyKnownToServer else { continue }
            let reading: Int64
            switch try journal.find(record, scan.frame) {
            case .pruned: continue
            case .existing(let existing, _):
                try journal.attach(row, to: existing, .record)
                reading = existing
            case .none(let id, let clash, _):
                guard try !isPrunedLate(record, scan.frame, journal) else { continue }
                // A time that was right never changes.
                let time =
                    former.first { !$0.isMoved }?.stored.reading.time
                    ?? starts.resolve(facts, scannedAt: scan.frame.receivedAt)
                (reading, _) = try journal.insert(record, scan.frame, as: row, id: id, clash: clash, time: time)
            }
            if let sent {
                try hand(sent, to: reading, facts)
                donors[key] = former.filter { $0.stored.sent?.mayBeAtServer != true }
            }
        }
    }

    /// Gives a reading the place at the server that its record has there. A history record that is to replace it there
    /// gets the timestamp instead.
    private func hand(_ sent: SentItem, to reading: Int64, _ facts: SensorFacts) throws {
        let unsent = "state = \(outbox: .waiting) AND attempts = 0 AND delivered_at IS NULL"
        try db.execute(
            sql: """
                UPDATE outbox SET state = ?, revision = ?, attempts = ?, delivered_at = ?, words = ?
                WHERE reading = ? AND destination = \(Self.place) AND \(unsent)
                """,
            arguments: [
                sent.state, sent.revision, sent.attempts, sent.deliveredAt,
                try sent.words.map { try sealing.seal($0, on: reading, at: Self.place) }, reading,
            ])
        guard db.changesCount == 0 else {
            return try OutboxTag.renew(db, reading: reading, at: Self.place, sealing) { $0.timestamp = sent.timestamp }
        }
        guard sent.state != OutboxState.refused.rawValue else { return }
        let histories = try Int64.fetchAll(
            db,
            sql: """
                SELECT reading FROM outbox WHERE \(unsent) AND destination = \(Self.place)
                    AND reading IN (SELECT reading FROM sensor_record WHERE device = ?1 AND minute = ?2 AND source = \(source: .history))
                    AND EXISTS (SELECT 1 FROM reading WHERE key = ?3 AND time_exclusion = ?4)
                """,
            arguments: [device, Int64(facts.minute), reading, Exclusion.superseded.code])
        for history in histories {
            try OutboxTag.renew(db, reading: history, at: Self.place, sealing) { $0.timestamp = sent.timestamp }
        }
    }

    /// Whether the record was delivered and pruned under the minute an earlier version gave it.
    private func isPrunedLate(_ record: Record, _ frame: Frame, _ journal: Journal) throws -> Bool {
        guard let pruned, let minute = record.sensor?.minute, minute < .max else { return false }
        var late = record
        late.sensor?.minute = minute + 1
        for clash in 0... {
            let id = ReadingIdentity(
                of: late, serial: journal.contact.description.serial, epoch: journal.epoch, frame: frame,
                contactStart: journal.contact.startedAt, clash: clash
            ).id(device: journal.contact.identity, kind: late.value.kind)
            switch try pruned.find(id, late) {
            case .same: return true
            case .other: continue
            case .none: return false
            }
        }
        return false
    }

    private func remove(_ reading: Int64) throws {
        for table in ["outbox", "sensor_record", "reading_frame"] {
            try db.execute(sql: "DELETE FROM \(table) WHERE reading = ?", arguments: [reading])
        }
        try db.execute(sql: "DELETE FROM reading WHERE key = ?", arguments: [reading])
    }

    /// Whether a frame belongs to no reading any more.
    private func isAlone(_ frame: Int64) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT NOT EXISTS (SELECT 1 FROM reading_frame WHERE frame = ?)", arguments: [frame]) == true
    }
}

/// A trend record at a minute, whatever the minute it was stored at.
private struct RecordKey: Hashable {
    private let facts: SensorFacts

    init(at minute: UInt16, _ facts: SensorFacts) {
        var facts = facts
        facts.minute = minute
        self.facts = facts
    }
}

/// A row of the outbox as it was.
private struct SentItem {
    let state: Int64
    let timestamp: Int64
    let revision: Int64
    let attempts: Int64
    let deliveredAt: Int64?
    let words: String?

    /// How many columns it is read from.
    static let count: Int32 = 6

    /// Reads the columns behind those of the reading; `nil` if the reading was never queued.
    init?(_ row: PreparedStatement, _ sealing: Sealing, reading: Int64) throws {
        let first = ReadingRow.count
        guard let state = row.optionalInt(first) else { return nil }
        self.state = state
        timestamp = row.int(first + 1)
        revision = row.int(first + 2)
        attempts = row.int(first + 3)
        deliveredAt = row.optionalInt(first + 4)
        words =
            row.isNull(first + 5)
            ? nil
            : try sealing.words(
                row.octets(first + 5), on: reading, at: TrendCorrection.place)
    }

    /// Whether the server was asked to take it: then it may have it, answered or not.
    var mayBeAtServer: Bool { state != OutboxState.waiting.rawValue || attempts > 0 || deliveredAt != nil }
}
