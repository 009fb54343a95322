/// The outcome of connecting: the first that is told counts.
final class Opening: Sendable {
    typealias Outcome = Result<BusTransport, DBusError>

    private enum State {
        case idle
        case waiting(CheckedContinuation<Void, Never>)
        case settled(Outcome)
    }

    private let state = Lock(State.idle)

    /// Whether an outcome has been told.
    var isSettled: Bool {
        state.withLock { state in if case .settled = state { true } else { false } }
    }

    /// Tells an outcome.
    ///
    /// - Returns: whether it is the first.
    func settle(_ outcome: Outcome) -> Bool {
        let (isFirst, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
            switch state {
            case .settled: return (false, nil)
            case .idle:
                state = .settled(outcome)
                return (true, nil)
            case .waiting(let waiter):
                state = .settled(outcome)
                return (true, waiter)
            }
        }
        waiter?.resume()
        return isFirst
    }

    /// Starts something and waits for its outcome; does not start it where an outcome has been told already.
    func outcome(of start: () -> Void) async -> Outcome {
        await withCheckedContinuation { continuation in
            let isSettled = state.withLock { state in
                if case .settled = state { return true }
                state = .waiting(continuation)
                return false
            }
            if isSettled { continuation.resume() } else { start() }
        }
        return state.withLock { state in
            guard case .settled(let outcome) = state else { return .failure(.cancelled) }
            return outcome
        }
    }
}
