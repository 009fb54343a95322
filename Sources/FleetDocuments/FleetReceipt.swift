import HealthReadings

/// What the centre has stored of a batch: the document of `healthrelay/<gateway>/receipts`.
///
/// The centre sends it after its commit. A reading that it does not name goes on waiting at the gateway, and is sent again.
/// The centre names none of which it keeps another content under a revision that is not lower: the gateway was restored, or
/// its clock was set back. ``highestBatch`` then says which number the gateway has to exceed.
public struct FleetReceipt: Sendable, Hashable {
    /// How many bytes a document may have.
    public static let mostBytes = 131_072
    /// How many bytes a failure's message may have.
    static let mostMessageBytes = 1024

    /// A reading that the centre never takes as it is.
    public struct Refusal: Sendable, Hashable {
        /// The reading.
        public var id: ReadingID
        /// Why, for the gateway's owner. It names no value.
        public var reason: String

        /// Makes a refusal.
        public init(id: ReadingID, reason: String) {
            self.id = id
            self.reason = reason
        }
    }

    /// Why a whole batch was not stored.
    public struct Failure: Sendable, Hashable {
        /// The published name, such as `newer_schema`; see ``FleetDocumentError/code``.
        public var code: String
        /// One line for people and logs.
        public var message: String

        /// Makes a failure. A message is cut after the most bytes that a gateway reads.
        public init(code: String, message: String) {
            self.code = code
            self.message = message.cut(toOctets: FleetReceipt.mostMessageBytes)
        }

        /// The failure that a document's error is.
        public init(_ error: FleetDocumentError) { self.init(code: error.code, message: error.description) }
    }

    /// The gateway that sent the batch.
    public var gateway: GatewayID
    /// The batch.
    public var batch: Int64
    /// Readings, and readings to take back, whose state at the centre is now what the batch says.
    public var stored: [ReadingID]
    /// Every batch up to this number is stored whole; `nil` if the centre does not say so.
    public var storedThrough: Int64?
    /// Readings that the centre never takes as they are.
    public var refused: [Refusal]
    /// Why nothing of the batch was stored; `nil` if the batch was read.
    public var failure: Failure?
    /// The highest number that the centre has from the gateway; `nil` if the batch's own is the highest, or the centre does
    /// not say.
    public var highestBatch: Int64?

    /// Makes a receipt.
    public init(
        gateway: GatewayID, batch: Int64, stored: [ReadingID] = [], storedThrough: Int64? = nil,
        refused: [Refusal] = [], failure: Failure? = nil, highestBatch: Int64? = nil
    ) {
        self.gateway = gateway
        self.batch = batch
        self.stored = stored
        self.storedThrough = storedThrough
        self.refused = refused
        self.failure = failure
        self.highestBatch = highestBatch
    }

    /// The document.
    public var document: JSONValue {
        var members: [JSONValue.Member] = [
            .init("gateway", .string(gateway.description)), .init("batch", .integer(batch)),
            .init("stored", .array(stored.map { .string($0.description) })),
            .init("stored_through", .optional(storedThrough)),
            .init(
                "refused",
                .array(refused.map { .object(["id": .string($0.id.description), "reason": .string($0.reason)]) })),
            .init(
                "error", failure.map { .object(["code": .string($0.code), "message": .string($0.message)]) } ?? .null),
        ]
        if let highestBatch { members.append(.init("highest_batch", .integer(highestBatch))) }
        return .schema(members)
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that its topic names; `nil` if it came without one.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], for gateway: GatewayID? = nil) throws(FleetDocumentError) {
        try self.init(try DocumentPart.document(octets, limit: Self.mostBytes), for: gateway)
    }

    init(_ part: DocumentPart, for gateway: GatewayID?) throws(FleetDocumentError) {
        self.gateway = try part["gateway"].gateway(gateway)
        batch = try part["batch"].whole(FleetSchema.numbers)
        stored = []
        for element in try part["stored"].elements(atMost: FleetBatch.mostItems) {
            stored.append(try element.readingID())
        }
        storedThrough = try part["stored_through"].optional { part throws(FleetDocumentError) in
            try part.whole(FleetSchema.numbers)
        }
        refused = []
        for element in try part["refused"].elements(atMost: FleetBatch.mostItems) {
            refused.append(Refusal(id: try element["id"].readingID(), reason: try element["reason"].text(1...1024)))
        }
        failure = try part["error"].optional { part throws(FleetDocumentError) in
            Failure(code: try part["code"].text(1...64), message: try part["message"].text(1...Self.mostMessageBytes))
        }
        highestBatch = try part["highest_batch"].optional { part throws(FleetDocumentError) in
            try part.whole(FleetSchema.numbers)
        }
        // A gateway must not have to choose between two answers to one reading.
        let both = Set(stored).intersection(refused.map(\.id))
        guard both.isEmpty else {
            throw .unexpected(
                at: "refused", expected: "readings that are not in `stored`", found: "\(both.count) that are")
        }
        guard failure == nil || stored.isEmpty && refused.isEmpty && storedThrough == nil else {
            throw .unexpected(at: "error", expected: "null beside stored or refused readings", found: "an error")
        }
    }
}
