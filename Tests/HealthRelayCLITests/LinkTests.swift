import Foundation
import Testing

/// `source link` with the sandbox server's own page, real processes and curl as the browser.
@Suite struct LinkTests {
    /// The gateway that owns the store, or nil: the command opens it itself.
    private func gateway(_ scratch: Scratch, _ sandbox: Sandboxed, _ isRunning: Bool) async throws -> Tool.Running? {
        guard isRunning else { return nil }
        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state],
            environment: sandbox.environment.merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 },
            in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Page at ") }, "\(run.errorText)")
        return run
    }

    private func link(
        _ provider: String, _ scratch: Scratch, _ sandbox: Sandboxed, _ arguments: [String] = []
    ) async throws -> (Tool.Running, url: String) {
        let command = try Tool.Running(
            ["source", "link", provider, "--state-dir", scratch.state] + arguments, environment: sandbox.environment,
            in: scratch.url)
        _ = await command.wait { ($0.outputText + $0.errorText).contains("/link?token=") && !$0.errorText.isEmpty }
        let found = (command.outputText + command.errorText).firstMatch(of: /http:\/\/[0-9.:]+\/link\?token=\w+/)
        return (command, try #require(found.map { String($0.0) }, "\(command.errorText)"))
    }

    /// Opens the page, presses a button, and follows to where the browser is sent; gives the last page.
    private func press(_ decision: String, _ url: String) async throws -> String {
        let page = try await Tool.other("curl", ["-s", "-m", "60", url]).output
        #expect(page.contains("value=\"\(decision)\""))
        let token = String(url.split(separator: "=").last ?? "")
        let target = String(url.split(separator: "?").first ?? "")
        return try await Tool.other(
            "curl",
            ["-s", "-m", "60", "-L", "--data", "token=\(token)&decision=\(decision)", "-w", "%{http_code}", target]
        ).output
    }

    private func status(_ provider: String, _ scratch: Scratch, _ sandbox: Sandboxed) async throws -> String? {
        let listed = try await Tool.run(
            ["source", "list", "--json", "--state-dir", scratch.state], environment: sandbox.environment)
        return try Document(listed.output).elements("sources").first { $0["provider"]?.plain == provider }?["status"]?
            .plain
    }

    @Test(
        "the person connects on the page, the redirect arrives on loopback, and the source is there",
        arguments: [false, true])
    func connect(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        let run = try await gateway(scratch, sandbox, throughSocket)
        let (command, url) = try await link("oura", scratch, sandbox)
        #expect(command.errorText.contains("ssh -L"))
        let page = try await press("connect", url)
        #expect(page.hasSuffix("200") && page.contains("You may close this page"), "\(page)")
        let result = await command.finish()
        #expect(result.status == 0 && result.lines == [url, "oura: connected"], "\(result.errors)")
        #expect(try await status("oura", scratch, sandbox) == "connected")
        run?.kill(SIGTERM)
        #expect(await run?.finish().status ?? 0 == 0)
        // The token is for the person alone.
        #expect(run?.errorText.contains("lt_") != true && !sandbox.process.errorText.contains("lt_"))
    }

    @Test(
        "with JSON one document in the end, by its schema: connected, refused, nobody came", arguments: [false, true])
    func documents(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        let run = try await gateway(scratch, sandbox, throughSocket)
        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        func record(_ schema: String, _ number: Int, _ text: String) throws {
            try text.write(
                to: documents.appendingPathComponent("\(schema)-\(number).json"), atomically: true, encoding: .utf8)
        }

        let (connecting, first) = try await link("oura", scratch, sandbox, ["--json"])
        // Standard output has the document alone; the address stands in a line of standard error before.
        #expect(connecting.outputText.isEmpty)
        let notice = try Document(String(try #require(connecting.errorText.split(separator: "\n").last)))
        #expect(notice["link_web_url"]?.plain == first && notice["level"]?.plain == "notice")
        _ = try await press("connect", first)
        let connected = await connecting.finish()
        #expect(connected.status == 0 && connected.lines.count == 1)
        #expect(try Document(connected.output)["outcome"]?.plain == "success")

        let (refusing, second) = try await link("fitbit", scratch, sandbox, ["--json"])
        #expect(try await press("refuse", second).contains("see the terminal for the reason"))
        let refused = await refusing.finish()
        #expect(refused.status == 77 && refused.errors.contains("link_refused"), "\(refused.errors)")
        #expect(try Document(refused.output)["outcome"]?.plain == "error")
        #expect(try Document(refused.output)["error"]?.plain.hasPrefix("user_cancelled: ") == true)
        #expect(try await status("fitbit", scratch, sandbox) == nil)

        let (waiting, _) = try await link("garmin", scratch, sandbox, ["--json", "--wait", "1"])
        let nobody = await waiting.finish()
        #expect(nobody.status == 75 && nobody.errors.contains("link_timeout"), "\(nobody.errors)")
        #expect(try Document(nobody.output)["outcome"]?.text == "null")

        let unasked = try await Tool.run(
            ["source", "link", "whoop", "--wait", "0", "--json", "--state-dir", scratch.state],
            environment: sandbox.environment)
        #expect(unasked.status == 0 && unasked.errors.isEmpty, "\(unasked.errors)")
        for (number, result) in [connected, refused, nobody, unasked].enumerated() {
            try record("source_link", number, result.output)
        }
        let listed = try await Tool.run(
            ["source", "list", "--json", "--state-dir", scratch.state], environment: sandbox.environment)
        try record("source_list", 0, listed.output)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output.suffix(2000)) \(check.errors.suffix(500))")
        run?.kill(SIGTERM)
        #expect(await run?.finish().status ?? 0 == 0)
    }

    @Test("the request that was sent follows its schema")
    func body() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        let bodies = scratch.url.appendingPathComponent("bodies").path
        let linked = try await Tool.run(
            ["source", "link", "oura", "--wait", "1", "--state-dir", scratch.state],
            environment: sandbox.environment.merging(["HEALTHRELAY_RECORD_BODIES": bodies]) { $1 })
        #expect(linked.status == 75)
        let names = try FileManager.default.contentsOfDirectory(atPath: bodies)
        #expect(names.contains { $0.hasPrefix("create_link_token-") })
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", bodies])
        #expect(check.status == 0, "\(check.output.suffix(2000)) \(check.errors.suffix(500))")
    }

    @Test("a link connects again what was revoked here, and delivery goes on")
    func revoked() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        _ = try await Tool.run(
            ["replay", Tool.fixture("cuff-three.btsnoop"), "--state-dir", scratch.state],
            environment: sandbox.environment)
        let state = ["--json", "--state-dir", scratch.state]
        let listed = try await Tool.run(["sync"] + state, environment: sandbox.environment)
        #expect(listed.status == 0, "\(listed.errors)")
        let provider = try #require(
            try await Document(Tool.run(["source", "list"] + state, environment: sandbox.environment).output)
                .elements("sources").first?["provider"]?.plain)
        let revoked = try await Tool.run(["source", "revoke", provider] + state, environment: sandbox.environment)
        #expect(revoked.status == 0)
        #expect(try await status(provider, scratch, sandbox) == "revoked")
        let (command, url) = try await link(provider, scratch, sandbox)
        _ = try await press("connect", url)
        #expect(await command.finish().status == 0)
        #expect(try await status(provider, scratch, sandbox) == "connected")
    }

    @Test("a command that is interrupted closes its port in the gateway that listened for it")
    func interrupted() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        let run = try #require(try await gateway(scratch, sandbox, true))
        let (command, _) = try await link("oura", scratch, sandbox)
        #expect(await command.wait { $0.errorText.contains("ssh -L") })
        let port = try #require(command.errorText.firstMatch(of: /ssh -L (\d+):/).map { String($0.1) })
        let root = "http://127.0.0.1:\(port)/"
        #expect(try await Tool.other("curl", ["-s", "-m", "60", "-o", "/dev/null", root]).status == 0)
        command.kill(SIGINT)
        _ = await command.finish()
        var isClosed = false
        for _ in 0..<600 where !isClosed {
            // 7: nobody listens there.
            isClosed = try await Tool.other("curl", ["-s", "-m", "60", "-o", "/dev/null", root]).status == 7
            if !isClosed { try await Task.sleep(for: .milliseconds(50)) }
        }
        #expect(isClosed)
        // And one that waits when the gateway stops is told so.
        let (left, _) = try await link("oura", scratch, sandbox, ["--json"])
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
        let ended = await left.finish()
        #expect(ended.status == 75, "\(ended.status) \(ended.errors)")
    }

    @Test(
        "what cannot be linked says why",
        arguments: [
            (["Oura"], Int32(64), "slug"), (["oura", "--wait", "-1"], 64, "--wait"),
            (["oura", "--wait", "x"], 64, "--wait"),
            (["weather"], 76, "validation_failed"),
        ])
    func refused(_ arguments: [String], _ status: Int32, _ words: String) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        let result = try await Tool.run(
            ["source", "link"] + arguments + ["--state-dir", scratch.state, "--json"],
            environment: sandbox.environment)
        #expect(result.status == status && result.errors.contains(words), "\(result.status) \(result.errors)")
        #expect(result.output.isEmpty)
    }

    @Test("without a name for the person, and without a key, it says what to set")
    func unset() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        let nobody = try await Tool.run(
            ["source", "link", "oura", "--state-dir", scratch.state, "--json"],
            environment: sandbox.environment.filter { $0.key != "HEALTHRELAY_USER_CLIENT_USER_ID" })
        #expect(nobody.status == 78 && nobody.errors.contains("no_user"), "\(nobody.errors)")
        let noKey = try await Tool.run(["source", "link", "oura", "--state-dir", scratch.state, "--json"])
        #expect(noKey.status == 78 && noKey.errors.contains("no_server_key"), "\(noKey.errors)")
    }
}
