import GRDB
import HealthReadings

/// Names one thing to deliver: a reading, and which revision of it.
///
/// An acknowledgement of an older revision leaves the newer one waiting.
public struct OutboxID: Sendable, Hashable {
    /// The store's number of the reading.
    public let reading: Int64
    /// Where it is delivered.
    public let destination: DestinationKey
    /// How often what would be sent has changed, from 0.
    public let revision: Int64
}

/// A reading that waits to be delivered, at the timestamp that was chosen for it once and for ever.
public struct OutboxItem: Sendable, Hashable {
    /// What to acknowledge or refuse it with.
    public var id: OutboxID
    /// The reading; its `Reading.deliveries` are not computed here.
    public var reading: Reading
    /// The server's key for the sample, whole seconds: the reading's time, or later where that second was taken.
    public var timestamp: Instant
    /// The reading's own time where ``timestamp`` differs from it: belongs into the sample's metadata.
    public var originalTime: Instant?
    /// How often it was offered to the server and not acknowledged.
    public var attempts: Int
    /// Whether an earlier revision of it was delivered.
    public var wasDelivered = false
    /// Whether it was measured before the device was first met: part of a backfill, nothing new.
    public var isBackfill = false
    /// What becomes of the weight that came with a body composition.
    public var ownWeight = OwnWeight.sent
    /// The offset of the person's clock from UTC in minutes, chosen when the reading was queued and kept; `nil` for a
    /// destination that keeps none.
    public var offsetMinutes: Int?
    /// The person's zone when it was measured; `nil` if the store does not know it.
    public var timeZone: String?
}

/// What waits for one user, kind and provider.
public struct OutboxGroup: Sendable, Hashable {
    /// The user.
    public var user: UserKey
    /// The kind of readings, which is the server's resource.
    public var resource: ReadingKind
    /// The provider's slug.
    public var provider: String
    /// How many wait.
    public var count: Int
    /// The oldest timestamp among them.
    public var oldest: Instant
    /// Why they wait beyond the next delivery; nil where nothing holds them.
    public var held: Hold?
    /// Whether it is held because the server does not know the resource.
    public var isUnknownToServer = false
    /// Whether it is held because the server refuses every reading of it.
    public var isRefusedWhole = false
}

/// A reading that the server refused and that waits for a person.
public struct RefusedReading: Sendable, Hashable {
    /// The reading.
    public var id: ReadingID
    /// The server's words.
    public var serverSaid: String
}

extension ReadingStore {
    /// Notes that the server has taken these: they wait no longer. A revision that came meanwhile still waits, as a change of what the
    /// server has.
    public func acknowledge(_ ids: [OutboxID], at instant: Instant) async throws {
        guard !ids.isEmpty else { return }
        try await write(.acknowledge) { [touchedRows] db in
            let update = try PreparedStatement(
                db,
                """
                \(OutboxRun.update) SET state = \(outbox: .delivered), delivered_at = ?5, handed_over_at = NULL,
                    room = NULL
                WHERE \(OutboxRun.condition) AND revision = ?4 AND state IN (\(outbox: .waiting), \(outbox: .handedOver))
                """)
            // They were excluded or changed on their way: the destination has what it was sent all the same. A row behind those that
            // went (``OutboxRevision``) may be another person's since: of that the destination has nothing.
            let late = try PreparedStatement(
                db,
                """
                \(OutboxRun.update) SET delivered_at = ?5, room = NULL
                WHERE \(OutboxRun.condition)
                    AND (state = \(outbox: .withdrawn)
                        OR state = \(outbox: .waiting) AND revision > ?4 AND ?4 >= \(OutboxRevision.first))
                """)
            let runs = OutboxRun.runs(of: ids)
            try touchedRows.note(readings: runs.map(\.readings), in: db) {
                for run in runs {
                    update.bind(run)
                    update.bind(5, instant.microseconds)
                    guard try update.run() < run.count else { continue }
                    late.bind(run)
                    late.bind(5, instant.microseconds)
                    try late.run()
                }
            }
        }
    }

    /// Notes that an attempt to deliver these failed for now; they go on waiting.
    public func noteAttempt(_ ids: [OutboxID], serverSaid words: String?) async throws {
        try await write(.attempt) { [sealing] db in
            for id in ids {
                try db.execute(
                    sql: """
                        UPDATE outbox SET attempts = attempts + 1, words = coalesce(?, words)
                        WHERE reading = ? AND destination = ? AND revision = ? AND state = \(outbox: .waiting)
                        """,
                    arguments: [
                        try words.map { try sealing.seal($0, on: id.reading, at: id.destination.rawValue) }, id.reading,
                        id.destination.rawValue, id.revision,
                    ])
            }
        }
    }

    /// Sets one item aside with the server's words: it blocks nothing and is shown as `refused`.
    public func reject(_ id: OutboxID, serverSaid words: String) async throws {
        try await write(.reject) { [sealing] db in
            try db.execute(
                sql: """
                    UPDATE outbox SET state = \(outbox: .refused), attempts = attempts + 1, words = ?
                    WHERE reading = ? AND destination = ? AND revision = ? AND state IN (\(outbox: .waiting), \(outbox: .handedOver))
                    """,
                arguments: [
                    try sealing.seal(words, on: id.reading, at: id.destination.rawValue), id.reading,
                    id.destination.rawValue, id.revision,
                ])
        }
    }

    /// The readings the server refused, newest first.
    ///
    /// - Parameters:
    ///   - limit: 1 … 10,000.
    ///   - destination: the destination they wait for.
    public func refused(limit: Int = 1000, at destination: DestinationKey = .vital) async throws -> [RefusedReading] {
        guard ReadingQuery.limits.contains(limit) else { throw StoreError.limitOutOfRange(limit) }
        return try await read { [sealing] db in
            try sealing.requireKeys()
            let select = try PreparedStatement(
                db,
                """
                SELECT \(ReadingRow.columns), o.words FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                WHERE o.destination = ?2 AND o.state = \(outbox: .refused) ORDER BY o.timestamp DESC LIMIT ?1
                """)
            select.bind(1, Int64(limit))
            select.bind(2, destination.rawValue)
            defer { select.reset() }
            let rows = RowReader(db, sealing)
            var refused: [RefusedReading] = []
            while try select.next() {
                let words = select.octets(ReadingRow.count)
                refused.append(
                    RefusedReading(
                        id: try rows.content(select).0,
                        serverSaid: try sealing.words(
                            words, on: ReadingRow.key(select), at: destination.rawValue)))
            }
            return refused
        }
    }

    /// Has the server's copy of a reading sent again, at the same timestamp: what would be sent has changed.
    ///
    /// A reading that is excluded, or whose context is awaited, is not sent.
    public func requeue(_ id: ReadingID, at destination: DestinationKey = .vital) async throws {
        try await write(.requeue) { [sealing] db in
            for candidate in try sealing.candidates(for: id) {
                try db.execute(
                    sql: """
                        UPDATE outbox SET state = \(outbox: .waiting), revision = \(OutboxRevision.next), attempts = 0, words = NULL
                        WHERE reading = (SELECT key FROM reading WHERE id = ?) AND destination = ?
                            AND state <> \(outbox: .withdrawn)
                        """, arguments: [candidate.data, destination.rawValue])
            }
        }
    }

    /// Has refused readings wait again, as they were offered before: what refused them may have been mended.
    ///
    /// - Parameters:
    ///   - ids: only these; nil: all.
    ///   - destination: only what this one refused; nil: all.
    /// - Returns: how many wait again.
    /// - Throws: ``StoreError/notRefused(_:)`` for an id of no refused reading: then none waits again.
    @discardableResult
    public func retryRefused(_ ids: [ReadingID]? = nil, at destination: DestinationKey? = nil) async throws -> Int {
        try await write(.requeue) { [sealing] db in
            let place = destination.map { " AND destination = \($0.rawValue)" } ?? ""
            let again =
                "UPDATE outbox SET state = \(outbox: .waiting), attempts = 0, words = NULL WHERE state = \(outbox: .refused)"
                + place
            guard let ids else {
                try db.execute(sql: again)
                return db.changesCount
            }
            for id in Set(ids) {
                let isRefused = try sealing.candidates(for: id).contains { candidate in
                    try db.execute(
                        sql: again + " AND reading = (SELECT key FROM reading WHERE id = ?)",
                        arguments: [candidate.data])
                    return db.changesCount > 0
                }
                guard isRefused else { throw StoreError.notRefused(id) }
            }
            return Set(ids).count
        }
    }

    /// Whether delivery is switched on; where it is not, everything that waits is held as `sync_disabled`.
    public func isSyncEnabled() async throws -> Bool {
        try await read { db in try Self.isSyncEnabled(db) }
    }

    /// Switches delivery on or off; kept over restarts.
    public func setSyncEnabled(_ isEnabled: Bool) async throws {
        try await write(.setting) { db in
            try db.execute(
                sql: "INSERT OR REPLACE INTO setting (name, value) VALUES ('sync.enabled', ?)",
                arguments: [isEnabled ? "1" : "0"])
        }
    }

    static func isSyncEnabled(_ db: Database) throws -> Bool {
        let select = try PreparedStatement(db, "SELECT value FROM setting WHERE name = 'sync.enabled'")
        defer { select.reset() }
        return try !select.next() || select.text(0) != "0"
    }
}
