import Dispatch
import GatewaySettings
import Synchronization

/// Looks at a directory that may be on a network. If its server is gone, a system call never returns.
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
        guard overdue.withLock({ $0[directory] ?? 0 }) < mostOverdue else { throw unanswered(directory) }
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

    private static func count(_ change: Int, of directory: String) {
        overdue.withLock { $0[directory, default: 0] += change }
    }

    private static func unanswered(_ directory: String) -> Problem {
        Problem(
            "backup_unreadable", .inputOutput, "cannot read backup.to, \(directory): it does not answer",
            hint: "if it is on a network, check its server")
    }
}
