import Foundation
import Testing

/// `client` and `consent` with real processes, and curl as the program that is let in.
@Suite(.timeLimit(.minutes(5))) struct ClientTests {
    private static let environment = [
        "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_HTTP_TLS": "on", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
        "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
    ]

    private func start(_ scratch: Scratch, _ environment: [String: String] = environment) throws -> Tool.Running {
        let captures = ["two-meters", "glucose-first-delivery"].map { Tool.root.path + "/Fixtures/\($0).btsnoop" }
        return try Tool.Running(
            ["run", "--state-dir", scratch.state, "--replay"] + captures, environment: environment, in: scratch.url)
    }

    private func check(_ schema: String, _ document: String) async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try document.write(to: file, atomically: true, encoding: .utf8)
        let result = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", [schema, file.path])
        #expect(result.status == 0, "\(schema): \(result.output.suffix(600)) \(document.prefix(300))")
    }

    @Test("a program is invited, let in, listed, and put out; what it did is on record; consent decides what it gets")
    func wholeWay() async throws {
        let scratch = try Scratch()
        let run = try start(scratch)
        #expect(await run.wait { $0.errorText.contains("Page at https://") && $0.errorText.contains("Read ") })
        func tool(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--json", "--state-dir", scratch.state])
        }
        func curl(_ arguments: String...) async throws -> String {
            try await Tool.other("curl", ["-sk", "-m", "20", "-w", " %{http_code}"] + arguments).output
        }
        let invitation = try await tool("client", "invite").output
        try await check("client_invite", invitation)
        let document = try Document(invitation)
        let base = "https://127.0.0.1:\(document["port"]?.plain ?? "")"
        let paired = try await curl(
            "-H", "Content-Type: application/json", "-d",
            #"{"code":"\#(document["code"]?.plain ?? "")","clientName":"laptop"}"#, base + "/api/v1/pair")
        #expect(paired.hasSuffix(" 200"))
        let token = try Document(String(paired.dropLast(4)))["token"]?.plain ?? ""
        let field = "Authorization: Bearer \(token)"
        #expect(try await curl("-H", field, base + "/api/v1/readings?types=glucose").hasSuffix(" 200"))

        let revoked = try await tool("consent", "revoke", "glucose")
        try await check("consent_show", revoked.output)
        #expect(try await curl("-H", field, base + "/api/v1/readings?types=glucose").hasSuffix(" 403"))
        let status = try Document(try await tool("sync", "status").output)
        #expect(status.elements("waiting").contains { $0["held"]?.plain == "no_consent" })
        try await check("consent_show", try await tool("consent", "grant").output)
        #expect(try await curl("-H", field, base + "/api/v1/readings?types=glucose").hasSuffix(" 200"))

        let listed = try await tool("client", "list").output
        try await check("client_list", listed)
        let number = try Document(listed).elements("clients").first?["number"]?.plain ?? ""
        try await check("client_revoke", try await tool("client", "revoke", number).output)
        #expect(try await curl("-H", field, base + "/api/v1/readings").hasSuffix(" 401"))
        #expect(try await tool("client", "revoke", number).status == 66)
        let audit = try await tool("client", "audit").output
        try await check("client_audit", audit)
        let events = try Document(audit).elements("entries").compactMap { $0["event"]?.plain }
        for event in ["pair", "request", "forbidden", "unauthorized", "revoked"] { #expect(events.contains(event)) }

        let text = try await Tool.run(["client", "invite", "--state-dir", scratch.state]).output
        #expect(text.contains("Pairing code: ") && text.contains("▀"))
        run.kill(SIGTERM)
        let result = await run.finish()
        #expect(result.status == 0)
        #expect(!result.errors.contains(token))
        // What was done is still known to who asks without a gateway.
        #expect(try await tool("client", "list").status == 0)
        #expect(try await tool("client", "invite").status == 69)
    }

    @Test("SIGHUP has the settings read again: the log level counts at once, what needs a restart is named")
    func reload() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml")
        func write(_ text: String) throws { try text.write(to: file, atomically: true, encoding: .utf8) }
        try write("log: {level: warning}\nhttp: {listen: \"127.0.0.1:0\"}\nbluetooth: {adapter: none}\n")
        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state, "--config", file.path], environment: [:], in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        try write("log: {level: info}\nhttp: {listen: \"127.0.0.1:1\"}\nbluetooth: {adapter: none}\n")
        run.kill(SIGHUP)
        #expect(await run.wait { $0.errorText.contains("were read again") && $0.errorText.contains("http.listen") })
        try write("log: {level: loud}\n")
        run.kill(SIGHUP)
        #expect(await run.wait { $0.errorText.contains("those of before stay in force") })
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test("on loopback without TLS there is nobody to invite, and it says what to set")
    func plain() async throws {
        let scratch = try Scratch()
        let run = try start(scratch, Self.environment.merging(["HEALTHRELAY_HTTP_TLS": "auto"]) { $1 })
        #expect(await run.wait { $0.errorText.contains("Page at http://") })
        let result = try await Tool.run(["client", "invite", "--json", "--state-dir", scratch.state])
        #expect(result.status == 78 && result.errors.contains("http.listen"))
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test("while the store's key is away, readings are 423, and what watches the gateway is told; the rest answers")
    func locked() async throws {
        let scratch = try Scratch()
        let capture = Tool.root.path + "/Fixtures/two-meters.btsnoop"
        #expect(try await Tool.run(["replay", capture, "--state-dir", scratch.state]).status == 0)
        let (key, away) = (scratch.state + "/store.key", scratch.url.appendingPathComponent("away").path)
        try FileManager.default.moveItem(atPath: key, toPath: away)
        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state],
            environment: Self.environment.merging(["HEALTHRELAY_HTTP_TLS": "auto"]) { $1 }, in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Page at http://") })
        let base = try #require(run.errorText.firstMatch(of: /Page at (http:\S+)\//).map { String($0.1) })
        func curl(_ path: String) async throws -> String {
            try await Tool.other("curl", ["-s", "-m", "20", "-w", " %{http_code}", base + path]).output
        }
        #expect(try await curl("/api/v1/readings").hasSuffix(" 423"))
        #expect(try await curl("/health") == #"{"status":"locked","store":"ok","disk":"ok"} 200"#)
        let metrics = try await curl("/metrics")
        #expect(metrics.contains("healthrelay_store_locked 1") && metrics.hasSuffix(" 200"))
        for path in ["/api/v1/gateway", "/api/v1/devices", "/api/v1/sync", "/api/v1/sources", "/api/v1/consent"] {
            let answer = try await curl(path)
            #expect(answer.hasSuffix(" 200"), "\(path): \(answer)")
        }
        try FileManager.default.moveItem(atPath: away, toPath: key)
        _ = try await curl("/api/v1/sync")
        #expect(try await curl("/api/v1/readings").hasSuffix(" 200"))
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }
}
