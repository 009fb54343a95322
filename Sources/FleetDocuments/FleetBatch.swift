import HealthReadings

/// Readings, and readings to take back, that a gateway sends together: the document of `healthrelay/<gateway>/readings`.
///
/// A gateway numbers its batches. A number is never used twice, and a later batch has a higher number, also after the
/// gateway was restarted, restored from a backup or replaced (``nextNumber(after:above:at:)``). A batch without a receipt is sent
/// again under a new number, with the content that its readings have then.
public struct FleetBatch: Sendable, Hashable {
    /// How many readings, and readings to take back, a batch has at most.
    public static let mostItems = 100
    /// How many bytes a gateway puts into a batch of several readings. One reading alone may have more.
    public static let usualBytes = 65_536
    /// How many bytes a document may have. A larger one is not parsed.
    public static let mostBytes = 720_000

    /// The gateway.
    public var gateway: GatewayID
    /// The batch's number, 1 … 2⁵³ - 1.
    public var number: Int64
    /// When the gateway made the batch, by its own clock.
    public var sentAt: Instant
    /// The readings.
    public var readings: [FleetReading]
    /// Readings that the centre is to remove.
    public var retracted: [FleetRetraction]

    /// Makes a batch.
    public init(
        gateway: GatewayID, number: Int64, sentAt: Instant, readings: [FleetReading], retracted: [FleetRetraction] = []
    ) {
        self.gateway = gateway
        self.number = number
        self.sentAt = sentAt
        self.readings = readings
        self.retracted = retracted
    }

    /// The ids of all readings, and of all that are to be removed: what a receipt has to name.
    public var ids: [ReadingID] { readings.map(\.id) + retracted.map(\.id) }

    /// The number of a gateway's next batch: milliseconds since 1970, or one more than the last if that is not higher.
    ///
    /// The centre applies a revision only if it is newer than what it has. A plain counter would start again if the gateway
    /// lost its state, and everything that it revises or takes back then would be ignored for as long as it takes to catch
    /// up. The clock prevents that, and the last number covers a clock that was set back.
    ///
    /// - Parameters:
    ///   - last: the number of the last batch; 0 if there was none.
    ///   - floor: the highest number that the centre has (``FleetReceipt/highestBatch``); 0 if it has said nothing. One that no
    ///     clock reaches is ignored, so that a wrong one does not use the numbers up.
    ///   - now: the gateway's clock.
    public static func nextNumber(after last: Int64, above floor: Int64 = 0, at now: Instant) -> Int64 {
        let floor = floor <= FleetSchema.largestNumber / 2 ? floor : 0
        return min(max(last + 1, floor + 1, now.microseconds / 1000, 1), FleetSchema.largestNumber)
    }

    /// The document.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("batch", .integer(number)),
            .init("sent_at", .string(sentAt.description)), .init("readings", .array(readings.map(\.body))),
            .init("retracted", .array(retracted.map(\.document))),
        ])
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that its topic names; `nil` if it came without one.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], from gateway: GatewayID? = nil) throws(FleetDocumentError) {
        try self.init(try DocumentPart.document(octets, limit: Self.mostBytes), octets, gateway)
    }

    init(
        _ part: DocumentPart, _ octets: [UInt8], _ expected: GatewayID?
    ) throws(FleetDocumentError) {
        gateway = try part["gateway"].gateway(expected)
        number = try part["batch"].whole(FleetSchema.numbers)
        sentAt = try part["sent_at"].instant()
        readings = []
        for element in try part["readings"].elements(atMost: Self.mostItems) {
            readings.append(try FleetReading(element, octets))
        }
        retracted = []
        for element in try part["retracted"].elements(atMost: Self.mostItems) {
            retracted.append(try FleetRetraction(element))
        }
        // Which of two is meant would be a guess, and one statement of SQL cannot change a row twice.
        var ids: Set<ReadingID> = []
        for (index, id) in self.ids.enumerated() where !ids.insert(id).inserted {
            let place =
                index < readings.count ? "readings[\(index)].id" : "retracted[\(index - readings.count)].id"
            throw .unexpected(at: place, expected: "an id not used before in this batch", found: "one that was")
        }
        guard !ids.isEmpty, ids.count <= Self.mostItems else {
            throw .unexpected(
                at: "the document", expected: "1 to \(Self.mostItems) readings and readings to take back",
                found: "\(ids.count)")
        }
    }
}

/// A reading of a batch: the reading's document as the command line shows it, without `deliveries` and with `revision`.
public struct FleetReading: Sendable, Hashable {
    /// How many bytes of UTF-8 the id of a person has at most.
    public static let mostPersonBytes = 256

    /// The reading's id, which stays the same when the reading is revised.
    public let id: ReadingID
    /// Grows with each revision and each retraction of the reading. A batch's own number is used: a later batch has read the
    /// store later.
    public let revision: Int64
    /// Whose reading it is, by the id that the gateway's settings give the person.
    public let person: String?
    /// `glucose`, `blood_pressure`, …
    public let kind: String
    /// When it was measured; `nil` if that is not known.
    public let time: Instant?
    /// The whole reading, `revision` included, with the digits that the device sent.
    public let body: JSONValue

    /// Makes a reading.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - revision: the number of the batch that it is sent in.
    ///   - person: whose reading it is.
    public init(_ reading: Reading, revision: Int64, person: String?) {
        id = reading.id
        self.revision = revision
        self.person = person
        kind = reading.kind.rawValue
        time = reading.time.instant
        var reading = reading
        (reading.person, reading.deliveries) = (person, [])
        var members: [JSONValue.Member] = []
        if case .object(let all) = reading.document { members = all.filter { $0.key != "deliveries" } }
        members.insert(.init("revision", .integer(revision)), at: min(1, members.count))
        body = .written(Array(JSONValue.object(members).text.utf8))
    }

    init(_ part: DocumentPart, _ octets: [UInt8]) throws(FleetDocumentError) {
        guard let node = part.node, node.members != nil else { throw part.unexpected("a reading") }
        id = try part["id"].readingID()
        revision = try part["revision"].whole(FleetSchema.numbers)
        person = try part["person"].optional { part throws(FleetDocumentError) in
            try part.text(1...Self.mostPersonBytes)
        }
        kind = try part["kind"].text(1...64)
        time = try part["time"].optional { part throws(FleetDocumentError) in try part.instant() }
        body = .written(Array(octets[node.range]))
    }
}

/// A reading that the centre is to remove: it was excluded, replaced or erased at the gateway.
public struct FleetRetraction: Sendable, Hashable {
    /// The reading.
    public var id: ReadingID
    /// Higher than that of every batch that had the reading; see ``FleetReading/revision``.
    public var revision: Int64

    /// Makes a retraction.
    public init(id: ReadingID, revision: Int64) {
        self.id = id
        self.revision = revision
    }

    var document: JSONValue { .object(["id": .string(id.description), "revision": .integer(revision)]) }

    init(_ part: DocumentPart) throws(FleetDocumentError) {
        guard part.members != nil else { throw part.unexpected("an object with id and revision") }
        id = try part["id"].readingID()
        revision = try part["revision"].whole(FleetSchema.numbers)
    }
}
