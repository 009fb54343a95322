import GatewayCommands
import GuardedServer
import HTTPTypes
import Hummingbird
import LocalAccess
import ReadingStore

/// Adds routes to the router, each with the permission it states, and lets only those callers in that have it.
final class GuardedRoutes {
    typealias Handler = @Sendable (Request, APIContext, Audience) async throws -> Response

    /// What each route states, as `GET /health`.
    private(set) var permissions: [String: Permission] = [:]
    private let group: RouterGroup<APIContext>
    private let entrance: Entrance

    init(_ group: RouterGroup<APIContext>, entrance: Entrance) {
        self.group = group
        self.entrance = entrance
    }

    func get(_ path: String, _ permission: Permission, _ handler: @escaping Handler) {
        add(.get, path, permission, handler)
    }

    func post(_ path: String, _ permission: Permission, _ handler: @escaping Handler) {
        add(.post, path, permission, handler)
    }

    func patch(_ path: String, _ permission: Permission, _ handler: @escaping Handler) {
        add(.patch, path, permission, handler)
    }

    func delete(_ path: String, _ permission: Permission, _ handler: @escaping Handler) {
        add(.delete, path, permission, handler)
    }

    private func add(
        _ method: HTTPRequest.Method, _ path: String, _ permission: Permission, _ handler: @escaping Handler
    ) {
        permissions["\(method) \(path)"] = permission
        group.on(RouterPath(path), method: method) { [entrance] request, context in
            try await handler(request, context, entrance.audience(of: request, context, permission))
        }
    }
}

/// Decides who may pass, and whose data they get.
struct Entrance: Sendable {
    let door: AccessPoint
    let store: ReadingStore

    /// Whose data the answer may hold.
    ///
    /// - Throws: ``APIRefusal`` for a caller that lacks the permission, and for a change that another site had a browser
    ///   make.
    func audience(of request: Request, _ context: APIContext, _ permission: Permission) async throws -> Audience {
        guard let least = permission.scope else { return .household }
        guard let grant = try grant(of: request, context, permission) else { return .household }
        guard grant.scope >= least else {
            throw APIRefusal(
                .forbidden, "scope_too_small",
                "this needs the scope `\(least.rawValue)`, and this client has `\(grant.scope.rawValue)`",
                hint: "`healthrelay client invite --scope \(least.rawValue)` makes a code for another client")
        }
        return try await audience(of: grant, asked: Self.asked(request), permission)
    }

    /// What the caller was let in for; `nil` where anybody on this machine may pass.
    private func grant(of request: Request, _ context: APIContext, _ permission: Permission) throws -> AccessGrant? {
        if case .client(let client) = context.caller { return client.grant }
        if let link = context.caller.link {
            guard permission == .view, request.method == .get || request.method == .head else {
                throw APIRefusal(
                    .forbidden, "link_shows_figures_only",
                    "a read-only link shows figures and newest values, nothing else")
            }
            return link.grant
        }
        if permission == .metrics, context.isLocal, context.caller.client == nil,
            request.headers[.fetchSite] != "cross-site"
        {
            return nil
        }
        guard permission != .program, let session = context.caller.browserSession else { throw Self.unauthorized }
        if request.method != .get, request.method != .head {
            guard Self.isOfThisSite(request) else {
                throw APIRefusal(.forbidden, "cross_site", "another site's page has asked for a change")
            }
            guard let token = request.headers[.csrfToken], door.isCSRFToken(token, of: session) else {
                throw APIRefusal(
                    .forbidden, "csrf_token_needed", "a change needs the session's X-CSRF-Token",
                    hint: "GET /api/v1/session gives it")
            }
        } else if request.headers[.fetchSite] == "cross-site" {
            throw APIRefusal(.forbidden, "cross_site", "another site's page has asked")
        }
        return context.caller.grant
    }

    /// The person a request asks for by name; `nil`: it names none.
    private static func asked(_ request: Request) throws -> String? {
        let names = request.uri.queryParameters.filter { ["person", "user"].contains($0.key) }
        guard names.count <= 1 else { throw APIRefusal.malformed("a parameter is given twice") }
        return names.first.map { String($0.value) }
    }

    private func audience(
        of grant: AccessGrant, asked: String?, _ permission: Permission
    ) async throws -> Audience {
        guard let person = grant.person else {
            guard let asked else { return .household }
            guard permission.servesOnePerson else {
                throw APIRefusal.malformed("person: this route tells of the whole household")
            }
            // An empty name is that of whoever has none.
            guard let user = try await store.user(asked) else {
                throw APIRefusal(.notFound, "no_such_user", "there is no such user")
            }
            return .person(user)
        }
        // The same answer whether or not the store knows the other person.
        guard asked == nil || asked == person else {
            throw APIRefusal(.forbidden, "other_person", "this client may not ask for another person")
        }
        guard permission.servesOnePerson else {
            throw APIRefusal(
                .forbidden, "household_only", "this tells of the whole household, and this client is for one person")
        }
        // A client outlives its person in this list for a moment at most.
        guard !person.isEmpty, let user = try await store.user(person) else { throw Self.unauthorized }
        return .person(user)
    }

    static let unauthorized: APIRefusal = {
        var refusal = APIRefusal(
            .unauthorized, "unauthorized", "a session or a valid token is needed",
            hint:
                "open the page with `healthrelay page`, or pair a program with a code from `healthrelay client invite`")
        refusal.headers[.wwwAuthenticate] = "Bearer realm=\"healthrelay\""
        return refusal
    }()

    /// Whether the browser says that the page that asks is ours; one that says nothing is too old to, and its token
    /// proves it.
    static func isOfThisSite(_ request: Request) -> Bool {
        if let site = request.headers[.fetchSite], site != "same-origin", site != "none" { return false }
        guard let origin = request.headers[.origin] else { return true }
        return origin == "http://\(request.head.authority ?? "")"
            || origin == "https://\(request.head.authority ?? "")"
    }
}
