import DeliveryFixture
import HealthReadings
import LogLines
import ReadingStore
import ScriptedServer
import TestSupport
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("What fails keeps nothing else waiting")
struct CircuitTests {
    private static let pressureFails: @Sendable (String) -> ScriptedAnswer? = { text in
        text.contains(#""provider":"omron_ble""#) ? .json(500, "{}") : nil
    }

    @Test("a group that fails waits alone: the others go on, in the same pass and at once in those that follow")
    func others() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.judge = Self.pressureFails }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(2, kind: .bloodPressure, device: 2, provider: "omron_ble")
            try await fixture.read(3)
            let running = Task { try await worker.run() }
            #expect(await eventually { script.now.taken.count == 3 })
            #expect(await eventually { await worker.status.failures == 1 })
            let posts = script.now.posts.count
            // The clock stands still: nothing that waits for it could go now.
            try await fixture.read(4, from: 50)
            #expect(await eventually { script.now.taken.count == 7 })
            #expect(script.now.posts.count == posts + 1)
            script.change { $0.judge = nil }
            // A pass that is still going on would begin its sleep after the clock has moved, and sleep for ever.
            try await clock.waitForSleeper()
            clock.advance(by: .seconds(2))
            #expect(await eventually { script.now.taken.count == 9 })
            #expect(await eventually { await worker.status.nextAttempt == nil })
            running.cancel()
            try await running.value
        }
    }

    @Test("the log names the destination, and when the next attempt follows in whole seconds, rounded up")
    func nextAttempt() async throws {
        let (script, log) = (VitalScript(), LogLines())
        script.change { $0.judge = { _ in .json(500, "{}") } }
        try await Fixture.with { fixture in
            try await ScriptedServer.with({ script.answer($0) }) { server in
                var options = OutboxWorker.Options()
                options.backoff = Backoff(jitter: { 0.7 })
                let worker = OutboxWorker(
                    store: fixture.store, api: try api(server.baseURL), policy: .create, options: options,
                    logger: log.logger())
                try await fixture.read(1)
                #expect(await worker.syncOnce().failure?.code == "server_error")
                #expect(log.text.contains(/next_attempt_in": 2 s[,\]]/), "\(log.text)")
                #expect(log.text.contains(/"destination": vital[,\]]/), "\(log.text)")
            }
        }
    }

    @Test("a time-out of one group is not the next one's", arguments: [true, false])
    func timeouts(isTimeout: Bool) async throws {
        let script = VitalScript()
        script.change { state in
            state.judge = { text in
                guard text.contains(#""provider":"accuchek_ble""#) else { return nil }
                return isTimeout
                    ? .late(.seconds(60), .ok) : .json(422, #"{"detail":[{"loc":["body","time_zone"],"msg":"x"}]}"#)
            }
        }
        try await with(script, call: isTimeout ? .seconds(5) : .seconds(60)) { worker, fixture in
            try await fixture.read(2)
            try await fixture.read(3, kind: .bloodPressure, device: 2, provider: "omron_ble")
            let report = await worker.syncOnce()
            #expect(report.delivered == 3 && report.failure?.code == (isTimeout ? "timeout" : "validation_failed"))
            #expect(try await fixture.waiting == 2)
        }
    }

    @Test("three groups that fail in a row count as the server: the rest are not asked for, and wait with it")
    func opens() async throws {
        let names = ["accuchek_ble", "beurer_ble", "contour_ble", "omron_ble", "onetouch_ble"]
        let script = VitalScript(connected: names)
        script.change { $0.judge = { _ in .json(503, "{}") } }
        try await with(script) { worker, fixture in
            for (number, name) in names.enumerated() {
                try await fixture.read(1, device: UInt64(number + 1), provider: name)
            }
            #expect(await worker.syncOnce().delivered == 0)
            #expect(script.now.posts.count == 3)
            script.change { $0.judge = nil }
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
        }
    }

    @Test("an hour of 500s: some dozen attempts in simulated time, new readings or not, and everything arrives once")
    func hour() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.judge = { _ in .json(500, "{}") } }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(20)
            try await fixture.read(5, kind: .bloodPressure, device: 2, provider: "omron_ble")
            let running = Task { try await worker.run() }
            #expect(await eventually { script.now.posts.count == 2 })
            for minute in 0..<60 {
                if minute % 10 == 0 { try await fixture.read(1, from: 100 + minute) }
                try await clock.waitForSleeper()
                clock.advance(by: .seconds(60))
                try await Task.sleep(for: .milliseconds(5))
            }
            // Two groups, each at 0, 2, 6, 14, 30, 62, 126, 254, 510, 1022, 1922 and 2822 seconds at most.
            #expect(script.now.posts.count > 4 && script.now.posts.count <= 24)
            #expect(script.now.taken.isEmpty)
            script.change { $0.judge = nil }
            #expect(
                try await eventually {
                    clock.advance(by: .seconds(60))
                    return try await fixture.waiting == 0
                })
            running.cancel()
            try await running.value
            #expect(Set(script.now.taken).count == 31 && script.now.taken.count == 31)
        }
    }

    @Test(
        "a clock that jumps by a day or a year, either way, neither hurries nor delays an attempt",
        arguments: [86_400, -86_400, 31_557_600, -31_557_600])
    func jumps(seconds: Int64) async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { $0.next = [.cut] }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(3)
            let running = Task { try await worker.run() }
            try await clock.waitForSleeps(1)
            #expect(script.now.posts.count == 1)
            clock.jump(by: .seconds(seconds))
            worker.wake()
            clock.advance(by: .seconds(1.5))
            try await Task.sleep(for: .milliseconds(100))
            #expect(script.now.posts.count == 1)
            clock.advance(by: .seconds(0.5))
            #expect(await eventually { script.now.taken.count == 3 })
            #expect(try await eventually { try await fixture.waiting == 0 })
            running.cancel()
            try await running.value
        }
    }
}
