import Foundation
import Testing

/// Wrong command lines, unreadable files and wrong settings: one clear line and the right exit status.
@Suite struct UsageTests {
    @Test(
        "a wrong command line is 64",
        arguments: [
            ["nonsense"], ["decode"], ["decode", "2a18"], ["decode", "2a18", "xyz"], ["decode", "ffff", "00"],
            ["query", "--limit", "many"], ["replay"], ["replay", "x", "--address", "nonsense", "--count"],
            ["replay", "x", "--model", "nonsense", "--count"], ["sandbox", "--port", "70000"],
        ])
    func usage(_ arguments: [String]) throws {
        let scratch = try Scratch()
        let result = try Tool.run(arguments + ["--state-dir", scratch.state])
        #expect(result.status == 64, "\(arguments): \(result.errors)")
        #expect(result.output.isEmpty)
        let json = try Tool.run(["--json"] + arguments + ["--state-dir", scratch.state])
        #expect(json.status == 64)
        let last = try #require(json.errors.split(separator: "\n").last)
        #expect(try Document(String(last))["error"]?["code"] != nil)
    }

    @Test("an argument out of range is 64 and says what was expected", arguments: [
        ["query", "--limit", "0"], ["query", "--limit", "10001"], ["query", "--from", "yesterday"],
        ["query", "--cursor", "rubbish"], ["query", "--types", "weather"], ["query", "--offset", "-1"],
        ["query", "--offset", "1", "--cursor", "x"],
    ])
    func range(_ arguments: [String]) throws {
        let scratch = try Scratch()
        let result = try Tool.run(arguments + ["--state-dir", scratch.state, "--json"])
        #expect(result.status == 64, "\(arguments): \(result.errors)")
    }

    @Test("a file that is not there is 66")
    func missing() throws {
        #expect(try Tool.run(["replay", "/nonexistent/x.btsnoop", "--count"]).status == 66)
        #expect(try Tool.run(["config", "show", "--config", "/nonexistent.yaml"]).status == 66)
    }

    @Test("a file that is no capture is 65")
    func noCapture() throws {
        let result = try Tool.run(["replay", #filePath, "--count"])
        #expect(result.status == 65, "\(result.errors)")
    }

    @Test("a misspelt setting is 78 and names file, line and key")
    func misspelt() throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml")
        try "server:\n  base_urll: http://127.0.0.1:1\n".write(to: file, atomically: true, encoding: .utf8)
        let result = try Tool.run(["config", "show", "--config", file.path])
        #expect(result.status == 78)
        #expect(result.errors.contains("config.yaml:2") && result.errors.contains("base_urll"))
    }

    @Test("flag over environment over file, before and after the command; the later wins")
    func layers() throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml")
        try "log: {level: error}\nsync: {backfill_days: 7}\n".write(to: file, atomically: true, encoding: .utf8)
        let shown = { (arguments: [String], environment: [String: String]) in
            try Document(Tool.run(arguments + ["--json"], environment: environment).output)
        }
        let environment = ["HEALTHRELAY_LOG_LEVEL": "warning"]
        #expect(try shown(["config", "show", "--config", file.path], [:])["log.level"]?.plain == "error")
        #expect(try shown(["config", "show", "--config", file.path], environment)["log.level"]?.plain == "warning")
        #expect(try shown(["--log-level", "debug", "config", "show"], environment)["log.level"]?.plain == "debug")
        #expect(try shown(["--log-level", "debug", "config", "show", "--log-level", "trace"], [:])["log.level"]?.plain == "trace")
        #expect(try shown(["--config", file.path, "config", "show"], [:])["sync.backfill_days"]?.text == "7")
    }

    @Test("a state directory that cannot be made is 73 or 77")
    func stateDirectory() throws {
        let result = try Tool.run(["store", "stats", "--state-dir", "/proc/nonexistent/state"])
        #expect([73, 77].contains(result.status), "\(result.status) \(result.errors)")
    }

    @Test("a server that answers HTML is 76, one that is not there 69, a key it refuses 77; readings stay")
    func servers() throws {
        let scratch = try Scratch()
        let key = scratch.url.appendingPathComponent("key")
        try "sk_us_test".write(to: key, atomically: true, encoding: .utf8)
        _ = try Tool.run(["replay", Tool.fixture("cuff-three.btsnoop"), "--state-dir", scratch.state])
        for (answer, status) in [("200 OK", Int32(76)), ("401 Unauthorized", 77), ("", 69)] {
            let server = try answer.isEmpty ? nil : HTMLServer(answer, in: scratch.url)
            let result = try Tool.run(
                ["sync", "--state-dir", scratch.state, "--json"],
                environment: [
                    "HEALTHRELAY_SERVER_API_KEY_FILE": key.path, "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear",
                    "HEALTHRELAY_SERVER_BASE_URL": "http://127.0.0.1:\(server?.port ?? 1)",
                ])
            #expect(result.status == status, "\(answer): \(result.status) \(result.errors)")
            #expect(!result.errors.contains("sk_us_test"))
            let waiting = try Document(result.lines.first ?? "").elements("waiting")
            #expect(waiting.first?["count"]?.text == "3")
        }
    }

    @Test("without a key nothing is delivered, and that is 78 with the mend")
    func noKey() throws {
        let scratch = try Scratch()
        let result = try Tool.run(["sync", "--state-dir", scratch.state, "--json"])
        #expect(result.status == 78)
        #expect(result.errors.contains("api_key_file"))
    }

    @Test("help and version are data")
    func help() throws {
        #expect(try Tool.run(["--help"]).status == 0)
        #expect(try Tool.run(["--version"]).lines.count == 1)
    }
}

/// A web server of Python's that answers every request with a page.
private final class HTMLServer {
    let port: Int
    private let process = Process()

    init(_ status: String, in directory: URL) throws {
        let parts = status.split(separator: " ", maxSplits: 1)
        let script = """
            import http.server
            class Page(http.server.BaseHTTPRequestHandler):
                def answer(self):
                    self.send_response(\(parts[0])); self.send_header("Content-Type", "text/html"); self.end_headers()
                    self.wfile.write(b"<!doctype html><title>Sign in</title>")
                do_GET = do_POST = answer
                def log_message(self, *_): pass
            server = http.server.HTTPServer(("127.0.0.1", 0), Page)
            print(server.server_address[1], flush=True)
            server.serve_forever()
            """
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", script]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let line = String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self)
        port = Int(line.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
    }

    deinit { kill(process.processIdentifier, SIGKILL) }
}
