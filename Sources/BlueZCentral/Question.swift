import Synchronization

/// A question to a person, who may not answer: ended by the answer, by time, or from outside, whichever is first.
///
/// The task that asks is then cancelled and not waited for: one that blocks in a terminal ends when it ends.
final class Question<Answer: Sendable>: Sendable {
    private struct State {
        var continuation: CheckedContinuation<Answer, any Error>?
        var result: Result<Answer, any Error>?
        var tasks: [Task<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: after which ``TimeIsUp`` is thrown.
    ///   - ask: gives the answer.
    func answer(within limit: Duration, _ ask: @escaping @Sendable () async throws -> Answer) async throws -> Answer {
        let asking = Task {
            do { self.end(.success(try await ask())) } catch { self.end(.failure(error)) }
        }
        let timing = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            self.end(.failure(TimeIsUp()))
        }
        let isOver = state.withLock { state in
            state.tasks = [asking, timing]
            return state.result != nil
        }
        if isOver { cancelTasks() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state in
                    if state.result == nil { state.continuation = continuation }
                    return state.result
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            cancel()
        }
    }

    /// The question is moot.
    func cancel() { end(.failure(CancellationError())) }

    private func end(_ result: Result<Answer, any Error>) {
        let continuation = state.withLock { state -> CheckedContinuation<Answer, any Error>? in
            guard state.result == nil else { return nil }
            state.result = result
            defer { state.continuation = nil }
            return state.continuation
        }
        cancelTasks()
        continuation?.resume(with: result)
    }

    private func cancelTasks() {
        for task in state.withLock(\.tasks) { task.cancel() }
    }
}

/// Nobody answered in time.
struct TimeIsUp: Error {}
