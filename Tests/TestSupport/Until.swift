import TestWidth

/// Waits until something holds; the test's own time limit ends it where it never does.
package func until(_ condition: () async throws -> Bool) async throws {
    while !(try await condition()) { try await Task.sleep(for: .milliseconds(5)) }
}
