import GRDB
import HealthReadings

/// The revision that what is queued begins with.
///
/// A receiver may know what it was sent by a reading's id and revision (`webhook-id`), and drop what has both of something
/// it has had. A reading whose rows of the outbox went, and which is stored again, must not begin at 0 then: it begins behind
/// every revision that went. Nothing of the readings themselves is remembered for it.
enum OutboxRevision {
    private static let setting = "outbox.revision"
    private static let importedSetting = "outbox.revision.imported"

    /// What the revision of a row is behind once its reading changes, as SQL; 0 in a store that was not made of an export.
    ///
    /// The store that was exported may have gone on, and have told receivers other changes under the numbers behind the export's.
    static let imported =
        "(SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM setting WHERE name = '\(importedSetting)')"

    /// The revision of a row whose reading has changed or is sent anew, as SQL.
    static let next = "max(revision, \(imported)) + 1"

    /// Has changes from now on be told under numbers that the store which was exported has not given: it has not told a change of
    /// any one reading each minute since 1970.
    ///
    /// What waited in the export keeps its number: a receiver that got it since knows it by that.
    static func skip(_ db: Database, at now: Instant) throws {
        let number = max(0, now.seconds / 60)
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO setting (name, value) VALUES (?, CAST(max(?, \(imported)) AS TEXT))
                """, arguments: [importedSetting, number])
        try ReadingStore.keepKeys(db, of: "retraction", atLeast: number)
    }

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
            sql: """
                INSERT OR REPLACE INTO setting (name, value) VALUES (?, CAST(max(?, \(first), \(imported) + 1) AS TEXT))
                """, arguments: [setting, last + 1])
    }
}
