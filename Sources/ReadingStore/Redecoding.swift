import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

/// What reading stored frames again has brought.
public struct RedecodingResult: Sendable, Hashable {
    /// Frames looked at.
    public var frames = 0
    /// Readings that came of them.
    public var newReadings = 0
    /// Readings whose content changed.
    public var revisedReadings = 0
    /// Frames that still are no record.
    public var stillMalformed = 0
}

extension ReadingStore {
    /// Reads stored frames that have made no reading again: those still to be decoded, and those an older decoder could
    /// not read. Frames whose reading exists are not touched.
    public func redecode() async throws -> RedecodingResult {
        try await redecode([.pending, .nothing, .malformed])
    }

    /// Makes readings of frames that were to grow when the program ended, of a recording or of a composition that waited for
    /// its second packet: nobody adds to them any more.
    func decodePending() async throws {
        let isAny = try await read { db in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM frame INDEXED BY frame_apart WHERE mark IS NOT NULL AND state = \(frame: .pending))
                    """) == true
        }
        guard isAny else { return }
        let result = try await redecode([.pending])
        logger.notice("what an interrupted contact left was read", metadata: ["readings": "\(result.newReadings)"])
    }

    private func redecode(_ states: [FrameState]) async throws -> RedecodingResult {
        let growing = Set(growingFrames.withLock(\.values))
        var (result, last): (RedecodingResult, Int64) = (RedecodingResult(), 0)
        while true {
            let after = last
            let batch = try await write(.redecode) { [self] db in
                try judgement(db).redecode(states, after: after, besides: growing)
            }
            guard let newest = batch.last else { return result }
            last = newest
            publish(batch.outcomes)
            result.frames += batch.frames
            for outcome in batch.outcomes {
                switch outcome {
                case .new, .clash: result.newReadings += 1
                case .revised: result.revisedReadings += 1
                case .malformed: result.stillMalformed += 1
                case .repeated, .waiting, .nothing: break
                }
            }
        }
    }
}

extension Judgement {
    /// Reads frames again that have made no reading, a thousand at a time.
    ///
    /// - Parameters:
    ///   - states: the frames of these states.
    ///   - after: the frames behind this row.
    ///   - growing: but for these, which are not whole yet.
    fileprivate func redecode(
        _ states: [FrameState], after: Int64, besides growing: Set<Int64>
    ) throws -> (last: Int64?, frames: Int, outcomes: [FrameOutcome]) {
        // Those that are still to be decoded have a mark, and few others have.
        let apart = states == [.pending] ? "INDEXED BY frame_apart" : ""
        let marked = states == [.pending] ? "f.mark IS NOT NULL AND" : ""
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns), c.sequence_epoch FROM frame AS f \(apart) JOIN contact AS c ON c.key = f.contact
            WHERE \(marked) f.state IN (\(states.map { String($0.rawValue) }.joined(separator: ", "))) AND f.key > ? ORDER BY f.key LIMIT 1000
            """)
        select.bind(1, after)
        defer { select.reset() }
        let reader = RowReader(db, sealing)
        var rows: [(frame: StoredFrame, epoch: Int)] = []
        while try select.next() { rows.append((try reader.frame(select), Int(select.int(FrameRow.count)))) }
        var journals = try Journals(self)
        var outcomes: [FrameOutcome] = []
        for row in rows where !growing.contains(row.frame.key) {
            let frame = row.frame.frame
            try journals.with(row.frame.columns.contact, epoch: row.epoch) { journal in
                journal.storedFrame = row.frame.key
                try journal.add(
                    frame, decoder.decode(frame, model: journal.contact.description.model), into: &outcomes)
            }
        }
        return (rows.last?.frame.key, rows.count, outcomes)
    }
}
