import Foundation
import HealthReadings
import Synchronization

/// How far statements have come that write a table, or the whole file, anew.
///
/// SQLite doesn't say how far a statement has come. What its thread writes is counted instead, by the kernel: such a statement
/// writes about so many times the part of the file that is in use. So what there is to do is an estimate, and the end is told
/// when it has come.
final class WritingCourse: Sendable {
    private static let interval: Duration = .milliseconds(100)

    private struct State {
        var total: Int64 = 0
        var start: Int64 = 0
        var looked: ContinuousClock.Instant?
    }

    private let step: StoreProgress.Step
    private let state = Mutex(State())
    private let progress: StoreProgress.Handler

    init(_ step: StoreProgress.Step, _ progress: @escaping StoreProgress.Handler) {
        (self.step, self.progress) = (step, progress)
    }

    /// Runs the statements, on this thread.
    ///
    /// - Parameter total: about how many bytes will be written; 0: nothing that is worth telling of.
    func run(total: Int64, _ body: () throws -> Void) throws {
        guard total > 0 else { return try body() }
        state.withLock { $0 = State(total: total, start: Self.written) }
        progress(StoreProgress(step, of: total))
        try body()
        state.withLock { $0.total = 0 }
        progress(StoreProgress(step, done: total, of: total))
    }

    /// Tells how far it has come, but not more often than anybody reads it; called by the same thread.
    func look() {
        let now = ContinuousClock.now
        let due: (start: Int64, total: Int64)? = state.withLock { state in
            guard state.total > 0, state.looked.map({ now - $0 >= Self.interval }) ?? true else { return nil }
            state.looked = now
            return (state.start, state.total)
        }
        guard let due else { return }
        progress(StoreProgress(step, done: min(max(Self.written - due.start, 0), due.total - 1), of: due.total))
    }

    /// What this thread has written, in bytes, as the kernel counts it; 0 where it doesn't say.
    private static var written: Int64 {
        guard let text = try? String(contentsOfFile: "/proc/thread-self/io", encoding: .utf8) else { return 0 }
        let line = text.split(separator: "\n").first { $0.hasPrefix("wchar: ") }
        return line.flatMap { Int64($0.dropFirst("wchar: ".count)) } ?? 0
    }
}
