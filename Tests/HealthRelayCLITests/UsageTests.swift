import Foundation
import Testing

/// Wrong command lines, unreadable files and wrong settings: one clear line and the right exit status.
@Suite struct UsageTests {
    @Test(
        "a wrong command line is 64",
        arguments: [
            ["nonsense"], ["capture"], ["decode"], ["decode", "2a18"], ["decode", "2a18", "xyz"],
            ["decode", "ffff", "00"],
            ["query", "--limit", "many"], ["replay"], ["replay", "x", "--address", "nonsense", "--count"],
            ["replay", "x", "--model", "nonsense", "--count"], ["sandbox", "--port", "70000"],
        ])
    func usage(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(arguments + ["--state-dir", scratch.state])
        #expect(result.status == 64, "\(arguments): \(result.errors)")
        #expect(result.output.isEmpty)
        let json = try await Tool.run(["--json"] + arguments + ["--state-dir", scratch.state])
        #expect(json.status == 64)
        let last = try #require(json.errors.split(separator: "\n").last)
        #expect(try Document(String(last))["error"]?["code"] != nil)
    }

    @Test(
        "an argument out of range is 64 and says what was expected",
        arguments: [
            ["query", "--limit", "0"], ["query", "--limit", "10001"], ["query", "--from", "yesterday"],
            ["query", "--cursor", "rubbish"], ["query", "--types", "weather"], ["query", "--offset", "-1"],
            ["query", "--offset", "1", "--cursor", "x"],
        ])
    func range(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(arguments + ["--state-dir", scratch.state, "--json"])
        #expect(result.status == 64, "\(arguments): \(result.errors)")
    }

    @Test(
        "a list of kinds without a kind is 64: what an unset variable becomes does not mean all",
        arguments: [
            ["query"], ["import", #filePath, "--dry-run"], ["destination", "redeliver", "vital"], ["sync"], ["watch"],
        ])
    func noKinds(_ command: [String]) async throws {
        let scratch = try Scratch()
        for types in ["", ",", " ", "glucose, ,weight"] {
            let result = try await Tool.run(command + ["--types", types, "--state-dir", scratch.state, "--json"])
            #expect(result.status == 64 && result.errors.contains("--types: expected"), "'\(types)': \(result.errors)")
        }
    }

    @Test("a level that there is not, and a directory or a file without a name, are a wrong command line")
    func globalFlags() async throws {
        for arguments in [["--log-level", "verbose"], ["--state-dir", ""], ["--config", ""]] {
            let result = try await Tool.run(["config", "show", "--json"] + arguments)
            #expect(result.status == 64, "\(arguments): \(result.errors)")
        }
        let empty = [
            "HEALTHRELAY_CONFIG": "", "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "HEALTHRELAY_STATE_DIR": "",
        ]
        let shown = try await Tool.run(["config", "path", "--json"], environment: empty)
        #expect(shown.status == 0 && shown.output.contains("/nonexistent/.config/"), "\(shown.errors)")
    }

    @Test("replay --time-zone is a new store's zone; a store that has another refuses it and keeps its own")
    func zoneOfReplay() async throws {
        let scratch = try Scratch()
        let replay = ["replay", Tool.fixture("cuff-three.btsnoop"), "--json", "--state-dir", scratch.state]
        let zoned = replay + ["--time-zone", "Europe/Berlin"]
        let stored = try await Tool.run(zoned)
        #expect(stored.status == 0, "\(stored.errors)")
        let dry = try await Tool.run(zoned + ["--dry-run"])
        func times(_ result: Tool.Result) throws -> [String] {
            try result.lines.compactMap { try Document($0)["time"]?.plain }.sorted()
        }
        let (kept, printed) = (try times(stored), try times(dry))
        #expect(kept == printed && kept.count == 3)
        let again = try await Tool.run(zoned)
        #expect(again.status == 0, "\(again.errors)")
        let refused = try await Tool.run(replay + ["--time-zone", "America/New_York"])
        #expect(refused.status == 64 && refused.errors.contains("the store's zone"), "\(refused.errors)")
        let counted = try await Tool.run(replay + ["--time-zone", "America/New_York", "--count"])
        #expect(counted.status == 0, "\(counted.errors)")
        let shown = try await Tool.run(["user", "show", "--json", "--state-dir", scratch.state])
        let zone = try Document(shown.output)["time_zone"]?.plain
        #expect(zone == "Europe/Berlin")
    }

    @Test(
        "output that cannot be written is 74 output_failed",
        arguments: [
            ["catalog"], ["catalog", "--markdown"], ["decode", "2a18", "130500ea070b140c1e003c005fb011"],
            ["config", "show"],
            ["store", "stats"], ["store", "verify"], ["id"], ["devices"], ["query"], ["summary", "body"],
            ["report", "bp"], ["--help"], ["help", "query"], ["--version"],
            ["replay", Tool.fixture("cuff-three.btsnoop"), "--dry-run", "--time-zone", "UTC"],
            ["replay", Tool.fixture("cuff-three.btsnoop")],
        ])
    func fullDisk(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let isHelp = ["--help", "help", "--version"].contains(arguments[0])
        let flags = isHelp ? [] : ["--json", "--state-dir", scratch.state]
        let shell = try await Tool.other(
            "sh", ["-c", "'\(Tool.executable.path)' \"$@\" > /dev/full; echo $?", "sh"] + arguments + flags)
        #expect(shell.output == "74\n", "\(shell.errors)")
        #expect(shell.errors.contains(isHelp ? "No space left" : "output_failed"), "\(shell.errors)")
        guard arguments == ["replay", Tool.fixture("cuff-three.btsnoop")] else { return }
        let stored = try await Tool.run(["query", "--format", "ndjson", "--state-dir", scratch.state])
        #expect(stored.lines.count == 3)
    }

    @Test(
        "what a command found is told by its status and on standard error, also if nobody reads its lines",
        arguments: [
            (["auth", "check"], 78, "not_authenticated"), (["destination", "test", "vital"], 78, "checks_failed"),
            (["import", "ROWS", "--person", "ann", "--date-order", "dmy", "--dry-run"], 65, "import_rows_refused"),
            (["query"], 0, nil),
        ] as [([String], Int, String?)])
    func readerGone(_ arguments: [String], _ status: Int, _ code: String?) async throws {
        let scratch = try Scratch()
        let rows = scratch.url.appendingPathComponent("rows.csv").path
        try """
        Glucose Data,Generated on,01-12-2026 03:38 UTC,Generated by,ann
        Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mg/dL,Scan Glucose mg/dL
        FreeStyle LibreLink,ABC,20-11-2026 08:00,0,abc,
        FreeStyle LibreLink,ABC,20-11-2026 08:15,0,100,

        """.write(toFile: rows, atomically: false, encoding: .utf8)
        let script = """
            import os, subprocess, sys
            reader, writer = os.pipe()
            os.close(reader)
            print(subprocess.run(sys.argv[1:], stdout=writer).returncode)
            """
        let result = try await Tool.other(
            "python3",
            ["-c", script, Tool.executable.path] + arguments.map { $0 == "ROWS" ? rows : $0 }
                + ["--json", "--state-dir", scratch.state])
        #expect(result.output == "\(status)\n", "\(result.errors)")
        #expect(result.errors.contains("\"code\":") == (code != nil), "\(result.errors)")
        if let code { #expect(result.errors.contains("\"code\":\"\(code)\""), "\(result.errors)") }
    }

    @Test("an argument that is not UTF-8 is 64, and no file of another name is made")
    func notUTF8() async throws {
        let scratch = try Scratch()
        let script = #"""
            cd "$1"; "$2" report bp --format csv --out "$(printf 'caf\351')" --json --state-dir "$3"; echo $?
            ls | grep caf
            """#
        let shell = try await Tool.other(
            "sh", ["-c", script, "sh", scratch.url.path, Tool.executable.path, scratch.state])
        #expect(shell.output == "64\n" && shell.errors.contains("is not UTF-8"), "\(shell.output)\(shell.errors)")
    }

    @Test("a pipe that does not block is waited for, and what is worse than lost output stands")
    func slowReader() async throws {
        let script = """
            import fcntl, os, subprocess, sys, time
            reader, writer = os.pipe()
            fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ
            os.set_blocking(writer, False)
            program = subprocess.Popen(sys.argv[1:], stdout=writer)
            os.close(writer)
            time.sleep(0.5)
            size = 0
            while piece := os.read(reader, 1000): size += len(piece)
            print(program.wait(), size)
            """
        let whole = try await Tool.run(["catalog", "--json"])
        #expect(whole.output.utf8.count > 8192)
        let slow = try await Tool.other("python3", ["-c", script, Tool.executable.path, "catalog", "--json"])
        #expect(slow.output == "0 \(whole.output.utf8.count)\n", "\(slow.errors)")
        let torn = Tool.fixture("libre/torn.hex")
        let worse = try await Tool.other(
            "sh", ["-c", "'\(Tool.executable.path)' libre decode '\(torn)' > /dev/full; echo $?"])
        #expect(worse.output == "65\n", "\(worse.errors)")
    }

    @Test("help shows defaults as they are typed", arguments: [["read"], ["pair"], ["watch"], ["libre", "read"]])
    func help(_ command: [String]) async throws {
        let help = try await Tool.run(command + ["--help"])
        #expect(help.status == 0)
        let words = help.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(words.contains("(default: 60s)") && !words.contains("Argument("), "\(help.output)")
    }

    @Test("a file that is not there is 66")
    func missing() async throws {
        #expect(try await Tool.run(["replay", "/nonexistent/x.btsnoop", "--count"]).status == 66)
        #expect(try await Tool.run(["config", "show", "--config", "/nonexistent.yaml"]).status == 66)
    }

    @Test("a file that is no capture is 65")
    func noCapture() async throws {
        let result = try await Tool.run(["replay", #filePath, "--count"])
        #expect(result.status == 65, "\(result.errors)")
    }

    @Test("a misspelt setting is 78 and names file, line and key")
    func misspelt() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml")
        try "server:\n  base_urll: http://127.0.0.1:1\n".write(to: file, atomically: true, encoding: .utf8)
        let result = try await Tool.run(["config", "show", "--config", file.path])
        #expect(result.status == 78)
        #expect(result.errors.contains("config.yaml:2") && result.errors.contains("base_urll"))
    }

    @Test(
        "a value that a setting cannot have is refused, never ignored",
        arguments: [
            "store: {encryption: maybe}", "clock: {require_sync: perhaps}", "sources: {map: {omron_blesmart: [a, b]}}",
        ])
    func unheeded(_ text: String) async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml")
        try text.write(to: file, atomically: true, encoding: .utf8)
        let result = try await Tool.run(["config", "show", "--config", file.path])
        #expect(result.status == 78, "\(result.errors)")
    }

    @Test("flag over environment over file, before and after the command; the later wins")
    func layers() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("config.yaml")
        try "log: {level: error}\nsync: {mode: manual}\n".write(to: file, atomically: true, encoding: .utf8)
        let shown = { (arguments: [String], environment: [String: String]) async throws in
            try await Document(Tool.run(arguments + ["--json"], environment: environment).output)
        }
        let environment = ["HEALTHRELAY_LOG_LEVEL": "warning"]
        #expect(try await shown(["config", "show", "--config", file.path], [:])["log.level"]?.plain == "error")
        #expect(
            try await shown(["config", "show", "--config", file.path], environment)["log.level"]?.plain == "warning")
        #expect(
            try await shown(["--log-level", "debug", "config", "show"], environment)["log.level"]?.plain == "debug")
        #expect(
            try await shown(["--log-level", "debug", "config", "show", "--log-level", "trace"], [:])["log.level"]?.plain
                == "trace")
        #expect(try await shown(["--config", file.path, "config", "show"], [:])["sync.mode"]?.plain == "manual")
    }

    @Test("a state directory that cannot be made is 73 or 77")
    func stateDirectory() async throws {
        let result = try await Tool.run(["store", "stats", "--state-dir", "/proc/nonexistent/state"])
        #expect([73, 77].contains(result.status), "\(result.status) \(result.errors)")
    }

    @Test("a server that answers HTML is 76, one that is not there 69, a key it refuses 77; readings stay")
    func servers() async throws {
        for (answer, status) in [("200 OK", Int32(76)), ("401 Unauthorized", 77), ("", 69)] {
            let scratch = try Scratch()
            let key = scratch.url.appendingPathComponent("key")
            try "sk_us_test".write(to: key, atomically: true, encoding: .utf8)
            _ = try await Tool.run(["replay", Tool.fixture("cuff-three.btsnoop"), "--state-dir", scratch.state])
            let server = try answer.isEmpty ? nil : HTMLServer(answer, in: scratch.url)
            let result = try await Tool.run(
                ["sync", "--state-dir", scratch.state, "--json"],
                environment: [
                    "HEALTHRELAY_SERVER_API_KEY_FILE": key.path, "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear",
                    "HEALTHRELAY_SERVER_BASE_URL": "http://127.0.0.1:\(server?.port ?? 1)",
                ])
            #expect(result.status == status, "\(answer): \(result.status) \(result.errors)")
            #expect(!result.errors.contains("sk_us_test"))
            let waiting = try #require(try Document(result.lines.first ?? "").destination).elements("waiting")
            #expect(waiting.first?["count"]?.text == "3")
        }
    }

    @Test("without a key nothing is delivered, and that is 78 with the mend")
    func noKey() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(["sync", "--state-dir", scratch.state, "--json"])
        #expect(result.status == 78)
        #expect(result.errors.contains("api_key_file"))
    }

    @Test("help and version are data")
    func help() async throws {
        #expect(try await Tool.run(["--help"]).status == 0)
        #expect(try await Tool.run(["--version"]).lines.count == 1)
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
