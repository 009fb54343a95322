import Hummingbird

/// `/v2/timeseries`: posting and reading back.
struct TimeseriesRoutes: Sendable {
    let store: SandboxStore
    let bodies: BodyReader
    let maximumItems: Int
    let pageSize: Int

    func add(to router: Router<SandboxContext>) {
        router.post("/v2/timeseries/:user_id/:resource") { request, context in
            let user = try context.uuid("user_id")
            let resource = try resource(context, SampleResource.written)
            let read = try await bodies.read(request, schema: "timeseries_" + resource.rawValue)
            let body = try TimeseriesBody(read.json, resource: resource, maximumItems: maximumItems)
            let arrival = SandboxStore.Arrival(
                requestID: context.requestID, encoding: read.encoding, bodyOctets: read.octets,
                inflatedOctets: read.inflatedOctets)
            try await store.accept(
                SamplePost(
                    resource: resource.rawValue, envelope: body.envelope, samples: body.items.map { (resource, $0) },
                    unknownFields: body.unknownFields), user: user, arrival: arrival)
            return Response(json: ["success": true])
        }
        router.get("/v2/timeseries/:user_id/:resource/grouped") { request, context in
            let user = try context.uuid("user_id")
            let resource = try resource(context, SampleResource.read)
            let window = try window(request)
            return Response(json: try await store.grouped(resource, user: user, window))
        }
    }

    /// The series that a path names; a name that is only for reading is unknown where something is posted.
    private func resource(
        _ context: SandboxContext, _ find: (String) -> SampleResource?
    ) throws -> SampleResource {
        let name = context.parameters.get("resource") ?? ""
        if let resource = find(name) { return resource }
        guard Vocabulary.unsupportedResources.contains(name) else { throw APIError.unknownResource }
        throw APIError.refused(
            .unprocessableContent, "RESOURCE_NOT_SUPPORTED", "This sandbox does not accept \(name) yet.")
    }

    private func window(_ request: Request) throws -> SandboxStore.Window {
        let query = request.uri.queryParameters
        var reader = FieldReader()
        func text(_ name: String) -> String? { query[Substring(name)].map(String.init) }

        let start = instant(text("start_date"), "start_date", endOfDay: false, &reader)
        if text("start_date") == nil {
            reader.note([.name("query"), .name("start_date")], "Field required", "missing")
        }
        let end = instant(text("end_date"), "end_date", endOfDay: true, &reader)
        // The published parameter is next_cursor; its older name cursor is taken too.
        let cursorText = text("next_cursor") ?? text("cursor")
        let cursor = cursorText.flatMap { PageCursor(text: $0) }
        if cursorText != nil, cursor == nil {
            reader.note([.name("query"), .name("next_cursor")], "Value error, no cursor of this server", "value_error")
        }
        try reader.finish()
        guard let start else { throw APIError.invalid(reader.problems) }
        return SandboxStore.Window(
            start: start, end: end, provider: text("provider"), after: cursor, limit: pageSize)
    }

    private func instant(
        _ text: String?, _ name: String, endOfDay: Bool, _ reader: inout FieldReader
    ) -> Timestamp? {
        guard let text else { return nil }
        if let day = Timestamp.parseDay(text) {
            let start = day * 86_400_000_000
            return Timestamp(microseconds: endOfDay ? start + 86_400_000_000 - 1 : start)
        }
        return reader.instant(.string(text), at: [.name("query"), .name(name)])
    }
}
