import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import VitalClient

/// What becomes of a provider that is no connected source.
public enum SourcePolicy: String, Sendable, Hashable, CaseIterable {
    /// It is connected, once for each person and provider.
    case create
    /// Its readings wait until the owner connects it.
    case require
}

/// Knows people and their connected sources at the server, and decides whether a source's readings may be posted.
///
/// - A source that is connected may be posted to; one that is paused or in error holds its readings.
/// - A source that existed and is gone was revoked by its owner: it stays so until the owner connects it again, here or
///   at the server. It is never connected unasked.
/// - A source that never existed is connected under ``SourcePolicy/create``. A request whose answer was lost is
///   repeated until one answer says that the source exists; from then on it counts as having existed.
///
/// The server's list is asked for again when it is older than a lifetime, after a refusal, and after ``forget()``.
///
/// What a delivery asks and notes, and what an owner says, are done one after the other: an answer that was on its way
/// does not undo an owner's word.
public actor SourceKeeper {
    /// Whether the readings of a source may be posted.
    public struct Decision: Sendable, Hashable {
        /// Why they wait; nil: they may be posted.
        public var hold: Hold?
        /// More about why, perhaps in the server's words.
        public var reason: String?

        static let deliver = Decision(hold: nil, reason: nil)
        static let revoked = Decision(hold: .sourceRevoked, reason: nil)
    }

    private struct Known {
        var listed: [String: VitalSource]
        var checkedAt: Duration
        var decisions: [String: Decision] = [:]
    }

    /// A person's source.
    private struct PersonsSource: Hashable {
        var user: UserKey
        var provider: String
    }

    /// The person whose session the requests carry.
    private enum SessionOwner {
        /// The server calls them by this `client_user_id`.
        case named(String)
        /// The server doesn't let a session ask, or doesn't know the question.
        case unnamed
    }

    private let store: ReadingStore
    private let destination: String
    private let api: VitalAPI
    private let policy: SourcePolicy
    private let lifetime: Duration
    private let clock: SyncClock
    private let logger: Logger
    private var known: [UserKey: Known] = [:]
    /// Whose the session is, once the server was asked.
    private var owner: SessionOwner?
    /// The store's number of the destination, once it is known there.
    private var key: DestinationKey?
    /// The sources that their owners are just revoking, one for each that says so.
    private var revoking: [PersonsSource] = []
    /// What asks the server and what an owner says.
    private let turns = OneAtATime()

    /// - Parameters:
    ///   - store: keeps the people and their sources.
    ///   - destination: the name of the destination whose people and sources these are.
    ///   - api: talks to the server.
    ///   - policy: what becomes of a provider that is no connected source.
    ///   - lifetime: how long a list of sources is believed.
    ///   - clock: the times that lists of sources are believed by.
    ///   - logger: gets what the server does not know.
    public init(
        store: ReadingStore, destination: String = "vital", api: VitalAPI, policy: SourcePolicy,
        lifetime: Duration = .seconds(300),
        clock: SyncClock = .system, logger: Logger = Logger(label: "healthrelay.sync")
    ) {
        self.logger = logger
        self.store = store
        self.destination = destination
        self.api = api
        self.policy = policy
        self.lifetime = lifetime
        self.clock = clock
    }

    /// Where the store keeps what belongs to this server.
    public func place() async throws -> DestinationKey {
        if let key { return key }
        guard let found = try await store.destinations().first(where: { $0.name == destination })?.key else {
            throw StoreError.unknown("destination \(destination)")
        }
        key = found
        return found
    }

    /// Forgets what the server said: the next decision asks again.
    public func forget() {
        known = [:]
        owner = nil
    }

    /// The server's id of a person, who is created there, or adopted, where it is not known yet.
    ///
    /// - Throws: a `DeliveryFailure` of scope `held` if the client's session is another person's.
    public func serverUserID(of user: StoreUser) async throws -> String {
        if let held = try await sessionHold(user), let hold = held.hold {
            throw DeliveryFailure(DeliveryHold(hold, reason: held.reason))
        }
        if let id = try await store.user(user.clientUserID, at: place())?.serverUserID { return id }
        return try await createUser(user)
    }

    private func createUser(_ user: StoreUser) async throws -> String {
        if let id = try await api.signedInUserID() {
            // A session is this person's (``sessionHold(_:)``): there is nobody to create with it.
            try await store.setServerUserID(id, of: user.key, at: place())
            return id
        }
        let created = try await api.createUser(clientUserID: user.clientUserID, fallbackTimeZone: user.timeZone)
        CrashPoint.reach("user.after-create")
        try await store.setServerUserID(created.userID, of: user.key, at: place())
        // One who is adopted keeps the zone they had; they are told with the next list.
        try await store.setZoneAtServer(created.isNew ? user.timeZone : nil, of: user.key, at: place())
        return created.userID
    }

    /// Decides whether a person's readings have to wait because the client's session is another person's: whatever is
    /// posted with it goes into that person's account.
    ///
    /// It is the person's whom the server calls by its name. Where it calls them otherwise, or does not tell, it is whose
    /// account is noted already, or the only person's that there is.
    ///
    /// - Returns: `nil` if the session is the person's own, or requests carry a team's key.
    private func sessionHold(_ user: StoreUser) async throws -> Decision? {
        guard let id = try await api.signedInUserID() else { return nil }
        let name: String? = if case .named(let name) = try await sessionOwner(id) { name } else { nil }
        if name == user.clientUserID { return nil }
        let people = try await store.users(at: place()).filter { !$0.clientUserID.isEmpty }
        let holders = people.filter { $0.serverUserID == id }.map(\.key)
        if !people.contains(where: { $0.clientUserID == name }) {
            if holders == [user.key] || (holders.isEmpty && people.map(\.key) == [user.key]) { return nil }
        } else if holders.contains(user.key) {
            // Earlier versions noted the account of the session for everybody.
            try await store.setServerUserID(nil, of: user.key, at: place())
        }
        return Decision(
            hold: .notSelected,
            reason: name == nil
                ? "the server does not tell whose the sign-in token is, and the store knows several people"
                : "the sign-in token is of the person whose client_user_id at the server is '\(name ?? "")'")
    }

    private func sessionOwner(_ id: String) async throws -> SessionOwner {
        if let owner { return owner }
        let found: SessionOwner
        do {
            found = .named(try await api.user(id).clientUserID)
        } catch let error as VitalError where [.forbidden, .notFound, .refused].contains(error.kind) {
            found = .unnamed
        }
        owner = found
        return found
    }

    /// Whether readings of a provider may be posted now.
    ///
    /// - Parameters:
    ///   - provider: the provider's slug.
    ///   - user: the person.
    ///   - fresh: asks the server, whatever is remembered.
    public func decide(_ provider: String, for user: StoreUser, fresh: Bool = false) async throws -> Decision {
        if let hold = try await sessionHold(user) { return hold }
        if isBeingRevoked(provider, user) { return .revoked }
        if !fresh, let decision = believed(user)?.decisions[provider] { return decision }
        let found: Decision = try await turns.inTurn {
            let entry = fresh ? nil : believed(user)
            // Whoever had the turn before may have decided it.
            if let decision = entry?.decisions[provider] { return decision }
            let listed = if let entry { entry.listed } else { try await list(user) }
            let decision = try await newDecision(provider, for: user, listed)
            known[user.key]?.decisions[provider] = decision
            return decision
        }
        // Its owner may have revoked it since the server was asked.
        return isBeingRevoked(provider, user) ? .revoked : found
    }

    /// Remembers that the server refuses posts of a source it lists as connected: they wait for the list's lifetime.
    func noteRefusal(of provider: String, for user: StoreUser, reason: String?) async throws -> Decision {
        try await turns.inTurn {
            var source = try await stored(provider, user)
            // Revoked while the post was on its way.
            guard source.status != .revoked else { return Decision.revoked }
            let decision = Decision(hold: .sourceError, reason: reason)
            source.status = .error
            try await note(source, user)
            known[user.key]?.decisions[provider] = decision
            return decision
        }
    }

    /// The sources known of a person after asking the server.
    public func sources(of user: StoreUser) async throws -> [ConnectedSource] {
        try await turns.inTurn {
            let listed = try await list(user)
            let providers = Set(listed.keys)
                .union(try await store.sources(user: user.key, at: place()).map(\.provider))
            for provider in providers {
                guard try await stored(provider, user).status != .absent || listed[provider] != nil else { continue }
                let decision = try await newDecision(provider, for: user, listed)
                known[user.key]?.decisions[provider] = decision
            }
            return try await store.sources(user: user.key, at: place())
        }
    }

    /// Connects a source because its owner says so, also one that was revoked.
    public func connect(_ provider: String, for user: StoreUser) async throws {
        try await turns.inTurn {
            let userID = try await serverUserID(of: user)
            _ = try await store.markCreatedOnce(user: user.key, provider: provider, at: place())
            try await api.connectManualSource(provider, for: userID)
            // The owner's word ends a revocation; what the server lists from now on counts.
            var source = try await stored(provider, user)
            source.status = .absent
            source.checkedAt = clock.now()
            try await store.setSource(source, user: user.key, at: place())
            _ = try await confirmed(provider, for: user)
        }
    }

    /// A page at the server on which the person connects a provider themselves.
    ///
    /// - Parameters:
    ///   - provider: the provider's slug.
    ///   - user: the person.
    ///   - redirectURL: where the browser is sent in the end; nil: nowhere.
    public func link(_ provider: String, for user: StoreUser, redirectURL: String?) async throws -> VitalLink {
        let userID = try await serverUserID(of: user)
        do {
            return try await api.createLink(to: provider, for: userID, redirectURL: redirectURL)
        } catch let error as VitalError where error.kind == .notFound {
            // The server has lost the user, or is another server.
            return try await api.createLink(to: provider, for: try await createUser(user), redirectURL: redirectURL)
        }
    }

    /// Asks the server anew, because the owner says that they have connected a source; that ends a revocation here.
    ///
    /// - Returns: the source as it is now; nil where the server does not list it: then nothing has changed.
    public func confirm(_ provider: String, for user: StoreUser) async throws -> ConnectedSource? {
        try await turns.inTurn { try await confirmed(provider, for: user) }
    }

    private func confirmed(_ provider: String, for user: StoreUser) async throws -> ConnectedSource? {
        guard let listed = try await list(user)[provider] else { return nil }
        var source = try await stored(provider, user)
        source.status = .absent
        source.checkedAt = clock.now()
        try await store.setSourceByOwner(source, user: user.key, at: place())
        let decision = try await note(listed, source, user)
        known[user.key]?.decisions[provider] = decision
        return try await stored(provider, user)
    }

    /// Disconnects a source because its owner says so: nothing is posted from this moment on, and the readings stay.
    ///
    /// Where the server cannot be told now, that is thrown; delivery is stopped all the same.
    public func revoke(_ provider: String, of user: StoreUser) async throws {
        // At once, however long the server takes to answer whoever asks it now: a delivery that is told meanwhile that the
        // source is connected sends nothing. And again after them, who may have begun to note what they were told, also if
        // nobody waits for this any more.
        let source = PersonsSource(user: user.key, provider: provider)
        revoking.append(source)
        defer {
            if let index = revoking.firstIndex(of: source) { revoking.remove(at: index) }
        }
        try await noteRevoked(provider, user)
        try await turns.inTurn {
            try await Task { try await noteRevoked(provider, user) }.value
            try await api.deleteSource(provider, of: try await serverUserID(of: user))
            known[user.key]?.listed[provider] = nil
        }
    }

    private func noteRevoked(_ provider: String, _ user: StoreUser) async throws {
        var source = try await stored(provider, user)
        source.status = .revoked
        source.checkedAt = clock.now()
        try await store.setSourceByOwner(source, user: user.key, at: place())
        known[user.key]?.decisions[provider] = .revoked
    }

    // MARK: Asking and deciding

    private func isBeingRevoked(_ provider: String, _ user: StoreUser) -> Bool {
        revoking.contains(PersonsSource(user: user.key, provider: provider))
    }

    /// What the server said of a person, while it is believed.
    private func believed(_ user: StoreUser) -> Known? {
        guard let entry = known[user.key], clock.uptime() - entry.checkedAt < lifetime else { return nil }
        return entry
    }

    /// What is known of a source. A destination that has another name now knows what it knew under the former one: what was
    /// revoked stays so.
    private func stored(_ provider: String, _ user: StoreUser) async throws -> ConnectedSource {
        let place = try await place()
        if let known = try await store.source(user: user.key, provider: provider, at: place) { return known }
        guard
            let former = try await store.sourceUnderAnotherName(user: user.key, provider: provider, at: place)
        else { return ConnectedSource(provider: provider, status: .absent) }
        try await store.setSource(former, user: user.key, at: place)
        return former
    }

    /// - Returns: what the server lists, by provider; ``forget()`` may come before it is used.
    private func list(_ user: StoreUser) async throws -> [String: VitalSource] {
        let userID = try await serverUserID(of: user)
        let sources: [VitalSource]
        do {
            sources = try await api.connectedSources(of: userID)
        } catch let error as VitalError where error.kind == .notFound {
            // The server has lost the user, or is another server. Its sources went with it and stay revoked.
            sources = try await api.connectedSources(of: try await createUser(user))
        }
        try await tellZone(of: user)
        let listed = Dictionary(sources.map { ($0.provider, $0) }, uniquingKeysWith: VitalSource.worse)
        known[user.key] = Known(listed: listed, checkedAt: clock.uptime())
        return listed
    }

    /// Tells the server the person's zone where it knows another: it counts where a source names none.
    ///
    /// Every post names the zone as well, so that readings do not wait for this: a server that does not take it, or lets nobody with
    /// these credentials change a person, is asked again with the next list.
    private func tellZone(of user: StoreUser) async throws {
        guard try await store.zoneAtServer(of: user.key, at: place()) != user.timeZone,
            let userID = try await store.user(user.clientUserID, at: place())?.serverUserID
        else { return }
        do {
            try await api.updateUser(userID, fallbackTimeZone: user.timeZone)
            try await store.setZoneAtServer(user.timeZone, of: user.key, at: place())
        } catch let error as VitalError where error.kind == .forbidden || !error.concernsCredentials {
            logger.info("the server was not told the time zone", metadata: ["code": "\(error.code)"])
        }
    }

    private func newDecision(
        _ provider: String, for user: StoreUser, _ listed: [String: VitalSource]
    ) async throws -> Decision {
        let source = try await stored(provider, user)
        if let listed = listed[provider] {
            guard source.status != .revoked || Self.isNewer(listed, than: source) else {
                return Decision(hold: .sourceRevoked, reason: "revoked here, but not yet removed at the server")
            }
            return try await note(listed, source, user)
        }
        if source.connectedAt != nil || source.status != .absent { return try await noteGone(source, user) }
        guard policy == .create else {
            try await noteAbsent(source, user)
            return Decision(hold: .noSource, reason: nil)
        }
        return try await create(source, user)
    }

    /// Whether the server's connection was made after the one that was revoked.
    private static func isNewer(_ listed: VitalSource, than source: ConnectedSource) -> Bool {
        guard let listed = listed.connectedAt, let revoked = source.connectedAt else { return false }
        return listed > revoked
    }

    private func create(_ source: ConnectedSource, _ user: StoreUser) async throws -> Decision {
        // The mark comes first; where it was set before, an earlier answer was lost: the list does not have it.
        _ = try await store.markCreatedOnce(user: user.key, provider: source.provider, at: place())
        CrashPoint.reach("source.before-create")
        do {
            try await api.connectManualSource(source.provider, for: try await serverUserID(of: user))
        } catch let error as VitalError where !error.isRetryable && !error.concernsCredentials {
            try await noteAbsent(source, user)
            return Decision(hold: .noSource, reason: error.serverSaid ?? error.summary)
        }
        CrashPoint.reach("source.after-create")
        guard let listed = try await list(user)[source.provider] else {
            try await noteAbsent(source, user)
            return Decision(hold: .noSource, reason: "the server does not list the source it has just connected")
        }
        return try await note(listed, source, user)
    }

    private func note(_ listed: VitalSource, _ source: ConnectedSource, _ user: StoreUser) async throws -> Decision {
        var (source, decision) = (source, Decision.deliver)
        switch listed.status {
        case .connected: source.status = .connected
        case .paused:
            source.status = .paused
            decision = Decision(hold: .sourcePaused, reason: nil)
        case .error, .unknown:
            source.status = .error
            let reason = listed.errorDetails.map { "\($0.type): \($0.message)" } ?? listed.status.name
            decision = Decision(hold: .sourceError, reason: reason)
        }
        source.connectedAt = listed.connectedAt ?? source.connectedAt ?? clock.now()
        try await note(source, user)
        return decision
    }

    private func noteGone(_ source: ConnectedSource, _ user: StoreUser) async throws -> Decision {
        var source = source
        source.status = .revoked
        try await note(source, user)
        return .revoked
    }

    private func noteAbsent(_ source: ConnectedSource, _ user: StoreUser) async throws {
        var source = source
        source.status = .absent
        try await note(source, user)
    }

    /// Notes what the server said of a source. One that its owner has revoked since stays so.
    private func note(_ source: ConnectedSource, _ user: StoreUser) async throws {
        var source = source
        if isBeingRevoked(source.provider, user) { source.status = .revoked }
        source.checkedAt = clock.now()
        try await store.setSource(source, user: user.key, at: place())
    }
}
