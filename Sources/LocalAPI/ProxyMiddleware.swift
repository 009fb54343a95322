import Foundation
import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import Hummingbird
import LocalAccess

/// Refuses requests that a reverse proxy has forwarded, unless `http.trusted_proxies` names the proxy.
///
/// A proxy on this machine connects from loopback, so that without this everybody whom it serves would count as
/// somebody on this machine. Behind a trusted proxy nobody does, and the client's address is the forwarded one.
struct ProxyMiddleware: RouterMiddleware {
    typealias Context = APIContext

    let door: AccessPoint

    func handle(
        _ request: Request, context: APIContext, next: (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        let isTrusted = door.trustedProxies.contains { $0.contains(context.peer.address) }
        if isTrusted {
            context.client =
                Self.client(in: request.headers, trusted: door.trustedProxies).map { PeerAddress($0) } ?? context.peer
            context.isSecured = door.certificates != nil || Self.isSecured(request.headers)
        } else {
            guard !request.headers.contains(where: { Self.isForwarded($0.name) }) else {
                door.audit.note(AuditEntry(at: Date(), event: "forbidden", route: "unknown", status: 403))
                throw Self.refusal(context.peer.address)
            }
            context.isLocal = door.certificates == nil && context.peer.isLoopback
            context.isSecured = door.certificates != nil
        }
        return try await next(request, context)
    }

    /// Whether a proxy adds this field to what it forwards.
    static func isForwarded(_ name: HTTPField.Name) -> Bool {
        ["forwarded", "via", "x-real-ip"].contains(name.canonicalName)
            || name.canonicalName.hasPrefix("x-forwarded")
    }

    private static func refusal(_ peer: String) -> APIRefusal {
        APIRefusal(
            .forbidden, "proxy_not_trusted",
            "an untrusted reverse proxy at \(peer) forwarded this request",
            hint: "to trust it, list its address in `http.trusted_proxies`")
    }

    /// The client's address as the proxies tell it: the last one that is no trusted proxy's; `nil` where the fields
    /// contradict each other, since a client can send any field that its proxy does not write.
    static func client(in headers: HTTPFields, trusted: [AddressRange]) -> String? {
        let told = [
            addresses(headers[values: .xForwardedFor]), addresses(headers[values: .xRealIP]),
            addresses(headers[values: .forwarded].flatMap(forParameters)),
        ].compactMap { list in
            list.map { addresses in
                addresses.last { address in !trusted.contains { $0.contains(address) } } ?? addresses.first
            }
        }
        guard let first = told.first, told.allSatisfy({ $0 == first }) else { return nil }
        return first
    }

    /// The addresses in a list; `nil` where there is no list, empty where one of its members is no address.
    private static func addresses(_ fields: [String]) -> [String]? {
        guard !fields.isEmpty else { return nil }
        // Some other characters make one letter with the comma beside them, and Swift would not split there.
        guard fields.allSatisfy({ $0.utf8.allSatisfy { $0 < 0x80 } }) else { return [] }
        let members = fields.flatMap { $0.split(separator: ",") }.map { address(in: String($0)) }
        return members.contains(nil) ? [] : members.compactMap(\.self)
    }

    /// `address`, `address:port`, `[v6]` or `[v6]:port`, in quotes or not, without its port.
    private static func address(in text: String) -> String? {
        var text = text.trimmingCharacters(in: .whitespaces.union(["\""]))
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            text = String(text[text.index(after: text.startIndex)..<end])
        } else if text.split(separator: ":", omittingEmptySubsequences: false).count == 2 {
            text = String(text.prefix { $0 != ":" })
        }
        return AddressRange.octets(text) == nil ? nil : text.lowercased()
    }

    /// The values of `for` in a `Forwarded` field (RFC 7239).
    private static func forParameters(_ field: String) -> [String] {
        guard field.utf8.allSatisfy({ $0 < 0x80 }) else { return [field] }
        return field.split(separator: ",").map { element in
            let pairs = element.split(separator: ";").map { $0.split(separator: "=", maxSplits: 1) }
            let node = pairs.first { $0.count == 2 && $0[0].trimmingCharacters(in: .whitespaces).lowercased() == "for" }
            return node.map { String($0[1]) } ?? ""
        }
    }

    /// Whether the client speaks TLS with the proxy.
    private static func isSecured(_ headers: HTTPFields) -> Bool {
        headers[values: .xForwardedProto].last?.lowercased() == "https"
            || headers[values: .forwarded].last?.lowercased().contains("proto=https") == true
    }
}
