import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension InfluxDBDestination {
    /// Where a reading's points are: one, or one for each sample of a recording.
    struct Points {
        /// The tags that they share.
        var tags: [String: String]
        /// The first and the last, in milliseconds since 1970.
        var times: ClosedRange<Int64>
    }

    /// How far the samples of a recording may lie behind its time, in seconds.
    private static func reach(of item: Retraction) -> Int64 {
        item.kind == .heartRate || item.kind == .spo2 ? 61 : 0
    }

    /// Looks each reading's points up by the reading's id, and deletes those of its person alone: a reading that was moved
    /// is there as somebody else's, too, at the same time.
    ///
    /// The token or user needs the permission to read. A server that cannot delete a point keeps it: VictoriaMetrics, and
    /// InfluxDB 3.
    public func retract(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for item in items {
            do {
                for points in try await points(of: item) { try await delete(item, points) }
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

    /// Whether points with these tags are of the person that a reading is taken back from. Points without a person are of
    /// before the person had a name.
    private static func isOwn(_ tags: [String: String], _ item: Retraction) -> Bool {
        tags["person"].map { $0 == item.person } ?? true
    }

    private func points(of item: Retraction) async throws -> [Points] {
        switch place {
        case .database(let database, _): try await pointsByInfluxQL(of: item, in: database)
        case .bucket(let bucket, let organisation): try await pointsByFlux(of: item, in: bucket, organisation)
        }
    }

    private func delete(_ item: Retraction, _ points: Points) async throws {
        switch place {
        case .database(let database, _): try await deleteByInfluxQL(item, points, in: database)
        case .bucket(let bucket, let organisation): try await deleteByPredicate(item, points, in: bucket, organisation)
        }
    }

    // MARK: Version 1

    private func pointsByInfluxQL(of item: Retraction, in database: String) async throws -> [Points] {
        let measurement = LineProtocol.measurement(of: item.kind)
        let first = LineProtocol.milliseconds(of: item.timestamp)
        let statement =
            "SELECT \"reading_id\" FROM \(Self.identifier(measurement)) WHERE "
            + Self.condition(first...(first + 1000 * Self.reach(of: item))) + " GROUP BY *"
        let results = try await results(of: statement, in: database)
        return try results.flatMap { $0["series"]?.elements ?? [] }.compactMap { series in
            // VictoriaMetrics answers every query with the names of its databases.
            guard series["name"]?.text == measurement else {
                throw CannotDelete(words: "this server answers no queries, so a point cannot be taken back")
            }
            // A tag that a series lacks is listed without a value.
            let tags = series["tags"]?.members.compactMapValues(\.text).filter { !$0.value.isEmpty } ?? [:]
            guard Self.isOwn(tags, item) else { return nil }
            let rows = series["values"]?.elements.map(\.elements) ?? []
            let own = rows.filter { $0.contains(.text(item.reading.description)) }
            guard !own.isEmpty else { return nil }
            let times = own.compactMap { row -> Int64? in
                if case .number(let time)? = row.first { Int64(exactly: time) } else { nil }
            }
            return Points(tags: tags, times: (times.min() ?? first)...(times.max() ?? first))
        }
    }

    private func deleteByInfluxQL(_ item: Retraction, _ points: Points, in database: String) async throws {
        let conditions = points.tags.sorted { $0.key < $1.key }.map {
            " AND \(Self.identifier($0.key)) = \(Self.quoted($0.value))"
        }
        _ = try await results(
            of: "DELETE FROM \(Self.identifier(LineProtocol.measurement(of: item.kind))) WHERE "
                + Self.condition(points.times) + conditions.joined(), in: database)
    }

    private static func condition(_ times: ClosedRange<Int64>) -> String {
        times.count == 1
            ? "time = \(times.lowerBound)ms" : "time >= \(times.lowerBound)ms AND time <= \(times.upperBound)ms"
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
        "\"" + name.escaping(["\\": "\\\\", "\"": "\\\""]) + "\""
    }

    static func quoted(_ text: String) -> String {
        "'" + text.escaping(["\\": "\\\\", "'": "\\'"]) + "'"
    }

    // MARK: Version 2

    /// A text in Flux, which would compute what stands between `${` and `}`.
    static func fluxText(_ text: String) -> String {
        "\"" + text.escaping(["\\": "\\\\", "\"": "\\\"", "$": "\\x24"]) + "\""
    }

    /// The nanosecond of the first point, and the one behind the last.
    private static func nanoseconds(_ times: ClosedRange<Int64>) -> (begin: String, end: String) {
        func text(_ milliseconds: Int64) -> (second: String, fraction: Int64) {
            let instant = Instant(microseconds: milliseconds * 1000).flooredToSecond
            return (String(instant.description.dropLast()), milliseconds - instant.seconds * 1000)
        }
        let (first, last) = (text(times.lowerBound), text(times.upperBound))
        func digits(_ number: Int64) -> String { String(repeating: "0", count: 3 - "\(number)".count) + "\(number)" }
        return (
            first.second + (first.fraction == 0 ? "Z" : ".\(digits(first.fraction))Z"),
            last.second + ".\(digits(last.fraction))000001Z"
        )
    }

    private func pointsByFlux(of item: Retraction, in bucket: String, _ organisation: String) async throws -> [Points] {
        let first = LineProtocol.milliseconds(of: item.timestamp.flooredToSecond)
        let moment = Self.nanoseconds(first...(first + 1000 * Self.reach(of: item)))
        let query = """
            from(bucket: \(Self.fluxText(bucket))) |> range(start: \(moment.begin), stop: \(moment.end))
            |> filter(fn: (r) => r._measurement == \(Self.fluxText(LineProtocol.measurement(of: item.kind)))
            and r._field == "reading_id" and r._value == \(Self.fluxText(item.reading.description))
            and (not exists r.person or r.person == \(Self.fluxText(item.person))))
            """
        var request = WebRequest(
            url: client.server.address.joined("api/v2/query", ["org": organisation]), route: "POST /api/v2/query")
        request.headers =
            headers + [("content-type", Masked("application/vnd.flux")), ("accept", Masked("application/csv"))]
        request.body = Array(query.utf8)
        let answer = try await client.send(request)
        try requireCapable(answer, request.route)
        var points: [[String: String]: ClosedRange<Int64>] = [:]
        for row in FluxTable.rows(String(decoding: answer.body, as: UTF8.self)) {
            let tags = row.filter { ["device", "person", "sample_type"].contains($0.key) && !$0.value.isEmpty }
            guard Self.isOwn(tags, item) else { continue }
            let time = row["_time"].flatMap { Instant(rfc3339: $0) }.map(LineProtocol.milliseconds) ?? first
            let known = points[tags] ?? time...time
            points[tags] = min(known.lowerBound, time)...max(known.upperBound, time)
        }
        return points.map { Points(tags: $0.key, times: $0.value) }
    }

    private func deleteByPredicate(
        _ item: Retraction, _ points: Points, in bucket: String, _ organisation: String
    ) async throws {
        let moment = Self.nanoseconds(points.times)
        let conditions =
            ["_measurement=\(Self.identifier(LineProtocol.measurement(of: item.kind)))"]
            + points.tags.sorted { $0.key < $1.key }.map { "\($0.key)=\(Self.identifier($0.value))" }
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
        // Without the permission to read, InfluxDB 2 finds no such bucket.
        if failure.scope == .items || failure.code == "not_found" { failure.scope = .target }
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
