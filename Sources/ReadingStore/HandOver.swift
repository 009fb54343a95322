import GRDB
import HealthReadings

/// Readings that a destination has and has not confirmed yet.
extension ReadingStore {
    /// Notes that a destination has these and has not confirmed yet that it keeps them.
    ///
    /// They wait for ``acknowledge(_:at:)``, and are sent again after ``requeueHandedOver(at:before:now:)``.
    public func handOver(_ ids: [OutboxID], at instant: Instant) async throws {
        guard !ids.isEmpty else { return }
        try await write(.handOver) { db in
            let update = try PreparedStatement(
                db,
                """
                \(OutboxRun.update) SET state = \(outbox: .handedOver), handed_over_at = ?5, room = NULL
                WHERE \(OutboxRun.condition) AND revision = ?4 AND state = \(outbox: .waiting)
                """)
            for run in OutboxRun.runs(of: ids) {
                update.bind(run)
                update.bind(5, instant.microseconds)
                try update.run()
            }
        }
    }

    /// Notes that readings are about to be sent to a destination that cannot take them back: if they are excluded before it
    /// has answered, it may have them (``leftBehind(at:)``).
    ///
    /// - Parameters:
    ///   - ids: what is sent.
    ///   - instant: tells this attempt from others.
    public func noteOffer(_ ids: [OutboxID], at instant: Instant) async throws {
        try await changeOffer(
            ids, instant,
            """
            \(OutboxRun.update) SET handed_over_at = ?5, room = NULL
            WHERE \(OutboxRun.condition) AND revision = ?4 AND state = \(outbox: .waiting) AND handed_over_at IS NULL
            """)
    }

    /// Notes that readings did not get there with an attempt: it never came to sending them, or they were refused.
    public func withdrawOffer(_ ids: [OutboxID], at instant: Instant) async throws {
        try await changeOffer(
            ids, instant,
            """
            \(OutboxRun.update) SET handed_over_at = NULL
            WHERE \(OutboxRun.condition) AND ?4 <= revision AND state <> \(outbox: .handedOver) AND handed_over_at = ?5
            """)
    }

    private func changeOffer(_ ids: [OutboxID], _ instant: Instant, _ sql: String) async throws {
        guard !ids.isEmpty else { return }
        try await write(.attempt) { db in
            let update = try PreparedStatement(db, sql)
            for run in OutboxRun.runs(of: ids) {
                update.bind(run)
                update.bind(5, instant.microseconds)
                try update.run()
            }
        }
    }

    /// Has readings wait again whose receipt has not come, or that were handed over by a clock that has been set back since.
    ///
    /// - Returns: how many wait again.
    @discardableResult
    public func requeueHandedOver(
        at destination: DestinationKey, before instant: Instant, now: Instant
    ) async throws -> Int {
        let overdue = """
            WHERE state = \(outbox: .handedOver) AND destination = \(destination.rawValue)
                AND (handed_over_at <= \(instant.microseconds) OR handed_over_at > \(now.microseconds)
                    OR handed_over_at IS NULL)
            """
        let isAny = try await read { db in
            try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM outbox \(overdue))") ?? false
        }
        guard isAny else { return 0 }
        return try await write(.requeue) { db in
            try db.execute(sql: "UPDATE outbox SET state = \(outbox: .waiting), attempts = attempts + 1 \(overdue)")
            return db.changesCount
        }
    }

    /// How many readings a destination has not confirmed yet.
    public func handedOverCount(at destination: DestinationKey) async throws -> Int {
        try await read { db in
            try Int.fetchOne(
                db, sql: "SELECT count(*) FROM outbox WHERE state = \(outbox: .handedOver) AND destination = ?",
                arguments: [destination.rawValue]) ?? 0
        }
    }
}
