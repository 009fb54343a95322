import Foundation
import GatewayCommands
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess

/// A browser's session: begun with the code of a link or of a pairing.
struct SessionRoutes {
    private static let route = "/api/v1/session"

    let door: AccessPoint

    func add(to routes: GuardedRoutes) {
        // These two say how the caller stands, and let in a browser that has a code.
        routes.get(Self.route, .open) { _, context, _ in
            let (session, grant) = (context.caller.browserSession, context.caller.grant)
            if let link = context.caller.link {
                door.audit.note(
                    AuditEntry(at: Date(), event: "link_opened", client: link.number, route: Self.route, status: 200))
            }
            return Response.json(
                .object([
                    "signed_in": .bool(grant != nil), "person": .optional(grant?.person),
                    "scope": .optional(grant?.scope.rawValue),
                    "csrf_token": .optional(session.map(door.csrfToken)),
                    "secured": .bool(context.isSecured), "trusted": .bool(context.caller == .local),
                    "fingerprint": .optional(door.certificates?.certificate.fingerprint),
                    "link": context.caller.link.map { link in
                        .object([
                            "days": .optional(link.days), "until": .string(link.expiresAt.instant.description),
                        ])
                    } ?? .null,
                ]))
        }
        routes.post(Self.route, .open) { request, context, _ in try await begin(request, context) }
        routes.delete(Self.route, .read) { _, context, _ in
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
        guard Entrance.isOfThisSite(request) else {
            throw APIRefusal(.forbidden, "cross_site", "the request came from another site's page")
        }
        let body = try await request.object()
        let (code, link) = (try body.text("code"), try body.text("link"))
        guard (code == nil) != (link == nil) else {
            throw APIRefusal.malformed("expected either the code of a pairing or that of a link")
        }
        // Before the code: it is good once, and a request that is refused must not use it up.
        let asked = try body.text("name")
        let now = Date()
        // A link is made by somebody at the gateway's own machine.
        var (grant, given) = (AccessGrant.owner, nil as String?)
        if let code {
            do {
                let invitation = try door.desk.redeem(code, from: context.client.guest)
                (grant, given) = (invitation.grant, invitation.name)
            } catch {
                door.audit.note(AuditEntry(at: now, event: "pair_refused", route: Self.route, status: 400))
                throw APIRefusal(error)
            }
        } else if let link, !door.links.redeem(link) {
            door.audit.note(AuditEntry(at: now, event: "sign_in_refused", route: Self.route, status: 400))
            throw APIRefusal(
                .badRequest, "page_link_expired",
                "This link was already used, or is older than five minutes. Make another with `healthrelay page`.")
        }
        let begin = await door.time()
        let end = door.tokenEnd(now: begin)
        let (token, client) = try await door.clients.admit(
            given ?? asked ?? "browser", as: .page, for: grant, now: begin, expiresAt: end)
        door.audit.note(
            AuditEntry(
                at: now, event: code == nil ? "sign_in" : "pair", client: client.number, route: Self.route, status: 201)
        )
        return Self.welcome(token, client, door, context, from: begin, until: end)
    }

    /// Hands a browser its session.
    static func welcome(
        _ token: AccessToken, _ client: AccessClient, _ door: AccessPoint, _ context: APIContext, from begin: Date,
        until end: Date
    ) -> Response {
        let cookie = SessionCookie(isSecured: context.isSecured, port: door.port)
        var response = Response.json(
            .object([
                "csrf_token": .string(door.csrfToken(of: "page-\(client.number)")), "key": .string(token.key),
            ]), status: .created)
        response.headers[.setCookie] = cookie.field(token.cookie, seconds: Int(end.timeIntervalSince(begin)))
        return response
    }

    private func cookie(_ context: APIContext) -> SessionCookie {
        SessionCookie(isSecured: context.isSecured, port: door.port)
    }
}
