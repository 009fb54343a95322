import Synchronization

/// How much is on its way to somebody who reads slowly.
final class Backlog: Sendable {
    private struct State {
        var count = 0
        var isCleared = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private static let limit = 1 << 20
    private let state = Mutex(State())

    func add(_ count: Int) { state.withLock { $0.count += count } }

    func remove(_ count: Int) {
        resume { state in
            state.count -= count
            return state.count <= Self.limit
        }
    }

    /// Nobody reads any more: nobody waits.
    func clear() {
        resume { state in
            state.isCleared = true
            return true
        }
    }

    /// Returns when there is room for more.
    ///
    /// - Throws: `CancellationError` where the task was cancelled: what is on its way goes to nobody then.
    func room() async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let hasRoom = state.withLock { state in
                    guard state.count > Self.limit, !state.isCleared else { return true }
                    state.waiting.append(continuation)
                    return false
                }
                if hasRoom { continuation.resume() }
            }
        } onCancel: {
            clear()
        }
        try Task.checkCancellation()
    }

    private func resume(_ change: (inout State) -> Bool) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            guard change(&state) else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}
