import GRDB
import Synchronization

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
