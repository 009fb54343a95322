import Foundation
import GRDB
import TestSupport
import Testing

@testable import ReadingStore

/// An index that has other entries than its table answers questions wrongly: readings are not found, or found twice.
@Suite("Indexes are checked against their tables")
struct IndexCheckTests {
    @Test("all indexes of a store are compared, and are sound in one that has readings")
    func store() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        try await harness.store.read { db in
            let tables = try IndexCheck.tables(db)
            #expect(Set(tables).isSuperset(of: ["reading", "outbox", "reading_frame", "pruned", "change"]))
            for table in tables {
                let check = try IndexCheck(db, table)
                #expect(check != nil, "\(table) has an index that only SQLite can check")
                let findings = try IndexCheck.findings(db, table: table)
                #expect(findings.isEmpty)
            }
        }
    }

    @Test("what is found agrees with SQLite's check, whatever was changed behind an index", arguments: 0..<40)
    func agreement(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let queue = try DatabaseQueue()
        let lines = try Self.fill(queue, &random)
        try queue.writeWithoutTransaction { db in
            for table in Self.tables {
                let (check, findings) = (try IndexCheck(db, table), try IndexCheck.findings(db, table: table))
                #expect(check != nil)
                #expect(findings.isEmpty)
            }
            let index = try #require(["a", "b_c", "d_e", "c_some", "f", "r", "r_some"].randomElement(using: &random))
            let table = index.hasPrefix("r") ? "keyed" : "rows"
            try Self.behind(index, db) {
                for _ in 0..<Int.random(in: 0...2, using: &random) {
                    let line = Int.random(in: 0..<lines, using: &random)
                    let column = try #require(
                        (table == "rows" ? ["a", "b", "c", "d", "e"] : ["r"]).randomElement(using: &random))
                    switch Int.random(in: 0..<3, using: &random) {
                    case 0: try db.execute(sql: "DELETE FROM \(table) WHERE number = \(line)")
                    case 1:
                        try db.execute(
                            sql: "UPDATE \(table) SET \(column) = ? WHERE number = \(line)",
                            arguments: [Self.value(&random)])
                    default:
                        // Two rows change places.
                        try db.execute(
                            sql: """
                                UPDATE \(table) SET \(column) = (SELECT \(column) FROM \(table) WHERE number = \(lines - 1 - line))
                                WHERE number = \(line)
                                """)
                    }
                }
            }
            let damages = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
            let findings = try Self.tables.flatMap { try IndexCheck.findings(db, table: $0) }
            #expect(findings.isEmpty == damages.isEmpty, "\(index): \(findings) \(damages)")
        }
    }

    @Test("an entry that is missing, another's, or there twice is told with its index")
    func words() throws {
        var random = SeededGenerator(seed: 1)
        let queue = try DatabaseQueue()
        _ = try Self.fill(queue, &random)
        try queue.writeWithoutTransaction { db in
            try Self.behind("a", db) { try db.execute(sql: "INSERT INTO rows (number, a) VALUES (-1, 7)") }
            let missing = try IndexCheck.findings(db, table: "rows")
            #expect(missing == ["wrong # of entries in index a"])
            try db.execute(sql: "REINDEX")
            try Self.behind("c_some", db) {
                try db.execute(sql: "UPDATE rows SET c = 'z' || number, e = 1 WHERE e > 0")
            }
            try Self.behind("f", db) { try db.execute(sql: "UPDATE rows SET f = 1 WHERE number = 2") }
            let others = try IndexCheck.findings(db, table: "rows").sorted()
            #expect(
                others == [
                    "entries in index c_some are not those of its table",
                    "entries in index f are not those of its table",
                ])
        }
    }

    @Test("a null that is left in an index of what isn't null is told, also if another entry is missing")
    func leftNull() throws {
        var random = SeededGenerator(seed: 2)
        let queue = try DatabaseQueue()
        _ = try Self.fill(queue, &random)
        try queue.writeWithoutTransaction { db in
            let made = try #require(try String.fetchOne(db, sql: "SELECT sql FROM sqlite_schema WHERE name = 'f'"))
            // While the index has all rows, it takes one; without that row it keeps the entry.
            try Self.change(
                "UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX f ON rows (f, number)' WHERE name = 'f'", db)
            try db.execute(sql: "INSERT INTO rows (number, f) VALUES (-1, NULL)")
            try Self.change("UPDATE sqlite_schema SET sql = ? WHERE name = 'f'", db, [made])
            try db.execute(sql: "DELETE FROM rows WHERE number = -1")
            let damages = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            #expect(damages == ["wrong # of entries in index f"])
            let left = try IndexCheck.findings(db, table: "rows")
            #expect(left == damages)
            try Self.behind("f", db) { try db.execute(sql: "INSERT INTO rows (number, f) VALUES (-2, -5)") }
            let replaced = try IndexCheck.findings(db, table: "rows")
            #expect(replaced == ["entries in index f are not those of its table"])
            try db.execute(sql: "REINDEX")
            let sound = try IndexCheck.findings(db, table: "rows")
            #expect(sound.isEmpty)
        }
    }

    @Test("an index that is not unique, or is out of order, is told")
    func order() throws {
        let queue = try DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE rows (number INTEGER PRIMARY KEY, f INTEGER, g INTEGER);
                    CREATE INDEX f ON rows (f); CREATE INDEX g ON rows (g DESC);
                    INSERT INTO rows VALUES (1, 5, 5), (2, 5, 4), (3, NULL, 3), (4, NULL, 2)
                    """)
            // One whose order only SQLite checks.
            let check = try IndexCheck(db, "rows")
            #expect(check == nil)
            let sound = try IndexCheck.findings(db, table: "rows")
            #expect(sound.isEmpty)
            try Self.change("UPDATE sqlite_schema SET sql = 'CREATE INDEX g ON rows (g)' WHERE name = 'g'", db)
            let reversed = try IndexCheck.findings(db, table: "rows")
            #expect(reversed == ["entries out of order in index g"])
            try Self.change("DELETE FROM sqlite_schema WHERE name = 'g'", db)
            try Self.change("UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX f ON rows (f)' WHERE name = 'f'", db)
            let repeated = try IndexCheck.findings(db, table: "rows")
            #expect(repeated == ["non-unique entry in index f"])
            try Self.change("UPDATE sqlite_schema SET sql = 'CREATE INDEX f ON rows (g)' WHERE name = 'f'", db)
            let others = try IndexCheck.findings(db, table: "rows")
            #expect(others == ["entries in index f are not those of its table"])
        }
    }

    @Test("rows that are not in the order of their primary key are told, also of a table that has no index")
    func keyOrder() throws {
        let queue = try DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE keyed (p TEXT, r INTEGER, PRIMARY KEY (p DESC)) WITHOUT ROWID;
                    INSERT INTO keyed VALUES ('a', 1), ('b', 2), ('c', 3)
                    """)
            let tables = try IndexCheck.tables(db)
            #expect(tables == ["keyed"])
            // One whose order only SQLite checks.
            let (descending, sound) = (try IndexCheck(db, "keyed"), try IndexCheck.findings(db, table: "keyed"))
            #expect(descending == nil)
            #expect(sound.isEmpty)
            try Self.change(
                """
                UPDATE sqlite_schema SET sql = 'CREATE TABLE keyed (p TEXT, r INTEGER, PRIMARY KEY (p)) WITHOUT ROWID'
                """, db)
            let (check, reversed) = (try IndexCheck(db, "keyed"), try IndexCheck.findings(db, table: "keyed"))
            #expect(check != nil)
            #expect(reversed == ["row not in PRIMARY KEY order for keyed"])
            let damages = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            #expect(Set(damages) == Set(reversed))
        }
    }

    // MARK: Support

    private static let tables = ["rows", "keyed"]

    /// - Returns: how many rows each table has.
    private static func fill(_ queue: DatabaseQueue, _ random: inout SeededGenerator) throws -> Int {
        let count = Int.random(in: 9...300, using: &random)
        let values = (0..<count).map { _ in (0..<6).map { _ in value(&random) } }
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE rows (number INTEGER PRIMARY KEY, a, b BLOB, c TEXT, d REAL, e INTEGER, f INTEGER UNIQUE);
                    CREATE INDEX a ON rows (a); CREATE INDEX b_c ON rows (b, c); CREATE INDEX d_e ON rows (d, e);
                    CREATE INDEX c_some ON rows (c) WHERE e > 0; CREATE UNIQUE INDEX f ON rows (f, number) WHERE f IS NOT NULL;
                    CREATE TABLE keyed (p TEXT, number INTEGER, r, PRIMARY KEY (p, number)) WITHOUT ROWID;
                    CREATE INDEX r ON keyed (r); CREATE INDEX r_some ON keyed (r) WHERE r IS NOT NULL AND number > 9
                    """)
            for (number, row) in values.enumerated() {
                try db.execute(
                    sql: "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
                    arguments: [number, row[0], row[1], row[2], row[3], row[4], number % 3 == 0 ? nil : number * 10])
                try db.execute(
                    sql: "INSERT INTO keyed VALUES (?, ?, ?)", arguments: ["p\(number % 7)", number, row[5]])
            }
        }
        return count
    }

    private static func value(_ random: inout SeededGenerator) -> DatabaseValue {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: .null
        case 1: Int64.random(in: -3...3, using: &random).databaseValue
        case 2: Double(Int.random(in: -6...6, using: &random)).databaseValue
        case 3: (Double(Int.random(in: -600...600, using: &random)) / 7).databaseValue
        case 4: String(repeating: "aé", count: Int.random(in: 0...9, using: &random)).databaseValue
        default:
            Data((0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...2, using: &random) })
                .databaseValue
        }
    }

    /// Changes rows while the database doesn't know of an index.
    private static func behind(_ index: String, _ db: Database, _ body: () throws -> Void) throws {
        let row = try #require(
            try Row.fetchOne(db, sql: "SELECT * FROM sqlite_schema WHERE name = ?", arguments: [index]))
        try change("DELETE FROM sqlite_schema WHERE name = '\(index)'", db)
        try body()
        try change("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", db, StatementArguments(row.databaseValues))
    }

    private static func change(_ sql: String, _ db: Database, _ arguments: StatementArguments = []) throws {
        try db.execute(sql: "PRAGMA writable_schema = ON")
        try db.execute(sql: sql, arguments: arguments)
        try db.execute(sql: "PRAGMA writable_schema = RESET")
        db.clearSchemaCache()
    }
}
