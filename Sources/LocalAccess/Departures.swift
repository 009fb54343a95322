import Synchronization

/// Rings whenever clients were revoked, so that what is open for them can end.
final class Departures: Sendable {
    private struct State {
        var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
        var last = 0
    }

    private let state = Mutex(State())

    /// Yields after each revocation; at most one is kept for a listener that is busy.
    func bells() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.last += 1
            state.listeners[state.last] = continuation
            return state.last
        }
        continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.listeners[number] = nil } }
        return stream
    }

    func ring() {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield() }
    }
}

extension AccessStore {
    /// Yields after clients were revoked through this store; ask ``isWelcome(_:now:)`` who is still there.
    public func departures() -> AsyncStream<Void> { departed.bells() }
}
