import HealthReadings
import ReadingDelivery
import Synchronization

/// A clock that stands until it is moved; it tells how long its sleepers want to sleep.
package final class ManualClock: Sendable {
    private struct Sleeper {
        var due: Duration
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var uptime: Duration = .zero
        var sleepers: [Int: Sleeper] = [:]
        var next = 0
        var slept: [Duration] = []
        var jump: Duration = .zero
    }

    private let state = Mutex(State())

    package init() {}

    package var syncClock: SyncClock {
        var clock = SyncClock.system
        clock.now = {
            Instant(seconds: Fixture.start + 100_000_000).advanced(by: self.state.withLock { $0.uptime + $0.jump })
        }
        clock.uptime = { self.state.withLock { $0.uptime } }
        clock.sleep = { try await self.sleep($0) }
        return clock
    }

    /// Sets the clock that can be read, as a person or a time server does.
    package func jump(by duration: Duration) { state.withLock { $0.jump += duration } }

    /// What was asked for, in order.
    package var slept: [Duration] { state.withLock { $0.slept } }

    /// Waits until that many sleeps were asked for.
    package func waitForSleeps(_ count: Int) async throws {
        for _ in 0..<2000 {
            if slept.count >= count { return }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Waits until somebody sleeps: what the last advance has begun is over.
    package func waitForSleeper() async throws {
        for _ in 0..<2000 {
            if state.withLock({ !$0.sleepers.isEmpty }) { return }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    package func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.uptime += duration
            let due = state.sleepers.filter { $0.value.due <= state.uptime }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in due { continuation.resume() }
    }

    private func sleep(_ duration: Duration) async throws {
        let number = state.withLock { state in
            state.next += 1
            state.slept.append(duration)
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let isCancelled = state.withLock { state in
                    guard !Task.isCancelled else { return true }
                    state.sleepers[number] = Sleeper(due: state.uptime + duration, continuation: continuation)
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: number) }?.continuation.resume(
                throwing: CancellationError())
        }
    }
}
