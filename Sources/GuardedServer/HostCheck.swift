import Foundation
import HTTPTypes
import Hummingbird

/// Refuses requests that name another host: a page elsewhere that points its own name at this machine (DNS rebinding)
/// must not read a person's values. An address cannot be pointed elsewhere, so any will do.
package struct HostCheck<Context: RequestContext>: RouterMiddleware {
    /// The names this server answers to, in lower case and without a dot at their end.
    package let names: Set<String>

    /// - Parameter names: the names this server answers to, as a person wrote them.
    package init(names: Set<String>) {
        let lower = names.map { $0.lowercased() }.map { $0.hasSuffix(".") ? String($0.dropLast()) : $0 }
        self.names = Set(lower.filter { !$0.isEmpty })
    }

    package func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        // The first Host field is the authority; any more stand among the other fields.
        if let host = HTTPField.Name("Host"), request.headers.contains(host) {
            throw APIRefusal(.badRequest, "bad_request", "expected one Host field")
        }
        guard let authority = request.head.authority, isOurs(authority) else {
            throw APIRefusal(
                .misdirectedRequest, "wrong_host",
                "this server answers to \(names.sorted().joined(separator: ", ")) and to its addresses",
                hint: "list other names in `http.names`")
        }
        return try await next(request, context)
    }

    package func isOurs(_ authority: String) -> Bool {
        let name = Self.name(of: authority)
        return names.contains(name) || Self.isAddress(name)
    }

    /// `name:port`, `address:port` or `[v6]:port` without the port, in lower case.
    package static func name(of authority: String) -> String {
        let lower = authority.lowercased()
        if lower.hasPrefix("["), let end = lower.firstIndex(of: "]") { return String(lower[...end]) }
        let name = lower.prefix { $0 != ":" }
        return String(name.hasSuffix(".") ? name.dropLast() : name)
    }

    private static func isAddress(_ name: String) -> Bool {
        var (four, six) = (in_addr(), in6_addr())
        if name.hasPrefix("["), name.hasSuffix("]") {
            return inet_pton(AF_INET6, String(name.dropFirst().dropLast().prefix { $0 != "%" }), &six) == 1
        }
        return inet_pton(AF_INET, name, &four) == 1
    }
}
