import Foundation
import Testing

/// The tool's own sandbox server in a process of its own, and the environment of commands that deliver to it.
final class Sandboxed {
    let process: Tool.Running
    let baseURL: String
    private let key: URL

    /// Starts one; it ends with the test.
    init(_ arguments: [String] = [], in scratch: Scratch) async throws {
        process = try Tool.Running(["sandbox", "--port", "0"] + arguments, environment: [:], in: scratch.url)
        _ = await process.wait { $0.errorText.contains("sandbox at http") }
        let found = process.errorText.firstMatch(of: /sandbox at (http:\/\/127.0.0.1:\d+)/)
        baseURL = try #require(found.map { String($0.1) }, "\(process.errorText)")
        key = scratch.url.appendingPathComponent("sandbox-key")
        try "sk_us_sandbox".write(to: key, atomically: true, encoding: .utf8)
    }

    var environment: [String: String] {
        [
            "HEALTHRELAY_SERVER_API_KEY_FILE": key.path, "HEALTHRELAY_SERVER_BASE_URL": baseURL,
            "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
        ]
    }

    /// What curl prints; the sandbox's key goes along.
    func curl(_ arguments: String...) async throws -> String {
        try await Tool.other("curl", ["-s", "-m", "60", "-H", "x-vital-api-key: sk_us_sandbox"] + arguments).output
    }

    /// How many samples it holds.
    var samples: Int {
        get async throws {
            try await Document(curl(baseURL + "/sandbox/samples?limit=10000")).elements("samples").count
        }
    }
}
