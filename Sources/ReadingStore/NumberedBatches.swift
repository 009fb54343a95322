import GRDB
import HealthReadings

/// What keeps readings from a destination: a person's consent, what the owner has selected or ignores, and whether the
/// destination is switched off. As long as it is the same, what was read from the store may be sent as it was read.
package struct DeliveryHolds: Sendable, Hashable {
    fileprivate let standing: Hold?
    fileprivate let ignoredProviders: Set<String>
    fileprivate let devices: DeviceHolds
}

/// Batches of a destination that confirms them by their number, perhaps long after they were sent.
///
/// A confirmation counts for what a reading says now only if the batch had exactly that: the outbox's revision tells. It also
/// counts if the same content was sent again under a higher number meanwhile, so that a slow destination is not sent
/// everything for ever.
extension ReadingStore {
    static let numberedBatchSchema = """
        -- In which numbered batches a reading is on its way: first and last are the numbers of the first and the newest
        -- batch that had this revision. A row goes with the outbox's: what is queued anew is another delivery.
        CREATE TABLE outbox_batch (
            reading INTEGER NOT NULL, destination INTEGER NOT NULL, revision INTEGER NOT NULL, first INTEGER NOT NULL,
            last INTEGER NOT NULL, PRIMARY KEY (reading, destination),
            FOREIGN KEY (reading, destination) REFERENCES outbox (reading, destination) ON DELETE CASCADE
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX outbox_batch_last ON outbox_batch (destination, last);
        """

    /// Begins a batch: chooses its number and notes what is in it, before it is sent.
    ///
    /// - Parameters:
    ///   - ids: what is in it; none for a batch that only takes readings back.
    ///   - destination: where it is sent.
    ///   - number: makes the number from the last one, 0 if there was none. It has to be higher.
    /// - Returns: the number, which is never given again.
    public func beginBatch(
        _ ids: [OutboxID], at destination: DestinationKey, number: @escaping @Sendable (Int64) -> Int64
    ) async throws -> Int64 {
        try await write(.attempt) { db in
            let setting = Self.batchSetting(destination)
            let last = try Self.lines(db, setting).first.flatMap { Int64($0) } ?? 0
            // No document can say a higher one. Only a file that was changed has one of these.
            guard (0..<Self.mostBatches).contains(last) else {
                throw StoreError.corrupt(detail: "the newest batch has the number \(last)")
            }
            let next = max(number(last), last + 1)
            try Self.set(db, setting, lines: [String(next)])
            let insert = try PreparedStatement(
                db,
                """
                INSERT INTO outbox_batch (reading, destination, revision, first, last)
                SELECT reading, destination, revision, ?4, ?4 FROM outbox
                WHERE reading = ?1 AND destination = ?2 AND revision = ?3
                ON CONFLICT (reading, destination) DO UPDATE SET
                    first = CASE WHEN revision = excluded.revision THEN first ELSE excluded.first END,
                    revision = excluded.revision, last = excluded.last
                """)
            for id in ids {
                insert.bind(1, id.reading)
                insert.bind(2, id.destination.rawValue)
                insert.bind(3, id.revision)
                insert.bind(4, next)
                try insert.run()
            }
            return next
        }
    }

    /// What a batch's confirmation acknowledges of some readings: those that still say what they said in the batch.
    public func outboxIDs(
        of readings: [ReadingID], inBatch number: Int64, at destination: DestinationKey
    ) async throws -> [ReadingID: OutboxID] {
        try await read { [sealing] db in
            let select = try PreparedStatement(
                db,
                """
                SELECT o.reading, o.revision FROM reading AS r
                JOIN outbox AS o ON o.reading = r.key
                JOIN outbox_batch AS b ON b.reading = o.reading AND b.destination = o.destination
                WHERE r.id = ?1 AND o.destination = ?2 AND b.revision = o.revision AND ?3 BETWEEN b.first AND b.last
                """)
            defer { select.reset() }
            var found: [ReadingID: OutboxID] = [:]
            for id in readings {
                for candidate in try sealing.candidates(for: id) where found[id] == nil {
                    select.reset()
                    select.bind(1, candidate)
                    select.bind(2, destination.rawValue)
                    select.bind(3, number)
                    guard try select.next() else { continue }
                    found[id] = OutboxID(
                        reading: select.int(0), destination: destination, revision: select.int(1))
                }
            }
            return found
        }
    }

    /// What keeps readings from a destination now.
    package func deliveryHolds(at destination: DestinationKey) async throws -> DeliveryHolds {
        try await read { db in
            DeliveryHolds(
                standing: try Self.standingHold(db, at: destination),
                ignoredProviders: try Self.ignoredOrigins(db).providers, devices: try DeviceHolds(db, destination))
        }
    }

    /// What the confirmation of every batch up to a number acknowledges.
    public func outboxIDs(throughBatch number: Int64, at destination: DestinationKey) async throws -> [OutboxID] {
        try await read { db in
            let select = try PreparedStatement(
                db,
                """
                SELECT o.reading, o.revision FROM outbox_batch AS b
                JOIN outbox AS o ON o.reading = b.reading AND o.destination = b.destination
                WHERE b.destination = ?1 AND b.first <= ?2 AND b.revision = o.revision
                    AND o.state IN (\(outbox: .waiting), \(outbox: .handedOver))
                """)
            select.bind(1, destination.rawValue)
            select.bind(2, number)
            defer { select.reset() }
            var found: [OutboxID] = []
            while try select.next() {
                found.append(OutboxID(reading: select.int(0), destination: destination, revision: select.int(1)))
            }
            return found
        }
    }

    /// The numbers of batches that were sent and are not confirmed, the oldest first. Of readings that were sent more than
    /// once, these are the first and the last.
    public func unconfirmedBatches(at destination: DestinationKey, limit: Int) async throws -> [Int64] {
        try await read { db in
            try Int64.fetchAll(
                db,
                sql: """
                    WITH open AS (
                        SELECT b.first, b.last FROM outbox_batch AS b
                        JOIN outbox AS o ON o.reading = b.reading AND o.destination = b.destination
                        WHERE b.destination = ? AND b.revision = o.revision
                            AND o.state IN (\(outbox: .waiting), \(outbox: .handedOver))
                    )
                    SELECT first AS number FROM open UNION SELECT last FROM open ORDER BY number LIMIT ?
                    """, arguments: [destination.rawValue, limit])
        }
    }

    /// Forgets in which batches readings were that are confirmed or refused by now.
    public func forgetConfirmedBatches(at destination: DestinationKey) async throws {
        let settled = """
            FROM outbox_batch WHERE destination = \(destination.rawValue) AND EXISTS (
                SELECT 1 FROM outbox AS o WHERE o.reading = outbox_batch.reading
                    AND o.destination = outbox_batch.destination
                    AND o.state NOT IN (\(outbox: .waiting), \(outbox: .handedOver)))
            """
        let isAny = try await read { db in
            try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 \(settled))") ?? false
        }
        guard isAny else { return }
        try await write(.setting) { db in try db.execute(sql: "DELETE \(settled)") }
    }

    /// The largest whole number that every reader of JSON keeps exactly.
    private static let mostBatches: Int64 = 9_007_199_254_740_991

    private static func batchSetting(_ destination: DestinationKey) -> String {
        "destination.batch.\(destination.rawValue)"
    }
}
