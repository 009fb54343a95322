import Crypto
import Foundation
import HealthReadings
import ReadingDelivery
import ReadingStore
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

    @Test("a FHIR server: one kind of credentials, and patients that can be looked for")
    func fhir() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let token = try folder.file("token", "t0ken==\n")
        let key = try folder.file("key.pem", P384.Signing.PrivateKey().pemRepresentation)
        let small = try folder.file("small.pem", P256.Signing.PrivateKey().pemRepresentation)
        let url = "kind: fhir, url: \"https://fhir.example/r4/\""
        let service = "\(url), client_id: gateway, private_key_file: \(key)"
        let address = "https://fhir.example/r4"
        let cases: [(String, String)] = [
            (url, address), ("\(url), token_file: \(token)", address), (service, address),
            ("\(service), key_id: k1, token_url: \"https://login.example/token\", scope: system/*.write", address),
            ("\(url), patients: {white_bear: \"https://hospital.example/mrn|4711\"}", address),
            ("\(url), patients: {white_bear: \"4711\"}", "expected an identifier as system|value for white_bear"),
            ("\(url), patients: {a: \"urn:x|1\", b: \"urn:x|1\"}", "a and b have the same identifier"),
            ("\(service), token_file: \(token)", "destinations.web.client_id: token_file is set too"),
            ("\(url), client_id: gateway", "destinations.web.private_key_file: client_id is set"),
            ("\(url), private_key_file: \(key)", "destinations.web.client_id: private_key_file is set"),
            ("\(url), token_url: \"https://login.example/token\"", "destinations.web.client_id: token_url is set"),
            (
                "\(service), token_url: \"http://login.example/token\"",
                "destinations.web.token_url reaches login.example"
            ),
            ("\(service), token_url: \"https://u:p@login.example/\"", "destinations.web.token_url: it carries a name"),
            ("\(url), client_id: g, private_key_file: \(small)", "expected a P-384 key, or an RSA key of 2048 bits"),
            ("\(url), client_id: g, private_key_file: \(token)", "expected a private key in PEM"),
            (
                "\(url), client_id: g, private_key_file: /nowhere/key",
                "cannot read the private key of web in /nowhere/key"
            ),
            (
                "kind: fhir, url: \"http://fhir.example/r4\", token_file: \(token)",
                "reaches fhir.example over plain http"
            ),
        ]
        for (text, expected) in cases {
            let found = try await opened(text, folder)
            #expect(found.contains(expected), "\(text): \(found)")
            #expect(!found.contains("u:p") && !found.contains("t0ken"), "\(text)")
        }
        let settings = try folder.settings("\(url), patients: {white_bear: \"urn:x|1\"}")
        #expect(try #require(settings.destination("web")).map("patients") == ["white_bear": "urn:x|1"])
        #expect(settings.document.text.contains(#""patients":{"white_bear":"urn:x|1"}"#))
        #expect(throws: Problem.self) { try folder.settings("kind: fhir") }
    }

    @Test("`sync status` says what a destination holds itself: readings of a person without a patient")
    func heldByDestination() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let bench = try await GatewayBench(
            settings: ["sync.backfill_days": "36500", "user.client_user_id": "white_bear"])
        _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: bench.gateway.reader())
        for (patients, held) in [("{}", Set<Hold?>([.noPatient])), ("{white_bear: \"urn:x|1\"}", [nil])] {
            let settings = try folder.settings("kind: fhir, url: \"https://fhir.example/r4\", patients: \(patients)")
            let workshop = DestinationWorkshop(
                settings: settings, state: folder.folder.path, store: bench.gateway.store,
                catalogue: bench.gateway.catalogue, logger: bench.gateway.logger)
            let destinations = Destinations(
                links: [workshop.link(try #require(settings.destination("web")))], hasAllLinks: false, isService: true,
                store: bench.gateway.store, catalogue: bench.gateway.catalogue, settings: LiveSettings(settings),
                logger: bench.gateway.logger)
            try await destinations.heed()
            let waiting = try #require(try await destinations.statuses().first).waiting
            #expect(waiting.count == 2 && Set(waiting.map(\.held)) == held, "\(waiting)")
        }
        try await bench.stop()
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
            ("\(url), secret_file: \(word), format: terra, \(account)", "client_uuid: only `format: rook` and"),
            ("\(url), secret_file: \(word), format: rook_summary", "`format: rook_summary` needs the account's id"),
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
