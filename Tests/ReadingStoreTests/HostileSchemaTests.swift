import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("A store's file that somebody else has made")
struct HostileSchemaTests {
    @Test(
        "what runs by itself, what is missing and what is of another shape is damage, named before anything is read",
        arguments: [
            "CREATE TRIGGER t AFTER INSERT ON setting BEGIN DELETE FROM reading; END",
            "CREATE VIEW v AS SELECT * FROM reading",
            "ALTER TABLE consent RENAME TO c; CREATE VIEW consent AS SELECT * FROM c",
            "CREATE TABLE more (x)", "CREATE INDEX more ON reading (hex(zeroblob(10)))",
            "DROP INDEX reading_time", "DROP TABLE consent", "ALTER TABLE reading ADD COLUMN x TEXT",
            "DROP TABLE setting; CREATE TABLE setting (name TEXT, value TEXT)",
            "DELETE FROM grdb_migrations WHERE identifier LIKE '8 %'", "DELETE FROM grdb_migrations",
            "DROP INDEX reading_renumbered", "DELETE FROM grdb_migrations WHERE identifier LIKE '26 %'",
            "DROP TABLE grdb_migrations; CREATE VIEW grdb_migrations AS SELECT 1 AS identifier",
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE reading (x' WHERE name = 'reading'",
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'frame'",
        ])
    func schema(change: String) async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in try db.execute(sql: change) }
        do {
            let store = try await Harness.open(harness.directory)
            let findings = try await store.verify()
            #expect(!findings.isEmpty)
            try store.close()
        } catch {
            #expect((error as? StoreError)?.code == "store_corrupt", "\(error)")
        }
    }

    @Test("the digest of the schema is that of what the migrations make")
    func digest() throws {
        let made = SchemaCheck.digest(of: try SchemaCheck.model.get().objects)
        #expect(made == SchemaCheck.digest)
    }

    @Test("statistics that ANALYZE has left are no damage")
    func analyzed() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in try db.execute(sql: "ANALYZE") }
        #expect(try await Harness(harness.directory).all().count == 1)
    }

    @Test("NULL and values of another type, in columns whose definition says otherwise, are damage and no trap")
    func values() async throws {
        let edits = [
            "UPDATE contact SET started_at = NULL", "UPDATE contact SET zone = NULL",
            "UPDATE contact SET received = 'x'",
            "UPDATE device SET is_paired = 'x'", "UPDATE device SET provider = NULL, last_seen = x'00'",
            "UPDATE user SET client_user_id = NULL", "UPDATE outbox SET provider = NULL",
            "UPDATE outbox SET provider = x'61ff'", "UPDATE outbox SET provider = CAST(x'ff' AS TEXT)",
            "UPDATE outbox SET user = 'x'", "UPDATE outbox SET resource = 1.5",
            "UPDATE reading SET kind = NULL",
            "UPDATE reading SET time = 'soon', time_basis = NULL", "UPDATE frame SET payload = NULL",
            "UPDATE setting SET value = NULL", "UPDATE setting SET value = 99999999999999999999",
            "INSERT INTO consent VALUES (1, 1, 'x', 'y', NULL, 'z', 'w')",
            "INSERT INTO source VALUES (1, 1, 7, 'connected', 'x', 'y', 'z', 'tag')",
            "UPDATE clock_epoch SET difference = 9223372036854775807",
            "UPDATE reading SET content = zeroblob(20000000)",
        ]
        for edit in edits {
            let harness = try await Harness(encryption: .off())
            try await harness.contact(
                [Build.glucose(1, "2026-11-21T08:00:00")],
                clock: ClockReading(
                    deviceTime: Build.wall("2026-11-21T10:59:00"), readAt: Build.instant("2026-11-21T09:59:00Z")))
            try harness.store.close()
            try Self.relax(harness.directory) { db in try db.execute(sql: edit) }
            do {
                let store = try await Harness.open(harness.directory, encryption: .off())
                _ = try await store.query(ReadingQuery())
                _ = try await store.devices()
                _ = try await store.latestContacts()
                _ = try await store.pairings()
                _ = try await store.statistics()
                _ = try await store.users()
                for group in try await store.groupsWaiting() {
                    _ = try await store.outboxBatch(
                        user: group.user, resource: group.resource, provider: group.provider, limit: 100)
                }
                _ = try await store.consents(of: store.currentUser().key)
                _ = try await store.consentHistory(of: store.currentUser().key)
                _ = try await store.sources(user: store.currentUser().key)
                _ = try await store.verify()
                try store.close()
            } catch {
                #expect(error is StoreError, "\(edit): \(error)")
            }
        }
    }

    @Test("a NULL that is to be written to another table is damage, not a fault of this program")
    func missing() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try harness.store.close()
        try Self.relax(harness.directory) { db in try db.execute(sql: "UPDATE device SET sequence_epoch = NULL") }
        let error = await #expect(throws: StoreError.self) {
            let again = try await Harness(harness.directory, encryption: .off())
            try await again.contact([Build.glucose(2, "2026-11-21T08:01:00")])
        }
        #expect(error?.code == "store_corrupt")
    }

    /// Changes rows while no column has a constraint or a type, and puts the definitions back.
    static func relax(_ directory: String, _ edit: (Database) throws -> Void) throws {
        var definitions: [Row] = []
        try TamperingTests.edit(directory) { db in
            definitions = try Row.fetchAll(db, sql: "SELECT rowid, sql FROM sqlite_schema WHERE type = 'table'")
            try db.execute(
                sql: """
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ' NOT NULL', ''), ') STRICT, ', ') '), ') STRICT', ')')
                        WHERE type = 'table'
                    """)
        }
        try TamperingTests.edit(directory, edit)
        try TamperingTests.edit(directory) { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            for row in definitions {
                try db.execute(
                    sql: "UPDATE sqlite_schema SET sql = ? WHERE rowid = ?",
                    arguments: [row[1] as String, row[0] as Int64])
            }
        }
    }
}

/// A process's own memory, as the kernel counts it.
private func peakMemory() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    return (line?.split(separator: " ").compactMap { Int($0) }.first ?? 0) * 1024
}

@Suite("Memory of an unfinished erasure")
struct RewritingMemoryTests {
    #if compiler(>=6.3)  // Earlier exit tests capture nothing.
        @Test("writing the files anew does not hold the database in memory, and leaves no other file")
        func memory() async throws {
            let harness = try await Harness(encryption: .off())
            try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
            try harness.store.close()
            try TamperingTests.edit(harness.directory) { db in
                try db.execute(
                    sql: """
                        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
                        INSERT INTO frame (key, device, contact, format, ordinal, received_at, state, payload)
                        SELECT 100 + i, 1, 1, 6168, i, 0, 4, randomblob(4000) FROM n;
                        DELETE FROM frame WHERE key > 100 AND key % 5 = 0;
                        INSERT INTO setting VALUES ('erase.unfinished', '1')
                        """)
            }
            let path = harness.directory + "/readings.sqlite"
            let before = try #require(
                try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int)
            #expect(before > 150_000_000)
            // What a process that was killed between making and unlinking one leaves.
            let left = harness.directory + "/etilqs_0123456789abcdef"
            _ = FileManager.default.createFile(atPath: left, contents: Data([1]))
            await #expect(processExitsWith: .success) { [directory = harness.directory as String] in
                let start = try peakMemory()
                let store = try await Harness.open(directory, encryption: .off())
                let grown = try peakMemory() - start
                try store.close()
                print("grown by \(grown / 1_000_000) MB")
                exit(grown < 70_000_000 ? 0 : 1)
            }
            let after = try #require(
                try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int)
            #expect(after < before * 9 / 10)
            #expect(
                try Set(FileManager.default.contentsOfDirectory(atPath: harness.directory)).isSubset(of: [
                    "readings.sqlite", "readings.sqlite-wal", "readings.sqlite-shm", "store.lock",
                ]))
        }
    #endif

    @Test("a store can be closed at any moment while its files are written anew")
    func closing() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact((0..<400).map { ErasureTests.mark($0, filling: 7) })
        try harness.store.close()
        for round in 0..<40 {
            try TamperingTests.edit(harness.directory) { db in
                try db.execute(sql: "INSERT OR REPLACE INTO setting VALUES ('erase.unfinished', '1')")
            }
            let store = try await ReadingStore.open(
                directory: harness.directory, decoder: TestDecoder(), encryption: .off(), finishesErasure: false)
            let rewriting = Task { try await store.finishErasure() }
            try await Task.sleep(for: .microseconds(round * 400))
            try store.close()
            _ = try? await rewriting.value
        }
        #expect(try await Harness(harness.directory, encryption: .off()).store.verify().isEmpty)
    }

    @Test("a service opens before the files are written anew, and without what was erased")
    func later() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in
            try db.execute(sql: "INSERT INTO setting VALUES ('erase.unfinished', '1')")
        }
        let store = try await ReadingStore.open(
            directory: harness.directory, decoder: TestDecoder(), encryption: .off(), finishesErasure: false)
        func isUnfinished() async throws -> Bool {
            try await store.read { db in try !ReadingStore.lines(db, "erase.unfinished").isEmpty }
        }
        #expect(try await isUnfinished())
        try await store.finishErasure()
        #expect(try await !isUnfinished())
        try store.close()
    }
}
