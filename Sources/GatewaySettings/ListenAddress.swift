import Foundation

/// Where the page listens: `127.0.0.1:8480`, `[::1]:8480`, `localhost:0`.
public struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// A name or address; an IPv6 address without brackets.
    public var host: String
    /// 0 … 65535; 0 is any free port.
    public var port: Int

    /// Reads `HOST:PORT`.
    /// - Throws: ``Problem`` with status 78 for anything else.
    public init(_ text: String) throws(Problem) {
        let malformed = Problem.configInvalid("http.listen: expected HOST:PORT such as 127.0.0.1:8480, found '\(text)'")
        guard let colon = text.lastIndex(of: ":") else { throw malformed }
        let (place, digits) = (text[..<colon], text[text.index(after: colon)...])
        guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let port = Int(digits), (0...65535).contains(port)
        else { throw malformed }
        let host: Substring
        if place.hasPrefix("["), place.hasSuffix("]") {
            host = place.dropFirst().dropLast()
            guard Self.isIPv6(host) else { throw malformed }
        } else {
            host = place
            guard !host.isEmpty, host.utf8.allSatisfy(Self.isOfName) else { throw malformed }
        }
        self.host = String(host)
        self.port = port
    }

    /// Makes one of its parts.
    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Whether only this machine can reach it.
    public var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") && Self.isIPv4(host) }

    /// `HOST:PORT`, with brackets around an IPv6 address.
    public var description: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }

    private static func isIPv4(_ text: some StringProtocol) -> Bool {
        var address = in_addr()
        return inet_pton(AF_INET, String(text), &address) == 1
    }

    private static func isIPv6(_ text: some StringProtocol) -> Bool {
        var address = in6_addr()
        return inet_pton(AF_INET6, String(text), &address) == 1
    }

    /// Whether an octet may be of a host's name (RFC 952, RFC 1123) or of an IPv4 address.
    private static func isOfName(_ octet: UInt8) -> Bool {
        switch octet {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
