import HealthReadings
import ReadingDelivery
import VitalDestination

/// A kind of destination, with what can be set for one and how one is opened.
///
/// A new kind is one more entry of ``all``: the file, the environment, `config show`, the errors and the commands follow
/// from it.
struct DestinationKind: Sendable {
    /// What `kind:` says.
    var name: String
    /// What only this kind has.
    var own: [SettingDefinition]
    /// The keys that nothing works without.
    var required: [String] = []
    /// What every destination of the kind can express.
    var rules: DestinationRules
    /// Opens a destination; `nil` if it has no credentials yet. Nothing is sent.
    ///
    /// - Throws: ``Problem`` for settings that cannot be used: delivery there is then paused.
    var open: @Sendable (DestinationSetting, DestinationWorkshop) throws -> OpenDestination?
    /// Proves what can be proven without leaving a reading there.
    var test: @Sendable (OpenDestination?, DestinationWorkshop) async -> [DestinationFinding]

    /// Everything that can be set, in the order in which it is shown.
    var settings: [SettingDefinition] { own + Self.common }

    /// What every kind has. A list that is absent means all.
    static let common: [SettingDefinition] = [
        .init("kinds", .selection(ReadingKind.allCases.map(\.rawValue))),
        .init("people", .selection(nil)),
        .init("devices", .selection(nil)),
        .init("backfill_days", .whole(0...36_500)),
        .init("mode", .choice(["automatic", "manual"])),
        .init("ca_file", .text),
        .init("insecure", .flag, "false"),
    ]

    /// A Vital-compatible server.
    static let vital = DestinationKind(
        name: "vital",
        own: [
            .init("environment", .choice(["production", "sandbox", "local"]), "sandbox"),
            .init("region", .choice(["us", "eu"]), "us"),
            .init("base_url", .text),
            .init("api_key_file", .text),
            .init("sign_in_token_file", .text),
        ], rules: VitalDestination.rules,
        open: { setting, workshop in
            try VitalConnection(setting, state: workshop.state).map { workshop.open($0, as: setting.name) }
        },
        test: { open, workshop in
            await DestinationTest(
                connection: open?.vital?.connection, clientUserID: workshop.settings["user.client_user_id"],
                logger: workshop.logger
            ).findings()
        })

    /// A file that readings are appended to, a JSON document a line.
    static let file = DestinationKind(
        name: "file", own: [.init("path", .text)], required: ["path"], rules: JSONLinesDestination.rules,
        open: { setting, _ in
            let path = setting["path"] ?? ""
            guard path.hasPrefix("/") else {
                throw Problem(
                    "config_invalid", .configuration,
                    "destinations.\(setting.name).path: expected an absolute path, found '\(path)'")
            }
            return OpenDestination(
                destination: JSONLinesDestination(name: setting.name, path: path), address: path, vital: nil)
        },
        test: { open, _ in FileTest(path: open?.address ?? "").findings() })

    /// All kinds.
    static let all = [vital, file]

    /// The settings that count at once when a running gateway reads its settings again.
    static let live: Set<String> = ["kinds", "people", "devices", "backfill_days"]
}
