import CRowHook
import Foundation
import GRDB
import GRDBSQLite

/// Which parts of the store a transaction changes, as SQLite itself tells it: no statement can be forgotten.
///
/// Used in the turn of the connection that writes, and nowhere else.
final class TouchedRows: @unchecked Sendable {
    /// Blocks of rows, by the number of their readings and frames.
    struct Blocks: Sendable, Hashable {
        var readings: Set<Int64> = []
        var frames: Set<Int64> = []
        /// Whether any row changed that says where a pruned reading was delivered.
        var pruned = false
    }

    /// What changed since it was taken last; `nil` if this system's SQLite cannot tell.
    private var blocks: Blocks? = row_hook_is_there() ? Blocks() : nil
    // Neighbours are mostly in one block.
    private var lastReading: Int64?
    private var lastFrame: Int64?

    /// Has a connection tell what it changes.
    func watch(_ db: Database) {
        guard blocks != nil else { return }
        _ = sqlite3_preupdate_hook(db.sqliteConnection, Self.hook, Unmanaged.passUnretained(self).toOpaque())
    }

    /// What changed since the last time; `nil` if that is not known.
    func take() -> Blocks? {
        defer {
            if blocks != nil { blocks = Blocks() }
            (lastReading, lastFrame) = (nil, nil)
        }
        return blocks
    }

    /// Changes rows of the outbox whose readings are known: to be told each row costs a tenth of changing it.
    func note<T>(readings: [ClosedRange<Int64>], in db: Database, _ change: () throws -> T) rethrows -> T {
        guard blocks != nil else { return try change() }
        _ = sqlite3_preupdate_hook(db.sqliteConnection, nil, nil)
        defer { watch(db) }
        for range in readings {
            let first = RowBlock.number(of: range.lowerBound)
            for block in first...RowBlock.number(of: range.upperBound) { blocks?.readings.insert(block) }
        }
        return try change()
    }

    private func touch(reading key: Int64) {
        let block = RowBlock.number(of: key)
        guard block != lastReading else { return }
        lastReading = block
        blocks?.readings.insert(block)
    }

    private func touch(frame key: Int64) {
        let block = RowBlock.number(of: key)
        guard block != lastFrame else { return }
        lastFrame = block
        blocks?.frames.insert(block)
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
        } else if strcmp(table, "pruned_place") == 0 {
            rows.blocks?.pruned = true
        }
    }
}

/// Rows whose keys are next to each other: what is counted in them is remembered until one of them changes.
enum RowBlock {
    /// How many keys a block has, as a power of two: counting one takes some milliseconds, and ten million readings have two
    /// thousand.
    private static let bits: Int64 = 12

    static func number(of key: Int64) -> Int64 { key >> bits }

    /// The keys of a block.
    static func keys(_ number: Int64) -> ClosedRange<Int64> {
        let first = number << bits
        return first...(first | ((1 << bits) - 1))
    }
}
