import OutgoingHTTP

/// Where a destination's server is, and whom to trust there.
public struct WebServer: Sendable, Hashable {
    let address: HTTPAddress
    /// A PEM file of the certificates to trust in place of the system's; `nil`: the system's.
    public let authorities: String?

    /// The URL: `https://ns.example`. It holds no secret.
    public var url: String { address.base }
    /// The host's name or address.
    public var host: String { address.host }
    /// The URL without its query, which may be a secret of the receiver's.
    public var shownURL: String {
        guard let mark = url.unicodeScalars.firstIndex(of: "?") else { return url }
        return String(url.unicodeScalars[...mark]) + "…"
    }
    /// What in the query may be a secret: the whole of it, and each value.
    var querySecrets: [Masked] {
        guard let mark = url.unicodeScalars.firstIndex(of: "?") else { return [] }
        let query = url.unicodeScalars[mark...].dropFirst()
        let values = query.split(separator: "&").compactMap { $0.split(separator: "=", maxSplits: 1).last }
        return ([query] + values).map { String($0) }.filter { $0.count >= 4 }.map { Masked($0) }
    }
    /// Whether the host is not known to be this machine or inside its network. What a name's addresses are is found out when
    /// it is connected to.
    public var mayBePublic: Bool {
        let isAddress = host.contains(":") || host.allSatisfy { $0 == "." || $0.isNumber }
        return isAddress ? PublicAddress.contains(host) : host.lowercased() != "localhost"
    }

    /// Reads a URL.
    ///
    /// - Parameters:
    ///   - url: an `https` URL, with a path or without; `http` to this machine alone.
    ///   - authorities: a PEM file of the certificates to trust in place of the system's; `nil`: the system's.
    ///   - permitsExposed: whether plain `http` to another machine is permitted.
    ///   - allowsQuery: whether a query may follow the path.
    /// - Throws: ``InvalidWebServer``.
    public init(
        url: String, authorities: String? = nil, permitsExposed: Bool = false, allowsQuery: Bool = false
    ) throws(InvalidWebServer) {
        do throws(InvalidHTTPAddress) {
            address = try HTTPAddress(url, allowsQuery: allowsQuery)
        } catch {
            throw error.isAboutCredentials ? .credentials : .url(error.reason)
        }
        guard permitsExposed || !address.isExposed else { throw .exposed(host: address.host) }
        self.authorities = authorities
    }
}

/// Why a text is no URL that a destination may use. It never repeats the text, which may hold a secret.
public enum InvalidWebServer: Error, Sendable, Hashable, CustomStringConvertible {
    /// It is no URL that can be used: half a sentence that says why.
    case url(String)
    /// It carries a name or password.
    case credentials
    /// It reaches another machine over plain http.
    case exposed(host: String)

    /// One line for people.
    public var description: String {
        switch self {
        case .url(let reason): "the URL cannot be used: \(reason)"
        case .credentials: "the URL cannot be used: it carries a name or password"
        case .exposed(let host):
            "the URL reaches \(host) over plain http, so secrets and readings could be read on the way"
        }
    }
}
