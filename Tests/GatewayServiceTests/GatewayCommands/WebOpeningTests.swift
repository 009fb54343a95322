import Foundation
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
        let path = try file("config.yaml", "destinations: [{name: web, \(text)}]")
        return try #require(try Settings(file: path, environment: [:]).destination("web"))
    }
}

@Suite("Destinations over HTTP, opened") struct WebOpeningTests {
    /// How a destination opens: what it says of its address, or the message of its problem.
    private func opened(_ text: String, _ folder: WebSettingsFolder) async throws -> String {
        let bench = try await GatewayBench()
        defer { Task { try? await bench.stop() } }
        let setting = try folder.setting(text)
        let workshop = DestinationWorkshop(
            settings: bench.gateway.settings, state: folder.folder.path, store: bench.gateway.store,
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
        #expect(throws: Problem.self) { try folder.setting("kind: influxdb, database: a") }
    }
}
