import GRDB

/// The revision that what is queued begins with.
///
/// A receiver may know what it was sent by a reading's id and revision (`webhook-id`), and drop what has both of something
/// it has had. A reading whose rows of the outbox went, and which is stored again, must not begin at 0 then: it begins behind
/// every revision that went. Nothing of the readings themselves is remembered for it.
enum OutboxRevision {
    private static let setting = "outbox.revision"

    /// The revision of a new row, as SQL: 0 as long as nothing went.
    static let first = "(SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM setting WHERE name = '\(setting)')"

    /// Has new rows begin behind those of some readings, which are about to go.
    ///
    /// - Parameters:
    ///   - condition: on `outbox`, which rows go.
    ///   - argument: what the condition's placeholder stands for.
    static func leaveBehind(_ db: Database, _ condition: String, _ argument: Int64) throws {
        let last = try Int64.fetchOne(
            db, sql: "SELECT max(revision) FROM outbox WHERE \(condition)", arguments: [argument])
        guard let last, last < .max else { return }
        try db.execute(
            sql: "INSERT OR REPLACE INTO setting (name, value) VALUES (?, CAST(max(?, \(first)) AS TEXT))",
            arguments: [setting, last + 1])
    }
}
