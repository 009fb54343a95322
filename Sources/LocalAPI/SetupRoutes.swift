import Foundation
import GatewayCommands
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess

/// `/setup`: the page of the first run, and the claim that makes its browser the first owner.
struct SetupRoutes {
    static let root = "/setup"
    private static let route = "/setup/claim"

    let door: AccessPoint

    func add(to routes: GuardedRoutes) {
        let files: [(path: String, octets: [UInt8], type: String)] = [
            (Self.root, PackageResources.setup_html, "text/html; charset=utf-8"),
            ("/setup/setup.css", PackageResources.setup_css, "text/css; charset=utf-8"),
            ("/setup/words.js", PackageResources.setup_words_js, "text/javascript; charset=utf-8"),
            (
                "/setup/languages.js", PackageResources.languages_js + PackageResources.calls_js,
                "text/javascript; charset=utf-8"
            ),
            ("/setup/setup.js", PackageResources.setup_js, "text/javascript; charset=utf-8"),
            ("/setup/steps.js", PackageResources.steps_js, "text/javascript; charset=utf-8"),
            ("/setup/lang/de.json", PackageResources.setup_de_json, "application/json"),
            ("/setup/lang/fr.json", PackageResources.setup_fr_json, "application/json"),
            ("/setup/lang/es.json", PackageResources.setup_es_json, "application/json"),
            ("/setup/lang/ar.json", PackageResources.setup_ar_json, "application/json"),
        ]
        PageFile.add(files, to: routes)
        routes.get("/setup/state", .open) { _, context, _ in
            Response.json(
                .object([
                    "claimed": .bool(door.isClaimed), "scope": .optional(context.caller.grant?.scope.rawValue),
                ]))
        }
        routes.post(Self.route, .open) { request, context, _ in try await claim(request, context) }
    }

    private func claim(_ request: Request, _ context: APIContext) async throws -> Response {
        // A page elsewhere could otherwise use a token that it has learned in this browser's name.
        guard Entrance.isOfThisSite(request) else {
            throw APIRefusal(.forbidden, "cross_site", "the request came from another site's page")
        }
        let body = try await request.object()
        try body.requireOnly(["token", "name"])
        let token = try body.requiredText("token")
        let name = try body.text("name") ?? "browser"
        let now = await door.time()
        let end = door.tokenEnd(now: now)
        do {
            let (session, client) = try await door.clients.claim(with: token, name: name, now: now, expiresAt: end)
            door.isClaimed = true
            door.audit.note(
                AuditEntry(at: Date(), event: "claimed", client: client.number, route: Self.route, status: 201))
            return SessionRoutes.welcome(session, client, door, context, from: now, until: end)
        } catch let refusal as AccessStore.ClaimRefusal {
            door.audit.note(AuditEntry(at: Date(), event: "claim_refused", route: Self.route, status: 400))
            if refusal == .claimed {
                throw APIRefusal(
                    .conflict, "already_claimed", "this gateway has an owner",
                    hint: "on its machine, `healthrelay page` makes a link that opens the page")
            }
            // The right token has been looked for before: guesses keep nobody out.
            if let wait = door.claims.admit(context.client.network) {
                var busy = APIRefusal(.tooManyRequests, "too_many_guesses", "too many wrong tokens")
                busy.headers[.retryAfter] = String(max(1, Int(wait.components.seconds) + 1))
                throw busy
            }
            throw APIRefusal(
                .badRequest, "setup_token_invalid",
                refusal == .expired ? "this token is older than an hour" : "this is not the newest token",
                hint: "`healthrelay setup token` makes another")
        }
    }
}

/// Lets nobody past the set-up before somebody has claimed the gateway: it says whether it is well, and nothing else.
struct ClaimMiddleware: RouterMiddleware {
    typealias Context = APIContext

    let door: AccessPoint

    func handle(
        _ request: Request, context: APIContext, next: (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        let path = request.uri.path
        if door.isClaimed || path == "/health" || path == SetupRoutes.root || path.hasPrefix(SetupRoutes.root + "/") {
            return try await next(request, context)
        }
        if path == "/", request.method == .get {
            return Response(status: .seeOther, headers: [.location: SetupRoutes.root])
        }
        throw APIRefusal(
            .forbidden, "not_claimed", "this gateway has no owner yet",
            hint: "on its machine, `healthrelay setup token` prints a link that begins its set-up")
    }
}
