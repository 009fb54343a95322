import FleetDocuments

/// As whom a gateway connects: its id, and the files that prove it.
public struct FleetIdentity: Sendable, Hashable {
    /// PEM files.
    public struct Files: Sendable, Hashable {
        /// The authorities of the servers' certificates.
        public var authorities: String
        /// The gateway's certificate, whose common name is its id.
        public var certificate: String
        /// The certificate's private key.
        public var privateKey: String

        /// Creates names of files.
        public init(authorities: String, certificate: String, privateKey: String) {
            self.authorities = authorities
            self.certificate = certificate
            self.privateKey = privateKey
        }
    }

    /// The gateway's id, which is the certificate's common name.
    public var gateway: GatewayID
    /// The files.
    public var files: Files

    /// Creates an identity.
    public init(gateway: GatewayID, files: Files) {
        self.gateway = gateway
        self.files = files
    }
}

/// Identities that change while a gateway runs, because certificates are renewed.
public protocol FleetCredentials: Sendable {
    /// The identities to try, the newest first; none before the gateway has enrolled.
    func identities() -> [FleetIdentity]
    /// Says that the centre has let an identity in. What is older may go.
    func accepted(_ identity: FleetIdentity)
    /// Says that the newest identity was refused, and an older one let in.
    func refused(_ identity: FleetIdentity, because words: String)
    /// What a person has to know; `nil` if all is well.
    var problem: String? { get }
}

/// A destination that can try a certificate that was renewed.
public protocol ProvesIdentity: Sendable {
    /// Proves to the centre that the newest identity is let in, beside the connections that deliver.
    ///
    /// - Returns: whether a host has let it in.
    func proveIdentity() async -> Bool
}
