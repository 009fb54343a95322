import HealthReadings
import Synchronization

/// A transfer that others may follow while it goes on, from its beginning.
final class SharedTransfer: Sendable {
    /// How many of the newest events are kept for those who follow later. No memory of records brings more. A device that sends
    /// as long as it is worn does, and its transfer goes on for days.
    static let mostKept = 4096

    /// What came of a transfer so far.
    struct Course: Sendable {
        /// How many of what came was not stored before.
        var news = 0
        /// Which model the device was read as.
        var model: String?
        /// Whether the device was left while it sent, or before it had measured.
        var wasLeft = false
    }

    private struct State {
        /// What began the transfer, and the newest events.
        var events: [TransferEvent] = []
        var course = Course()
        var received = 0
        /// It goes on for as long as the device is worn.
        var isEndless = false
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
            switch event {
            case .began(let contact): state.course.model = contact.device.model
            case .stored(let outcomes): for case .new in outcomes { state.course.news += 1 }
            case .progress(let received, _): state.received = received
            case .ended: break
            }
            state.events.append(event)
            if state.events.count > 2 * Self.mostKept {
                state.events.removeSubrange(1..<(state.events.count - Self.mostKept))
            }
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

    /// The transfer goes on for as long as the device is worn: those who follow it are told no more, and those who join it
    /// only what has come so far.
    func letFollowersGo() {
        let followers = state.withLock { state in
            state.isEndless = true
            defer { state.followers = [:] }
            return Array(state.followers.values)
        }
        for follower in followers { follower.finish() }
    }

    /// The device is left while it sends, or before it has measured.
    func noteLeft() { state.withLock { $0.course.wasLeft = true } }

    /// What has come so far of a transfer that goes on without those who follow it; `nil` for others.
    var summarySoFar: ContactSummary? {
        state.withLock { $0.isEndless ? ContactSummary(isComplete: true, received: $0.received) : nil }
    }

    /// What has happened so far, as far as it is kept, and what happens from here on.
    func events() -> AsyncThrowingStream<TransferEvent, any Error> {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: TransferEvent.self)
        let (number, result, isEndless) = state.withLock { state in
            for event in state.events { continuation.yield(event) }
            state.nextFollower += 1
            if state.result == nil, !state.isEndless { state.followers[state.nextFollower] = continuation }
            return (state.nextFollower, state.result, state.isEndless)
        }
        if let result {
            Self.finish(continuation, result)
        } else if isEndless {
            continuation.finish()
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.followers.removeValue(forKey: number) }
        }
        return stream
    }

    /// Whether the contact has begun.
    var hasBegun: Bool { state.withLock { !$0.events.isEmpty } }

    /// Whether the device has sent a record.
    var hasSent: Bool { state.withLock { $0.received > 0 } }

    /// What came of it so far.
    var course: Course { state.withLock { $0.course } }

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
