import GuardedServer
import Hummingbird
import LocalAccess
import NIOCore

/// Who sends a request.
enum Caller: Sendable, Hashable {
    /// Nobody who may see anything.
    case stranger
    /// A browser or program on this machine, where `http.local` trusts every one.
    case local
    /// A program with a token.
    case client(AccessClient)
    /// A browser with a session.
    case page(AccessClient)
    /// Whoever has a read-only link.
    case link(AccessClient)

    /// Its entry in the list of clients.
    var client: AccessClient? {
        switch self {
        case .client(let client), .page(let client), .link(let client): client
        case .stranger, .local: nil
        }
    }

    /// What it was let in for; `nil`: it was not.
    var grant: AccessGrant? {
        switch self {
        case .client(let client), .page(let client), .link(let client): client.grant
        case .local: .owner
        case .stranger: nil
        }
    }

    /// What the CSRF token of its changes is bound to; nil: it is a program, whose token no browser adds by itself.
    var browserSession: String? {
        switch self {
        case .local: "local"
        case .page(let client): "page-\(client.number)"
        case .stranger, .client, .link: nil
        }
    }

    /// The link; `nil` for others.
    var link: AccessClient? {
        if case .link(let client) = self { client } else { nil }
    }
}

/// What a request of the local API carries beside itself.
struct APIContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The other side of the connection.
    let peer: PeerAddress
    /// The client: the other side, or what a trusted proxy says it is.
    var client: PeerAddress
    /// Whether the client is on this machine: over loopback without TLS, and not through a proxy that says so.
    var isLocal = false
    /// Whether the client speaks TLS, with the gateway or with a trusted proxy.
    var isSecured = false
    /// Who sends the request, once that has been looked at.
    var caller = Caller.stranger

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        peer = PeerAddress(source.channel.remoteAddress?.ipAddress)
        client = peer
    }
}
