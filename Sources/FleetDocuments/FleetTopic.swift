/// A topic of a fleet: `healthrelay/<gateway>/<part>`.
///
/// RabbitMQ and NATS write the same name with dots (``routingKey``).
public struct FleetTopic: Sendable, Hashable, CustomStringConvertible {
    /// What is published there.
    public enum Part: String, Sendable, Hashable, CaseIterable {
        /// From the gateway: a ``FleetBatch`` or a ``SealedBatch``.
        case readings
        /// From the gateway: a ``FleetStatus``.
        case status
        /// From the gateway, after each connect: a ``FleetHello``.
        case hello
        /// To the gateway: a ``FleetReceipt``.
        case receipts
        /// To the gateway: a ``FleetConfiguration``.
        case config

        /// Whether the gateway publishes it; the centre publishes the others.
        public var isFromGateway: Bool {
            switch self {
            case .readings, .status, .hello: true
            case .receipts, .config: false
            }
        }
    }

    /// The first level of every topic.
    public static let root = "healthrelay"

    /// The gateway.
    public var gateway: GatewayID
    /// What is published there.
    public var part: Part

    /// Makes a topic.
    public init(_ part: Part, of gateway: GatewayID) {
        self.gateway = gateway
        self.part = part
    }

    /// The topic in MQTT.
    public var description: String { "\(Self.root)/\(gateway)/\(part.rawValue)" }

    /// The topic as RabbitMQ's MQTT plugin and NATS write it.
    public var routingKey: String { "\(Self.root).\(gateway).\(part.rawValue)" }

    /// The filter that matches a part's topics of all gateways.
    public static func filter(_ part: Part) -> String { "\(root)/+/\(part.rawValue)" }

    /// The binding key that matches a part's routing keys of all gateways.
    public static func bindingKey(_ part: Part) -> String { "\(root).*.\(part.rawValue)" }

    /// Reads a topic.
    ///
    /// - Throws: ``FleetDocumentError/unexpected(at:expected:found:)``
    public init(_ topic: some StringProtocol) throws(FleetDocumentError) { try self.init(topic, separator: "/") }

    /// Reads a routing key.
    ///
    /// - Throws: ``FleetDocumentError/unexpected(at:expected:found:)``
    public init(routingKey: some StringProtocol) throws(FleetDocumentError) {
        try self.init(routingKey, separator: ".")
    }

    private init(_ text: some StringProtocol, separator: Character) throws(FleetDocumentError) {
        let levels = text.split(separator: separator, omittingEmptySubsequences: false)
        guard levels.count == 3, levels[0] == Self.root, let part = Part(rawValue: String(levels[2])) else {
            let s = String(separator)
            throw .unexpected(
                at: "topic", expected: [Self.root, "<gateway>", "<part>"].joined(separator: s),
                found: "\(levels.count) levels, \(text.utf8.count) bytes")
        }
        self.init(part, of: try GatewayID(levels[1]))
    }
}
