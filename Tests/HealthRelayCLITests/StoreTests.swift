import Foundation
import Testing

/// Captures through the live path into a store, and out again.
@Suite struct StoreTests {
    static let zone = ["HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"]

    @Test("promise 2: replaying everything again is a no-op")
    func twice() async throws {
        let scratch = try Scratch()
        let captures = ["glucose-first-delivery", "cuff-three", "glucose-oddities"].map {
            Tool.fixture($0 + ".btsnoop")
        }
        let first = try await Tool.run(
            ["replay"] + captures + ["--state-dir", scratch.state, "--json"], environment: Self.zone)
        #expect(first.status == 0, "\(first.errors)")
        #expect(first.lines.count >= 48)
        let before = try await Tool.run(["query", "--state-dir", scratch.state, "--format", "json"]).output
        let second = try await Tool.run(["replay"] + captures + ["--state-dir", scratch.state, "--json"])
        #expect(second.status == 0)
        #expect(second.output.isEmpty)
        #expect(try await Tool.run(["query", "--state-dir", scratch.state, "--format", "json"]).output == before)
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }

    @Test("a second delivery brings the new records only, corrected by the 37 minutes the clock is wrong")
    func secondDelivery() async throws {
        let scratch = try Scratch()
        for (name, new) in [("glucose-first-delivery", 22), ("glucose-second-delivery", 6)] {
            let result = try await Tool.run(
                ["replay", Tool.fixture(name + ".btsnoop"), "--state-dir", scratch.state, "--json"],
                environment: Self.zone)
            #expect(result.lines.count == new, "\(name): \(result.errors)")
            let expected = try Document(contentsOf: Tool.fixture(name + ".expected.json")).elements("readings").suffix(
                new)
            let came = try result.lines.map { try Document($0).without("id") }
            #expect(came.compactMap { $0["time"]?.plain } == expected.compactMap { $0["time"]?.plain })
        }
        let all = try await Document(Tool.run(["query", "--state-dir", scratch.state, "--json"]).output)
        #expect(all.elements("readings").count == 28)
        #expect(all["more"]?.text == "false" && all["cursor"]?.text == "null")
    }

    @Test("promise 2: a OneTouch's answers, which carry no number, keep theirs in every replay")
    func oneTouch() async throws {
        let scratch = try Scratch()
        for (name, numbers) in [
            ("quirks-onetouch", ["31", "32", "33", "34", "35"]), ("quirks-onetouch", []),
            ("onetouch-second-delivery", ["36", "37"]), ("onetouch-second-delivery", []),
        ] {
            let result = try await Tool.run(
                ["replay", Tool.fixture(name + ".btsnoop"), "--state-dir", scratch.state, "--json"],
                environment: Self.zone)
            #expect(result.status == 0 && !result.errors.contains("are not in the capture"), "\(result.errors)")
            #expect(try result.lines.compactMap { try Document($0)["sequence"]?.text } == numbers)
        }
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).status == 0)
    }

    @Test("an age to prune by has a unit that nobody takes for another: neither minutes nor seconds by a slip")
    func pruneAge() async throws {
        let scratch = try Scratch()
        for age in ["6m", "90", "0", "", "d", "10x", "1e3d", "101y", "0x10d", "nan"] {
            let result = try await Tool.run(
                ["store", "prune", "--older-than", age, "--json", "--state-dir", scratch.state])
            #expect(result.status == 64, "'\(age)': \(result.errors)")
            #expect(result.errors.contains("expected 12h, 90d, 26w or 2y"), "'\(age)': \(result.errors)")
        }
        for (age, seconds) in [
            ("0s", 0), ("30s", 30), ("12h", 43_200), ("90d", 7_776_000), ("26w", 15_724_800), ("2y", 63_072_000),
        ] {
            let result = try await Tool.run(
                ["store", "prune", "--older-than", age, "--json", "--state-dir", scratch.state])
            #expect(result.status == 0, "\(age): \(result.errors)")
            let limit = try #require(try Document(result.output)["older_than"]?.plain)
            let before = try #require(ISO8601DateFormatter().date(from: String(limit.prefix(19)) + "Z"))
            #expect(abs(before.timeIntervalSinceNow + Double(seconds)) < 300, "\(age): \(limit)")
        }
    }

    @Test("pages go on where they ended, and a page says that there is more")
    func pages() async throws {
        let scratch = try Scratch()
        _ = try await Tool.run(
            ["replay", Tool.fixture("glucose-first-delivery.btsnoop"), "--state-dir", scratch.state],
            environment: Self.zone)
        var cursor: String?
        var ids: [String] = []
        repeat {
            let page = try await Document(
                Tool.run(
                    ["query", "--limit", "5", "--json", "--state-dir", scratch.state]
                        + (cursor.map { ["--cursor", $0] } ?? [])
                ).output)
            ids += page.elements("readings").compactMap { $0["id"]?.plain }
            cursor = page["more"]?.text == "true" ? page["cursor"]?.plain : nil
        } while cursor != nil && ids.count < 100
        #expect(ids.count == 22 && Set(ids).count == 22)
        let lines = try await Tool.run(["query", "--format", "ndjson", "--limit", "5", "--state-dir", scratch.state])
        #expect(lines.lines.count == 5 && lines.errors.contains("--cursor"))
        let csv = try await Tool.run(["query", "--format", "csv", "--json", "--state-dir", scratch.state])
        #expect(csv.lines.count == 23 && csv.lines[0].hasPrefix("id,kind,time,"))
        let day = try await Tool.run(
            ["query", "--from", "2026-11-14", "--to", "2026-11-14", "--format", "ndjson", "--state-dir", scratch.state])
        #expect(day.lines.count == 4)
    }

    @Test("queries print documents of other programs, and count what those cannot say")
    func formats() async throws {
        let scratch = try Scratch()
        for capture in ["glucose-first-delivery", "quirks-taidoc"] {
            _ = try await Tool.run(
                ["replay", Tool.fixture(capture + ".btsnoop"), "--state-dir", scratch.state],
                environment: Self.zone.merging(["HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear"]) { $1 })
        }
        func query(_ format: String, _ more: String...) async throws -> (String, String) {
            let result = try await Tool.run(["query", "--format", format, "--state-dir", scratch.state] + more)
            #expect(result.status == 0)
            return (result.output, result.errors)
        }
        let all = try await Document(Tool.run(["query", "--json", "--state-dir", scratch.state]).output)
            .elements("readings")
        let sent = all.count { $0["excluded"]?.text == "null" }
        #expect(all.count == 28 && sent == 27)
        let excluded = 1

        let fhir = try await query("fhir")
        let entries = try Document(fhir.0).elements("entry").compactMap { $0["resource"]?["resourceType"]?.plain }
        #expect(try Document(fhir.0)["type"]?.plain == "collection")
        #expect(entries.count { $0 == "Observation" } >= sent && entries.contains("Device"))
        #expect(fhir.1.contains("fhir: readings left out: excluded \(excluded)\n"))

        let points = try await query("open_mhealth")
        let ids = try Document(#"{"all":\#(points.0)}"#).elements("all").compactMap { $0["header"]?["id"]?.plain }
        #expect(Set(ids).count == sent && points.1.contains("open_mhealth: readings left out: excluded \(excluded)\n"))

        let rook = try await query("rook")
        #expect(try Document(#"{"all":\#(rook.0)}"#).elements("all").count == sent)
        #expect(rook.1.contains("rook: readings left out: excluded \(excluded)\n"))

        let terra = try await query("terra")
        let days = try Document(#"{"all":\#(terra.0)}"#).elements("all")
        let dates = days.compactMap { $0.elements("data").first?["metadata"]?["start_time"]?.plain.prefix(10) }
        #expect(dates.count == Set(dates).count && dates == dates.sorted(by: >) && dates.count > 1)
        let samples = days.flatMap { $0.elements("data")[0]["glucose_data"]?.elements("blood_glucose_samples") ?? [] }
        #expect(samples.count == sent && !terra.1.contains("not whole"))
        #expect(terra.1.contains("terra: readings left out: excluded \(excluded)\n"))

        // A page that ends within a day says so, as does the one that goes on.
        let page = try await query("terra", "--limit", "5")
        let cursor = try #require(page.1.split(separator: "--cursor ").last?.split(separator: "\n").first)
        #expect(page.1.contains("not whole") && page.1.contains("more: "))
        #expect(try await query("terra", "--cursor", String(cursor)).1.contains("not whole"))
        let newest = try #require(all.first?["time"]?.plain)
        let date = String(try #require(dates.first))
        #expect(try await !query("terra", "--from", date, "--to", date).1.contains("not whole"))
        #expect(try await query("terra", "--to", newest).1.contains("not whole"))
        #expect(try await query("rook", "--from", "2001-01-01", "--to", "2001-01-02").0 == "[]\n")
    }

    @Test("documents of readings of nobody in particular name nobody, and ROOK's, which have to, are not written")
    func nobody() async throws {
        let scratch = try Scratch()
        _ = try await Tool.run(
            ["replay", Tool.fixture("glucose-first-delivery.btsnoop"), "--state-dir", scratch.state],
            environment: Self.zone)
        for format in ["fhir", "open_mhealth", "terra", "rook"] {
            let result = try await Tool.run(["query", "--format", format, "--state-dir", scratch.state])
            #expect(result.status == 0 && !result.output.contains(#":"""#))
            guard format == "rook" else { continue }
            #expect(result.output == "[]\n" && result.errors.contains("rook: readings left out: not_known 22\n"))
        }
    }

    @Test("promise 11: the same capture gives the same octets, whatever the host's zone and locale")
    func sameBytes() async throws {
        let captures = Tool.captures.map { Tool.fixture($0 + ".btsnoop") }
        let arguments = ["replay", "--dry-run", "--json", "--time-zone", "Europe/Berlin"] + captures
        var outputs: [String] = []
        for environment in [
            ["TZ": "UTC", "LC_ALL": "C"], ["TZ": "Pacific/Apia", "LC_ALL": "tr_TR.UTF-8"],
            ["TZ": "America/St_Johns", "LC_ALL": "ar_EG.UTF-8"],
        ] {
            outputs.append(try await Tool.run(arguments, environment: environment).output)
        }
        #expect(!outputs[0].isEmpty)
        #expect(Set(outputs).count == 1)
    }

    @Test("a truncated capture gives its readings, names the octet and exits 65")
    func truncated() async throws {
        let scratch = try Scratch()
        let whole = try Data(contentsOf: URL(fileURLWithPath: Tool.fixture("glucose-first-delivery.btsnoop")))
        let cut = scratch.url.appendingPathComponent("cut.btsnoop")
        try whole.prefix(whole.count - 700).write(to: cut)
        let result = try await Tool.run(
            ["replay", cut.path, "--dry-run", "--json", "--time-zone", "Europe/Berlin"])
        #expect(result.status == 65)
        #expect(result.lines.count > 5)
        let error = try Document(try #require(result.errors.split(separator: "\n").last.map(String.init)))["error"]
        #expect(error?["code"]?.plain == "capture_damaged")
        #expect(error?["message"]?.plain.contains("octet") == true)
    }

    @Test("a transfer that was cut is kept, and says so")
    func interrupted() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run([
            "replay", Tool.fixture("glucose-cut.btsnoop"), "--state-dir", scratch.state, "--json",
        ])
        #expect(result.lines.count == 9)
        #expect(result.errors.contains("interrupted"))
    }

    /// Every setting that may have another value than its standard.
    static let everySetting = [
        "HEALTHRELAY_SERVER_ENVIRONMENT": "production", "HEALTHRELAY_SERVER_REGION": "eu",
        "HEALTHRELAY_SERVER_BASE_URL": "https://user:word@example.org", "HEALTHRELAY_SERVER_API_KEY_FILE": "/key",
        "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
        "HEALTHRELAY_SOURCES_POLICY": "require", "HEALTHRELAY_SOURCES_MAP": "generic_glucose=manual",
        "HEALTHRELAY_SYNC_MODE": "manual", "HEALTHRELAY_HTTP_LISTEN": "[::1]:0", "HEALTHRELAY_LOG_LEVEL": "debug",
    ]

    @Test("documents follow their published schemas")
    func schemas() async throws {
        let scratch = try Scratch()
        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        func record(_ schema: String, _ number: Int, _ text: String) throws {
            try text.write(
                to: documents.appendingPathComponent("\(schema)-\(number).json"), atomically: true, encoding: .utf8)
        }
        let stored = try await Tool.run(
            ["replay"] + Tool.captures.filter { !$0.contains("no-discovery") }.map { Tool.fixture($0 + ".btsnoop") }
                + ["--state-dir", scratch.state, "--json"], environment: Self.zone)
        for (number, line) in stored.lines.enumerated() { try record("reading", number, line) }
        try await record(
            "query", 0, Tool.run(["query", "--json", "--limit", "7", "--state-dir", scratch.state]).output)
        try await record("query", 1, Tool.run(["query", "--json", "--latest", "--state-dir", scratch.state]).output)
        try await record("sync_status", 0, Tool.run(["sync", "status", "--json", "--state-dir", scratch.state]).output)
        try await record("user_show", 0, Tool.run(["user", "show", "--json", "--state-dir", scratch.state]).output)
        try await record("catalog", 0, Tool.run(["catalog", "--json"]).output)
        try await record("error", 0, Tool.run(["decode", "2a18", "00", "--json"]).errors)
        try await record(
            "decode_reading", 0, Tool.run(["decode", "2a18", "130500ea070b140c1e003c005fb011", "--json"]).output)
        try await record("decode_reading", 1, Tool.run(["decode", "2a36", "007800ff07ff07", "--json"]).output)
        let state = ["--json", "--state-dir", scratch.state]
        try await record("store_stats", 0, Tool.run(["store", "stats"] + state).output)
        try await record("store_verify", 0, Tool.run(["store", "verify"] + state).output)
        try await record("store_prune", 0, Tool.run(["store", "prune", "--older-than", "400d"] + state).output)
        try await record("store_trust_clock", 0, Tool.run(["store", "trust-clock"] + state).output)
        try await record(
            "replay_count", 0,
            Tool.run(["replay", "--count", "--json"] + Tool.captures.map { Tool.fixture($0 + ".btsnoop") }).output)
        try await record("config_show", 0, Tool.run(["config", "show", "--json"]).output)
        try await record(
            "config_show", 1, Tool.run(["config", "show", "--json"], environment: Self.everySetting).output)
        try await record("config_path", 0, Tool.run(["config", "path", "--json"]).output)
        try await record("decode_value", 0, Tool.run(["decode", "2a2b", "ea070b140c1e00050000", "--json"]).output)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output.suffix(3000)) \(check.errors.suffix(1000))")
    }
}
