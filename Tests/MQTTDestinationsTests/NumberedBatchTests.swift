import DeliveryFixture
import FleetDocuments
import HealthReadings
import ReadingStore
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite("Numbered batches in the store")
struct NumberedBatchTests {
    private func items(_ fixture: Fixture, at key: DestinationKey) async throws -> [OutboxItem] {
        let person = try await fixture.person
        return try await fixture.store.outboxBatch(
            user: person.key, resource: .glucose, provider: "accuchek_ble", limit: 100, at: key)
    }

    private func prepared(_ fixture: Fixture) async throws -> DestinationKey {
        let key = try await fixture.store.setDestination("fleet", kind: "fleet", FleetDestination.rules)
        try await fixture.read(2)
        return key
    }

    @Test("numbers grow, also when the clock does not")
    func numbers() async throws {
        try await Fixture.with { fixture in
            let key = try await prepared(fixture)
            #expect(try await fixture.store.beginBatch([], at: key) { max(700, $0 + 1) } == 700)
            #expect(try await fixture.store.beginBatch([], at: key) { max(700, $0 + 1) } == 701)
            #expect(try await fixture.store.beginBatch([], at: key) { _ in 5 } == 702)
        }
    }

    @Test("behind a number that no document can say, no batch begins", arguments: [Int64.max, 9_007_199_254_740_991])
    func usedUp(number: Int64) async throws {
        try await Fixture.with { fixture in
            let key = try await prepared(fixture)
            #expect(try await fixture.store.beginBatch([], at: key) { _ in number } == number)
            await #expect(throws: StoreError.self) { try await fixture.store.beginBatch([], at: key) { _ in 1 } }
        }
    }

    @Test("a confirmation counts for each batch that had the same content, and for no other")
    func confirmations() async throws {
        try await Fixture.with { fixture in
            let (key, store) = (try await prepared(fixture), fixture.store)
            let waiting = try await items(fixture, at: key)
            let (ids, readings) = (waiting.map(\.id), waiting.map(\.reading.id))
            let first = try await store.beginBatch(ids, at: key) { _ in 10 }
            try await store.handOver(ids, at: Instant(seconds: 1))
            #expect(try await store.unconfirmedBatches(at: key, limit: 10) == [10])
            let second = try await store.beginBatch(Array(ids.prefix(1)), at: key) { _ in 20 }
            #expect(try await store.unconfirmedBatches(at: key, limit: 10) == [10, 20])
            func known(_ number: Int64) async throws -> Set<OutboxID> {
                Set(try await store.outboxIDs(of: readings, inBatch: number, at: key).values)
            }
            #expect(try await known(first) == Set(ids))
            #expect(try await known(second) == Set(ids.prefix(1)))
            #expect(try await known(9).isEmpty)
            #expect(try await known(21).isEmpty)
            #expect(Set(try await store.outboxIDs(throughBatch: 10, at: key)) == Set(ids))
            #expect(try await store.outboxIDs(throughBatch: 9, at: key).isEmpty)
            try await store.acknowledge(ids, at: Instant(seconds: 2))
            #expect(try await store.unconfirmedBatches(at: key, limit: 10).isEmpty)
            try await store.forgetConfirmedBatches(at: key)
            #expect(try await known(first).isEmpty)
        }
    }

    @Test("a confirmation of an older revision leaves the newer one waiting")
    func revision() async throws {
        try await Fixture.with { fixture in
            let (key, store) = (try await prepared(fixture), fixture.store)
            let waiting = try await items(fixture, at: key)
            let (ids, readings) = (waiting.map(\.id), waiting.map(\.reading.id))
            _ = try await store.beginBatch(ids, at: key) { _ in 10 }
            try await store.acknowledge(ids, at: Instant(seconds: 2))
            _ = try await store.redeliver(to: "fleet")
            let again = try await items(fixture, at: key)
            #expect(again.map(\.reading.id) == readings && again.map(\.id) != ids)
            #expect(try await store.outboxIDs(of: readings, inBatch: 10, at: key).isEmpty)
            _ = try await store.beginBatch(again.map(\.id), at: key) { _ in 30 }
            #expect(try await store.outboxIDs(of: readings, inBatch: 10, at: key).isEmpty)
            #expect(
                Set(try await store.outboxIDs(of: readings, inBatch: 30, at: key).values) == Set(again.map(\.id)))
        }
    }
}
