import Foundation
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess

/// A browser's session: begun with the code of a link or of a pairing.
struct SessionRoutes {
    private static let route = "/api/v1/session"

    let door: AccessPoint

    /// Open to everybody: says how the caller stands, and lets in a browser that has a code.
    func add(to group: RouterGroup<APIContext>) {
        group.get("/api/v1/session") { _, context in
            let session = context.caller.browserSession
            return Response.json(
                .object([
                    "signed_in": .bool(session != nil || context.caller.client != nil),
                    "csrf_token": .optional(session.map(door.csrfToken)),
                    "secured": .bool(context.isSecured), "trusted": .bool(context.caller == .local),
                    "fingerprint": .optional(door.certificates?.certificate.fingerprint),
                ]))
        }
        group.post("/api/v1/session") { request, context in try await begin(request, context) }
    }

    /// Requires a session.
    func addEnd(to group: RouterGroup<APIContext>) {
        group.delete("/api/v1/session") { _, context in
            guard case .page(let client) = context.caller else {
                throw APIRefusal(.conflict, "no_session", "there is no session to end")
            }
            _ = try await door.clients.revoke(client.number, now: Date())
            door.audit.note(
                AuditEntry(at: Date(), event: "sign_out", client: client.number, route: Self.route, status: 204))
            return Response(status: .noContent, headers: [.setCookie: cookie(context).field("", seconds: 0)])
        }
    }

    private func begin(_ request: Request, _ context: APIContext) async throws -> Response {
        // A page elsewhere could otherwise sign this browser in as somebody else.
        guard GuardMiddleware.isOfThisSite(request) else {
            throw APIRefusal(.forbidden, "cross_site", "another site's page has asked")
        }
        let body = try await request.object()
        let (code, link) = (try body.text("code"), try body.text("link"))
        guard (code == nil) != (link == nil) else {
            throw APIRefusal.malformed("expected either the code of a pairing or that of a link")
        }
        let now = Date()
        if let code {
            do {
                try door.desk.redeem(code, from: context.client.guest)
            } catch {
                door.audit.note(AuditEntry(at: now, event: "pair_refused", route: Self.route, status: 400))
                throw APIRefusal(error)
            }
        } else if let link, !door.links.redeem(link) {
            door.audit.note(AuditEntry(at: now, event: "sign_in_refused", route: Self.route, status: 400))
            throw APIRefusal(
                .badRequest, "page_link_expired",
                "This link was used already, or is older than five minutes: make another with `healthrelay page`.")
        }
        let begin = await door.time()
        let end = door.tokenEnd(now: begin)
        let name = try body.text("name") ?? "browser"
        let (token, client) = try await door.clients.admit(name, as: .page, now: begin, expiresAt: end)
        door.audit.note(
            AuditEntry(
                at: now, event: code == nil ? "sign_in" : "pair", client: client.number, route: Self.route, status: 201)
        )
        var response = Response.json(
            .object([
                "csrf_token": .string(door.csrfToken(of: "page-\(client.number)")), "key": .string(token.key),
            ]), status: .created)
        response.headers[.setCookie] = cookie(context).field(token.cookie, seconds: Int(end.timeIntervalSince(begin)))
        return response
    }

    private func cookie(_ context: APIContext) -> SessionCookie {
        SessionCookie(isSecured: context.isSecured, port: door.port)
    }
}
