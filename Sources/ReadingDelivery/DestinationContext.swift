import HealthReadings
import ReadingStore

/// A receipt for readings that were handed over.
public struct Acknowledgement: Sendable, Hashable {
    /// Which revisions of which readings.
    public var ids: [OutboxID]
    /// Whether the destination keeps them.
    public var result: Outcome.Result

    /// Creates a receipt.
    public init(_ ids: [OutboxID], _ result: Outcome.Result = .delivered) {
        self.ids = ids
        self.result = result
    }
}

/// Something that the test of a destination has looked at.
public struct Finding: Sendable {
    /// What was looked at: `address`, `certificate`, `credentials`, `permission`, …
    public var name: String
    /// Whether it is as it has to be; `nil` if that cannot be proven.
    public var isGood: Bool?
    /// What was found.
    public var found: String
    /// What to do about it; `nil` if nothing is to be done.
    public var mend: String?
    /// The error behind it, which says more to who knows it; `nil` if there is none.
    public var cause: (any Error)?

    /// Creates a finding.
    public init(_ name: String, isGood: Bool?, found: String, mend: String? = nil, cause: (any Error)? = nil) {
        self.name = name
        self.isGood = isGood
        self.found = found
        self.mend = mend
        self.cause = cause
    }
}

/// What a destination may use while its connection lives.
public struct DestinationContext: Sendable {
    /// The store's number of the destination.
    public let place: DestinationKey
    private let store: ReadingStore
    private let wakes: @Sendable () -> Void

    init(store: ReadingStore, place: DestinationKey, wakes: @escaping @Sendable () -> Void) {
        self.store = store
        self.place = place
        self.wakes = wakes
    }

    /// Begins a pass at once: the connection is there.
    public func wake() { wakes() }

    /// The people whose readings the store has.
    public func people() async throws -> [StoreUser] { try await store.users() }

    /// A page of readings.
    public func readings(_ query: ReadingQuery) async throws -> ReadingPage { try await store.query(query) }
}
