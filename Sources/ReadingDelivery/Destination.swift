import HealthReadings
import ReadingStore

/// A place that readings are delivered to.
///
/// The ``OutboxWorker`` decides what is sent and when, and records in the store what became of it. A destination checks
/// whether a target's readings may go, cuts a batch into parts, sends a part and reports each reading's outcome. It must
/// be idempotent by reading and timestamp: a part whose answer was lost is sent again.
///
/// Every method maps what goes wrong to a ``DeliveryFailure``, so that the worker needs to know no protocol.
public protocol Destination: Sendable {
    /// The destination's name in the settings and in the store.
    var name: String { get }
    /// What it is: `vital`, `file`, …
    var kind: String { get }
    /// What the destination can express.
    var rules: DestinationRules { get }

    /// Checks whether a target's readings may be sent now, before each batch and each part.
    ///
    /// - Returns: why they wait, or `nil` if they may be sent.
    func hold(_ target: DeliveryTarget, of person: StoreUser) async throws(DeliveryFailure) -> DeliveryHold?

    /// Cuts a batch into what is sent together, in the order it is sent.
    func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart]

    /// Sends a part.
    ///
    /// - Returns: what became of each reading. A reading without an outcome goes on waiting.
    func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome]

    /// Takes back readings that were excluded, replaced or erased since they were delivered. Called only if
    /// ``DestinationRules/canRetract`` is set, and before anything else is sent.
    ///
    /// The destination may never have had them, or may have been asked before: both count as taken back.
    ///
    /// - Returns: what became of each: ``Outcome/Result/delivered`` if the destination has them no longer,
    ///   ``Outcome/Result/refused(_:)`` if it keeps them for good. One without an outcome is asked for again.
    func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result]

    /// Receipts for readings that were only handed over (``Outcome/Result/handedOver``), as they come.
    ///
    /// The worker listens for as long as it runs. A reading whose receipt does not come in time is sent again.
    var acknowledgements: AsyncStream<Acknowledgement> { get }

    /// Says that ``run(_:)`` will be called, before anything is delivered: a connection that a delivery opens first is the one to
    /// keep.
    func willRun() async

    /// Keeps the destination's connection, if it needs one between deliveries.
    ///
    /// The worker calls it once, and again after a growing wait each time it throws. It ends when the connection is no
    /// longer needed, or with the task's cancellation. Deliveries don't wait for it:
    /// ``send(_:)`` throws a failure while there is no connection, and ``DestinationContext/wake()`` ends that wait.
    func run(_ context: DestinationContext) async throws

    /// Checks that readings could be delivered: address, certificate, credentials, permission. Leaves nothing behind: no
    /// reading, and nothing that was not there before.
    ///
    /// - Returns: what was looked at.
    func test() async -> [Finding]
}

extension Destination {
    /// `nil`: nothing waits.
    public func hold(_ target: DeliveryTarget, of person: StoreUser) async throws(DeliveryFailure) -> DeliveryHold? {
        nil
    }

    /// The whole batch at once.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        [DeliveryPart(target: batch.target, person: batch.person, items: batch.items, isLast: batch.isLast)]
    }

    /// Nothing: for a destination that cannot take anything back.
    public func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] { [:] }

    /// None.
    public var acknowledgements: AsyncStream<Acknowledgement> { AsyncStream { $0.finish() } }

    /// Nothing: for a destination that has no connection between deliveries.
    public func willRun() async {}

    /// Nothing: for a destination that has no connection between deliveries.
    public func run(_ context: DestinationContext) async throws {}

    /// Nothing that could be looked at.
    public func test() async -> [Finding] { [] }
}

/// What a destination can express.
public struct DestinationRules: Sendable, Hashable {
    /// The kinds of readings that have a place there.
    public var kinds: Set<ReadingKind>
    /// Whether the destination tells samples apart by their second, so that no two readings of a series may share one.
    public var hasUniqueSeconds: Bool
    /// Whether readings of a kind are one series there, whoever made their device and whatever was sampled. Only with
    /// ``hasUniqueSeconds``.
    public var isOneSeries: Bool
    /// Whether each device's readings are a series of their own there. Only with ``hasUniqueSeconds``.
    public var isSeriesByDevice: Bool
    /// Whether `OutboxItem.offsetMinutes` is kept for it: for documents that show the person's own time.
    public var keepsOffset: Bool
    /// Whether a glucose reading is delivered again when its context comes after it.
    public var takesContexts: Bool
    /// Whether readings are delivered only from a source that the person has connected there.
    public var needsSource: Bool
    /// Whether what was delivered can be taken back.
    public var canRetract: Bool
    /// Whether it takes a person's whole days rather than single readings.
    public var hasWholeDays: Bool
    /// Readings in one delivery at most, 1 … 10,000, unless ``OutboxWorker/Options/batchLimit`` says otherwise.
    public var batchLimit: Int

    /// Creates rules.
    public init(
        kinds: Set<ReadingKind>, hasUniqueSeconds: Bool, needsSource: Bool, canRetract: Bool, isOneSeries: Bool = false,
        isSeriesByDevice: Bool = false, keepsOffset: Bool = false, takesContexts: Bool = true,
        hasWholeDays: Bool = false, batchLimit: Int = 500
    ) {
        self.kinds = kinds
        self.hasUniqueSeconds = hasUniqueSeconds
        self.isOneSeries = isOneSeries
        self.isSeriesByDevice = isSeriesByDevice
        self.keepsOffset = keepsOffset
        self.takesContexts = takesContexts
        self.needsSource = needsSource
        self.canRetract = canRetract
        self.hasWholeDays = hasWholeDays
        self.batchLimit = batchLimit
    }
}

extension ReadingStore {
    /// Makes a destination known by its rules, and queues for it what it may get.
    ///
    /// - Parameters:
    ///   - name: the destination's name.
    ///   - kind: what the destination is: `vital`, `file`, …
    ///   - rules: what it can express.
    ///   - address: a fingerprint of its address; `nil` leaves the known one.
    @discardableResult
    package func setDestination(
        _ name: String, kind: String, _ rules: DestinationRules, address: String? = nil
    ) async throws -> DestinationKey {
        try await setDestination(
            name, kind: kind, kinds: rules.kinds, hasUniqueSeconds: rules.hasUniqueSeconds,
            isOneSeries: rules.isOneSeries, isSeriesByDevice: rules.isSeriesByDevice, keepsOffset: rules.keepsOffset,
            takesContexts: rules.takesContexts, needsSource: rules.needsSource, canRetract: rules.canRetract,
            address: address)
    }
}

/// What is delivered together: one person's readings of one kind from one provider.
public struct DeliveryTarget: Sendable, Hashable {
    /// The person.
    public var user: UserKey
    /// The kind of readings.
    public var resource: ReadingKind
    /// The provider's slug.
    public var provider: String

    /// Creates a target.
    public init(user: UserKey, resource: ReadingKind, provider: String) {
        self.user = user
        self.resource = resource
        self.provider = provider
    }
}

/// Why a target's readings wait.
public struct DeliveryHold: Sendable, Hashable {
    /// The published reason.
    public var hold: Hold
    /// Details, perhaps in the destination's words.
    public var reason: String?

    /// Creates a hold.
    public init(_ hold: Hold, reason: String? = nil) {
        self.hold = hold
        self.reason = reason
    }
}

/// The oldest waiting readings of a target.
public struct DeliveryBatch: Sendable {
    /// Whose and which readings these are.
    public var target: DeliveryTarget
    /// The person.
    public var person: StoreUser
    /// The readings, oldest first.
    public var items: [OutboxItem]
    /// The range of timestamps the pass is limited to; `nil` if it is not.
    public var range: ClosedRange<Instant>?
    /// Whether nothing of the target waits behind the batch.
    public var isLast: Bool

    /// The batch in parts, in its order.
    ///
    /// - Parameters:
    ///   - most: what a part weighs at most; an item that weighs more is a part of its own.
    ///   - weight: what an item weighs; `nil`: 1.
    package func parts(of most: Int, weight: ((OutboxItem) -> Int)? = nil) -> [DeliveryPart] {
        guard !items.isEmpty else { return [] }
        if weight == nil, items.count <= most {
            return [DeliveryPart(target: target, person: person, items: items, isLast: isLast)]
        }
        var (starts, total) = ([0], 0)
        // An item is large: in the buffer none is copied.
        items.withUnsafeBufferPointer { items in
            for index in items.indices {
                let own = weight?(items[index]) ?? 1
                if index > 0, total + own > most {
                    starts.append(index)
                    total = 0
                }
                total += own
            }
        }
        return zip(starts, starts.dropFirst() + [items.count]).map { start, end in
            // All of it mostly, which is then not copied.
            let own = end - start == items.count ? items : Array(items[start..<end])
            return DeliveryPart(target: target, person: person, items: own, isLast: isLast && end == items.count)
        }
    }
}

/// What is sent together.
public struct DeliveryPart: Sendable {
    /// Whose and which readings these are.
    public var target: DeliveryTarget
    /// The person.
    public var person: StoreUser
    /// The readings, oldest first.
    public var items: [OutboxItem]
    /// Whether nothing that belongs with these readings follows.
    public var isLast: Bool

    /// Creates a part.
    public init(target: DeliveryTarget, person: StoreUser, items: [OutboxItem], isLast: Bool) {
        self.target = target
        self.person = person
        self.items = items
        self.isLast = isLast
    }

    /// The first and the second half.
    var halves: (DeliveryPart, DeliveryPart) {
        let middle = items.count / 2
        var (first, second) = (self, self)
        first.items = Array(items[..<middle])
        first.isLast = false
        second.items = Array(items[middle...])
        return (first, second)
    }
}

/// What became of a reading that was sent.
public struct Outcome: Sendable, Hashable {
    /// What became of it.
    public enum Result: Sendable, Hashable {
        /// The destination has it.
        case delivered
        /// The destination has it; whether it keeps it comes with a receipt (``Destination/acknowledgements``).
        case handedOver
        /// The destination never takes it as it is; the words say why.
        case refused(String)
        /// It was sent by itself, and that failed. What became of the others is noted first. A refusal sets it aside once
        /// the destination has taken another; any other failure ends the delivery for now.
        case failed(DeliveryFailure)
    }

    /// Which revision of which reading.
    public var id: OutboxID
    /// What became of it.
    public var result: Result

    /// Creates an outcome.
    public init(_ id: OutboxID, _ result: Result) {
        self.id = id
        self.result = result
    }
}
