import HealthReadings
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension InfluxDBDestination {
    /// Readings whose former points one query looks for: of 2,000 it takes InfluxDB 1 longer than ten of 200.
    static let mostLookedUp = 200
    /// How often a reading is written in vain because its former points could not be looked for.
    static let mostLookUps = 5

    /// Deletes what was written of readings before their series had another name: the device's model or the sample type became
    /// known, a reading out of a file was read from its meter, or the person got a name.
    ///
    /// Their points of now are written already, so no reading is ever missing. A server that cannot delete, or lets nobody look,
    /// keeps the former points.
    ///
    /// - Parameter items: readings of the part that were sent before.
    /// - Throws: what says that the server cannot be asked now. The readings are written again then, and looked for again.
    func deleteFormer(_ items: [OutboxItem], of part: DeliveryPart) async throws(DeliveryFailure) {
        let person = part.person.clientUserID
        do {
            for (tags, all) in Dictionary(grouping: items, by: { LineProtocol.tags(of: $0.reading, person: person) }) {
                for piece in all.pieces(of: Self.mostLookedUp) {
                    let subjects = piece.map {
                        Subject(
                            reading: $0.reading.id, person: person, kind: part.target.resource, timestamp: $0.timestamp)
                    }
                    let found = try await withOtherTags(than: tags, subjects)
                    for subject in subjects where found.contains(subject.reading.description) {
                        // Of some points InfluxDB 2 cannot delete the one without the other.
                        do {
                            try await delete(subject) { former in former.filter { !$0.value.isEmpty } != tags }
                        } catch is CannotDelete {}
                    }
                }
            }
        } catch is CannotDelete {
            return
        } catch {
            let failure = DeliveryFailure(error)
            // A server that takes points and answers no queries for long gets no more readings for it.
            // What a person has to settle first, such as a proxy that lets only writing through, is not waited for.
            let mayPass = !failure.needsPerson && (failure.scope == .destination || failure.code == "server_error")
            let isTriedAgain = mayPass && items.contains { $0.attempts < Self.mostLookUps }
            guard isTriedAgain || failure.isCancellation else { return }
            throw failure
        }
    }

    /// The ids of readings that have points of the same person, or of nobody, with other tags than these.
    private func withOtherTags(than tags: [String: String], _ subjects: [Subject]) async throws -> Set<String> {
        guard let first = subjects.first else { return [] }
        let times = subjects.map { LineProtocol.milliseconds(of: $0.timestamp) }
        let begin = times.min() ?? 0
        let asked = begin...((times.max() ?? begin) + 1000 * Self.reach(of: first))
        let ids = "/^(" + subjects.map(\.reading.description).joined(separator: "|") + ")$/"
        switch place {
        case .database(let database, _): return try await otherSeries(than: tags, first, asked, ids, in: database)
        case .bucket(let bucket, let organisation):
            return try await otherTables(than: tags, first, asked, ids, in: bucket, organisation)
        }
    }

    private func otherSeries(
        than tags: [String: String], _ item: Subject, _ asked: ClosedRange<Int64>, _ ids: String, in database: String
    ) async throws -> Set<String> {
        let measurement = LineProtocol.measurement(of: item.kind)
        // A tag that a series lacks is empty.
        let others = Self.tagNames(of: item).map { "\(Self.identifier($0)) != \(Self.quoted(tags[$0] ?? ""))" }
        let statement =
            "SELECT distinct(\"reading_id\") FROM \(Self.identifier(measurement)) WHERE \(Self.condition(asked))"
            + " AND (\"person\" = \(Self.quoted(item.person)) OR \"person\" = '')"
            + " AND (\(others.joined(separator: " OR "))) AND \"reading_id\" =~ \(ids) GROUP BY *"
        var found: Set<String> = []
        for series in try await results(of: statement, in: database).flatMap({ $0["series"]?.elements ?? [] }) {
            guard series["name"]?.text == measurement else {
                throw CannotDelete(words: "this server answers no queries, so a point cannot be taken back")
            }
            for row in series["values"]?.elements ?? [] { found.formUnion(row.elements.compactMap(\.text)) }
        }
        return found
    }

    private func otherTables(
        than tags: [String: String], _ item: Subject, _ asked: ClosedRange<Int64>, _ ids: String, in bucket: String,
        _ organisation: String
    ) async throws -> Set<String> {
        let others = Self.tagNames(of: item).map { name in
            tags[name].map { "not exists r.\(name) or r.\(name) != \(Self.fluxText($0))" } ?? "exists r.\(name)"
        }
        let query =
            Self.source(item, asked, bucket)
            + " and (not exists r.person or r.person == \(Self.fluxText(item.person)))"
            + " and (\(others.joined(separator: " or "))) and r._value =~ \(ids))\n|> distinct(column: \"_value\")"
        return Set(try await rows(of: query, organisation).compactMap { $0["_value"] })
    }
}
