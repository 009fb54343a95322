/// Hands signals from the event loop to who iterates them: what has come and was not taken yet goes over in one burst.
final class SignalBuffer<Signal: Sendable>: Sendable {
    typealias Taken = Result<[Signal]?, DBusError>

    private enum End {
        /// The bus has gone: what has come is still handed over.
        case lost(DBusError)
        /// Nobody listens any more.
        case left
    }

    private struct State {
        var burst: [Signal] = []
        var waiter: CheckedContinuation<Taken, Never>?
        var end: End?
    }

    private let state = Lock(State())

    /// Adds a burst, which is not empty.
    func put(_ burst: [Signal]) {
        let waiter = state.withLock { state -> CheckedContinuation<Taken, Never>? in
            guard state.end == nil else { return nil }
            if let waiter = state.waiter {
                state.waiter = nil
                return waiter
            }
            if state.burst.isEmpty { state.burst = burst } else { state.burst.append(contentsOf: burst) }
            return nil
        }
        waiter?.resume(returning: .success(burst))
    }

    /// Nothing more will come.
    func finish(_ error: DBusError) {
        let waiter = state.withLock { state -> CheckedContinuation<Taken, Never>? in
            guard state.end == nil else { return nil }
            state.end = .lost(error)
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: .failure(error))
    }

    /// Nobody will take anything any more.
    func leave() {
        let waiter = state.withLock { state -> CheckedContinuation<Taken, Never>? in
            defer { (state.burst, state.waiter, state.end) = ([], nil, .left) }
            return state.waiter
        }
        waiter?.resume(returning: .success(nil))
    }

    /// The next burst; nil after ``leave()``.
    func next(isolation: isolated (any Actor)?) async -> Taken {
        if let taken = state.withLock({ Self.take(&$0) }) { return taken }
        return await withCheckedContinuation(isolation: isolation) { continuation in
            let taken = state.withLock { state -> Taken? in
                if let taken = Self.take(&state) { return taken }
                state.waiter = continuation
                return nil
            }
            if let taken { continuation.resume(returning: taken) }
        }
    }

    private static func take(_ state: inout State) -> Taken? {
        if !state.burst.isEmpty {
            var burst: [Signal] = []
            swap(&burst, &state.burst)
            return .success(burst)
        }
        switch state.end {
        case .lost(let error): return .failure(error)
        case .left: return .success(nil)
        case nil: return nil
        }
    }
}
