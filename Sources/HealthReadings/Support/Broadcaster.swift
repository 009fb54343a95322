import Synchronization

/// Hands elements to every listener, in the order they were sent.
///
/// A slow listener never holds up the sender: it loses the oldest elements beyond its buffer.
package final class Broadcaster<Element: Sendable>: Sendable {
    private struct State {
        var listeners: [Int: AsyncStream<Element>.Continuation] = [:]
        var last = 0
        var isClosed = false
    }

    private let state = Mutex(State())

    package init() {}

    /// The elements from now on.
    ///
    /// - Parameters:
    ///   - limit: how many elements wait for a busy listener.
    ///   - first: an element that only this listener gets, before all others.
    package func listen(buffering limit: Int, first: Element? = nil) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream<Element>.makeStream(bufferingPolicy: .bufferingNewest(limit))
        if let first { continuation.yield(first) }
        let number: Int? = state.withLock { state in
            if state.isClosed { return nil }
            state.last += 1
            state.listeners[state.last] = continuation
            return state.last
        }
        if let number {
            continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.listeners[number] = nil } }
        } else {
            continuation.finish()
        }
        return stream
    }

    /// Whether anybody listens.
    package var hasListeners: Bool { state.withLock { !$0.listeners.isEmpty } }

    /// Sends an element to everybody who listens.
    package func send(_ element: Element) {
        // Under the lock, or two senders could meet two listeners in different orders. Yielding calls nobody back.
        state.withLock { state in for listener in state.listeners.values { listener.yield(element) } }
    }

    /// Ends every stream. Whoever listens afterwards gets what is sent from then on.
    package func finish() { end(forGood: false) }

    /// Ends every stream, and at once those of whoever listens afterwards.
    package func close() { end(forGood: true) }

    private func end(forGood isClosed: Bool) {
        let listeners = state.withLock { state in
            state.isClosed = state.isClosed || isClosed
            defer { state.listeners = [:] }
            return Array(state.listeners.values)
        }
        // Outside the lock: finishing calls back.
        for listener in listeners { listener.finish() }
    }
}

extension Broadcaster<Void> {
    /// Wakes everybody who listens.
    package func ring() { send(()) }
}
