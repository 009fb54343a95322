/// What can go wrong with a broker.
public struct MQTTError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What went wrong.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// The broker's name cannot be resolved.
        case hostNotFound = "host_not_found"
        /// Nothing listens there, or there is no way there.
        case unreachable
        /// The broker did not answer in time.
        case timedOut = "timed_out"
        /// The broker's certificate is not trusted, is out of date or names another host.
        case certificate
        /// The broker asks for a certificate of ours, or refuses the one it got.
        case clientCertificate = "client_certificate"
        /// One of our own certificate files cannot be used.
        case files
        /// TLS failed in another way.
        case tls
        /// The broker refuses the version of the protocol.
        case version
        /// The broker refuses the client id.
        case clientID = "client_id"
        /// The broker refuses the user, the password or the certificate's name.
        case credentials
        /// The broker has no room or is about to stop; it may take us later.
        case unavailable
        /// The broker sends us to another one.
        case movedAway = "moved_away"
        /// Another client has connected with our client id.
        case takenOver = "taken_over"
        /// The connection ended without a word.
        case lost
        /// The other side broke the protocol, or says that we did.
        case protocolViolation = "protocol_violation"
        /// Our user may not publish to the topic, or subscribe to the filter.
        case notAuthorized = "not_authorized"
        /// The broker has no room for the message now.
        case quotaExceeded = "quota_exceeded"
        /// The message is larger than the broker takes.
        case tooLarge = "too_large"
        /// The broker refuses the topic's name.
        case topic
        /// The broker refuses the message's content.
        case payload
        /// The broker does not keep messages, or does not acknowledge them.
        case unsupported
        /// The broker refuses the message and does not say why.
        case refused
        /// What was asked for cannot be sent: an empty topic, one with wildcards or a NUL, a filter that is none.
        case invalidArgument = "invalid_argument"
        /// The connection was closed by us.
        case closed
        /// The task was cancelled while it waited. What was published may arrive all the same.
        case cancelled
        /// The library or the system failed.
        case system
    }

    /// What went wrong.
    public var kind: Kind
    /// One line for people and logs: never a payload, never the broker's words.
    public var message: String
    /// The broker's code: of a CONNACK, PUBACK, SUBACK or DISCONNECT.
    public var code: UInt8?
    /// The broker's own words (MQTT 5). They may repeat a topic or a value, so they never belong in a log.
    public var brokerSaid: String?
    /// Whether the connection had reached the broker and ended before it answered.
    var isWithoutAnswer = false
    /// Whether the broker ended TLS and its reason was lost on the way: a closed socket drops what was not read.
    var isResetInTLS = false

    /// The message.
    public var description: String { message }

    /// Creates an error.
    public init(_ kind: Kind, _ message: String, code: UInt8? = nil, brokerSaid: String? = nil) {
        self.kind = kind
        self.message = message
        self.code = code
        self.brokerSaid = brokerSaid
    }

    /// Whether an older version of the protocol may be taken.
    var suggestsOlderVersion: Bool { kind == .version || isWithoutAnswer && kind == .lost }

    static let closed = MQTTError(.closed, "the connection to the broker was closed")
    static let cancelled = MQTTError(.cancelled, "cancelled")
    /// The connection ended without a word.
    public static let lost = MQTTError(.lost, "the connection to the broker was lost")
}
