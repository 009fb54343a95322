import HealthReadings
import PostgreSQLLink

/// The parameters of the two statements that keep batches in PostgreSQL, and what their answers mean for each batch.
///
/// A statement can't change the same row twice, so of readings with the same key only the one with the highest revision
/// is sent. The rows are sorted, so that two collectors with the same readings wait for each other and never both.
struct KeepPlan: Sendable {
    struct Key: Hashable, Comparable {
        var gateway: String
        var id: String

        static func < (lhs: Key, rhs: Key) -> Bool { (lhs.gateway, lhs.id) < (rhs.gateway, rhs.id) }
    }

    /// What the database did with the readings that were sent.
    struct Changes: Sendable {
        var inserted: Set<Key> = []
        var updated: Set<Key> = []

        /// - Parameter rows: gateway, id, and whether the row is new.
        init(_ rows: [PostgreSQLConnection.Row]) {
            for row in rows {
                guard let gateway = row[0], let id = row[1] else { continue }
                if row[2] == "t" {
                    inserted.insert(Key(gateway: gateway, id: id))
                } else {
                    updated.insert(Key(gateway: gateway, id: id))
                }
            }
        }
    }

    /// A reading that is sent, and the batch it came in.
    private struct Sent {
        var batch: Int
        var place: Int
        var reading: CentralReading
    }

    /// `xmax` is 0 in a row that was inserted, and the transaction's number in one that was updated.
    static let upsert = """
        INSERT INTO reading AS known
            (gateway, id, revision, batch, taken, kind, person, body, retracted, received)
        SELECT gateway, id, revision, batch, taken, kind, person, body::jsonb, body IS NULL, received
        FROM unnest(
            $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::text[], $7::text[], $8::text[],
            $9::timestamptz[]
        ) AS sent (gateway, id, revision, batch, taken, kind, person, body, received)
        ON CONFLICT (gateway, id) DO UPDATE SET
            revision = excluded.revision, batch = excluded.batch, taken = excluded.taken,
            kind = coalesce(excluded.kind, known.kind), person = excluded.person, body = excluded.body, retracted = excluded.retracted,
            received = excluded.received
        WHERE excluded.revision > known.revision
        RETURNING gateway, id, xmax = 0
        """

    static let hear = """
        INSERT INTO gateway AS known (gateway, heard, stored, highest_batch)
        SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[])
        ON CONFLICT (gateway) DO UPDATE SET
            heard = greatest(known.heard, excluded.heard), stored = known.stored + excluded.stored,
            highest_batch = greatest(known.highest_batch, excluded.highest_batch)
        """

    private let batches: [ArrivedBatch]
    private let sent: [Key: Sent]
    private let keys: [Key]

    init(_ batches: [ArrivedBatch]) {
        self.batches = batches
        var sent: [Key: Sent] = [:]
        for (index, batch) in batches.enumerated() {
            for (place, reading) in batch.readings.enumerated() {
                let key = Key(gateway: batch.gateway, id: reading.id)
                if let other = sent[key], other.reading.revision >= reading.revision { continue }
                sent[key] = Sent(batch: index, place: place, reading: reading)
            }
        }
        self.sent = sent
        keys = sent.keys.sorted()
    }

    var isEmpty: Bool { keys.isEmpty }

    var readingParameters: [PostgreSQLValue] {
        let readings = keys.compactMap { sent[$0]?.reading }
        return [
            .array(keys.map(\.gateway)), .array(keys.map(\.id)), .array(readings.map { String($0.revision) }),
            .array(readings.map { String($0.batch) }), .array(readings.map { $0.taken?.description }),
            .array(readings.map(\.kind)), .array(readings.map(\.person)), .array(readings.map(\.body)),
            .array(keys.map { key in sent[key].map { batches[$0.batch].received.description } }),
        ]
    }

    func gatewayParameters(_ changes: Changes) -> [PostgreSQLValue] {
        let byGateway = Dictionary(grouping: batches, by: \.gateway)
        let stored = Dictionary(grouping: changes.inserted, by: \.gateway).mapValues(\.count)
        let names = byGateway.keys.sorted()
        return [
            .array(names), .array(names.map { byGateway[$0]?.map(\.received).max()?.description }),
            .array(names.map { String(stored[$0] ?? 0) }),
            .array(names.map { byGateway[$0]?.map(\.number).max().map { String($0) } }),
        ]
    }

    func outcomes(_ changes: Changes) -> [BatchOutcome] {
        batches.indices.map { index in
            var outcome = BatchOutcome()
            for (place, reading) in batches[index].readings.enumerated() {
                let key = Key(gateway: batches[index].gateway, id: reading.id)
                let wasSent = sent[key].map { $0.batch == index && $0.place == place } ?? false
                if wasSent, changes.inserted.contains(key) {
                    outcome.stored += 1
                } else if wasSent, changes.updated.contains(key) {
                    outcome.revised += 1
                } else {
                    outcome.repeated += 1
                }
            }
            return outcome
        }
    }
}
