import HealthReadings

/// How a gateway is: the document of `healthrelay/<gateway>/status`, sent on connect and every 15 minutes.
///
/// The broker publishes ``offline`` when the gateway's connection is lost. It is a hint: nothing comes when the broker's own
/// node dies, so presence is when a gateway was last heard of.
public enum FleetStatus: Sendable, Hashable {
    /// The gateway's connection was lost: `{"online": false}`.
    case offline
    /// The gateway is connected.
    case online(FleetReport)

    /// How many bytes a document may have.
    public static let mostBytes = 65_536

    /// The document.
    public var document: JSONValue {
        switch self {
        case .offline: .object(["online": false])
        case .online(let report): report.document
        }
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - gateway: the gateway that its topic names; `nil` if it came without one.
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8], from gateway: GatewayID? = nil) throws(FleetDocumentError) {
        let will = try DocumentPart.document(octets, limit: Self.mostBytes, hasSchema: false)
        // A will has no schema: it was written before anything else was known.
        guard try will["online"].flag() else {
            self = .offline
            return
        }
        self = .online(try FleetReport(try DocumentPart.document(octets, limit: Self.mostBytes), gateway))
    }
}

/// What a connected gateway says about itself.
public struct FleetReport: Sendable, Hashable {
    /// A device by its alias, such as `accuchek_guide-3f2a`: never its address or serial number.
    public struct Device: Sendable, Hashable {
        /// The alias.
        public var alias: String
        /// The battery, 0 … 100 %; `nil` if the device does not tell.
        public var batteryPercent: Int?
        /// When the gateway last met it.
        public var lastSeen: Instant?

        /// Makes a device.
        public init(alias: String, batteryPercent: Int? = nil, lastSeen: Instant? = nil) {
            self.alias = alias
            self.batteryPercent = batteryPercent
            self.lastSeen = lastSeen
        }
    }

    /// What waits at the gateway.
    public struct Backlog: Sendable, Hashable {
        /// Readings that wait to be sent.
        public var waiting: Int
        /// Readings that were sent and have no receipt.
        public var handedOver: Int
        /// Readings that the centre refused.
        public var refused: Int
        /// When the oldest of those that wait was measured.
        public var oldest: Instant?

        /// Makes a backlog.
        public init(waiting: Int = 0, handedOver: Int = 0, refused: Int = 0, oldest: Instant? = nil) {
            self.waiting = waiting
            self.handedOver = handedOver
            self.refused = refused
            self.oldest = oldest
        }
    }

    /// Whether the gateway's own clock is right.
    public enum Clock: String, Sendable, Hashable, CaseIterable {
        /// It is synchronised.
        case synchronised
        /// It runs by itself, and nothing speaks against it.
        case unsynchronised
        /// The gateway knows that it is wrong, or cannot rule it out: it reads no meters until that has changed.
        case untrusted
        /// The gateway cannot tell.
        case unknown
    }

    /// How many devices a report names at most.
    public static let mostDevices = 256

    /// The gateway.
    public var gateway: GatewayID
    /// When the gateway sent it, by its own clock.
    public var sentAt: Instant
    /// The gateway's version.
    public var version: String
    /// What the version was built from; `nil` if the program does not know it.
    public var build: String?
    /// Seconds since the gateway's service was started.
    public var uptimeSeconds: Int64
    /// Whether the gateway's clock is right.
    public var clock: Clock
    /// What waits.
    public var backlog: Backlog
    /// The paired devices.
    public var devices: [Device]
    /// The configuration that the gateway has from the centre.
    public var configuration: FleetConfigurationState

    /// Makes a report.
    public init(
        gateway: GatewayID, sentAt: Instant, version: String, build: String? = nil, uptimeSeconds: Int64 = 0,
        clock: Clock = .unknown, backlog: Backlog = Backlog(), devices: [Device] = [],
        configuration: FleetConfigurationState = FleetConfigurationState()
    ) {
        self.gateway = gateway
        self.sentAt = sentAt
        self.version = version
        self.build = build
        self.uptimeSeconds = uptimeSeconds
        self.clock = clock
        self.backlog = backlog
        self.devices = devices
        self.configuration = configuration
    }

    var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("online", true),
            .init("sent_at", .string(sentAt.description)), .init("version", .string(version)),
            .init("build", .optional(build)), .init("uptime_seconds", .integer(uptimeSeconds)),
            .init("clock", .string(clock.rawValue)),
            .init(
                "backlog",
                .object([
                    "waiting": .integer(Int64(backlog.waiting)), "handed_over": .integer(Int64(backlog.handedOver)),
                    "refused": .integer(Int64(backlog.refused)), "oldest": .optional(backlog.oldest),
                ])),
            .init(
                "devices",
                .array(
                    devices.prefix(Self.mostDevices).map { device in
                        .object([
                            "alias": .string(device.alias), "battery_percent": .optional(device.batteryPercent),
                            "last_seen": .optional(device.lastSeen),
                        ])
                    })),
            .init("configuration", configuration.document),
        ])
    }

    init(_ part: DocumentPart, _ expected: GatewayID?) throws(FleetDocumentError) {
        gateway = try part["gateway"].gateway(expected)
        sentAt = try part["sent_at"].instant()
        version = try part["version"].text(1...64)
        build = try part["build"].optional { part throws(FleetDocumentError) in try part.text(1...64) }
        uptimeSeconds = try part["uptime_seconds"].whole(0...FleetSchema.largestNumber)
        let clock = part["clock"]
        guard let known = Clock(rawValue: try clock.text(1...64)) else {
            throw clock.unexpected(Clock.allCases.map(\.rawValue).joined(separator: ", "))
        }
        self.clock = known
        let waiting = part["backlog"]
        backlog = Backlog(
            waiting: try waiting["waiting"].count(), handedOver: try waiting["handed_over"].count(),
            refused: try waiting["refused"].count(),
            oldest: try waiting["oldest"].optional { part throws(FleetDocumentError) in try part.instant() })
        devices = []
        for element in try part["devices"].elements(atMost: Self.mostDevices) {
            devices.append(
                Device(
                    alias: try element["alias"].text(1...128),
                    batteryPercent: try element["battery_percent"].optional { part throws(FleetDocumentError) in
                        Int(try part.whole(0...100))
                    },
                    lastSeen: try element["last_seen"].optional { part throws(FleetDocumentError) in
                        try part.instant()
                    }))
        }
        configuration = try FleetConfigurationState(part["configuration"])
    }
}

extension DocumentPart {
    fileprivate func count() throws(FleetDocumentError) -> Int { Int(try whole(0...FleetSchema.largestNumber)) }
}
