import HealthReadings

/// A kind of destination, with what can be set for one.
///
/// A new kind is one more case: the file, the environment, `config show`, the errors and the commands follow from it. How
/// one is opened is a case of `DestinationOpening`.
package enum DestinationKind: String, Sendable, CaseIterable {
    /// A Vital-compatible server.
    case vital
    /// A file that readings are appended to, a JSON document a line.
    case file
    /// The centre of a fleet of gateways, through MQTT brokers.
    case fleet
    /// A FHIR R4 server.
    case fhir
    /// A time-series database that takes InfluxDB line protocol.
    case influxdb
    /// An MQTT broker, with Home Assistant behind it or not.
    case mqtt
    /// A Nightscout site.
    case nightscout
    /// A URL that gets a signed event for each reading.
    case webhook

    /// Whether its settings name a path on this machine, which only the administrator's file may.
    var namesPath: Bool { own.contains { $0.key == "path" } }

    /// What `kind:` says.
    package var name: String { rawValue }

    /// What only this kind has.
    var own: [SettingDefinition] {
        switch self {
        case .vital:
            [
                .init("environment", .choice(["production", "sandbox", "local"]), "sandbox"),
                .init("region", .choice(["us", "eu"]), "us"),
                .init("base_url", .text),
                .init("api_key_file", .text),
                .init("sign_in_token_file", .text),
            ]
        case .file: [.init("path", .text)]
        case .fleet:
            [
                .init("hosts", .selection(nil)),
                .init("gateway", .text),
                .init("token_file", .text),
                .init("username", .text),
                .init("password_file", .text),
                .init("certificate_file", .text),
                .init("private_key_file", .text),
                .init("acknowledgement", .choice(["stored", "broker"]), "stored"),
                .init("seal_to_file", .text),
            ]
        case .fhir:
            [
                .init("url", .text),
                .init("patients", .map),
                .init("token_file", .text),
                .init("client_id", .text),
                .init("private_key_file", .text),
                .init("key_id", .text),
                .init("token_url", .text),
                .init("scope", .text),
            ]
        case .mqtt:
            [
                .init("url", .text),
                .init("username", .text),
                .init("password_file", .text),
                .init("certificate_file", .text),
                .init("private_key_file", .text),
                .init("topic", .text, "healthrelay"),
                .init("home_assistant", .flag, "true"),
            ]
        case .nightscout:
            [
                .init("url", .text),
                .init("secret_file", .text),
                .init("token_file", .text),
                .init("blood_pressure_notes", .flag, "false"),
            ]
        case .webhook:
            [
                .init("url", .text),
                .init("secret_file", .text),
                .init(
                    "format", .choice(["standard", "cloudevents", "open_mhealth", "terra", "rook", "rook_summary"]),
                    "standard"),
                .init("client_uuid", .text),
                .init("allow_private", .flag, "false"),
            ]
        case .influxdb:
            [
                .init("url", .text),
                .init("database", .text),
                .init("username", .text),
                .init("password_file", .text),
                .init("org", .text),
                .init("bucket", .text),
                .init("token_file", .text),
            ]
        }
    }

    /// The keys that nothing works without.
    var required: [String] {
        switch self {
        case .vital: []
        case .file: ["path"]
        case .fleet: ["hosts"]
        case .fhir, .influxdb, .mqtt, .nightscout: ["url"]
        case .webhook: ["url", "secret_file"]
        }
    }

    /// Everything that can be set, in the order in which it is shown.
    var settings: [SettingDefinition] { own + Self.common }

    /// What every kind has. A list that is absent means all.
    private static let common: [SettingDefinition] = [
        .init("kinds", .selection(ReadingKind.allCases.map(\.rawValue))),
        .init("people", .selection(nil)),
        .init("devices", .selection(nil)),
        .init("backfill_days", .whole(0...36_500)),
        .init("mode", .choice(["automatic", "manual"])),
        .init("ca_file", .text),
        .init("insecure", .flag, "false"),
    ]

    /// The settings that count at once when a running gateway reads its settings again.
    static let live: Set<String> = ["kinds", "people", "devices", "backfill_days"]
}
