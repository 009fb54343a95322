import HealthReadings
import ReadingStore

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
        /// How many in a row were the store's, which are not the destination's and are waited out by themselves.
        var ofStore = 0
        /// How many in a row needed a person.
        var pauses: Int
        var due: Duration
        var failure: DeliveryFailure

        /// The failure that follows an earlier one of the same subject.
        init(_ failure: DeliveryFailure, after earlier: Failure?, at now: Duration, _ backoff: Backoff) {
            self.failure = failure
            count = (earlier?.count ?? 0) + (failure.isOfStore ? 0 : 1)
            ofStore = failure.isOfStore ? (earlier?.ofStore ?? 0) + 1 : 0
            guard !failure.isOfStore else {
                pauses = earlier?.pauses ?? 0
                // What the destination has asked for is waited for all the same.
                due = max(now + backoff.unlisted.delay(failures: ofStore), earlier?.due ?? now)
                return
            }
            pauses = failure.isRetryable ? 0 : (earlier?.pauses ?? 0) + 1
            let wait =
                failure.isRetryable
                ? backoff.delay(failures: count, retryAfter: failure.retryAfter) : backoff.pause(failures: pauses)
            due = now + wait
        }

        /// A refused connection, which alone was tried.
        init(_ failure: DeliveryFailure, count: Int, pauses: Int, at now: Duration, _ backoff: Backoff) {
            (self.failure, self.count, self.pauses) = (failure, count, pauses)
            due = now + backoff.pause(failures: pauses)
        }

        /// The failure that an earlier process has noted, with what is left of its wait.
        init(_ delay: DeliveryDelay, at now: Duration, wall: Instant) {
            failure = DeliveryFailure(delay)
            (count, pauses) = (delay.failures, delay.pauses)
            due = now + .seconds(delay.secondsLeft(at: wall))
        }
    }

    /// Goes on where an earlier process ended: the server as a whole has failed.
    mutating func restore(_ failure: Failure) { server = failure }

    /// Forgets every failure: what caused them is believed to be gone.
    mutating func forget() { self = Circuit() }

    /// Targets in a row that may fail before it counts as the server.
    static let tolerance = 3

    /// The failure of the server as a whole; nil: it is believed to work.
    private(set) var server: Failure?
    private(set) var targets: [DeliveryTarget: Failure] = [:]
    /// The failure to have readings taken back; `nil`: it works, or there is nothing to take back.
    private(set) var retraction: Failure?
    /// Targets that failed since one last succeeded.
    private var inRow: Set<DeliveryTarget> = []

    /// The failure that is to be waited out, and until when; nil: nothing failed.
    var next: Failure? { server ?? (Array(targets.values) + [retraction].compactMap(\.self)).min { $0.due < $1.due } }

    /// When the first wait that ends after a moment is over; `nil`: none does.
    func nextDue(after moment: Duration) -> Duration? {
        if let server { return server.due > moment ? server.due : nil }
        return (targets.values.map(\.due) + [retraction?.due].compactMap(\.self)).filter { $0 > moment }.min()
    }

    /// Whether taking back has to wait by itself.
    func isRetractionWaiting(at now: Duration) -> Bool { retraction.map { $0.due > now } ?? false }

    /// The destination took back what it was asked to.
    mutating func retracted() {
        server = nil
        retraction = nil
    }

    /// Nothing is to be taken back.
    mutating func hasNothingToRetract() { retraction = nil }

    /// Taking back failed: that alone waits.
    mutating func failedToRetract(_ failure: DeliveryFailure, at now: Duration, _ backoff: Backoff) {
        retraction = Failure(failure, after: retraction, at: now, backoff)
    }

    /// Whether a target has to wait by itself.
    func isWaiting(_ target: DeliveryTarget, at now: Duration) -> Bool { targets[target].map { $0.due > now } ?? false }

    /// Targets in the order they are tried: those that failed come last, the longest ago first.
    func ordered<Element>(_ elements: [Element], by target: (Element) -> DeliveryTarget) -> [Element] {
        let failing = elements.filter { targets[target($0)] != nil }
            .sorted { (targets[target($0)]?.due ?? .zero) < (targets[target($1)]?.due ?? .zero) }
        return elements.filter { targets[target($0)] == nil } + failing
    }

    /// The server took something, or said that there is nothing to say: it works, and so does the target.
    mutating func succeeded(_ target: DeliveryTarget) {
        server = nil
        targets[target] = nil
        inRow = []
    }

    /// A target waits for its source or its owner: that is no failure, and says nothing of the server.
    mutating func held(_ target: DeliveryTarget) { targets[target] = nil }

    /// Targets that wait no longer, whatever became of them, have not failed.
    mutating func keep(only waiting: Set<DeliveryTarget>) { targets = targets.filter { waiting.contains($0.key) } }

    /// Notes a failure.
    ///
    /// - Returns: whether the pass goes on with the next target.
    mutating func failed(
        _ target: DeliveryTarget?, _ failure: DeliveryFailure, at now: Duration, _ backoff: Backoff
    ) -> Bool {
        if failure.scope != .destination, let target {
            targets[target] = Failure(failure, after: targets[target], at: now, backoff)
            if failure.isOfTargetAlone { return true }
            inRow.insert(target)
            guard inRow.count >= Self.tolerance else { return true }
        }
        server = Failure(failure, after: server, at: now, backoff)
        return false
    }
}
