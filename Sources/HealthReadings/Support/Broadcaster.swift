import Synchronization

/// Hands elements to every listener, in the order they were sent.
///
/// A slow listener never holds up the sender: it loses the oldest elements beyond its buffer.
package final class Broadcaster<Element: Sendable>: Sendable {
    private struct Listener: Sendable {
        var take: @Sendable (Element) -> Void
        var end: @Sendable () -> Void
    }

    private struct State {
        var listeners: [Int: Listener] = [:]
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
        let leave = follow({ continuation.yield($0) }, atEnd: { continuation.finish() })
        continuation.onTermination = { _ in leave() }
        return stream
    }

    /// Calls for every element from now on.
    ///
    /// - Parameters:
    ///   - take: takes an element, while others wait for theirs: it neither waits nor calls the broadcaster.
    ///   - end: called when the broadcaster has ended all streams, at once if it has for good.
    /// - Returns: what ends the calls; one that is under way may still come through.
    package func follow(
        _ take: @escaping @Sendable (Element) -> Void, atEnd end: @escaping @Sendable () -> Void = {}
    ) -> @Sendable () -> Void {
        let number: Int? = state.withLock { state in
            if state.isClosed { return nil }
            state.last += 1
            state.listeners[state.last] = Listener(take: take, end: end)
            return state.last
        }
        guard let number else {
            end()
            return {}
        }
        return { [weak self] in self?.state.withLock { $0.listeners[number] = nil } }
    }

    /// Whether anybody listens.
    package var hasListeners: Bool { state.withLock { !$0.listeners.isEmpty } }

    /// Sends an element to everybody who listens.
    package func send(_ element: Element) {
        // Under the lock, or two senders could meet two listeners in different orders. Yielding calls nobody back.
        state.withLock { state in for listener in state.listeners.values { listener.take(element) } }
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
        for listener in listeners { listener.end() }
    }
}

extension Broadcaster<Void> {
    /// Wakes everybody who listens.
    package func ring() { send(()) }
}
