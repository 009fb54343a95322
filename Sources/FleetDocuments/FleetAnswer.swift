import HealthReadings

/// What the centre answers to a hello or a status over HTTPS. Through a broker it publishes the same documents one by one.
public struct FleetAnswer: Sendable, Hashable {
    /// How many bytes a document may have.
    public static let mostBytes = 4 * 1_048_576

    /// The gateway that it is for.
    public var gateway: GatewayID
    /// Receipts of batches that the hello named and that are stored.
    public var receipts: [FleetReceipt]
    /// The settings that the centre wants; `nil` if the gateway has them already, or there are none.
    public var configuration: FleetConfiguration?
    /// The highest number of a batch that the centre has from the gateway, in the answer to a hello; `nil` if it has none.
    public var highestBatch: Int64?

    /// Makes an answer.
    public init(
        gateway: GatewayID, receipts: [FleetReceipt] = [], configuration: FleetConfiguration? = nil,
        highestBatch: Int64? = nil
    ) {
        self.gateway = gateway
        self.receipts = receipts
        self.configuration = configuration
        self.highestBatch = highestBatch
    }

    /// The document.
    public var document: JSONValue {
        var members: [JSONValue.Member] = [
            .init("gateway", .string(gateway.description)), .init("receipts", .array(receipts.map(\.document))),
            .init("configuration", configuration?.document ?? .null),
        ]
        if let highestBatch { members.append(.init("highest_batch", .integer(highestBatch))) }
        return .schema(members)
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that asked.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], for gateway: GatewayID? = nil) throws(FleetDocumentError) {
        let part = try DocumentPart.document(octets, limit: Self.mostBytes)
        self.gateway = try part["gateway"].gateway(gateway)
        receipts = []
        for element in try part["receipts"].elements(atMost: FleetHello.mostBatches) {
            receipts.append(try FleetReceipt(element, for: self.gateway))
        }
        let expected = self.gateway
        configuration = try part["configuration"].optional { part throws(FleetDocumentError) in
            try FleetConfiguration(part, for: expected)
        }
        highestBatch = try part["highest_batch"].optional { part throws(FleetDocumentError) in
            try part.whole(FleetSchema.numbers)
        }
    }
}
