import Foundation
import GRDB
import HealthReadings

/// Removes a person's readings and frames within one transaction, some hundred rows at a time: what is held of them in memory
/// does not grow with the store, and how far it has come can be told.
struct ErasureWalk {
    /// How many rows are looked at in a step.
    private static let size = 1000

    private let db: Database
    private let sealing: Sealing
    private let user: Int64
    private let retracts: Bool
    /// Destinations that have erased the person themselves.
    private let done: Set<Int64>
    private let stopSwitch: StopSwitch

    private var rows: RowRemoval { RowRemoval(db: db) }
    private var erasure = Erasure()
    /// How many readings each destination is asked to take back.
    private var asked: [Int64: Int] = [:]
    /// How many it cannot.
    private var leftBehind: [Int64: Int] = [:]

    init(db: Database, sealing: Sealing, user: Int64, retracts: Bool, done: Set<Int64>, _ stopSwitch: StopSwitch) {
        (self.db, self.sealing, self.user, self.retracts) = (db, sealing, user, retracts)
        (self.done, self.stopSwitch) = (done, stopSwitch)
    }

    /// Removes the readings, what is remembered of pruned ones, and the frames.
    mutating func run(_ progress: StoreProgress.Handler) throws {
        let (readings, frames) = (try KeyRange(db, of: "reading"), try KeyRange(db, of: "frame"))
        let total = KeyRange.sum(readings.count, frames.count)
        progress(StoreProgress(.removing, of: total))
        try along("reading") { walk, span in
            try walk.eraseReadings(span)
            progress(StoreProgress(.removing, done: readings.count(through: span.lastKey), of: total))
        }
        try along("pruned", key: "identity", from: Data()) { walk, span in try walk.erasePruned(span) }
        try along("frame") { walk, span in
            try walk.eraseFrames(span)
            progress(
                StoreProgress(
                    .removing, done: KeyRange.sum(readings.count, frames.count(through: span.lastKey)), of: total))
        }
    }

    /// What has gone, and what became of it at destinations.
    func result() throws -> Erasure {
        var erasure = erasure
        for destination in try ReadingStore.destinations(db) {
            let place = destination.key.rawValue
            let (asked, left) = (asked[place] ?? 0, leftBehind[place] ?? 0)
            guard asked + left > 0 else { continue }
            // One that the settings no longer name keeps them until they name it again.
            let isRemoved = destination.state == .removed
            erasure.destinations.append(
                ErasureAtDestination(
                    destination: destination.name, retracting: isRemoved ? 0 : asked,
                    leftBehind: isRemoved ? left + asked : left))
        }
        return erasure
    }

    /// Rows that follow one another: behind the first key, up to the last.
    private struct Span {
        let after: DatabaseValue
        let last: DatabaseValue
        let user: Int64

        var arguments: StatementArguments { [after, last, user] }
        var lastKey: Int64 { Int64.fromDatabaseValue(last) ?? .max }
    }

    /// Walks along a table.
    private mutating func along(
        _ table: StaticString, key: StaticString = "key", from start: any DatabaseValueConvertible = Int64.min,
        _ body: (inout ErasureWalk, Span) throws -> Void
    ) throws {
        var after = start.databaseValue
        while true {
            let last = try DatabaseValue.fetchOne(
                db,
                sql: """
                    SELECT max(\(key)) FROM
                        (SELECT \(key) FROM \(table) WHERE \(key) > ? ORDER BY \(key) LIMIT \(Self.size))
                    """, arguments: [after])
            guard let last, !last.isNull else { return }
            try body(&self, Span(after: after, last: last, user: user))
            try stopSwitch.check()
            after = last
        }
    }

    private mutating func eraseReadings(_ span: Span) throws {
        let keys = try Int64.fetchAll(
            db, sql: "SELECT key FROM reading WHERE key > ? AND key <= ? AND user = ?", arguments: span.arguments)
        guard !keys.isEmpty else { return }
        if retracts {
            if sealing.refusal == nil { try retract(span) }
            try leaveBehind(
                """
                SELECT count(*) FROM outbox AS o WHERE destination = ?1 AND user = ?2
                    AND (delivered_at <= ?3 OR handed_over_at <= ?3) AND reading > ?4 AND reading <= ?5
                    AND NOT EXISTS (
                        SELECT 1 FROM retraction WHERE reading = o.reading AND destination = o.destination)
                """, span)
        }
        for key in keys {
            try OutboxRevision.leaveBehind(db, "reading = ?", key)
            erasure.frames += try rows.removeReading(key)
        }
        erasure.readings += keys.count
    }

    /// Asks for what destinations have of the readings.
    private mutating func retract(_ span: Span) throws {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key > ? AND r.key <= ? AND r.user = ?
                AND EXISTS (SELECT 1 FROM outbox AS o WHERE o.reading = r.key)
            """)
        select.bind(1, Int64.fromDatabaseValue(span.after) ?? .min)
        select.bind(2, span.lastKey)
        select.bind(3, user)
        defer { select.reset() }
        let rows = RowReader(db, sealing)
        var found: [(Int64, ReadingID)] = []
        // Nobody can say what a damaged row was delivered as: it counts as left behind.
        while try select.next() {
            if let id = try? rows.content(select).0 { found.append((ReadingRow.key(select), id)) }
        }
        let retracting = Retracting(db: db, sealing: sealing)
        for (key, id) in found {
            for place in try retracting.retract(key, id: id) { asked[place, default: 0] += 1 }
        }
    }

    /// Counts what destinations keep.
    private mutating func leaveBehind(_ count: String, _ span: Span) throws {
        for destination in try ReadingStore.destinations(db) {
            let place = destination.key.rawValue
            // Whoever has removed the person at the present address has not done so at the former one.
            let isDone = done.contains(place)
            let end = isDone ? try ReadingStore.movedAt(db, destination.key) ?? .min : .max
            let kept = try Int.fetchOne(db, sql: count, arguments: [place, user, end, span.after, span.last]) ?? 0
            guard kept > 0 else { continue }
            leftBehind[place, default: 0] += kept
            try db.execute(
                sql: "UPDATE destination SET left_behind = left_behind + ? WHERE key = ?", arguments: [kept, place])
        }
    }

    private mutating func erasePruned(_ span: Span) throws {
        let isAny = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM pruned WHERE identity > ? AND identity <= ? AND user = ?)",
            arguments: span.arguments)
        guard isAny == true else { return }
        if retracts {
            // Not by the places of the destination: there may be millions, each time. Where readings are told by their second, the
            // reading that has taken one over has replaced the value there.
            try leaveBehind(
                """
                SELECT count(*) FROM pruned AS r CROSS JOIN pruned_place AS p ON p.identity = r.identity
                WHERE \(PrunedPlaces.holds("?1")) AND r.user = ?2 AND p.delivered_at <= ?3 AND r.identity > ?4 AND r.identity <= ?5
                    AND (p.timestamp IS NOT NULL OR EXISTS (SELECT 1 FROM destination
                        WHERE key = ?1 AND has_unique_seconds & \(trait: .uniqueSeconds) = 0))
                """, span)
        }
        try db.execute(
            sql: "DELETE FROM pruned WHERE identity > ? AND identity <= ? AND user = ?", arguments: span.arguments)
    }

    /// A frame without a reading belongs to whose contact it came in.
    private mutating func eraseFrames(_ span: Span) throws {
        let frames = try Int64.fetchAll(
            db,
            sql: """
                SELECT f.key FROM frame AS f CROSS JOIN contact AS c ON c.key = f.contact
                WHERE f.key > ? AND f.key <= ? AND c.user = ?
                    AND NOT EXISTS (SELECT 1 FROM reading_frame WHERE frame = f.key)
                """, arguments: span.arguments)
        for frame in frames { erasure.frames += try rows.removeFrame(frame) }
    }
}
