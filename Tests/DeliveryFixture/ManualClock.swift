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

    /// What was waited for did not come within a minute, or longer on a busy machine: the wait is counted in looks.
    package struct NobodySleeps: Error { package var slept: [Duration] }

    /// Waits until that many sleeps were asked for.
    package func waitForSleeps(_ count: Int) async throws {
        try await wait { self.slept.count >= count }
    }

    /// Waits until somebody sleeps: what the last advance has begun is over.
    package func waitForSleeper() async throws {
        try await wait { self.state.withLock { !$0.sleepers.isEmpty } }
    }

    private func wait(until condition: () -> Bool) async throws {
        for _ in 0..<12_000 {
            if condition() { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        throw NobodySleeps(slept: slept)
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
        let (number, began) = state.withLock { state in
            state.next += 1
            state.slept.append(duration)
            return (state.next, state.uptime)
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let (isCancelled, isOver) = state.withLock { state in
                    // Whoever saw that this sleep was asked for may have moved the clock since.
                    let isOver = state.uptime > began && state.uptime >= began + duration
                    guard !Task.isCancelled, !isOver else { return (Task.isCancelled, isOver) }
                    state.sleepers[number] = Sleeper(due: began + duration, continuation: continuation)
                    return (false, false)
                }
                if isCancelled {
                    continuation.resume(throwing: CancellationError())
                } else if isOver {
                    continuation.resume()
                }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: number) }?.continuation.resume(
                throwing: CancellationError())
        }
    }
}
