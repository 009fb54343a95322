import GatewaySettings
import HealthReadings
import ReadingStore

/// The arguments of `watch --subscriber` and `subscriber`.
public enum SubscriberOperation: Codable, Sendable, Hashable {
    /// Changes behind the place where the last watch under a name ended, then as they come.
    case watch(SubscriberWatch)
    /// The names.
    case list
    /// Forgets a name.
    case remove(String)
}

/// The arguments of `watch --subscriber`.
public struct SubscriberWatch: Codable, Sendable, Hashable {
    /// The name.
    public var name: String
    /// Kinds; `nil`: as the name was made, or all.
    public var types: [String]?
    /// The client's id of the person; `nil`: as the name was made, or everybody.
    public var person: String?
    /// Whether a new name begins with everything that is stored.
    public var fromBeginning: Bool
    /// Whether it ends when everything since is shown.
    public var once: Bool

    /// Makes it.
    public init(
        name: String, types: [String]? = nil, person: String? = nil, fromBeginning: Bool = false, once: Bool = false
    ) {
        self.name = name
        self.types = types
        self.person = person
        self.fromBeginning = fromBeginning
        self.once = once
    }
}

/// `watch --subscriber` and `subscriber`: changes, at least once, under a name.
struct SubscriberRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    /// How many changes are shown before it is noted that they were.
    private static let atOnce = 100

    func run(_ operation: SubscriberOperation) async throws {
        switch operation {
        case .watch(let watch): try await self.watch(watch)
        case .list: try await list()
        case .remove(let name):
            try await gateway.store.removeSubscriber(name)
            guard json else { return try await output.note("the subscriber \(name) is removed") }
            try await output.data(JSONValue.object(["name": .string(name), "removed": true]).text)
        }
    }

    private func watch(_ watch: SubscriberWatch) async throws {
        let store = gateway.store
        let subscription = try await store.subscribe(
            as: watch.name, to: scope(of: watch), from: watch.fromBeginning ? .beginning : .now)
        defer { subscription.end() }
        guard !watch.once else { return try await showAll(of: subscription) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await WatchRunner(gateway: gateway, json: json, output: output).readMeters() }
            group.addTask {
                for try await page in subscription.pages(limit: Self.atOnce) {
                    try await take(page, of: subscription)
                }
                try Task.checkCancellation()
                // The person was erased, and the subscriber with them.
                throw SubscriberError.unknown(watch.name)
            }
            group.addTask {
                // One that is removed while nothing comes ends at once as well.
                for await _ in store.changeRings() where try await !isThere(watch.name) {
                    throw SubscriberError.unknown(watch.name)
                }
            }
            while try await group.next() != nil {}
        }
    }

    private func isThere(_ name: String) async throws -> Bool { try await gateway.store.hasSubscriber(name) }

    private func showAll(of subscription: Subscription) async throws {
        var position = subscription.start
        while let page = try await gateway.store.changePage(
            after: position, of: subscription.scope, limit: Self.atOnce)
        {
            if page.position != position { try await take(page, of: subscription) }
            position = page.position
            if page.isLast { return }
        }
    }

    /// Shows a page; it counts as taken only when it is where the output goes.
    private func take(_ page: ChangePage, of subscription: Subscription) async throws {
        var consents: [UserKey?: Set<ReadingKind>] = [:]
        for change in page.changes {
            let kinds: Set<ReadingKind>
            if let known = consents[change.owner] {
                kinds = known
            } else {
                kinds = try await gateway.store.consentedKinds(of: change.owner)
                consents[change.owner] = kinds
            }
            // What nobody consented to is shown to nobody, and passed over.
            guard let change = change.heeding(kinds) else { continue }
            try await output.data(json ? change.document.text : change.line)
        }
        if !page.changes.isEmpty { try await output.settle() }
        CrashPoint.reach("subscriber.shown")
        try await subscription.advance(to: page.position)
    }

    private func scope(of watch: SubscriberWatch) async throws -> ChangeScope? {
        guard watch.types != nil || watch.person != nil else { return nil }
        var scope = ChangeScope.everything
        scope.kinds = try watch.types.map { types in Set(try types.map { try ReadingKind.argument($0) }) }
        guard let person = watch.person else { return scope }
        guard !person.isEmpty, let user = try await gateway.store.user(person) else {
            throw Problem("no_such_user", .noInput, "the store knows no user \(person.prefix(64))")
        }
        scope.person = user.key
        return scope
    }

    private func list() async throws {
        let subscribers = try await gateway.store.subscriberList()
        guard !json else {
            return try await output.data(
                JSONValue.object(["subscribers": .array(subscribers.map(\.document))]).text)
        }
        if subscribers.isEmpty {
            try await output.note("nobody reads under a name: `watch --subscriber NAME` makes one")
        }
        for subscriber in subscribers { try await output.data(subscriber.line) }
    }
}

extension ReadingChange {
    /// The change as somebody may see it who may see readings of these kinds; `nil`: not at all.
    fileprivate func heeding(_ kinds: Set<ReadingKind>) -> ReadingChange? {
        var change = self
        switch event {
        case .added(let reading):
            guard kinds.contains(reading.kind) else { return nil }
            if !kinds.contains(.weight) { change.event = .added(reading.withholdingWeight) }
        case .revised(let reading):
            guard kinds.contains(reading.kind) else { return nil }
            if !kinds.contains(.weight) { change.event = .revised(reading.withholdingWeight) }
        case .left(_, let kind): guard kinds.contains(kind) else { return nil }
        case .pruned, .erased, .unreadable: break
        }
        return change
    }

    /// `added`, `revised`, `left`, `pruned`, `erased` or `unreadable`.
    private var name: String {
        switch event {
        case .added: "added"
        case .revised: "revised"
        case .left: "left"
        case .pruned: "pruned"
        case .erased: "erased"
        case .unreadable: "unreadable"
        }
    }

    private var id: ReadingID? {
        if case .left(let id, _) = event { return id }
        return reading?.id
    }

    /// `{change, position, id, revision, last_updated, reading}`.
    fileprivate var document: JSONValue {
        .object([
            "change": .string(name), "position": .string(position.description), "id": .optional(id?.description),
            "revision": id == nil ? .null : .integer(Int64(revision)), "last_updated": .string(lastUpdated.description),
            "reading": reading?.document ?? .null,
        ])
    }

    fileprivate var line: String {
        switch event {
        case .added(let reading): reading.line
        case .revised(let reading): "revised: \(reading.line)"
        case .left(let id, _): "left: \(id) is another person's now"
        case .pruned: "pruned: readings that destinations have were removed here"
        case .erased: "erased: readings of a person were erased"
        case .unreadable: "unreadable: a stored reading is damaged; `store verify` names it"
        }
    }
}

extension Subscriber {
    /// `{name, types, person, position, waiting, created_at, advanced_at, attached}`.
    fileprivate var document: JSONValue {
        .object([
            "name": .string(name),
            "types": kinds.map { .array($0.map(\.rawValue).sorted().map(JSONValue.string)) } ?? .null,
            "person": .optional(person), "position": .string(position.description),
            "waiting": .integer(Int64(waiting)), "created_at": .string(createdAt.description),
            "advanced_at": .optional(advancedAt?.description), "attached": .bool(isAttached),
        ])
    }

    fileprivate var line: String {
        var parts = ["\(name): \(waiting) waiting"]
        if let kinds { parts.append(kinds.map(\.rawValue).sorted().joined(separator: ",")) }
        if let person { parts.append("of \(person)") }
        if isAttached { parts.append("attached") }
        return parts.joined(separator: ", ")
    }
}
