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
    /// How long a read waits for its turn: longer than those before it may take, even on a busy machine.
    static let turnPatience: Duration = .seconds(60)

    /// Reads from the last commit, and interrupts SQLite where that takes longer than `patience`.
    ///
    /// What counts is the reading itself: a read that waits for its turn, or whose result is on its way to the caller, keeps
    /// nobody from reading.
    ///
    /// - Throws: ``StoreError/tookTooLong``, also if its turn does not come within ``turnPatience``.
    func read<T: Sendable>(
        within patience: Duration, _ body: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        let course = ReadCourse()
        return try await withThrowingTaskGroup(of: T?.self) { group in
            group.addTask {
                try await self.read { db in
                    course.begin()
                    defer { course.isDone.store(true, ordering: .relaxed) }
                    return try body(db)
                }
            }
            group.addTask {
                for await _ in course.begun {}
                try await Task.sleep(for: patience)
                return nil
            }
            group.addTask {
                try await Task.sleep(for: Self.turnPatience + patience)
                return nil
            }
            defer { group.cancelAll() }
            while let first = try await group.next() {
                if let value = first { return value }
                guard course.isDone.load(ordering: .relaxed) else { throw StoreError.tookTooLong }
            }
            throw StoreError.tookTooLong
        }
    }
}

/// How far a read has come.
private final class ReadCourse: Sendable {
    let begun: AsyncStream<Void>
    let isDone = Atomic(false)
    private let beginning: AsyncStream<Void>.Continuation

    init() { (begun, beginning) = AsyncStream.makeStream() }

    func begin() { beginning.finish() }
}
