import Synchronization

/// Hands events to whoever listens. A listener that is slow loses the oldest events beyond its buffer, never holds
/// up delivery.
final class EventHub: Sendable {
    private struct State {
        var listeners: [Int: AsyncStream<SyncEvent>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    /// A stream of the events from now on.
    func events(buffering limit: Int = 4096) -> AsyncStream<SyncEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: SyncEvent.self, bufferingPolicy: .bufferingNewest(limit))
        let number = state.withLock { state in
            state.next += 1
            state.listeners[state.next] = continuation
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { $0.listeners[number] = nil }
        }
        return stream
    }

    func emit(_ event: SyncEvent) {
        let listeners = state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.yield(event) }
    }

    func finish() {
        let listeners = state.withLock { state in
            defer { state.listeners = [:] }
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }
}
