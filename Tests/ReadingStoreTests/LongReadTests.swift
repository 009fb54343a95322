import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Reads that take long", .timeLimit(.minutes(5))) struct LongReadTests {
    /// Counts to a number that no machine reaches while a test runs.
    private static let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000000) SELECT max(i) FROM n"

    @Test("however many expensive reads run, the watchdog's is answered")
    func watchdog() async throws {
        let harness = try await Harness()
        let store = harness.store
        let ended = Mutex(0)
        let read: @Sendable () async -> Void = {
            _ = try? await store.read(within: .seconds(200)) { try Int.fetchOne($0, sql: Self.endless) }
            ended.withLock { $0 += 1 }
        }
        let reads = (0..<4).map { _ in Task(operation: read) }
        try await Task.sleep(for: .milliseconds(500))
        _ = try await store.newestContact()
        // Without a connection of its own it would have waited for one of the reads.
        #expect(ended.withLock(\.self) == 0)
        for read in reads { read.cancel() }
        for read in reads { _ = await read.result }
        // The connections are whole afterwards.
        #expect(try await store.query(ReadingQuery()).readings.isEmpty)
        try harness.store.close()
    }

    @Test("a read that waits for its turn longer than it may take is answered: the wait does not count")
    func turn() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    await #expect(throws: StoreError.tookTooLong) {
                        _ = try await store.read(within: .seconds(4)) { try Int.fetchOne($0, sql: Self.endless) }
                    }
                }
            }
            try await Task.sleep(for: .milliseconds(500))
            #expect(try await store.read(within: .seconds(2)) { try Int.fetchOne($0, sql: "SELECT 7") } == 7)
            try await group.waitForAll()
        }
        try harness.store.close()
    }

    @Test("an expensive read that is cancelled lets the next one in")
    func cancelled() async throws {
        let harness = try await Harness()
        let store = harness.store
        let reads = (0..<6).map { _ in Task { try await store.read { try Int.fetchOne($0, sql: Self.endless) } } }
        try await Task.sleep(for: .milliseconds(300))
        for read in reads { read.cancel() }
        for read in reads { _ = await read.result }
        #expect(try await store.query(ReadingQuery()).readings.isEmpty)
        try harness.store.close()
    }

    @Test("a cancelled read stops where it runs a short statement again and again, and the connection serves the next")
    func cancelledBetween() async throws {
        let harness = try await Harness()
        let store = harness.store
        let read = Task {
            try await store.read { db in
                let short = try PreparedStatement(db, "SELECT count(*) FROM sqlite_schema")
                var sum: Int64 = 0
                for _ in 0..<100_000_000 { sum += try short.firstInt() ?? 0 }
                return sum
            }
        }
        try await Task.sleep(for: .milliseconds(300))
        read.cancel()
        await #expect(throws: CancellationError.self) { _ = try await read.value }
        #expect(try await store.query(ReadingQuery()).readings.isEmpty)
        try store.close()
    }

    @Test("closing needs no thread of the tasks: it ends while all of them wait, and so on one processor")
    func closeWithoutTasks() async throws {
        let harness = try await Harness()
        let store = harness.store
        let (inRead, mayEnd) = (Turn(), Turn())
        let read = Task {
            try await store.read { db in
                inRead.pass()
                mayEnd.wait()
                return try Int.fetchOne(db, sql: "SELECT 7")
            }
        }
        let threads = ProcessInfo.processInfo.activeProcessorCount
        let (held, mayGo) = (Turn(), Turn())
        let isClosed: Bool = await withCheckedContinuation { continuation in
            Thread {
                inRead.wait()
                for _ in 0..<threads {
                    Task {
                        held.pass()
                        mayGo.wait()
                    }
                }
                for _ in 0..<threads { held.wait() }
                let closed = Turn()
                Thread {
                    try? store.close()
                    closed.pass()
                }.start()
                mayEnd.pass()
                let isClosed = closed.wait(for: 10)
                for _ in 0..<threads { mayGo.pass() }
                continuation.resume(returning: isClosed)
            }.start()
        }
        #expect(isClosed)
        #expect(try await read.value == 7)
    }
}

/// Blocks a thread until it is its turn.
private final class Turn: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func pass() { semaphore.signal() }
    func wait() { semaphore.wait() }
    func wait(for seconds: Int) -> Bool { semaphore.wait(timeout: .now() + .seconds(seconds)) == .success }
}
