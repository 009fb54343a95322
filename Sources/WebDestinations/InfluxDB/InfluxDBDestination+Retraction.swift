import HealthFigures
import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension InfluxDBDestination {
    /// A reading whose points are looked up.
    struct Subject {
        var reading: ReadingID
        /// The client's id of the person.
        var person: String
        var kind: ReadingKind
        /// The timestamp that it was delivered at.
        var timestamp: Instant
    }

    /// Where a reading's points are: one, or one for each sample of a recording.
    struct Points {
        /// The tags that they share. A tag that they lack is empty, or not there.
        var tags: [String: String]
        /// The first and the last, in milliseconds since 1970.
        var times: ClosedRange<Int64>
    }

    /// A point that a deletion would reach.
    private struct Reached {
        /// In milliseconds since 1970.
        var time: Int64
        /// Whether it is the reading's.
        var isOwn: Bool
    }

    /// The points of a page: an answer with as many stays well below a mebibyte.
    static let pageLength = 2000
    /// How many runs a request deletes: each takes InfluxDB 1 some milliseconds.
    static let mostRuns = 100

    /// How far the samples of a recording may lie behind its time, in seconds.
    static func reach(of item: Subject) -> Int64 {
        ReadingKind.recorded.contains(item.kind) ? Reading.longestRecording : 0
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
                try await delete(
                    Subject(reading: item.reading, person: item.person, kind: item.kind, timestamp: item.timestamp))
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
    struct CannotDelete: Error {
        var words: String
    }

    /// Deletes a reading's points.
    ///
    /// - Parameter isMeant: which of them, by their tags.
    func delete(_ item: Subject, where isMeant: ([String: String]) -> Bool = { _ in true }) async throws {
        var isWhole = true
        // Those with more tags first: a deletion of those with fewer may reach them.
        for points in try await points(of: item).sorted(by: { $0.tags.count > $1.tags.count })
        where isMeant(points.tags) {
            let runs = try await runs(of: item, points)
            try await delete(item, points, runs.own)
            if !runs.isWhole { isWhole = false }
        }
        guard isWhole else {
            throw CannotDelete(
                words: "another reading's point of the same time has the same tags and more, and this server "
                    + "cannot delete the one without the other")
        }
    }

    /// Whether points with these tags are of the person that a reading is taken back from. Points without a person are of
    /// before the person had a name.
    static func isOwn(_ tags: [String: String], _ item: Subject) -> Bool {
        tags["person"].map { $0.isEmpty || $0 == item.person } ?? true
    }

    private func points(of item: Subject) async throws -> [Points] {
        switch place {
        case .database(let database, _): try await pointsByInfluxQL(of: item, in: database)
        case .bucket(let bucket, let organisation): try await pointsByFlux(of: item, in: bucket, organisation)
        }
    }

    /// The times of a reading's points, in runs: no other point that a deletion would reach lies within one.
    ///
    /// An oximeter's night and what was recorded of it live are points of one series.
    ///
    /// - Returns: the runs; and whether each of the reading's points is in one, rather than at the time of another point that
    ///   a deletion would reach.
    private func runs(
        of item: Subject, _ points: Points
    ) async throws -> (own: [ClosedRange<Int64>], isWhole: Bool) {
        guard try await hasOthers(item, points) else { return ([points.times], true) }
        var (own, others): (Set<Int64>, Set<Int64>) = ([], [])
        var begin = points.times.lowerBound
        while begin <= points.times.upperBound {
            let page = try await reached(item, points, from: begin)
            for point in page where points.times.contains(point.time) {
                if point.isOwn { own.insert(point.time) } else { others.insert(point.time) }
            }
            guard page.count >= Self.pageLength, let last = page.map(\.time).max() else { break }
            // Points of several series may have the time at which the page ends.
            begin = last > begin ? last : begin + 1
        }
        var (runs, isOpen): ([ClosedRange<Int64>], Bool) = ([], false)
        for time in own.union(others).sorted() {
            if others.contains(time) {
                isOpen = false
            } else if isOpen, let begun = runs.popLast() {
                runs.append(begun.lowerBound...time)
            } else {
                runs.append(time...time)
                isOpen = true
            }
        }
        return (runs, own.isDisjoint(with: others))
    }

    /// Whether a deletion of all between a reading's first and last point would reach points that are not the reading's.
    private func hasOthers(_ item: Subject, _ points: Points) async throws -> Bool {
        switch place {
        case .database(let database, _): try await hasOthersByInfluxQL(item, points, in: database)
        case .bucket(let bucket, let organisation): try await hasOthersByFlux(item, points, in: bucket, organisation)
        }
    }

    /// What a deletion would reach, from a time to the reading's last point: the oldest, as many as a page has.
    private func reached(_ item: Subject, _ points: Points, from begin: Int64) async throws -> [Reached] {
        switch place {
        case .database(let database, _): try await reachedByInfluxQL(item, points, from: begin, in: database)
        case .bucket(let bucket, let organisation):
            try await reachedByFlux(item, points, from: begin, in: bucket, organisation)
        }
    }

    private func delete(_ item: Subject, _ points: Points, _ runs: [ClosedRange<Int64>]) async throws {
        switch place {
        case .database(let database, _): try await deleteByInfluxQL(item, points, runs, in: database)
        case .bucket(let bucket, let organisation):
            for run in runs { try await deleteByPredicate(item, points, run, in: bucket, organisation) }
        }
    }

    // MARK: Version 1

    private func pointsByInfluxQL(of item: Subject, in database: String) async throws -> [Points] {
        let measurement = LineProtocol.measurement(of: item.kind)
        let first = LineProtocol.milliseconds(of: item.timestamp)
        let asked = first...(first + 1000 * Self.reach(of: item))
        // The two ends alone: a night's points are more than an answer may have.
        let statements = (asked.count > 1 ? ["first", "last"] : ["first"]).map { end in
            "SELECT \(end)(\"reading_id\") FROM \(Self.identifier(measurement)) WHERE "
                + Self.condition(asked)
                + " AND \"reading_id\" = \(Self.quoted(item.reading.description)) GROUP BY *"
        }
        let results = try await results(of: statements.joined(separator: "; "), in: database)
        var points: [[String: String]: ClosedRange<Int64>] = [:]
        for series in results.flatMap({ $0["series"]?.elements ?? [] }) {
            // VictoriaMetrics answers every query with the names of its databases.
            guard series["name"]?.text == measurement else {
                throw CannotDelete(words: "this server answers no queries, so a point cannot be taken back")
            }
            // A tag that a series lacks is listed without a value.
            let tags = series["tags"]?.members.compactMapValues(\.text) ?? [:]
            guard Self.isOwn(tags, item) else { continue }
            for row in series["values"]?.elements ?? [] where row.elements.contains(.text(item.reading.description)) {
                let time = Self.time(Self.time(row), in: asked)
                let known = points[tags] ?? time...time
                points[tags] = min(known.lowerBound, time)...max(known.upperBound, time)
            }
        }
        return points.map { Points(tags: $0.key, times: $0.value) }
    }

    private func hasOthersByInfluxQL(
        _ item: Subject, _ points: Points, in database: String
    ) async throws -> Bool {
        // The tags tell the series, and a series has one point of a time.
        guard points.times.count > 1 else { return false }
        let statement =
            "SELECT \"reading_id\" FROM \(Self.series(item, points, points.times))"
            + " AND \"reading_id\" != \(Self.quoted(item.reading.description)) LIMIT 1"
        return try await !rows(of: statement, in: database).isEmpty
    }

    private func reachedByInfluxQL(
        _ item: Subject, _ points: Points, from begin: Int64, in database: String
    ) async throws -> [Reached] {
        let statement =
            "SELECT \"reading_id\" FROM \(Self.series(item, points, begin...points.times.upperBound))"
            + " ORDER BY time ASC LIMIT \(Self.pageLength)"
        return try await rows(of: statement, in: database).compactMap { row in
            Self.time(row).map {
                Reached(time: $0, isOwn: row.elements.contains(.text(item.reading.description)))
            }
        }
    }

    private func deleteByInfluxQL(
        _ item: Subject, _ points: Points, _ runs: [ClosedRange<Int64>], in database: String
    ) async throws {
        for piece in runs.pieces(of: Self.mostRuns) {
            let statements = piece.map { "DELETE FROM \(Self.series(item, points, $0))" }
            _ = try await results(of: statements.joined(separator: "; "), in: database)
        }
    }

    /// A measurement, and the condition that tells one of its series and a time.
    private static func series(_ item: Subject, _ points: Points, _ times: ClosedRange<Int64>) -> String {
        // What is not said of a tag is not excluded: series that have it besides would match, too.
        let tags = points.tags.merging(["device": "", "person": "", "sample_type": ""]) { known, _ in known }
        let conditions = tags.sorted { $0.key < $1.key }.map { " AND \(identifier($0.key)) = \(quoted($0.value))" }
        return "\(identifier(LineProtocol.measurement(of: item.kind))) WHERE " + condition(times) + conditions.joined()
    }

    private func rows(of statement: String, in database: String) async throws -> [AnswerJSON] {
        try await results(of: statement, in: database).flatMap { $0["series"]?.elements ?? [] }
            .flatMap { $0["values"]?.elements ?? [] }
    }

    /// The time of a row, in milliseconds since 1970.
    private static func time(_ row: AnswerJSON) -> Int64? {
        if case .number(let time)? = row.elements.first { Int64(exactly: time) } else { nil }
    }

    /// The time of a point; the first that was asked for where the server tells none, or one that was not asked for.
    private static func time(_ told: Int64?, in asked: ClosedRange<Int64>) -> Int64 {
        guard let told, asked.contains(told) else { return asked.lowerBound }
        return told
    }

    static func condition(_ times: ClosedRange<Int64>) -> String {
        times.count == 1
            ? "time = \(times.lowerBound)ms" : "time >= \(times.lowerBound)ms AND time <= \(times.upperBound)ms"
    }

    /// The results of a statement. A statement that failed is answered with 200 and an `error` beside them.
    func results(of statement: String, in database: String) async throws -> [AnswerJSON] {
        var request = WebRequest(
            url: client.server.address.joined("query", ["db": database, "epoch": "ms"]), route: "POST /query")
        request.headers = headers + [("content-type", Masked("application/x-www-form-urlencoded"))]
        request.body = Array("q=\(HTTPAddress.encoded(statement))".utf8)
        let answer = try await client.send(request)
        guard answer.isGood else { throw retractionFailure(client.failure(of: answer, request.route)) }
        guard let results = answer.json?["results"]?.elements else {
            throw DeliveryFailure(
                .target, code: "not_json", message: "\(request.route): the answer is not JSON with results",
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
        return (
            first.second + (first.fraction == 0 ? "Z" : ".\(String(first.fraction, digits: 3))Z"),
            last.second + ".\(String(last.fraction, digits: 3))000001Z"
        )
    }

    private func pointsByFlux(of item: Subject, in bucket: String, _ organisation: String) async throws -> [Points] {
        let first = LineProtocol.milliseconds(of: item.timestamp.flooredToSecond)
        let asked = first...(first + 1000 * Self.reach(of: item))
        // The two ends alone: a night's points are more than an answer may have.
        let query = """
            points = \(Self.source(item, asked, bucket))
            and r._value == \(Self.fluxText(item.reading.description))
            and (not exists r.person or r.person == \(Self.fluxText(item.person))))
            points |> first() |> yield(name: "first")
            points |> last() |> yield(name: "last")
            """
        var points: [[String: String]: ClosedRange<Int64>] = [:]
        for row in try await rows(of: query, organisation) {
            let tags = Self.tags(row)
            guard Self.isOwn(tags, item) else { continue }
            let time = Self.time(Self.time(row), in: asked)
            let known = points[tags] ?? time...time
            points[tags] = min(known.lowerBound, time)...max(known.upperBound, time)
        }
        return points.map { Points(tags: $0.key, times: $0.value) }
    }

    private func hasOthersByFlux(
        _ item: Subject, _ points: Points, in bucket: String, _ organisation: String
    ) async throws -> Bool {
        // The delete API cannot say that a point lacks a tag.
        let lacking = Self.tagNames(of: item).filter { points.tags[$0] == nil }
        guard points.times.count > 1 || !lacking.isEmpty else { return false }
        let differing =
            ["r._value != \(Self.fluxText(item.reading.description))"] + lacking.map { "exists r.\($0)" }
        let query =
            Self.source(item, points.times, bucket) + Self.conditions(points)
            + " and (\(differing.joined(separator: " or "))))\n|> first()"
        return try await !rows(of: query, organisation).isEmpty
    }

    private func reachedByFlux(
        _ item: Subject, _ points: Points, from begin: Int64, in bucket: String, _ organisation: String
    ) async throws -> [Reached] {
        let query =
            Self.source(item, begin...points.times.upperBound, bucket) + Self.conditions(points)
            + ")\n|> group() |> sort(columns: [\"_time\"]) |> limit(n: \(Self.pageLength))"
        return try await rows(of: query, organisation).compactMap { row in
            Self.time(row).map { time in
                Reached(
                    time: time,
                    isOwn: row["_value"] == item.reading.description && Self.tags(row) == points.tags)
            }
        }
    }

    /// The beginning of a query for the reading ids of a kind's points. Its filter is not closed yet.
    static func source(_ item: Subject, _ times: ClosedRange<Int64>, _ bucket: String) -> String {
        let moment = nanoseconds(times)
        return """
            from(bucket: \(fluxText(bucket))) |> range(start: \(moment.begin), stop: \(moment.end))
            |> filter(fn: (r) => r._measurement == \(fluxText(LineProtocol.measurement(of: item.kind)))
            and r._field == "reading_id"
            """
    }

    /// What a query's filter asks of points that have a reading's tags, or these and more.
    private static func conditions(_ points: Points) -> String {
        points.tags.sorted { $0.key < $1.key }.map { " and r.\($0.key) == \(fluxText($0.value))" }.joined()
    }

    /// The tags that points of a kind may have.
    static func tagNames(of item: Subject) -> [String] {
        ["device", "person"] + (item.kind == .glucose ? ["sample_type"] : [])
    }

    static func tags(_ row: [String: String]) -> [String: String] {
        row.filter { ["device", "person", "sample_type"].contains($0.key) && !$0.value.isEmpty }
    }

    /// The time of a row, in milliseconds since 1970.
    private static func time(_ row: [String: String]) -> Int64? {
        row["_time"].flatMap { Instant(rfc3339: $0) }.map(LineProtocol.milliseconds)
    }

    /// The rows that a query is answered with.
    func rows(of query: String, _ organisation: String) async throws -> [[String: String]] {
        var request = WebRequest(
            url: client.server.address.joined("api/v2/query", ["org": organisation]), route: "POST /api/v2/query")
        request.headers =
            headers + [("content-type", Masked("application/vnd.flux")), ("accept", Masked("application/csv"))]
        request.body = Array(query.utf8)
        let answer = try await client.send(request)
        try requireCapable(answer, request.route)
        return FluxTable.rows(String(decoding: answer.body, as: UTF8.self))
    }

    private func deleteByPredicate(
        _ item: Subject, _ points: Points, _ times: ClosedRange<Int64>, in bucket: String, _ organisation: String
    ) async throws {
        let moment = Self.nanoseconds(times)
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
        return failure.elsewhere
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
