import DeliveryFixture
import HealthReadings
import ReadingStore
import Synchronization
import Testing

@testable import ReadingDelivery

@Suite("How long receipts are waited for")
struct ReceiptTimeTests {
    /// A place that takes everything and confirms nothing.
    private final class Silent: Destination {
        let name = "silent"
        let kind = "silent"
        let rules = DestinationRules(
            kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false, canRetract: true)
        private let sent = Mutex<[OutboxID]>([])
        private let posts = Mutex(0)

        var count: Int { posts.withLock(\.self) }
        var ids: [OutboxID] { sent.withLock(\.self) }

        func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
            posts.withLock { $0 += 1 }
            sent.withLock { $0 = part.items.map(\.id) }
            return part.items.map { Outcome($0.id, .handedOver) }
        }
    }

    @Test("the time doubles up to its limit while receipts lag, and is short again once none is missing")
    func doubling() async throws {
        try await Fixture.with { fixture in
            let (silent, clock) = (Silent(), ManualClock())
            var options = OutboxWorker.Options()
            options.receiptTimeout = .seconds(600)
            options.longestReceiptTimeout = .seconds(3600)
            let worker = OutboxWorker(
                store: fixture.store, destination: silent, options: options, clock: clock.syncClock,
                logger: Fixture.quiet)
            try await fixture.read(2)
            _ = await worker.syncOnce()
            #expect(silent.count == 1)
            for (turn, seconds) in [600, 1200, 2400, 3600, 3600].enumerated() {
                clock.advance(by: .seconds(seconds - 1))
                _ = await worker.syncOnce()
                #expect(silent.count == turn + 1, "after \(seconds - 1) s")
                clock.advance(by: .seconds(1))
                _ = await worker.syncOnce()
                #expect(silent.count == turn + 2, "after \(seconds) s")
            }
            try await worker.take(Acknowledgement(silent.ids))
            _ = await worker.syncOnce()
            try await fixture.read(1, from: 50)
            _ = await worker.syncOnce()
            #expect(silent.count == 7)
            clock.advance(by: .seconds(600))
            _ = await worker.syncOnce()
            #expect(silent.count == 8)
        }
    }
}
