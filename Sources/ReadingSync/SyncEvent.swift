import HealthReadings
import ReadingStore
import VitalClient

/// What is delivered together: one person's readings of one kind from one provider.
public struct SyncTarget: Sendable, Hashable {
    /// The person.
    public var user: UserKey
    /// The kind of readings, which is the server's resource.
    public var resource: ReadingKind
    /// The provider's slug.
    public var provider: String

    /// Makes a target.
    public init(user: UserKey, resource: ReadingKind, provider: String) {
        self.user = user
        self.resource = resource
        self.provider = provider
    }
}

/// How far a reading has come on its way to the server.
public enum DeliveryStep: Sendable, Hashable {
    /// Its source is connected.
    case sourceChecked
    /// The server has answered that it has it.
    case posted
    /// That is durable here: it waits no longer.
    case acknowledged
    /// The server refuses it: it waits for a person. The words may repeat its value; they belong into no log.
    case setAside(serverSaid: String)
}

/// Why a delivery failed for now.
public struct SyncFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The published name: `no_connection`, `rate_limit_exceeded`, `disk_full`, …
    public var code: String
    /// One line for people and logs, without the server's words.
    public var message: String
    /// The server's own words. They may repeat a value; they belong into no log.
    public var serverSaid: String?
    /// Whether it is tried again without anyone doing anything; false: delivery is paused.
    public var isRetryable: Bool
    /// How long the server asks to wait.
    public var retryAfter: Duration?

    /// The message.
    public var description: String { message }

    init(_ error: any Error) {
        switch error {
        case let error as VitalError:
            code = error.code
            message = error.summary
            serverSaid = error.serverSaid
            isRetryable = !error.concernsCredentials
            retryAfter = error.retryAfter
        case let error as StoreError:
            code = error.code
            message = error.description
            isRetryable = true
        case is CancellationError:
            code = "cancelled"
            message = "delivery was stopped"
            isRetryable = true
        default:
            code = "internal"
            message = "delivery failed: \(type(of: error))"
            isRetryable = true
        }
    }
}

extension VitalError {
    /// Whether the key is at fault, so that nothing can be delivered for anyone.
    var concernsCredentials: Bool { kind == .authenticationFailed || kind == .forbidden || kind == .tokenExpired }
}

/// What the delivery is doing.
public enum SyncEvent: Sendable, Hashable {
    /// Readings of this target are being delivered.
    case syncing(SyncTarget)
    /// Everything deliverable of this target was delivered.
    case successSyncing(SyncTarget, delivered: Int)
    /// The delivery of this target failed.
    case failedSyncing(SyncTarget, SyncFailure)
    /// Nothing of this kind waits.
    case nothingToSync(ReadingKind)
    /// This target waits for something that is not the network: its source, its owner. The reason may be the server's.
    case held(SyncTarget, Hold, count: Int, reason: String?)
    /// Delivery waits for a person: the key is not accepted.
    case paused(SyncFailure)
    /// A step of readings on their way.
    case readings([ReadingID], DeliveryStep)
    /// A pass over everything that waits has ended.
    case syncingCompleted
}

/// What a pass over everything that waits came to.
public struct SyncReport: Sendable, Hashable {
    /// A target that is held.
    public struct Held: Sendable, Hashable {
        /// What waits.
        public var target: SyncTarget
        /// Why.
        public var hold: Hold
        /// How many readings.
        public var count: Int
        /// More about why, perhaps in the server's words.
        public var reason: String?
    }

    /// Readings the server has acknowledged.
    public var delivered = 0
    /// Readings the server refused, now set aside.
    public var refused = 0
    /// What waits and why.
    public var held: [Held] = []
    /// Why the pass ended early, or did not deliver everything.
    public var failure: SyncFailure?
}

/// How delivery stands.
public struct SyncStatus: Sendable, Hashable {
    /// When the server last acknowledged something, since this process began; nil: not yet.
    public var lastSuccess: Instant?
    /// When the next attempt is due after a failure; nil: nothing failed.
    public var nextAttempt: Instant?
    /// The failure that the next attempt follows.
    public var failure: SyncFailure?
    /// Attempts that failed since the last that did not.
    public var failures = 0
}
