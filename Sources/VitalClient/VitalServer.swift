import Foundation
import NIOCore

/// The region a team's data lives in: part of the host's name.
public enum VitalRegion: String, Sendable, Hashable, CaseIterable {
    /// The United States.
    case us
    /// The European Union.
    case eu
}

/// Which of the service's installations is meant.
public enum VitalEnvironment: String, Sendable, Hashable, CaseIterable {
    /// The live service.
    case production
    /// The service's own test installation.
    case sandbox
    /// A server on this machine: `http://localhost:8000`.
    case local
}

/// Where the server is: the base of every request's URL.
///
/// Hosts are those of the public documentation (docs.junction.com, "Environments").
public struct VitalServer: Sendable, Hashable {
    /// The base URL without a trailing slash: `https://api.sandbox.eu.junction.com`.
    public let baseURL: String
    /// The host's name, for messages.
    public let host: String
    /// The base of the URL at which sign-in tokens are exchanged; the API's own where none is named.
    public let authBaseURL: String
    /// Whether requests travel without TLS to another machine, so that the key could be read on the way.
    public let isExposed: Bool

    /// One of the service's own installations.
    public init(environment: VitalEnvironment, region: VitalRegion) {
        switch environment {
        case .production: self.init(trustedHost: "api.\(region.rawValue).junction.com")
        case .sandbox: self.init(trustedHost: "api.sandbox.\(region.rawValue).junction.com")
        case .local: self.init(baseURL: "http://localhost:8000", host: "localhost", isExposed: false)
        }
    }

    /// Any compatible server.
    ///
    /// - Parameters:
    ///   - text: an `http` or `https` URL, with a path or without.
    ///   - auth: likewise, where sign-in tokens are exchanged; nil: at the same place.
    /// - Throws: ``InvalidBaseURL`` for another scheme, a missing host, a port outside 1 … 65535, a name and password, a query or a fragment.
    public init(baseURL text: String, authBaseURL auth: String? = nil) throws(InvalidBaseURL) {
        let (base, host, isExposed) = try Self.checked(text)
        let other = try auth.map(Self.checked)
        self.init(
            baseURL: base, host: host, isExposed: isExposed || other?.isExposed == true, authBaseURL: other?.base)
    }

    private static func checked(_ text: String) throws(InvalidBaseURL) -> (base: String, host: String, isExposed: Bool)
    {
        guard let parts = URLComponents(string: text), let scheme = parts.scheme?.lowercased() else {
            throw InvalidBaseURL(reason: "it is no URL; a URL begins with https:// or http://")
        }
        guard scheme == "https" || scheme == "http" else {
            throw InvalidBaseURL(reason: "its scheme is \"\(scheme)\", and https or http was expected")
        }
        guard let host = parts.host, !host.isEmpty else { throw InvalidBaseURL(reason: "it names no host") }
        guard hasUsablePort(text) else {
            throw InvalidBaseURL(reason: "its port is not a number from 1 to 65535")
        }
        guard parts.user == nil, parts.password == nil else {
            throw .credentials
        }
        guard parts.query == nil, parts.fragment == nil else {
            throw InvalidBaseURL(reason: "it has a query or a fragment, and only a path may follow the host")
        }
        var base = text
        while base.hasSuffix("/") { base.removeLast() }
        return (base, host, scheme == "http" && !isLoopback(host))
    }

    /// Whether the port, where there is one, can be connected to. A port beyond 65535 ends the process in NIO.
    private static func hasUsablePort(_ text: String) -> Bool {
        guard let slashes = text.range(of: "//") else { return false }
        let authority = text[slashes.upperBound...].prefix { !"/?#\\".contains($0) }
        var place = authority[(authority.lastIndex(of: "@").map(authority.index(after:)) ?? authority.startIndex)...]
        if place.hasPrefix("["), let end = place.lastIndex(of: "]") { place = place[end...].dropFirst() }
        guard let colon = place.firstIndex(of: ":") else { return true }
        let digits = place[place.index(after: colon)...]
        guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = Int(digits)
        else { return false }
        return (1...65535).contains(port)
    }

    private init(trustedHost: String) {
        self.init(baseURL: "https://" + trustedHost, host: trustedHost, isExposed: false)
    }

    private init(baseURL: String, host: String, isExposed: Bool, authBaseURL: String? = nil) {
        self.authBaseURL = authBaseURL ?? baseURL
        self.baseURL = baseURL
        self.host = host
        self.isExposed = isExposed
    }

    /// Whether a host is this machine: its name, or an address of loopback. A name that begins or ends like one is not.
    private static func isLoopback(_ host: String) -> Bool {
        var text = host.lowercased()
        if text == "localhost" { return true }
        if text.hasPrefix("["), text.hasSuffix("]") { text = String(text.dropFirst().dropLast()) }
        guard let address = try? SocketAddress(ipAddress: text, port: 0) else { return false }
        switch address {
        case .v4(let address): return UInt32(bigEndian: address.address.sin_addr.s_addr) >> 24 == 127
        case .v6: return address == (try? SocketAddress(ipAddress: "::1", port: 0))
        case .unixDomainSocket: return false
        }
    }
}

/// Why a text is no base URL of a server.
public struct InvalidBaseURL: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is wrong with it, without repeating it: it may hold a password.
    public var reason: String

    /// It is a URL, with a name or password in it.
    public static let credentials = InvalidBaseURL(
        reason: "it contains a name or a password; the key belongs into a file of its own")

    /// One line for people.
    public var description: String { "the server's URL cannot be used: \(reason)" }
}
