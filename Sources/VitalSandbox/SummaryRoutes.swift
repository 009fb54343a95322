import GRDB
import Hummingbird

/// `/v2/summary`: posts of summaries, kept as they came; the samples of a body summary are samples like others.
struct SummaryRoutes: Sendable {
    let store: SandboxStore
    let bodies: BodyReader
    let maximumItems: Int

    func add(to router: Router<SandboxContext>) {
        router.post("/v2/summary/:kind/:user_id") { request, context in
            let kind = context.parameters.get("kind") ?? ""
            guard Vocabulary.summaries.contains(kind) else { throw APIError.unknownResource }
            let user = try context.uuid("user_id")
            let read = try await bodies.read(request, schema: "summary_" + kind)
            guard kind != "body" else {
                let arrival = SandboxStore.Arrival(
                    requestID: context.requestID, encoding: read.encoding, bodyOctets: read.octets,
                    inflatedOctets: read.inflatedOctets)
                let post = try BodySummaryBody(read.json, maximumItems: maximumItems).post
                try await store.accept(post, user: user, arrival: arrival)
                return Response(json: ["success": true])
            }
            let body = try SummaryBody(read.json, kind: kind, maximumItems: maximumItems)
            try await store.accept(body.data, kind: kind, user: user, body.envelope)
            return Response(json: ["success": true])
        }
        router.get("/v2/summary/:kind/:user_id") { request, context in
            guard context.parameters.get("kind") == "body" else { throw APIError.unknownResource }
            let user = try context.uuid("user_id")
            let query = request.uri.queryParameters
            var reader = FieldReader()
            func day(_ name: String) -> String? {
                reader.day(query[Substring(name)].map { .string(String($0)) }, at: [.name("query"), .name(name)])
            }
            let (first, last) = (day("start_date"), day("end_date"))
            if query["start_date"] == nil {
                reader.note([.name("query"), .name("start_date")], "Field required", "missing")
            }
            try reader.finish()
            let days = try await store.bodyDays(
                of: user, from: first ?? "", to: last, provider: query["provider"].map(String.init))
            return Response(json: ["body": .array(days)])
        }
        router.get("/sandbox/summaries") { _, _ in
            Response(json: ["summaries": .array(try await store.summaries())])
        }
    }
}

extension SandboxStore {
    /// Keeps a summary; the same kind, provider and period again replaces the earlier one.
    func accept(_ data: JSONValue, kind: String, user: String, _ envelope: PostEnvelope) async throws {
        try await writer.write { database in
            try requireUser(user, database)
            try requireSource(envelope.provider, user: user, database)
            try keep(data, kind: kind, user: user, envelope, database)
        }
    }

    /// Writes a summary; the same kind, provider and period again replaces the earlier one.
    func keep(
        _ data: JSONValue, kind: String, user: String, _ envelope: PostEnvelope, _ database: Database
    ) throws {
        try database.execute(
            sql: """
                INSERT INTO summary (user_id, kind, provider, stage, start_date, end_date, time_zone,
                    is_final_chunk, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (user_id, kind, provider, start_date, end_date) DO UPDATE SET
                    stage = excluded.stage, time_zone = excluded.time_zone,
                    is_final_chunk = excluded.is_final_chunk, data = excluded.data
                """,
            arguments: [
                user, kind, envelope.provider, envelope.stage, envelope.start?.text ?? "",
                envelope.end?.text ?? "", envelope.zone.identifier, envelope.isFinalChunk, data.text,
            ])
    }

    /// The summaries kept, oldest first.
    func summaries() async throws -> [JSONValue] {
        try await writer.read { database in
            try Row.fetchAll(database, sql: "SELECT * FROM summary ORDER BY rowid").map { row in
                let data: String = row["data"]
                return [
                    "user_id": .string(row["user_id"]), "kind": .string(row["kind"]),
                    "provider": .string(row["provider"]), "stage": .string(row["stage"]),
                    "start_date": .string(row["start_date"]), "end_date": .string(row["end_date"]),
                    "time_zone": .string(row["time_zone"]), "is_final_chunk": .bool(row["is_final_chunk"]),
                    "data": try JSONTextParser.parse(Array(data.utf8)),
                ]
            }
        }
    }
}
