import Synchronization

/// Ends a wait early: softly (there is something new), or firmly (do it now, whatever you wait for).
final class WakeSignal: Sendable {
    enum Strength: Int, Sendable, Comparable {
        case soft, firm
        static func < (lhs: Strength, rhs: Strength) -> Bool { lhs.rawValue < rhs.rawValue }
    }

    private struct State {
        var pending: Strength?
        var waiter: (least: Strength, number: Int, continuation: CheckedContinuation<Void, Never>)?
        var next = 0
    }

    private let state = Mutex(State())

    /// Ends the present wait, or the next where there is none.
    func signal(_ strength: Strength) {
        let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.pending = max(state.pending ?? strength, strength)
            guard let waiter = state.waiter, strength >= waiter.least else { return nil }
            state.waiter = nil
            state.pending = nil
            return waiter.continuation
        }
        continuation?.resume()
    }

    /// Waits for a signal of at least this strength, a duration at most; also ends where the task is cancelled.
    func wait(
        atMost duration: Duration, endedBy least: Strength, sleep: @escaping @Sendable (Duration) async throws -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await sleep(duration) }
            group.addTask { await self.signalled(atLeast: least) }
            await group.next()
            group.cancelAll()
        }
    }

    private func signalled(atLeast least: Strength) async {
        let number = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if Task.isCancelled { return true }
                    if let pending = state.pending, pending >= least {
                        state.pending = nil
                        return true
                    }
                    state.waiter = (least, number, continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
                guard let waiter = state.waiter, waiter.number == number else { return nil }
                state.waiter = nil
                return waiter.continuation
            }
            continuation?.resume()
        }
    }
}
