import HealthReadings

/// A gateway asks for its configuration and its receipts after each connect: the document of `healthrelay/<gateway>/hello`.
///
/// The centre answers on `config` and `receipts`. So neither the broker nor the centre has to keep messages for a gateway
/// that is away.
public struct FleetHello: Sendable, Hashable {
    /// How many bytes a document may have.
    public static let mostBytes = 16_384
    /// How many batches without a receipt it names at most.
    public static let mostBatches = 256

    /// The gateway.
    public var gateway: GatewayID
    /// When the gateway sent it, by its own clock.
    public var sentAt: Instant
    /// The gateway's version.
    public var version: String
    /// The configuration that the gateway has from the centre.
    public var configuration: FleetConfigurationState
    /// Batches whose receipts have not come, the oldest first. The centre may send their receipts once more; a batch without
    /// one is sent again in any case.
    public var unconfirmed: [Int64]

    /// Makes a hello.
    public init(
        gateway: GatewayID, sentAt: Instant, version: String,
        configuration: FleetConfigurationState = FleetConfigurationState(), unconfirmed: [Int64] = []
    ) {
        self.gateway = gateway
        self.sentAt = sentAt
        self.version = version
        self.configuration = configuration
        self.unconfirmed = unconfirmed
    }

    /// The document.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("sent_at", .string(sentAt.description)),
            .init("version", .string(version)), .init("configuration", configuration.document),
            .init("unconfirmed", .array(unconfirmed.map { .integer($0) })),
        ])
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that its topic names; `nil` if it came without one.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], from gateway: GatewayID? = nil) throws(FleetDocumentError) {
        let part = try DocumentPart.document(octets, limit: Self.mostBytes)
        self.gateway = try part["gateway"].gateway(gateway)
        sentAt = try part["sent_at"].instant()
        version = try part["version"].text(1...64)
        configuration = try FleetConfigurationState(part["configuration"])
        unconfirmed = []
        for element in try part["unconfirmed"].elements(atMost: Self.mostBatches) {
            unconfirmed.append(try element.whole(FleetSchema.numbers))
        }
    }
}
