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
        /// Whether anything changed by which readings wait, but for what is in `devices` and `met`.
        var rules = false
        /// Whether there is another device, or one of another model or address.
        var devices = false
        /// The rows of devices whose first contact may be another.
        var met: Set<Int64> = []
    }

    /// Where the columns are of rows that change often and rarely in these.
    private struct Columns {
        /// By which a device is chosen or ignored.
        let device: [Int32]
        let address: [Int32]
        let contactDevice: Int32
        let contactStart: Int32

        init(_ db: Database) throws {
            func places(_ names: [String], in table: String) throws -> [Int32] {
                let columns = try db.columns(in: table).map(\.name)
                return try names.map { name in
                    guard let place = columns.firstIndex(of: name) else {
                        throw StoreError.corrupt(detail: "the table \(table) has no column \(name)")
                    }
                    return Int32(place)
                }
            }
            device = try places(["key", "address", "model"], in: "device")
            address = try places(["address", "device"], in: "device_address")
            let contact = try places(["device", "started_at"], in: "contact")
            (contactDevice, contactStart) = (contact[0], contact[1])
        }
    }

    /// What changed since it was taken last; `nil` if this system's SQLite cannot tell.
    private(set) var parts: Parts? = row_hook_is_there() ? Parts() : nil
    private var columns: Columns?
    // Neighbours are mostly in one part.
    private var lastReading: Int64?
    private var lastFrame: Int64?

    /// Has a connection tell what it changes.
    func watch(_ db: Database) throws {
        columns = try Columns(db)
        listen(db)
    }

    private func listen(_ db: Database) {
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
        defer { listen(db) }
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
            // Without row ids, the first column is the reading.
            var reading: Int64 = 0
            _ = row_hook_integer(db, 0, operation == SQLITE_INSERT, &reading)
            rows.touch(reading: reading)
        } else if strcmp(table, "reading") == 0 {
            rows.touch(reading: key)
            if newKey != key { rows.touch(reading: newKey) }
        } else if strcmp(table, "frame") == 0 {
            rows.touch(frame: key)
            if newKey != key { rows.touch(frame: newKey) }
        } else if strcmp(table, "contact") == 0 {
            rows.parts?.contacts.insert(RowBlock.Level.part.number(of: key))
            rows.parts?.contacts.insert(RowBlock.Level.part.number(of: newKey))
            rows.touchContact(db, operation)
        } else if strcmp(table, "pruned_place") == 0 {
            rows.parts?.pruned = true
        } else if strcmp(table, "device") == 0 {
            if rows.isAnother(db, operation, by: rows.columns?.device) { rows.parts?.devices = true }
        } else if strcmp(table, "device_address") == 0 {
            if rows.isAnother(db, operation, by: rows.columns?.address) { rows.parts?.devices = true }
        } else if strcmp(table, "setting") == 0 || strcmp(table, "destination") == 0 || strcmp(table, "source") == 0
            || strcmp(table, "consent") == 0 || strcmp(table, "user") == 0
        {
            rows.parts?.rules = true
        }
    }

    private func touchContact(_ db: OpaquePointer?, _ operation: Int32) {
        guard let columns else {
            parts?.rules = true
            return
        }
        guard isAnother(db, operation, by: [columns.contactDevice, columns.contactStart]) else { return }
        if operation != SQLITE_INSERT { touchDevice(db, columns.contactDevice, isNew: false) }
        if operation != SQLITE_DELETE { touchDevice(db, columns.contactDevice, isNew: true) }
    }

    private func touchDevice(_ db: OpaquePointer?, _ column: Int32, isNew: Bool) {
        var device: Int64 = 0
        if row_hook_integer(db, column, isNew, &device) { parts?.met.insert(device) } else { parts?.rules = true }
    }

    /// Whether a row comes or goes, or is another by these columns.
    private func isAnother(_ db: OpaquePointer?, _ operation: Int32, by columns: [Int32]?) -> Bool {
        guard operation == SQLITE_UPDATE, let columns else { return true }
        return columns.contains { row_hook_differs(db, $0) }
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
