import GRDB
import HealthReadings

/// Queues for a destination what the store has for it already.
struct Backlog {
    private let db: Database
    private let destination: StoredDestination
    private let placement: OutboxPlacement
    private let rows: RowReader

    init(_ db: Database, _ sealing: Sealing, _ destination: StoredDestination, _ pruned: PrunedReadings?) throws {
        self.db = db
        self.destination = destination
        placement = OutboxPlacement(
            db: db, sealing: sealing, destinations: try ReadingStore.destinations(db), pruned: pruned,
            insert: try PreparedStatement(db, JournalStatements.insertOutboxSQL))
        rows = RowReader(db, sealing)
    }

    func queue() throws {
        var after: Int64 = 0
        while let last = try queue(after: after) { after = last }
        let first = try Self.cutoff(db, destination)
        try ReadingStore.set(db, Self.setting(destination), lines: [String(first)])
    }

    /// Whether everything that belongs to the backfill has been queued; what came since then is queued as it comes.
    static func isQueued(_ db: Database, _ destination: StoredDestination) throws -> Bool {
        // Every store begins with it, and queues everything for it.
        try destination.enabledAt == nil || queued(db, destination) <= cutoff(db, destination)
    }

    /// The first second of what has been queued; what was stored while it was not named, and is older, was not.
    static func queued(_ db: Database, _ destination: StoredDestination) throws -> Int64 {
        try ReadingStore.lines(db, setting(destination)).first.flatMap(Int64.init) ?? .max
    }

    private static func setting(_ destination: StoredDestination) -> String {
        "destination.queued.\(destination.key.rawValue)"
    }

    /// The first second that belongs to the backfill.
    private static func cutoff(_ db: Database, _ destination: StoredDestination) throws -> Int64 {
        guard
            let days = try ReadingStore.rule(db, of: destination.name).backfillDays ?? ReadingStore.backfillDays(db),
            let enabled = destination.enabledAt
        else { return .min }
        let seconds = Int64(days).multipliedReportingOverflow(by: 86_400)
        let cutoff = enabled.seconds.subtractingReportingOverflow(seconds.partialValue)
        return seconds.overflow || cutoff.overflow ? .min : cutoff.partialValue
    }

    private func queue(after: Int64) throws -> Int64? {
        let kinds = destination.kinds.map { String($0.code) }.sorted().joined(separator: ",")
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), r.user, d.provider,
                EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND state = \(outbox: .withdrawn))
            FROM reading AS r JOIN device AS d ON d.key = r.device
            WHERE r.key > ?1 AND r.kind IN (\(kinds)) AND r.record_exclusion IS NULL AND r.time_exclusion IS NULL
                AND r.time >= ?2 AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = r.key AND destination = ?3)
            ORDER BY r.key LIMIT 500
            """)
        select.bind(1, after)
        select.bind(2, try Self.cutoff(db, destination))
        select.bind(3, destination.key.rawValue)
        var found: [(key: Int64, reading: Reading, device: Int64, user: Int64, provider: String, isWithdrawn: Bool)] =
            []
        var last: Int64?
        while try select.next() {
            let (key, first) = (ReadingRow.key(select), ReadingRow.count)
            last = key
            // A damaged row stays as it is; verification reports it.
            guard let reading = try? rows.reading(select), reading.record.isDelivered else { continue }
            found.append(
                (
                    key, reading, ReadingRow.device(select), select.int(first), select.text(first + 1) ?? "",
                    select.int(first + 2) == 1
                ))
        }
        select.reset()
        for item in found {
            guard let wanted = item.reading.time.instant?.seconds else { continue }
            let series = ContactState.Series(
                user: item.user, kind: item.reading.kind.code, provider: item.provider,
                type: item.reading.record.sampleTypeCode)
            _ = try placement.queue(
                item.key, of: item.reading.kind, device: (item.device, item.reading.device), in: series, from: wanted,
                at: destination)
            // Until its context has come it may be none of the kind it looks like.
            if item.isWithdrawn {
                try db.execute(
                    sql: "UPDATE outbox SET state = \(outbox: .withdrawn) WHERE reading = ? AND destination = ?",
                    arguments: [item.key, destination.key.rawValue])
            }
        }
        return last
    }
}
