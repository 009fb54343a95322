import Dispatch
import GatewaySettings
import Synchronization

/// Looks at a directory that may be on a network, and works in it. If its server is gone, a system call never returns.
///
/// Each look has a thread of its own. On a thread of Swift's pool, of which a small machine has one or two, it would
/// stop everything else that the gateway does.
enum DirectoryLook {
    /// How many looks at one directory may be overdue before no further one is begun.
    private static let mostOverdue = 2
    private static let overdue = Mutex<[String: Int]>([:])

    /// Runs `body` and waits for it.
    ///
    /// - Parameters:
    ///   - directory: the directory that `body` looks at.
    ///   - patience: how many seconds to wait.
    ///   - body: looks. It goes on if it takes longer, and what it returns is dropped.
    /// - Throws: `Problem` if it takes longer, and at once while earlier looks at the directory have not returned.
    static func at<Value: Sendable>(
        _ directory: String, patience: Double = 10, _ body: @escaping @Sendable () -> Value
    ) async throws(Problem) -> Value {
        try requireAnswers(of: directory)
        let (values, continuation) = AsyncStream<Value>.makeStream()
        let look = Look()
        DispatchQueue(label: "healthrelay.directory").async {
            continuation.yield(body())
            continuation.finish()
            if look.end() { count(-1, of: directory) }
        }
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + patience) { continuation.finish() }
        for await value in values { return value }
        if Task.isCancelled {
            throw Problem("interrupted", .tryAgain, "the look at \(directory) was interrupted")
        }
        if look.giveUp() { count(1, of: directory) }
        throw unanswered(directory)
    }

    /// Runs `body`, which may take as long as it has to, on a thread of its own, and waits for it.
    ///
    /// - Parameters:
    ///   - directory: the directory that `body` reads from or writes to.
    ///   - patience: how many seconds to wait once this task was cancelled. That cancels `body`, too. A gateway that is stopped
    ///     ends within two.
    ///   - body: works. It goes on if it does not heed that it was cancelled, and what it returns is dropped.
    /// - Throws: what `body` throws; `Problem` if it did not end once it was cancelled, and at once while earlier looks at the
    ///   directory have not returned.
    static func working<Value: Sendable>(
        in directory: String, patience: Double = 1, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try requireAnswers(of: directory)
        let (results, continuation) = AsyncStream<Result<Value, any Error>>.makeStream()
        let (look, thread) = (Look(), WaitingThread())
        let work = Task(executorPreference: thread) {
            continuation.yield(await Result { try await body() })
            continuation.finish()
            if look.end() { count(-1, of: directory) }
            withExtendedLifetime(thread) {}
        }
        // No child of this task: it waits also when this one was cancelled.
        let waiting = Task { () -> Result<Value, any Error>? in
            for await result in results { return result }
            return nil
        }
        let result = await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            work.cancel()
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + patience) { continuation.finish() }
        }
        if let result { return try result.get() }
        if look.giveUp() { count(1, of: directory) }
        throw unanswered(directory)
    }

    /// Whether a look has returned, and whether it was given up before.
    private final class Look: Sendable {
        private let state = Mutex((hasEnded: false, isOverdue: false))

        /// - Returns: whether it was counted as overdue.
        func end() -> Bool {
            state.withLock {
                $0.hasEnded = true
                return $0.isOverdue
            }
        }

        /// - Returns: whether it has not returned.
        func giveUp() -> Bool {
            state.withLock {
                $0.isOverdue = !$0.hasEnded
                return $0.isOverdue
            }
        }
    }

    /// A thread for a task that waits in the system.
    private final class WaitingThread: TaskExecutor {
        private let queue = DispatchQueue(label: "healthrelay.directory")

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    private static func requireAnswers(of directory: String) throws(Problem) {
        guard overdue.withLock({ $0[directory] ?? 0 }) < mostOverdue else { throw unanswered(directory) }
    }

    private static func count(_ change: Int, of directory: String) {
        overdue.withLock { $0[directory, default: 0] += change }
    }

    private static func unanswered(_ directory: String) -> Problem {
        Problem(
            "backup_unreadable", .inputOutput, "cannot read backup.to, \(directory): it does not answer",
            hint: "if it is on a network, check its server")
    }
}
