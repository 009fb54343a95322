import Crypto

/// A bearer token: 32 random octets in hexadecimal. What the gateway keeps of it is its SHA-256.
public struct AccessToken: Sendable, Hashable {
    /// The text the client sends: a secret.
    public let text: String

    /// Makes one.
    public init() {
        var generator = SystemRandomNumberGenerator()
        text = Hexadecimal.text((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// One that a client sent.
    public init(text: String) { self.text = text }

    /// What is kept of it.
    var digest: [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}

extension AccessToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Dots.
    public var description: String { "••••" }
    /// Dots.
    public var debugDescription: String { description }
    /// Nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
