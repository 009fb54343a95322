import Hummingbird

/// `/sandbox`: what the sandbox holds, and levers for tests and demonstrations. Not part of the Vital API.
///
/// - `GET /sandbox/users` → `{"users":[...]}`, as `GET /v2/user/{id}` shows them.
/// - `GET /sandbox/samples?user_id&resource&after&limit` → `{"samples":[{id, user_id, resource, provider, type,
///   timestamp, stage, time_zone, revisions, first_post, last_post, item}], "next"}`; `item` is what was posted,
///   `revisions` how often another value replaced it, `next` goes into `after`.
/// - `GET /sandbox/posts?user_id&after&limit` → `{"posts":[{id, request_id, received_at, ..., items, inserted, updated,
///   unchanged, unknown_fields}], "next"}`: the accepted posts.
/// - `GET /sandbox/events?after&limit` → `{"events":[{id, message, type, user_id, created_at, state, attempts, last_answer, body}],
///   "next"}`: what was told to the webhook.
/// - `POST /sandbox/users/{user_id}/sources/{slug}/status` `{"status", "error_type"?, "error_message"?}` sets
///   connected, paused or error.
struct InspectionRoutes: Sendable {
    let store: SandboxStore
    let bodies: BodyReader

    static let maximumLimit = 10_000

    func add(to router: Router<SandboxContext>) {
        router.get("/") { _, _ in
            Response(json: ["name": "HealthRelay sandbox", "api": "/v2", "inspection": "/sandbox"])
        }
        router.get("/sandbox/users") { _, _ in Response(json: ["users": .array(try await store.users())]) }
        router.get("/sandbox/samples") { request, _ in
            let query = request.uri.queryParameters
            return Response(
                json: try await store.samples(
                    user: query["user_id"].map { $0.lowercased() }, resource: query["resource"].map(String.init),
                    after: try number("after", request, 0...Int.max, 0),
                    limit: Int(try number("limit", request, 1...Self.maximumLimit, 1000))))
        }
        router.get("/sandbox/posts") { request, _ in
            let query = request.uri.queryParameters
            return Response(
                json: try await store.posts(
                    user: query["user_id"].map { $0.lowercased() },
                    after: try number("after", request, 0...Int.max, 0),
                    limit: Int(try number("limit", request, 1...Self.maximumLimit, 1000))))
        }
        router.get("/sandbox/events") { request, _ in
            Response(
                json: try await store.events(
                    after: try number("after", request, 0...Int.max, 0),
                    limit: Int(try number("limit", request, 1...Self.maximumLimit, 1000))))
        }
        router.post("/sandbox/users/:user_id/sources/:provider/status") { request, context in
            let user = try context.uuid("user_id")
            let slug = try context.choice("provider", among: Vocabulary.linkableSlugs)
            var reader = FieldReader()
            let body = try await bodies.read(request, schema: "sandbox_status").json
            let status = reader.choice(
                reader.required("status", of: body, at: [.name("body")]), among: Vocabulary.statuses,
                at: [.name("body"), .name("status")])
            let type = reader.string(body["error_type"], at: [.name("body"), .name("error_type")])
            let message = reader.string(body["error_message"], at: [.name("body"), .name("error_message")])
            guard let status, reader.problems.isEmpty else { throw APIError.invalid(reader.problems) }
            try await store.setStatus(
                status, of: slug, user: user, errorType: type ?? "provider_api_error",
                message: message ?? "Set through the sandbox.")
            return Response(json: ["success": true])
        }
    }

    private func number(
        _ name: String, _ request: Request, _ range: ClosedRange<Int>, _ standard: Int
    ) throws -> Int64 {
        guard let text = request.uri.queryParameters[Substring(name)] else { return Int64(standard) }
        guard let value = Int(text), range.contains(value) else {
            throw APIError.invalid(
                .name("query"), .name(name),
                message: "Input should be a whole number from \(range.lowerBound) to \(range.upperBound)",
                type: "int_parsing")
        }
        return Int64(value)
    }
}
