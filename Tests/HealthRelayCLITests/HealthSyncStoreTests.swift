import EmulatedPhone
import Foundation
import Testing

/// Samples of a phone in the store of the built command.
@Suite("The command healthsync fetch --store", .timeLimit(.minutes(8))) struct HealthSyncStoreTests {
    private static let noon = Date(timeIntervalSince1970: 1_795_176_000)
    private static let range = ["--from", "2026-11-20T00:00:00Z", "--to", "2026-11-21T00:00:00Z"]

    private static let day: [PhoneSample] = [
        PhoneSample("heartRate", 72, "count/min", at: noon), PhoneSample("heartRateVariability", 0.0452, "s", at: noon),
        PhoneSample("bloodOxygen", 0.97, "%", at: noon), PhoneSample("weight", 70.1, "kg", at: noon),
        PhoneSample("bloodPressureSystolic", 128, "mmHg", at: noon - 600, source: "Cuff"),
        PhoneSample("bloodPressureDiastolic", 82, "mmHg", at: noon - 600, source: "Cuff"),
        PhoneSample("steps", 523, "count", at: noon - 3600, until: noon),
        PhoneSample("vo2Max", 42.1, "ml/kg*min", at: noon - 7200),
        PhoneSample(
            "workouts", 1800, "s", at: noon - 9000, until: noon - 7200, metadata: ["activityType": "running"]),
        .sleep(5, from: noon - 40_000, to: noon - 38_000), .sleep(3, from: noon - 38_000, to: noon - 36_000),
    ]

    private struct Paired {
        let scratch: Scratch
        let phone: EmulatedPhone
        let environment: [String: String]

        init(
            _ samples: [PhoneSample], user: String? = "ann",
            _ change: (inout EmulatedPhone.State) -> Void = { _ in }
        ) async throws {
            scratch = try Scratch()
            environment = user.map { ["HEALTHRELAY_USER_CLIENT_USER_ID": $0] } ?? [:]
            var state = EmulatedPhone.State()
            state.samples = samples
            state.enabled = Array(Set(samples.map(\.type))).sorted() + ["sleepREM", "sleepCore"]
            state.rate = 100_000
            change(&state)
            phone = try await EmulatedPhone.start(state)
            let result = try await run("healthsync", "pair", phone.showCode())
            try #require(result.status == 0, "\(result.errors)")
        }

        func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--state-dir", scratch.state], environment: environment)
        }

        func fetch(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(
                ["healthsync", "fetch", "--store"] + HealthSyncStoreTests.range + arguments
                    + ["--state-dir", scratch.state], environment: environment)
        }

        /// The lines of a query as documents.
        func readings(_ types: String = "") async throws -> [[String: Any]] {
            let result = try await Tool.run(
                ["query", "--format", "ndjson", "--limit", "10000"] + (types.isEmpty ? [] : ["--types", types])
                    + ["--state-dir", scratch.state], environment: environment)
            #expect(result.status == 0, "\(result.errors)")
            return try result.lines.map { line in
                try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            }
        }
    }

    private func check(_ schema: String, _ text: String, lines: Bool = false) async throws {
        let folder = try Tool.temporaryDirectory()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("document.json")
        try Data(text.utf8).write(to: file)
        let result = try await Tool.other(
            Tool.root.path + "/Tests/Schemas/check", (lines ? ["--lines"] : []) + [schema, file.path])
        #expect(result.status == 0, "\(schema): \(result.errors)\(result.output)")
    }

    @Test("what is understood becomes a reading of its kind, everything else is kept as it came")
    func kinds() async throws {
        let paired = try await Paired(Self.day)
        let stored = try await paired.fetch("--json")
        #expect(stored.status == 0, "\(stored.errors)")
        try await check("healthsync_store", stored.output)
        #expect(
            stored.output.contains(#""samples":11,"joined":1,"unpaired":0,"stored":10,"present":0"#), "\(stored.output)"
        )
        let readings = try await paired.readings()
        try await check(
            "reading",
            try await paired.run("query", "--format", "ndjson").output, lines: true)
        func reading(_ kind: String) throws -> [String: Any] {
            try #require(readings.first { $0["kind"] as? String == kind }, "no \(kind)")
        }
        let pressure = try #require(try reading("blood_pressure")["blood_pressure"] as? [String: Any])
        #expect((pressure["systolic"] as? [String: Any])?["value"] as? Int == 128)
        #expect((pressure["diastolic"] as? [String: Any])?["value"] as? Int == 82)
        #expect((try reading("spo2")["spo2"] as? [String: Any])?["value"] as? Int == 97)
        #expect((try reading("hrv")["hrv"] as? [String: Any])?["sdnn"] as? Double == 45.2)
        let sleep = readings.filter { $0["kind"] as? String == "sleep" }
        #expect(sleep.count == 2)
        let part = try #require(sleep.first?["sleep"] as? [String: Any])
        #expect(part["type"] as? String == "sleepAnalysis" && part["unit"] as? String == "category")
        #expect((part["metadata"] as? [String: String])?["sleepStage"] == "core")
        for reading in readings {
            #expect(reading["provider"] as? String == "apple_health_kit" && reading["person"] as? String == "ann")
            #expect(reading["excluded"] is NSNull, "\(reading)")
            #expect(reading["imported"] is [String: Any])
        }
        let csv = try await paired.run("query", "--types", "activity,other", "--format", "csv")
        #expect(csv.output.contains(",523,count,steps,2026-11-20T12:00:00Z"), "\(csv.output)")
        #expect(csv.output.contains(",42.1,ml/kg*min,vo2Max,"))
        #expect(csv.output.contains(",1800,s,workouts,"))
        await paired.phone.stop()
    }

    @Test("the same fetch again, and sleep by its stages' own types, changes nothing")
    func again() async throws {
        let paired = try await Paired(Self.day)
        #expect(try await paired.fetch().status == 0)
        let before = try await paired.readings()
        let second = try await paired.fetch("--json")
        #expect(second.output.contains(#""stored":0,"present":10"#), "\(second.output)")
        let stages = try await paired.fetch("--types", "sleepREM,sleepCore", "--json")
        #expect(
            stages.output.contains(#""samples":2,"joined":0,"unpaired":0,"stored":0,"present":2"#), "\(stages.output)")
        // Half a blood pressure is fetched with its other half.
        let half = try await paired.fetch("--types", "bloodPressureSystolic", "--json")
        #expect(half.output.contains(#""joined":1,"unpaired":0,"stored":0"#), "\(half.output)")
        let after = try await paired.readings()
        #expect(after.compactMap { $0["id"] as? String } == before.compactMap { $0["id"] as? String })
        await paired.phone.stop()
    }

    @Test("killed in the middle and begun again, nothing is lost and nothing doubled")
    func killed() async throws {
        let samples: [PhoneSample] = (0..<400).map { (place: Int) -> PhoneSample in
            let isSteps = place % 2 == 1
            let start = Self.noon.addingTimeInterval(Double(place) * -30)
            return PhoneSample(
                isSteps ? "steps" : "heartRate", Double(60 + place % 20), isSteps ? "count" : "count/min", at: start,
                source: "Watch \(place)")
        }
        let paired = try await Paired(samples) { state in
            state.largestPage = 40
            state.fault = { request, reply in if request.number > 6 { reply.delay = 2 } }
        }
        for round in 0..<2 {
            let running = try Tool.Running(
                ["healthsync", "fetch", "--store"] + Self.range + ["--state-dir", paired.scratch.state],
                environment: ["HEALTHRELAY_USER_CLIENT_USER_ID": "ann"], in: paired.scratch.url)
            let count = paired.phone.requests.count
            #expect(await running.wait(60) { _ in paired.phone.requests.count > count + (round == 0 ? 4 : 1) })
            running.kill(SIGKILL)
            _ = await running.finish()
        }
        let partial = try await paired.readings()
        #expect(partial.count > 0 && partial.count < 400, "\(partial.count)")
        paired.phone.change { $0.fault = nil }
        let result = try await paired.fetch("--json")
        #expect(result.status == 0 && result.output.contains(#""samples":400"#), "\(result.errors)")
        #expect(result.output.contains(#""present":\#(partial.count)"#), "\(result.output)")
        let readings = try await paired.readings()
        #expect(readings.count == 400 && Set(readings.compactMap { $0["id"] as? String }).count == 400)
        #expect(try await paired.run("store", "verify").status == 0)
        await paired.phone.stop()
    }

    @Test("kept samples go to no destination, and the status says why; consent, export and erasure heed them")
    func everywhere() async throws {
        let paired = try await Paired(Self.day)
        let file = paired.scratch.url.appendingPathComponent("delivered.jsonl").path
        let settings = paired.scratch.url.appendingPathComponent("config.yaml").path
        try Data("destinations:\n  - {name: out, kind: file, path: \(file)}\n".utf8).write(
            to: URL(fileURLWithPath: settings))
        #expect(
            try await paired.run("consent", "show", "--config", settings, "--json").output.contains(#""kind":"sleep""#))
        #expect(try await paired.fetch("--config", settings).status == 0)
        #expect(try await paired.run("sync", "--config", settings).status == 0)
        let delivered = try String(contentsOfFile: file, encoding: .utf8)
        #expect(delivered.contains(#""kind":"blood_pressure""#) && delivered.contains(#""kind":"weight""#))
        for kind in ["activity", "sleep", "other"] { #expect(!delivered.contains(#""kind":"\#(kind)""#)) }
        let status = try await paired.run("sync", "status", "--config", settings, "--json")
        try await check("sync_status", status.output)
        #expect(
            status.output.contains(
                #"{"kind":"activity","count":2,"reason":"kept and exported, and not interpreted: no destination is told"}"#
            ),
            "\(status.output)")
        try await check("store_stats", try await paired.run("store", "stats", "--json").output)
        try await check("consent_show", try await paired.run("consent", "show", "--json").output)
        // Pruning removes what was delivered, and leaves what only this store has.
        let pruned = try await paired.run("store", "prune", "--older-than", "0s", "--json")
        #expect(pruned.status == 0, "\(pruned.errors)")
        #expect(try await paired.readings("activity,sleep,other").count == 5)
        let (export, other) = (paired.scratch.url.appendingPathComponent("export").path, try Scratch())
        let secret = paired.scratch.url.appendingPathComponent("passphrase").path
        try Data("a passphrase of some length\n".utf8).write(to: URL(fileURLWithPath: secret))
        #expect(try await paired.run("store", "export", export, "--passphrase-file", secret).status == 0)
        let imported = try await Tool.run(
            ["store", "import", export, "--passphrase-file", secret, "--state-dir", other.state])
        #expect(imported.status == 0, "\(imported.errors)")
        let there = try await Tool.run(
            ["query", "--types", "activity,sleep,other", "--format", "csv", "--state-dir", other.state])
        #expect(there.output.contains(",523,count,steps,2026-11-20T12:00:00Z"), "\(there.output)\(there.errors)")
        let erased = try await paired.run("store", "forget", "--yes", "--json")
        #expect(erased.status == 0, "\(erased.errors)")
        #expect(try await paired.readings().isEmpty)
        await paired.phone.stop()
    }

    @Test("samples of somebody without a name are not stored, and stay on the phone: they come once there is one")
    func unnamed() async throws {
        let paired = try await Paired(Self.day, user: nil)
        let refused = try await paired.fetch("--json")
        #expect(refused.status == 78 && refused.errors.contains("no_user"), "\(refused.errors)")
        #expect(try await paired.readings().isEmpty)
        let stored = try await Tool.run(
            ["healthsync", "fetch", "--store", "--json"] + Self.range + ["--state-dir", paired.scratch.state],
            environment: ["HEALTHRELAY_USER_CLIENT_USER_ID": "ann"])
        #expect(stored.output.contains(#""stored":10,"present":0"#), "\(stored.output)\(stored.errors)")
        await paired.phone.stop()
    }

    @Test(
        "promise 10: while this machine's clock is in doubt nothing is stored, and the samples stay on the phone",
        .enabled("no C compiler") { await FakeClock.library != nil })
    func clockInDoubt() async throws {
        let paired = try await Paired(Self.day)
        // It shows the right time, and nobody says that it is synchronised.
        let doubted = try await FakeClock(paired.scratch).environment.merging(paired.environment) { $1 }
            .merging(["HEALTHRELAY_CLOCK_REQUIRE_SYNC": "true"]) { $1 }
        func strict(_ flags: String...) async throws -> Tool.Result {
            try await Tool.run(
                ["healthsync", "fetch"] + flags + Self.range + ["--state-dir", paired.scratch.state],
                environment: doubted)
        }
        let refused = try await strict("--store", "--json")
        #expect(refused.status == 78 && refused.errors.contains("clock_not_trusted"), "\(refused.errors)")
        let readings = try await paired.readings()
        #expect(readings.isEmpty)
        // What is printed is judged by no clock.
        let printed = try await strict()
        #expect(printed.status == 0 && printed.output.contains("heartRate"), "\(printed.errors)")
        let stored = try await paired.fetch("--json")
        #expect(stored.output.contains(#""stored":10,"present":0"#), "\(stored.output)\(stored.errors)")
        await paired.phone.stop()
    }

    @Test("a date is a day of the person whose samples they are, not of the current user")
    func days() async throws {
        let paired = try await Paired(Self.day)
        let settings = paired.scratch.url.appendingPathComponent("config.yaml")
        try """
        user: {time_zone: Europe/Berlin}
        users: [{client_user_id: ben, time_zone: America/New_York}]

        """.write(to: settings, atomically: true, encoding: .utf8)
        for (person, first, last) in [
            ("ben", "2026-11-20T05:00:00Z", "2026-11-21T04:59:59.999999Z"),
            ("ann", "2026-11-19T23:00:00Z", "2026-11-20T22:59:59.999999Z"),
        ] {
            let result = try await paired.run(
                "healthsync", "fetch", "--store", "--person", person, "--from", "2026-11-20", "--to", "2026-11-20",
                "--json", "--config", settings.path)
            let days = #""from":"\#(first)","to":"\#(last)""#
            #expect(result.output.contains(days), "\(result.output)\(result.errors)")
        }
        await paired.phone.stop()
    }

    @Test("a person that the store doesn't know, and flags that don't go together")
    func usage() async throws {
        let paired = try await Paired(Self.day)
        let stranger = try await paired.fetch("--person", "nobody", "--json")
        #expect(stranger.status == 66 && stranger.errors.contains("no_such_user"), "\(stranger.errors)")
        #expect(try await paired.fetch("--format", "csv").status == 64)
        #expect(try await paired.run("healthsync", "fetch", "--person", "ann").status == 64)
        await paired.phone.stop()
    }
}
