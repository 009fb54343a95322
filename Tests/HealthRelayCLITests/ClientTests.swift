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
        let status = try #require(try Document(try await tool("sync", "status").output).destination)
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

        let narrow = try await tool("client", "invite", "--scope", "read", "--name", "Ann's phone").output
        try await check("client_invite", narrow)
        #expect(
            try Document(narrow)["scope"]?.plain == "read" && (try Document(narrow)["name"]?.plain) == "Ann's phone")
        #expect(try await tool("client", "invite", "--person", "nobody").status == 66)
        #expect(try await tool("client", "invite", "--person", "nobody", "--scope", "owner").status == 64)
        #expect(try await tool("client", "invite", "--scope", "all").status == 64)
        let text = try await Tool.run(["client", "invite", "--state-dir", scratch.state]).output
        #expect(text.contains("For:          everybody (owner)"))
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
        #expect(await run.wait { $0.errorText.contains("were reloaded") && $0.errorText.contains("http.listen") })
        try write("log: {level: loud}\n")
        run.kill(SIGHUP)
        #expect(await run.wait { $0.errorText.contains("the previous ones stay in effect") })
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test("on loopback without TLS too, reading needs a session or a token: a link, and a program's invitation")
    func plain() async throws {
        let scratch = try Scratch()
        let run = try start(scratch, Self.environment.merging(["HEALTHRELAY_HTTP_TLS": "auto"]) { $1 })
        #expect(await run.wait { $0.errorText.contains("Page at http://") })
        let base = try #require(run.errorText.firstMatch(of: /Page at (http:\S+)\//).map { String($0.1) })
        func tool(_ arguments: String...) async throws -> String {
            let result = try await Tool.run(arguments + ["--json", "--state-dir", scratch.state])
            #expect(result.status == 0, "\(result.errors)")
            return result.output
        }
        func curl(_ arguments: String...) async throws -> String {
            try await Tool.other(
                "curl", ["-s", "-m", "20", "-w", " %{http_code}", "-H", "Content-Type: application/json"] + arguments
            ).output
        }
        #expect(try await curl(base + "/api/v1/readings").hasSuffix(" 401"))
        #expect(try await curl(base + "/metrics").hasSuffix(" 200"))
        // A log gets no link, and nothing that a link could be made of, but the command that makes one.
        #expect(!run.errorText.contains("#"))
        #expect(run.errorText.contains("For a link that opens it in a browser: "))
        #expect(run.errorText.contains(" page --state-dir \(scratch.state)\n"))

        let made = try await tool("page")
        try await check("page", made)
        let link = try #require(try Document(made)["url"]?.plain)
        #expect(link.hasPrefix(base + "/#"))
        let jar = scratch.url.appendingPathComponent("jar").path
        let begun = try await curl("-c", jar, "-d", #"{"link":"\#(link.suffix(32))"}"#, base + "/api/v1/session")
        #expect(begun.hasSuffix(" 201"))
        let key = try Document(String(begun.dropLast(4)))["key"]?.plain ?? ""
        let session = ["-b", jar, "-H", "X-Session-Key: \(key)", base + "/api/v1/readings"]
        #expect(try await curl(session[0], session[1], session[2], session[3], session[4]).hasSuffix(" 200"))
        let number = try Document(try await tool("client", "list")).elements("clients").first?["number"]?.plain ?? ""
        _ = try await tool("client", "revoke", number)
        #expect(try await curl(session[0], session[1], session[2], session[3], session[4]).hasSuffix(" 401"))

        let invitation = try await tool("client", "invite")
        try await check("client_invite", invitation)
        let code = try Document(invitation)["code"]?.plain ?? ""
        let paired = try await curl("-d", #"{"code":"\#(code)","clientName":"curl"}"#, base + "/api/v1/pair")
        let token = try Document(String(paired.dropLast(4)))["token"]?.plain ?? ""
        #expect(
            try await curl("-H", "Authorization: Bearer \(token)", base + "/api/v1/readings").hasSuffix(" 200"))
        let text = try await Tool.run(["client", "invite", "--state-dir", scratch.state])
        #expect(text.output.contains("Page:         http://127.0.0.1:") && !text.output.contains("▀"))
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test("at a terminal the gateway prints a link; where there is a display, `page` hands it to the browser in a file")
    func link() async throws {
        let scratch = try Scratch()
        // A gateway with readings has an owner; a new one prints the link of its set-up.
        let capture = Tool.root.path + "/Fixtures/two-meters.btsnoop"
        #expect(try await Tool.run(["replay", capture, "--state-dir", scratch.state]).status == 0)
        // A terminal of its own, as `make run` has; whatever reads it sees what a person sees.
        let script = """
            import os, pty, signal, sys, re, time
            child, terminal = pty.fork()
            if child == 0:
                os.execv(sys.argv[1], sys.argv[1:])
            text = b""
            while b"For another: " not in text:
                text += os.read(terminal, 4096)
            time.sleep(0.2)
            print(re.search(rb"Page at (\\S+)", text)[1].decode(), flush=True)
            sys.stdin.readline()
            os.kill(child, signal.SIGTERM)
            try:
                while os.read(terminal, 4096):
                    pass
            except OSError:
                pass
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """
        let environment = Self.environment.merging(["HEALTHRELAY_HTTP_TLS": "auto"]) { $1 }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", script, Tool.executable.path, "run", "--state-dir", scratch.state]
        process.environment = Tool.environment.merging(environment) { $1 }
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let link = try #require(String(data: output.fileHandleForReading.availableData, encoding: .utf8))
            .trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(link.wholeMatch(of: /http:\/\/127\.0\.0\.1:\d+\/#[0-9a-f]{32}/) != nil, "\(link)")

        let (folder, seen) = (scratch.url.appendingPathComponent("runtime"), scratch.url.appendingPathComponent("seen"))
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let browser = scratch.url.appendingPathComponent("browser")
        try "#!/bin/sh\nprintf '%s' \"$1\" > \(seen.path)\n".write(to: browser, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: browser.path)
        let display = ["DISPLAY": ":0", "XDG_RUNTIME_DIR": folder.path, "BROWSER": browser.path]
        let opened = try await Tool.run(["page", "--state-dir", scratch.state], environment: display)
        #expect(opened.status == 0 && opened.errors.contains("Opening it."))
        var argument = ""
        for _ in 0..<6000 where argument.isEmpty {
            argument = (try? String(contentsOf: seen, encoding: .utf8)) ?? ""
            try await Task.sleep(for: .milliseconds(10))
        }
        // Every user sees a program's arguments: the code is in a file that this one alone reads.
        let file = folder.appendingPathComponent("healthrelay-page.html").path
        #expect(argument == "file://" + file && !argument.contains("#"))
        let written = try String(contentsOfFile: file, encoding: .utf8)
        #expect(written.contains(opened.lines.first ?? "none"))
        #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
        let plain = try await Tool.run(["page", "--state-dir", scratch.state], environment: ["BROWSER": browser.path])
        #expect(plain.status == 0 && !plain.errors.contains("Opening"))

        try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
        while process.isRunning { try await Task.sleep(for: .milliseconds(20)) }
        #expect(process.terminationStatus == 0)
        #expect(try await Tool.run(["page", "--state-dir", scratch.state]).status == 69)
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
            environment: Self.environment.merging([
                "HEALTHRELAY_HTTP_TLS": "auto", "HEALTHRELAY_HTTP_LOCAL": "trusted",
            ]) { $1 }, in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Page at http://") })
        let base = try #require(run.errorText.firstMatch(of: /Page at (http:\S+)\//).map { String($0.1) })
        func curl(_ path: String) async throws -> String {
            try await Tool.other("curl", ["-s", "-m", "20", "-w", " %{http_code}", base + path]).output
        }
        #expect(try await curl("/api/v1/readings").hasSuffix(" 423"))
        #expect(
            try await curl("/health").replacing("nearly_full", with: "ok")
                == #"{"status":"locked","store":"ok","disk":"ok"} 200"#)
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
