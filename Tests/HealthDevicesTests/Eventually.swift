import TestSupport
import Testing

/// Waits until something is so, without holding a thread.
func eventually(
    _ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ isSo: () async throws -> Bool
) async throws {
    guard try await TestSupport.eventually(isSo) else {
        Issue.record("never: \(what)", sourceLocation: sourceLocation)
        throw NeverHappened()
    }
}

private struct NeverHappened: Error {}

/// Gives everything that can go on the time to do so, to see that nothing comes of it.
func settle() async throws {
    for _ in 0..<20 { try await Task.sleep(for: .milliseconds(2)) }
}
