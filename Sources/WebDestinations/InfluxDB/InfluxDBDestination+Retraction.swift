import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension InfluxDBDestination {
    /// The tags of a point.
    typealias Tags = [String: String]

    /// Looks each reading's point up by the reading's id, and deletes that point alone.
    ///
    /// The token or user needs the permission to read. A server that cannot delete a point keeps it: VictoriaMetrics, and
    /// InfluxDB 3.
    public func retract(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for item in items {
            do {
                for tags in try await points(of: item) { try await delete(item, tags) }
                outcomes[item.key] = .delivered
            } catch let error as CannotDelete {
                outcomes[item.key] = .refused(error.words)
            } catch {
                let failure = DeliveryFailure(error)
                // What was deleted is noted first; the rest is asked for again.
                guard outcomes.isEmpty || failure.isCancellation else { return outcomes }
                throw failure
            }
        }
        return outcomes
    }

    /// The server has no way to delete a point.
    private struct CannotDelete: Error {
        var words: String
    }

    private func points(of item: Retraction) async throws -> [Tags] {
        switch place {
        case .database(let database, _): try await pointsByInfluxQL(of: item, in: database)
        case .bucket(let bucket, let organisation): try await pointsByFlux(of: item, in: bucket, organisation)
        }
    }

    private func delete(_ item: Retraction, _ tags: Tags) async throws {
        switch place {
        case .database(let database, _): try await deleteByInfluxQL(item, tags, in: database)
        case .bucket(let bucket, let organisation): try await deleteByPredicate(item, tags, in: bucket, organisation)
        }
    }

    // MARK: Version 1

    private func pointsByInfluxQL(of item: Retraction, in database: String) async throws -> [Tags] {
        let measurement = LineProtocol.measurement(of: item.kind)
        let statement =
            "SELECT \"reading_id\" FROM \(Self.identifier(measurement)) WHERE time = "
            + "\(LineProtocol.milliseconds(of: item.timestamp))ms GROUP BY *"
        let results = try await results(of: statement, in: database)
        return try results.flatMap { $0["series"]?.elements ?? [] }.compactMap { series in
            // VictoriaMetrics answers every query with the names of its databases.
            guard series["name"]?.text == measurement else {
                throw CannotDelete(words: "this server answers no queries, so a point cannot be taken back")
            }
            let isIt = series["values"]?.elements.contains { row in
                row.elements.contains(.text(item.reading.description))
            }
            // A tag that a series lacks is listed without a value.
            return isIt == true
                ? series["tags"]?.members.compactMapValues(\.text).filter { !$0.value.isEmpty } ?? [:] : nil
        }
    }

    private func deleteByInfluxQL(_ item: Retraction, _ tags: Tags, in database: String) async throws {
        let conditions = tags.sorted { $0.key < $1.key }.map {
            " AND \(Self.identifier($0.key)) = \(Self.quoted($0.value))"
        }
        _ = try await results(
            of: "DELETE FROM \(Self.identifier(LineProtocol.measurement(of: item.kind))) WHERE time = "
                + "\(LineProtocol.milliseconds(of: item.timestamp))ms" + conditions.joined(), in: database)
    }

    /// The results of a statement. A statement that failed is answered with 200 and an `error` beside them.
    private func results(of statement: String, in database: String) async throws -> [AnswerJSON] {
        var request = WebRequest(
            url: client.server.address.joined("query", ["db": database, "epoch": "ms"]), route: "POST /query")
        request.headers = headers + [("content-type", Masked("application/x-www-form-urlencoded"))]
        request.body = Array("q=\(HTTPAddress.encoded(statement))".utf8)
        let answer = try await client.send(request)
        guard answer.isGood else { throw retractionFailure(client.failure(of: answer, request.route)) }
        guard let results = answer.json?["results"]?.elements else {
            throw DeliveryFailure(
                .destination, code: "not_json", message: "\(request.route): the answer is not JSON with results",
                serverSaid: client.said(answer))
        }
        if let words = results.lazy.compactMap({ $0["error"]?.text }).first {
            throw DeliveryFailure(
                .target, code: "refused", message: "\(request.route): the server refuses the statement",
                serverSaid: client.oneLine(words))
        }
        return results
    }

    static func identifier(_ name: String) -> String {
        "\"" + name.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }

    // MARK: Version 2

    /// The nanosecond of a point, and the one behind it.
    private static func nanosecond(of item: Retraction) -> (begin: String, end: String) {
        let begin = item.timestamp.flooredToSecond.description
        return (begin, begin.replacing("Z", with: ".000000001Z"))
    }

    private func pointsByFlux(of item: Retraction, in bucket: String, _ organisation: String) async throws -> [Tags] {
        let moment = Self.nanosecond(of: item)
        let query = """
            from(bucket: \(Self.identifier(bucket))) |> range(start: \(moment.begin), stop: \(moment.end))
            |> filter(fn: (r) => r._measurement == \(Self.identifier(LineProtocol.measurement(of: item.kind)))
            and r._field == "reading_id" and r._value == \(Self.identifier(item.reading.description)))
            """
        var request = WebRequest(
            url: client.server.address.joined("api/v2/query", ["org": organisation]), route: "POST /api/v2/query")
        request.headers =
            headers + [("content-type", Masked("application/vnd.flux")), ("accept", Masked("application/csv"))]
        request.body = Array(query.utf8)
        let answer = try await client.send(request)
        try requireCapable(answer, request.route)
        return FluxTable.rows(String(decoding: answer.body, as: UTF8.self)).map { row in
            row.filter { ["device", "person", "sample_type"].contains($0.key) && !$0.value.isEmpty }
        }
    }

    private func deleteByPredicate(
        _ item: Retraction, _ tags: Tags, in bucket: String, _ organisation: String
    ) async throws {
        let moment = Self.nanosecond(of: item)
        let conditions =
            ["_measurement=\(Self.identifier(LineProtocol.measurement(of: item.kind)))"]
            + tags.sorted { $0.key < $1.key }.map { "\($0.key)=\(Self.identifier($0.value))" }
        var request = WebRequest(
            url: client.server.address.joined("api/v2/delete", ["org": organisation, "bucket": bucket]),
            route: "POST /api/v2/delete")
        request.headers = headers + [("content-type", Masked("application/json"))]
        var body: [UInt8] = []
        JSONValue.object([
            "start": .string(moment.begin), "stop": .string(moment.end),
            "predicate": .string(conditions.joined(separator: " AND ")),
        ]).write(into: &body)
        request.body = body
        try requireCapable(try await client.send(request), request.route)
    }

    private func requireCapable(_ answer: HTTPAnswer, _ route: String) throws {
        if answer.isGood, !answer.isPage { return }
        let said = client.said(answer) ?? ""
        // VictoriaMetrics names the path with a status of 400; a 404 may also mean the bucket.
        let isMissing = [404, 405, 501].contains(answer.status) && !answer.isPage
        let isPlace = said.contains("bucket") || said.contains("organization")
        if isMissing && !isPlace || answer.status == 400 && said.contains("unsupported path") {
            throw CannotDelete(words: "this server has no \(route), so a point cannot be taken back")
        }
        throw retractionFailure(client.failure(of: answer, route))
    }

    /// What the failure to take back means: nothing about the readings that are delivered.
    private func retractionFailure(_ failure: DeliveryFailure) -> DeliveryFailure {
        var failure = failure
        if failure.code == "forbidden" {
            failure.scope = .target
            failure.message += "; taking readings back needs the permission to read and to delete"
        }
        if failure.scope == .items { failure.scope = .target }
        return failure
    }
}

/// Tables as Flux queries are answered: CSV with a line of names, and an empty line before the next.
enum FluxTable {
    /// The rows of all tables, by column. Annotations are left out.
    static func rows(_ text: String) -> [[String: String]] {
        var (names, rows): ([String], [[String: String]]) = ([], [])
        for record in records(text) {
            if record == [""] {
                names = []
            } else if record.first?.hasPrefix("#") == true {
                continue
            } else if names.isEmpty {
                names = record
            } else {
                rows.append(Dictionary(zip(names, record)) { first, _ in first })
            }
        }
        return rows
    }

    /// Records of RFC 4180: quotes are doubled within quotes.
    private static func records(_ text: String) -> [[String]] {
        var (records, record, field): ([[String]], [String], String) = ([], [], "")
        var (isQuoted, wasQuote) = (false, false)
        for scalar in text.unicodeScalars {
            if isQuoted {
                if scalar == "\"" {
                    (isQuoted, wasQuote) = (false, true)
                } else {
                    field.unicodeScalars.append(scalar)
                }
                continue
            }
            switch scalar {
            case "\"":
                if wasQuote { field += "\"" }
                isQuoted = true
            case ",":
                record.append(field)
                field = ""
            case "\n":
                records.append(record + [field])
                (record, field) = ([], "")
            case "\r": break
            default: field.unicodeScalars.append(scalar)
            }
            wasQuote = false
        }
        if !field.isEmpty || !record.isEmpty { records.append(record + [field]) }
        return records
    }
}
