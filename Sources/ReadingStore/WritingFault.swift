import GRDB
import GRDBSQLite
import Synchronization

/// Whether the store's files can be written. A file system that has become read-only, as after an error of a flash card, and a disk that
/// fails let everything be read.
final class WritingFault: Sendable {
    private let state = Mutex<StoreError?>(nil)

    /// Why the files could not be written when that was last tried; `nil` if they could, or nothing has been tried.
    var last: StoreError? { state.withLock(\.self) }

    /// Runs a transaction, and notes whether the files could be written.
    func watching<T>(_ db: Database, _ body: () throws -> T) -> Result<T, any Error> {
        // A transaction that writes no page proves nothing, such as one that sets a setting to the value that it has.
        let pages = last == nil ? nil : Self.pagesWritten(db)
        do {
            let value = try body()
            if let pages, Self.pagesWritten(db) != pages { state.withLock { $0 = nil } }
            return .success(value)
        } catch {
            if let fault = Self.fault(error) { state.withLock { $0 = fault } }
            return .failure(error)
        }
    }

    /// The fault of the files that an error tells of; `nil` for any other error, such as one of the key's file.
    private static func fault(_ error: any Error) -> StoreError? {
        guard error is DatabaseError else { return nil }
        let mapped = StoreError.mapping(error) as? StoreError
        return switch mapped {
        case .diskFull?, .notPermitted?, .inputOutput?: mapped
        default: nil
        }
    }

    /// How many pages a connection has written.
    private static func pagesWritten(_ db: Database) -> Int32 {
        var (count, most): (Int32, Int32) = (0, 0)
        sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_CACHE_WRITE, &count, &most, 0)
        return count
    }
}

extension ReadingStore {
    /// Why the store's files could not be written when that was last tried; `nil` if they could, or nothing was to be written yet.
    /// What a device sends meanwhile is not stored.
    package var writingFault: StoreError? { writing.last }

    /// Writes a page as it is, to see whether the files can be written again.
    ///
    /// - Throws: ``StoreError``.
    package func tryWriting() async throws {
        try await write(.trial) { db in
            let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
            try db.execute(sql: "PRAGMA user_version = \(version)")
        }
    }
}
