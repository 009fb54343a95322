import Foundation
import GRDB
import HTTPTypes

extension SandboxStore {
    /// Which user is meant.
    enum UserKey: Sendable {
        case id(String)
        case clientID(String)
    }

    /// The user as the API shows it; throws ``APIError/unknownUser``.
    func user(_ key: UserKey) async throws -> JSONValue {
        try await writer.read { database in try show(key, database) }
    }

    /// Every user, oldest first.
    func users() async throws -> [JSONValue] {
        try await writer.read { database in
            try String.fetchAll(database, sql: "SELECT user_id FROM person ORDER BY rowid")
                .map { try show(.id($0), database) }
        }
    }

    /// Creates a user; a `client_user_id` in use is refused with the user it belongs to.
    func createUser(_ body: UserBody) async throws -> JSONValue {
        try await writer.write { database in
            try refuseDuplicate(body.clientUserID, except: nil, database)
            let id = UUID().uuidString.lowercased()
            let now = Timestamp.now.text
            try database.execute(
                sql: """
                    INSERT INTO person (user_id, client_user_id, created_on, zone, zone_updated_at, birth_date,
                        birth_date_updated_at, ingestion_start, ingestion_end) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    id, body.clientUserID, now, body.zone, body.zone.map { _ in now }, body.birthDate,
                    body.birthDate.map { _ in now }, body.ingestionStart, body.ingestionEnd,
                ])
            return try show(.id(id), database)
        }
    }

    /// Changes what the body names and leaves the rest.
    func updateUser(_ id: String, _ body: UserBody) async throws -> JSONValue {
        try await writer.write { database in
            _ = try show(.id(id), database)
            try refuseDuplicate(body.clientUserID, except: id, database)
            let now = Timestamp.now.text
            try database.execute(
                sql: """
                    UPDATE person SET client_user_id = coalesce(?, client_user_id), zone = coalesce(?, zone),
                        zone_updated_at = coalesce(?, zone_updated_at), birth_date = coalesce(?, birth_date),
                        birth_date_updated_at = coalesce(?, birth_date_updated_at),
                        ingestion_start = coalesce(?, ingestion_start), ingestion_end = coalesce(?, ingestion_end)
                    WHERE user_id = ?
                    """,
                arguments: [
                    body.clientUserID, body.zone, body.zone.map { _ in now }, body.birthDate,
                    body.birthDate.map { _ in now }, body.ingestionStart, body.ingestionEnd, id,
                ])
            return try show(.id(id), database)
        }
    }

    /// Deletes a user with everything that was theirs.
    func deleteUser(_ id: String) async throws {
        try await writer.write { database in
            try database.execute(sql: "DELETE FROM person WHERE user_id = ?", arguments: [id])
            guard database.changesCount > 0 else { throw APIError.unknownUser }
        }
    }

    /// Throws ``APIError/unknownUser`` when there is none of that id.
    func requireUser(_ id: String, _ database: Database) throws {
        let found = try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM person WHERE user_id = ?)", arguments: [id])
        guard found == true else { throw APIError.unknownUser }
    }

    private func refuseDuplicate(_ clientID: String?, except id: String?, _ database: Database) throws {
        guard let clientID,
            let row = try Row.fetchOne(
                database, sql: "SELECT user_id, created_on FROM person WHERE client_user_id = ? AND user_id IS NOT ?",
                arguments: [clientID, id])
        else { return }
        throw APIError.refused(
            .badRequest, "INVALID_REQUEST", "Client user id already exists.",
            [
                JSONValue.Member(name: "user_id", value: .string(row["user_id"])),
                JSONValue.Member(name: "created_on", value: .string(row["created_on"])),
            ])
    }

    private func show(_ key: UserKey, _ database: Database) throws -> JSONValue {
        let row =
            switch key {
            case .id(let id):
                try Row.fetchOne(database, sql: "SELECT * FROM person WHERE user_id = ?", arguments: [id])
            case .clientID(let id):
                try Row.fetchOne(database, sql: "SELECT * FROM person WHERE client_user_id = ?", arguments: [id])
            }
        guard let row else { throw APIError.unknownUser }
        let id: String = row["user_id"]
        let sources = try Row.fetchAll(
            database, sql: "SELECT slug, created_on FROM source WHERE user_id = ? ORDER BY created_on, slug",
            arguments: [id])
        return [
            "user_id": .string(id),
            "team_id": .string(try teamID(database)),
            "client_user_id": .string(row["client_user_id"]),
            "created_on": .string(row["created_on"]),
            "connected_sources": .array(
                sources.map { source in
                    [
                        "provider": .object(Self.provider(source["slug"])),
                        "created_on": .string(source["created_on"]),
                    ]
                }),
            "fallback_time_zone": Self.fallback("id", row["zone"], row["zone_updated_at"]),
            "fallback_birth_date": Self.fallback("value", row["birth_date"], row["birth_date_updated_at"]),
            "ingestion_start": .text(row["ingestion_start"]),
            "ingestion_end": .text(row["ingestion_end"]),
        ]
    }

    /// `source_slug` says who set it; here it is always the API's caller, whom the API calls `manual`.
    private static func fallback(_ name: String, _ value: String?, _ updated: String?) -> JSONValue {
        guard let value else { return .null }
        return .object([
            JSONValue.Member(name: name, value: .string(value)),
            JSONValue.Member(name: "source_slug", value: "manual"),
            JSONValue.Member(name: "updated_at", value: .text(updated)),
        ])
    }

    /// Name, slug and logo of a provider.
    static func provider(_ slug: String) -> [JSONValue.Member] {
        [
            JSONValue.Member(name: "name", value: .string(Vocabulary.name(of: slug))),
            JSONValue.Member(name: "slug", value: .string(slug)),
            JSONValue.Member(name: "logo", value: ""),
        ]
    }
}
