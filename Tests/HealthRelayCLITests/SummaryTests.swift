import Foundation
import Testing

@Suite("summary") struct SummaryTests {
    @Test("a day's figures are those of the readings that query prints, by the schema, whichever zone the host is in")
    func day() async throws {
        let scratch = try Scratch()
        func run(_ arguments: String..., zone: String = "UTC") async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--state-dir", scratch.state],
                environment: [
                    "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin", "HEALTHRELAY_USER_CLIENT_USER_ID": "white-bear",
                    "TZ": zone,
                ])
        }
        let captures = ["two-meters", "cuff-three", "glucose-oddities"].map { Tool.fixture($0 + ".btsnoop") }
        for capture in captures { #expect(try await run("replay", capture).status == 0) }
        let result = try await run("summary", "body", "--date", "2026-11-20", "--json")
        #expect(result.status == 0 && result.lines.count == 1, "\(result.errors)")
        #expect(
            try await run("summary", "body", "--date", "2026-11-20", "--json", zone: "Asia/Tokyo").output
                == result.output)
        let file = scratch.url.appendingPathComponent("day.json")
        try Data(result.output.utf8).write(to: file)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["day_summary", file.path])
        #expect(check.status == 0, "\(check.output.suffix(800))")

        let readings = try await run("query", "--from", "2026-11-20", "--to", "2026-11-20", "--format", "ndjson")
        let systolic = try readings.lines.map { try Document($0) }.compactMap { reading -> Double? in
            guard reading["excluded"]?.plain == "null" else { return nil }
            return (reading["blood_pressure"]?["systolic"]?["value"]?.plain).flatMap(Double.init)
        }
        let pressure = try #require(try Document(result.output)["blood_pressure"]?["systolic"])
        func number(_ key: String) -> Double { (pressure[key]?.plain).flatMap(Double.init) ?? .nan }
        #expect(number("count") == Double(systolic.count) && systolic.count > 3)
        #expect(abs(number("average") - systolic.reduce(0, +) / Double(systolic.count)) <= 0.051)
        #expect(number("minimum") == systolic.min() && number("maximum") == systolic.max())

        let days = try await run(
            "summary", "body", "--from", "2026-11-19", "--to", "2026-11-21", "--json", "--no-samples")
        #expect(
            days.lines.count == 3 && days.lines[0].contains(#""readings":0"#) && !days.output.contains(#""samples":["#))
        let text = try await run("summary", "body", "--date", "2026-11-20")
        #expect(text.output.contains("systolic: ") && text.output.contains(" on average"))
    }

    @Test("the vendors' documents of a day, and nothing for a day without readings")
    func vendors() async throws {
        let scratch = try Scratch()
        func run(_ arguments: String..., person: String = "white-bear") async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--state-dir", scratch.state],
                environment: [
                    "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin", "HEALTHRELAY_USER_CLIENT_USER_ID": person,
                ])
        }
        #expect(try await run("replay", Tool.fixture("two-meters.btsnoop")).status == 0)
        let rook = try await run("summary", "body", "--date", "2026-11-20", "--format", "rook")
        #expect(rook.lines.count == 1 && rook.output.contains(#""data_structure":"body_summary""#), "\(rook.errors)")
        let terra = try await run("summary", "body", "--date", "2026-11-20", "--format", "terra")
        // The same document as a query of the day has.
        let query = try await run("query", "--from", "2026-11-20", "--to", "2026-11-20", "--format", "terra")
        #expect(query.lines.contains(terra.lines.first ?? "-"), "\(query.lines)")
        for format in ["terra", "rook"] {
            let empty = try await run("summary", "body", "--date", "2020-01-01", "--format", format)
            #expect(empty.status == 0 && empty.output.isEmpty && empty.errors.contains("nothing was measured"))
        }
    }

    @Test("dates and people that there are not are named")
    func refused() async throws {
        let scratch = try Scratch()
        func status(_ arguments: String...) async throws -> (Int32, String) {
            let result = try await Tool.run(["summary", "body"] + arguments + ["--state-dir", scratch.state])
            return (result.status, result.errors)
        }
        for arguments in [["--date", "2026-02-30"], ["--date", "yesterday"], ["--date", "2026-11-20T00:00:00Z"]] {
            let (code, errors) = try await status(arguments[0], arguments[1])
            #expect(code == 64 && errors.contains("expected a date"), "\(errors)")
        }
        #expect(try await status("--from", "2026-11-20").0 == 64)
        #expect(try await status("--from", "2026-11-21", "--to", "2026-11-20").0 == 64)
        #expect(try await status("--from", "1000-01-01", "--to", "2026-11-20").0 == 64)
        #expect(try await status("--person", "nobody").0 == 66)
    }
}
