import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Room on the disk")
struct DiskSpaceTests {
    private static let passphrase = "correct horse battery staple"

    /// Does something on a disk with so many bytes free.
    private func withFree<Value>(_ free: Int64, _ body: () async throws -> Value) async rethrows -> Value {
        try await DiskSpace.$measure.withValue({ _ in DiskSpace(used: 1 << 40, free: free) }, operation: body)
    }

    private func isRefused(_ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return false
        } catch {
            guard case StoreError.tooLittleSpace(_, let needed, let free)? = error as? StoreError else { return false }
            return needed > free
        }
    }

    private func filled() async throws -> Harness {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        return harness
    }

    @Test("a disk is nearly full from 90 % on, and full below 64 MiB")
    func levels() {
        let gigabyte: Int64 = 1 << 30
        #expect(DiskSpace(used: 89 * gigabyte, free: 11 * gigabyte).level == .roomy)
        #expect(DiskSpace(used: 90 * gigabyte, free: 10 * gigabyte).level == .nearlyFull)
        #expect(DiskSpace(used: 90 * gigabyte, free: 64 << 20).level == .nearlyFull)
        #expect(DiskSpace(used: 0, free: (64 << 20) - 1).level == .full)
        #expect(DiskSpace(used: 0, free: 0).percentUsed == 0)
        #expect(DiskSpace(at: "/").map { $0.used + $0.free > 0 } == true)
        #expect(DiskSpace(at: "/no/such/place") == nil)
    }

    @Test("two places on one file system need twice the room")
    func twoPlaces() {
        DiskSpace.$measure.withValue({ DiskSpace(used: 0, free: 15, fileSystem: $0 == "/c" ? 2 : 1) }) {
            #expect(throws: StoreError.tooLittleSpace(path: "/a", needed: 20, free: 15)) {
                try DiskSpace.require(10, at: "/a", and: "/b")
            }
            #expect(throws: Never.self) { try DiskSpace.require(10, at: "/a", and: "/c") }
        }
    }

    @Test("an export and a change of keys are refused before they begin, with what they need and what is there")
    func refused() async throws {
        let harness = try await filled()
        let used = try await harness.store.usedBytes()
        let key = try String(contentsOfFile: harness.directory + "/store.key", encoding: .utf8)
        await withFree(used - 1) {
            #expect(
                await isRefused {
                    try await harness.store.export(passphrase: Self.passphrase) { _ in Issue.record("written") }
                })
        }
        await withFree(2 * used - 1) {
            #expect(await isRefused { try await harness.store.rotateKey() })
        }
        #expect(try String(contentsOfFile: harness.directory + "/store.key", encoding: .utf8) == key)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: harness.directory).allSatisfy { !$0.contains("export") }
        )
        try await withFree(2 * used + 65_536) { _ = try await harness.store.rotateKey() }
        #expect(try String(contentsOfFile: harness.directory + "/store.key", encoding: .utf8) != key)
    }

    @Test("an import without room leaves nothing behind")
    func imports() async throws {
        let harness = try await filled()
        let path = harness.directory + "/backup"
        var octets: [UInt8] = []
        try await harness.store.export(passphrase: Self.passphrase) { octets += $0 }
        try Data(octets).write(to: URL(fileURLWithPath: path))
        let directory = Harness.newDirectory()
        await withFree(Int64(3 * octets.count - 1)) {
            #expect(
                await isRefused {
                    try await ReadingStore.importing(
                        path, passphrase: Self.passphrase, into: directory, decoder: TestDecoder())
                })
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["store.lock"])
    }

    @Test("where the files cannot be written anew, readings are pruned all the same, and the files follow")
    func pruning() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact(PruneTests.frames)
        try await PruneTests.deliver(harness.store)
        let payload = PruneTests.frames[1].payload
        await withFree(100) { #expect(await isRefused { try await harness.store.prune(olderThan: .zero) }) }
        #expect(try await harness.all().isEmpty)
        // Opening says so in the log and goes on; with room again, pruning does what is left.
        try harness.store.close()
        let again = try await withFree(100) { try await Harness(harness.directory, encryption: .off()) }
        func isUnfinished() async throws -> Bool {
            try await again.store.read { db in try !ReadingStore.lines(db, "erase.unfinished").isEmpty }
        }
        #expect(try await isUnfinished())
        #expect(try await again.store.prune(olderThan: .zero).readings == 0)
        #expect(try await isUnfinished() == false)
        #expect(try !ErasureTests.contains(payload, in: harness.directory))
    }

    @Test("a store of an earlier version that would be written anew stays as it is without room")
    func migration() async throws {
        func isOpened(_ version: String, free: Int64) async throws -> Bool {
            let directory = Harness.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            let queue = try DatabaseQueue(path: directory + "/readings.sqlite")
            try await queue.write { db in try db.execute(sql: "PRAGMA application_id = \(Schema.applicationID)") }
            try Schema.migrator.migrate(queue, upTo: version)
            try queue.close()
            let wasRefused = await withFree(free) {
                await isRefused {
                    let store = try await ReadingStore.open(directory: directory, decoder: TestDecoder())
                    try store.close()
                }
            }
            return !wasRefused
        }
        #expect(try await isOpened("5 pruned readings", free: 1000) == false)
        #expect(try await isOpened("5 pruned readings", free: 1 << 30))
        #expect(try await isOpened("23 scans of imported sensors, frames let go", free: 1000) == false)
        // One that no migration writes anew does not need room for another.
        let last = try #require(Schema.migrator.migrations.last)
        #expect(try await isOpened(last, free: 1000))
    }
}
