import HealthDevices
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// How delivery to one destination stands.
struct DestinationStatus: Sendable {
    var name: String
    var kind: String
    /// Where it is; `nil` if nothing says so.
    var address: String?
    var isEnabled: Bool
    var isManual: Bool
    /// Why it is paused until its settings are another; `nil` if they can be used.
    var refusal: Problem?
    /// Whether its address has changed and nobody has accepted the new one.
    var isMoved: Bool
    var waiting: [OutboxGroup]
    var delivered: Int
    /// The newest of what it refused; none while the store is locked.
    var refused: [RefusedReading]
    var refusedCount: Int
    /// Kinds of readings that stay here, with how many there are and why.
    var notDelivered: [(kind: ReadingKind, count: Int, reason: String)]
    var lastSuccess: Instant?
    var delivery: SyncStatus?

    /// Why nothing is delivered until a person does something.
    var paused: String? {
        refusal?.message
            ?? (isMoved
                ? "its address has changed; `healthrelay destination accept \(name)` delivers to the new one" : nil)
    }

    /// `{name, kind, enabled, waiting, delivered, refused, not_delivered, last_success, next_attempt}`.
    var document: JSONValue {
        .object([
            "name": .string(name), "kind": .string(kind), "enabled": .bool(isEnabled),
            "waiting": .array(waiting.map(\.document)), "delivered": .integer(Int64(delivered)),
            "refused": .array(
                refused.map { .object(["id": .string($0.id.description), "server_said": .string($0.serverSaid)]) }),
            "not_delivered": .array(
                notDelivered.map {
                    .object([
                        "kind": .string($0.kind.rawValue), "count": .integer(Int64($0.count)),
                        "reason": .string($0.reason),
                    ])
                }),
            "last_success": .optional(lastSuccess?.flooredToSecond.description),
            "next_attempt": .optional(delivery?.nextAttempt?.flooredToSecond.description),
        ])
    }

    /// The status for people.
    var lines: [String] {
        var lines = ["\(name) (\(kind))" + (address.map { ": \($0)" } ?? "") + (isEnabled ? "" : ", switched off")]
        if let paused { lines.append("  delivery is paused: \(paused)") }
        for group in waiting {
            let reason = group.heldWords.map { ", held: \($0)" } ?? ""
            lines.append(
                "  \(group.count) \(group.resource.rawValue) for \(group.provider) wait since \(group.oldest)\(reason)")
        }
        if waiting.isEmpty { lines.append("  nothing waits") }
        if let failure = delivery?.failure, let next = delivery?.nextAttempt {
            let waits = failure.isRetryable ? "the last attempt failed" : "delivery waits for a person"
            lines.append("  \(waits): \(failure.message); next attempt at \(next.flooredToSecond)")
        }
        lines += refused.map { "  refused: \($0.id): the server said: \($0.serverSaid)" }
        lines += notDelivered.filter { $0.count > 0 }.map { "  \($0.count) \($0.kind.rawValue): \($0.reason)" }
        let last = lastSuccess.map { ", last at \($0.flooredToSecond)" } ?? ""
        return lines + ["  delivered: \(delivered)\(last)"]
    }
}

extension OutboxGroup {
    /// `{provider, kind, count, oldest, held}`.
    fileprivate var document: JSONValue {
        .object([
            "provider": .string(provider), "kind": .string(resource.rawValue), "count": .integer(Int64(count)),
            "oldest": .string(oldest.flooredToSecond.description), "held": .optional(held?.rawValue),
        ])
    }
}

extension Gateway {
    /// The destination of this name.
    ///
    /// - Throws: ``Problem`` if there is none, or the gateway was told to leave it alone.
    func requireLink(_ name: String) throws(Problem) -> DestinationLink {
        guard let link = links.first(where: { $0.name == name }) else { throw settings.noSuchDestination(name) }
        return link
    }

    /// The destinations that a command means: the one of this name, or all.
    func chosenLinks(_ name: String?) throws(Problem) -> [DestinationLink] {
        guard let name else { return links }
        return [try requireLink(name)]
    }

    /// How delivery to each destination stands, in the order of the settings.
    func destinationStatuses() async throws -> [DestinationStatus] {
        let known = try await store.destinations()
        var statuses: [DestinationStatus] = []
        for link in links {
            guard let stored = known.first(where: { $0.name == link.name }) else { continue }
            let statistics = try await store.statistics(of: stored.key)
            statuses.append(
                DestinationStatus(
                    name: link.name, kind: link.setting.kind.name, address: link.open?.address,
                    isEnabled: stored.state != .disabled, isManual: settings.isManual(link.setting),
                    refusal: link.refusal, isMoved: stored.state == .moved,
                    waiting: try await store.groupsWaiting(at: stored.key, heedsMode: true),
                    delivered: statistics.delivered,
                    // While the store is locked so are the words, and the groups that wait say so.
                    refused: store.lockedBecause == nil ? try await store.refused(at: stored.key) : [],
                    refusedCount: statistics.refused,
                    notDelivered: ReadingKind.allCases.compactMap { kind in
                        Self.keptBecause(kind, at: link).map { (kind, statistics.readings[kind] ?? 0, $0) }
                    }, lastSuccess: statistics.lastDelivery, delivery: await link.worker?.status))
        }
        return statuses
    }

    /// Why no reading of a kind goes to a destination; `nil` if it goes there.
    private static func keptBecause(_ kind: ReadingKind, at link: DestinationLink) -> String? {
        if let reason = kind.keptBecause { return reason }
        return link.setting.kind.rules.kinds.contains(kind)
            ? nil : "a \(link.setting.kind.name) destination has no place for it"
    }

    /// Tells the store which destinations there are, and what each gets.
    ///
    /// A destination that the settings no longer name gets nothing more. A command that finds no settings file changes
    /// none of them: it may look at a store that a service with settings of its own delivers from.
    func heedDestinations() async throws {
        for link in links {
            let setting = settings.destination(link.name) ?? link.setting
            try await store.setRule(destinationRule(setting), of: link.name)
        }
        // What is queued is sealed: a locked store queues nothing before its key has come back.
        guard isService || !settings.hasImpliedDestination, store.lockedBecause == nil else { return }
        for link in links {
            let rules = link.setting.kind.rules
            try await store.setDestination(
                link.name, kind: link.setting.kind.name, kinds: rules.kinds, hasUniqueSeconds: rules.hasUniqueSeconds,
                needsSource: rules.needsSource, canRetract: rules.canRetract, address: link.open?.fingerprint)
        }
        guard hasAllLinks else { return }
        for known in try await store.destinations()
        where known.state != .removed && !links.contains(where: { $0.name == known.name }) {
            try await store.removeDestination(known.name)
            // Every store begins with one that nobody may have used.
            guard known.enabledAt != nil || known.address != nil else { continue }
            logger.notice("a destination is no longer in the settings", metadata: ["destination": "\(known.name)"])
        }
    }

    /// What the store is told of a destination.
    ///
    /// - Throws: ``Problem`` for a device that nobody can mean: what a person keeps from a destination must not get there
    ///   because of a slip.
    private func destinationRule(_ destination: DestinationSetting) throws(Problem) -> DestinationRule {
        var (addresses, models): (Set<UInt64>, Set<String>) = ([], [])
        for entry in destination.list("devices") {
            if let address = DeviceAddress(entry) {
                addresses.insert(address.bits)
            } else if catalogue[entry] != nil {
                models.insert(entry)
            } else {
                throw Problem(
                    "config_invalid", .configuration,
                    "destinations.\(destination.name).devices: expected a device's address or a model of "
                        + "`healthrelay catalog`, found '\(entry)'")
            }
        }
        let (kinds, people) = (destination.list("kinds"), destination.list("people"))
        return DestinationRule(
            isManual: settings.isManual(destination), backfillDays: settings.backfillDays(destination),
            selection: DestinationSelection(
                kinds: kinds.isEmpty ? nil : Set(kinds.compactMap(ReadingKind.init(rawValue:))),
                people: people.isEmpty ? nil : Set(people),
                devices: addresses.isEmpty && models.isEmpty
                    ? nil : DestinationSelection.Devices(addresses: addresses, models: models)))
    }
}

// MARK: Workers and servers

extension Gateway {
    /// Delivery to the first destination; `nil` where nothing is delivered.
    public var worker: OutboxWorker? { workers.first }

    /// Delivery, a worker for each destination.
    var workers: [OutboxWorker] { links.compactMap(\.worker) }

    /// Says to every worker that something new may wait.
    func wakeWorkers() { for worker in workers { worker.wake() } }

    /// The server whose people and sources `user` and `source` are about: the destination `vital`, or the first
    /// Vital-compatible one.
    var primary: DestinationLink? {
        let servers = links.filter { $0.setting.kind.name == DestinationKind.vital.name }
        return servers.first { $0.name == DestinationSetting.serverName } ?? servers.first
    }

    /// Where the store keeps what belongs to the primary server.
    func primaryPlace() async throws -> DestinationKey {
        guard let name = primary?.name else { return .vital }
        return try await store.destinations().first { $0.name == name }?.key ?? .vital
    }

    /// The primary server, or the problem that there is none.
    func requireServer() throws -> VitalLink {
        guard let server = primary?.open?.vital else { throw primary?.refusal ?? Self.noServer }
        return server
    }

    /// People and their sources at the server, or the problem that there is no server.
    func requireSources() throws -> SourceKeeper { try requireServer().sources }

    /// The server, or the problem that there is none.
    func requireAPI() throws -> VitalAPI { try requireServer().api }

    /// What a person is told of destinations that nothing is delivered to.
    var undelivered: [String] {
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
        return links.lazy.compactMap(\.refusal).first ?? Self.noServer
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

extension Settings {
    /// Whether nobody has named a destination or set anything of one: then there is one named `vital`, without a key.
    var hasImpliedDestination: Bool { destinations.allSatisfy(\.isImplied) && !destinations.isEmpty }

    /// The problem that a command names a destination that there is not.
    func noSuchDestination(_ name: String) -> Problem {
        let names = destinations.map(\.name).joined(separator: ", ")
        return Problem(
            "no_such_destination", .noInput, "there is no destination named '\(name.prefix(64))'",
            hint: names.isEmpty ? "the settings name no destination" : "destinations: \(names)")
    }

    /// Whether readings go to a destination only when somebody asks.
    func isManual(_ destination: DestinationSetting) -> Bool { (destination["mode"] ?? self["sync.mode"]) == "manual" }

    /// How many days before the first contact with its device a reading may have been measured.
    func backfillDays(_ destination: DestinationSetting?) -> Int? {
        (destination?["backfill_days"] ?? self["sync.backfill_days"]).flatMap(Int.init)
    }

    /// The keys of destinations that differ from these and count only after a restart.
    func destinationsThatDiffer(from old: Settings) -> [String] {
        guard destinations.map(\.name) == old.destinations.map(\.name) else { return ["destinations"] }
        return zip(destinations, old.destinations).flatMap { fresh, old in
            fresh.kind.settings.map(\.key).filter { !DestinationKind.live.contains($0) && !fresh.isSame(old, $0) }
                .map { "destinations.\(fresh.name).\($0)" }
        }
    }
}
