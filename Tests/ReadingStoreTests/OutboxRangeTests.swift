import HealthReadings
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
}
