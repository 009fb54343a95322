import HealthReadings
import ReadingStore

/// How far a reading has come on its way to the server.
public enum DeliveryStep: Sendable, Hashable {
    /// Its source is connected.
    case sourceChecked
    /// The server has answered that it has it.
    case posted
    /// The destination has it and has not confirmed yet that it keeps it.
    case handedOver
    /// That is durable here: it waits no longer.
    case acknowledged
    /// The server refuses it: it waits for a person. The words may repeat its value; they belong into no log.
    case setAside(serverSaid: String)
}

/// What a pass has delivered of a target: what the destination has acknowledged, durably noted here.
public struct SyncedReadings: Sendable, Hashable {
    /// The most ids that are listed.
    public static let idLimit = 100

    /// How many readings.
    public private(set) var count = 0
    /// The earliest of their times at the destination; `nil` if there are none.
    public private(set) var first: Instant?
    /// The latest of their times at the destination; `nil` if there are none.
    public private(set) var last: Instant?
    /// Their ids, in the order in which they were delivered; of more than ``idLimit`` the last ones. The steps
    /// ``SyncEvent/readings(_:_:)`` name every one.
    public private(set) var ids: [ReadingID] = []

    /// Makes it of nothing.
    public init() {}

    /// Adds readings, in the order in which they were delivered.
    mutating func add(_ items: [OutboxItem]) {
        count += items.count
        for index in items.indices {
            let time = items[index].timestamp
            first = first.map { min($0, time) } ?? time
            last = last.map { max($0, time) } ?? time
        }
        ids += items.suffix(Self.idLimit).map(\.reading.id)
        ids.removeFirst(max(0, ids.count - Self.idLimit))
    }
}

/// What the delivery is doing.
public enum SyncEvent: Sendable, Hashable {
    /// Readings of this target are being delivered.
    case syncing(DeliveryTarget)
    /// Everything deliverable of this target was delivered: what it was.
    case successSyncing(DeliveryTarget, SyncedReadings)
    /// The delivery of this target failed; what was delivered before stays so.
    case failedSyncing(DeliveryTarget, DeliveryFailure, SyncedReadings)
    /// Nothing of this kind waits.
    case nothingToSync(ReadingKind)
    /// This target waits for something that is not the network: its source, its owner. The reason may be the server's.
    case held(DeliveryTarget, Hold, count: Int, reason: String?)
    /// Delivery waits for a person: the key is not accepted.
    case paused(DeliveryFailure)
    /// The destination has taken back readings that were excluded, replaced or erased since they were delivered.
    case retracted(count: Int)
    /// The destination has readings that were excluded, replaced or erased since, and cannot take them back.
    case leftBehind(count: Int)
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
        public var target: DeliveryTarget
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
    /// Readings the destination has and has not confirmed yet that it keeps.
    public var handedOver = 0
    /// Readings the destination has taken back.
    public var retracted = 0
    /// What waits and why.
    public var held: [Held] = []
    /// Why the pass ended early, or did not deliver everything.
    public var failure: DeliveryFailure?
}

/// How delivery stands.
public struct SyncStatus: Sendable, Hashable {
    /// When the server last acknowledged something, since this process began; nil: not yet.
    public var lastSuccess: Instant?
    /// When the next attempt is due after a failure; nil: nothing failed.
    public var nextAttempt: Instant?
    /// The failure that the next attempt follows.
    public var failure: DeliveryFailure?
    /// Attempts that failed since the last that did not.
    public var failures = 0
    /// Why the destination's connection was lost last; `nil`: it was not, or the destination has none.
    public var connectionFailure: DeliveryFailure?
}
