import HealthReadings

/// The settings that the centre wants a gateway to have: the document of `healthrelay/<gateway>/config`.
///
/// Only the settings of ``keys`` can be set so. Keys, addresses, consent, and which person a meter belongs to never can. A
/// gateway applies all settings of a configuration or none, and says which in its status. What an earlier version set and
/// this one doesn't name is again as the gateway's owner had it.
public struct FleetConfiguration: Sendable, Hashable {
    /// A value that a setting can have.
    public enum Value: Sendable, Hashable {
        /// A whole number.
        case whole(Int64)
        /// A text.
        case text(String)
        /// Yes or no.
        case flag(Bool)
        /// Texts by name.
        case map([String: String])
    }

    /// A setting that is not applied.
    public struct Refusal: Sendable, Hashable {
        /// The setting's key.
        public var key: String
        /// Why it is not applied.
        public var reason: String

        /// Makes a refusal.
        public init(key: String, reason: String) {
            self.key = key
            self.reason = reason
        }
    }

    /// The settings that can be set, by their names in the settings file.
    public static let keys = [
        "clock.require_sync", "cloud.every", "fleet.status_minutes", "heart_rate.hrv_window", "log.level",
        "sources.map",
        "sync.backfill_days",
    ]
    /// How many bytes a document may have.
    public static let mostBytes = 65_536

    /// The gateway that it is for.
    public var gateway: GatewayID
    /// Grows with each change. A gateway ignores a version that is not higher than the one it has.
    public var version: Int64
    /// The settings.
    public var settings: [String: Value]
    /// Settings that were asked for and cannot be set so, or not to that value.
    public private(set) var refused: [Refusal] = []

    /// Makes a configuration.
    public init(gateway: GatewayID, version: Int64, settings: [String: Value]) {
        self.gateway = gateway
        self.version = version
        self.settings = settings
    }

    /// The document.
    public var document: JSONValue {
        .schema([
            .init("gateway", .string(gateway.description)), .init("version", .integer(version)),
            .init(
                "settings",
                .object(settings.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.document) })),
        ])
    }

    /// Reads a document. A setting that cannot be set so is in ``refused``.
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
        version = try part["version"].whole(FleetSchema.numbers)
        settings = [:]
        let all = part["settings"]
        guard let members = all.members else { throw all.unexpected("an object of settings") }
        for (key, node) in members {
            do throws(FleetDocumentError) {
                settings[key] = try Self.value(of: key, DocumentPart(node: node, place: "settings.\(Self.shown(key))"))
            } catch {
                refused.append(Refusal(key: Self.shown(key), reason: error.description))
            }
        }
    }

    /// Reads the settings that an operator wants gateways to have: JSON with a setting's key and value each.
    ///
    /// - Throws: ``FleetDocumentError`` for a key that a centre cannot set, and for a value that the key cannot have.
    public static func settings(_ octets: [UInt8]) throws(FleetDocumentError) -> [String: Value] {
        let part = try DocumentPart.document(octets, limit: mostBytes, hasSchema: false)
        var settings: [String: Value] = [:]
        for (key, node) in part.members ?? [] {
            settings[key] = try value(of: key, DocumentPart(node: node, place: shown(key)))
        }
        return settings
    }

    /// The settings as ``settings(_:)`` reads them.
    public static func text(_ settings: [String: Value]) -> String {
        JSONValue.object(settings.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.document) }).text
    }

    /// A key as it may stand in a document and a log.
    private static func shown(_ key: String) -> String { String(PrintableText.escaped(key).prefix(64)) }

    private static func value(of key: String, _ part: DocumentPart) throws(FleetDocumentError) -> Value {
        switch key {
        case "clock.require_sync": return .flag(try part.flag())
        case "cloud.every": return .text(try part.text(2...8))
        case "fleet.status_minutes": return .whole(try part.whole(1...1440))
        case "heart_rate.hrv_window": return .whole(try part.whole(30...3600))
        case "sync.backfill_days": return .whole(try part.whole(0...36_500))
        case "log.level":
            return .text(try part.choice(["trace", "debug", "info", "notice", "warning", "error", "critical"]))
        case "sources.map":
            guard let members = part.members else { throw part.unexpected("an object of texts") }
            var map: [String: String] = [:]
            for (name, node) in members {
                let value = DocumentPart(node: node, place: "\(part.place).\(shown(name))")
                guard (1...64).contains(name.utf8.count) else { throw value.unexpected("a name of 1 to 64 bytes") }
                map[name] = try value.text(1...64)
            }
            return .map(map)
        default:
            throw .unexpected(
                at: part.place, expected: "one of \(keys.joined(separator: ", "))", found: "another setting")
        }
    }
}

extension FleetConfiguration.Value {
    var document: JSONValue {
        switch self {
        case .whole(let number): .integer(number)
        case .text(let text): .string(text)
        case .flag(let flag): .bool(flag)
        case .map(let map): .object(map.sorted { $0.key < $1.key }.map { .init($0.key, .string($0.value)) })
        }
    }
}

extension DocumentPart {
    fileprivate func choice(_ words: [String]) throws(FleetDocumentError) -> String {
        guard let text = string, words.contains(text) else {
            throw unexpected("one of \(words.joined(separator: ", "))")
        }
        return text
    }
}

/// What a gateway did with the configuration that it got.
public struct FleetConfigurationState: Sendable, Hashable {
    /// What became of it.
    public enum State: String, Sendable, Hashable, CaseIterable {
        /// The gateway has no configuration from the centre.
        case none
        /// The settings are in effect.
        case applied
        /// The gateway did not apply it; see ``FleetConfigurationState/refused``.
        case refused
        /// The gateway could not deliver after it, and has its former settings again.
        case rolledBack = "rolled_back"
    }

    /// The newest version that the gateway has heard of, which ``state`` is about; `nil` if there was none.
    public var version: Int64?
    /// The version whose settings are in effect; `nil` if none is.
    public var applied: Int64?
    /// A fingerprint of the settings in effect, also of those that the centre cannot set.
    public var hash: String?
    /// What became of it.
    public var state: State
    /// The settings that were not applied.
    public var refused: [FleetConfiguration.Refusal]
    /// Why it was rolled back; `nil` if it was not.
    public var reason: String?

    /// Makes a state.
    public init(
        version: Int64? = nil, applied: Int64? = nil, hash: String? = nil, state: State = .none,
        refused: [FleetConfiguration.Refusal] = [], reason: String? = nil
    ) {
        self.version = version
        self.applied = applied
        self.reason = reason
        self.hash = hash
        self.state = state
        self.refused = refused
    }

    /// The state as it stands in a hello and a status, and as `healthrelay-collector gateways` prints it.
    public var document: JSONValue {
        .object([
            "version": .optional(version), "applied": .optional(applied), "hash": .optional(hash),
            "state": .string(state.rawValue),
            "refused": .array(
                refused.map { .object(["key": .string($0.key), "reason": .string($0.reason)]) }),
            "reason": .optional(reason),
        ])
    }

    /// Reads what ``document`` writes.
    ///
    /// - Throws: ``FleetDocumentError``
    public init(_ octets: [UInt8]) throws(FleetDocumentError) {
        try self.init(try DocumentPart.document(octets, limit: FleetConfiguration.mostBytes, hasSchema: false))
    }

    init(_ part: DocumentPart) throws(FleetDocumentError) {
        guard part.members != nil else { throw part.unexpected("an object") }
        version = try part["version"].optional { part throws(FleetDocumentError) in
            try part.whole(FleetSchema.numbers)
        }
        applied = try part["applied"].optional { part throws(FleetDocumentError) in
            try part.whole(FleetSchema.numbers)
        }
        reason = try part["reason"].optional { part throws(FleetDocumentError) in try part.text(1...1024) }
        hash = try part["hash"].optional { part throws(FleetDocumentError) in try part.text(1...128) }
        let state = part["state"]
        guard let known = State(rawValue: try state.text(1...64)) else {
            throw state.unexpected(State.allCases.map(\.rawValue).joined(separator: ", "))
        }
        self.state = known
        refused = []
        for element in try part["refused"].elements(atMost: 64) {
            refused.append(
                FleetConfiguration.Refusal(key: try element["key"].text(), reason: try element["reason"].text(1...1024))
            )
        }
    }
}
