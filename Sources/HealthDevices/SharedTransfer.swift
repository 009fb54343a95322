import HealthReadings
import Synchronization

/// A transfer that others may follow while it goes on, from its beginning.
final class SharedTransfer: Sendable {
    private struct State {
        var events: [TransferEvent] = []
        var result: Result<ContactSummary, any Error>?
        var followers: [Int: AsyncThrowingStream<TransferEvent, any Error>.Continuation] = [:]
        var nextFollower = 0
    }

    /// Whether all records are asked for.
    let wantsAll: Bool
    private let state = Mutex(State())

    init(wantsAll: Bool) { self.wantsAll = wantsAll }

    /// Notes what happened and tells the followers.
    func note(_ event: TransferEvent) {
        state.withLock { state in
            state.events.append(event)
            for follower in state.followers.values { follower.yield(event) }
        }
    }

    /// Ends the transfer, for the followers too.
    func finish(_ result: Result<ContactSummary, any Error>) {
        let followers = state.withLock { state in
            state.result = result
            defer { state.followers = [:] }
            return Array(state.followers.values)
        }
        for follower in followers { Self.finish(follower, result) }
    }

    /// What has happened so far and what happens from here on.
    func events() -> AsyncThrowingStream<TransferEvent, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: TransferEvent.self)
        let (number, result) = state.withLock { state in
            for event in state.events { continuation.yield(event) }
            state.nextFollower += 1
            if state.result == nil { state.followers[state.nextFollower] = continuation }
            return (state.nextFollower, state.result)
        }
        if let result { Self.finish(continuation, result) }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.followers.removeValue(forKey: number) }
        }
        return stream
    }

    /// Whether the contact has begun.
    var hasBegun: Bool { state.withLock { !$0.events.isEmpty } }

    /// How many of what came was not stored before, and which model it was read as.
    var course: (news: Int, model: String?) {
        state.withLock { state in
            var (news, model) = (0, String?.none)
            for event in state.events {
                switch event {
                case .began(let contact): model = contact.device.model
                case .stored(let outcomes): for case .new in outcomes { news += 1 }
                case .progress, .ended: break
                }
            }
            return (news, model)
        }
    }

    private static func finish(
        _ follower: AsyncThrowingStream<TransferEvent, any Error>.Continuation,
        _ result: Result<ContactSummary, any Error>
    ) {
        switch result {
        case .success: follower.finish()
        case .failure(let error): follower.finish(throwing: error)
        }
    }
}
