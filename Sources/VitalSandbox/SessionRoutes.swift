import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// Sign-in tokens and the sessions they begin.
///
/// - `POST /v2/user/{user_id}/sign_in_token` makes a token, good for one exchange;
/// - `POST /v1/token` (a form) exchanges it, or a refresh token, for an access token;
/// - `POST /sandbox/users/{user_id}/sessions/end` ends all sessions of a user; with `{"keep_refresh":true}` only their
///   access tokens.
struct SessionRoutes: Sendable {
    let store: SandboxStore
    let bodies: BodyReader
    /// How long an access token can be used, in seconds.
    let lifetime: Int64

    static let path = "/v1/token"
    private static let maximumForm = 16_384

    func add(to router: Router<SandboxContext>) {
        router.post("/v2/user/:user_id/sign_in_token") { _, context in
            let user = try context.uuid("user_id")
            return Response(json: [
                "user_id": .string(user), "sign_in_token": .string(try await store.createSignInToken(user)),
            ])
        }
        router.post("/v1/token") { request, _ in
            let form = FormFields(String(buffer: try await request.body.collect(upTo: Self.maximumForm)))
            let session: SandboxStore.Session
            switch form["grant_type"] {
            case "urn:ietf:params:oauth:grant-type:token-exchange":
                guard form["subject_token_type"] == "urn:junction:sign-in-token" else {
                    throw APIError.refused(.badRequest, "invalid_request", "Unknown subject_token_type.")
                }
                session = try await store.exchange(form["subject_token"] ?? "", seconds: lifetime)
            case "refresh_token":
                session = try await store.refresh(form["refresh_token"] ?? "", seconds: lifetime)
            default: throw APIError.refused(.badRequest, "unsupported_grant_type", "Unknown grant_type.")
            }
            return Response(json: [
                "access_token": .string(session.access), "refresh_token": .string(session.refresh),
                "token_type": "Bearer", "expires_in": .integer(Int(lifetime)),
            ])
        }
        router.post("/sandbox/users/:user_id/sessions/end") { request, context in
            let user = try context.uuid("user_id")
            let body = try await bodies.read(request, schema: "sandbox_sessions").json
            try await store.endSessions(of: user, keepsRefresh: body["keep_refresh"] == .bool(true))
            return Response(json: ["success": true])
        }
    }
}

extension SandboxStore {
    /// The tokens of a session.
    struct Session: Sendable {
        var access: String
        var refresh: String
    }

    private enum TokenKind: String {
        case signIn = "sign_in"
        case access, refresh
    }

    /// Makes a sign-in token: base64 of a public key and a user token whose claims name the user.
    func createSignInToken(_ user: String) async throws -> String {
        try await writer.write { database in
            try requireUser(user, database)
            let claims: JSONValue = ["uid": .string(user), "claims": ["vital_team_id": .string(try teamID(database))]]
            let parts = ["{\"alg\":\"none\",\"typ\":\"JWT\"}", claims.text, Self.random()].map(Self.base64URL)
            let envelope: JSONValue = [
                "public_key": .string(Self.random()), "user_token": .string(parts.joined(separator: ".")),
            ]
            let token = Data(envelope.text.utf8).base64EncodedString()
            try insert(token, .signIn, user, expiresAt: .max, database)
            return token
        }
    }

    /// Exchanges a sign-in token, which is then used up.
    func exchange(_ token: String, seconds: Int64) async throws -> Session {
        try await writer.write { database in
            guard let user = try user(of: token, .signIn, database) else {
                throw APIError.refused(.unauthorized, "invalid_token", "The sign-in token is unknown or used up.")
            }
            try database.execute(sql: "DELETE FROM token WHERE token = ?", arguments: [token])
            return try begin(user, seconds, database)
        }
    }

    /// Exchanges a refresh token, which is then used up.
    func refresh(_ token: String, seconds: Int64) async throws -> Session {
        try await writer.write { database in
            guard let user = try user(of: token, .refresh, database) else {
                throw APIError.refused(.unauthorized, "reauthentication_required", "The session has ended.")
            }
            try database.execute(sql: "DELETE FROM token WHERE token = ?", arguments: [token])
            return try begin(user, seconds, database)
        }
    }

    /// Whose access token this is; nil for none that can be used.
    func user(ofAccessToken token: String) async throws -> String? {
        try await writer.read { database in try user(of: token, .access, database) }
    }

    /// Ends a user's sessions.
    func endSessions(of user: String, keepsRefresh: Bool) async throws {
        try await writer.write { database in
            try database.execute(
                sql: "DELETE FROM token WHERE user_id = ? AND kind IN ('access', ?)",
                arguments: [user, keepsRefresh ? "access" : "refresh"])
        }
    }

    private func begin(_ user: String, _ seconds: Int64, _ database: Database) throws -> Session {
        let session = Session(access: "at_" + Self.random(), refresh: "rt_" + Self.random())
        try insert(
            session.access, .access, user, expiresAt: Timestamp.now.microseconds + seconds * 1_000_000, database)
        try insert(session.refresh, .refresh, user, expiresAt: .max, database)
        return session
    }

    private func insert(
        _ token: String, _ kind: TokenKind, _ user: String, expiresAt: Int64, _ database: Database
    ) throws {
        try database.execute(
            sql: "INSERT INTO token (token, kind, user_id, expires_at) VALUES (?, ?, ?, ?)",
            arguments: [token, kind.rawValue, user, expiresAt])
    }

    private func user(of token: String, _ kind: TokenKind, _ database: Database) throws -> String? {
        try String.fetchOne(
            database, sql: "SELECT user_id FROM token WHERE token = ? AND kind = ? AND expires_at > ?",
            arguments: [token, kind.rawValue, Timestamp.now.microseconds])
    }

    private static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<3).map { _ in String(generator.next() | 1 << 63, radix: 16) }.joined()
    }

    private static func base64URL(_ text: String) -> String {
        Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }
}
