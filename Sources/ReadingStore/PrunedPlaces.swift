import Foundation
import GRDB

/// Where pruned readings were delivered.
///
/// Most destinations get a reading at the same time of its own and within the minute, so one row stands for them: a bit for each of
/// 32 destinations whose numbers follow each other, and the last of their times of delivery. A destination that got the reading in
/// another minute, or at another second of its own, is in a row of its own. So is one that got it at an address that it has no more:
/// the first of the times stands in such a row, so that none is taken for later than the move.
enum PrunedPlaces {
    /// The condition that a row `p` stands for the destination whose number is this expression.
    static func holds(_ destination: String) -> String {
        "(p.block = \(destination) >> 5 AND p.destinations >> (\(destination) & 31) & 1)"
    }

    /// The condition that a row `p` stands for any of these destinations.
    static func holdsAny(of destinations: [Int64]) -> String {
        let blocks = Dictionary(grouping: destinations) { $0 >> 5 }.sorted { $0.key < $1.key }
        let conditions = blocks.map { block, destinations in
            "p.block = \(block) AND p.destinations & \(destinations.reduce(0) { $0 | 1 << ($1 & 31) }) <> 0"
        }
        return conditions.isEmpty ? "FALSE" : "(\(conditions.joined(separator: " OR ")))"
    }

    /// The destinations of a row.
    static func destinations(_ block: Int64, _ bits: Int64) -> [Int64] {
        (0..<32).filter { bits >> $0 & 1 == 1 }.map { block << 5 + $0 }
    }

    /// Begins a statement that keeps the places of an identity, whose rows the rest of it names: with a destination, a provider, a
    /// type, a second and a time of delivery each.
    static func insertion(_ identity: String) -> String {
        """
        INSERT INTO pruned_place (identity, block, destinations, provider, type, timestamp, delivered_at)
        SELECT \(identity), destination >> 5, sum(1 << (destination & 31)), provider, type, timestamp,
            CASE WHEN \(isAtFormerAddress) THEN min(delivered_at) ELSE max(delivered_at) END
        """
    }

    /// Ends it. A minute is 60,000,000 microseconds.
    static let grouping = """
        GROUP BY destination >> 5, provider, type, timestamp, delivered_at / 60000000, \(isAtFormerAddress)
        """

    private static let isAtFormerAddress = """
        coalesce(delivered_at <= (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'destination.moved.' || destination), 0)
        """

    /// Forgets what a destination was given.
    ///
    /// - Parameter identity: the only one that it forgets; `nil`: all.
    static func forget(_ destination: Int64, of identity: Data? = nil, _ db: Database) throws {
        let bit = "1 << (?1 & 31)"
        let condition = identity == nil ? "" : "identity = ?2 AND "
        let arguments: StatementArguments = if let identity { [destination, identity] } else { [destination] }
        try db.execute(
            sql: "DELETE FROM pruned_place WHERE \(condition)block = ?1 >> 5 AND destinations = \(bit)",
            arguments: arguments)
        try db.execute(
            sql: "UPDATE pruned_place AS p SET destinations = destinations - (\(bit)) WHERE \(condition)\(holds("?1"))",
            arguments: arguments)
    }

    /// Forgets the former place of a reading at each destination that was given it again, as this row: a destination
    /// has one place, the last. The others keep theirs.
    ///
    /// - Parameter reading: `nil` forgets all of them: they are another person's.
    static func forget(_ identity: Data, deliveredAgainAs reading: Int64?, _ db: Database) throws {
        guard let reading else {
            return try db.execute(sql: "DELETE FROM pruned_place WHERE identity = ?", arguments: [identity])
        }
        let again = try Int64.fetchAll(
            db, sql: "SELECT destination FROM outbox WHERE reading = ? AND state = \(outbox: .delivered)",
            arguments: [reading])
        for destination in again { try forget(destination, of: identity, db) }
    }

    /// Writes the table anew, which had a row for each destination.
    static func migrate(_ db: Database) throws {
        try db.execute(
            sql: """
                DROP INDEX pruned_place_timestamp;
                ALTER TABLE pruned_place RENAME TO former_place;
                -- destinations: a bit for each of the 32 whose numbers begin with 32 × block. timestamp: NULL if another reading has
                -- taken it over. delivered_at: the last of theirs, all of one minute; the first, if they moved since.
                CREATE TABLE pruned_place (
                    identity BLOB NOT NULL REFERENCES pruned ON DELETE CASCADE,
                    block INTEGER NOT NULL, destinations INTEGER NOT NULL, provider TEXT NOT NULL, type INTEGER NOT NULL,
                    timestamp INTEGER, delivered_at INTEGER, PRIMARY KEY (identity, block, destinations)
                ) STRICT, WITHOUT ROWID;
                \(insertion("identity")) FROM former_place \(grouping), identity;
                CREATE INDEX pruned_place_timestamp ON pruned_place (timestamp) WHERE timestamp IS NOT NULL;
                DROP TABLE former_place;
                """)
    }
}
