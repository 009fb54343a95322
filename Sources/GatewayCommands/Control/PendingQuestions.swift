import Foundation
import GatewaySettings
import Synchronization

/// Questions that wait for the answers of the control socket's clients.
final class PendingQuestions: Sendable {
    private typealias Waiter = CheckedContinuation<Answer, any Error>
    private let waiters = Mutex<[String: Waiter]>([:])

    /// Sends a question and waits for its answer.
    ///
    /// - Parameters:
    ///   - send: sends the question under its id; called once.
    ///   - withdraw: called where the answer is no longer wanted.
    /// - Throws: the `Problem` that nobody can answer, or `CancellationError`.
    func ask(send: (String) -> Void, withdraw: @escaping @Sendable (String) -> Void) async throws -> Answer {
        // Not to be guessed: one client does not answer another's question by mistake.
        let id = UUID().uuidString
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                waiters.withLock { $0[id] = continuation }
                // Cancelled before it could wait: the handler below has found nothing to resume.
                guard !Task.isCancelled else {
                    take(id)?.resume(throwing: CancellationError())
                    return
                }
                send(id)
            }
        } onCancel: {
            guard let waiter = take(id) else { return }
            withdraw(id)
            waiter.resume(throwing: CancellationError())
        }
    }

    /// - Returns: whether the answer was waited for.
    func answer(_ answer: ControlAnswer, to id: String) -> Bool {
        guard let waiter = take(id) else { return false }
        switch answer {
        case .answer(let answer): waiter.resume(returning: answer)
        case .problem(let problem): waiter.resume(throwing: problem)
        }
        return true
    }

    private func take(_ id: String) -> Waiter? { waiters.withLock { $0.removeValue(forKey: id) } }
}
