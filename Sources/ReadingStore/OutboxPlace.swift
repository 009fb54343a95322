import GRDB

/// Where a reading was queued for a destination whose place there another one takes.
struct OutboxPlace {
    let destination: Int64
    let timestamp: Int64
    let revision: Int64
    /// When the destination got the reading, in microseconds since 1970; `nil` if it hasn't.
    let deliveredAt: Int64?
    /// When the reading was offered to the destination, which may have it; `nil` if it wasn't.
    var offeredAt: Int64? = nil

    /// The places of a reading at all destinations.
    ///
    /// An offer isn't handed on: mostly the reading is on its way, and if it doesn't get there, its row is where the offer is
    /// withdrawn.
    static func all(of reading: Int64, _ db: Database) throws -> [OutboxPlace] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT destination, timestamp, revision, delivered_at FROM outbox WHERE reading = ?
                """, arguments: [reading]
        ).map { row in
            OutboxPlace(
                destination: try row.value(0), timestamp: try row.value(1), revision: try row.value(2),
                deliveredAt: try row.value(3))
        }
    }

    /// Gives the place to a reading that is queued there, too, once nothing else has it.
    ///
    /// A receiver that knows what it has by its second keeps the higher revision: the successor's is behind both.
    func hand(to reading: Int64, _ db: Database, _ sealing: Sealing) throws {
        try OutboxTag.renew(db, reading: reading, at: destination, sealing) { $0.timestamp = timestamp }
        try db.execute(
            sql:
                "UPDATE outbox SET revision = max(? + 1, \(OutboxRevision.next)) WHERE reading = ? AND destination = ?",
            arguments: [revision, reading, destination])
        guard deliveredAt != nil || offeredAt != nil else { return }
        // Until the successor is delivered, its second has the former's value: that stays there if the successor is withdrawn
        // before. Where it can be taken back, it has been asked for by itself.
        try db.execute(
            sql: """
                UPDATE outbox SET delivered_at = ?1, handed_over_at = ?4, room = NULL
                WHERE reading = ?2 AND destination = ?3 AND delivered_at IS NULL AND handed_over_at IS NULL
                    AND EXISTS (SELECT 1 FROM destination
                        WHERE key = ?3 AND can_retract = 0 AND has_unique_seconds & \(trait: .uniqueSeconds) <> 0)
                """, arguments: [deliveredAt, reading, destination, offeredAt])
    }
}
