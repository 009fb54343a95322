/// Waits until a condition holds, without holding a thread.
///
/// - Returns: whether it held within a minute. A machine that is busy gives it longer: the wait is counted in looks.
package func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    for _ in 0..<6000 where !Task.isCancelled {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(10))
    }
    return false
}
