import Synchronization

/// Puts asynchronous work in order, first come, first served: what must not overlap on the radio takes its turn.
final class Turn: Sendable {
    private struct State {
        var isTaken = false
        var waiting: [(number: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
        var last: UInt64 = 0
    }

    private let state = Mutex(State())

    /// Runs the body when everything before it has ended.
    ///
    /// - Throws: `CancellationError` where the task is cancelled before its turn comes; what the body throws.
    func take<Result>(
        isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
    ) async throws -> Result {
        try await begin()
        defer { end() }
        return try await body()
    }

    /// Waits for the turn; ``end()`` must follow where this does not throw.
    ///
    /// - Throws: `CancellationError`.
    func begin() async throws {
        try Task.checkCancellation()
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        let isOurs = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isFree = state.withLock { state in
                    if state.isTaken {
                        state.waiting.append((number, continuation))
                        return false
                    }
                    state.isTaken = true
                    return true
                }
                if isFree { continuation.resume(returning: true) } else if Task.isCancelled { leave(number) }
            }
        } onCancel: {
            leave(number)
        }
        if !isOurs { throw CancellationError() }
    }

    func end() {
        let next = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.waiting.isEmpty else {
                state.isTaken = false
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume(returning: true)
    }

    private func leave(_ number: UInt64) {
        let continuation = state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard let index = state.waiting.firstIndex(where: { $0.number == number }) else { return nil }
            return state.waiting.remove(at: index).continuation
        }
        continuation?.resume(returning: false)
    }
}
