/// A node of a broker, and how to sign in there.
package struct AMQPBroker: Sendable, Hashable {
    /// How a connection proves who it is.
    package enum Credentials: Sendable, Hashable {
        case password(user: String, password: String)
        /// The client certificate says it (SASL EXTERNAL).
        case certificate
    }

    /// The files that TLS needs.
    package struct TLS: Sendable, Hashable {
        /// The authorities that may vouch for the broker.
        package var authorityFile: String
        package var certificateFile: String?
        package var privateKeyFile: String?

        package init(authorityFile: String, certificateFile: String? = nil, privateKeyFile: String? = nil) {
            self.authorityFile = authorityFile
            self.certificateFile = certificateFile
            self.privateKeyFile = privateKeyFile
        }
    }

    package var host: String
    package var port: Int
    package var virtualHost: String
    package var credentials: Credentials
    /// `nil`: without TLS.
    package var tls: TLS?
    /// How often both sides prove that they live, in seconds; a side that is silent for twice as long is given up.
    package var heartbeat = 20

    package init(
        host: String, port: Int, virtualHost: String = "/", credentials: Credentials, tls: TLS? = nil
    ) {
        self.host = host
        self.port = port
        self.virtualHost = virtualHost
        self.credentials = credentials
        self.tls = tls
    }
}

/// A message as a queue delivered it.
package struct AMQPDelivery: Sendable, Hashable {
    /// Names the delivery on its connection until it is acknowledged.
    package var tag: UInt64
    /// The queue it came from.
    package var queue: String
    package var routingKey: String
    /// Whether it was delivered before, to this consumer or to another.
    package var isRepeated: Bool
    package var body: [UInt8]
}
