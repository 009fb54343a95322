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
    let db: Database
    let decoder: any FrameDecoding
    let sealing: Sealing
    let pruned: PrunedReadings?
    let now: Instant

    /// Whether the readings of any device are to be judged again.
    static func isNeeded(_ db: Database, _ decoder: any FrameDecoding) throws -> Bool {
        try devices(db, nil).contains { $0.rules != decoder.rules(model: $0.model) }
    }

    /// Has the readings of a device judged again, whatever they were judged by.
    static func forget(_ db: Database, device: Int64) throws {
        try db.executeCached(sql: "UPDATE device SET judged_by = '' WHERE key = ?", arguments: [device])
    }

    /// Judges the readings of a device, or of all, whose rules have changed.
    ///
    /// - Returns: the readings that are others now.
    func run(only device: Int64? = nil) throws -> [FrameOutcome] {
        var outcomes: [FrameOutcome] = []
        for device in try Self.devices(db, device) {
            let rules = decoder.rules(model: device.model)
            guard device.rules != rules else { continue }
            // A device that is met for the first time has nothing, and its readings are looked for among all.
            if try hasContact(device.key) { outcomes += try judge(device.key, device.model) }
            try db.executeCached(sql: "UPDATE device SET judged_by = ? WHERE key = ?", arguments: [rules, device.key])
        }
        return outcomes
    }

    private func hasContact(_ device: Int64) throws -> Bool {
        let select = try PreparedStatement(db, "SELECT EXISTS (SELECT 1 FROM contact WHERE device = ?)")
        select.bind(1, device)
        return try select.firstInt() == 1
    }

    private func judge(_ device: Int64, _ model: String?) throws -> [FrameOutcome] {
        let hasMemory = decoder.comesByTwoProtocols(model: model)
        let candidates = try candidates(device)
        let placed = hasMemory ? try placed(device) : []
        let rows = RowReader(db, sealing)
        let frames = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns), c.sequence_epoch
            FROM reading_frame AS b JOIN frame AS f ON f.key = b.frame JOIN contact AS c ON c.key = f.contact
            WHERE b.reading = ? AND b.role = ? ORDER BY f.key DESC LIMIT 1
            """)
        defer { frames.reset() }
        var journals = try Journals(self)
        var outcomes: [FrameOutcome] = []
        for (place, reading) in (candidates + placed).enumerated() {
            frames.reset()
            frames.bind(1, reading)
            frames.bind(2, FrameRole.record.rawValue)
            guard try frames.next() else { continue }
            guard let stored = try StoreError.unlessCorrupt({ try rows.frame(frames) }) else { continue }
            let epoch = Int(frames.int(FrameRow.count))
            let frame = stored.frame
            let outcome = try journals.with(stored.columns.contact, epoch: epoch) { journal in
                let decoded = decoder.decode(frame, model: journal.contact.description.model)
                return try StoreError.unlessCorrupt { () -> FrameOutcome? in
                    if hasMemory, decoder.isPlacedByModel(frame) { return try journal.place(reading, decoded) }
                    // What a server has stays as it is, whatever else the rules say now.
                    guard place < candidates.count, case .record(let record) = decoded else { return nil }
                    return try journal.judge(reading, record)
                }
            }
            if let outcome = outcome ?? nil { outcomes.append(outcome) }
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

    /// A device, or all: its model, and the rules that its readings were judged by, empty where it was none.
    private static func devices(
        _ db: Database, _ device: Int64?
    ) throws -> [(key: Int64, model: String?, rules: String)] {
        let only = device == nil ? "" : "WHERE key = ?"
        return try Row.fetchAll(
            db, sql: "SELECT key, model, judged_by FROM device \(only) ORDER BY key",
            arguments: StatementArguments([device].compactMap(\.self))
        ).map { (try $0.value(0), try $0.value(1), try $0.value(2)) }
    }

    /// Gives each device a column for its rules, which were a setting with a line for each: its number and the rules.
    static func migrate(_ db: Database) throws {
        try db.execute(sql: "ALTER TABLE device ADD COLUMN judged_by TEXT NOT NULL DEFAULT ''")
        let lines = try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = 'judged.devices'") ?? ""
        for line in lines.split(separator: "\n") {
            let (device, rules) = (line.prefix { $0 != " " }, line.drop { $0 != " " }.dropFirst())
            try db.execute(
                sql: "UPDATE device SET judged_by = ? WHERE key = ?", arguments: [String(rules), Int64(device)])
        }
        try db.execute(sql: "DELETE FROM setting WHERE name = 'judged.devices'")
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
