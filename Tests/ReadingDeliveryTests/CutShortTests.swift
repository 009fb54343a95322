import DeliveryFixture
import HealthReadings
import ReadingStore
import Synchronization
import Testing

@testable import ReadingDelivery

@Suite("A pass that is stopped between two parts")
struct CutShortTests {
    /// A place that takes each reading by itself, and notes in which order it is told what.
    private final class Steps: Destination {
        let name = "steps"
        let kind = "steps"
        let rules = DestinationRules(
            kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false, canRetract: true)
        /// Whether a part has many readings, of which one is taken at a time.
        let hasLargeParts: Bool
        private let taking: @Sendable (_ number: Int) async throws -> Void
        private let told = Mutex<[String]>([])

        var steps: [String] { told.withLock(\.self) }

        init(hasLargeParts: Bool = false, _ taking: @escaping @Sendable (Int) async throws -> Void) {
            (self.hasLargeParts, self.taking) = (hasLargeParts, taking)
        }

        func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
            batch.parts(of: hasLargeParts ? 100 : 1)
        }

        func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
            let number = told.withLock { told in
                told.append("send")
                return told.count { $0 == "send" }
            }
            do { try await taking(number) } catch { throw DeliveryFailure(error) }
            return part.items.prefix(1).map { Outcome($0.id, .delivered) }
        }

        func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
            told.withLock { $0.append("retract \(items.count)") }
            return Dictionary(uniqueKeysWithValues: items.map { ($0.key, .delivered) })
        }
    }

    @Test(
        "consent that is withdrawn while a batch is on its way counts for what is left of it", arguments: [false, true])
    func consent(hasLargeParts: Bool) async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            let person = try await fixture.person.key
            let worker = fixture.worker(
                Steps(hasLargeParts: hasLargeParts) { number in
                    if number == 2 { try await fixture.store.setConsent(.glucose, granted: false, of: person) }
                }, clock: .system, batchLimit: 100)
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.failure == nil)
            #expect(await worker.syncOnce().held.map(\.hold) == [.noConsent])
            try await fixture.store.setConsent(.glucose, granted: true, of: person)
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
        }
    }

    /// A place that refuses what it is sent, and says how often it was sent something.
    private final class Refusing: Destination {
        let name = "refusing"
        let kind = "refusing"
        let rules = DestinationRules(
            kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false, canRetract: true)
        private let asked: @Sendable () async throws -> Void
        private let refusing: @Sendable (_ alone: Int) async throws -> Void
        private let sent = Mutex<[Int]>([])

        /// How many readings each part had.
        var parts: [Int] { sent.withLock(\.self) }

        init(
            asked: @escaping @Sendable () async throws -> Void = {},
            refusing: @escaping @Sendable (_ alone: Int) async throws -> Void = { _ in }
        ) {
            (self.asked, self.refusing) = (asked, refusing)
        }

        func hold(_ target: DeliveryTarget, of person: StoreUser) async throws(DeliveryFailure) -> DeliveryHold? {
            do { try await asked() } catch { throw DeliveryFailure(error) }
            return nil
        }

        func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
            let alone = sent.withLock { sent in
                sent.append(part.items.count)
                return sent.count { $0 == 1 }
            }
            do { if part.items.count == 1 { try await refusing(alone) } } catch { throw DeliveryFailure(error) }
            throw DeliveryFailure(.items, code: "refused", message: "it is refused")
        }
    }

    @Test("consent that is withdrawn while a destination is asked whether it takes readings counts")
    func consentWhileAsked() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            let person = try await fixture.person.key
            let place = Refusing(asked: { try await fixture.store.setConsent(.glucose, granted: false, of: person) })
            let worker = fixture.worker(place, clock: .system)
            #expect(await worker.syncOnce().failure == nil)
            #expect(place.parts.isEmpty)
            #expect(await worker.syncOnce().held.map(\.hold) == [.noConsent])
        }
    }

    @Test("consent that is withdrawn while everything is refused counts for the newer reading that is tried then")
    func consentWhileRefused() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(10)
            let person = try await fixture.person.key
            let place = Refusing(refusing: { alone in
                if alone == 5 { try await fixture.store.setConsent(.glucose, granted: false, of: person) }
            })
            let worker = fixture.worker(place, clock: .system, batchLimit: 10)
            #expect(await worker.syncOnce().failure?.code == "server_refuses_all")
            #expect(place.parts.count { $0 == 1 } == 5)
            #expect(await worker.syncOnce().held.map(\.hold) == [.noConsent])
        }
    }

    @Test("nothing more goes of a provider that is ignored while a batch is on its way", arguments: [false, true])
    func ignored(hasLargeParts: Bool) async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            try await fixture.read(3, kind: .bloodPressure, device: 2, provider: "omron_ble")
            let worker = fixture.worker(
                Steps(hasLargeParts: hasLargeParts) { number in
                    if number == 2 {
                        try await fixture.store.setIgnored(IgnoredOrigins(providers: ["accuchek_ble"]))
                    }
                }, clock: .system, batchLimit: 100)
            let report = await worker.syncOnce()
            // Of the other provider everything.
            #expect(report.delivered == 2 + 3 && report.failure == nil)
            #expect(report.held.map(\.hold) == [.ignored] && report.held.map(\.count) == [4])
            try await fixture.store.setIgnored(IgnoredOrigins())
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
        }
    }

    @Test("a destination that is switched off while a batch is on its way gets nothing more of it")
    func switchedOff() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            let worker = fixture.worker(
                Steps { number in
                    if number == 2 { try await fixture.store.setDestinationEnabled(false, "steps") }
                }, clock: .system, batchLimit: 100)
            let report = await worker.syncOnce()
            #expect(report.delivered == 2 && report.held.map(\.hold) == [.destinationDisabled])
            #expect(report.held.map(\.count) == [4])
        }
    }

    @Test("what is stored meanwhile stops nothing")
    func storedMeanwhile() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            let steps = Steps { number in
                if number < 4 { try await fixture.read(1, from: 10 + number) }
            }
            let worker = fixture.worker(steps, clock: .system, batchLimit: 100)
            #expect(await worker.syncOnce() == SyncReport(delivered: 9))
            #expect(steps.steps.count == 9)
        }
    }

    @Test("what is done without delivery waits for the part that is on its way, and the pass goes on afterwards")
    func quiet() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            let holder = Mutex<OutboxWorker?>(nil)
            let (stream, continuation) = AsyncStream<Int>.makeStream()
            let destination = Mutex<Steps?>(nil)
            let steps = Steps { number in
                guard number == 2, let worker = holder.withLock(\.self), let steps = destination.withLock(\.self) else {
                    return
                }
                Task {
                    try? await worker.withoutDelivery {
                        try await Task.sleep(for: .milliseconds(50))
                        continuation.yield(steps.steps.count)
                    }
                    continuation.finish()
                }
                while await !worker.isQuietAsked { try await Task.sleep(for: .milliseconds(1)) }
            }
            destination.withLock { $0 = steps }
            let worker = fixture.worker(steps, clock: .system, batchLimit: 100)
            holder.withLock { $0 = worker }
            #expect(await worker.syncOnce() == SyncReport(delivered: 6))
            #expect(await stream.reduce(into: []) { $0.append($1) } == [2])
            #expect(steps.steps.count == 6)
            holder.withLock { $0 = nil }
        }
    }

    @Test("what is to be taken back meanwhile goes before the rest of a batch", arguments: [false, true])
    func retraction(hasLargeParts: Bool) async throws {
        try await Fixture.with { fixture in
            try await fixture.read(1, from: 50)
            let steps = Steps(hasLargeParts: hasLargeParts) { number in
                if number == 3 { try await fixture.read(1, from: 50, isFailed: true) }
            }
            let worker = fixture.worker(steps, clock: .system, batchLimit: 100)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            try await fixture.read(5)
            var expected = SyncReport(delivered: 5)
            expected.retracted = 1
            #expect(await worker.syncOnce() == expected)
            #expect(steps.steps == ["send", "send", "send", "retract 1", "send", "send", "send"])
        }
    }
}
