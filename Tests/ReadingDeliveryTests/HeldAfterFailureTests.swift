import DeliveryFixture
import HealthReadings
import ReadingStore
import Testing

@testable import ReadingDelivery

@Suite("What is held after a failure")
struct HeldAfterFailureTests {
    /// A place that nobody reaches.
    private struct Away: Destination {
        let name = "away"
        let kind = "away"
        let rules = DestinationRules(
            kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false, canRetract: true)
        let scope: DeliveryFailure.Scope

        func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
            throw DeliveryFailure(scope, code: "no_connection", message: "nobody answers")
        }
    }

    @Test(
        "a destination that failed and is then disabled is looked at every five minutes, not without a pause",
        arguments: [DeliveryFailure.Scope.destination, .target])
    func disabled(scope: DeliveryFailure.Scope) async throws {
        try await Fixture.with { fixture in
            let clock = ManualClock()
            try await fixture.read(3)
            let worker = fixture.worker(Away(scope: scope), clock: clock.syncClock)
            let running = Task { try await worker.run() }
            while await worker.status.failure == nil { try await Task.sleep(for: .milliseconds(5)) }
            try await clock.waitForSleeper()
            try await fixture.store.setDestinationEnabled(false, "away")
            let before = clock.slept.count
            clock.advance(by: .seconds(2))
            try await clock.waitForSleeps(before + 1)
            try await clock.waitForSleeper()
            #expect(clock.slept.dropFirst(before) == [.seconds(300)])
            running.cancel()
            try await running.value
        }
    }
}
