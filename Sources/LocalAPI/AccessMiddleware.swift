import Foundation
import GatewayCommands
import GuardedServer
import HTTPTypes
import Hummingbird
import LocalAccess

/// Finds out who sends a request, counts it, and notes it in the audit log.
struct CallerMiddleware: RouterMiddleware {
    typealias Context = APIContext

    let door: AccessPoint
    let counters: RequestCounters

    func handle(
        _ request: Request, context: APIContext, next: (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        context.caller = try await caller(of: request, context)
        if let wait = admission(context) {
            note("rate_limited", request, context, 429)
            var refusal = APIRefusal(
                .tooManyRequests, "rate_limited", "too many requests",
                hint: "again in \(wait) s")
            refusal.headers[.retryAfter] = String(wait)
            throw refusal
        }
        let response: Response
        do {
            response = try await next(request, context)
        } catch let refusal as APIRefusal {
            note(Self.event(refusal.status.code), request, context, refusal.status.code)
            throw refusal
        } catch {
            let status = (error as? any HTTPResponseError)?.status.code ?? 500
            note(Self.event(status), request, context, status)
            throw error
        }
        note("request", request, context, response.status.code)
        return response
    }

    private func caller(of request: Request, _ context: APIContext) async throws -> Caller {
        let now = await door.time()
        if let field = request.headers[.authorization] {
            let parts = field.split(separator: " ", omittingEmptySubsequences: true)
            guard parts.count == 2, parts[0].lowercased() == "bearer" else { return .stranger }
            let client = try await door.clients.client(with: AccessToken(text: String(parts[1])), now: now)
            return client.map { $0.kind == .link ? .link($0) : .client($0) } ?? .stranger
        }
        let anybody: Caller = context.isLocal && door.trustsThisMachine ? .local : .stranger
        let cookie = SessionCookie(isSecured: context.isSecured, port: door.port)
        guard let token = cookie.token(in: request) else { return anybody }
        guard let client = try await door.clients.client(with: token, now: now), client.kind == .page else {
            return anybody
        }
        return .page(client)
    }

    /// How many seconds to wait; nil: the request may pass.
    private func admission(_ context: APIContext) -> Int? {
        let wait: Duration? =
            switch context.caller {
            case .local: nil
            case .client(let client): door.programs.admit("\(client.number)")
            case .page(let client), .link(let client): door.browsers.admit("\(client.number)")
            // What a page is made of is public, and a browser fetches it before it has a session.
            // On this machine nobody could tell one from another: one user's requests would be another's limit.
            case .stranger: context.isLocal ? nil : door.strangers.admit(context.client.network)
            }
        return wait.map { max(1, Int($0.components.seconds) + 1) }
    }

    private func note(_ event: String, _ request: Request, _ context: APIContext, _ status: Int) {
        counters.count(status: status)
        // What this machine's own browser and its scraper do is no news; what strangers get that anybody may is none.
        if context.caller == .local || context.caller == .stranger, event == "request" { return }
        door.audit.note(
            AuditEntry(
                at: Date(), event: event, client: context.caller.client?.number,
                // A path that no route has may hold anything.
                route: context.endpointPath ?? "unknown", status: status))
    }

    private static func event(_ status: Int) -> String {
        switch status {
        case 401: "unauthorized"
        case 403: "forbidden"
        default: "refused"
        }
    }
}

extension HTTPField.Name {
    /// The token of a change (our own).
    static let csrfToken = Self.named("X-CSRF-Token")
    /// The part of a session's token that the page keeps for its origin (our own).
    static let sessionKey = Self.named("X-Session-Key")
    /// What proxies tell of the client.
    static let xForwardedFor = Self.named("X-Forwarded-For")
    static let xForwardedProto = Self.named("X-Forwarded-Proto")
    static let xRealIP = Self.named("X-Real-IP")
    static let forwarded = Self.named("Forwarded")
    /// Where a request comes from (Fetch Metadata).
    static let fetchSite = Self.named("Sec-Fetch-Site")
    /// What a page tells others of where it was (Referrer Policy).
    static let referrerPolicy = Self.named("Referrer-Policy")
    /// What the page may use (Permissions Policy).
    static let permissionsPolicy = Self.named("Permissions-Policy")
    /// Where a stream of events is to go on (HTML, "Server-sent events").
    static let lastEventID = Self.named("Last-Event-ID")

    private static func named(_ text: String) -> HTTPField.Name {
        // All of them are tokens, so that the other name is never taken.
        HTTPField.Name(text) ?? .referer
    }
}
