extension Clock where Duration == Swift.Duration {
    /// What `body` returns within a time; nil where it takes longer, and is then cancelled and waited for.
    func limit<Result: Sendable>(
        _ duration: Duration, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result? {
        try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try await sleep(for: duration)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    /// Begins to measure: what is returned tells the time since.
    func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
