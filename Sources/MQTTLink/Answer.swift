import Synchronization

/// What a caller waits for and another thread tells: the first outcome counts.
final class Answer<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, MQTTError>

    private enum State {
        case open
        case awaited(CheckedContinuation<Outcome, Never>)
        case settled(Outcome)
    }

    private let state = Mutex(State.open)

    /// Whether the outcome is known.
    var isSettled: Bool { state.withLock { if case .settled = $0 { true } else { false } } }

    /// Tells the outcome.
    func settle(_ outcome: Outcome) {
        let waiter = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            switch state {
            case .settled: return nil
            case .open:
                state = .settled(outcome)
                return nil
            case .awaited(let waiter):
                state = .settled(outcome)
                return waiter
            }
        }
        waiter?.resume(returning: outcome)
    }

    /// Waits for the outcome, for one caller. A cancelled task gets ``MQTTError/Kind/cancelled`` at once.
    func value() async throws(MQTTError) -> Value {
        let known = state.withLock { state -> Outcome? in if case .settled(let outcome) = state { outcome } else { nil }
        }
        if let known { return try known.get() }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state -> Outcome? in
                    if case .settled(let outcome) = state { return outcome }
                    state = .awaited(continuation)
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            settle(.failure(.cancelled))
        }
        return try outcome.get()
    }
}
