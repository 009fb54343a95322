import HealthReadings
import PostgreSQLLink

extension GatewaySighting {
    /// Sets when a gateway was heard last in PostgreSQL: ``clockSlack`` says why.
    static let setHeard = """
        heard = CASE WHEN known.heard BETWEEN excluded.heard AND excluded.heard + interval '\(clockSlack) seconds'
            THEN known.heard ELSE excluded.heard END
        """
}

/// The parameters of the statements that keep batches in PostgreSQL, and what their answers mean for each batch.
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
        /// The revisions that are kept instead of readings that changed nothing and say something else.
        fileprivate var kept: [Place: Int64] = [:]
        /// The highest numbers of batches, by gateway.
        fileprivate var highest: [String: Int64] = [:]

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

    /// Where a reading is: the index of its batch, and its own in there.
    fileprivate struct Place: Hashable {
        var batch: Int
        var index: Int
    }

    /// A reading that is sent, and where it came from.
    private struct Sent {
        var place: Place
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
            \(GatewaySighting.setHeard), stored = known.stored + excluded.stored,
            highest_batch = greatest(known.highest_batch, excluded.highest_batch)
        RETURNING gateway, highest_batch
        """

    /// Which of the readings that changed nothing say something else than what is kept. The upsert has locked the rows.
    static let compare = """
        SELECT sent.number, known.revision
        FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS sent (gateway, id, body, number)
        JOIN reading AS known ON known.gateway = sent.gateway AND known.id = sent.id
        WHERE known.body - 'revision' IS DISTINCT FROM sent.body::jsonb - 'revision'
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
                sent[key] = Sent(place: Place(batch: index, index: place), reading: reading)
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
            .array(keys.map { key in sent[key].map { batches[$0.place.batch].received.description } }),
        ]
    }

    /// Readings that changed nothing.
    private func unchanged(_ changes: Changes) -> [Place] {
        batches.indices.flatMap { batch in
            batches[batch].readings.indices.map { Place(batch: batch, index: $0) }
        }.filter { place in
            let key = key(at: place)
            return sent[key]?.place != place || !changes.inserted.contains(key) && !changes.updated.contains(key)
        }
    }

    private func key(at place: Place) -> Key {
        Key(gateway: batches[place.batch].gateway, id: batches[place.batch].readings[place.index].id)
    }

    /// - Returns: `nil`: every reading has changed something.
    func comparisonParameters(_ changes: Changes) -> [PostgreSQLValue]? {
        let places = unchanged(changes)
        guard !places.isEmpty else { return nil }
        return [
            .array(places.map { batches[$0.batch].gateway }), .array(places.map { key(at: $0).id }),
            .array(places.map { batches[$0.batch].readings[$0.index].body }),
        ]
    }

    /// Notes what ``compare`` and ``hear`` have answered.
    func note(_ compared: [PostgreSQLConnection.Row], _ heard: [PostgreSQLConnection.Row], in changes: inout Changes) {
        let places = unchanged(changes)
        for row in compared {
            guard let number = row[0].flatMap(Int.init), let revision = row[1].flatMap(Int64.init) else { continue }
            changes.kept[places[number - 1]] = revision
        }
        for row in heard {
            guard let gateway = row[0], let highest = row[1].flatMap(Int64.init) else { continue }
            changes.highest[gateway] = highest
        }
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
            for (place, reading) in batches[index].readings.enumerated().map({ (Place(batch: index, index: $0), $1) }) {
                let key = key(at: place)
                let wasSent = sent[key]?.place == place
                if wasSent, changes.inserted.contains(key) {
                    outcome.stored += 1
                } else if wasSent, changes.updated.contains(key) {
                    outcome.revised += 1
                } else {
                    outcome.repeated += 1
                    if let kept = changes.kept[place] { outcome.ignore(reading.id, for: kept) }
                }
            }
            outcome.note(highestBatch: changes.highest[batches[index].gateway], of: batches[index].number)
            return outcome
        }
    }
}
