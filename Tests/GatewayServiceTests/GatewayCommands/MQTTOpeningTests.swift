import Foundation
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("MQTT destinations, opened") struct MQTTOpeningTests {
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

    @Test("what a broker's settings are, and what is wrong with them")
    func settings() async throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        let password = try folder.file("password", "a b:c\n")
        let certificate = try folder.file("gateway.pem", "x")
        let url = "kind: mqtt, url: \"mqtts://broker.example\""
        let cases: [(String, String)] = [
            (url, "mqtts://broker.example:8883"),
            ("kind: mqtt, url: \"MQTTS://broker.example:8884/\"", "mqtts://broker.example:8884"),
            ("kind: mqtt, url: \"mqtt://127.0.0.1\"", "mqtt://127.0.0.1:1883"),
            ("kind: mqtt, url: \"mqtt://[::1]:1884\"", "mqtt://[::1]:1884"),
            ("kind: mqtt, url: \"mqtt://localhost\"", "mqtt://localhost:1883"),
            ("kind: mqtt, url: \"mqtt://broker.example\"", "reaches broker.example over plain mqtt"),
            ("kind: mqtt, url: \"mqtt://localhost.example\"", "reaches localhost.example over plain mqtt"),
            ("kind: mqtt, url: \"mqtt://broker.example\", insecure: true", "mqtt://broker.example:1883"),
            ("\(url), username: g", "mqtts://broker.example:8883"),
            ("\(url), username: g, password_file: \(password)", "mqtts://broker.example:8883"),
            ("\(url), password_file: \(password)", "destinations.web.username: password_file is set"),
            ("\(url), username: g, password_file: /nowhere/p", "cannot read the password of web in /nowhere/p"),
            ("\(url), certificate_file: \(certificate)", "destinations.web.private_key_file: a certificate and its"),
            ("\(url), private_key_file: \(certificate)", "destinations.web.certificate_file: a certificate and its"),
            ("\(url), certificate_file: /nowhere/c", "destinations.web.certificate_file: cannot read /nowhere/c"),
            ("\(url), ca_file: /nowhere/ca.pem", "destinations.web.ca_file: cannot read /nowhere/ca.pem"),
            (
                "kind: mqtt, url: \"mqtt://localhost\", ca_file: \(certificate)",
                "destinations.web.ca_file: it is for TLS"
            ),
            ("kind: mqtt, url: \"mqtts://g:hidden@broker.example\"", "it carries a name or password"),
            ("kind: mqtt, url: \"https://broker.example\"", "destinations.web.url: expected mqtts://HOST"),
            ("kind: mqtt, url: \"broker.example\"", "destinations.web.url: expected mqtts://HOST"),
            ("kind: mqtt, url: \"mqtts://broker.example:0\"", "its port is not a number from 1 to 65535"),
            ("kind: mqtt, url: \"mqtts://broker.example:70000\"", "its port is not a number from 1 to 65535"),
            ("kind: mqtt, url: \"mqtts://broker.example:\"", "its port is not a number from 1 to 65535"),
            ("kind: mqtt, url: \"mqtts://broker.example/health\"", "only a port may follow the host"),
            ("\(url), topic: home/health", "mqtts://broker.example:8883"),
            ("\(url), topic: \"home/#\"", "destinations.web.topic: it cannot be used"),
            ("\(url), topic: /home", "destinations.web.topic: it cannot be used"),
        ]
        for (text, expected) in cases {
            let found = try await opened(text, folder)
            #expect(found.contains(expected), "\(text): \(found)")
            #expect(!found.contains("hidden"), "\(text)")
        }
        #expect(throws: Problem.self) { try folder.setting("kind: mqtt") }
        #expect(throws: Problem.self) { try folder.setting("\(url), home_assistant: perhaps") }
    }

    @Test("two destinations do not publish to the same topics")
    func apart() throws {
        let folder = try WebSettingsFolder()
        defer { folder.remove() }
        func problem(_ first: String, _ second: String) throws -> String? {
            let path = try folder.file(
                "config.yaml", "destinations: [{name: one, kind: mqtt, \(first)}, {name: web, kind: mqtt, \(second)}]")
            let settings = try Settings(file: path, environment: [:])
            let web = try #require(settings.destination("web"))
            do {
                try MQTTSetting(web).requireApart(settings.destinations.prefix { $0.name != "web" })
                return nil
            } catch {
                return error.message
            }
        }
        let url = "url: \"mqtts://broker\""
        #expect(try problem(url, url)?.contains("one already publishes to 'healthrelay'") == true)
        #expect(try problem(url, "\(url), topic: other")?.contains("already tells Home Assistant") == true)
        #expect(try problem(url, "\(url), topic: other, home_assistant: false") == nil)
        #expect(try problem(url, "url: \"mqtts://elsewhere\"") == nil)
        #expect(try problem(url, "url: \"mqtts://broker:8884\"") == nil)
        // The usual ports of a host are one broker's, and so is whatever leads to this machine.
        let plain = "url: \"mqtt://BROKER\", insecure: true, topic: other"
        #expect(try problem(url, plain)?.contains("already tells Home Assistant") == true)
        let (local, numeric) = ("url: \"mqtt://localhost:1884\"", "url: \"mqtt://127.0.0.1:1884\"")
        #expect(try problem(local, numeric)?.contains("already publishes to") == true)
        #expect(try problem(local, "\(numeric), topic: other")?.contains("already tells Home Assistant") == true)
        #expect(try problem(local, "\(numeric), topic: other, home_assistant: false") == nil)
        #expect(try problem(local, "url: \"mqtt://[::1]:1885\"") == nil)
    }
}
