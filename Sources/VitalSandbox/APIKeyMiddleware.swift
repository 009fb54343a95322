import HTTPTypes
import Hummingbird

/// Header names of the API.
enum HTTPFieldName {
    static let apiKey = HTTPField.Name("x-vital-api-key")
    static let requestID = HTTPField.Name("x-request-id")
}

/// Lets through only requests with an accepted `x-vital-api-key`, or with the access token of a session, which reaches
/// its own user's paths alone.
struct APIKeyMiddleware: RouterMiddleware {
    typealias Context = SandboxContext

    let accepted: Set<String>?
    let store: SandboxStore

    func handle(
        _ request: Request, context: SandboxContext, next: (Request, SandboxContext) async throws -> Response
    ) async throws -> Response {
        // The root says only what this is, so that a person or a supervisor can see that it is up; a link's page is
        // opened by a person, whose key is the token.
        // Tokens are exchanged by whoever has one.
        if ["/", LinkRoutes.path, SessionRoutes.path].contains(request.uri.path) {
            return try await next(request, context)
        }
        if let bearer = request.headers[.authorization], bearer.hasPrefix("Bearer ") {
            guard let user = try await store.user(ofAccessToken: String(bearer.dropFirst(7))) else {
                throw APIError.refused(.unauthorized, "invalid_token", "The access token is unknown or has ended.")
            }
            let steps = request.uri.path.lowercased().split(separator: "/")
            // Connecting a source names its user in the body.
            let isOwn = steps.contains { $0 == user } || request.uri.path.hasPrefix("/v2/link/")
            guard isOwn, !request.uri.path.hasPrefix("/sandbox/"), steps.last != "sign_in_token" else {
                throw APIError.refused(.forbidden, "FORBIDDEN", "This session may not do that.")
            }
            return try await next(request, context)
        }
        guard let key = HTTPFieldName.apiKey.flatMap({ request.headers[$0] }), accepts(key) else {
            throw APIError.refused(.unauthorized, "UNAUTHORIZED", "A valid x-vital-api-key header is required.")
        }
        return try await next(request, context)
    }

    private func accepts(_ key: String) -> Bool {
        if let accepted { return accepted.contains(key) }
        if key == SandboxConfiguration.fixedKey { return true }
        let prefixes = ["sk_us_", "sk_eu_", "pk_us_", "pk_eu_"]
        guard let prefix = prefixes.first(where: key.hasPrefix) else { return false }
        let rest = key.dropFirst(prefix.count)
        return rest.count >= 4 && rest.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
