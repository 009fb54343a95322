import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// The rows of a long page are opened by several threads.
@Suite("Long pages")
struct LongPageTests {
    private static let count = 1200

    private static func filled() async throws -> Harness {
        let harness = try await Harness()
        try await harness.contact(
            (0..<count).map { Build.glucose(UInt16($0), "2026-11-21T08:00:00", UInt16(60 + $0 % 400)) })
        return harness
    }

    @Test("a page of everything has what short pages have, one after the other")
    func same() async throws {
        let harness = try await Self.filled()
        let page = try await harness.store.query(ReadingQuery(limit: 10_000))
        #expect(page.readings.count == Self.count && !page.more)
        var (short, cursor): ([Reading], String?) = ([], nil)
        repeat {
            let next = try await harness.store.query(ReadingQuery(limit: 100, cursor: cursor))
            short += next.readings
            cursor = next.more ? next.cursor : nil
        } while cursor != nil
        #expect(short == page.readings)
        // The first length that is opened by two threads, and the ones beside it.
        for limit in [511, 512, 513, 767, 768, 1199] {
            let part = try await harness.store.query(ReadingQuery(limit: limit))
            #expect(part.more && part.readings == Array(page.readings.prefix(limit)), "\(limit)")
        }
    }

    @Test(
        "a damaged row stops a long page as it stops a short one; of several, the first in order is named",
        arguments: [1, 2, 9])
    func damaged(step: Int) async throws {
        let harness = try await Self.filled()
        let keys = try await harness.store.read { db in
            try Int64.fetchAll(db, sql: "SELECT key FROM reading ORDER BY time DESC, id DESC")
        }
        let damaged = stride(from: Self.count / 2, to: Self.count, by: Self.count / step).map { keys[$0] }
        try await harness.store.write(.setting) { db in
            for key in damaged {
                try db.execute(sql: "UPDATE reading SET received_at = received_at + 1 WHERE key = ?", arguments: [key])
            }
        }
        let expected = StoreError.corrupt(detail: "the seal of reading \(damaged[0]) does not hold")
        await #expect(throws: expected) { try await harness.store.query(ReadingQuery(limit: 10_000)) }
        await #expect(throws: expected) {
            try await harness.store.query(ReadingQuery(limit: 100, offset: Self.count / 2 - 50))
        }
        let before = try await harness.store.query(ReadingQuery(limit: Self.count / 2 - 1)).readings
        #expect(before.count == Self.count / 2 - 1)
    }

    @Test("a statement that ends because its task was cancelled is told as that")
    func interrupted() async {
        let interruption = DatabaseError(resultCode: .SQLITE_INTERRUPT)
        #expect(StoreError.mapping(interruption) is StoreError)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return StoreError.mapping(interruption) is CancellationError
        }
        task.cancel()
        #expect(await task.value)
    }

    @Test("a long page that is cancelled at any moment ends, and the next one is whole")
    func cancelled() async throws {
        let harness = try await Self.filled()
        let store = harness.store
        let whole = try await harness.all()
        var stopped = 0
        for wait in 0..<40 {
            let reading = Task { try await store.query(ReadingQuery(limit: 10_000)).readings }
            try await Task.sleep(for: .microseconds(wait * 500))
            reading.cancel()
            do {
                #expect(try await reading.value == whole)
            } catch {
                #expect(error is CancellationError, "\(error)")
                stopped += 1
            }
        }
        #expect(stopped > 0)
        #expect(try await harness.all() == whole)
        #expect(try await store.verify().isEmpty)
    }
}
