import GRDB

/// The database of the list of clients. Each commit is durable when its call returns, and each error names the file.
struct AccessQueue: Sendable {
    private let queue: DatabaseQueue
    private let path: String

    init(path: String, configuration: Configuration) throws {
        self.path = path
        queue = try Self.naming(path) {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            // GRDB sets NORMAL when it switches to WAL, after `prepareDatabase`. A power cut could then take the last
            // commits: a revoked client would be in again.
            try queue.inDatabase { db in try db.execute(sql: "PRAGMA synchronous = FULL") }
            return queue
        }
    }

    func migrate(_ migrator: DatabaseMigrator) throws {
        try Self.naming(path) { try migrator.migrate(queue) }
    }

    func read<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        try await Self.naming(path) { try await queue.read(body) }
    }

    func write<Value: Sendable>(_ body: @escaping @Sendable (Database) throws -> Value) async throws -> Value {
        try await Self.naming(path) { try await queue.write(body) }
    }

    func writeWithoutTransaction<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        try await Self.naming(path) { try await queue.writeWithoutTransaction(body) }
    }

    func close() throws { try Self.naming(path) { try queue.close() } }

    private static func naming<Value>(_ path: String, _ body: () throws -> Value) throws -> Value {
        do { return try body() } catch let error as DatabaseError { throw named(error, path) }
    }

    private static func naming<Value>(_ path: String, _ body: () async throws -> Value) async throws -> Value {
        do { return try await body() } catch let error as DatabaseError { throw named(error, path) }
    }

    private static func named(_ error: DatabaseError, _ path: String) -> AccessError {
        error.resultCode == .SQLITE_FULL
            ? .diskFull(path: path)
            : .cannotKeepClients(path: path, reason: error.message ?? "\(error.resultCode)")
    }
}
