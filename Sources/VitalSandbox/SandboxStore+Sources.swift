import GRDB
import HTTPTypes

extension SandboxStore {
    /// Connects a source; 409 when it is connected already, whatever its status.
    func connect(_ slug: String, _ body: SourceBody) async throws {
        try await writer.write { database in
            try requireUser(body.userID, database)
            try database.execute(
                sql: """
                    INSERT INTO source (user_id, slug, created_on, status, provider_id, granted_permissions)
                    VALUES (?, ?, ?, 'connected', ?, ?) ON CONFLICT DO NOTHING
                    """,
                arguments: [body.userID, slug, Timestamp.now.text, body.providerID, body.grantedPermissions])
            guard database.changesCount > 0 else {
                throw APIError.refused(.conflict, "ALREADY_CONNECTED", "\(slug) is already connected.")
            }
            let provider = JSONValue.object(Self.provider(slug))
            try note(
                "provider.connection.created", user: body.userID,
                [
                    .init(name: "provider", value: provider), .init(name: "source", value: provider),
                    .init(name: "resource_availability", value: [:]),
                ], database)
        }
    }

    /// Removes a source; its samples stay.
    func disconnect(_ slug: String, user: String) async throws {
        try await writer.write { database in
            try requireUser(user, database)
            try database.execute(
                sql: "DELETE FROM source WHERE user_id = ? AND slug = ?", arguments: [user, slug])
            guard database.changesCount > 0 else {
                throw APIError.refused(.notFound, "NOT_FOUND", "\(slug) is not connected.")
            }
        }
    }

    /// The sources of a user with their status.
    func sources(of user: String) async throws -> [JSONValue] {
        try await writer.read { database in
            try requireUser(user, database)
            return try Row.fetchAll(
                database, sql: "SELECT * FROM source WHERE user_id = ? ORDER BY created_on, slug", arguments: [user]
            ).map { row in
                let status: String = row["status"]
                let error: JSONValue =
                    status == "error"
                    ? [
                        "error_type": .text(row["error_type"]), "error_message": .text(row["error_message"]),
                        "errored_at": .text(row["errored_at"]),
                    ] : .null
                return .object(
                    Self.provider(row["slug"]) + [
                        JSONValue.Member(name: "created_on", value: .string(row["created_on"])),
                        JSONValue.Member(name: "status", value: .string(status)),
                        JSONValue.Member(name: "external_user_id", value: .text(row["provider_id"])),
                        JSONValue.Member(name: "error_details", value: error),
                        JSONValue.Member(name: "resource_availability", value: [:]),
                    ])
            }
        }
    }

    /// Sets the status of a connected source, for tests and demonstrations.
    func setStatus(_ status: String, of slug: String, user: String, errorType: String, message: String) async throws {
        try await writer.write { database in
            try requireUser(user, database)
            let failed = status == "error"
            try database.execute(
                sql: """
                    UPDATE source SET status = ?, error_type = ?, error_message = ?, errored_at = ?
                    WHERE user_id = ? AND slug = ?
                    """,
                arguments: [
                    status, failed ? errorType : nil, failed ? message : nil, failed ? Timestamp.now.text : nil, user,
                    slug,
                ])
            guard database.changesCount > 0 else {
                throw APIError.refused(.notFound, "NOT_FOUND", "\(slug) is not connected.")
            }
        }
    }

    /// Throws unless the user has that source connected and running.
    func requireSource(_ slug: String, user: String, _ database: Database) throws {
        let status = try String.fetchOne(
            database, sql: "SELECT status FROM source WHERE user_id = ? AND slug = ?", arguments: [user, slug])
        switch status {
        case "connected": return
        case "paused":
            throw APIError.refused(.badRequest, "SOURCE_PAUSED", "The connected source \(slug) is paused.")
        case .some:
            throw APIError.refused(.badRequest, "SOURCE_ERROR", "The connected source \(slug) is in error.")
        case nil:
            throw APIError.refused(
                .badRequest, "SOURCE_NOT_CONNECTED", "The user has no connected source \(slug): connect it first.")
        }
    }
}
