import Synchronization

/// Does one piece of work after the other, in the order in which they came.
package final class OneAtATime: Sendable {
    private let last = Mutex<Task<Void, Never>?>(nil)

    package init() {}

    /// Does work that is done once it has begun, whoever waits.
    package func run<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        let task = last.withLock { last in
            let before = last
            let task = Task {
                await before?.value
                return try await work()
            }
            last = Task { _ = try? await task.value }
            return task
        }
        return try await task.value
    }

    /// Does an actor's own work in its turn, also for somebody who has given up meanwhile.
    package func inTurn<Value>(
        isolation: isolated (any Actor)? = #isolation, _ work: () async throws -> Value
    ) async rethrows -> Value {
        let (turn, end) = AsyncStream<Void>.makeStream()
        let before = last.withLock { last in
            let before = last
            last = Task { for await _ in turn {} }
            return before
        }
        defer { end.finish() }
        await before?.value
        return try await work()
    }
}
