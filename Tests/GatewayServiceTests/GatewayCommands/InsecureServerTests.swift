import Foundation
import HealthReadings
import Testing
import VitalClient

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("A server that is reached without TLS")
struct InsecureServerTests {
    private static func settings(_ url: String, insecure: String? = nil) throws -> [String: String] {
        var settings = ["server.base_url": url, "server.api_key_file": try DoctorTests.file("sk_us_secretword")]
        settings["server.insecure"] = insecure
        return settings
    }

    @Test(
        "beyond loopback the key goes over plain HTTP only where that was permitted",
        arguments: [
            ("http://10.0.0.9:1", nil, true), ("http://10.0.0.9:1", "false", true),
            ("http://10.0.0.9:1", "true", false),
            ("http://127.evil.example", nil, true), ("http://127.0.0.1:1", nil, false),
            ("https://10.0.0.9:1", nil, false),
        ] as [(String, String?, Bool)])
    func connection(url: String, insecure: String?, isRefused: Bool) throws {
        let settings = try Settings(environment: [:], flags: Self.settings(url, insecure: insecure))
        func connect() throws { _ = try VitalConnection(settings, state: "/nowhere") }
        guard isRefused else { return try connect() }
        let problem = #expect(throws: Problem.self) { try connect() }
        #expect(problem?.code == "server_insecure" && problem?.status == .configuration)
        #expect(problem?.hint?.contains("insecure: true") == true)
        #expect(problem?.message.contains("secretword") == false)
    }

    @Test("the environment permits it too")
    func environment() throws {
        let path = try DoctorTests.file("sk_us_secretword")
        let environment = [
            "HEALTHRELAY_SERVER_BASE_URL": "http://10.0.0.9:1", "HEALTHRELAY_SERVER_API_KEY_FILE": path,
            "HEALTHRELAY_SERVER_INSECURE": "true",
        ]
        #expect(try VitalConnection(Settings(environment: environment), state: "/nowhere") != nil)
    }

    @Test("the gateway runs all the same: delivery is paused and says so, commands that need the server end with 78")
    func paused() async throws {
        let bench = try await GatewayBench(settings: Self.settings("http://10.0.0.9:1"))
        #expect(bench.gateway.destinations.worker == nil)
        let problem = await #expect(throws: Problem.self) { try await bench.run(.sync(.now(from: nil, to: nil))) }
        #expect(problem?.code == "server_insecure" && problem?.status == .configuration)
        let status = try await bench.lines(.sync(.status), json: false)
        #expect(status.contains { $0.contains("plain http") }, "\(status)")
        let checks = Collected()
        let found = await #expect(throws: Problem.self) { try await bench.run(.doctor, json: false, output: checks) }
        #expect(found?.status == .configuration && found?.hint?.contains("insecure: true") == true)
        #expect(checks.data.contains { $0.contains("plain http") }, "\(checks.data)")
        try await bench.gateway.close()
    }
}
