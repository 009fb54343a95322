import Foundation
import Testing

/// `sync` against a sandbox server in a process of its own.
@Suite struct SyncTests {
    /// A store with the first delivery of a glucose meter: 22 readings, of which four are of 14 November in Berlin.
    private func withReadings(_ scratch: Scratch, _ environment: [String: String]) async throws {
        let stored = try await Tool.run(
            ["replay", Tool.fixture("glucose-first-delivery.btsnoop"), "--state-dir", scratch.state],
            environment: environment)
        #expect(stored.status == 0, "\(stored.errors)")
    }

    private func times(_ result: Tool.Result) throws -> [String] {
        try Document(result.output).elements("readings").filter { $0["excluded"]?.text == "null" }
            .compactMap { $0["time"]?.plain }.sorted()
    }

    /// Delivers by instants and by dates, in this process or by way of a gateway that runs.
    private func ranges(_ scratch: Scratch, _ sandbox: Sandboxed) async throws {
        let state = ["--json", "--state-dir", scratch.state]
        func sync(_ arguments: String...) async throws -> Document {
            let result = try await Tool.run(["sync"] + arguments + state, environment: sandbox.environment)
            #expect(result.status == 0, "\(result.errors)")
            return try #require(try Document(result.output).destination)
        }
        let all = try await times(Tool.run(["query"] + state, environment: sandbox.environment))
        let day = try await times(
            Tool.run(
                ["query", "--from", "2026-11-14", "--to", "2026-11-14"] + state, environment: sandbox.environment))
        #expect(day.count > 2 && day.count < all.count)

        // Both ends are included: the first and the last but one of the day, by their instants.
        let some = try await sync("--from", day[0], "--to", day[day.count - 2])
        #expect(some["delivered"]?.text == String(day.count - 1))
        #expect(try await sandbox.samples == day.count - 1)
        // The rest of it, by the date, which is the user's own day.
        #expect(try await sync("--from", "2026-11-14", "--to", "2026-11-14")["delivered"]?.text == String(day.count))
        // An end that is left out is open.
        let until = all.filter { $0 <= day[0] }.count
        #expect(try await sync("--to", day[0])["delivered"]?.text == String(day.count - 1 + until))
        #expect(try await sync()["delivered"]?.text == String(all.count))
        #expect(try await sandbox.samples == all.count)
    }

    @Test("--from and --to deliver what lies between them, both included: instants, or days of the user")
    func range() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await withReadings(scratch, sandbox.environment)
        try await ranges(scratch, sandbox)
    }

    @Test("the same through the control socket of the gateway that owns the store")
    func socket() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await withReadings(scratch, sandbox.environment)
        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state],
            environment: sandbox.environment.merging([
                "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_SYNC_MODE": "manual",
            ]) { $1 }, in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        try await ranges(scratch, sandbox)
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test(
        "a range that cannot be meant is 64, and says what was expected",
        arguments: [
            (["--from", "yesterday"], "--from: expected an instant"),
            (["--to", "2026-13-01"], "--to: expected an instant"),
            (["--from", "2026-11-15", "--to", "2026-11-14"], "is later than --to"),
            (["--watch", "--from", "2026-11-15"], "--watch"),
        ])
    func wrongRange(_ arguments: [String], _ words: String) async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(["sync"] + arguments + ["--state-dir", scratch.state, "--json"])
        #expect(result.status == 64 && result.output.isEmpty, "\(result.errors)")
        let error = try Document(String(try #require(result.errors.split(separator: "\n").last)))["error"]
        #expect(error?["message"]?.plain.contains(words) == true, "\(result.errors)")
    }

    @Test("sync ends with 78 while the store's key is missing, and says so")
    func locked() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await withReadings(scratch, sandbox.environment)
        let key = scratch.state + "/store.key"
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")
        let sync = ["sync", "--json", "--state-dir", scratch.state]
        let locked = try await Tool.run(sync, environment: sandbox.environment)
        #expect(locked.status == 78 && locked.errors.contains(#""store_key_missing""#), "\(locked.errors)")
        #expect(locked.output.contains(#""held":"locked""#), "\(locked.output)")
        try FileManager.default.moveItem(atPath: key + ".away", toPath: key)
        let found = try await Tool.run(sync, environment: sandbox.environment)
        #expect(found.status == 0, "\(found.errors)")
        #expect(try await sandbox.samples > 0)
    }

    @Test("ordered faults strike: 503 is 75 and keeps everything, a connection dropped afterwards delivers once")
    func faults() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(["--fault", "status=503,times=1"], in: scratch)
        try await withReadings(scratch, sandbox.environment)
        let sync = ["sync", "--json", "--state-dir", scratch.state]
        let first = try await Tool.run(sync, environment: sandbox.environment)
        #expect(first.status == 75, "\(first.errors)")
        #expect(first.errors.contains("server_error"))
        let second = try await Tool.run(sync, environment: sandbox.environment)
        let delivered = try await sandbox.samples
        #expect(second.status == 0 && delivered > 0, "\(second.errors)")

        // User, list, source and list again are let through; the post is carried out and its answer lost.
        let other = try Scratch()
        let dropping = try await Sandboxed(["--fault", "drop=after,after=4,times=1"], in: other)
        try await withReadings(other, dropping.environment)
        let lost = try await Tool.run(
            ["sync", "--json", "--state-dir", other.state], environment: dropping.environment)
        #expect(lost.status == 69, "\(lost.errors)")
        let again = try await Tool.run(
            ["sync", "--json", "--state-dir", other.state], environment: dropping.environment)
        #expect(again.status == 0, "\(again.errors)")
        #expect(try await dropping.samples == delivered)
    }

    @Test(
        "a server that refuses every post loses nothing: 75, nothing set aside, the reason in the status",
        arguments: [400, 422, 403, 404, 405, 409, 413, 418])
    func refusedPosts(status: Int) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(["--fault", "status=\(status),path=timeseries"], in: scratch)
        _ = try await Tool.run(
            ["replay", Tool.fixture("cuff-kpa.btsnoop"), "--state-dir", scratch.state], environment: sandbox.environment
        )
        let sync = ["sync", "--json", "--state-dir", scratch.state]
        let result = try await Tool.run(sync, environment: sandbox.environment)
        #expect(result.status == 75, "\(result.status) \(result.errors)")
        let document = try #require(try Document(result.output).destination)
        #expect(document.elements("refused").isEmpty && document.elements("waiting").count == 1, "\(result.output)")
        if status == 400 || status == 422 {
            #expect(result.errors.contains("server_refuses_all"))
            let text = try await Tool.run(["sync", "status", "--state-dir", scratch.state])
            #expect(text.output.contains("the server refuses every reading of this kind"), "\(text.output)")
            #expect(document.elements("waiting").first?["held"]?.plain == "source_error")
        }
    }

    @Test(
        "a wrong --fault is 64 and says what was expected and what was found",
        arguments: [
            ("status=200", "status=400 to 599"), ("nonsense", "status=, drop, truncate, slow"),
            ("rate=2,drop", "rate=0 to 1"),
            ("drop=never", "drop=before or drop=after"), ("after=3", "status="),
        ])
    func wrongFault(_ specification: String, _ expected: String) async throws {
        let result = try await Tool.run(["sandbox", "--port", "0", "--fault", specification, "--json"])
        #expect(result.status == 64, "\(result.errors)")
        let error = try Document(String(try #require(result.errors.split(separator: "\n").last)))["error"]
        let message = error?["message"]?.plain ?? ""
        #expect(message.contains(expected) && message.contains(specification.split(separator: ",")[0]), "\(message)")
    }

    @Test("--watch prints events a line each, and SIGINT and SIGTERM end it with 0", arguments: [SIGINT, SIGTERM])
    func watch(_ signal: Int32) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await withReadings(scratch, sandbox.environment)
        // Nobody owns the store: the watcher delivers itself.
        let alone = try Tool.Running(
            ["sync", "--watch", "--json", "--state-dir", scratch.state], environment: sandbox.environment,
            in: scratch.url)
        #expect(await alone.wait { $0.outputText.contains("successSyncing") }, "\(alone.errorText)")
        alone.kill(signal)
        #expect(await alone.finish().status == 0)
        let check = try await Tool.other(
            Tool.root.path + "/Tests/Schemas/check", ["--lines", "sync_event", alone.output.path])
        #expect(check.status == 0 && !check.output.hasPrefix("0 "), "\(check.output) \(check.errors)")
        #expect(try await sandbox.samples > 0)

        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state],
            environment: sandbox.environment.merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 },
            in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        let watcher = try Tool.Running(
            ["sync", "--watch", "--json", "--state-dir", scratch.state], environment: sandbox.environment,
            in: scratch.url)
        var text = ""
        for _ in 0..<100 where !text.contains("syncingCompleted") {
            _ = try await Tool.run(["sync", "--state-dir", scratch.state], environment: sandbox.environment)
            text = watcher.outputText
        }
        for line in text.split(separator: "\n") { #expect(try Document(String(line))["event"] != nil) }
        watcher.kill(signal)
        #expect(await watcher.finish().status == 0)
        // A gateway that stops ends its watchers as well.
        let left = try Tool.Running(
            ["sync", "--watch", "--json", "--state-dir", scratch.state], environment: sandbox.environment,
            in: scratch.url)
        for _ in 0..<100 where left.outputText.isEmpty {
            _ = try await Tool.run(["sync", "--state-dir", scratch.state], environment: sandbox.environment)
        }
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0, "\(run.errorText)")
        #expect(await left.wait { !$0.process.isRunning })
    }
}
