import Testing

@testable import ReadingDelivery

@Suite("Waiting")
struct WaitingTests {
    @Test("waits double from two seconds to fifteen minutes, half of each random")
    func doubling() {
        for jitter in [0.0, 0.5, 1.0] {
            let backoff = Backoff(jitter: { jitter })
            for failures in 1...80 {
                let step = min(900.0, 2.0 * Double(1 << min(failures - 1, 30)))
                let expected = step / 2 + step / 2 * jitter
                let delay = backoff.delay(failures: failures) / .seconds(1)
                #expect(abs(delay - expected) < 0.001)
            }
        }
    }

    @Test("Retry-After is never undercut, and never overshot by more than a tenth of the step")
    func retryAfter() {
        for jitter in [0.0, 1.0] {
            let backoff = Backoff(jitter: { jitter })
            let delay = backoff.delay(failures: 1, retryAfter: .seconds(60))
            #expect(delay >= .seconds(60) && delay <= .seconds(60.2))
            #expect(backoff.delay(failures: 9, retryAfter: .seconds(3)) >= .seconds(256))
        }
    }

    @Test("a soft signal ends a soft wait and not a firm one; a signal before the wait counts")
    func signals() async throws {
        let signal = WakeSignal()
        let sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
        signal.signal(.soft)
        var begun = ContinuousClock.now
        await signal.wait(atMost: .seconds(600), endedBy: .soft, sleep: sleep)
        #expect(ContinuousClock.now - begun < .seconds(120))

        signal.signal(.soft)
        begun = ContinuousClock.now
        await signal.wait(atMost: .milliseconds(200), endedBy: .firm, sleep: sleep)
        #expect(ContinuousClock.now - begun >= .milliseconds(190))
        // The soft signal of before is still there.
        begun = ContinuousClock.now
        await signal.wait(atMost: .seconds(600), endedBy: .soft, sleep: sleep)
        #expect(ContinuousClock.now - begun < .seconds(120))

        begun = ContinuousClock.now
        let task = Task { await signal.wait(atMost: .seconds(600), endedBy: .firm, sleep: sleep) }
        try await Task.sleep(for: .milliseconds(50))
        signal.signal(.firm)
        await task.value
        let cancelled = Task { await signal.wait(atMost: .seconds(600), endedBy: .soft, sleep: sleep) }
        try await Task.sleep(for: .milliseconds(50))
        cancelled.cancel()
        await cancelled.value
        #expect(ContinuousClock.now - begun < .seconds(120))
    }
}
