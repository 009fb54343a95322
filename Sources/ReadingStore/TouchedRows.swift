import CRowHook
import Foundation
import GRDB
import GRDBSQLite

/// Which parts of the store a transaction changes, as SQLite itself tells it: no statement can be forgotten.
///
/// It is unchecked because it is used in the turn of the connection that writes, one job at a time, and nowhere else.
final class TouchedRows: @unchecked Sendable {
    /// Parts of blocks of rows, by the number of their readings, frames and contacts.
    struct Parts: Sendable, Hashable {
        var readings: Set<Int64> = []
        var frames: Set<Int64> = []
        var contacts: Set<Int64> = []
        /// Whether any row changed that says where a pruned reading was delivered.
        var pruned = false
    }

    /// What changed since it was taken last; `nil` if this system's SQLite cannot tell.
    private var parts: Parts? = row_hook_is_there() ? Parts() : nil
    // Neighbours are mostly in one part.
    private var lastReading: Int64?
    private var lastFrame: Int64?

    /// Has a connection tell what it changes.
    func watch(_ db: Database) {
        guard parts != nil else { return }
        _ = sqlite3_preupdate_hook(db.sqliteConnection, Self.hook, Unmanaged.passUnretained(self).toOpaque())
    }

    /// What changed since the last time; `nil` if that is not known.
    func take() -> Parts? {
        defer {
            if parts != nil { parts = Parts() }
            (lastReading, lastFrame) = (nil, nil)
        }
        return parts
    }

    /// Changes rows of the outbox whose readings are known: to be told each row costs a tenth of changing it.
    func note<T>(readings: [ClosedRange<Int64>], in db: Database, _ change: () throws -> T) rethrows -> T {
        guard parts != nil else { return try change() }
        _ = sqlite3_preupdate_hook(db.sqliteConnection, nil, nil)
        defer { watch(db) }
        for range in readings {
            let first = RowBlock.Level.part.number(of: range.lowerBound)
            for part in first...RowBlock.Level.part.number(of: range.upperBound) { parts?.readings.insert(part) }
        }
        return try change()
    }

    private func touch(reading key: Int64) {
        let part = RowBlock.Level.part.number(of: key)
        guard part != lastReading else { return }
        lastReading = part
        parts?.readings.insert(part)
    }

    private func touch(frame key: Int64) {
        let part = RowBlock.Level.part.number(of: key)
        guard part != lastFrame else { return }
        lastFrame = part
        parts?.frames.insert(part)
    }

    private static let hook: row_hook = { context, db, operation, _, table, key, newKey in
        guard let context, let table else { return }
        let rows = Unmanaged<TouchedRows>.fromOpaque(context).takeUnretainedValue()
        if strcmp(table, "outbox") == 0 {
            rows.touch(reading: row_hook_first_column(db, operation == SQLITE_INSERT))
        } else if strcmp(table, "reading") == 0 {
            rows.touch(reading: key)
            if newKey != key { rows.touch(reading: newKey) }
        } else if strcmp(table, "frame") == 0 {
            rows.touch(frame: key)
            if newKey != key { rows.touch(frame: newKey) }
        } else if strcmp(table, "contact") == 0 {
            rows.parts?.contacts.insert(RowBlock.Level.part.number(of: key))
            rows.parts?.contacts.insert(RowBlock.Level.part.number(of: newKey))
        } else if strcmp(table, "pruned_place") == 0 {
            rows.parts?.pruned = true
        }
    }
}

/// Rows whose keys are next to each other: what is counted in them is remembered until one of them changes.
enum RowBlock {
    /// How large blocks are whose sums are remembered, from the smallest on.
    ///
    /// Where rows change, a block is counted by its parts: a new reading is in the newest of them. To count a block takes some
    /// milliseconds. Ten million readings have two thousand blocks, so sixteen of them are a group, and sixteen groups a region.
    enum Level: Int, CaseIterable, Sendable {
        case part, block, group, region

        /// How many keys it has, as a power of two.
        fileprivate var bits: Int64 { 8 + 4 * Int64(rawValue) }

        /// The level below.
        var lower: Level? { Level(rawValue: rawValue - 1) }

        func number(of key: Int64) -> Int64 { key >> bits }

        /// The number of what a part belongs to.
        func number(ofPart part: Int64) -> Int64 { part >> (bits - Level.part.bits) }

        /// The keys of one with this number.
        func keys(_ number: Int64) -> ClosedRange<Int64> {
            let first = number << bits
            return first...(first | ((1 << bits) - 1))
        }
    }
}
