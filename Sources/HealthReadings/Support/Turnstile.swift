import Synchronization

/// Lets so many tasks through at a time, the others in the order in which they came.
package final class Turnstile: Sendable {
    /// So many tasks wait already that another would wait too long.
    package struct Full: Error {}

    private struct State {
        var free: Int
        var waiting: [(number: UInt64, continuation: CheckedContinuation<Void, any Error>)] = []
        var last: UInt64 = 0
    }

    private let mostWaiting: Int
    private let state: Mutex<State>

    /// - Parameters:
    ///   - width: how many tasks may be inside.
    ///   - mostWaiting: how many may wait for their turn.
    package init(width: Int, mostWaiting: Int = .max) {
        self.mostWaiting = mostWaiting
        state = Mutex(State(free: width))
    }

    /// Runs `body` when there is room.
    ///
    /// - Throws: what `body` throws, ``Full``, and `CancellationError` for a task that is cancelled while it waits.
    package func pass<T>(_ body: () async throws -> T) async throws -> T {
        try await enter()
        defer { leave() }
        return try await body()
    }

    /// How many wait.
    var queue: Int { state.withLock(\.waiting.count) }

    private func enter() async throws {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result: Result<Void, any Error>? = state.withLock { state in
                    // Checked under the lock: a task cancelled before it waits here is not found by the handler.
                    guard !Task.isCancelled else { return .failure(CancellationError()) }
                    guard state.free == 0 else {
                        state.free -= 1
                        return .success(())
                    }
                    guard state.waiting.count < mostWaiting else { return .failure(Full()) }
                    state.waiting.append((number, continuation))
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiting.firstIndex { $0.number == number }.map { state.waiting.remove(at: $0).continuation }
            }
            waiter?.resume(throwing: CancellationError())
        }
    }

    private func leave() {
        let next: CheckedContinuation<Void, any Error>? = state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst().continuation
        }
        next?.resume()
    }
}
