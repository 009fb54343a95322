import Foundation
import GRDB
import GRDBSQLite
import HealthReadings

/// A cached statement, bound and stepped directly: the hot path's rows never pass through boxed values.
///
/// Belongs to the connection that made it and is used in that connection's turn only. Columns count from 0,
/// parameters from 1, as in SQLite.
struct PreparedStatement {
    /// Keeps the handle alive.
    private let statement: Statement
    private let handle: OpaquePointer

    /// - Parameter isKept: whether the connection keeps it for the next time, for as long as it is open: not one whose text names
    ///   devices or readings, of which there are ever more.
    init(_ db: Database, _ sql: String, isKept: Bool = true) throws {
        statement = try isKept ? db.cachedStatement(sql: sql) : db.makeStatement(sql: sql)
        handle = statement.sqliteStatement
        sqlite3_reset(handle)
    }

    // MARK: Parameters

    func bind(_ index: Int32, _ value: Int64) { check(sqlite3_bind_int64(handle, index, value)) }

    func bind(_ index: Int32, _ value: Int64?) {
        check(value.map { sqlite3_bind_int64(handle, index, $0) } ?? sqlite3_bind_null(handle, index))
    }

    func bind(_ index: Int32, _ text: String?) {
        guard var text else { return check(sqlite3_bind_null(handle, index)) }
        text.withUTF8 { octets in
            octets.withMemoryRebound(to: CChar.self) { characters in
                check(sqlite3_bind_text(handle, index, characters.baseAddress, Int32(characters.count), Self.transient))
            }
        }
    }

    func bind(_ index: Int32, octets: [UInt8]?) {
        guard let octets else { return check(sqlite3_bind_null(handle, index)) }
        octets.withUnsafeBytes { buffer in
            // A blob of no octets is not NULL, but its address may be.
            check(
                buffer.isEmpty
                    ? sqlite3_bind_zeroblob(handle, index, 0)
                    : sqlite3_bind_blob(handle, index, buffer.baseAddress, Int32(buffer.count), Self.transient))
        }
    }

    func bind(_ index: Int32, _ id: ReadingID) {
        var words = (id.high.bigEndian, id.low.bigEndian)
        withUnsafeBytes(of: &words) { buffer in
            check(sqlite3_bind_blob(handle, index, buffer.baseAddress, 16, Self.transient))
        }
    }

    // MARK: Running

    /// Runs a statement that gives no rows; returns how many rows it changed.
    @discardableResult
    func run() throws -> Int {
        let code = sqlite3_step(handle)
        guard code == SQLITE_DONE || code == SQLITE_ROW else { throw failure() }
        sqlite3_reset(handle)
        return Int(sqlite3_changes(sqlite3_db_handle(handle)))
    }

    /// Steps to the next row; at the end resets the statement and returns false.
    func next() throws -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE:
            sqlite3_reset(handle)
            return false
        default: throw failure()
        }
    }

    /// Ends a statement that was not stepped to its end: an open one would keep its transaction from ending.
    func reset() { _ = withExtendedLifetime(statement) { sqlite3_reset(handle) } }

    /// The first row's integer; nil where there is no row, or it is null.
    func firstInt() throws -> Int64? {
        guard try next() else { return nil }
        defer { reset() }
        return optionalInt(0)
    }

    // MARK: Columns

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func optionalInt(_ column: Int32) -> Int64? {
        // One look at the row; the value is used before the statement goes on, in the connection's turn.
        let value = sqlite3_column_value(handle, column)
        return sqlite3_value_type(value) == SQLITE_NULL ? nil : sqlite3_value_int64(value)
    }

    func text(_ column: Int32) -> String? {
        guard let start = sqlite3_column_text(handle, column) else { return nil }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// Whether a column is this text, of which no copy is made.
    func isText(_ column: Int32, _ text: String) -> Bool {
        guard let start = sqlite3_column_text(handle, column) else { return false }
        let found = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
        return text.utf8.elementsEqual(found)
    }

    func octets(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    /// The octets in the statement's own memory, which are there until it goes on.
    func withOctets<Value>(_ column: Int32, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        let start = sqlite3_column_blob(handle, column)
        return try body(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    func readingID(_ column: Int32) throws -> ReadingID {
        guard sqlite3_column_bytes(handle, column) == 16, let start = sqlite3_column_blob(handle, column) else {
            throw StoreError.corrupt(detail: "a reading's id is not 16 octets")
        }
        return ReadingID(
            high: UInt64(bigEndian: start.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: start.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }

    /// A value as it is stored, in the statement's own memory: it is there until the statement goes on.
    enum Value {
        case null
        case integer(Int64)
        case real(Double)
        case text(UnsafeRawBufferPointer)
        case blob(UnsafeRawBufferPointer)
    }

    func value(_ column: Int32) -> Value {
        let value = sqlite3_column_value(handle, column)
        func octets() -> UnsafeRawBufferPointer {
            let start = sqlite3_value_blob(value)
            return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
        }
        return switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: .integer(sqlite3_value_int64(value))
        case SQLITE_FLOAT: .real(sqlite3_value_double(value))
        case SQLITE_TEXT: .text(octets())
        case SQLITE_BLOB: .blob(octets())
        default: .null
        }
    }

    // MARK: Errors

    /// SQLite copies what is bound before the call returns.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    /// Binding fails only for a wrong index or no memory; the step that follows would then fail a constraint.
    private func check(_ code: Int32) { assert(code == SQLITE_OK, "SQLite refused a parameter: \(code)") }

    private func failure() -> DatabaseError {
        let connection = sqlite3_db_handle(handle)
        let code = sqlite3_extended_errcode(connection)
        let message = sqlite3_errmsg(connection).map { String(cString: $0) }
        sqlite3_reset(handle)
        return DatabaseError(resultCode: ResultCode(rawValue: code), message: message)
    }
}

extension Database {
    /// Runs a statement that the connection keeps for the next time.
    func executeCached(sql: String, arguments: StatementArguments) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }
}

extension ReadingID {
    /// The 16 octets as the database keeps them.
    var data: Data { Data(octets) }
}
