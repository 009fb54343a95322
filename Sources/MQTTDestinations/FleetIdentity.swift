import FleetDelivery
import FleetDocuments
import MQTTLink

extension FleetPlace {
    /// The identities to try at each host; one without files if the settings say everything.
    var identities: [FleetIdentity?] {
        let known = credentials?.identities() ?? []
        return known.isEmpty ? [nil] : known
    }
}

extension MQTTBroker {
    /// The broker, reached as somebody.
    func reached(as identity: FleetIdentity?) -> MQTTBroker {
        guard let identity, tls != nil else { return self }
        var broker = self
        broker.tls?.certificate = identity.files.certificate
        broker.tls?.privateKey = identity.files.privateKey
        broker.tls?.authorities = tls?.authorities ?? identity.files.authorities
        return broker
    }
}

extension MQTTError {
    /// Whether the broker doesn't take who connects: another identity may do.
    var refusesIdentity: Bool {
        switch kind {
        case .clientCertificate, .credentials, .notAuthorized: true
        default: false
        }
    }
}

extension FleetDestination: ProvesIdentity {
    /// Opens a connection to a host as the newest identity that it lets in.
    func open(_ host: MQTTBroker, _ options: MQTTOptions) async throws(MQTTError) -> MQTTConnection {
        var refusal: (identity: FleetIdentity, error: MQTTError)?
        for identity in place.identities {
            do throws(MQTTError) {
                let connection = try await MQTTConnection.open(host.reached(as: identity), options)
                if let refusal {
                    place.credentials?.refused(refusal.identity, because: refusal.error.message)
                } else if let identity {
                    place.credentials?.accepted(identity)
                }
                return connection
            } catch {
                guard error.refusesIdentity, let identity else { throw error }
                refusal = refusal ?? (identity, error)
            }
        }
        throw refusal?.error ?? MQTTError(.invalidArgument, "cannot connect: there is no identity")
    }

    /// Proves to a broker that the newest identity is let in, beside the connection that delivers.
    ///
    /// - Returns: whether one of the brokers has let it in.
    public func proveIdentity() async -> Bool {
        guard let identity = place.credentials?.identities().first else { return false }
        for (index, host) in place.hosts.enumerated() {
            var options = MQTTOptions(clientID: Self.testClientID(of: identity.gateway, at: index))
            options.openTimeout = .seconds(10)
            do throws(MQTTError) {
                let connection = try await MQTTConnection.open(host.reached(as: identity), options)
                await connection.close()
                place.credentials?.accepted(identity)
                return true
            } catch {
                guard error.refusesIdentity else { continue }
                place.credentials?.refused(identity, because: error.message)
                return false
            }
        }
        return false
    }

    /// The client id of a connection beside the one that delivers, another one at each host: a broker, or a cluster of them,
    /// closes the older of two with the same.
    static func testClientID(of gateway: GatewayID, at host: Int) -> String { "\(gateway)".prefix(19) + "-t\(host)" }
}
