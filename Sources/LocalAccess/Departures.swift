import HealthReadings

extension AccessStore {
    /// Yields after clients were revoked through this store; ask ``isWelcome(_:now:)`` who is still there.
    public func departures() -> AsyncStream<Void> { departed.listen(buffering: 1) }

    /// Calls after clients were revoked through this store; `ring` may not wait.
    ///
    /// - Returns: what ends the calls.
    package func followDepartures(_ ring: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        departed.follow { _ in ring() }
    }
}
