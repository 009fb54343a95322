extension AsyncThrowingStream where Failure == any Error, Element: Sendable {
    /// A stream of what `body` yields. Ending the iteration cancels it; what it throws ends the stream.
    package static func producing(
        keeping policy: Continuation.BufferingPolicy = .unbounded,
        _ body: @escaping @Sendable (_ yield: @escaping @Sendable (Element) -> Void) async throws -> Void
    ) -> AsyncThrowingStream {
        AsyncThrowingStream(bufferingPolicy: policy) { continuation in
            let task = Task {
                do {
                    try await body { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}
