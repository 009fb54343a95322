import Foundation
import Testing

/// `run` as a person or a service manager runs it: real processes, real sockets, real signals.
@Suite(.serialized) struct RunTests {
    static let captures = Tool.captures.filter { !$0.contains("no-discovery") }.map { Tool.fixture($0 + ".btsnoop") }
    /// Readings of all captures: how many are stored, and how many of these are delivered.
    struct Expected { var stored: Int, delivered: Int }

    private actor Once {
        private var value: Expected?

        func get() async throws -> Expected {
            if let value { return value }
            let scratch = try Scratch()
            let stored = try await Tool.run(
                ["replay", "--state-dir", scratch.state, "--json"] + captures, environment: StoreTests.zone)
            let delivered = stored.lines.filter { $0.contains(#""excluded":null"#) }.count
            let expected = Expected(stored: stored.lines.count, delivered: delivered)
            value = expected
            return expected
        }
    }

    private static let once = Once()
    static var expected: Expected { get async throws { try await once.get() } }

    /// The bodies every gateway of this suite posts, for the schemas' own checker.
    static let bodies = FileManager.default.temporaryDirectory
        .appendingPathComponent("healthrelay-bodies-\(ProcessInfo.processInfo.processIdentifier)")

    static func start(_ scratch: Scratch, _ environment: [String: String] = [:]) throws -> Tool.Running {
        try Tool.Running(
            ["run", "--state-dir", scratch.state, "--sandbox", "--replay"] + captures,
            environment: StoreTests.zone
                .merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_RECORD_BODIES": bodies.path]) { $1 }
                .merging(environment) { $1 }, in: scratch.url)
    }

    static func isDelivered(_ scratch: Scratch) async -> Bool {
        guard let status = try? await Tool.run(["sync", "status", "--json", "--state-dir", scratch.state]),
            let document = try? Document(status.output).destination, let expected = try? await expected
        else { return false }
        return document["delivered"]?.text == String(expected.delivered) && document.elements("waiting").isEmpty
    }

    /// How many samples the sandbox's own database holds.
    static func samples(_ scratch: Scratch) async throws -> Int? {
        let script = """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1])
            table = [n for n, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'") if 'sample' in n][0]
            print(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            """
        let result = try await Tool.other("python3", ["-c", script, scratch.state + "/sandbox/sandbox.sqlite"])
        return result.lines.first.flatMap(Int.init)
    }

    @Test(
        "each reading is stored, its source checked, posted and acknowledged; SIGTERM ends it cleanly within two seconds"
    )
    func wholeWay() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch)
        #expect(await run.wait { _ in await Self.isDelivered(scratch) }, "\(run.errorText)")
        let delivered = try await Self.expected.delivered
        #expect(await run.wait { $0.outputText.components(separatedBy: "acknowledged ").count - 1 == delivered })
        #expect(run.errorText.contains("Page at http://127.0.0.1:"))

        // Commands reach the store through the control socket of its owner; others are told who that is.
        let listed = try await Tool.run(["query", "--json", "--state-dir", scratch.state])
        #expect(try await Document(listed.output).elements("readings").count == Self.expected.stored)
        let sources = try await Tool.run(["source", "list", "--json", "--state-dir", scratch.state])
        #expect(try Document(sources.output).elements("sources").allSatisfy { $0["status"]?.plain == "connected" })
        let second = try await Tool.run(["replay", Self.captures[0], "--state-dir", scratch.state, "--json"])
        #expect(second.status == 75)
        #expect(second.errors.contains(String(run.process.processIdentifier)))

        let began = ContinuousClock.now
        run.kill(SIGTERM)
        let result = await run.finish()
        #expect(result.status == 0 && result.signal == nil, "\(result.errors)")
        #expect(ContinuousClock.now - began < .seconds(10))
        #expect(try await Self.samples(scratch) == Self.expected.delivered)

        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", Self.bodies.path])
        #expect(check.status == 0 && !check.output.contains(": 0 of 0"), "\(check.output.suffix(2000))")
        try FileManager.default.removeItem(at: Self.bodies)
    }

    @Test("the page answers on loopback and to its own names only")
    func page() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch, ["HEALTHRELAY_HTTP_LOCAL": "trusted"])
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        let address = try #require(
            run.errorText.firstMatch(of: /Page at (http:\/\/127.0.0.1:\d+)/).map { String($0.1) })
        func curl(_ arguments: String...) async throws -> String {
            try await Tool.other("curl", ["-s", "-m", "5", "-w", "%{http_code}"] + arguments).output
        }
        #expect(try await curl(address + "/").hasSuffix("200"))
        #expect(try await curl(address + "/page.js").hasSuffix("200"))
        #expect(try await curl("-H", "Host: rebound.example", address + "/api/v1/readings").hasSuffix("421"))
        let posted = try await curl("-X", "POST", address + "/api/v1/readings")
        // A change wants the token of a session, which another site does not have.
        #expect(posted.hasSuffix("403"))
        #expect(try await curl(address + "/api/v1/readings?limit=0").hasSuffix("400"))
        #expect(await run.wait { _ in await Self.isDelivered(scratch) })
        let readings = try await curl(address + "/api/v1/readings?limit=10000")
        #expect(try await Document(String(readings.dropLast(3))).elements("readings").count == Self.expected.stored)
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }

    @Test("a port in use is 69 and names it")
    func portInUse() async throws {
        let (first, second) = (try Scratch(), try Scratch())
        let run = try Self.start(first)
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        let port = try #require(run.errorText.firstMatch(of: /Page at http:\/\/127.0.0.1:(\d+)/).map { String($0.1) })
        let refused = try await Tool.run(
            ["run", "--state-dir", second.state, "--json"],
            environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:\(port)"])
        #expect(refused.status == 69, "\(refused.errors)")
        #expect(refused.errors.contains("port_in_use"))
        run.kill(SIGKILL)
        _ = await run.finish()
    }

    @Test("promise 12: no value, key or address in a log")
    func log() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch, ["HEALTHRELAY_LOG_LEVEL": "info"])
        #expect(await run.wait { _ in await Self.isDelivered(scratch) })
        run.kill(SIGTERM)
        let errors = await run.finish().errors
        for secret in ["sk_us", "C0:00:00", "mg/dL", "mmol", "mmHg", "kPa", "demo"] {
            #expect(!errors.contains(secret), "\(secret) in \(errors)")
        }
    }

    @Test(
        "promise 9: killed at every commit and on both sides of every request, then restarted: each reading once",
        arguments: [
            "contact.before-commit", "contact.after-commit", "journal.before-commit", "journal.after-commit",
            "journal.before-commit:7", "journal.after-commit:7", "user.before-commit:2", "user.after-commit:2",
            "user.after-create", "source.before-commit", "source.after-commit", "source.before-create",
            "source.after-create", "source.after-create:3", "post.before", "post.after", "post.before:3",
            "post.after:3",
            "acknowledge.before-commit", "acknowledge.after-commit", "acknowledge.before-commit:2",
        ])
    func crashPoint(_ point: String) async throws {
        let scratch = try Scratch()
        let killed = try Self.start(scratch, ["HEALTHRELAY_CRASH_AT": point])
        #expect(await killed.wait { !$0.process.isRunning }, "\(point) was never reached: \(killed.errorText)")
        killed.kill(SIGKILL)
        #expect(await killed.finish().signal == SIGKILL)
        try await Self.expectEachReadingOnce(scratch)
    }

    @Test("promise 10: fifty random kill -9 in the middle of a replay, then a restart: each reading once")
    func randomKills() async throws {
        var generator = SystemRandomNumberGenerator()
        let scratch = try Scratch()
        var delays: [Int] = []
        for _ in 0..<50 {
            let delay = Int.random(in: 60...900, using: &generator)
            delays.append(delay)
            let run = try Self.start(scratch)
            try await Task.sleep(for: .milliseconds(delay))
            run.kill(SIGKILL)
            _ = await run.finish()
        }
        print("delays in ms: \(delays)")
        try await Self.expectEachReadingOnce(scratch)
    }

    private static func expectEachReadingOnce(_ scratch: Scratch) async throws {
        let run = try start(scratch)
        // Everything may be delivered before it hears its first signal.
        #expect(
            await run.wait { run in
                guard run.errorText.contains("Page at") else { return false }
                return await isDelivered(scratch)
            }, "\(run.errorText)")
        run.kill(SIGTERM)
        let ended = await run.finish()
        #expect(ended.status == 0 && ended.signal == nil, "\(ended.status) \(ended.errors)")
        let stored = try await Document(
            Tool.run(["query", "--json", "--limit", "10000", "--state-dir", scratch.state]).output)
        let ids = stored.elements("readings").compactMap { $0["id"]?.plain }
        #expect(try await ids.count == expected.stored && Set(ids).count == ids.count)
        #expect(try await samples(scratch) == expected.delivered)
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }
}
