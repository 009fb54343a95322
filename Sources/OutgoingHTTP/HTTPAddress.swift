import Foundation
import HealthReadings
import NIOCore

/// The URL of a server: where requests go, or begin.
package struct HTTPAddress: Sendable, Hashable {
    /// The URL without the slashes at its end: `https://ns.example/sub`. It has neither a user nor a fragment.
    package let base: String
    /// `https` or `http`.
    package let scheme: String
    /// The host's name or address, without brackets.
    package let host: String
    /// The port; `nil` for the scheme's own.
    package let port: Int?

    /// Whether requests travel without TLS to another machine, so that what is in them can be read on the way.
    package var isExposed: Bool { scheme == "http" && !Self.isLoopback(host) }
    /// Whether the server has a certificate.
    package var isSecure: Bool { scheme == "https" }

    /// Reads a URL.
    ///
    /// - Parameters:
    ///   - text: an `http` or `https` URL, with a path or without.
    ///   - allowsQuery: whether a query may follow the path. The URL is then kept as it is, with the slash at its end.
    /// - Throws: ``InvalidHTTPAddress`` for another scheme, a missing host, a port outside 1 … 65535, a name and password,
    ///   a query or a fragment.
    package init(_ text: String, allowsQuery: Bool = false) throws(InvalidHTTPAddress) {
        guard let parts = URLComponents(string: text), let scheme = parts.scheme?.lowercased() else {
            throw InvalidHTTPAddress(reason: "it is no URL; a URL begins with https:// or http://")
        }
        guard scheme == "https" || scheme == "http" else {
            throw InvalidHTTPAddress(reason: "its scheme is \"\(scheme)\", and https or http was expected")
        }
        guard let host = parts.host, !host.isEmpty else { throw InvalidHTTPAddress(reason: "it names no host") }
        guard Self.hasUsablePort(text) else {
            throw InvalidHTTPAddress(reason: "its port is not a number from 1 to 65535")
        }
        guard parts.user == nil, parts.password == nil else {
            throw InvalidHTTPAddress(reason: "it carries a name or password", isAboutCredentials: true)
        }
        guard parts.fragment == nil, allowsQuery || parts.query == nil else {
            throw InvalidHTTPAddress(
                reason: allowsQuery
                    ? "it has a fragment"
                    : "it has a query or a fragment, and only a path may follow the host")
        }
        var base = text
        if !allowsQuery { while base.hasSuffix("/") { base.removeLast() } }
        self.base = base
        self.scheme = scheme
        self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        port = parts.port
    }

    /// The URL of a path below the base, with one slash between the two.
    ///
    /// - Parameters:
    ///   - path: the path, as it is sent: `api/v1/entries`.
    ///   - query: names and values, percent-encoded here.
    package func joined(_ path: String, _ query: KeyValuePairs<String, String> = [:]) -> String {
        let url = base + "/" + path.drop { $0 == "/" }
        guard !query.isEmpty else { return url }
        return url + "?" + query.map { "\(Self.encoded($0.key))=\(Self.encoded($0.value))" }.joined(separator: "&")
    }

    /// Percent-encodes a text (RFC 3986, 2.3: only unreserved characters stay).
    package static func encoded(_ text: String) -> String {
        var octets: [UInt8] = []
        for octet in text.utf8 {
            switch octet {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"):
                octets.append(octet)
            case UInt8(ascii: ".") where text.utf8.contains(where: { $0 != octet }):
                octets.append(octet)
            default:
                // Dots alone are encoded as well: they would name another folder.
                octets.append(UInt8(ascii: "%"))
                octets.append(contentsOf: octet.hexadecimal(uppercase: true).utf8)
            }
        }
        return String(decoding: octets, as: UTF8.self)
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

    /// Whether a host is this machine: its name, or an address of loopback. A name that begins or ends like one is not.
    package static func isLoopback(_ host: String) -> Bool {
        let text = host.lowercased()
        if text == "localhost" { return true }
        guard let address = try? SocketAddress(ipAddress: text, port: 0) else { return false }
        switch address {
        case .v4(let address): return UInt32(bigEndian: address.address.sin_addr.s_addr) >> 24 == 127
        case .v6: return address == (try? SocketAddress(ipAddress: "::1", port: 0))
        case .unixDomainSocket: return false
        }
    }
}

/// Why a text is no URL of a server.
package struct InvalidHTTPAddress: Error, Sendable, Hashable {
    /// What is wrong with it, without repeating it: it may hold a password.
    package var reason: String
    /// Whether it is a URL with a name or password in it.
    package var isAboutCredentials = false
}
