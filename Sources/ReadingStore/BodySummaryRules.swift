import GRDB
import HealthReadings

/// What becomes of the weight that came with a body composition.
public enum OwnWeight: Sendable, Hashable {
    /// It is sent as the body's mass of that second.
    case sent
    /// A weight of the same second is sent by itself.
    case sentByItself
    /// The person does not consent to the delivery of weights.
    case withheld
}

/// Weights and body compositions share lists at the server, so they share its key there: (list, provider, source type,
/// timestamp).
///
/// The weight and the composition of one measurement share a second too; the weight then gives the body's mass. Readings
/// of two devices never share one: the one that is stored later goes one second later.
enum BodySummaryRules {
    static let kinds: Set<ReadingKind> = [.weight, .bodyComposition]

    /// Whether another device's reading of the other kind has a second at the server.
    static func isTaken(
        _ timestamp: Int64, _ db: Database, at destination: Int64, kind: ReadingKind, user: Int64, provider: String,
        device: Int64
    ) throws -> Bool {
        guard let other = kinds.contains(kind) ? kinds.first(where: { $0 != kind }) : nil else { return false }
        let select = try PreparedStatement(
            db,
            """
            SELECT EXISTS (
                SELECT 1 FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                WHERE o.destination = ?6 AND o.user = ?1 AND o.resource = ?2 AND o.provider = ?3 AND o.timestamp = ?4
                    AND o.share IS NOT NULL AND r.device <> ?5)
                OR EXISTS (
                SELECT 1 FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                WHERE \(PrunedPlaces.holds("?6")) AND r.user = ?1 AND r.kind = ?2 AND p.provider = ?3 AND p.timestamp = ?4
                    AND r.device <> ?5)
            """)
        select.bind(1, user)
        select.bind(2, other.code)
        select.bind(3, provider)
        select.bind(4, timestamp)
        select.bind(5, device)
        select.bind(6, destination)
        return try select.firstInt() == 1
    }

    /// Adds what the body summary says besides the readings: whose weight counts.
    static func complete(
        _ items: inout [OutboxItem], _ db: Database, at destination: Int64, user: UserKey, resource: ReadingKind,
        provider: String
    ) throws {
        let isComposition = resource == .bodyComposition
        let mayWeigh = try ConsentWords(db).holds(at: DestinationKey(rawValue: destination))
            .isGranted(user: user.rawValue, kind: ReadingKind.weight.code)
        for index in items.indices {
            let timestamp = items[index].timestamp
            guard isComposition else { continue }
            let isWeighed = try hasWeight(
                at: timestamp.seconds, db, destination, user: user.rawValue, provider: provider)
            items[index].ownWeight = !mayWeigh ? .withheld : isWeighed ? .sentByItself : .sent
            if !mayWeigh { items[index].reading = items[index].reading.withholdingWeight }
        }
    }

    private static func hasWeight(
        at timestamp: Int64, _ db: Database, _ destination: Int64, user: Int64, provider: String
    ) throws -> Bool {
        let select = try PreparedStatement(
            db,
            """
            SELECT EXISTS (
                SELECT 1 FROM outbox
                WHERE destination = ?5 AND user = ?1 AND resource = ?2 AND provider = ?3 AND timestamp = ?4 AND share IS NOT NULL
                    AND state <> \(outbox: .withdrawn))
                OR EXISTS (
                SELECT 1 FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                WHERE \(PrunedPlaces.holds("?5")) AND r.user = ?1 AND r.kind = ?2 AND p.provider = ?3 AND p.timestamp = ?4
                    AND p.delivered_at IS NOT NULL)
            """)
        select.bind(1, user)
        select.bind(2, ReadingKind.weight.code)
        select.bind(3, provider)
        select.bind(4, timestamp)
        select.bind(5, destination)
        return try select.firstInt() == 1
    }

    /// Offers again what earlier versions sent under names that are for reading only, and queues the body compositions
    /// that they kept here.
    ///
    /// No server takes those names, so what is marked as delivered was acknowledged by one that keeps it where nobody
    /// looks. Posting it again replaces or adds: it never doubles.
    static func migrate(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE outbox SET state = \(outbox: .waiting), revision = revision + 1, attempts = 0, delivered_at = NULL, words = NULL
                WHERE resource IN (\(kind: .temperature), \(kind: .weight)) AND state IN (\(outbox: .delivered), \(outbox: .refused))
                """)
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT r.key, r.user, d.provider, r.time, r.device FROM reading AS r JOIN device AS d ON d.key = r.device
                WHERE r.kind = \(kind: .bodyComposition) AND r.record_exclusion IS NULL AND r.time_exclusion IS NULL AND r.time IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM outbox WHERE reading = r.key)
                ORDER BY r.time, r.key
                """)
        for row in rows {
            let (key, user, provider): (Int64, Int64, String) = (
                try row.value(0), try row.value(1), try row.value(2)
            )
            let device: Int64 = try row.value(4)
            var timestamp: Int64 = try row.value(3)
            while true {
                let isTaken = try Bool.fetchOne(
                    db,
                    sql: """
                        SELECT EXISTS (
                            SELECT 1 FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                            WHERE o.user = ?1 AND o.resource = \(kind: .weight) AND o.provider = ?2 AND o.timestamp = ?3
                                AND r.device <> ?4)
                            OR EXISTS (
                            SELECT 1 FROM pruned
                            WHERE user = ?1 AND kind = \(kind: .weight) AND provider = ?2 AND timestamp = ?3 AND device <> ?4)
                        """, arguments: [user, provider, timestamp, device])
                if isTaken == false {
                    try db.execute(
                        sql: """
                            INSERT OR IGNORE INTO outbox (reading, user, resource, provider, type, timestamp)
                            VALUES (?, ?, 8, ?, 6, ?)
                            """, arguments: [key, user, provider, timestamp])
                    if db.changesCount > 0 { break }
                }
                timestamp &+= 1
            }
        }
    }
}
