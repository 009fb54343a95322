import HealthReadings

/// Hands events to whoever listens. A listener that is slow loses the oldest events beyond its buffer, never holds
/// up delivery.
typealias EventHub = Broadcaster<SyncEvent>

extension Broadcaster<SyncEvent> {
    /// A stream of the events from now on.
    func events() -> AsyncStream<SyncEvent> { listen(buffering: 4096) }

    func emit(_ event: SyncEvent) { send(event) }
}
