import Foundation
import GRDB
import HealthReadings

/// A source of a user at the server, as it was when last checked.
public struct ConnectedSource: Sendable, Hashable {
    /// What the server says of a source.
    public enum Status: String, Sendable, Hashable, CaseIterable {
        /// Posts are accepted.
        case connected
        /// Delivery waits until the owner resumes it.
        case paused
        /// Delivery waits until the error at the server is mended.
        case error
        /// The source existed and is gone: it stays so until the owner connects it again.
        case revoked
        /// Never connected.
        case absent
    }

    /// The provider's slug: `accuchek_ble`.
    public var provider: String
    /// What the server said.
    public var status: Status
    /// Whether we have created it once; it is never created a second time unasked.
    public var wasCreatedOnce: Bool
    /// When it was first seen connected.
    public var connectedAt: Instant?
    /// When the server was last asked.
    public var checkedAt: Instant?

    /// Makes a source.
    public init(
        provider: String, status: Status, wasCreatedOnce: Bool = false, connectedAt: Instant? = nil,
        checkedAt: Instant? = nil
    ) {
        self.provider = provider
        self.status = status
        self.wasCreatedOnce = wasCreatedOnce
        self.connectedAt = connectedAt
        self.checkedAt = checkedAt
    }

    /// Why readings of this source wait; nil where they do not.
    public var hold: Hold? {
        switch status {
        case .connected: nil
        case .absent: .noSource
        case .revoked: .sourceRevoked
        case .paused: .sourcePaused
        case .error: .sourceError
        }
    }
}

extension ReadingStore {
    /// The source of a user and provider; nil where nothing is known of it.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)`` if a source of the user was changed outside of this program.
    public func source(
        user: UserKey, provider: String, at destination: DestinationKey = .vital
    ) async throws -> ConnectedSource? {
        try await read { [sealing] db in
            try Self.sources(db, sealing, user: user, at: destination).first { $0.provider == provider }
        }
    }

    /// All sources known of a user at a destination, by provider.
    public func sources(user: UserKey, at destination: DestinationKey = .vital) async throws -> [ConnectedSource] {
        try await read { [sealing] db in try Self.sources(db, sealing, user: user, at: destination) }
    }

    /// What is known of a source at another destination of the same kind and address that calls the person by the same id: the
    /// same account under another name. `nil`: nothing.
    ///
    /// One whose row was changed outside of this program counts as revoked.
    ///
    /// - Parameters:
    ///   - user: the person.
    ///   - provider: the provider's slug.
    ///   - destination: the destination that knows nothing of the source itself.
    package func sourceUnderAnotherName(
        user: UserKey, provider: String, at destination: DestinationKey
    ) async throws -> ConnectedSource? {
        try await read { [sealing] db in
            let known = try Self.otherNames(db, of: user, at: destination).flatMap { other in
                try Self.storedSources(db, sealing, user: user, at: other)
            }.filter { $0.source.provider == provider }
            if known.contains(where: { !$0.holds }) { return ConnectedSource(provider: provider, status: .revoked) }
            return known.map { $0.source }.max { lhs, rhs in
                (lhs.checkedAt?.microseconds ?? Int64.min) < (rhs.checkedAt?.microseconds ?? Int64.min)
            }
        }
    }

    /// Notes what is known of a source; ``ConnectedSource/wasCreatedOnce`` never goes back to false, and
    /// ``ConnectedSource/connectedAt`` stays where the new value has none. What is known of a source whose row was changed
    /// outside of this program is replaced, and counts as created once.
    ///
    /// - Throws: ``lockedBecause`` if the key is missing.
    public func setSource(
        _ source: ConnectedSource, user: UserKey, at destination: DestinationKey = .vital
    ) async throws {
        try await write(.source) { [sealing] db in
            try Self.note(db, sealing, source, user: user, at: destination)
        }
    }

    /// Notes what the owner of a source says of it: it also counts where the same account is known under another name.
    ///
    /// - Throws: ``lockedBecause`` if the key is missing.
    package func setSourceByOwner(
        _ source: ConnectedSource, user: UserKey, at destination: DestinationKey
    ) async throws {
        try await write(.source) { [sealing] db in
            try Self.note(db, sealing, source, user: user, at: destination)
            for other in try Self.otherNames(db, of: user, at: destination) {
                for known in try Self.storedSources(db, sealing, user: user, at: other)
                where known.holds && known.source.provider == source.provider {
                    var former = known.source
                    (former.status, former.checkedAt) = (source.status, source.checkedAt)
                    // What the server lists as connected later than that was connected by the owner since.
                    former.connectedAt = source.connectedAt ?? former.connectedAt
                    try Self.write(db, sealing, former, user: user, at: other)
                }
            }
        }
    }

    /// Other destinations of the same kind and address that call the person by the same id.
    private static func otherNames(
        _ db: Database, of user: UserKey, at destination: DestinationKey
    ) throws -> [DestinationKey] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT other.destination FROM destination_user AS own JOIN destination_user AS other
                    ON other.user = own.user AND other.id = own.id AND other.destination <> own.destination
                JOIN destination AS d ON d.key = own.destination
                JOIN destination AS o ON o.key = other.destination AND o.kind = d.kind AND o.address = d.address
                WHERE own.user = ? AND own.destination = ?
                """, arguments: [user.rawValue, destination.rawValue]
        ).map(DestinationKey.init(rawValue:))
    }

    /// Notes, before the request is sent, that we create this source: it is created once only.
    ///
    /// - Returns: whether this is the first time. False means: do not create it.
    public func markCreatedOnce(
        user: UserKey, provider: String, at destination: DestinationKey = .vital
    ) async throws -> Bool {
        try await write(.source) { [sealing] db in
            let known = try Self.sources(db, sealing, user: user, at: destination).first { $0.provider == provider }
            guard known?.wasCreatedOnce != true else { return false }
            var source = known ?? ConnectedSource(provider: provider, status: .absent)
            source.wasCreatedOnce = true
            try Self.write(db, sealing, source, user: user, at: destination)
            return true
        }
    }

    static func revokeChangedSources(
        _ db: Database, _ sealing: Sealing, of user: UserKey, at destination: DestinationKey
    ) throws {
        for known in try storedSources(db, sealing, user: user, at: destination) where !known.holds {
            let source = ConnectedSource(provider: known.source.provider, status: .revoked, wasCreatedOnce: true)
            try write(db, sealing, source, user: user, at: destination)
        }
    }

    private static func note(
        _ db: Database, _ sealing: Sealing, _ source: ConnectedSource, user: UserKey, at destination: DestinationKey
    ) throws {
        var source = source
        let known = try storedSources(db, sealing, user: user, at: destination)
            .first { $0.source.provider == source.provider }
        if let known, known.source.wasCreatedOnce || !known.holds { source.wasCreatedOnce = true }
        try write(db, sealing, source, user: user, at: destination)
    }

    private static func write(
        _ db: Database, _ sealing: Sealing, _ source: ConnectedSource, user: UserKey, at destination: DestinationKey
    ) throws {
        let tag = try PersonTag.source(
            of: user.rawValue, at: name(db, of: destination), provider: source.provider,
            status: source.status.rawValue, wasCreatedOnce: source.wasCreatedOnce
        ).made(sealing)
        try db.execute(
            sql: """
                INSERT INTO source (destination, user, provider, status, created_once, connected_at, checked_at, tag)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (destination, user, provider) DO UPDATE SET
                    status = excluded.status, created_once = excluded.created_once,
                    connected_at = coalesce(excluded.connected_at, connected_at), checked_at = excluded.checked_at,
                    tag = excluded.tag
                """,
            arguments: [
                destination.rawValue, user.rawValue, source.provider, source.status.rawValue, source.wasCreatedOnce,
                source.connectedAt?.microseconds, source.checkedAt?.microseconds, tag.map { Data($0) },
            ])
    }

    private static func sources(
        _ db: Database, _ sealing: Sealing, user: UserKey, at destination: DestinationKey
    ) throws -> [ConnectedSource] {
        try storedSources(db, sealing, user: user, at: destination).map { known in
            guard known.holds else { throw known.tag.changed }
            return known.source
        }
    }

    private static func storedSources(
        _ db: Database, _ sealing: Sealing, user: UserKey, at destination: DestinationKey
    ) throws -> [(source: ConnectedSource, tag: PersonTag, holds: Bool)] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT s.provider, s.status, s.created_once, s.connected_at, s.checked_at, d.name, s.tag
                FROM source AS s JOIN destination AS d ON d.key = s.destination
                WHERE s.destination = ? AND s.user = ? ORDER BY s.provider
                """, arguments: [destination.rawValue, user.rawValue]
        ).map { row in
            let (provider, status): (String, String) = (try row.value(0), try row.value(1))
            let source = ConnectedSource(
                provider: provider, status: .init(rawValue: status) ?? .error, wasCreatedOnce: try row.value(2),
                connectedAt: (try row.value(3) as Int64?).map(Instant.init(microseconds:)),
                checkedAt: (try row.value(4) as Int64?).map(Instant.init(microseconds:)))
            let tag = PersonTag.source(
                of: user.rawValue, at: try row.value(5), provider: provider, status: status,
                wasCreatedOnce: source.wasCreatedOnce)
            return (source, tag, try tag.holds(row.octets(6), sealing))
        }
    }
}
