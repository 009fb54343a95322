import Foundation
import Testing

/// `run` as a person or a service manager runs it: real processes, real sockets, real signals.
@Suite(.serialized) struct RunTests {
    static let captures = Tool.captures.filter { !$0.contains("no-discovery") }.map { Tool.fixture($0 + ".btsnoop") }
    /// Readings of all captures: stored once, and of these the ones that are delivered.
    static let expected: (stored: Int, delivered: Int) = {
        guard let scratch = try? Scratch(),
            let stored = try? Tool.run(
                ["replay", "--state-dir", scratch.state, "--json"] + captures, environment: StoreTests.zone)
        else { return (0, 0) }
        return (stored.lines.count, stored.lines.filter { $0.contains(#""excluded":null"#) }.count)
    }()

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

    static func isDelivered(_ scratch: Scratch) -> Bool {
        guard let status = try? Tool.run(["sync", "status", "--json", "--state-dir", scratch.state]),
            let document = try? Document(status.output)
        else { return false }
        return document["delivered"]?.text == String(expected.delivered) && document.elements("waiting").isEmpty
    }

    /// What the sandbox's own database holds: (samples, distinct keys).
    static func samples(_ scratch: Scratch) throws -> [String] {
        let database = scratch.state + "/sandbox/sandbox.sqlite"
        let query = Process()
        query.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        query.arguments = [
            "python3", "-c",
            """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1])
            table = [n for n, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'") if 'sample' in n][0]
            print(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            """, database,
        ]
        let pipe = Pipe()
        query.standardOutput = pipe
        try query.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        query.waitUntilExit()
        return String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test("each reading is stored, its source checked, posted and acknowledged; SIGTERM ends it cleanly within two seconds")
    func wholeWay() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch)
        #expect(await run.wait { _ in Self.isDelivered(scratch) }, "\(run.errorText)")
        #expect(await run.wait(5) { $0.outputText.components(separatedBy: "acknowledged ").count - 1 == Self.expected.delivered })
        #expect(run.errorText.contains("Page at http://127.0.0.1:"))

        // Commands reach the store through the control socket of its owner; others are told who that is.
        let listed = try Tool.run(["query", "--json", "--state-dir", scratch.state])
        #expect(try Document(listed.output).elements("readings").count == Self.expected.stored)
        let sources = try Tool.run(["source", "list", "--json", "--state-dir", scratch.state])
        #expect(try Document(sources.output).elements("sources").allSatisfy { $0["status"]?.plain == "connected" })
        let second = try Tool.run(["replay", Self.captures[0], "--state-dir", scratch.state, "--json"])
        #expect(second.status == 75)
        #expect(second.errors.contains(String(run.process.processIdentifier)))

        let began = ContinuousClock.now
        run.kill(SIGTERM)
        let result = run.finish()
        #expect(result.status == 0 && result.signal == nil, "\(result.errors)")
        #expect(ContinuousClock.now - began < .seconds(10))
        #expect(try Self.samples(scratch) == [String(Self.expected.delivered)])

        let check = Process()
        check.executableURL = Tool.root.appendingPathComponent("Tests/Schemas/check")
        check.arguments = ["--directory", Self.bodies.path]
        let pipe = Pipe()
        check.standardOutput = pipe
        check.standardError = pipe
        try check.run()
        let said = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        check.waitUntilExit()
        #expect(check.terminationStatus == 0 && !said.contains(": 0 of 0"), "\(said.suffix(2000))")
        try FileManager.default.removeItem(at: Self.bodies)
    }

    @Test("the page answers on loopback and to its own names only")
    func page() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch)
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        let address = try #require(run.errorText.firstMatch(of: /Page at (http:\/\/127.0.0.1:\d+)/).map { String($0.1) })
        func curl(_ arguments: String...) throws -> String {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["curl", "-s", "-m", "5", "-w", "%{http_code}"] + arguments
            let pipe = Pipe()
            process.standardOutput = pipe
            try process.run()
            let output = pipe.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            return String(decoding: output, as: UTF8.self)
        }
        #expect(try curl(address + "/").hasSuffix("200"))
        #expect(try curl(address + "/page.js").hasSuffix("200"))
        #expect(try curl("-H", "Host: rebound.example", address + "/api/v1/readings").hasSuffix("421"))
        #expect(try curl("-X", "POST", address + "/api/v1/readings").hasSuffix("404") || curl("-X", "POST", address + "/").hasSuffix("405"))
        #expect(try curl(address + "/api/v1/readings?limit=0").hasSuffix("400"))
        #expect(await run.wait { _ in Self.isDelivered(scratch) })
        let readings = try curl(address + "/api/v1/readings?limit=10000")
        #expect(try Document(String(readings.dropLast(3))).elements("readings").count == Self.expected.stored)
        run.kill(SIGTERM)
        #expect(run.finish().status == 0)
    }

    @Test("a port in use is 69 and names it")
    func portInUse() async throws {
        let (first, second) = (try Scratch(), try Scratch())
        let run = try Self.start(first)
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        let port = try #require(run.errorText.firstMatch(of: /Page at http:\/\/127.0.0.1:(\d+)/).map { String($0.1) })
        let refused = try Tool.run(
            ["run", "--state-dir", second.state, "--json"],
            environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:\(port)"])
        #expect(refused.status == 69, "\(refused.errors)")
        #expect(refused.errors.contains("port_in_use"))
        run.kill(SIGKILL)
        _ = run.finish()
    }

    @Test("promise 12: no value, key or address in a log")
    func log() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch, ["HEALTHRELAY_LOG_LEVEL": "info"])
        #expect(await run.wait { _ in Self.isDelivered(scratch) })
        run.kill(SIGTERM)
        let errors = run.finish().errors
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
            "source.after-create", "source.after-create:3", "post.before", "post.after", "post.before:3", "post.after:3",
            "acknowledge.before-commit", "acknowledge.after-commit", "acknowledge.before-commit:2",
        ])
    func crashPoint(_ point: String) async throws {
        let scratch = try Scratch()
        let killed = try Self.start(scratch, ["HEALTHRELAY_CRASH_AT": point])
        #expect(await killed.wait { !$0.process.isRunning }, "\(point) was never reached: \(killed.errorText)")
        killed.kill(SIGKILL)
        #expect(killed.finish().signal == SIGKILL)
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
            _ = run.finish()
        }
        print("delays in ms: \(delays)")
        try await Self.expectEachReadingOnce(scratch)
    }

    private static func expectEachReadingOnce(_ scratch: Scratch) async throws {
        let run = try start(scratch)
        #expect(await run.wait { _ in isDelivered(scratch) }, "\(run.errorText)")
        run.kill(SIGTERM)
        #expect(run.finish().status == 0)
        let stored = try Document(Tool.run(["query", "--json", "--limit", "10000", "--state-dir", scratch.state]).output)
        let ids = stored.elements("readings").compactMap { $0["id"]?.plain }
        #expect(ids.count == expected.stored && Set(ids).count == ids.count)
        #expect(try samples(scratch) == [String(expected.delivered)])
        #expect(try Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }
}
