import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

/// Judges stored readings again where the rules of their device's model are others than those they were judged by: the
/// program has learnt what the model measures, or which model it is.
///
/// What waits and is excluded now is not delivered; what was excluded by a rule that has gone waits again. What the server
/// has already stays as it is. So does a damaged row: verification reports it.
///
/// A record that another model would have at another place, or not at all, may be another person's: it is excluded as
/// superseded and taken back wherever it was delivered. The next contact stores it as what it is.
struct Judgement {
    /// The setting with a line for each device whose readings were judged by rules: its number, and the rules.
    private static let setting = "judged.devices"

    let db: Database
    let decoder: any FrameDecoding
    let sealing: Sealing
    let pruned: PrunedReadings?
    let now: Instant

    /// Whether the readings of any device are to be judged again.
    static func isNeeded(_ db: Database, _ decoder: any FrameDecoding) throws -> Bool {
        let known = try knownRules(db)
        return try devices(db, nil).contains { known[$0.key] ?? "" != decoder.rules(model: $0.model) }
    }

    /// Has the readings of a device judged again, whatever they were judged by.
    static func forget(_ db: Database, device: Int64) throws {
        var known = try knownRules(db)
        guard known.removeValue(forKey: device) != nil else { return }
        try note(db, known)
    }

    /// Judges the readings of a device, or of all, whose rules have changed.
    ///
    /// - Returns: the readings that are others now.
    func run(only device: Int64? = nil) throws -> [FrameOutcome] {
        var known = try Self.knownRules(db)
        var outcomes: [FrameOutcome] = []
        var isChanged = false
        for (key, model) in try Self.devices(db, device) {
            let rules = decoder.rules(model: model)
            guard known[key] ?? "" != rules else { continue }
            outcomes += try judge(key, model)
            known[key] = rules
            isChanged = true
        }
        if isChanged { try Self.note(db, known) }
        return outcomes
    }

    private func judge(_ device: Int64, _ model: String?) throws -> [FrameOutcome] {
        let hasMemory = decoder.comesByTwoProtocols(model: model)
        let candidates = try candidates(device)
        let placed = hasMemory ? try placed(device) : []
        let memory = try JournalMemory(db, sealing)
        let numbers = RowNumbers(db, memory, now: now)
        let rows = RowReader(db, sealing)
        let frames = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns), c.sequence_epoch
            FROM reading_frame AS b JOIN frame AS f ON f.key = b.frame JOIN contact AS c ON c.key = f.contact
            WHERE b.reading = ? AND b.role = ? ORDER BY f.key DESC LIMIT 1
            """)
        defer { frames.reset() }
        var journals: [Int64: Journal] = [:]
        var outcomes: [FrameOutcome] = []
        for (place, reading) in (candidates + placed).enumerated() {
            frames.reset()
            frames.bind(1, reading)
            frames.bind(2, FrameRole.record.rawValue)
            guard try frames.next() else { continue }
            guard let stored = try StoreError.unlessCorrupt({ try rows.frame(frames) }) else { continue }
            let epoch = Int(frames.int(FrameRow.count))
            let (contact, frame) = (stored.columns.contact, stored.frame)
            var journal =
                try journals[contact]
                ?? Journal(
                    db, contact: ContactState(db, sealing, contact: contact), epoch: epoch, decoder: decoder,
                    sealing: sealing, pruned: pruned, memory: memory, numbers: numbers)
            let decoded = decoder.decode(frame, model: journal.contact.description.model)
            let outcome = try StoreError.unlessCorrupt {
                if hasMemory, decoder.isPlacedByModel(frame) { return try journal.place(reading, decoded) }
                // What a server has stays as it is, whatever else the rules say now.
                guard place < candidates.count, case .record(let record) = decoded else { return nil }
                return try journal.judge(reading, record)
            }
            if let outcome = outcome ?? nil { outcomes.append(outcome) }
            journals[contact] = journal
        }
        return outcomes
    }

    /// The readings of a device that its layout alone may change: they are delivered already, or were read by another layout.
    private func placed(_ device: Int64) throws -> [Int64] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT r.key FROM reading AS r WHERE r.device = ?1 AND (r.record_exclusion = ?2 OR (r.record_exclusion IS NULL
                    AND EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND state = ?3))) ORDER BY r.key
                """,
            arguments: [device, Exclusion.superseded.code, OutboxState.delivered.rawValue])
    }

    /// The readings of a device that rules may change.
    private func candidates(_ device: Int64) throws -> [Int64] {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(OutboxTag.columns), r.key FROM reading AS r LEFT JOIN outbox AS o ON o.reading = r.key
            WHERE r.device = ?1 AND (r.record_exclusion = ?2 OR (r.record_exclusion IS NULL
                AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND state = ?3))) ORDER BY r.key
            """)
        select.bind(1, device)
        select.bind(2, Exclusion.implausible.code)
        select.bind(3, OutboxState.delivered.rawValue)
        defer { select.reset() }
        var readings: [Int64] = []
        var changed: Set<Int64> = []
        while try select.next() {
            let reading = select.int(OutboxTag.count)
            // Nothing follows from a row that is queued for another place or time than was written.
            if !select.isNull(0), !OutboxTag(select).holds(select, sealing) { changed.insert(reading) }
            if readings.last != reading { readings.append(reading) }
        }
        return readings.filter { !changed.contains($0) }
    }

    private static func devices(_ db: Database, _ device: Int64?) throws -> [(key: Int64, model: String?)] {
        try Row.fetchAll(
            db, sql: "SELECT key, model FROM device WHERE ?1 IS NULL OR key = ?1 ORDER BY key", arguments: [device]
        ).map { (try $0.value(0), try $0.value(1)) }
    }

    private static func knownRules(_ db: Database) throws -> [Int64: String] {
        Dictionary(
            try ReadingStore.lines(db, setting).compactMap { line in
                let parts = line.utf8.split(separator: UInt8(ascii: " "), maxSplits: 1).map { Substring($0) }
                return parts.count == 2 ? Int64(parts[0]).map { ($0, String(parts[1])) } : nil
            }
        ) { _, last in last }
    }

    private static func note(_ db: Database, _ known: [Int64: String]) throws {
        let lines = known.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        try ReadingStore.set(db, setting, lines: lines)
    }
}

extension ReadingStore {
    /// Judges stored readings again where a newer program has other rules for their models.
    func judgeAgain() async throws {
        guard try await read({ [decoder] db in try Judgement.isNeeded(db, decoder) }) else { return }
        let outcomes = try await write(.redecode) { [self] db in try judgement(db).run() }
        guard !outcomes.isEmpty else { return }
        logger.notice(
            "stored readings were judged again by what their models measure", metadata: ["changed": "\(outcomes.count)"]
        )
        publish(outcomes)
    }

    /// What judges within a transaction.
    func judgement(_ db: Database) throws -> Judgement {
        Judgement(
            db: db, decoder: decoder, sealing: sealing, pruned: try PrunedReadings(db, key: pruneKey.withLock(\.self)),
            now: now())
    }
}
