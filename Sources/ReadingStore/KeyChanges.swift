import HealthReadings
import Synchronization

/// The changes of a store's key that somebody has asked for: one runs at a time.
///
/// If two ran at the same time, the one that ends first would destroy a key that rows are still under.
final class KeyChanges: Sendable {
    private struct State {
        /// How many have come to their end.
        var ended = 0
        /// What the last of them has done.
        var last = KeyChange()
    }

    private let turns = Turnstile(width: 1)
    private let course = Broadcaster<StoreProgress>()
    private let state = Mutex(State())

    /// Runs a change, unless another one comes to its end while this one waits for its turn.
    ///
    /// If the other one is stopped or fails, the next in turn runs its own.
    ///
    /// - Parameters:
    ///   - progress: told how far the change that runs is, whoever asked for it.
    ///   - change: is given whom to tell.
    /// - Returns: what this change, or the other one, has done.
    /// - Throws: what `change` throws, and `CancellationError` for a task that is cancelled while it waits.
    func run(
        _ progress: @escaping StoreProgress.Handler,
        _ change: (@escaping StoreProgress.Handler) async throws -> KeyChange
    ) async throws -> KeyChange {
        let leave = course.follow(progress)
        defer { leave() }
        let before = state.withLock(\.ended)
        return try await turns.pass {
            let known = state.withLock(\.self)
            guard known.ended == before else { return known.last }
            let done = try await change { [course] step in course.send(step) }
            state.withLock { $0 = State(ended: $0.ended + 1, last: done) }
            return done
        }
    }
}
