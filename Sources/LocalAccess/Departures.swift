import HealthReadings

extension AccessStore {
    /// Yields after clients were revoked through this store; ask ``isWelcome(_:now:)`` who is still there.
    public func departures() -> AsyncStream<Void> { departed.listen(buffering: 1) }
}
