import FleetDelivery
import FleetDocuments
import MQTTLink

/// Where a fleet's gateway delivers, and as whom.
public struct FleetPlace: Sendable {
    /// The brokers, in the order in which they are tried; at least one.
    public var hosts: [MQTTBroker]
    /// The gateway's id; `nil`: one that follows from the store, and stays the same with it.
    public var gateway: GatewayID?
    /// Whether a reading counts as delivered only when the centre has sent its receipt. Otherwise the broker's
    /// acknowledgement is enough, which some brokers also send for messages that nobody stores.
    public var waitsForReceipt: Bool
    /// The centre's public key that batches are sealed to; `nil`: they are sent in the clear.
    public var sealing: SealingKey?
    /// Who proves which gateway this is, where the hosts' own settings name no certificate.
    public var credentials: (any FleetCredentials)?
    /// How often the centre hears how the gateway is.
    public var statusInterval: Duration = .seconds(900)

    /// Creates a place.
    public init(
        hosts: [MQTTBroker], gateway: GatewayID? = nil, waitsForReceipt: Bool = true, sealing: SealingKey? = nil,
        credentials: (any FleetCredentials)? = nil
    ) {
        self.credentials = credentials
        self.hosts = hosts
        self.gateway = gateway
        self.waitsForReceipt = waitsForReceipt
        self.sealing = sealing
    }
}

/// How often and how long.
struct FleetPace: Sendable {
    /// How often is looked at what is missing.
    var tick: Duration = .seconds(15)
    /// How long a batch may be without a receipt before that is said.
    var silence: Duration = .seconds(120)
    /// How long no receipt may come for what was sent on a connection before another one is made.
    var deafness: Duration = .seconds(300)
    /// How long a delivery waits for its receipt if nobody keeps the connection, and taking back in any case.
    var patience: Duration = .seconds(10)
    /// How long the broker may take to acknowledge a message, before the next host is tried.
    var answer: Duration = .seconds(30)
}
