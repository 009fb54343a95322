import Foundation
import Testing

@Suite("metrics") struct MetricsTests {
    @Test("devices are merged into one document that is valid, and says nothing of their addresses")
    func merged() async throws {
        let scratch = try Scratch()
        func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--json", "--state-dir", scratch.state],
                environment: ["HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"])
        }
        let empty = try await run("metrics")
        #expect(empty.status == 66 && empty.errors.contains("no_wearable_data") && empty.output.isEmpty)
        let captures = ["two-meters", "cuff-three", "glucose-oddities"].map { Tool.fixture($0 + ".btsnoop") }
        for capture in captures { #expect(try await run("replay", capture).status == 0) }

        let result = try await run("metrics", "--max-age", "36500d")
        #expect(result.status == 0 && result.lines.count == 1, "\(result.errors)")
        #expect(!result.output.contains("C0:00"))
        let file = scratch.url.appendingPathComponent("metrics.json")
        try Data(result.output.utf8).write(to: file)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["metrics", file.path])
        #expect(check.status == 0, "\(check.output.suffix(800)) \(result.output)")
        let document = try Document(result.output)
        let metrics = try #require(document["metrics"])
        #expect(metrics["glucose_mg_dl"] != nil && metrics["systolic_mmhg"] != nil && metrics["diastolic_mmhg"] != nil)
        // The same document again: ids stay.
        #expect(try await run("metrics", "--max-age", "36500d").output == result.output)

        let stale = try await run("metrics", "--max-age", "1")
        #expect(stale.status == 66 && stale.errors.contains("no_wearable_data"), "\(stale.errors)")
        #expect(stale.errors.contains("the newest was measured at"))
        #expect(try await run("metrics", "--person", "nobody").status == 66)
        #expect(try await run("metrics", "--max-age", "soon").status == 64)
        #expect(try await run("metrics", "--max-age", "0").status == 64)
    }
}
