import GRDB
import HealthReadings
import Logging

/// Readings that were excluded as `implausible_time` because this machine's clock was behind when they came.
///
/// Each of their frames is kept with the time since the machine began. That says when the frame was received, whatever the clock
/// showed then, so judging again gives the same however often it is done. Ids and times stay as they are. A time that was found by
/// comparing the device's clock with this machine's while that was behind is wrong by as much, and stays excluded. So does a record
/// that was stored anew meanwhile, in a later sequence epoch: it would count twice. An imported reading that has become a device's
/// since stays as that device left it.
extension Judgement {
    /// By how many seconds a clock may differ and be the same.
    private static let tolerance: Int64 = 120

    private struct Late {
        let reading: Int64
        let frame: StoredFrame
        let receivedAt: Instant
        let epoch: Int
        let isWhole: Bool
    }

    /// Judges again the times of what was received in a start of the machine.
    ///
    /// - Parameters:
    ///   - boot: the kernel's name of that start.
    ///   - began: when the machine started, by its clock as it is now.
    ///   - formerly: when it seemed to have started, by its clock as it was before.
    /// - Returns: the readings that are no longer excluded by their time.
    func judgeTimes(boot: String, began: Instant, formerly: Instant) throws -> [FrameOutcome] {
        try forgetFirstComparisons(began, formerly)
        var journals = try Journals(self)
        var outcomes: [FrameOutcome] = []
        for late in try received(in: boot, began, formerly) {
            let outcome = try journals.with(late.frame.columns.contact, epoch: late.epoch) { journal in
                try StoreError.unlessCorrupt {
                    try journal.judgeTime(
                        of: late.reading, late.frame.frame, receivedAt: late.receivedAt, isWhole: late.isWhole)
                }
            }
            if let outcome = outcome ?? nil { outcomes.append(outcome) }
        }
        return outcomes
    }

    /// Forgets how the clocks of devices that were met first while this machine's clock was behind compared with it. The next
    /// contact compares them anew. By the wrong comparison a device would seem to have been set meanwhile, and records from before,
    /// such as the rest of a transfer that was cut, would be placed by it.
    ///
    /// A device whose clock was compared before keeps what is known of it, and so does one that has been compared since.
    private func forgetFirstComparisons(_ began: Instant, _ formerly: Instant) throws {
        try db.execute(
            sql: """
                DELETE FROM clock_epoch AS e WHERE started_at >= ? AND read_at <= ?
                    AND NOT EXISTS (SELECT 1 FROM clock_epoch WHERE device = e.device AND key <> e.key)
                """,
            arguments: [
                formerly.advanced(bySeconds: -Self.tolerance).microseconds,
                // By the clock as it was before, it is no later now.
                now.advanced(bySeconds: formerly.seconds - began.seconds).microseconds,
            ])
    }

    /// What is excluded by its time and was received in a start of the machine, while the clock was not further back than it was
    /// before. An earlier clock was judged for good: it was right, and the machine has stood still since.
    private func received(in boot: String, _ began: Instant, _ formerly: Instant) throws -> [Late] {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns), f.boot_time, r.key, c.sequence_epoch, coalesce(c.is_complete, 0)
            FROM reading AS r INDEXED BY reading_time
            CROSS JOIN reading_frame AS b ON b.reading = r.key
            CROSS JOIN frame AS f ON f.key = b.frame
            CROSS JOIN contact AS c ON c.key = f.contact
            WHERE r.time > ?1 AND r.time <= ?2 AND r.time_exclusion = ?3 AND c.device = r.device
                AND (r.clock_read_at IS NULL OR r.clock_read_at < ?4)
                AND b.role = \(role: .record) AND f.boot_id = ?5 AND f.received_at - f.boot_time >= ?6
                AND NOT EXISTS (SELECT 1 FROM reading AS n INDEXED BY reading_renumbered
                    WHERE n.device = r.device AND n.base_time = r.base_time AND n.kind = r.kind
                        AND n.sequence IS NOT NULL AND n.sequence_epoch > 0 AND n.sequence_epoch > r.sequence_epoch)
            ORDER BY r.key
            """)
        select.bind(1, formerly.advanced(bySeconds: TimeResolution.latestAfterReception).seconds)
        select.bind(2, now.advanced(bySeconds: TimeResolution.latestAfterReception).seconds)
        select.bind(3, Exclusion.implausibleTime.code)
        select.bind(4, formerly.microseconds)
        select.bind(5, octets: Array(boot.utf8))
        select.bind(6, formerly.advanced(bySeconds: -Self.tolerance).microseconds)
        defer { select.reset() }
        let rows = RowReader(db, sealing)
        var found: [Late] = []
        while try select.next() {
            // A damaged frame says nothing of its reading; verification tells of it.
            guard let frame = try StoreError.unlessCorrupt({ try rows.frame(select) }) else { continue }
            // Nothing was received later than now, whatever a row says.
            let receivedAt = began.microseconds &+ select.int(FrameRow.count)
            found.append(
                Late(
                    reading: select.int(FrameRow.count + 1), frame: frame,
                    receivedAt: min(Instant(microseconds: receivedAt), now),
                    epoch: Int(select.int(FrameRow.count + 2)), isWhole: select.int(FrameRow.count + 3) == 1))
        }
        return found
    }
}

extension ReadingStore {
    /// Judges the times of readings again that were received while this machine's clock was behind, in one commit.
    ///
    /// A record of a device whose clock can't be read is excluded as `implausible_time` if the device dates it more than a day
    /// later than this machine's clock. So is a sample out of another program's data. Where the clock was behind, such a record may
    /// be right. What was received in the same start of the machine is judged by the clock as it is now. What counts then is
    /// delivered. How the clock of a new device compared with the one that was behind is forgotten.
    ///
    /// - Parameters:
    ///   - boot: the kernel's name of this start of the machine.
    ///   - began: when the machine started, by its clock as it is now.
    ///   - formerly: when it seemed to have started, by its clock as it was before.
    /// - Returns: how many readings are no longer excluded by their time.
    /// - Throws: ``StoreError``.
    @discardableResult
    package func judgeTimes(boot: String, began: Instant, formerly: Instant) async throws -> Int {
        try await requireKeys()
        let outcomes = try await write(.redecode) { [self] db in
            try judgement(db).judgeTimes(boot: boot, began: began, formerly: formerly)
        } committed: { [self] _ in
            // One that goes on may have a comparison that is forgotten now.
            outdateContacts()
        }
        guard !outcomes.isEmpty else { return 0 }
        logger.notice(
            "readings that came while this machine's clock was behind were judged again by their time",
            metadata: ["changed": "\(outcomes.count)"])
        publish(outcomes)
        return outcomes.count
    }
}
