import HTTPTypes
import Hummingbird

/// Header names of the API.
enum HTTPFieldName {
    static let apiKey = HTTPField.Name("x-vital-api-key")
    static let requestID = HTTPField.Name("x-request-id")
}

/// Lets through only requests with an accepted `x-vital-api-key`.
struct APIKeyMiddleware: RouterMiddleware {
    typealias Context = SandboxContext

    let accepted: Set<String>?

    func handle(
        _ request: Request, context: SandboxContext, next: (Request, SandboxContext) async throws -> Response
    ) async throws -> Response {
        // The root says only what this is, so that a person or a supervisor can see that it is up; a link's page is
        // opened by a person, whose key is the token.
        if request.uri.path == "/" || request.uri.path == LinkRoutes.path { return try await next(request, context) }
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
