import GatewaySettings
import HealthDevices
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import Synchronization
import VitalClient
import VitalDestination

/// The destinations that a gateway delivers to, and what the store is told of them.
package struct Destinations: Sendable {
    /// The destinations, in the order of the settings.
    let links: [DestinationLink]
    /// Whether ``links`` are all that there are: else those of the settings that are missing stay as they are.
    let hasAllLinks: Bool
    /// Whether this is `run`, which owns the destinations whatever the settings name.
    let isService: Bool
    let store: ReadingStore
    let catalogue: Catalogue
    /// The settings in effect.
    let settings: LiveSettings
    let logger: Logger

    /// The destination of this name.
    ///
    /// - Throws: `Problem` if there is none, if it counts only after a restart, or if the gateway was told to leave it alone.
    func require(_ name: String) throws(Problem) -> DestinationLink {
        if let link = links.first(where: { $0.name == name }) { return link }
        guard settings.current.destination(name) != nil else {
            throw Problem.noSuchDestination(name, among: links.map(\.name))
        }
        let isSandboxed = links.contains { $0.name == DestinationSetting.sandboxName }
        // Nothing was left out, so it has come to the settings since the gateway was started.
        guard isSandboxed || !hasAllLinks else {
            throw Problem(
                "no_such_destination", .noInput,
                "the destination '\(name)' is in the settings, and the gateway that runs was started without it",
                hint: "restart the gateway: `systemctl restart healthrelay`, or stop `run` and start it again")
        }
        throw Problem(
            "no_such_destination", .noInput, "the gateway that runs leaves the destination '\(name)' alone",
            hint: isSandboxed
                ? "`run --sandbox --destination \(name)` delivers to it beside the sandbox"
                : "`run --destination \(name)` delivers to it")
    }

    /// The destinations that a command means: the one of this name, or all.
    func chosen(_ name: String?) throws(Problem) -> [DestinationLink] {
        guard let name else { return links }
        return [try require(name)]
    }

    /// How delivery to each destination stands, in the order of the settings.
    package func statuses() async throws -> [DestinationStatus] {
        let known = try await store.destinations()
        let unconfirmed = try await UnconfirmedConsents(of: store)
        var statuses: [DestinationStatus] = []
        for link in links {
            guard let stored = known.first(where: { $0.name == link.name }) else { continue }
            let statistics = try await store.statistics(of: stored.key)
            let last = try await lastFailure(at: stored.key, link)
            statuses.append(
                DestinationStatus(
                    name: link.name, kind: link.setting.kind.name, address: link.open?.address,
                    isEnabled: stored.state != .disabled, isManual: settings.current.isManual(link.setting),
                    refusal: link.refusal, isMoved: stored.state == .moved,
                    waiting: try await groupsWaiting(at: stored.key, link)
                        + store.groupsAwaitingContext(at: stored.key),
                    handedOver: try await store.handedOverCount(at: stored.key), delivered: statistics.delivered,
                    // While the store is locked so are the words, and the groups that wait say so.
                    refused: store.lockedBecause == nil ? try await store.refused(at: stored.key) : [],
                    refusedCount: statistics.refused,
                    retracting: try await store.retractionCount(at: stored.key),
                    leftBehindCount: try await store.leftBehind(at: stored.key),
                    leftBehind: store.lockedBecause == nil ? try await store.readingsLeftBehind(at: stored.key) : [],
                    notDelivered: ReadingKind.allCases.compactMap { kind in
                        Self.keptBecause(kind, at: link).map { (kind, statistics.readings[kind] ?? 0, $0) }
                    }, lastSuccess: statistics.lastDelivery, failure: last.failure,
                    warnings: try await [unconfirmed?.warning(at: stored.key)].compactMap(\.self)
                        + store.warnings(of: stored.key), nextAttempt: last.next))
        }
        return statuses
    }

    /// What failed last, and when it is tried again: as this process knows, or an earlier one has noted.
    private func lastFailure(
        at key: DestinationKey, _ link: DestinationLink
    ) async throws -> (failure: DeliveryFailure?, next: Instant?) {
        guard let worker = link.worker else { return (nil, nil) }
        let status = await worker.status
        if let failure = status.failure { return (failure, status.nextAttempt) }
        // Whoever is let in no more is to hear of it before a reading has to be delivered.
        if let failure = status.connectionFailure, failure.needsPerson { return (failure, nil) }
        guard let delay = try await store.delay(of: key), delay.settings == link.settingsMark else { return (nil, nil) }
        let (now, failure) = (Instant.systemClock, DeliveryFailure(delay))
        let left = delay.secondsLeft(at: now)
        // Other waits have ended with the process that noted them.
        return (failure, delay.outlivesProcess && left > 0 ? now.advanced(bySeconds: left) : nil)
    }

    /// What waits for a destination, also where the destination itself holds it.
    private func groupsWaiting(at key: DestinationKey, _ link: DestinationLink) async throws -> [OutboxGroup] {
        var groups = try await store.groupsWaiting(at: key, heedsMode: true)
        // A Vital-compatible server would be asked, and the store knows what it said last.
        guard !link.isServer, let destination = link.open?.destination, store.lockedBecause == nil else {
            return groups
        }
        for place in groups.indices where groups[place].held == nil {
            let group = groups[place]
            let target = DeliveryTarget(user: group.user, resource: group.resource, provider: group.provider)
            // Whose row was changed outside of this program is said elsewhere.
            guard let person = try? await store.user(group.user, at: key) else { continue }
            groups[place].held = try? await destination.hold(target, of: person)?.hold
        }
        return groups
    }

    /// `{enabled, destinations}`, as `sync status` prints it.
    package func document() async throws -> JSONValue {
        .object([
            "enabled": .bool(try await store.isSyncEnabled()),
            "destinations": .array(try await statuses().map(\.document)),
        ])
    }

    /// Why readings of a kind do not go to a destination, or not whole; `nil` if they do.
    private static func keptBecause(_ kind: ReadingKind, at link: DestinationLink) -> String? {
        let opening = link.setting.kind.opening
        return opening.rules(link.setting).kinds.contains(kind)
            ? opening.partlyKept(link.setting)[kind]
            : kind.keptBecause ?? "a \(link.setting.kind.name) destination has no place for it"
    }

    /// Tells the store which destinations there are, and what each gets.
    ///
    /// A destination that the settings no longer name gets nothing more. A command that finds no settings file changes
    /// none of them: it may look at a store that a service with settings of its own delivers from.
    package func heed() async throws {
        for (name, rule) in try rules() { try await store.setRule(rule, of: name) }
        guard saysAddresses else { return }
        // While the store is locked, too: what was denied to a destination counts under its new name from the first delivery on.
        if store.lockedBecause != nil { try await removeUnnamed() }
        // What is queued is sealed: a locked store queues nothing before its key has come back.
        guard store.lockedBecause == nil else { return }
        for link in links {
            try await store.setDestination(
                link.name, kind: link.setting.kind.name, link.setting.kind.opening.rules(link.setting),
                address: link.open?.fingerprint)
        }
        // Last, so that nothing can be pruned which one of them is still to get under its new name.
        try await removeUnnamed()
    }

    /// Whether these settings say where destinations are.
    private var saysAddresses: Bool { isService || !settings.current.hasImpliedDestination }

    /// Switches a destination on or off. It waits if its address has changed while it was off.
    func setEnabled(_ isEnabled: Bool, _ link: DestinationLink) async throws {
        try await store.setDestinationEnabled(
            isEnabled, link.name, address: saysAddresses ? link.open?.fingerprint : nil)
    }

    /// Has the store deliver nothing more to destinations that the settings no longer name.
    private func removeUnnamed() async throws {
        for known in try await store.destinations()
        where known.state != .removed && !links.contains(where: { $0.name == known.name })
            && (hasAllLinks || settings.current.destination(known.name) == nil)
        {
            try await store.removeDestination(known.name)
            // Every store begins with one that nobody may have used.
            guard known.enabledAt != nil || known.address != nil else { continue }
            logger.notice("a destination is no longer in the settings", metadata: ["destination": "\(known.name)"])
        }
    }

    /// What the store is told of each destination.
    ///
    /// - Throws: `Problem` as ``rule(of:)``; also for a destination that counts only after a restart, with which the gateway
    ///   would not start.
    func rules() throws(Problem) -> [(name: String, rule: DestinationRule)] {
        var rules: [(name: String, rule: DestinationRule)] = []
        for link in links {
            rules.append((link.name, try rule(of: settings.current.destination(link.name) ?? link.setting)))
        }
        if hasAllLinks {
            for destination in settings.current.destinations { _ = try rule(of: destination) }
        }
        return rules
    }

    /// What the store is told of a destination.
    ///
    /// - Throws: `Problem` for a device that nobody can mean: what a person keeps from a destination must not get there
    ///   because of a slip.
    private func rule(of destination: DestinationSetting) throws(Problem) -> DestinationRule {
        var (addresses, models): (Set<UInt64>, Set<String>) = ([], [])
        for entry in destination.list("devices") {
            if let address = DeviceAddress(entry) {
                addresses.insert(address.bits)
            } else if catalogue[entry] != nil {
                models.insert(entry)
            } else {
                throw destination.unusable(
                    "devices",
                    "expected a device's address or a model of `healthrelay catalog`, found '\(entry)'")
            }
        }
        let (kinds, people) = (destination.list("kinds"), destination.list("people"))
        return DestinationRule(
            isManual: settings.current.isManual(destination), backfillDays: settings.current.backfillDays(destination),
            selection: DestinationSelection(
                kinds: kinds.isEmpty ? nil : Set(kinds.compactMap(ReadingKind.init(rawValue:))),
                people: people.isEmpty ? nil : Set(people),
                devices: addresses.isEmpty && models.isEmpty
                    ? nil : DestinationSelection.Devices(addresses: addresses, models: models)))
    }
}

// MARK: Workers and servers

extension Destinations {
    /// Delivery to the first destination; `nil` where nothing is delivered.
    package var worker: OutboxWorker? { workers.first }

    /// Delivery, a worker for each destination.
    package var workers: [OutboxWorker] { links.compactMap(\.worker) }

    /// Says to every worker that something new may wait.
    package func wake() { for worker in workers { worker.wake() } }

    /// The server whose people and sources `user` and `source` are about: the destination `vital`, or the first
    /// Vital-compatible one.
    var primary: DestinationLink? {
        let servers = links.filter(\.isServer)
        return servers.first { $0.name == DestinationSetting.serverName } ?? servers.first
    }

    /// Where the store keeps what belongs to the primary server.
    package func primaryPlace() async throws -> DestinationKey {
        guard let name = primary?.name else { return .vital }
        return try await store.destinations().first { $0.name == name }?.key ?? .vital
    }

    /// The primary server, or the problem that there is none.
    ///
    /// - Throws: ``Problem``, also while its address has changed and nobody has accepted the new one: nobody is to be made
    ///   or asked for there by a slip.
    func requireServer() async throws -> VitalLink {
        guard let link = primary, let server = link.open?.vital else { throw primary?.refusal ?? Problem.noServer }
        try await requireSettled(link)
        return server
    }

    /// People and their sources at the server, or the problem that there is no server.
    func requireSources() async throws -> SourceKeeper { try await requireServer().sources }

    /// The server, or the problem that there is none.
    func requireAPI() async throws -> VitalAPI { try await requireServer().api }

    /// Refuses a destination whose address has changed and whose new one nobody has accepted.
    func requireSettled(_ link: DestinationLink) async throws {
        guard try await store.destinations().first(where: { $0.name == link.name })?.state == .moved else { return }
        throw Problem(
            "address_changed", .configuration, "the address of \(link.name) has changed, so it is not asked",
            hint: "if the new address is meant: `healthrelay destination accept \(link.name)`")
    }

    /// What a person is told of destinations that nothing is delivered to.
    package var undelivered: [String] {
        if links.count < 2 {
            guard workers.isEmpty else { return [] }
            return [links.first?.refusal?.message ?? "no key for a server is set; readings are kept"]
        }
        return links.filter { $0.worker == nil }.map {
            "\($0.name): \($0.refusal?.message ?? "no key is set; readings are kept")"
        }
    }

    /// Why nothing is delivered anywhere.
    var nothingDelivered: Problem? {
        guard workers.isEmpty else { return nil }
        return links.lazy.compactMap(\.refusal).first ?? (links.isEmpty ? .noDestination : .noServer)
    }

    /// Does work while nothing is delivered anywhere.
    func withoutDelivery<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        var work = work
        for worker in workers {
            let inner = work
            work = { try await worker.withoutDelivery(inner) }
        }
        return try await work()
    }
}

extension Problem {
    /// The problem that there is nowhere to deliver to.
    static let noDestination = Problem(
        "no_server_key", .configuration, "no destination is set, so nothing can be delivered; readings are kept",
        hint: "add one under `destinations` in the settings: Documentation/delivery.md")

    /// The problem that no server can be delivered to.
    static let noServer = Problem(
        "no_server_key", .configuration,
        "there is no key for the server, so nothing can be delivered; readings are kept",
        hint: "put the key into a file (mode 0600) and name it: `api_key_file` of the destination")
}

extension DestinationWorkshop {
    /// The destinations to deliver to; see ``Gateway/open(_:state:sandbox:named:radio:isService:patience:logger:)``.
    func links(_ sandbox: VitalConnection?, named: [String]?) -> [DestinationLink] {
        var links: [DestinationLink] = []
        if let sandbox {
            // Its port is another at each start.
            var open = open(sandbox, as: DestinationSetting.sandboxName)
            open.isAddressBinding = false
            links.append(link(DestinationSetting(name: DestinationSetting.sandboxName, kind: .vital), open))
        }
        let chosen = named ?? (sandbox == nil ? settings.destinations.map(\.name) : [])
        return links + settings.destinations.filter { chosen.contains($0.name) }.map(link)
    }
}

/// The settings in effect, which change when they are read again.
final class LiveSettings: Sendable {
    private let state: Mutex<Settings>

    init(_ settings: Settings) { state = Mutex(settings) }

    /// The settings in effect.
    var current: Settings { state.withLock(\.self) }

    func replace(with settings: Settings) { state.withLock { $0 = settings } }
}
