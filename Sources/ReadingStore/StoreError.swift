import Foundation
import GRDB
import HealthReadings

/// Why the store could not do what was asked. Nothing is overwritten when one of these is thrown.
public enum StoreError: Error, Sendable, Hashable {
    /// Another process owns the store; its id, where the lock file names one.
    case locked(pid: Int32?)
    /// The directory or a file in it cannot be created.
    case cannotCreate(path: String, reason: String)
    /// The directory or a file in it may not be read or written by this user, or lies on a read-only file system.
    case notPermitted(path: String)
    /// The disk (or the quota) is full: what was being written is not stored.
    case diskFull
    /// Work was not begun because it could fill the disk: the bytes that it needs at a path, and those that are free there.
    case tooLittleSpace(path: String, needed: Int64, free: Int64)
    /// Reading or writing failed below the database.
    case inputOutput(detail: String)
    /// The database file is damaged; it was left as it is.
    case corrupt(detail: String)
    /// The file is a database, or something else, that this program did not make; it was left as it is.
    case foreign(path: String)
    /// The database was written by a newer version of this program.
    case newerSchema
    /// The file by which pruned readings are recognised is missing, or another's.
    case pruneKeyMissing(path: String)
    /// The store's content is sealed, and the file with its key is not there: nothing is read, taken in or delivered.
    case keyMissing(path: String)
    /// The store's content is sealed under another key than the file's: nothing is read, taken in or delivered.
    case keyWrong(path: String)
    /// The file with the key cannot be read, or what is in it is no key.
    case keyUnusable(path: String, reason: String)
    /// No reading with this id was refused by the server.
    case notRefused(ReadingID)
    /// A limit outside 1 … 10,000.
    case limitOutOfRange(Int)
    /// A negative offset.
    case offsetOutOfRange(Int)
    /// Reading was interrupted because it kept others from reading.
    case tookTooLong
    /// A cursor that this program did not give.
    case invalidCursor(String)
    /// A position among changes that is of another store, or of a later state of this one.
    case unknownPosition
    /// A name that is no time zone of the tz database.
    case unknownTimeZone(String)
    /// A contact or user that the store does not know.
    case unknown(String)
    /// The database refused a statement: a fault of this program.
    case internalFault(detail: String)

    /// The error's published name in snake_case.
    public var code: String {
        switch self {
        case .locked: "store_locked"
        case .cannotCreate: "store_cannot_create"
        case .notPermitted: "store_not_permitted"
        case .diskFull: "disk_full"
        case .tooLittleSpace: "too_little_space"
        case .inputOutput: "store_io"
        case .corrupt: "store_corrupt"
        case .foreign: "store_foreign"
        case .newerSchema: "store_newer"
        case .pruneKeyMissing: "prune_key_missing"
        case .keyMissing: "store_key_missing"
        case .keyWrong: "store_key_wrong"
        case .keyUnusable: "store_key_unusable"
        case .notRefused: "not_refused"
        case .limitOutOfRange: "limit_out_of_range"
        case .offsetOutOfRange: "offset_out_of_range"
        case .tookTooLong: "took_too_long"
        case .invalidCursor: "invalid_cursor"
        case .unknownPosition: "position_unknown"
        case .unknownTimeZone: "unknown_time_zone"
        case .unknown: "store_unknown"
        case .internalFault: "store_internal"
        }
    }

    /// What to do next, for people.
    public var hint: String {
        switch self {
        case .locked: "Stop the other process, or use its control socket."
        case .cannotCreate, .notPermitted:
            "Make this user the owner of the directory and of all in it (`chown -R`), or choose another with --state-dir."
        case .diskFull: "Free space. Records that a device still has are read at the next contact."
        case .tooLittleSpace:
            "Free space there and start again. What was there is unchanged, and what was done is kept."
        case .inputOutput: "Look at the disk (dmesg); the store was not changed."
        case .corrupt:
            "Keep the file; restore a backup, or copy it aside and run `store verify` to see what is readable."
        case .foreign: "Choose another directory with --state-dir."
        case .newerSchema: "Use the newer version of healthrelay that wrote this store."
        case .pruneKeyMissing: "Put the file back from a backup; until then pruned readings may come back once."
        case .keyMissing, .keyWrong:
            "Put the store's key there, from a backup or the credential. Devices keep their records meanwhile. Without it, "
                + "only `store forget` goes on, from nothing."
        case .keyUnusable:
            "Put the store's key there, readable by this user: 32 octets in base64, the newest line last."
        case .notRefused: "`sync status` lists the refused readings."
        case .limitOutOfRange: "Choose a limit from 1 to 10000."
        case .offsetOutOfRange: "Choose an offset of 0 or more."
        case .tookTooLong: "Ask for fewer readings, or use a cursor instead of an offset."
        case .invalidCursor: "Pass a cursor that a query returned."
        case .unknownPosition: "Read what is stored once more, and go on from there."
        case .unknownTimeZone:
            "Use a name such as Europe/Berlin. Older ones, such as US/Eastern, are in Debian 13's package tzdata-legacy."
        case .unknown, .internalFault: "Please report this."
        }
    }

    /// The store's error for whatever the database or Foundation's file operations threw; the store's own errors stay
    /// what they are.
    static func mapping(_ error: any Error) -> any Error {
        if error is RowDecodingError {
            return StoreError.corrupt(detail: "a row has a value of another type than its column")
        }
        guard let error = error as? DatabaseError else { return fileError(error) ?? error }
        let detail = error.message ?? error.resultCode.description
        // A row read from the file is of another type than its column, or lacks a value, and was to be written again.
        if [.SQLITE_CONSTRAINT_DATATYPE, .SQLITE_CONSTRAINT_NOTNULL].contains(error.extendedResultCode) {
            return StoreError.corrupt(detail: detail)
        }
        return switch error.resultCode {
        case .SQLITE_FULL: StoreError.diskFull
        case .SQLITE_CORRUPT, .SQLITE_TOOBIG, .SQLITE_MISMATCH: StoreError.corrupt(detail: detail)
        case .SQLITE_NOTADB: StoreError.foreign(path: StoreFiles.databaseName)
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH: StoreError.notPermitted(path: StoreFiles.databaseName)
        case .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_PROTOCOL: StoreError.inputOutput(detail: detail)
        // A statement of ours that was running when its task was cancelled.
        case .SQLITE_INTERRUPT where Task.isCancelled: CancellationError()
        default: StoreError.internalFault(detail: detail)
        }
    }
}

extension StoreError {
    /// Whether the database file is damaged.
    public var isCorrupt: Bool {
        if case .corrupt = self { true } else { false }
    }

    /// What `body` makes of a row; `nil` if the row is damaged. Every other error is thrown on.
    static func unlessCorrupt<Value>(_ body: () throws -> Value) throws -> Value? {
        do { return try body() } catch StoreError.corrupt { return nil } catch is RowDecodingError { return nil }
    }
}

extension StoreError {
    /// The store's error for a file operation of Foundation's that failed; `nil` for any other error.
    private static func fileError(_ error: any Error) -> StoreError? {
        let error = error as NSError
        guard error.domain == NSCocoaErrorDomain else { return nil }
        let path = error.userInfo[NSFilePathErrorKey] as? String ?? "a file of the store"
        guard let underlying = error.userInfo[NSUnderlyingErrorKey] as? any Error else {
            return .inputOutput(detail: error.localizedDescription)
        }
        return StoreFiles.failure(path, Int32(truncatingIfNeeded: (underlying as NSError).code))
    }
}

extension StoreError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        switch self {
        case .locked(let pid): "the store is in use" + (pid.map { " by process \($0)" } ?? "")
        case .cannotCreate(let path, let reason): "cannot create \(path): \(reason)"
        case .notPermitted(let path): "no permission to write \(path)"
        case .diskFull: "the disk is full: the last frames are not stored"
        case .tooLittleSpace(let path, let needed, let free):
            "too little space in \(path): expected \(needed.mebibytes), found \(free.mebibytes) free"
        case .inputOutput(let detail): "the store cannot be read or written: \(detail)"
        case .corrupt(let detail): "the store is damaged: \(detail)"
        case .foreign(let path): "\(path) is not a HealthRelay store"
        case .newerSchema: "the store was written by a newer version"
        case .pruneKeyMissing(let path):
            "\(path), which identifies pruned readings, is missing or belongs to another store"
        case .keyMissing(let path): "the store is locked: its key is not in \(path)"
        case .keyWrong(let path): "the store is locked: \(path) holds another store's key"
        case .keyUnusable(let path, let reason): "the store is locked: \(path) \(reason)"
        case .notRefused(let id): "the server did not refuse reading \(id); nothing was changed"
        case .limitOutOfRange(let limit): "limit \(limit) is not between 1 and 10000"
        case .offsetOutOfRange(let offset): "offset \(offset) is negative"
        case .tookTooLong: "reading took too long and was stopped"
        case .invalidCursor: "the cursor is not one that a query returned"
        case .unknownPosition: "the position among changes is of another store, or of a later state of this one"
        case .unknownTimeZone(let name): "\(name) is not a time zone of the tz database"
        case .unknown(let what): "the store does not know \(what)"
        case .internalFault(let detail): "the store refused a statement: \(detail)"
        }
    }
}
