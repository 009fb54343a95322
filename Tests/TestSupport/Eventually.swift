/// Waits until a condition holds, without holding a thread.
///
/// - Returns: whether it held within a minute, or within `limit`.
package func eventually(
    within limit: Duration = .seconds(60), _ condition: () async throws -> Bool
) async rethrows -> Bool {
    let end = ContinuousClock.now + limit
    repeat {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(5))
    } while ContinuousClock.now < end && !Task.isCancelled
    return false
}
