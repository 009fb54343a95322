import Foundation
import TestSupport
import Testing

/// The first run of a new gateway, at a terminal and without one.
@Suite("A new gateway", .timeLimit(.minutes(5))) struct SetupCommandTests {
    private func start(_ scratch: Scratch, _ arguments: [String] = []) throws -> Tool.Running {
        try Tool.Running(
            ["run", "--state-dir", scratch.state] + arguments,
            environment: [
                "XDG_CONFIG_HOME": scratch.url.path, "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
                "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0",
            ], in: scratch.url)
    }

    private func status(_ address: String, _ path: String) async throws -> (Int, String) {
        let url = try #require(URL(string: address + path))
        let result = try await Tool.other(
            "curl", ["-s", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", url.absoluteString])
        let parts = result.output.split(separator: " ", omittingEmptySubsequences: false)
        return (Int(parts[0]) ?? 0, parts.count > 1 ? String(parts[1]) : "")
    }

    @Test("it answers at its set-up alone; `setup token` prints a link, which is in no log; `page` claims it")
    func course() async throws {
        let scratch = try Scratch()
        let running = try start(scratch)
        #expect(await eventually { running.errorText.contains("Page at ") })
        let address = try #require(
            running.errorText.split(separator: "\n").first { $0.hasPrefix("Page at ") }?.split(separator: " ")
                .dropFirst(2)
                .first.map { String($0.dropLast()) })
        @Sendable func tool(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--state-dir", scratch.state])
        }
        #expect(try await status(address, "/health").0 == 200)
        #expect(try await status(address, "/api/v1/session").0 == 403)
        #expect(try await status(address, "/").1.hasSuffix("/setup"))
        let link = try await tool("setup", "token", "--json")
        #expect(link.status == 0, "\(link.errors)")
        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: false)
        try link.output.write(
            to: documents.appendingPathComponent("setup_token-new.json"), atomically: false, encoding: .utf8)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output)\(check.errors)")
        let token = try #require(link.output.split(separator: "#").last?.prefix(32))
        #expect(!running.errorText.contains(token) && !running.outputText.contains(token))
        #expect(!running.errorText.contains("/setup#"))
        #expect(try await tool("page").status == 0)
        #expect(try await status(address, "/api/v1/session").0 == 200)
        let late = try await tool("setup", "token", "--json")
        #expect(late.status == 78 && late.errors.contains(#""code":"already_claimed""#))
        running.kill(SIGTERM)
        _ = await running.finish()
        // It stays so.
        let again = try start(scratch)
        #expect(await eventually { again.errorText.contains("Page at ") })
        #expect(try await tool("setup", "token", "--json").status == 78)
        again.kill(SIGTERM)
        _ = await again.finish()
    }

    @Test("without a gateway that runs there is nothing to claim")
    func notRunning() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(["setup", "token", "--state-dir", scratch.state, "--json"])
        #expect(result.status == 69 && result.errors.contains(#""code":"not_running""#))
    }

    @Test("a gateway that has readings, replays captures or delivers to a sandbox has an owner")
    func claimed() async throws {
        let scratch = try Scratch()
        let replay = try await Tool.run(
            ["replay", Tool.fixture("two-meters.btsnoop"), "--state-dir", scratch.state],
            environment: ["XDG_CONFIG_HOME": scratch.url.path])
        #expect(replay.status == 0, "\(replay.errors)")
        for arguments in [[], ["--sandbox"]] {
            let place = arguments.isEmpty ? scratch : try Scratch()
            let running = try start(place, arguments)
            #expect(await eventually { running.errorText.contains("Page at ") })
            let result = try await Tool.run(["setup", "token", "--state-dir", place.state, "--json"])
            #expect(result.status == 78 && result.errors.contains(#""code":"already_claimed""#), "\(arguments)")
            running.kill(SIGTERM)
            _ = await running.finish()
        }
    }
}
