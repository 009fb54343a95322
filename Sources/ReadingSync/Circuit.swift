import HealthReadings
import VitalClient

/// What failed and when it is tried again: the way to the server as a whole, and each target by itself.
///
/// A target that fails waits alone: the others go on, in this pass and in the next ones. Where the failure is the
/// server's as a whole, or targets fail one after another, nothing is sent to it until the wait is over; then one
/// target's first request tells whether it is back.
///
/// Times are of a clock that is never set, so that a jump of the gateway's own neither hurries nor delays anything.
struct Circuit {
    /// A failure and when its target is due again.
    struct Failure {
        var count: Int
        var due: Duration
        var failure: SyncFailure
    }

    /// Targets in a row that may fail before it counts as the server.
    static let tolerance = 3

    /// The failure of the server as a whole; nil: it is believed to work.
    private(set) var server: Failure?
    private(set) var targets: [SyncTarget: Failure] = [:]
    /// Targets that failed since one last succeeded.
    private var inRow: Set<SyncTarget> = []

    /// The failure that is to be waited out, and until when; nil: nothing failed.
    var next: Failure? { server ?? targets.values.min { $0.due < $1.due } }

    /// Whether a target has to wait by itself.
    func isWaiting(_ target: SyncTarget, at now: Duration) -> Bool { targets[target].map { $0.due > now } ?? false }

    /// Targets in the order they are tried: those that failed come last, the longest ago first.
    func ordered<Element>(_ elements: [Element], by target: (Element) -> SyncTarget) -> [Element] {
        let failing = elements.filter { targets[target($0)] != nil }
            .sorted { (targets[target($0)]?.due ?? .zero) < (targets[target($1)]?.due ?? .zero) }
        return elements.filter { targets[target($0)] == nil } + failing
    }

    /// The server took something, or said that there is nothing to say: it works, and so does the target.
    mutating func succeeded(_ target: SyncTarget) {
        server = nil
        targets[target] = nil
        inRow = []
    }

    /// A target waits for its source or its owner: that is no failure, and says nothing of the server.
    mutating func held(_ target: SyncTarget) { targets[target] = nil }

    /// Targets that wait no longer, whatever became of them, have not failed.
    mutating func keep(only waiting: Set<SyncTarget>) { targets = targets.filter { waiting.contains($0.key) } }

    /// Notes a failure.
    ///
    /// - Parameter isTheServers: whether asking for another target would be pointless.
    /// - Returns: whether the pass goes on with the next target.
    mutating func failed(
        _ target: SyncTarget?, _ failure: SyncFailure, isTheServers: Bool, at now: Duration, _ backoff: Backoff
    ) -> Bool {
        func next(_ earlier: Failure?) -> Failure {
            let count = (earlier?.count ?? 0) + 1
            let wait =
                failure.isRetryable
                ? backoff.delay(failures: count, retryAfter: failure.retryAfter) : backoff.longest
            return Failure(count: count, due: now + wait, failure: failure)
        }
        if !isTheServers, let target {
            targets[target] = next(targets[target])
            inRow.insert(target)
            guard inRow.count >= Self.tolerance else { return true }
        }
        server = next(server)
        return false
    }
}

extension VitalError {
    /// Whether the way to the server, the server as a whole, or the key is at fault.
    ///
    /// A single 5xx or a time-out may be about one target alone: a post too much for the server, one person's data.
    var isTheServers: Bool {
        switch kind {
        case .noConnection, .untrustedServer, .redirected, .rateLimitExceeded, .notJSON, .authenticationFailed,
            .forbidden, .tokenExpired:
            true
        case .serverError, .timeout, .unexpectedAnswer, .answerTooLarge: retryAfter != nil
        default: false
        }
    }
}
