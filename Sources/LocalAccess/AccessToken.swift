import Crypto
import HealthReadings

/// A bearer token: 32 random octets in hexadecimal. What the gateway keeps of it is its SHA-256.
public struct AccessToken: Sendable, Hashable {
    /// The text the client sends: a secret.
    public let text: String

    /// Makes one.
    public init() {
        var generator = SystemRandomNumberGenerator()
        text = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }.hexadecimal()
    }

    /// One that a client sent.
    public init(text: String) { self.text = text }

    /// One that a browser sent in its two parts.
    public init(cookie: String, key: String) { self.init(text: cookie + key) }

    /// The part that a browser keeps in a cookie, which no script reads and every port of the host is sent.
    public var cookie: String { String(text.prefix(text.count / 2)) }
    /// The part that the page keeps for its own origin, the port included, and sends in a header field.
    public var key: String { String(text.dropFirst(text.count / 2)) }

    /// What is kept of it.
    package var digest: [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}

extension AccessToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Dots.
    public var description: String { "••••" }
    /// Dots.
    public var debugDescription: String { description }
    /// Nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
