import Foundation
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("Secrets that the service manager hands over") struct CredentialTests {
    private func folder(_ files: [String: String]) throws -> String {
        let folder = try GatewayBench.scratch()
        for (name, text) in files {
            try text.write(to: folder.appendingPathComponent(name), atomically: true, encoding: .utf8)
        }
        return folder.path
    }

    @Test(
        "the key is taken, whether the unit names the file or its folder",
        arguments: ["api-key", "credentials_api-key"])
    func key(_ name: String) throws {
        let environment = ["CREDENTIALS_DIRECTORY": try folder([name: "sk_test\n"])]
        let connection = try VitalConnection(Settings(environment: [:]), state: "/nowhere", environment: environment)
        #expect(connection != nil)
        #expect(try VitalConnection(Settings(environment: [:]), state: "/nowhere", environment: [:]) == nil)
    }

    @Test("the settings win; two secrets are one too many")
    func precedence() throws {
        let environment = ["CREDENTIALS_DIRECTORY": try folder(["api-key": "sk_a", "sign-in-token": "x"])]
        #expect(throws: Problem.self) {
            try VitalConnection(Settings(environment: [:]), state: "/nowhere", environment: environment)
        }
        let settings = try Settings(environment: [:], flags: ["server.api_key_file": "/nowhere/key"])
        #expect(throws: Problem.self) { try VitalConnection(settings, state: "/nowhere", environment: environment) }
    }

    @Test("a FIFO or a device in place of a secret is a named error at once")
    func fifo() throws {
        let path = NSTemporaryDirectory() + "fifo-\(UUID().uuidString)"
        defer { unlink(path) }
        try #require(mkfifo(path, 0o600) == 0)
        for place in [path, "/dev/zero"] {
            let problem = #expect(throws: Problem.self) {
                try VitalConnection(
                    Settings(environment: [:], flags: ["server.api_key_file": place]), state: "/nonexistent")
            }
            #expect(problem?.code == "key_unreadable" && problem?.message.contains(place) == true)
        }
    }
}
