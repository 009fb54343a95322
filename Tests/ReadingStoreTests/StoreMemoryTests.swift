import Dispatch
import GRDB
import GRDBSQLite
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Memory of the store's connections")
struct StoreMemoryTests {
    /// Octets of pages that the connection which writes keeps.
    private static func writersPages(_ store: ReadingStore) async throws -> Int32 {
        try await store.pool.writeWithoutTransaction { db in
            var (now, most): (Int32, Int32) = (0, 0)
            sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_CACHE_USED, &now, &most, 0)
            return now
        }
    }

    @Test("pages that were read and written are given up when they are asked for, and what follows is the same")
    func givenUp() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let page = try await harness.store.query(ReadingQuery())
        let before = try await Self.writersPages(harness.store)
        harness.store.releaseMemory()
        let after = try await Self.writersPages(harness.store)
        #expect(after < before / 2, "\(before) octets, then \(after)")
        #expect(try await harness.store.query(ReadingQuery()) == page)
        for (device, frames) in SealingTests.groups { try await harness.contact(frames, device: device) }
        #expect(try await harness.store.query(ReadingQuery()).readings.count == page.readings.count)
        #expect(try await harness.store.verify().isEmpty)
    }

    /// A gateway stops its services one by one: one that waited for the files to be written anew would keep that from being stopped.
    @Test("nobody waits for a write that takes long")
    func notAwaited() async throws {
        let harness = try await Harness()
        let mayEnd = DispatchSemaphore(value: 0)
        harness.store.pool.asyncWriteWithoutTransaction { _ in mayEnd.wait() }
        let order = Mutex<[String]>([])
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            harness.store.releaseMemory {
                order.withLock { $0.append("released") }
                continuation.resume()
            }
            order.withLock { $0.append("went on") }
            mayEnd.signal()
        }
        let seen = order.withLock(\.self)
        #expect(seen == ["went on", "released"])
    }

    @Test("a store that was closed has nothing to give up")
    func closed() async throws {
        let harness = try await Harness()
        try harness.store.close()
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            harness.store.releaseMemory { continuation.resume() }
        }
    }
}
