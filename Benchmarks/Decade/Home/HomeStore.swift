import HealthReadings
import ReadingStore
import Synchronization

/// The store of a home, filled by the same calls with which the gateway fills it, at the time of day that the home has.
public final class HomeStore: Sendable {
    /// The store.
    public let store: ReadingStore
    private let clock: Clock

    /// The store's clock: it shows what the home's day has come to.
    private final class Clock: Sendable {
        let now: Mutex<Instant>
        init(_ now: Instant) { self.now = Mutex(now) }
    }

    /// Opens the sealed store of a directory, making it if it's missing.
    ///
    /// - Parameters:
    ///   - directory: the state directory.
    ///   - now: the time that the store's clock begins with.
    ///   - encryption: whether its content is sealed.
    public init(_ directory: String, at now: Instant, encryption: StoreEncryption = .on()) async throws {
        let clock = Clock(now)
        self.clock = clock
        store = try await ReadingStore.open(
            directory: directory, decoder: HomeDecoder(), clientUserID: Home.people.anna, timeZone: Home.zone,
            encryption: encryption, now: { clock.now.withLock(\.self) })
    }

    /// Closes the store.
    public func close() throws { try store.close() }

    /// Moves the clock on.
    public func advance(to instant: Instant) { clock.now.withLock { $0 = max($0, instant) } }

    /// Makes the people, their devices and the destinations known, as the gateway does with its settings.
    ///
    /// - Returns: the destinations, in the order of ``Place``.
    public func furnish() async throws -> [Place: DestinationKey] {
        try await store.setPeople(
            [Home.people.anna, Home.people.ben].map { person in
                StorePerson(
                    clientUserID: person, timeZone: Home.zone,
                    shares: Home.owners.filter { $0.person == person }.map { .init(address: $0.address, slot: $0.slot) }
                )
            })
        var keys: [Place: DestinationKey] = [:]
        for place in Place.allCases { keys[place] = try await place.register(in: store) }
        for known in try await store.destinations() where Place(rawValue: known.name) == nil {
            try await store.removeDestination(known.name)
        }
        return keys
    }

    /// Stores what a visit brings.
    ///
    /// - Parameters:
    ///   - keepsGrowing: whether a frame that grows is kept each time it has grown.
    ///   - committed: called after each commit with what was committed.
    /// - Returns: how many readings are new.
    public func keep(
        _ visit: Visit, keepsGrowing: Bool, committed: @Sendable (Committed) async throws -> Void = { _ in }
    ) async throws -> Int {
        advance(to: visit.start)
        var contact = try await store.beginContact(
            with: visit.device, at: visit.start, clock: visit.clock, batteryPercent: nil)
        try await committed(.contact)
        if visit.beginsEpoch {
            contact = try await store.beginSequenceEpoch(in: contact)
            try await committed(.contact)
        }
        var (new, received) = (0, 0)
        for commit in visit.commits {
            advance(to: commit.at)
            if commit.isGrowing {
                guard keepsGrowing else { continue }
                for frame in commit.frames {
                    try await store.keep(frame, of: contact)
                    try await committed(.growing(frame))
                }
                continue
            }
            received += commit.frames.count
            let outcomes = try await store.append(commit.frames, of: contact)
            for outcome in outcomes {
                if case .new = outcome { new += 1 }
            }
            try await committed(.readings(commit.frames, outcomes))
        }
        advance(to: visit.end)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: received))
        try await committed(.contact)
        return new
    }

    /// What a commit has made durable.
    public enum Committed: Sendable {
        /// That a contact began or ended.
        case contact
        /// A frame that isn't whole.
        case growing(Frame)
        /// Frames, and what became of each.
        case readings([Frame], [FrameOutcome])
    }

    /// Stores what a person types in, and withdraws it if they do.
    public func keep(_ typed: TypedEntry) async throws {
        advance(to: typed.at)
        guard let user = try await store.user(Home.people.anna) else { throw HomeError.zone }
        let entry = try ManualEntry(
            typed.entry, person: Home.people.anna, zones: try await store.zones(of: user.key), now: typed.at)
        try await store.enter(entry)
        guard typed.isWithdrawn else { return }
        advance(to: typed.at.advanced(bySeconds: 3600))
        try await store.withdraw(entry.id)
    }

    /// Notes all that waits for a destination as delivered, as the gateway does when the destination has taken it.
    ///
    /// - Parameter committed: called after each commit with how many readings it acknowledged.
    public func deliver(
        to destination: DestinationKey, committed: @Sendable (Int) throws -> Void = { _ in }
    ) async throws {
        // Without a range the store would count all that waits everywhere.
        let all = Instant(seconds: 0)...Instant(seconds: 4_000_000_000)
        for group in try await store.groupsWaiting(in: all, at: destination) where group.held == nil {
            while true {
                let items = try await store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 2000, at: destination)
                if items.isEmpty { break }
                try await store.acknowledge(items.map(\.id), at: clock.now.withLock(\.self))
                try committed(items.count)
            }
        }
    }
}

/// Where the home's readings go. Each destination has the rules of its kind in the gateway.
public enum Place: String, Sendable, CaseIterable {
    /// A time-series database that keeps up: nothing but the last hours waits.
    case archive
    /// A Nightscout site that was unreachable for the last days.
    case diary
    /// A clinic's FHIR server that is switched off since half of the time.
    case clinic

    /// What it is in the settings.
    public var kind: String {
        switch self {
        case .archive: "influxdb"
        case .diary: "nightscout"
        case .clinic: "fhir"
        }
    }

    func register(in store: ReadingStore) async throws -> DestinationKey {
        switch self {
        case .archive:
            try await store.setDestination(
                rawValue, kind: kind, kinds: ReadingKind.delivered, hasUniqueSeconds: true, isSeriesByDevice: true,
                needsSource: false, canRetract: true)
        case .diary:
            try await store.setDestination(
                rawValue, kind: kind, kinds: [.glucose], hasUniqueSeconds: true, isOneSeries: true, keepsOffset: true,
                takesContexts: false, needsSource: false, canRetract: true)
        case .clinic:
            try await store.setDestination(
                rawValue, kind: kind, kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false,
                canRetract: true)
        }
    }
}
