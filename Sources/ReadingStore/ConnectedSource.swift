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
    public func source(
        user: UserKey, provider: String, at destination: DestinationKey = .vital
    ) async throws -> ConnectedSource? {
        try await read { db in
            try Self.sources(db, user: user, at: destination).first { $0.provider == provider }
        }
    }

    /// All sources known of a user at a destination, by provider.
    public func sources(user: UserKey, at destination: DestinationKey = .vital) async throws -> [ConnectedSource] {
        try await read { db in try Self.sources(db, user: user, at: destination) }
    }

    /// Notes what is known of a source; ``ConnectedSource/wasCreatedOnce`` never goes back to false, and
    /// ``ConnectedSource/connectedAt`` stays where the new value has none.
    public func setSource(
        _ source: ConnectedSource, user: UserKey, at destination: DestinationKey = .vital
    ) async throws {
        try await write(.source) { db in
            try db.execute(
                sql: """
                    INSERT INTO source (destination, user, provider, status, created_once, connected_at, checked_at)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT (destination, user, provider) DO UPDATE SET
                        status = excluded.status, created_once = max(created_once, excluded.created_once),
                        connected_at = coalesce(excluded.connected_at, connected_at), checked_at = excluded.checked_at
                    """,
                arguments: [
                    destination.rawValue, user.rawValue, source.provider, source.status.rawValue, source.wasCreatedOnce,
                    source.connectedAt?.microseconds, source.checkedAt?.microseconds,
                ])
        }
    }

    /// Notes, before the request is sent, that we create this source: it is created once only.
    ///
    /// - Returns: whether this is the first time. False means: do not create it.
    public func markCreatedOnce(
        user: UserKey, provider: String, at destination: DestinationKey = .vital
    ) async throws -> Bool {
        try await write(.source) { db in
            try db.execute(
                sql: """
                    INSERT INTO source (destination, user, provider, status, created_once) VALUES (?, ?, ?, 'absent', 1)
                    ON CONFLICT (destination, user, provider) DO UPDATE SET created_once = 1 WHERE created_once = 0
                    """, arguments: [destination.rawValue, user.rawValue, provider])
            return db.changesCount == 1
        }
    }

    static func sources(_ db: Database, user: UserKey, at destination: DestinationKey) throws -> [ConnectedSource] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT provider, status, created_once, connected_at, checked_at FROM source
                WHERE destination = ? AND user = ? ORDER BY provider
                """, arguments: [destination.rawValue, user.rawValue]
        ).map { row in
            ConnectedSource(
                provider: try row.value(0), status: try .init(rawValue: row.value(1)) ?? .error,
                wasCreatedOnce: try row.value(2),
                connectedAt: (try row.value(3) as Int64?).map(Instant.init(microseconds:)),
                checkedAt: (try row.value(4) as Int64?).map(Instant.init(microseconds:)))
        }
    }
}
