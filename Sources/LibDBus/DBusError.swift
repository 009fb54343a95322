/// What can go wrong with a message bus.
public enum DBusError: Error, Sendable, Hashable {
    /// The bus cannot be reached, and why.
    case cannotConnect(String)
    /// The other side answered with an error: `org.bluez.Error.Failed`, and its words.
    case remote(name: String, message: String)
    /// No answer came in time: which call, after how long. No object path, which may tell a device's address.
    case timedOut(String)
    /// The task was cancelled while it waited; an answer that still comes is dropped.
    case cancelled
    /// The bus went away, or the connection was closed.
    case disconnected
    /// No object path, no name, a string with a NUL, too deep, too large: never sent.
    case invalidArgument(String)
    /// The answer holds other types than were expected, or more than is read.
    case unexpectedReply(expected: String, found: String)
}

extension DBusError: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        switch self {
        case .cannotConnect(let why): "the message bus cannot be reached: \(why)"
        case .remote(let name, let message): message.isEmpty ? name : "\(name): \(message)"
        case .timedOut(let what): "no answer in time: \(what)"
        case .cancelled: "cancelled"
        case .disconnected: "the message bus went away"
        case .invalidArgument(let why): "not sent: \(why)"
        case .unexpectedReply(let expected, let found): "expected \(expected) in the answer, found \(found)"
        }
    }
}
