import Synchronization

/// Counts what the door has done since the gateway began.
package final class RequestCounters: Sendable {
    private struct State {
        var answers: [Int: Int] = [:]
        var streams = 0
        var failures: [String: Int] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// Counts an answer.
    func count(status: Int) { state.withLock { $0.answers[status, default: 0] += 1 } }
    /// Counts a contact that did not bring what it should, by its published code.
    package func count(failure code: String) { state.withLock { $0.failures[code, default: 0] += 1 } }
    /// A stream of events begins (+1) or ends (-1).
    func streams(_ change: Int) { state.withLock { $0.streams += change } }

    /// Answers by status.
    var answers: [Int: Int] { state.withLock(\.answers) }
    /// How many streams of events are open.
    package var openStreams: Int { state.withLock(\.streams) }
    /// Contacts that failed, by code.
    var failures: [String: Int] { state.withLock(\.failures) }
}
