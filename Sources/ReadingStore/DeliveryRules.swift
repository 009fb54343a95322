import GRDB
import HealthReadings

/// Whose readings are kept and not delivered.
public struct IgnoredOrigins: Sendable, Hashable {
    /// Slugs of providers.
    public var providers: Set<String>
    /// Ids of the catalogue's models.
    public var models: Set<String>
    /// Bits of devices' addresses, public or random; see `DeviceAddress.bits`.
    public var addresses: Set<UInt64>

    /// Makes a list.
    public init(providers: Set<String> = [], models: Set<String> = [], addresses: Set<UInt64> = []) {
        self.providers = providers
        self.models = models
        self.addresses = addresses
    }
}

extension ReadingStore {
    /// Says whose readings are kept and wait as `ignored`; kept over restarts. What is no longer ignored is delivered.
    public func setIgnored(_ origins: IgnoredOrigins) async throws {
        guard try await read({ db in try Self.ignoredOrigins(db) }) != origins else { return }
        try await write(.setting) { db in
            try Self.set(db, "sync.ignored_providers", lines: origins.providers.sorted())
            try Self.set(db, "sync.ignored_models", lines: origins.models.sorted())
            try Self.set(db, "sync.ignored_addresses", lines: origins.addresses.sorted().map(String.init))
        }
    }

    /// Says how many days before the first contact with its device a reading may have been measured to be delivered;
    /// older ones are kept and wait as `older_than_backfill`. Kept over restarts.
    ///
    /// - Parameter days: 0: only what was measured since; nil: however old.
    public func setBackfillDays(_ days: Int?) async throws {
        guard try await read({ db in try Self.backfillDays(db) }) != days else { return }
        try await write(.setting) { db in
            try Self.set(db, "sync.backfill_days", lines: days.map { [String($0)] } ?? [])
        }
    }

    /// The zone the server was last told of a user; nil: none yet.
    public func zoneAtServer(of user: UserKey, at destination: DestinationKey = .vital) async throws -> String? {
        try await read { db in try Self.lines(db, Self.zoneSetting(user.rawValue, destination)).first }
    }

    /// Notes which zone the server was told of a user; nil: none.
    public func setZoneAtServer(
        _ zone: String?, of user: UserKey, at destination: DestinationKey = .vital
    ) async throws {
        try await write(.setting) { db in
            try Self.set(db, Self.zoneSetting(user.rawValue, destination), lines: zone.map { [$0] } ?? [])
        }
    }

    static func zoneSetting(_ user: Int64, _ destination: DestinationKey) -> String {
        "server.zone.\(user)" + (destination == .vital ? "" : ".\(destination.rawValue)")
    }

    /// Slugs of the providers of what is stored, and those that are ignored already: what a list of ignored providers may name,
    /// whatever else is known of them.
    package func knownProviders() async throws -> Set<String> {
        try await read { db in
            var providers = try Self.ignoredOrigins(db).providers
            let select = try PreparedStatement(db, "SELECT DISTINCT provider FROM device")
            defer { select.reset() }
            while try select.next() {
                if let provider = select.text(0) { providers.insert(provider) }
            }
            return providers
        }
    }

    /// Whether everything of a provider is kept and not delivered.
    static func isIgnored(provider: String, _ db: Database) throws -> Bool {
        try ignoredOrigins(db).providers.contains(provider)
    }

    static func ignoredOrigins(_ db: Database) throws -> IgnoredOrigins {
        IgnoredOrigins(
            providers: Set(try lines(db, "sync.ignored_providers")), models: Set(try lines(db, "sync.ignored_models")),
            addresses: Set(try lines(db, "sync.ignored_addresses").compactMap(UInt64.init)))
    }

    static func backfillDays(_ db: Database) throws -> Int? {
        try lines(db, "sync.backfill_days").first.flatMap(Int.init)
    }

    /// The lines of a setting; none where it is not set.
    static func lines(_ db: Database, _ name: String) throws -> [String] {
        let select = try PreparedStatement(db, "SELECT value FROM setting WHERE name = ?")
        select.bind(1, name)
        defer { select.reset() }
        guard try select.next(), let text = select.text(0) else { return [] }
        // By octets: a line feed behind a carriage return is no character of its own.
        return text.utf8.split(separator: UInt8(ascii: "\n")).map { String(Substring($0)) }
    }

    /// Writes the lines of a setting; none: takes it out.
    static func set(_ db: Database, _ name: String, lines: [String]) throws {
        if lines.isEmpty {
            try db.execute(sql: "DELETE FROM setting WHERE name = ?", arguments: [name])
        } else {
            try db.execute(
                sql: "INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)",
                arguments: [name, lines.joined(separator: "\n")])
        }
    }
}
