/// A broker: where it is, how it is trusted, and what proves who connects.
public struct MQTTBroker: Sendable, Hashable {
    /// Host name or IP address, an IPv6 address without brackets.
    public var host: String
    /// TCP port, 1 … 65,535.
    public var port: UInt16
    /// TLS, or `nil` for a connection in the clear.
    public var tls: MQTTCertificates?
    /// User and password; `nil` if the broker wants none or a certificate is the proof.
    public var credentials: MQTTCredentials?

    /// The usual port of MQTT in the clear.
    public static let plainPort: UInt16 = 1883
    /// The usual port of MQTT over TLS.
    public static let tlsPort: UInt16 = 8883

    /// Creates a broker.
    ///
    /// - Parameters:
    ///   - host: host name or IP address.
    ///   - port: the TCP port; `nil`: 8883 over TLS, 1883 without.
    ///   - tls: the certificates to use; `nil`: no TLS.
    ///   - credentials: user and password.
    public init(
        host: String, port: UInt16? = nil, tls: MQTTCertificates? = nil, credentials: MQTTCredentials? = nil
    ) {
        self.host = host
        self.port = port ?? (tls == nil ? Self.plainPort : Self.tlsPort)
        self.tls = tls
        self.credentials = credentials
    }
}

/// The PEM files of a TLS connection. The broker's certificate and its name are always checked.
public struct MQTTCertificates: Sendable, Hashable {
    /// The authorities to trust in place of the system's; `nil`: the system's.
    public var authorities: String?
    /// Our own certificate, with the chain up to its authority.
    public var certificate: String?
    /// The private key of ``certificate``, without a passphrase.
    public var privateKey: String?

    /// Creates the files' names; nothing is read.
    public init(authorities: String? = nil, certificate: String? = nil, privateKey: String? = nil) {
        self.authorities = authorities
        self.certificate = certificate
        self.privateKey = privateKey
    }
}

/// A user and a password. Its description and its mirror never show the password.
public struct MQTTCredentials: Sendable, Hashable {
    /// The user's name.
    public var username: String
    /// The password; `nil` if the broker asks for none.
    let password: String?

    /// Keeps a user's name and password.
    public init(username: String, password: String?) {
        self.username = username
        self.password = password
    }
}

extension MQTTCredentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The user's name.
    public var description: String { username }
    /// The user's name.
    public var debugDescription: String { username }
    /// Shows the user's name only.
    public var customMirror: Mirror { Mirror(self, children: ["username": username]) }
}

/// A version of the protocol.
public enum MQTTVersion: Sendable, Hashable, CaseIterable, CustomStringConvertible {
    /// MQTT 5: the broker says why it refuses a message.
    case v5
    /// MQTT 3.1.1: a broker either acknowledges a message or closes the connection.
    case v311

    /// `5` or `3.1.1`.
    public var description: String {
        switch self {
        case .v5: "5"
        case .v311: "3.1.1"
        }
    }
}

/// How a connection is kept.
public struct MQTTOptions: Sendable, Hashable {
    /// Our name at the broker. A broker closes an older connection of the same name. Brokers of MQTT 3.1.1 may refuse more
    /// than 23 characters, or others than `A-Z a-z 0-9`.
    public var clientID: String
    /// What the broker publishes for us if the connection ends in any other way than ``MQTTConnection/close(publishesWill:)``.
    public var will: MQTTMessage?
    /// Versions to try, in this order. The next one is tried if the broker refuses a version, or closes the connection
    /// without an answer, as old brokers do.
    public var versions: [MQTTVersion] = [.v5, .v311]
    /// Seconds without a message after which we ask whether the broker is still there, 5 … 65,535. A broker that is gone
    /// without a word is noticed after twice that time, or sooner if an answer is due.
    public var keepAlive = 30
    /// Messages that are published and not yet acknowledged at most, 1 … 65,535. Others wait. A broker may ask for fewer.
    public var window = 20
    /// Received messages that wait for a slow consumer at most; the oldest ones beyond that are dropped.
    public var buffer = 256
    /// Bytes of received messages that wait for a slow consumer at most; what comes beyond that is dropped.
    public var bufferBytes = 16 << 20
    /// How long connecting may take for each version: looking up the name, TCP, TLS and the broker's answer.
    public var openTimeout: Duration = .seconds(20)
    /// How long an acknowledgement may take before the connection counts as lost.
    public var answerTimeout: Duration = .seconds(30)

    /// Creates options with the defaults.
    public init(clientID: String, will: MQTTMessage? = nil) {
        self.clientID = clientID
        self.will = will
    }
}
