import Synchronization

/// Does one piece of work after the other, in the order in which they came; what has begun is done, whoever waits.
final class OneAtATime: Sendable {
    private let last = Mutex<Task<Void, Never>?>(nil)

    func run<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
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
}
