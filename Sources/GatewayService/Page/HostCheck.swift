import HTTPTypes
import Hummingbird

/// Refuses requests that name another host: a page elsewhere that points its own name at this machine (DNS rebinding)
/// must not read a person's values.
struct HostCheck<Context: RequestContext>: RouterMiddleware {
    /// The names and addresses this server answers to, in lower case without port.
    let hosts: Set<String>

    /// The hosts of a server that listens on `address`.
    init(listeningOn address: String) {
        let host = Self.name(of: address)
        hosts = Set(["localhost", "127.0.0.1", "[::1]", host])
    }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard let authority = request.head.authority, hosts.contains(Self.name(of: authority)) else {
            return Response(
                status: .misdirectedRequest, headers: [.contentType: "text/plain; charset=utf-8"],
                body: .init(
                    byteBuffer: .init(string: "This server answers to \(hosts.sorted().joined(separator: ", ")).\n")))
        }
        return try await next(request, context)
    }

    /// `name:port`, `address:port` or `[v6]:port` without the port, in lower case.
    static func name(of authority: String) -> String {
        let lower = authority.lowercased()
        if lower.hasPrefix("[") { return lower.prefix { $0 != "]" } + "]" }
        return String(lower.prefix { $0 != ":" })
    }
}
