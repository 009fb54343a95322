/// The token that a phone gives at pairing. It can be sent and kept, and nothing shows it.
public struct PhoneToken: Sendable, Hashable {
    /// The token itself; only ever put into a request's header and the file of a paired phone.
    let value: String

    /// Takes a token.
    ///
    /// - Returns: `nil` if it is empty, longer than 4096 characters or not one word of visible ASCII: that can be no
    ///   header's value.
    public init?(_ text: String) {
        guard (1...4096).contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        value = text
    }
}

extension PhoneToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Always `****`.
    public var description: String { "****" }
    /// Always `****`.
    public var debugDescription: String { "****" }
    /// Shows no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
