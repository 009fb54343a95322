import Foundation
import Testing

/// `run` as a person or a service manager runs it: real processes, real sockets, real signals.
@Suite(.serialized) struct RunTests {
    static let captures = Tool.captures.filter { !$0.contains("no-discovery") }.map { Tool.fixture($0 + ".btsnoop") }
    /// What a reading says, as far as no kill may change it.
    struct Facts: Equatable { var time: String, value: String, excluded: String }

    /// Readings of all captures, as one undisturbed replay stores them.
    struct Expected {
        /// By their ids.
        var stored: [String: Facts]
        /// The ids of those that are delivered, sorted.
        var delivered: [String]
    }

    private actor Once {
        private var value: Expected?

        func get() async throws -> Expected {
            if let value { return value }
            let scratch = try Scratch()
            let replayed = try await Tool.run(
                ["replay", "--state-dir", scratch.state, "--json"] + captures, environment: StoreTests.zone)
            let stored = try await RunTests.stored(scratch)
            let expected = Expected(
                stored: stored, delivered: stored.filter { $0.value.excluded == "null" }.map(\.key).sorted())
            // Nothing is proven by gateways that have nothing to deliver.
            guard replayed.status == 0, stored.count == replayed.lines.count, expected.delivered.count > 50 else {
                throw NothingToExpect(replay: replayed)
            }
            value = expected
            return expected
        }

        struct NothingToExpect: Error { var replay: Tool.Result }
    }

    private static let once = Once()
    static var expected: Expected { get async throws { try await once.get() } }

    /// What is stored, by the readings' ids.
    static func stored(_ scratch: Scratch) async throws -> [String: Facts] {
        let page = try await Document(
            Tool.run(["query", "--json", "--limit", "10000", "--state-dir", scratch.state]).output)
        let readings = page.elements("readings").map { reading -> (String, Facts) in
            let value = [reading[reading["kind"]?.plain ?? ""], reading["pulse"]].map { $0?.text ?? "none" }
            return (
                reading["id"]?.plain ?? "",
                Facts(
                    time: reading["time"]?.plain ?? "", value: value.joined(separator: " "),
                    excluded: reading["excluded"]?.plain ?? "")
            )
        }
        let found = Dictionary(readings) { first, _ in first }
        #expect(found.count == readings.count, "a reading is stored twice")
        return found
    }

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
        return document["delivered"]?.text == String(expected.delivered.count) && document.elements("waiting").isEmpty
    }

    /// The ids of the samples that the sandbox's own database holds, sorted; none if there is no database yet.
    static func samples(_ scratch: Scratch) async throws -> [String] {
        let script = """
            import json, os, sqlite3, sys
            if os.path.exists(sys.argv[1]):
                for text, in sqlite3.connect(sys.argv[1]).execute("SELECT item FROM sample"):
                    item = json.loads(text)
                    print((item if "value" in item else item["systolic"])["id"])
            """
        let result = try await Tool.other("python3", ["-c", script, scratch.state + "/sandbox/sandbox.sqlite"])
        return result.lines.sorted()
    }

    @Test(
        "each reading is stored, its source checked, posted and acknowledged; SIGTERM ends it cleanly within two seconds"
    )
    func wholeWay() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch)
        #expect(await run.wait { _ in await Self.isDelivered(scratch) }, "\(run.errorText)")
        let delivered = try await Self.expected.delivered.count
        #expect(await run.wait { $0.outputText.components(separatedBy: "acknowledged ").count - 1 == delivered })
        #expect(run.errorText.contains("Page at http://127.0.0.1:"))

        // Commands reach the store through the control socket of its owner; others are told who that is.
        let listed = try await Tool.run(["query", "--json", "--state-dir", scratch.state])
        #expect(try await Document(listed.output).elements("readings").count == Self.expected.stored.count)
        let listing = try await Tool.run(["source", "list", "--json", "--state-dir", scratch.state])
        let sources = try Document(listing.output).elements("sources")
        #expect(!sources.isEmpty && sources.allSatisfy { $0["status"]?.plain == "connected" }, "\(listing.output)")
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

    @Test(
        "--sandbox delivers for whoever the store names, and leaves them current; it names demo only where nobody is named"
    )
    func sandboxUser() async throws {
        for name in ["white_bear", nil] {
            let scratch = try Scratch()
            // Nothing but the store knows the name afterwards, as after `user create`.
            let user = name.map { ["HEALTHRELAY_USER_CLIENT_USER_ID": $0] } ?? [:]
            let made = try await Tool.run(
                ["store", "stats", "--state-dir", scratch.state], environment: StoreTests.zone.merging(user) { $1 })
            #expect(made.status == 0, "\(made.errors)")
            let run = try Self.start(scratch)
            #expect(await run.wait { _ in await Self.isDelivered(scratch) }, "\(run.errorText)")
            run.kill(SIGTERM)
            let ended = await run.finish()
            #expect(ended.status == 0, "\(ended.errors)")
            let shown = try await Tool.run(["user", "show", "--json", "--state-dir", scratch.state])
            let current = try Document(shown.output)["client_user_id"]?.plain
            #expect(current == name ?? "demo")
            let query = ["query", "--format", "ndjson", "--limit", "10000", "--state-dir", scratch.state]
            let readings = try await Tool.run(query)
            #expect(readings.output.contains(#""person":"demo""#) == (name == nil))
        }
    }

    @Test("the page answers on loopback and to its own names only")
    func page() async throws {
        let scratch = try Scratch()
        let run = try Self.start(scratch, ["HEALTHRELAY_HTTP_LOCAL": "trusted"])
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        let address = try #require(
            run.errorText.firstMatch(of: /Page at (http:\/\/127.0.0.1:\d+)/).map { String($0.1) })
        func curl(_ arguments: String...) async throws -> String {
            try await Tool.other("curl", ["-s", "-m", "60", "-w", "%{http_code}"] + arguments).output
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
        #expect(
            try await Document(String(readings.dropLast(3))).elements("readings").count == Self.expected.stored.count)
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
        #expect(errors.contains("Page at "))
        // What became of the captures is told to whoever named them, with the meters' names.
        let logged = errors.split(separator: "\n").filter { !$0.hasPrefix("incomplete: ") }.joined(separator: "\n")
        let secrets = [
            "sk_us", "C0:00:00", "C0_00_00", "00001808", "meter+", "BLESmart", "mg/dL", "mmol", "mmHg", "kPa", "demo",
        ]
        for secret in secrets { #expect(!logged.contains(secret), "\(secret) in \(logged)") }
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
        var (scratch, isNew, stores, midway) = (try Scratch(), true, 1, 0)
        var delays: [Int] = []
        for number in 1...50 {
            let delay = Int.random(in: 60...900, using: &generator)
            delays.append(delay)
            let run = try Self.start(scratch)
            if isNew {
                // However slow the machine is, the first kill meets a replay that has begun.
                #expect(await run.wait { !$0.outputText.isEmpty }, "\(run.errorText)")
            } else {
                try await Task.sleep(for: .milliseconds(delay))
            }
            run.kill(SIGKILL)
            _ = await run.finish()
            let isDone = try await Self.samples(scratch).count == Self.expected.delivered.count
            if !isDone { midway += 1 }
            // A gateway that has delivered everything has nothing left to lose: another one begins.
            isNew = isDone && stores < 5 && number < 50
            if isNew {
                try await Self.expectEachReadingOnce(scratch)
                (scratch, stores) = (try Scratch(), stores + 1)
            }
        }
        print("delays in ms: \(delays); \(midway) kills in the middle, \(stores) stores")
        #expect(midway > 0)
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
        let (wanted, found) = (try await expected, try await stored(scratch))
        let differing = Set(found.keys).union(wanted.stored.keys).filter { found[$0] != wanted.stored[$0] }
        #expect(
            differing.isEmpty,
            "\(differing.sorted().prefix(3).map { "\($0): \(String(describing: found[$0]))" })")
        #expect(try await samples(scratch) == wanted.delivered)
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }
}
