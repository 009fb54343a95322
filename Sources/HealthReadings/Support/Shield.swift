/// Runs work that has to be finished, although the task around it may be cancelled: a commit, a disconnect.
///
/// The work runs in a task of its own, outside the caller's actor, and has the caller's priority.
///
/// - Throws: what the work throws.
package func shieldedFromCancellation<Success: Sendable, Failure: Error>(
    _ work: sending @escaping () async throws(Failure) -> Success
) async throws(Failure) -> Success {
    let task = Task { () async -> Result<Success, Failure> in
        do throws(Failure) { return .success(try await work()) } catch { return .failure(error) }
    }
    return try await task.value.get()
}
