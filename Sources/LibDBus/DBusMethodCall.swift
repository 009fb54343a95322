/// A call of a method of an exported object.
public struct DBusMethodCall: Sendable, Hashable {
    /// The caller's unique name: `:1.42`. The bus vouches for it.
    public var sender: String
    /// The object.
    public var path: String
    /// The interface it was exported with.
    public var interface: String
    /// The method.
    public var member: String
    /// What came with it; of any types, whatever the method expects.
    public var arguments: [DBusValue]
    /// Whether the caller waits for an answer.
    public var isReplyExpected: Bool

    /// Makes a call.
    public init(
        sender: String, path: String, interface: String, member: String, arguments: [DBusValue] = [],
        isReplyExpected: Bool = true
    ) {
        self.sender = sender
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
        self.isReplyExpected = isReplyExpected
    }
}
