import GRDB
import Synchronization

/// Lets so many tasks through at a time, in the order in which they came.
///
/// The store keeps one connection free of long reads with it, so that the watchdog and `/health` are answered while
/// others read.
final class ReaderGate: Sendable {
    private struct State {
        var free: Int
        var waiting: [(number: UInt64, continuation: CheckedContinuation<Void, any Error>)] = []
        var last: UInt64 = 0
    }

    private let state: Mutex<State>

    /// - Parameter limit: how many tasks may be inside.
    init(limit: Int) { state = Mutex(State(free: limit)) }

    /// Runs `body` when there is room.
    ///
    /// - Throws: what `body` throws, and `CancellationError` for a task that is cancelled while it waits.
    func pass<T>(_ body: () async throws -> T) async throws -> T {
        try await enter()
        defer { leave() }
        return try await body()
    }

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

extension ReadingStore {
    /// Reads from the last commit, and interrupts SQLite where that takes longer than `patience`.
    ///
    /// - Throws: ``StoreError/tookTooLong``.
    func read<T: Sendable>(
        within patience: Duration, _ body: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await withThrowingTaskGroup(of: T?.self) { group in
            group.addTask { try await self.read(body) }
            group.addTask {
                try await Task.sleep(for: patience)
                return nil
            }
            defer { group.cancelAll() }
            guard let first = try await group.next(), let value = first else { throw StoreError.tookTooLong }
            return value
        }
    }
}
