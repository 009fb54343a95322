import Foundation
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess

/// A browser's session: begun with a pairing code, kept in a cookie that no script and no other site can read.
struct SessionRoutes {
    let door: AccessPoint

    /// Open to everybody: says how the caller stands, and lets in who has the code.
    func add(to group: RouterGroup<APIContext>) {
        group.get("/api/v1/session") { _, context in
            let session = context.caller.browserSession
            return Response.json(
                .object([
                    "signed_in": .bool(session != nil || context.caller.client != nil),
                    "csrf_token": .optional(session.map(door.csrfToken)),
                    "secured": .bool(door.certificates != nil),
                    "fingerprint": .optional(door.certificates?.certificate.fingerprint),
                ]))
        }
        group.post("/api/v1/session") { request, context in try await begin(request, from: context.peer) }
    }

    /// For who is in.
    func addEnd(to group: RouterGroup<APIContext>) {
        group.delete("/api/v1/session") { _, context in
            guard case .page(let client) = context.caller else {
                throw APIRefusal(.conflict, "no_session", "there is no session to end")
            }
            _ = try await door.clients.revoke(client.number, now: Date())
            return Response(status: .noContent, headers: [.setCookie: Self.cookie("", seconds: 0)])
        }
    }

    private func begin(_ request: Request, from peer: PeerAddress) async throws -> Response {
        guard let certificates = door.certificates else {
            throw APIRefusal(.conflict, "no_session_needed", "on loopback without TLS no session is needed")
        }
        // A page elsewhere could otherwise sign this browser in as somebody else.
        if let site = request.headers[.fetchSite], site != "same-origin", site != "none" {
            throw APIRefusal(.forbidden, "cross_site", "another site's page has asked")
        }
        _ = certificates
        let body = try await request.object()
        let code = try body.requiredText("code")
        let now = Date()
        do {
            try door.desk.redeem(code, from: peer.guest, now: now)
        } catch {
            door.audit.note(AuditEntry(at: now, event: "pair_refused", route: "/api/v1/session", status: 400))
            throw APIRefusal(error)
        }
        let begin = await door.time()
        let end = door.tokenEnd(now: begin)
        let name = try body.text("name") ?? "browser"
        let (token, client) = try await door.clients.admit(name, as: .page, now: begin, expiresAt: end)
        door.audit.note(
            AuditEntry(at: now, event: "pair", client: client.number, route: "/api/v1/session", status: 201))
        var response = Response.json(
            .object(["csrf_token": .string(door.csrfToken(of: "page-\(client.number)"))]), status: .created)
        response.headers[.setCookie] = Self.cookie(token.text, seconds: Int(end.timeIntervalSince(begin)))
        return response
    }

    private static func cookie(_ value: String, seconds: Int) -> String {
        "\(CallerMiddleware.cookie)=\(value); Max-Age=\(seconds); Path=/; Secure; HttpOnly; SameSite=Strict"
    }
}
