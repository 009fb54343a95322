import Foundation
import GRDB

/// Samples that were posted together.
struct SamplePost: Sendable {
    /// What the log of posts calls it.
    var resource: String
    var envelope: PostEnvelope
    var samples: [(resource: SampleResource, item: TimeseriesBody.Item)]
    var unknownFields: [String]
    /// The summary it was, which is kept as it came.
    var summary: JSONValue?
}

extension SandboxStore {
    /// How a post came in, for the log.
    struct Arrival: Sendable {
        var requestID: String
        var encoding: String
        var bodyOctets: Int
        var inflatedOctets: Int
    }

    /// Keeps a post: its samples and its line in the log in one transaction, or neither.
    ///
    /// The key of a sample is (user, resource, provider, type, time); a later value replaces the earlier one.
    func accept(_ body: SamplePost, user: String, arrival: Arrival) async throws {
        try await writer.write { database in
            try requireUser(user, database)
            try requireSource(body.envelope.provider, user: user, database)
            try database.execute(
                sql: """
                    INSERT INTO post (request_id, received_at, user_id, resource, provider, stage, start_date, end_date,
                        time_zone, is_final_chunk, encoding, body_octets, inflated_octets, items, inserted, updated,
                        unchanged, unknown_fields) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?)
                    """,
                arguments: [
                    arrival.requestID, Timestamp.now.text, user, body.resource, body.envelope.provider,
                    body.envelope.stage,
                    body.envelope.start?.text, body.envelope.end?.text, body.envelope.zone.identifier,
                    body.envelope.isFinalChunk, arrival.encoding,
                    arrival.bodyOctets, arrival.inflatedOctets, body.samples.count,
                    JSONValue.array(body.unknownFields.map(JSONValue.string)).text,
                ])
            let post = database.lastInsertedRowID
            let counts = try keep(body, user: user, post: post, database)
            if let summary = body.summary {
                try keep(summary, kind: body.resource, user: user, body.envelope, database)
            }
            try database.execute(
                sql: "UPDATE post SET inserted = ?, updated = ?, unchanged = ? WHERE id = ?",
                arguments: [counts.inserted, counts.updated, counts.unchanged, post])
        }
    }

    private func keep(
        _ body: SamplePost, user: String, post: Int64, _ database: Database
    ) throws -> (inserted: Int, updated: Int, unchanged: Int) {
        var counts = (inserted: 0, updated: 0, unchanged: 0)
        var (new, changed): ([TimeseriesBody.Item], [TimeseriesBody.Item]) = ([], [])
        let find = try database.cachedStatement(
            sql: """
                SELECT id, item FROM sample
                WHERE user_id = ? AND resource = ? AND provider = ? AND type = ? AND at = ?
                """)
        let insert = try database.cachedStatement(
            sql: """
                INSERT INTO sample (user_id, resource, provider, type, at, unit, value, systolic, diastolic, pulse,
                    offset, stage, time_zone, item, first_post, last_post)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """)
        let update = try database.cachedStatement(
            sql: """
                UPDATE sample SET unit = ?, value = ?, systolic = ?, diastolic = ?, pulse = ?, offset = ?, stage = ?,
                    time_zone = ?, item = ?, revisions = revisions + ?, last_post = ? WHERE id = ?
                """)
        for (resource, item) in body.samples {
            let key: StatementArguments = [
                user, resource.rawValue, body.envelope.provider, item.type, item.at.microseconds,
            ]
            let values: StatementArguments = [
                item.unit, item.value, item.systolic, item.diastolic, item.pulse, item.offset, body.envelope.stage,
                body.envelope.zone.identifier, item.text,
            ]
            guard let row = try Row.fetchOne(find, arguments: key) else {
                try insert.execute(arguments: key + values + [post, post])
                counts.inserted += 1
                if tellsEvents { new.append(item) }
                continue
            }
            let same = row["item"] == item.text
            try update.execute(arguments: values + [same ? 0 : 1, post, row["id"] as Int64])
            if same { counts.unchanged += 1 } else { counts.updated += 1 }
            if tellsEvents, !same { changed.append(item) }
        }
        try note(body, new: new, changed: changed, user: user, database)
        return counts
    }

    /// What part of a user's samples is asked for; both ends are inclusive.
    struct Window: Sendable {
        var start: Timestamp
        var end: Timestamp?
        var provider: String?
        var after: PageCursor?
        var limit: Int
    }

    /// A page in time order, grouped by provider and source, and where the next page begins.
    func grouped(_ resource: SampleResource, user: String, _ window: Window) async throws -> JSONValue {
        try await writer.read { database in
            try requireUser(user, database)
            var rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT * FROM sample WHERE user_id = :user AND resource = :resource AND at >= :start
                        AND at <= :end AND (:provider IS NULL OR provider = :provider)
                        AND (at, id) > (:at, :id) ORDER BY at, id LIMIT :limit
                    """,
                arguments: [
                    "user": user, "resource": resource.rawValue, "start": window.start.microseconds,
                    "end": window.end?.microseconds ?? Int64.max, "provider": window.provider,
                    "at": window.after?.microseconds ?? Int64.min, "id": window.after?.sample ?? 0,
                    "limit": window.limit + 1,
                ])
            var next: PageCursor?
            if rows.count > window.limit {
                rows.removeLast()
                next = rows.last.map { PageCursor(microseconds: $0["at"], sample: $0["id"]) }
            }
            return ["groups": Self.groups(rows, resource), "next_cursor": .text(next?.text)]
        }
    }

    private static func groups(_ rows: [Row], _ resource: SampleResource) -> JSONValue {
        var providers: [String: [String: [JSONValue]]] = [:]
        for row in rows {
            providers[row["provider"], default: [:]][row["type"], default: []].append(datum(row, resource))
        }
        return .object(
            providers.sorted { $0.key < $1.key }.map { provider, types in
                let groups: [JSONValue] = types.sorted { $0.key < $1.key }.map { type, data in
                    [
                        "source": [
                            "provider": .string(provider), "type": .string(type), "app_id": .null, "device_id": .null,
                        ], "data": .array(data),
                    ]
                }
                return JSONValue.Member(name: provider, value: .array(groups))
            })
    }

    private static func datum(_ row: Row, _ resource: SampleResource) -> JSONValue {
        var members = [JSONValue.Member(name: "timestamp", value: .string(Timestamp(microseconds: row["at"]).text))]
        let names = resource == .bloodPressure ? ["systolic", "diastolic"] : ["value"]
        for name in names {
            let token: String? = row[name]
            members.append(JSONValue.Member(name: name, value: token.map(JSONValue.number) ?? .null))
        }
        members.append(JSONValue.Member(name: "unit", value: .string(row["unit"])))
        members.append(JSONValue.Member(name: "type", value: .string(row["type"])))
        members.append(JSONValue.Member(name: "timezone_offset", value: .integer(row["offset"])))
        return .object(members)
    }

    /// Samples as they are kept, oldest row first, after a row.
    func samples(user: String?, resource: String?, after: Int64, limit: Int) async throws -> JSONValue {
        try await writer.read { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT * FROM sample WHERE id > :after AND (:user IS NULL OR user_id = :user)
                        AND (:resource IS NULL OR resource = :resource) ORDER BY id LIMIT :limit
                    """,
                arguments: ["after": after, "user": user, "resource": resource, "limit": limit + 1])
            return try Self.page("samples", rows, limit) { row in
                let item: String = row["item"]
                return [
                    "id": .integer(row["id"]), "user_id": .string(row["user_id"]),
                    "resource": .string(row["resource"]), "provider": .string(row["provider"]),
                    "type": .string(row["type"]), "timestamp": .string(Timestamp(microseconds: row["at"]).text),
                    "stage": .string(row["stage"]), "time_zone": .string(row["time_zone"]),
                    "revisions": .integer(row["revisions"]), "first_post": .integer(row["first_post"]),
                    "last_post": .integer(row["last_post"]), "item": try JSONTextParser.parse(Array(item.utf8)),
                ]
            }
        }
    }

    /// The log of accepted posts, oldest first, after a row.
    func posts(user: String?, after: Int64, limit: Int) async throws -> JSONValue {
        try await writer.read { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT * FROM post WHERE id > :after AND (:user IS NULL OR user_id = :user) ORDER BY id LIMIT :limit
                    """, arguments: ["after": after, "user": user, "limit": limit + 1])
            return try Self.page("posts", rows, limit) { row in
                let unknown: String = row["unknown_fields"]
                return [
                    "id": .integer(row["id"]), "request_id": .string(row["request_id"]),
                    "received_at": .string(row["received_at"]), "user_id": .string(row["user_id"]),
                    "resource": .string(row["resource"]), "provider": .string(row["provider"]),
                    "stage": .string(row["stage"]), "start_date": .text(row["start_date"]),
                    "end_date": .text(row["end_date"]), "time_zone": .string(row["time_zone"]),
                    "is_final_chunk": .bool(row["is_final_chunk"]), "encoding": .string(row["encoding"]),
                    "body_octets": .integer(row["body_octets"]), "inflated_octets": .integer(row["inflated_octets"]),
                    "items": .integer(row["items"]), "inserted": .integer(row["inserted"]),
                    "updated": .integer(row["updated"]), "unchanged": .integer(row["unchanged"]),
                    "unknown_fields": try JSONTextParser.parse(Array(unknown.utf8)),
                ]
            }
        }
    }

    static func page(
        _ name: String, _ rows: [Row], _ limit: Int, show: (Row) throws -> JSONValue
    ) throws -> JSONValue {
        let shown = rows.prefix(limit)
        let next: JSONValue = rows.count > limit ? (shown.last.map { .integer($0["id"]) } ?? .null) : .null
        return .object([
            JSONValue.Member(name: name, value: .array(try shown.map(show))),
            JSONValue.Member(name: "next", value: next),
        ])
    }
}

/// The place after which the next page of a grouped reading begins.
struct PageCursor: Sendable, Equatable {
    var microseconds: Int64
    var sample: Int64

    /// The opaque text the client sends back.
    var text: String { "c\(microseconds)_\(sample)" }

    init(microseconds: Int64, sample: Int64) {
        self.microseconds = microseconds
        self.sample = sample
    }

    /// Reads a cursor this server gave out.
    init?(text: String) {
        let parts = text.dropFirst().split(separator: "_", omittingEmptySubsequences: false)
        guard text.hasPrefix("c"), parts.count == 2, let microseconds = Int64(parts[0]), let sample = Int64(parts[1])
        else { return nil }
        self.init(microseconds: microseconds, sample: sample)
    }
}
