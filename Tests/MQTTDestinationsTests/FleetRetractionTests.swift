import DeliveryFixture
import FleetDocuments
import HealthReadings
import ReadingStore
import Synchronization
import TestBroker
import TestSupport
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite(
    "What a fleet is to take back", .timeLimit(.minutes(3)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)")
)
struct FleetRetractionTests {
    /// A centre that holds the first receipt of a retraction back.
    private static func lateCentre(_ port: UInt16) async throws -> TestCentre {
        let isFirst = Mutex(true)
        return try await TestCentre(port) { batch in
            guard !batch.retracted.isEmpty else { return TestCentre.storesAll(batch) }
            let isHeldBack = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            return isHeldBack ? nil : TestCentre.storesAll(batch)
        }
    }

    @Test(
        "a receipt that comes late takes back no other reading, and not the same one again", arguments: [true, false])
    func lateReceipt(isOther: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await Self.lateCentre(broker.port)
            try await fixture.read(3)
            let pace = FleetPace(silence: .milliseconds(200), patience: .milliseconds(300))
            let worker = fixture.worker(try fixture.fleet(broker.port, pace: pace))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("delivered") == 3 }
            let key = try await fixture.fleetKey()
            func exclude(_ number: Int, isAgain: Bool = false) async throws {
                // The meter sends another frame the second time: one that is known changes nothing.
                try await fixture.read(1, from: number, isFailed: true, isCorrected: isAgain)
                worker.wake()
                try await until {
                    worker.wake()
                    return try await fixture.store.retractionCount(at: key) == 0
                }
            }
            // The first batch has no receipt in time, and the second one is answered.
            try await exclude(1)
            let late = try #require(centre.batches.first { !$0.retracted.isEmpty })
            #expect(centre.batches.count { !$0.retracted.isEmpty } >= 2 && centre.stored.count == 2)
            // What comes behind the late receipt shows that it was taken.
            try await centre.send(try #require(TestCentre.storesAll(late)))
            try await fixture.read(1, from: 10)
            if !isOther { try await fixture.read(1, isCorrected: true) }
            worker.wake()
            try await until { try await fixture.count("delivered") == (isOther ? 3 : 4) }
            // The store gives the retraction the number of the first one.
            try await exclude(isOther ? 2 : 1, isAgain: !isOther)
            try await until { centre.stored.count == (isOther ? 2 : 3) }
            running.cancel()
            try await running.value
        }
    }
}
