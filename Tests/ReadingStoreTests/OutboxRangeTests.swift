import GRDB
import HealthReadings
import TestSupport
import Testing

@testable import ReadingStore

@Suite("The outbox within a range of time")
struct OutboxRangeTests {
    @Test("batches and groups hold what lies in the range, both ends included")
    func range() async throws {
        let harness = try await Harness()
        try await harness.contact((0..<5).map { Build.glucose(UInt16($0), "2026-11-20T12:3\($0):00", ordinal: $0) })
        let user = try await harness.store.currentUser().key
        func count(_ from: String, _ to: String) async throws -> [Int] {
            let range = Build.instant(from)...Build.instant(to)
            let batch = try await harness.store.outboxBatch(
                user: user, resource: .glucose, provider: "accuchek_ble", in: range, limit: 10)
            let groups = try await harness.store.groupsWaiting(in: range)
            #expect(groups.reduce(0) { $0 + $1.count } == batch.count)
            return batch.compactMap { $0.reading.record.sequence.map(Int.init) }
        }
        #expect(try await count("2026-11-20T11:31:00Z", "2026-11-20T11:33:00Z") == [1, 2, 3])
        #expect(try await count("2026-11-20T11:31:00.5Z", "2026-11-20T11:33:59.9Z") == [2, 3])
        #expect(try await count("2026-11-20T11:31:00Z", "2026-11-20T11:31:00Z") == [1])
        #expect(try await count("2026-11-20T11:31:01Z", "2026-11-20T11:31:59Z").isEmpty)
    }

    @Test("groups are what an aggregate over the outbox makes of it", arguments: 1...8)
    func groups(_ seed: UInt64) async throws {
        struct Group: Hashable { var user: Int64, resource: Int64, provider: String, count: Int, oldest: Int64 }

        let harness = try await Harness(encryption: .off())
        try await harness.contact(
            (0..<60).map { Build.glucose(UInt16($0), "2026-11-20T12:\($0 < 10 ? "0" : "")\($0):00", ordinal: $0) })
        var generator = SeededGenerator(seed: seed)
        let people = Int64.random(in: 1...3, using: &generator)
        let rows = (0..<60).map { _ in
            (
                user: Int64.random(in: 1...people, using: &generator),
                kind: ["glucose", "weight"].randomElement(using: &generator),
                provider: ["a", "ä", "b", "", "a b"].randomElement(using: &generator),
                state: Int.random(in: 0...2, using: &generator) == 0 ? 1 : 0
            )
        }
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in
            for (place, row) in rows.enumerated() {
                let kind = try #require(row.kind.flatMap { ReadingKind(rawValue: $0) })
                try db.execute(
                    sql: "UPDATE outbox SET user = ?, resource = ?, provider = ?, state = ? WHERE reading = ?",
                    arguments: [row.user, kind.code, row.provider, row.state, place + 1])
            }
        }
        let store = try await Harness.open(harness.directory, encryption: .off())
        let first = Build.instant("2026-11-20T11:00:00Z").seconds
        for _ in 0..<20 {
            let (from, length) = (
                Int64.random(in: 0...60, using: &generator), Int64.random(in: 0...60, using: &generator)
            )
            let range = (first + from * 60)...(first + (from + length) * 60)
            let found = try await store.groupsWaiting(
                in: Instant(seconds: range.lowerBound)...Instant(seconds: range.upperBound))
            let wanted = try await store.read { db in
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT user, resource, provider, count(*), min(timestamp) FROM outbox
                        WHERE destination = 1 AND state = 0 AND timestamp BETWEEN ? AND ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
                        """, arguments: [range.lowerBound, range.upperBound]
                ).map { Group(user: $0[0], resource: $0[1], provider: $0[2], count: $0[3], oldest: $0[4]) }
            }
            #expect(
                found.map {
                    Group(
                        user: $0.user.rawValue, resource: $0.resource.code, provider: $0.provider, count: $0.count,
                        oldest: $0.oldest.seconds)
                } == wanted)
        }
        try store.close()
    }
}
