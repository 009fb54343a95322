import GRDB
import HealthReadings

/// A kind of data that the server did not know when readings of one provider were sent.
struct UnknownResource: Hashable, Sendable {
    var user: Int64
    var kind: ReadingKind
    var provider: String
}

extension ReadingStore {
    private static let unknownSetting = "server.unknown_resources"
    private static let refusedSetting = "server.refused_resources"
    private static let reofferedSetting = "server.reoffered_resources"

    private static func name(_ setting: String, _ destination: DestinationKey) -> String {
        setting + (destination == .vital ? "" : ".\(destination.rawValue)")
    }

    /// Notes whether the server knows the resource of a kind. Readings of an unknown one wait as `source_error`; the
    /// provider's other kinds go on. Kept over restarts.
    public func setUnknownToServer(
        _ isUnknown: Bool, user: UserKey, resource: ReadingKind, provider: String,
        at destination: DestinationKey = .vital
    ) async throws {
        try await set(
            Self.name(Self.unknownSetting, destination),
            UnknownResource(user: user.rawValue, kind: resource, provider: provider), to: isUnknown)
    }

    /// Notes whether the server refuses every reading of a kind from one provider. They wait as `source_error`; the
    /// provider's other kinds go on. Kept over restarts.
    public func setRefusedWhole(
        _ isRefused: Bool, user: UserKey, resource: ReadingKind, provider: String,
        at destination: DestinationKey = .vital
    ) async throws {
        try await set(
            Self.name(Self.refusedSetting, destination),
            UnknownResource(user: user.rawValue, kind: resource, provider: provider), to: isRefused)
    }

    /// Queues the refused readings of a target again, once in the life of a store.
    ///
    /// Earlier versions set readings aside while the server refused everything. The server has now accepted a reading of
    /// the target, so it is known to work: what it still refuses is refused for the reading's sake.
    ///
    /// - Returns: how many wait again.
    @discardableResult
    public func reofferRefused(
        user: UserKey, resource: ReadingKind, provider: String, at destination: DestinationKey = .vital
    ) async throws -> Int {
        let entry = UnknownResource(user: user.rawValue, kind: resource, provider: provider)
        let setting = Self.name(Self.reofferedSetting, destination)
        guard try await !read({ db in try Self.targets(db, setting).contains(entry) }) else { return 0 }
        return try await write(.requeue) { db in
            try Self.set(db, setting, try Self.targets(db, setting).union([entry]))
            try db.execute(
                sql: """
                    UPDATE outbox INDEXED BY outbox_refused SET state = \(outbox: .waiting), attempts = 0, words = NULL
                    WHERE destination = ? AND state = \(outbox: .refused) AND user = ? AND resource = ? AND provider = ?
                    """, arguments: [destination.rawValue, user.rawValue, resource.code, provider])
            return db.changesCount
        }
    }

    private func set(_ setting: String, _ entry: UnknownResource, to isMember: Bool) async throws {
        guard try await read({ db in try Self.targets(db, setting).contains(entry) }) != isMember else { return }
        try await write(.setting) { db in
            var entries = try Self.targets(db, setting)
            if isMember { entries.insert(entry) } else { entries.remove(entry) }
            try Self.set(db, setting, entries)
        }
    }

    private static func set(_ db: Database, _ setting: String, _ entries: Set<UnknownResource>) throws {
        try set(db, setting, lines: entries.map { "\($0.user) \($0.kind.code) \($0.provider)" }.sorted())
    }

    /// Forgets which of a person's data servers did not know, refused or were offered again.
    static func forgetTargets(of user: Int64, _ db: Database) throws {
        for destination in try destinations(db) {
            for setting in [unknownSetting, refusedSetting, reofferedSetting] {
                let place = name(setting, destination.key)
                let entries = try targets(db, place)
                let others = entries.filter { $0.user != user }
                if others != entries { try set(db, place, others) }
            }
        }
    }

    static func unknownToServer(_ db: Database, _ destination: DestinationKey) throws -> Set<UnknownResource> {
        try targets(db, name(unknownSetting, destination))
    }

    static func refusedWhole(_ db: Database, _ destination: DestinationKey) throws -> Set<UnknownResource> {
        try targets(db, name(refusedSetting, destination))
    }

    private static func targets(_ db: Database, _ setting: String) throws -> Set<UnknownResource> {
        Set(
            try lines(db, setting).compactMap { line in
                let parts = line.unicodeScalars.split(separator: " ", maxSplits: 2).map { String($0) }
                guard parts.count == 3, let user = Int64(parts[0]), let code = Int64(parts[1]),
                    let kind = try? ReadingKind(code: code)
                else { return nil }
                return UnknownResource(user: user, kind: kind, provider: parts[2])
            })
    }
}
