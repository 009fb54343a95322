/// One setting: its key, what it may be, and what it is when nobody says.
struct SettingDefinition: Sendable {
    /// What a setting may be.
    enum Form: Sendable {
        case text
        case choice([String])
        case whole(ClosedRange<Int>)
        case flag
        case list
        /// A list with one entry at least, of these where some are given.
        case selection([String]?)
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

    /// The environment variable that sets it: `sync.mode` is `HEALTHRELAY_SYNC_MODE`.
    var variable: String { "HEALTHRELAY_" + key.uppercased().replacing(".", with: "_") }

    /// Whether a change counts while the gateway runs, when it is told to read its settings again.
    var isLive: Bool {
        [
            "sync.backfill_days", "sync.ignore", "libre.deliver", "consent.default", "store.keep", "log.level",
        ].contains(key)
    }

    /// What a value must be, for errors.
    var expectation: String {
        switch form {
        case .text: "text"
        case .choice(let choices): choices.dropLast().joined(separator: ", ") + " or " + (choices.last ?? "")
        case .whole(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .flag: "true or false"
        case .list: "a list"
        case .selection(nil): "a list with one entry at least"
        case .selection(let choices?): "a list of one or more of \(choices.joined(separator: ", "))"
        case .map: "keys with values"
        }
    }

    func accepts(_ text: String) -> Bool {
        switch form {
        case .text, .list, .map: true
        case .selection: false
        case .choice(let choices): choices.contains(text)
        case .whole(let range): Int(text).map(range.contains) ?? false
        case .flag: ["true", "false", "on", "off", "yes", "no"].contains(text.lowercased())
        }
    }

    func accepts(entries: [String]) -> Bool {
        guard case .selection(let choices) = form else { return true }
        return !entries.isEmpty && entries.allSatisfy { !$0.isEmpty && choices?.contains($0) ?? true }
    }

    /// Whether a flag's text says yes.
    static func isOn(_ text: String?) -> Bool { ["true", "on", "yes"].contains(text?.lowercased()) }

    /// All settings apart from `destinations` and `users`, in the order they are shown.
    static let all: [SettingDefinition] = [
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
        .init("heart_rate.keep", .list),
        .init("heart_rate.hrv_window", .whole(30...3600), "300"),
        .init("cloud.service_url", .text),
        .init("cloud.app_id", .text),
        .init("cloud.app_key_file", .text),
        .init("cloud.whoop_client_id", .text),
        .init("cloud.whoop_client_secret_file", .text),
        .init("cloud.whoop_url", .text, "https://api.prod.whoop.com"),
        .init("cloud.redirect_port", .whole(0...65_535), "0"),
        .init("cloud.ca_file", .text),
        .init("cloud.every", .text),
        .init("fleet.status_minutes", .whole(1...1440), "15"),
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
        .init("store.keep", .map),
        .init("backup.to", .text),
        .init("backup.every", .text, "1d"),
        .init("backup.keep", .whole(1...1000), "14"),
        .init("backup.passphrase_file", .text),
        .init("log.level", .choice(["trace", "debug", "info", "notice", "warning", "error", "critical"]), "info"),
    ]
}
