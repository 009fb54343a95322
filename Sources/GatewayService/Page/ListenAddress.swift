/// Where the page listens: `127.0.0.1:8480`, `[::1]:8480`, `localhost:0`.
public struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// A name or address; an IPv6 address without brackets.
    public var host: String
    /// 0 … 65535; 0 is any free port.
    public var port: Int

    /// Reads `HOST:PORT`.
    /// - Throws: ``Problem`` with status 78 for anything else.
    public init(_ text: String) throws(Problem) {
        let malformed = Problem(
            "config_invalid", .configuration, "http.listen: expected HOST:PORT such as 127.0.0.1:8480, found '\(text)'")
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { throw malformed }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            throw malformed
        }
        guard !host.isEmpty else { throw malformed }
        self.host = String(host)
        self.port = port
    }

    /// Whether only this machine can reach it.
    public var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    /// `HOST:PORT`, with brackets around an IPv6 address.
    public var description: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }
}
