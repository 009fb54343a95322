import Synchronization

/// Cancels exchanges that take too long, with one sleeping task for all of them.
///
/// A cancelled `Task.sleep` leaves its timer behind until its time is over. A sleep for each exchange would therefore keep
/// thousands of timers, if thousands of short exchanges follow each other.
final class Deadlines: Sendable {
    private struct State {
        var pending: [UInt64: (due: ContinuousClock.Instant, cancel: @Sendable () -> Void)] = [:]
        var last: UInt64 = 0
        var isWatched = false
    }

    private let state = Mutex(State())

    /// Has `cancel` called once a time is over, unless ``remove(_:)`` comes first.
    ///
    /// - Returns: what to remove it with.
    func add(_ time: Duration, cancel: @escaping @Sendable () -> Void) -> UInt64 {
        let due = ContinuousClock.now + time
        let (number, begins) = state.withLock { state in
            state.last += 1
            state.pending[state.last] = (due, cancel)
            defer { state.isWatched = true }
            return (state.last, !state.isWatched)
        }
        if begins { Task.detached { await self.watch() } }
        return number
    }

    /// Forgets a deadline.
    ///
    /// - Returns: whether it was still to come.
    func remove(_ number: UInt64) -> Bool { state.withLock { $0.pending.removeValue(forKey: number) } != nil }

    private func watch() async {
        while let due = next() {
            try? await Task.sleep(until: due, clock: .continuous)
            for cancel in late() { cancel() }
        }
    }

    /// The earliest deadline; without one, nothing is watched any more.
    private func next() -> ContinuousClock.Instant? {
        state.withLock { state in
            let due = state.pending.values.lazy.map(\.due).min()
            state.isWatched = due != nil
            return due
        }
    }

    private func late() -> [@Sendable () -> Void] {
        let now = ContinuousClock.now
        return state.withLock { state in
            let late = state.pending.filter { $0.value.due <= now }
            for number in late.keys { state.pending[number] = nil }
            return late.values.map(\.cancel)
        }
    }
}
