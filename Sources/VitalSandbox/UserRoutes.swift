import Hummingbird

/// `/v2/user` and `/v2/link/provider/manual`.
struct UserRoutes: Sendable {
    let store: SandboxStore
    let bodies: BodyReader

    func add(to router: Router<SandboxContext>) {
        router.post("/v2/user") { request, _ in
            let body = try UserBody(try await bodies.read(request, schema: "create_user").json, creating: true)
            return Response(json: try await store.createUser(body))
        }
        router.get("/v2/user/:user_id") { _, context in
            Response(json: try await store.user(.id(try context.uuid("user_id"))))
        }
        router.get("/v2/user/resolve/:client_user_id") { _, context in
            Response(json: try await store.user(.clientID(try context.text("client_user_id"))))
        }
        router.patch("/v2/user/:user_id") { request, context in
            let id = try context.uuid("user_id")
            let body = try UserBody(try await bodies.read(request, schema: "update_user").json, creating: false)
            return Response(json: try await store.updateUser(id, body))
        }
        router.delete("/v2/user/:user_id") { _, context in
            try await store.deleteUser(try context.uuid("user_id"))
            return Response(json: ["success": true])
        }
        router.get("/v2/user/providers/:user_id") { _, context in
            Response(json: ["providers": .array(try await store.sources(of: try context.uuid("user_id")))])
        }
        router.delete("/v2/user/:user_id/:provider") { _, context in
            let id = try context.uuid("user_id")
            let slug = try context.choice("provider", among: Vocabulary.linkableSlugs)
            try await store.disconnect(slug, user: id)
            return Response(json: ["success": true])
        }
        router.post("/v2/link/provider/manual/:provider") { request, context in
            let slug = try context.choice("provider", among: Vocabulary.providerSlugs)
            let body = try SourceBody(try await bodies.read(request, schema: "create_source").json)
            try await store.connect(slug, body)
            return Response(json: ["success": true])
        }
    }
}
