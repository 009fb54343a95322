import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Files of the store")
struct StoreFilesTests {
    @Test(
        "a directory or file with a name of one letter is found and made like any other",
        arguments: [
            ("G", "."), ("ab", "."), ("G/", "."), ("/G", "/"), ("/", "/"), ("", "/"), ("a/b", "a"), ("a//b/", "a"),
            ("/a/b", "/a"), ("./G", "."),
        ])
    func parents(_ path: String, _ parent: String) { #expect(parentDirectory(of: path) == parent) }

    @Test("only the owner can read the directory and the files")
    func modes() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        func mode(_ name: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: harness.directory + name)[.posixPermissions] as? Int
        }
        #expect(try mode("") == 0o700)
        for name in ["/readings.sqlite", "/readings.sqlite-wal", "/readings.sqlite-shm", "/store.lock"] {
            #expect(try mode(name) == 0o600, "\(name)")
        }
    }

    @Test("a second opener is told whose the store is, and a closed store opens again")
    func lock() async throws {
        let directory = Harness.newDirectory()
        let first = try await Harness(directory)
        await #expect(throws: StoreError.locked(pid: getpid())) { try await Harness.open(directory) }
        try await first.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        #expect(try await first.all().count == 1)
    }

    @Test("a lock that is given up is free at once, also where a process that is being started has a copy of it")
    func lockWithCopies() async throws {
        let path = NSTemporaryDirectory() + "lock-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let lock = try StoreLock(path: path)
        // As between fork and exec.
        let own = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { name in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + name)) == path
        }
        let copies = own.compactMap { Int32($0) }.map { dup($0) }
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 1)
        lock.release()
        try StoreLock(path: path).release()
    }

    @Test("promise 1: each commit is synchronised, with foreign keys on")
    func pragmas() async throws {
        let harness = try await Harness()
        let values = try await harness.store.write(.setting) { db in
            try ["synchronous", "foreign_keys", "application_id"].map {
                try Int.fetchOne(db, sql: "PRAGMA \($0)") ?? -1
            }
        }
        #expect(values == [2, 1, Int(Schema.applicationID)])
        let mode = try await harness.store.read { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
        #expect(mode == "wal")
    }

    @Test(
        "a FIFO in place of a file of the store is a named error at once",
        arguments: ["readings.sqlite", "readings.sqlite-wal", "store.lock", "store.key"])
    func fifo(_ name: String) async throws {
        let directory = Harness.newDirectory()
        let harness = try await Harness(directory)
        try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")])
        try harness.store.close()
        unlink(directory + "/" + name)
        try #require(mkfifo(directory + "/" + name, 0o600) == 0)
        let error = await #expect(throws: StoreError.self) {
            let store = try await Harness.open(directory)
            try await store.requireKeys()
        }
        #expect(error?.description.contains(directory + "/" + name) == true, "\(String(describing: error))")
    }

    @Test("a full disk under an export or import is a named error, not a fault of the program")
    func foundationErrors() throws {
        let full = NSError(
            domain: NSCocoaErrorDomain, code: 640,
            userInfo: [NSUnderlyingErrorKey: NSError(domain: NSPOSIXErrorDomain, code: Int(ENOSPC))])
        #expect(StoreError.mapping(full) as? StoreError == .diskFull)
        let thrown = #expect(throws: (any Error).self) {
            try FileManager.default.createDirectory(atPath: "/proc/none", withIntermediateDirectories: false)
        }
        #expect(StoreError.mapping(try #require(thrown)) is StoreError)
        #expect(StoreError.mapping(CancellationError()) is CancellationError)
    }

    @Test("a file that is none of ours is left as it is")
    func foreign() async throws {
        for content in [Data("my diary, 1987".utf8), Data("SQLite format 3".utf8)] {
            let directory = Harness.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: directory) }
            let path = directory + "/readings.sqlite"
            try content.write(to: URL(fileURLWithPath: path))
            await #expect(throws: StoreError.foreign(path: path)) { try await Harness.open(directory) }
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content)
        }
        let directory = Harness.newDirectory()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = directory + "/readings.sqlite"
        do {
            let other = try DatabaseQueue(path: path)
            try await other.write { db in try db.execute(sql: "CREATE TABLE diary (day TEXT)") }
        }
        await #expect(throws: StoreError.foreign(path: path)) { try await Harness.open(directory) }
    }

    @Test("a damaged file is named and not overwritten")
    func corrupt() async throws {
        let directory = Harness.newDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        do {
            let store = try await Harness.open(directory)
            let contact = try await store.beginContact(
                with: Build.device(), at: Instant(seconds: 1_795_000_000), clock: nil, batteryPercent: nil)
            _ = try await store.append((0..<200).map { Build.glucose($0, "2026-11-21T08:00:00") }, of: contact)
            try store.close()
        }
        let path = directory + "/readings.sqlite"
        var octets = try Data(contentsOf: URL(fileURLWithPath: path))
        for index in 4096..<octets.count { octets[index] = 0x5A }
        try octets.write(to: URL(fileURLWithPath: path))
        do {
            _ = try await Harness.open(directory)
            Issue.record("a damaged store opened")
        } catch let error as StoreError {
            #expect(error.code == "store_corrupt")
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)).count == octets.count)
    }

    @Test("verification finds a reading that no longer is what its frame says")
    func verification() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact([
            Build.glucose(1, "2026-11-21T08:00:00"), Build.glucose(2, "2026-11-21T08:01:00", 96),
        ])
        #expect(try await harness.store.verify().isEmpty)
        let ids = try await harness.all().map(\.id)
        try await harness.store.write(.setting) { db in
            try db.execute(
                sql:
                    "UPDATE reading SET content = (SELECT content FROM reading AS o WHERE o.key <> reading.key LIMIT 1) WHERE id = ?",
                arguments: [ids[0].data])
            try db.execute(
                sql: "DELETE FROM reading_frame WHERE reading = (SELECT key FROM reading WHERE id = ?)",
                arguments: [ids[1].data])
            try db.execute(
                sql: "DELETE FROM outbox WHERE reading = (SELECT key FROM reading WHERE id = ?)",
                arguments: [ids[1].data])
        }
        let findings = try await harness.store.verify()
        #expect(Set(findings.map(\.problem)) == [.differs, .noFrame, .noReading, .notQueued])
    }

    @Test("promise 10: a full disk is named, nothing half of a transfer is kept, and it goes on when there is room")
    func fullDisk() async throws {
        let harness = try await Harness()
        let store = harness.store
        let contact = try await store.beginContact(
            with: Build.device(), at: Instant(seconds: 1_795_000_000), clock: nil, batteryPercent: nil)
        _ = try await store.append([Build.glucose(0, "2026-11-21T08:00:00")], of: contact)
        try await setPageLimit("(SELECT 1)", of: store, current: true)
        let frames = (1..<2000).map { Build.glucose($0, "2026-11-21T08:00:00", at: "2026-11-21T10:00:00Z") }
        await #expect(throws: StoreError.diskFull) { try await store.append(frames, of: contact) }
        #expect(try await harness.all().count == 1)
        try await setPageLimit("1000000", of: store, current: false)
        #expect(try await store.append(frames, of: contact).allSatisfy { $0.name == "new" })
        #expect(try await store.statistics().readings == [.glucose: 2000])
        #expect(try await store.verify().isEmpty)
    }

    @Test("a store that could not be written says so until something was written")
    func writingFault() async throws {
        let harness = try await Harness()
        let store = harness.store
        let contact = try await store.beginContact(
            with: Build.device(), at: Instant(seconds: 1_795_000_000), clock: nil, batteryPercent: nil)
        #expect(store.writingFault == nil)
        try await setPageLimit("(SELECT 1)", of: store, current: true)
        let frames = (0..<2000).map { Build.glucose($0, "2026-11-21T08:00:00", at: "2026-11-21T10:00:00Z") }
        await #expect(throws: StoreError.diskFull) { try await store.append(frames, of: contact) }
        #expect(store.writingFault == .diskFull)
        // What writes nothing proves nothing, and what fails for another reason is no fault of the files.
        try await store.write(.setting) { db in try db.execute(sql: "UPDATE setting SET value = value") }
        await #expect(throws: StoreError.unknownPosition) {
            try await store.write(.setting) { _ -> Void in throw StoreError.unknownPosition }
        }
        #expect(store.writingFault == .diskFull)
        try await setPageLimit("1000000", of: store, current: false)
        #expect(store.writingFault == .diskFull)
        try await store.tryWriting()
        #expect(store.writingFault == nil)
        await #expect(throws: StoreError.notPermitted(path: "store.key")) {
            try await store.write(.setting) { _ -> Void in throw StoreError.notPermitted(path: "store.key") }
        }
        #expect(store.writingFault == nil)
    }

    private func setPageLimit(_ limit: String, of store: ReadingStore, current: Bool) async throws {
        try await store.write(.setting) { db in
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            _ = try Int.fetchOne(db, sql: "PRAGMA max_page_count = \(current ? String(pages + 4) : limit)")
        }
    }

    @Test("a state directory that is a file, or may not be made, is named")
    func noDirectory() async throws {
        let file = NSTemporaryDirectory() + "file-" + UUID().uuidString
        _ = FileManager.default.createFile(atPath: file, contents: Data())
        defer { try? FileManager.default.removeItem(atPath: file) }
        await #expect(throws: StoreError.cannotCreate(path: file, reason: "it is not a directory")) {
            try await Harness.open(file)
        }
    }
}
