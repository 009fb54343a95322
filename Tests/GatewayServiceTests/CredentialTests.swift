import Foundation
import Testing

@testable import GatewayService

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
}
