import HealthReadings
import ReadingStore

/// Why a delivery failed for now, and for what else that counts.
public struct DeliveryFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// What a failure says about other readings.
    public enum Scope: Sendable, Hashable {
        /// The way there, the destination as a whole, or the credentials: nothing else is worth trying now.
        case destination
        /// One target: the others may go.
        case target
        /// Every reading of one target was refused and none accepted: nothing tells whether it is the readings or the
        /// destination. The target waits, and the others may go.
        case wholeTarget
        /// Something among the readings is refused: fewer, or others, may be taken.
        case items
        /// Too much at once.
        case tooLarge
        /// The target waits for its source or its owner. This is not counted as a failure.
        case held(Hold)
        /// The destination does not know this kind of readings from this provider. The target rests for the longest wait.
        case unknownKind
        /// The delivery was stopped here. This is not counted as a failure.
        case cancelled
    }

    /// What the failure says about other readings.
    public var scope: Scope
    /// The published name: `no_connection`, `rate_limit_exceeded`, `disk_full`, …
    public var code: String
    /// One line for people and logs, without the destination's words.
    public var message: String
    /// The destination's own words. They may repeat a value, so they never belong in a log.
    public var serverSaid: String?
    /// Whether delivery waits for a person.
    public var needsPerson: Bool
    /// Whether the refusal names a place in the reading: evidence that the destination has looked at it.
    public var namesReading = false
    /// Whether the destination may have what was sent, although it has not said so: its answer was lost.
    public var mayHaveArrived = false
    /// Whether it says nothing of other targets, however many of them fail in the same way: a kind of readings lacks a permission
    /// or a place that others do not need.
    public var isOfTargetAlone = false
    /// Whether this gateway's own store failed: it says nothing of the destination, which may work.
    public var isOfStore = false
    /// How long the destination asks to wait.
    public var retryAfter: Duration?

    /// Whether delivery is tried again without anyone doing anything.
    public var isRetryable: Bool { !needsPerson }
    /// The message.
    public var description: String { message }

    /// Creates a failure.
    public init(
        _ scope: Scope, code: String, message: String, serverSaid: String? = nil, needsPerson: Bool = false,
        retryAfter: Duration? = nil
    ) {
        self.scope = scope
        self.code = code
        self.message = message
        self.serverSaid = serverSaid
        self.needsPerson = needsPerson
        self.retryAfter = retryAfter
    }

    /// Maps an error that no destination has mapped: the store's, a cancellation, or an unexpected one.
    public init(_ error: any Error) {
        switch error {
        case let error as DeliveryFailure: self = error
        case let error as StoreError:
            // A damaged row is one person's: the others' readings go on.
            self.init(
                error.isCorrupt ? .target : .destination, code: error.code, message: error.description)
            isOfStore = !error.isCorrupt
        case is CancellationError:
            self.init(.cancelled, code: "cancelled", message: "delivery was stopped")
        default: self.init(.destination, code: "internal", message: "delivery failed: \(type(of: error))")
        }
    }

    /// Creates the failure that a target's readings have to wait.
    public init(_ held: DeliveryHold) {
        self.init(
            .held(held.hold), code: held.hold.rawValue, message: "readings wait: \(held.hold.rawValue)",
            serverSaid: held.reason)
    }

    /// Creates the failure that the destination refuses every reading of a target: nothing tells whether it is the readings
    /// or the destination.
    static func refusalOfAll(_ last: DeliveryFailure) -> DeliveryFailure {
        var failure = DeliveryFailure(
            .wholeTarget, code: "server_refuses_all",
            message: "the server refuses every reading of this kind: \(last.message)",
            serverSaid: last.serverSaid, retryAfter: last.retryAfter)
        if last.isOfTargetAlone { (failure.isOfTargetAlone, failure.needsPerson) = (true, last.needsPerson) }
        return failure
    }

    /// Whether every reading of the target was refused and none accepted.
    var isRefusalOfAll: Bool { scope == .wholeTarget }

    /// Whether the delivery was stopped.
    public var isCancellation: Bool { scope == .cancelled }

    /// Why the target waits; `nil` for a real failure.
    var hold: DeliveryHold? {
        switch scope {
        case .held(let hold): DeliveryHold(hold, reason: serverSaid)
        case .unknownKind: DeliveryHold(.sourceError, reason: serverSaid ?? message)
        case .destination, .target, .wholeTarget, .items, .tooLarge, .cancelled: nil
        }
    }

    /// Whether the destination may have what was being sent.
    var leavesDoubt: Bool { mayHaveArrived || isCancellation }

    /// Whether fewer readings, or others, may be taken.
    package var isAboutItems: Bool { scope == .items || scope == .tooLarge }
}

extension DeliveryFailure {
    /// The failure that an earlier process has noted.
    public init(_ delay: DeliveryDelay) {
        self.init(
            .destination, code: delay.code, message: delay.message, needsPerson: delay.needsPerson,
            retryAfter: delay.needsPerson ? nil : .seconds(delay.seconds))
    }
}
