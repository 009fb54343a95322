import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import ScriptedServer
import Synchronization
import TestSupport
import Testing

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("Delays outlive the process")
struct DelayTests {
    /// A worker over the same store and server as another, as after a restart.
    private static func restarted(
        _ worker: OutboxWorker, _ fixture: Fixture, _ clock: ManualClock, mark: String = ""
    ) -> OutboxWorker {
        var options = OutboxWorker.Options()
        options.backoff = Backoff(jitter: { 1 })
        options.settingsMark = mark
        return OutboxWorker(
            store: fixture.store, destination: worker.destination, options: options, clock: clock.syncClock,
            logger: Fixture.quiet)
    }

    /// Runs a worker beside a test.
    private static func running(_ worker: OutboxWorker, _ body: () async throws -> Void) async throws {
        let task = Task { try await worker.run() }
        do { try await body() } catch {
            task.cancel()
            throw error
        }
        task.cancel()
        try await task.value
    }

    @Test("what Retry-After asks for is waited for after a restart too; `sync` asks at once")
    func retryAfter() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.next = [.json(429, "{}", headers: ["Retry-After": "600"])] }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(3)
            #expect(await worker.syncOnce().failure?.code == "rate_limit_exceeded")
            clock.advance(by: .seconds(100))
            let third = Self.restarted(worker, fixture, clock)
            try await Self.running(third) {
                try await clock.waitForSleeps(1)
                try await Task.sleep(for: .milliseconds(100))
                #expect(script.now.lists == 1 && script.now.taken.isEmpty)
                let status = await third.status
                #expect(status.failure?.code == "rate_limit_exceeded")
                // Rounded up, and at most a tenth of a step longer than asked.
                let left = try #require(status.nextAttempt).seconds - clock.syncClock.now().seconds
                #expect((500...502).contains(left), "\(left)")
                clock.advance(by: .seconds(505))
                #expect(await eventually { script.now.taken.count == 3 })
                #expect(await eventually { (try? await fixture.store.delay(of: .vital)) == .some(nil) })
            }
            script.change { $0.next = [.json(503, "{}", headers: ["Retry-After": "600"])] }
            try await fixture.read(1, from: 10)
            #expect(await Self.restarted(worker, fixture, clock).syncOnce().failure?.code == "server_error")
            #expect(try await fixture.store.delay(of: .vital)?.outlivesProcess == true)
            #expect(await Self.restarted(worker, fixture, clock).syncOnce() == SyncReport(delivered: 1))
        }
    }

    @Test("a Retry-After is forgotten with a later answer of the same kind that asks for no wait")
    func noLongerAsked() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.next = [.json(429, "{}", headers: ["Retry-After": "3600"]), .json(429, "{}")] }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(2)
            #expect(await worker.syncOnce().failure?.code == "rate_limit_exceeded")
            #expect(try await fixture.store.delay(of: .vital)?.outlivesProcess == true)
            #expect(await worker.syncOnce().failure?.code == "rate_limit_exceeded")
            #expect(try await fixture.store.delay(of: .vital)?.outlivesProcess == false)
            // A process that begins tries at once.
            try await Self.running(Self.restarted(worker, fixture, clock)) {
                #expect(await eventually { script.now.taken.count == 2 })
            }
        }
    }

    @Test("a refused key is asked again after its pause, which goes on doubling; `sync` asks at once")
    func refusedKey() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        let refusals = Mutex(0)
        script.change {
            $0.judge = { _ in
                refusals.withLock { $0 += 1 }
                return .json(401, "{}")
            }
        }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(2)
            #expect(await worker.syncOnce().failure?.code == "authentication_failed")
            for (round, pause) in [900, 1800, 3600].enumerated() {
                let next = Self.restarted(worker, fixture, clock)
                let slept = clock.slept.count
                try await Self.running(next) {
                    try await clock.waitForSleeps(slept + 1)
                    try await Task.sleep(for: .milliseconds(50))
                    #expect(refusals.withLock(\.self) == round + 1)
                    clock.advance(by: .seconds(pause))
                    #expect(await eventually { refusals.withLock(\.self) == round + 2 })
                    #expect(await eventually { await next.status.failures == round + 2 })
                }
            }
            // A person who asks has perhaps just settled it.
            let asked = Self.restarted(worker, fixture, clock)
            #expect(await asked.syncOnce().failure?.code == "authentication_failed")
            #expect(refusals.withLock(\.self) == 5)
            // Other settings, such as another key, are another try.
            let changed = Self.restarted(worker, fixture, clock, mark: "another key")
            try await Self.running(changed) { #expect(await eventually { refusals.withLock(\.self) == 6 }) }
            // And so is whoever says that it is settled.
            let settled = Self.restarted(worker, fixture, clock, mark: "another key")
            let slept = clock.slept.count
            try await Self.running(settled) {
                try await clock.waitForSleeps(slept + 1)
                script.change { $0.judge = nil }
                await settled.forgetFailures()
                #expect(await eventually { script.now.taken.count == 2 })
            }
        }
    }

    @Test("a failure that asks for nothing is tried at once by a process that begins; the store still tells of it")
    func plainFailure() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.next = [.json(500, "{}")] }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(1)
            #expect(await worker.syncOnce().failure?.code == "server_error")
            let delay = try #require(try await fixture.store.delay(of: .vital))
            #expect(delay.code == "server_error" && !delay.outlivesProcess && delay.failures == 1)
            try await Self.running(Self.restarted(worker, fixture, clock)) {
                #expect(await eventually { script.now.taken.count == 1 })
                #expect(await eventually { (try? await fixture.store.delay(of: .vital)) == .some(nil) })
            }
        }
    }

    @Test("a clock that was set neither makes a wait longer than it was, nor longer than any may be")
    func clocks() async throws {
        try await Fixture.with { fixture in
            let now = Instant(seconds: 1_800_000_000)
            var delay = DeliveryDelay(
                due: now.advanced(bySeconds: 600), seconds: 600, outlivesProcess: true, needsPerson: false,
                failures: 2, pauses: 0, settings: "a b", code: "rate_limit_exceeded",
                message: "two\nlines")
            try await fixture.store.setDelay(delay, of: .vital)
            delay.message = "two lines"
            #expect(try await fixture.store.delay(of: .vital) == delay)
            for (moved, left) in [(0, 600), (1, 599), (600, 0), (10_000, 0), (-10_000_000, 600)] as [(Int64, Int64)] {
                #expect(delay.secondsLeft(at: now.advanced(bySeconds: moved)) == left)
            }
            delay.seconds = .max
            delay.due = Instant(microseconds: .max)
            #expect(delay.secondsLeft(at: Instant(microseconds: .min)) == 25 * 3600)
            delay.needsPerson = true
            #expect(delay.secondsLeft(at: now) == 6 * 3600)
            try await fixture.store.setDelay(nil, of: .vital)
            #expect(try await fixture.store.delay(of: .vital) == nil)
        }
    }

    /// A destination that refuses the connection that it would keep.
    private final class Doorkeeper: Destination {
        let name = "door"
        let kind = "door"
        let rules = DestinationRules(
            kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: false)
        let runs = Mutex(0)

        func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] { [] }

        func run(_ context: DestinationContext) async throws {
            runs.withLock { $0 += 1 }
            throw DeliveryFailure(.destination, code: "authentication_failed", message: "no", needsPerson: true)
        }
    }

    @Test("a connection that was refused is not made again at once by a process that begins")
    func connection() async throws {
        try await Fixture.with { fixture in
            let (door, clock) = (Doorkeeper(), ManualClock())
            try await Self.running(fixture.worker(door, clock: clock.syncClock)) {
                #expect(await eventually { door.runs.withLock(\.self) == 1 })
                #expect(
                    await eventually {
                        let known = try? await fixture.store.destinations().first { $0.name == "door" }
                        guard let known else { return false }
                        return (try? await fixture.store.delay(of: known.key))??.code == "authentication_failed"
                    })
            }
            let again = fixture.worker(door, clock: clock.syncClock)
            let slept = clock.slept.count
            try await Self.running(again) {
                try await clock.waitForSleeps(slept + 2)
                try await Task.sleep(for: .milliseconds(50))
                #expect(door.runs.withLock(\.self) == 1)
                clock.advance(by: .seconds(901))
                #expect(await eventually { door.runs.withLock(\.self) == 2 })
                await again.forgetFailures()
                #expect(await eventually { door.runs.withLock(\.self) == 3 })
            }
        }
    }
}
