import DeliveryFixture
import HealthReadings
import ReadingStore
import ScriptedServer
import Testing

@testable import ReadingDelivery
@testable import VitalDestination

/// A reading leaves delivery only on evidence that the server works.
@Suite("Outbox worker: evidence for a refusal")
struct RefusalEvidenceTests {
    static let placeless: [String] = [
        #"{"detail":"x"}"#, #"{"detail":[]}"#, #"{"detail":[{"loc":["body"],"msg":"no"}]}"#,
        #"{"detail":[{"loc":["body","data"],"msg":"no"}]}"#,
    ]

    @Test(
        "an outage that answers 400 or 422 for days takes no reading out of delivery, one reading a day or more",
        arguments: [400, 422], placeless)
    func outage(status: Int, body: String) async throws {
        let script = VitalScript()
        script.change { $0.judge = { _ in .json(status, body) } }
        try await with(script) { worker, fixture in
            for (day, count) in [1, 3, 2].enumerated() {
                try await fixture.read(count, from: 1 + 10 * day)
                let report = await worker.syncOnce()
                #expect(report.refused == 0 && report.failure?.code == "server_refuses_all")
                #expect(report.failure?.isRetryable == true)
            }
            #expect(try await fixture.store.refused().isEmpty)
            let groups = try await fixture.store.groupsWaiting()
            #expect(groups.map(\.count) == [6] && groups.map(\.held) == [.sourceError])
            #expect(groups.map(\.isRefusedWhole) == [true])
            #expect(await worker.status.nextAttempt != nil)
            script.change { $0.judge = nil }
            #expect(await worker.syncOnce() == SyncReport(delivered: 6))
            #expect(script.now.taken.count == 6 && Set(script.now.taken).count == 6)
            #expect(try await fixture.store.groupsWaiting().isEmpty)
            try await fixture.read(1, from: 90)
            #expect(try await fixture.store.groupsWaiting().map(\.isRefusedWhole) == [false])
        }
    }

    @Test("one bad reading waits visibly, without a loop, and is set aside once the server accepts another")
    func lonely() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.judge = Self.refusesHigh }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(1, value: { _ in 666 })
            for failures in 1...12 {
                #expect(await worker.syncOnce().failure?.code == "server_refuses_all")
                #expect(script.now.posts.count == failures)
            }
            // Half of the longest step is random; here all of it is waited.
            let wait = try #require(await worker.status.nextAttempt).microseconds - clock.syncClock.now().microseconds
            #expect(wait == 900_000_000)
            try await fixture.read(1, from: 10)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1, refused: 1))
            #expect(try await fixture.store.refused().map(\.serverSaid) == ["x"])
            // Nor is it offered again by itself.
            try await fixture.read(1, from: 20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
        }
    }

    @Test("a reading whose place the server names is set aside though nothing else is accepted")
    func named() async throws {
        let script = VitalScript()
        script.change { $0.judge = { _ in .json(422, WorkerRefusalTests.tooHigh) } }
        try await with(script) { worker, fixture in
            try await fixture.read(2)
            #expect(await worker.syncOnce() == SyncReport(refused: 2))
        }
    }

    @Test("a bad reading that fills a batch, and five of them, keep nothing behind them waiting")
    func behind() async throws {
        for (bad, limit) in [(1, 1), (4, 1), (4, 3), (5, 1), (5, 5), (7, 50), (9, 20)] {
            let script = VitalScript()
            script.change { $0.judge = Self.refusesHigh }
            try await with(script, { $0.batchLimit = limit }) { worker, fixture in
                try await fixture.read(bad + 11, value: { $0 <= bad ? 666 : 90 })
                #expect(await worker.syncOnce() == SyncReport(delivered: 11, refused: bad), "\(bad) \(limit)")
                #expect(script.now.taken.count == 11 && Set(script.now.taken).count == 11)
            }
        }
    }

    @Test("what an earlier version set aside without evidence is offered once more when the server accepts a reading")
    func earlier() async throws {
        let script = VitalScript()
        script.change { $0.judge = Self.refusesHigh }
        try await with(script) { worker, fixture in
            try await fixture.read(3, value: { $0 == 2 ? 666 : 90 })
            let group = try #require(try await fixture.store.groupsWaiting().first)
            let items = try await fixture.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10)
            for item in items { try await fixture.store.reject(item.id, serverSaid: "x") }
            #expect(await worker.syncOnce() == SyncReport())
            try await fixture.read(1, from: 10)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3, refused: 1))
            #expect(try await fixture.store.refused().count == 1)
            let posts = script.now.posts.count
            try await fixture.read(1, from: 20)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            #expect(script.now.posts.count == posts + 1)
        }
    }

    @Test("the state survives a restart, and another kind of the same provider goes on")
    func restart() async throws {
        let script = VitalScript()
        script.change { state in
            state.judge = { $0.contains("systolic") ? nil : .json(400, #"{"detail":"x"}"#) }
        }
        try await with(script) { worker, fixture in
            try await fixture.read(1)
            try await fixture.read(2, kind: .bloodPressure, device: 2, provider: "omron_ble")
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.failure?.code == "server_refuses_all")
            #expect(try await fixture.store.groupsWaiting().map(\.isRefusedWhole) == [true])
            let next = OutboxWorker(store: fixture.store, destination: worker.destination)
            script.change { $0.judge = nil }
            #expect(await next.syncOnce() == SyncReport(delivered: 1))
        }
    }

    @Test("a provider listed twice counts as the worse of its entries")
    func twice() async throws {
        let (good, bad) = (
            #"{"slug":"accuchek_ble","status":"connected"}"#, #"{"slug":"accuchek_ble","status":"error"}"#
        )
        for list in ["\(good),\(bad)", "\(bad),\(good)", #"{"slug":"accuchek_ble"}"#] {
            let script = VitalScript()
            script.change { $0.nextList = [.json(200, #"{"providers":[\#(list)]}"#)] }
            try await with(script) { worker, fixture in
                try await fixture.read(1)
                #expect(await worker.syncOnce().held.map(\.hold) == [.sourceError])
                #expect(script.now.posts.isEmpty)
            }
        }
    }

    private static let refusesHigh: @Sendable (String) -> ScriptedAnswer? = { text in
        text.contains(#""measured_value":"666""#) ? .json(400, #"{"detail":"x"}"#) : nil
    }
}
