import Crypto
import GRDB
import HealthReadings

/// Holds a database's schema against the one that the migrations make: what a file brings along beside it, triggers and
/// views above all, would run with every statement.
enum SchemaCheck {
    /// The digest of what the migrations make, which a test holds against them: making them takes longer than all the rest
    /// of opening a store.
    static let digest = "e780538a4c6eac2db13ba49e16823fa6d51cc782dc5bb4f379c77c32e2b4e89c"

    struct Object: Hashable {
        var type: String
        var name: String
        var table: String
        /// The words and numbers of its definition: versions of SQLite differ in how they quote and space what `ALTER`
        /// rewrites.
        var words: [Substring]
    }

    /// Refuses triggers, views and virtual tables, before a statement touches a table.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)``.
    static func refuseCode(_ db: Database) throws {
        let foreign = try String.fetchOne(
            db,
            sql: """
                SELECT type || ' ' || name FROM sqlite_schema
                WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1
                """)
        if let foreign { throw StoreError.corrupt(detail: "it has \(foreign.prefix(100)), which no version creates") }
    }

    /// - Throws: ``StoreError/corrupt(detail:)`` where the schema is another than the migrations make.
    static func check(_ db: Database) throws {
        let found = try objects(db)
        guard digest(of: found) != digest else { return }
        let expected = try model.get().objects
        guard expected != found else { return }
        if let extra = found.subtracting(expected).min(by: { $0.name < $1.name }) {
            throw StoreError.corrupt(detail: "it has a \(extra.type) \(extra.name.prefix(100)) that is not the store's")
        }
        if let missing = expected.subtracting(found).min(by: { $0.name < $1.name }) {
            throw StoreError.corrupt(detail: "it lacks the \(missing.type) \(missing.name)")
        }
    }

    static func digest(of objects: Set<Object>) -> String {
        let lines = objects.map { "\($0.type) \($0.name) \($0.table) \($0.words.joined(separator: " "))\n" }
        return SHA256.hash(data: Array(lines.sorted().joined().utf8)).hexadecimal()
    }

    /// An empty store and its schema. The store stays open: libdispatch frees a queue of it on a thread of its pool, and
    /// watches that pool once a second from then on.
    static let model = Result<(store: DatabaseQueue, objects: Set<Object>), any Error> {
        let store = try DatabaseQueue()
        try Schema.migrator.migrate(store)
        return (store, try store.read(objects))
    }

    private static func objects(_ db: Database) throws -> Set<Object> {
        Set(
            // What somebody's `ANALYZE` has left is no part of it.
            try Row.fetchAll(
                db, sql: "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat_'"
            ).map { row in
                let definition = try (row.value(3) as String?) ?? ""
                return Object(
                    type: try row.value(0), name: try row.value(1), table: try row.value(2),
                    words: definition.split { !$0.isLetter && !$0.isNumber && $0 != "_" })
            })
    }
}
