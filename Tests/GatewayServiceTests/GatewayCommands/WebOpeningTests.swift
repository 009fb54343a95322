import Foundation
import HealthReadings
import ReadingDelivery
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// A file of settings with one destination, and files of secrets beside it.
struct WebSettingsFolder {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "web-settings-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    func remove() { try? FileManager.default.removeItem(at: folder) }

    /// The path of a file with a text.
    func file(_ name: String, _ text: String) throws -> String {
        let url = folder.appending(path: name)
        try text.write(to: url, atomically: true, encoding: .utf8)
        return url.path
    }

    /// The setting of a destination written as YAML.
    func setting(_ text: String) throws -> DestinationSetting {
        try #require(try settings(text).destination("web"))
    }

    /// Settings with a destination written as YAML.
    func settings(_ text: String, more: String = "") throws -> Settings {
        try Settings(file: file("config.yaml", "destinations: [{name: web, \(text)}]\n\(more)"), environment: [:])
    }
}

@Suite("Destinations over HTTP, opened") struct WebOpeningTests {
    /// How a destination opens: what it says of its address, or the message of its problem.
    private func opened(_ text: String, more: String = "", _ folder: WebSettingsFolder) async throws -> String {
        let bench = try await GatewayBench()
        defer { Task { try? await bench.stop() } }
        let settings = try folder.settings(text, more: more)
        let setting = try #require(settings.destination("web"))
        let workshop = DestinationWorkshop(
            settings: settings, state: folder.folder.path, store: bench.gateway.store,
            catalogue: bench.gateway.catalogue, logger: bench.gateway.logger)
        let link = workshop.link(setting)
        if let refusal = link.refusal {
            #expect(refusal.status == .configuration)
            return refusal.message + (refusal.hint.map { " → \($0)" } ?? "")
        }
        return link.open?.address ?? "none"
    }

    @Test("a time-series database: what belongs together is there, and nothing else")
    func influxdb() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let password = try folder.file("password", "a b:c\n")
        let token = try folder.file("token", "t0ken==\n")
        let two = try folder.file("two", "one two\n")
        let url = "kind: influxdb, url: \"http://127.0.0.1:8086/\""
        let cases: [(String, String)] = [
            ("\(url), database: health", "http://127.0.0.1:8086, database health"),
            (
                "\(url), database: health, username: g, password_file: \(password)",
                "http://127.0.0.1:8086, database health"
            ),
            ("\(url), org: home, bucket: health, token_file: \(token)", "http://127.0.0.1:8086, bucket health of home"),
            (url, "destinations.web.database: neither a database nor a bucket is set"),
            ("\(url), database: a, bucket: b", "a database and a bucket are set"),
            ("\(url), bucket: b", "destinations.web.org: `org` and `bucket` belong together"),
            ("\(url), bucket: b, org: o", "destinations.web.token_file: a bucket needs one"),
            ("\(url), bucket: b, org: o, token_file: \(two)", "holds more than one token"),
            ("\(url), bucket: b, org: o, token_file: /nowhere/token", "cannot read the token of web in /nowhere/token"),
            ("\(url), database: a, username: g", "destinations.web.password_file: username is set"),
            ("\(url), database: a, password_file: \(password)", "destinations.web.username: password_file is set"),
            ("\(url), database: a, username: \"g:h\", password_file: \(password)", "it has a colon"),
            ("kind: influxdb, url: \"http://db.example\", database: a", "reaches db.example over plain http"),
            (
                "kind: influxdb, url: \"http://db.example\", insecure: true, database: a",
                "http://db.example, database a"
            ),
            ("kind: influxdb, url: \"https://u:p@db.example\", database: a", "it carries a name or password"),
            ("kind: influxdb, url: \"ftp://db.example\", database: a", "https or http was expected"),
            ("\(url), database: a, ca_file: /nowhere/ca.pem", "destinations.web.ca_file: cannot read /nowhere/ca.pem"),
        ]
        for (text, expected) in cases {
            let found = try await opened(text, folder)
            #expect(found.contains(expected), "\(text): \(found)")
            #expect(!found.contains("u:p"), "\(text)")
        }
        #expect(throws: Problem.self) { try folder.settings("kind: influxdb, database: a") }
    }

    @Test("a Nightscout site: one secret, one person")
    func nightscout() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let secret = try folder.file("secret", "correct horse battery\n")
        let token = try folder.file("token", "gateway-0123456789abcdef\n")
        let url = "kind: nightscout, url: \"https://ns.example/\""
        let several = "users: [{client_user_id: brown_bear, devices: {\"C0:00:00:00:18:10\": 2}}]"
        let cases: [(String, String, String)] = [
            ("\(url), secret_file: \(secret)", "", "https://ns.example"),
            ("\(url), token_file: \(token)", "", "https://ns.example"),
            (url, "", "destinations.web.secret_file: neither secret_file nor token_file is set"),
            ("\(url), secret_file: \(secret), token_file: \(token)", "", "are both set"),
            ("\(url), secret_file: /nowhere/secret", "", "cannot read the API secret of web in /nowhere/secret"),
            ("\(url), secret_file: \(secret)", several, "destinations.web.people: a Nightscout site is one person's"),
            ("\(url), secret_file: \(secret), people: [brown_bear]", several, "https://ns.example"),
            ("\(url), secret_file: \(secret), people: [brown_bear, white_bear]", several, "and 2 are named"),
            (
                "kind: nightscout, url: \"https://s3cret@ns.example/api/v1/\", secret_file: \(secret)", "",
                "use secret_file or token_file instead"
            ),
            ("kind: nightscout, url: \"http://ns.example\", token_file: \(token)", "", "over plain http"),
        ]
        for (text, more, expected) in cases {
            let found = try await opened(text, more: more, folder)
            #expect(found.contains(expected), "\(text): \(found)")
            #expect(!found.contains("s3cret"), "\(text)")
        }
    }

    @Test("a webhook: a secret of its own kind, and an address of the public internet")
    func webhook() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let secret = try folder.file("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
        let short = try folder.file("short", "whsec_c2hvcnQ=\n")
        let url = "kind: webhook, url: \"https://hook.example/in?key=t0psecret\""
        let cases: [(String, String)] = [
            ("\(url), secret_file: \(secret)", "https://hook.example/in?…"),
            ("\(url), secret_file: \(secret), format: cloudevents", "https://hook.example/in?…"),
            ("\(url), secret_file: \(short)", "expected 24 to 64 octets, found 5"),
            ("\(url), secret_file: /nowhere/secret", "cannot read the secret of web in /nowhere/secret"),
            (
                "kind: webhook, url: \"https://127.0.0.1/in\", secret_file: \(secret)",
                "127.0.0.1 is inside this machine"
            ),
            (
                "kind: webhook, url: \"https://localhost/in\", secret_file: \(secret)",
                "localhost is inside this machine"
            ),
            ("kind: webhook, url: \"https://[fe80::1]/in\", secret_file: \(secret)", "fe80::1 is inside this machine"),
            (
                "kind: webhook, url: \"http://127.0.0.1:8080/in\", allow_private: true, secret_file: \(secret)",
                "http://127.0.0.1:8080/in"
            ),
            ("kind: webhook, url: \"http://hook.example/in\", secret_file: \(secret)", "over plain http"),
            (
                "kind: webhook, url: \"http://10.0.0.1/in\", allow_private: true, secret_file: \(secret)",
                "over plain http"
            ),
        ]
        for (text, expected) in cases {
            let found = try await opened(text, folder)
            #expect(found.contains(expected), "\(text): \(found)")
            #expect(!found.contains("t0psecret") && !found.contains("MfKQ"), "\(text)")
        }
        #expect(throws: Problem.self) { try folder.settings("\(url), secret_file: F, format: xml") }
        #expect(throws: Problem.self) { try folder.settings(url) }
    }

    @Test("a webhook in the format of others: the secret as its receiver has it, and ROOK's account")
    func formats() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let standard = try folder.file("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
        let word = try folder.file("word", "t0psecret\n")
        let words = try folder.file("words", "t0psecret\nf0rmer\n")
        let account = "client_uuid: 9dd1a2e0-1b1a-4a3e-9f3e-0f5c3c9f2d11"
        let url = "kind: webhook, url: \"https://hook.example/in\""
        let cases: [(String, String)] = [
            ("\(url), secret_file: \(word), format: terra", "https://hook.example/in"),
            ("\(url), secret_file: \(words), format: terra", "https://hook.example/in"),
            ("\(url), secret_file: \(standard), format: open_mhealth", "https://hook.example/in"),
            ("\(url), secret_file: \(word), format: open_mhealth", "expected it to begin with whsec_"),
            ("\(url), secret_file: \(word), format: rook, \(account)", "https://hook.example/in"),
            ("\(url), secret_file: \(words), format: rook, \(account)", "expected one secret, found 2"),
            ("\(url), secret_file: \(word), format: rook", "client_uuid: `format: rook` needs the account's id"),
            ("\(url), secret_file: \(word), format: rook, client_uuid: me", "client_uuid: expected a UUID, found 'me'"),
            ("\(url), secret_file: \(word), format: terra, \(account)", "client_uuid: only `format: rook` has one"),
        ]
        for (text, expected) in cases {
            let found = try await opened(text, folder)
            #expect(found.contains(expected), "\(text): \(found)")
            #expect(!found.contains("t0psecret") && !found.contains("f0rmer"), "\(text)")
        }
        for (format, isInOrder, retracts) in [("standard", false, true), ("terra", false, true), ("rook", true, false)]
        {
            let settings = try folder.settings("\(url), secret_file: F, format: \(format)")
            let setting = try #require(settings.destination("web"))
            let rules = setting.kind.opening.rules(setting)
            #expect((rules.isOneSeries, rules.canRetract) == (isInOrder, retracts))
        }
    }

    @Test("blood pressure has no place at a Nightscout site, unless notes are wanted")
    func notes() throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        for (text, kinds) in [("false", [ReadingKind.glucose]), ("true", [.glucose, .bloodPressure])] {
            let settings = try folder.settings(
                "kind: nightscout, url: \"https://ns.example\", secret_file: F, blood_pressure_notes: \(text)")
            let setting = try #require(settings.destination("web"))
            #expect(setting.kind.opening.rules(setting).kinds == Set(kinds))
        }
    }
}
