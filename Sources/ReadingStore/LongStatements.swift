import Foundation
import GRDB
import GRDBSQLite
import HealthReadings
import Synchronization

/// Stops SQLite's statements that take long, from any thread, also before they begin.
final class StopSwitch: Sendable {
    /// A connection of SQLite's. It is unchecked because of the pointer, which is only compared and given to
    /// `sqlite3_interrupt`: any thread may call that while the connection is open, and it is open while it is watched.
    private struct Connection: @unchecked Sendable, Equatable {
        let pointer: OpaquePointer
    }

    private struct State {
        var isStopped = false
        /// The connections that are watched now.
        var running: [Connection] = []
    }

    private let state = Mutex(State())
    private let look: @Sendable () -> Void
    private let outer: StopSwitch?

    /// - Parameters:
    ///   - outer: stops what this one watches, too.
    ///   - look: called every now and then while a statement runs.
    init(within outer: StopSwitch? = nil, look: @escaping @Sendable () -> Void = {}) {
        (self.outer, self.look) = (outer, look)
    }

    func stop() {
        state.withLock { state in
            state.isStopped = true
            // Under the lock: a connection that is given back meanwhile isn't interrupted for the next who has it.
            for connection in state.running { sqlite3_interrupt(connection.pointer) }
        }
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } || outer?.isStopped ?? false }

    /// - Throws: `CancellationError` if it is stopped: between many short statements nothing else notices it.
    func check() throws { if isStopped { throw CancellationError() } }

    /// Runs statements on a connection.
    ///
    /// - Throws: `CancellationError` if they are stopped, and what `body` throws.
    func watching<Value>(_ db: Database, _ body: () throws -> Value) throws -> Value {
        // Without a connection the store was closed before its turn came: the first statement says so.
        guard let connection = db.sqliteConnection.map(Connection.init) else { return try body() }
        try begin(connection)
        defer { end(connection) }
        return try telling(body)
    }

    /// The same for statements that somebody else runs on the only connection that a pool writes with.
    func watchingWriter<Value>(of pool: DatabasePool, _ body: () throws -> Value) throws -> Value {
        try pool.writeWithoutTransaction { db in try db.sqliteConnection.map(Connection.init).map(begin) }
        defer { pool.writeWithoutTransaction { db in db.sqliteConnection.map(Connection.init).map(end) } }
        return try telling(body)
    }

    private func begin(_ connection: Connection) throws {
        if outer?.isStopped ?? false { throw CancellationError() }
        try state.withLock { state in
            if state.isStopped { throw CancellationError() }
            state.running.append(connection)
        }
        // SQLite calls it on the thread that runs the statement, and only until the handler is taken away again. An
        // interruption ends only a statement that is running; the handler also ends those that come after it.
        sqlite3_progress_handler(
            connection.pointer, Self.instructions,
            { context in
                guard let context else { return 0 }
                let stopSwitch = Unmanaged<StopSwitch>.fromOpaque(context).takeUnretainedValue()
                stopSwitch.look()
                return stopSwitch.isStopped ? 1 : 0
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private func end(_ connection: Connection) {
        sqlite3_progress_handler(connection.pointer, 0, nil, nil)
        let isInterrupted = state.withLock { state in
            if let index = state.running.firstIndex(of: connection) { state.running.remove(at: index) }
            return state.isStopped
        }
        guard isInterrupted else { return }
        // A connection stays interrupted until one of its statements begins while none is open: its transaction could not be
        // ended, and a checkpoint is no statement.
        var statement = sqlite3_next_stmt(connection.pointer, nil)
        while let open = statement {
            if sqlite3_stmt_busy(open) != 0 { sqlite3_reset(open) }
            statement = sqlite3_next_stmt(connection.pointer, open)
        }
        sqlite3_exec(connection.pointer, "SELECT 1", nil, nil, nil)
    }

    private func telling<Value>(_ body: () throws -> Value) throws -> Value {
        try withExtendedLifetime(self) {
            do { return try body() } catch {
                throw isStopped && Self.isInterruption(error) ? CancellationError() : error
            }
        }
    }

    /// Whether an error is what an interrupted statement throws, or was called on its way.
    private static func isInterruption(_ error: any Error) -> Bool {
        switch error {
        case let error as DatabaseError: [.SQLITE_INTERRUPT, .SQLITE_ABORT].contains(error.resultCode)
        case StoreError.internalFault, is CancellationError: true
        default: false
        }
    }

    /// How many of SQLite's instructions lie between two looks: a few milliseconds.
    private static let instructions: Int32 = 50_000
}

/// Hands a result to the one who waits for it, unless that task was cancelled before.
final class AwaitedResult<Value: Sendable>: Sendable {
    private enum State {
        case early
        case waiting(CheckedContinuation<Value, any Error>)
        case over(Result<Value, any Error>?)
    }

    private let state = Mutex(State.early)

    /// - Returns: whether somebody has it: nobody does if the waiting task was cancelled.
    @discardableResult
    func give(_ result: Result<Value, any Error>) -> Bool {
        let (waiter, isTaken): (CheckedContinuation<Value, any Error>?, Bool) = state.withLock { state in
            switch state {
            case .early:
                state = .over(result)
                return (nil, true)
            case .waiting(let continuation):
                state = .over(nil)
                return (continuation, true)
            case .over: return (nil, false)
            }
        }
        waiter?.resume(with: result)
        return isTaken
    }

    /// Waits for the result.
    ///
    /// - Parameter begin: begins what gives the result, also for a task that is cancelled already.
    /// - Throws: `CancellationError` as soon as the task is cancelled: what gives the result goes on.
    func wait(_ begin: () -> Void) async throws -> Value {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let early: Result<Value, any Error>? = state.withLock { state in
                    if case .over(let result?) = state { return result }
                    state = .waiting(continuation)
                    return nil
                }
                if let early { continuation.resume(with: early) }
                begin()
            }
        } onCancel: {
            give(.failure(CancellationError()))
        }
    }
}

extension ReadingStore {
    /// How many bytes of the database's file are in use, rounded up to pages.
    package func usedBytes() async throws -> Int64 { try await read(Self.usedBytes) }

    static func usedBytes(_ db: Database) throws -> Int64 {
        func pragma(_ name: String) throws -> Int64 { try Int64.fetchOne(db, sql: "PRAGMA \(name)") ?? 0 }
        return try (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")
    }

    /// Refuses to write the files anew where the disk could fill: SQLite writes a copy, and then the copy into its log.
    func requireSpaceToRewrite() async throws {
        try DiskSpace.require(2 * (await usedBytes()), at: directory)
    }
}

/// The numbers of a table's first and last rows: how far a walk along them has come.
struct KeyRange: Sendable {
    private let (first, last): (Int64, Int64)

    init(_ db: Database, of table: StaticString) throws {
        let row = try Row.fetchOne(db, sql: "SELECT min(key), max(key) FROM \(table)")
        (first, last) = (try row?.value(0) ?? 0, try row?.value(1) ?? -1)
    }

    /// How many rows there are, were none missing.
    var count: Int64 { Self.count(from: first, through: last) }

    /// How many of them come up to one.
    func count(through key: Int64) -> Int64 { min(Self.count(from: first, through: key), count) }

    /// A hostile file may hold any number.
    private static func count(from first: Int64, through last: Int64) -> Int64 {
        last < first ? 0 : sum(last.subtractingReportingOverflow(first).overflow ? .max : last - first, 1)
    }

    /// A sum that is no larger than a number can be.
    static func sum(_ one: Int64, _ other: Int64) -> Int64 {
        let (sum, isTooLarge) = one.addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }

    func progress(_ step: StoreProgress.Step, at key: Int64) -> StoreProgress {
        StoreProgress(step, done: count(through: key), of: count)
    }
}

extension ReadingStore {
    func keyRange(of table: StaticString) async throws -> KeyRange {
        try await read { db in try KeyRange(db, of: table) }
    }
}
