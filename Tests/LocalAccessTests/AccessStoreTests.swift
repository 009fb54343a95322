import Foundation
import GRDB
import LogLines
import Logging
import Testing

@testable import LocalAccess

@Suite("Clients and their tokens") struct AccessStoreTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let directory: String
    private let store: AccessStore

    init() throws {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("hr-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        store = try AccessStore(directory: directory)
    }

    @Test("a FIFO in place of a file is a named error at once", arguments: [AccessStore.fileName, "access.sqlite-wal"])
    func fifo(_ name: String) throws {
        let directory = NSTemporaryDirectory() + "access-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try #require(mkfifo(directory + "/" + name, 0o600) == 0)
        let error = #expect(throws: AccessError.self) { try AccessStore(directory: directory) }
        #expect(error?.description.contains(name) == true)
    }

    @Test("a token opens the door until it ends or its client is put out")
    func tokens() async throws {
        let (token, client) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        #expect(token.text.count == 64 && "\(token)" == "••••" && "\(client)".contains("Mac"))
        #expect(try await store.client(with: token, now: now + 99)?.number == client.number)
        #expect(try await store.client(with: token, now: now + 100) == nil)
        #expect(try await store.client(with: AccessToken(text: token.text.uppercased()), now: now) == nil)
        #expect(try await store.client(with: AccessToken(text: ""), now: now) == nil)
        #expect(try await store.revoke(client.number, now: now))
        #expect(try await !store.revoke(client.number, now: now))
        #expect(try await store.client(with: token, now: now) == nil)
    }

    @Test("putting out a client that there is not yet does not shut out the one that gets its number")
    func revokedBefore() async throws {
        #expect(try await !store.revoke(1, now: now))
        let (token, client) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        #expect(client.number == 1)
        #expect(try await store.client(with: token, now: now)?.number == 1)
        #expect(try await store.isWelcome(1, now: now))
        #expect(try await store.revoke(1, now: now))
        // Once more, when it is out already: it stays out.
        #expect(try await !store.revoke(1, now: now))
        #expect(try await !store.isWelcome(1, now: now))
    }

    @Test("a client is out even if that cannot be written")
    func revokedInMemory() async throws {
        let (token, client) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        let other = try DatabaseQueue(path: directory + "/" + AccessStore.fileName)
        try await other.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE UPDATE ON client BEGIN SELECT RAISE(ABORT, 'no'); END
                    """)
        }
        await #expect(throws: AccessError.self) { try await store.revoke(client.number, now: now) }
        #expect(try await store.client(with: token, now: now) == nil)
    }

    @Test("no file holds the token itself")
    func hashed() async throws {
        let (token, _) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        _ = try await store.client(with: token, now: now)
        try store.close()
        for file in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let octets = FileManager.default.contents(atPath: directory + "/" + file) ?? Data()
            #expect(octets.range(of: Data(token.text.utf8)) == nil, "\(file)")
        }
        let mode = try FileManager.default.attributesOfItem(
            atPath: directory + "/" + AccessStore.fileName)[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }

    @Test("a client's name is fit for a list")
    func names() async throws {
        let (_, client) = try await store.admit(
            "\u{1B}[31mMac\n\u{202E}" + String(repeating: "x", count: 500), as: .page, for: .owner, now: now,
            expiresAt: now)
        #expect(client.name.count == 64 && client.name.hasPrefix("[31mMacxxx"))
        #expect(try await store.admit(" \n", as: .page, for: .owner, now: now, expiresAt: now).client.name == "unnamed")
    }

    @Test("with a person goes who was served readings; with everybody every entry and client, to the octet")
    func forgetting() async throws {
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let (token, client) = try await store.admit(
            "Anna's phone", as: .client, for: .owner, now: now, expiresAt: now + 100)
        log.note(AuditEntry(at: now, event: "pair", client: client.number))
        log.note(AuditEntry(at: now, event: "request", client: client.number, route: "/readings", status: 200))
        await log.flush()
        try await store.forget(routes: ["/readings"], everybody: false)
        #expect(try await log.newest(10).map(\.event) == ["pair"])
        #expect(try await store.client(with: token, now: now) != nil)
        try await store.forget(routes: [], everybody: true)
        #expect(try await log.newest(10).isEmpty)
        #expect(try await store.client(with: token, now: now) == nil)
        #expect(try await store.clients().isEmpty)
        for file in try FileManager.default.contentsOfDirectory(atPath: directory) {
            let octets = FileManager.default.contents(atPath: directory + "/" + file) ?? Data()
            #expect(octets.range(of: Data("Anna's phone".utf8)) == nil, "\(file)")
        }
    }

    @Test("the audit log is kept for ninety days")
    func ninetyDays() async throws {
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        log.note(AuditEntry(at: now, event: "pair", client: 1))
        log.note(AuditEntry(at: now + 86_400, event: "request", client: 1, route: "/health", status: 200))
        #expect(try await log.newest(10).map(\.event) == ["request", "pair"])
        try await store.prune(now: now + 90 * 86_400 + 1)
        #expect(try await log.newest(10).map(\.event) == ["request"])
        try await store.prune(now: now + 92 * 86_400)
        #expect(try await log.newest(10).isEmpty)
    }

    @Test("a flood of strangers fills no disk: they are counted")
    func flood() async throws {
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        for _ in 0..<10_000 { log.note(AuditEntry(at: now, event: "unauthorized")) }
        for _ in 0..<1000 { log.note(AuditEntry(at: now, event: "pair_refused")) }
        log.note(AuditEntry(at: now, event: "request", client: 7))
        log.note(AuditEntry(at: now + 60, event: "unauthorized"))
        let entries = try await log.newest(1000)
        #expect(entries.count == 63 && entries.contains { $0.client == 7 })
        #expect(entries.first { $0.event == "unauthorized" }?.count == 10_001)
        #expect(entries.first { $0.event == "more_refused" }?.count == 940)
    }

    @Test("each sort of row has its own limit: a flood of refused codes pushes out no pairing, and no row is for ever")
    func rows() async throws {
        try await store.record([AuditEntry(at: now, event: "pair", client: 1)])
        for part in 0..<11 {
            try await store.record(
                (0..<1000).map { AuditEntry(at: now + Double(part * 1000 + $0), event: "pair_refused") })
            try await store.record(
                (0..<1000).map { AuditEntry(at: now + Double(part), event: "request", route: "/\(part)/\($0)") })
        }
        let entries = try await store.audit(limit: 100_000)
        let sorts = Dictionary(grouping: entries, by: \.event).mapValues(\.count)
        #expect(sorts == ["pair": 1, "pair_refused": AccessStore.auditRows, "request": AccessStore.auditRows])
        // The oldest went.
        #expect(entries.filter { $0.event == "pair_refused" }.map(\.at).min() == now + 1000)
    }

    @Test("what one hour holds of a client, a route and a status is one row, over restarts too")
    func hours() async throws {
        let hour = Date(timeIntervalSince1970: 1_800_000_000)
        for minutes in [0, 20, 59, 60, 61] {
            try await store.record([
                AuditEntry(at: hour + Double(minutes) * 60, event: "request", client: 3, route: "/a", status: 200)
            ])
        }
        try store.close()
        let again = try AccessStore(directory: directory)
        try await again.record([AuditEntry(at: hour + 3599, event: "request", client: 3, route: "/a", status: 200)])
        let entries = try await again.audit(limit: 10)
        #expect(entries.map(\.count) == [2, 4])
        #expect(entries.last?.at == hour && entries.last?.lastAt == hour + 3599)
    }

    @Test("an audit log of before is counted by the hour, and what was let in or put out stays as it was")
    func migration() async throws {
        let former = directory + "/former"
        try FileManager.default.createDirectory(atPath: former, withIntermediateDirectories: true)
        let script = """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1])
            db.executescript(\"\"\"
            CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
            INSERT INTO grdb_migrations VALUES ('1 clients and audit');
            CREATE TABLE client (
                number INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
                kind TEXT NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL, last_seen REAL,
                revoked_at REAL
            ) STRICT;
            CREATE TABLE audit (
                key INTEGER PRIMARY KEY, at REAL NOT NULL, event TEXT NOT NULL, client INTEGER, route TEXT,
                status INTEGER, count INTEGER NOT NULL
            ) STRICT;
            CREATE INDEX audit_at ON audit (at);
            INSERT INTO client VALUES (1, x'00', 'Mac', 'client', 1.0, 2.0, NULL, NULL);
            \"\"\")
            rows = [(1.8e9 + i, 'request', 1, '/a', 200, 1) for i in range(50)]
            rows += [(1.8e9 + i, 'pair_refused', None, '/p', 400, 1) for i in range(3)]
            rows += [(1.8e9 + 9, 'pair', 1, '/p', 200, 1), (1.8e9 + 7200, 'request', 1, '/a', 200, 1)]
            db.executemany('INSERT INTO audit (at, event, client, route, status, count) VALUES (?, ?, ?, ?, ?, ?)', rows)
            db.commit()
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", script, former + "/" + AccessStore.fileName]
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        let store = try AccessStore(directory: former)
        let entries = try await store.audit(limit: 100)
        let shown = entries.map { "\($0.event) \($0.count)" }.sorted()
        #expect(shown == ["pair 1", "pair_refused 1", "pair_refused 1", "pair_refused 1", "request 1", "request 50"])
        #expect(try await store.clients().map(\.name) == ["Mac"])
        try await store.record([AuditEntry(at: now + 7201, event: "request", client: 1, route: "/a", status: 200)])
        #expect(try await store.audit(limit: 1).first?.count == 2)
    }

    @Test("when a client was last here is no write of its own, and is on disk with the log")
    func visits() async throws {
        let (token, client) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 10_000)
        for second in 0..<100 { _ = try await store.client(with: token, now: now + Double(second)) }
        #expect(try await store.clients().first?.lastSeen == now + 99)
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        await log.flush()
        try store.close()
        let again = try AccessStore(directory: directory)
        #expect(try await again.clients().first { $0.number == client.number }?.lastSeen == now + 99)
    }

    @Test("a power cut does not undo a revocation: the connection that writes waits for the disk at each commit")
    func durableStore() async throws {
        #expect(try await store.synchronousLevel() == 2)
    }

    @Test("a paired client cannot fill the disk through the audit log: its requests of an hour are one row")
    func requestsAreCounted() async throws {
        let log = AuditLog(store, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let hour = Date(timeIntervalSince1970: 1_800_000_000)
        for second in 0..<3600 {
            let status = second.isMultiple(of: 2) ? 200 : 403
            let event = status == 200 ? "request" : "forbidden"
            log.note(
                AuditEntry(
                    at: hour + Double(second), event: event, client: 7, route: "/api/v1/readings", status: status))
        }
        let entries = try await log.newest(10_000)
        #expect(entries.count == 2 && entries.allSatisfy { $0.count == 1800 })
    }

    @Test("a disk that refuses the audit log costs a paired client's requests one row of memory, and none is lost")
    func requestsInMemory() async throws {
        let lines = LogLines()
        let log = AuditLog(store, logger: lines.logger())
        let other = try DatabaseQueue(path: directory + "/" + AccessStore.fileName)
        try await other.write { db in try db.execute(sql: "ALTER TABLE audit RENAME TO away") }
        for _ in 0..<3 {
            for second in 0..<2000 {
                log.note(
                    AuditEntry(at: now + Double(second % 600), event: "request", client: 7, route: "/a", status: 200))
            }
            await log.flush()
        }
        #expect(lines.lines(from: .warning).count == 3)
        #expect(lines.lines(from: .warning).allSatisfy { $0.contains(#""entries": 1]"#) }, "\(lines.text)")
        try await other.write { db in try db.execute(sql: "ALTER TABLE away RENAME TO audit") }
        #expect(try await log.newest(10).map(\.count) == [6000])
    }

    @Test("a revocation is durable when its call returns: each commit is synchronised")
    func durable() async throws {
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try AccessQueue(path: directory + "/other.sqlite", configuration: configuration)
        #expect(try await queue.read { db in try Int.fetchOne(db, sql: "PRAGMA synchronous") } == 2)
    }

    @Test("a damaged list of clients is a named error, not a fault of the program")
    func unusable() async throws {
        let (_, client) = try await store.admit("Mac", as: .client, for: .owner, now: now, expiresAt: now + 100)
        let other = try DatabaseQueue(path: directory + "/" + AccessStore.fileName)
        try await other.write { db in try db.execute(sql: "DROP TABLE client") }
        await #expect(throws: AccessError.self) { try await store.revoke(client.number, now: now) }
        await #expect(throws: AccessError.self) { try await store.clients() }
        await #expect(throws: AccessError.self) { try await store.forget(routes: [], everybody: true) }
    }

    @Test("a file that is no list is left as it is")
    func foreign() throws {
        let other = directory + "/other"
        try FileManager.default.createDirectory(atPath: other, withIntermediateDirectories: true)
        let path = other + "/" + AccessStore.fileName
        try "not a database, and longer than a header of one would have to be".write(
            toFile: path, atomically: true, encoding: .utf8)
        #expect(throws: AccessError.self) { try AccessStore(directory: other) }
        #expect(FileManager.default.contents(atPath: path)?.prefix(3) == Data("not".utf8))
    }
}

@Suite("QR codes") struct QRCodeTests {
    @Test("a payload gives a square code with its three marks, and too long a text gives none")
    func shape() throws {
        let code = try #require(QRCode(#"{"version":"1","host":"192.168.1.9","port":8443,"code":"abcdefgh"}"#))
        let size = code.rows.count
        #expect((21...177).contains(size) && code.rows.allSatisfy { $0.count == size })
        for (row, column) in [(0, 0), (0, size - 7), (size - 7, 0)] {
            #expect((0..<7).allSatisfy { code.rows[row][column + $0] && code.rows[row + $0][column] })
        }
        #expect(code.lines.count == (size + 5) / 2)
        #expect(QRCode(String(repeating: "x", count: 4000)) == nil)
    }
}
