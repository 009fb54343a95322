import HealthReadings

/// A token or key. It can be sent and kept, and nothing shows it.
public struct CloudSecret: Sendable, Hashable {
    /// The secret itself; only ever put into a request and the file of an account.
    let value: String

    /// Takes a secret.
    ///
    /// - Parameter text: the secret.
    /// - Returns: `nil` if it is empty, longer than 8192 characters or not one word of visible ASCII: that can be no header's
    ///   value.
    public init?(_ text: String) {
        guard (1...8192).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        value = text
    }

    /// One that was made here, of characters that every header takes.
    init(made text: String) { value = text }
}

extension CloudSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Always `****`.
    public var description: String { "****" }
    /// Always `****`.
    public var debugDescription: String { "****" }
    /// Shows no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What a vendor's OAuth server gives for a code: the key to a person's data for a while, and the way to the next one.
public struct CloudTokens: Sendable, Hashable {
    /// Sent with each request.
    public var access: CloudSecret
    /// Good once, for the next pair; `nil` if none was given.
    public var refresh: CloudSecret?
    /// When the access token expires, by this machine's clock; `nil` if nobody said.
    public var expiresAt: Instant?
}
