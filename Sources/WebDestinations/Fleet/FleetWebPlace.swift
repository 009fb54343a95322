import FleetDelivery
import FleetDocuments
import OutgoingHTTP

/// Where a fleet's gateway delivers over HTTPS, and as whom.
public struct FleetWebPlace: Sendable {
    /// What proves which gateway sends.
    public struct Credential: Sendable, CustomReflectable {
        let token: Masked?
        let identity: HTTPIdentity?
        /// Certificates that are renewed while the gateway runs.
        let enrolment: (any FleetCredentials)?

        private init(token: Masked? = nil, identity: HTTPIdentity? = nil, enrolment: (any FleetCredentials)? = nil) {
            self.token = token
            self.identity = identity
            self.enrolment = enrolment
        }

        /// A token that the centre has made for the gateway.
        public static func token(_ text: String) -> Credential { Credential(token: Masked(text)) }

        /// A certificate whose common name is the gateway's id, with its private key: PEM files.
        ///
        /// - Returns: `nil` if a file cannot be read, or holds nothing of the kind.
        public static func certificate(_ certificate: String, key: String) -> Credential? {
            HTTPIdentity(certificate: certificate, key: key).map { Credential(identity: $0) }
        }

        /// The certificates of an enrolment. The collectors are checked by its authorities where their own settings name none.
        public static func enrolled(_ credentials: any FleetCredentials) -> Credential {
            Credential(enrolment: credentials)
        }

        /// Shows nothing.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// The collectors, in the order in which they are tried; at least one.
    public var servers: [WebServer]
    /// What proves which gateway sends.
    public var credential: Credential
    /// The gateway's id; `nil`: one that follows from the store, and stays the same with it.
    public var gateway: GatewayID?
    /// The centre's public key that batches are sealed to; `nil`: they are sent as they are.
    public var sealing: SealingKey?
    /// How often the centre hears how the gateway is.
    public var statusInterval: Duration = .seconds(900)

    /// Creates a place.
    public init(servers: [WebServer], credential: Credential, gateway: GatewayID? = nil, sealing: SealingKey? = nil) {
        self.servers = servers
        self.credential = credential
        self.gateway = gateway
        self.sealing = sealing
    }
}
