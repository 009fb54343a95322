/// One setting: its key, what it may be, and what it is when nobody says.
struct SettingDefinition: Sendable {
    /// What a setting may be.
    enum Form: Sendable {
        case text
        case choice([String])
        case whole(ClosedRange<Int>)
        case flag
        case list
        /// Any keys, each with a text.
        case map
    }

    var key: String
    var form: Form
    var standard: String?

    init(_ key: String, _ form: Form, _ standard: String? = nil) {
        self.key = key
        self.form = form
        self.standard = standard
    }

    /// The environment variable that sets it: `server.base_url` is `HEALTHRELAY_SERVER_BASE_URL`.
    var variable: String { "HEALTHRELAY_" + key.uppercased().replacing(".", with: "_") }

    /// Whether a change counts while the gateway runs, when it is told to read its settings again.
    var isLive: Bool {
        ["sync.backfill_days", "sync.ignore", "libre.deliver", "consent.default", "log.level"].contains(key)
    }

    /// What a value must be, for errors.
    var expectation: String {
        switch form {
        case .text: "text"
        case .choice(let choices): choices.dropLast().joined(separator: ", ") + " or " + (choices.last ?? "")
        case .whole(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .flag: "true or false"
        case .list: "a list"
        case .map: "keys with values"
        }
    }

    func accepts(_ text: String) -> Bool {
        switch form {
        case .text, .list, .map: true
        case .choice(let choices): choices.contains(text)
        case .whole(let range): Int(text).map(range.contains) ?? false
        case .flag: ["true", "false", "on", "off", "yes", "no"].contains(text.lowercased())
        }
    }

    /// All settings, in the order they are shown.
    static let all: [SettingDefinition] = [
        .init("server.kind", .choice(["vital"]), "vital"),
        .init("server.environment", .choice(["production", "sandbox", "local"]), "sandbox"),
        .init("server.region", .choice(["us", "eu"]), "us"),
        .init("server.base_url", .text),
        .init("server.api_key_file", .text),
        .init("server.sign_in_token_file", .text),
        .init("server.insecure", .flag, "false"),
        .init("user.client_user_id", .text),
        .init("user.time_zone", .text),
        .init("sources.policy", .choice(["create", "require"]), "create"),
        .init("sources.map", .map),
        .init("sync.mode", .choice(["automatic", "manual"]), "automatic"),
        .init("sync.backfill_days", .whole(0...36_500), "90"),
        .init("sync.ignore", .list),
        .init("bluetooth.adapter", .text),
        .init("nfc.reader", .text),
        .init("libre.deliver", .choice(["estimate", "none"]), "estimate"),
        .init("http.listen", .text, "127.0.0.1:8480"),
        .init("http.tls", .choice(["auto", "on", "off"]), "auto"),
        .init("http.local", .choice(["session", "trusted"]), "session"),
        .init("http.trusted_proxies", .list),
        .init("http.names", .list),
        .init("consent.default", .choice(["granted", "denied"]), "granted"),
        .init("clock.set", .list),
        .init("clock.require_sync", .flag, "false"),
        .init("store.encryption", .choice(["on", "off"]), "on"),
        .init("store.key_file", .text),
        .init("log.level", .choice(["trace", "debug", "info", "notice", "warning", "error", "critical"]), "info"),
    ]
}
