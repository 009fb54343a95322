import GRDB

/// Where a reading was queued for a destination whose place there another one takes.
struct OutboxPlace {
    let destination: Int64
    let timestamp: Int64
    let revision: Int64

    /// The places of a reading at all destinations.
    static func all(of reading: Int64, _ db: Database) throws -> [OutboxPlace] {
        try Row.fetchAll(
            db, sql: "SELECT destination, timestamp, revision FROM outbox WHERE reading = ?", arguments: [reading]
        ).map { row in
            OutboxPlace(
                destination: try row.value(0), timestamp: try row.value(1), revision: try row.value(2))
        }
    }

    /// Gives the place to a reading that is queued there, too, once nothing else has it.
    ///
    /// A receiver that knows what it has by its second keeps the higher revision: the successor's is behind both.
    func hand(to reading: Int64, _ db: Database, _ sealing: Sealing) throws {
        try OutboxTag.renew(db, reading: reading, at: destination, sealing) { $0.timestamp = timestamp }
        try db.execute(
            sql: "UPDATE outbox SET revision = max(revision, ?) + 1 WHERE reading = ? AND destination = ?",
            arguments: [revision, reading, destination])
    }
}
