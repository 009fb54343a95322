import Foundation
import Testing

/// `move`, as a person runs it.
@Suite("Readings that are another person's, on the command line") struct MoveCommandTests {
    @Test("readings and a device's readings move, after a question or --yes, and stay moved when they are read again")
    func course() async throws {
        let scratch = try Scratch()
        let settings = scratch.url.appendingPathComponent("config.yaml")
        try """
        user: {client_user_id: white_bear, time_zone: Europe/Berlin}
        users: [{client_user_id: anna, time_zone: Europe/Berlin}]
        bluetooth: {adapter: none}
        destinations: [{name: lines, kind: file, path: \(scratch.url.path)/lines.jsonl}]

        """.write(to: settings, atomically: true, encoding: .utf8)
        func tool(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(arguments + ["--state-dir", scratch.state, "--config", settings.path])
        }
        func owners() async throws -> [String: Int] {
            let readings = try await Document(tool("query", "--json").output).elements("readings")
            return Dictionary(grouping: readings, by: { $0["person"]?.plain ?? "" }).mapValues(\.count)
        }
        #expect(try await tool("replay", Tool.fixture("two-meters.btsnoop")).status == 0)
        #expect(try await tool("sync").status == 0)
        let stored = try await Document(tool("query", "--json").output).elements("readings")
        let delivered = stored.filter { !$0.elements("deliveries").isEmpty }
        let id = try #require(delivered.first?["id"]?.plain)
        let asked = try await tool("move", id, "--to-person", "anna", "--json")
        #expect(asked.status == 64 && asked.errors.contains("confirmation_needed"), "\(asked.errors)")
        #expect(asked.errors.contains("lines has 1 of them"))
        let one = try await tool("move", id, "--to-person", "anna", "--yes", "--json")
        #expect(one.status == 0, "\(one.errors)")
        let file = scratch.url.appendingPathComponent("move.json")
        try one.output.write(to: file, atomically: true, encoding: .utf8)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["move", file.path])
        #expect(check.status == 0, "\(check.output)")
        #expect(try await owners() == ["anna": 1, "white_bear": stored.count - 1])
        #expect(try await tool("sync").status == 0)
        let lines = try String(contentsOf: scratch.url.appendingPathComponent("lines.jsonl"), encoding: .utf8)
            .split(separator: "\n").filter { $0.contains(id) }
        #expect(
            lines.count == 3 && lines[1].contains("\"retracted\":true") && lines[1].contains("white_bear"), "\(lines)")
        #expect(lines.last?.contains("\"person\":\"anna\"") == true && lines.last?.contains("retracted") == false)

        let address = try #require(delivered.first?["device"]?["address"]?.plain)
        let moved = try await tool("move", "--device", address.lowercased(), "--to-person", "anna", "--yes")
        #expect(moved.status == 0 && moved.output.contains("1 theirs already"), "\(moved.output) \(moved.errors)")
        let after = try await owners()
        #expect(try await tool("replay", Tool.fixture("two-meters.btsnoop")).status == 0)
        #expect(try await owners() == after)
        #expect(try await tool("store", "verify").status == 0)
        for (arguments, status) in [
            (["move", "--to-person", "anna"], 64), (["move", id, "--device", address, "--to-person", "anna"], 64),
            (["move", id, "--slot", "1", "--to-person", "anna"], 64), (["move", "xyz", "--to-person", "anna"], 64),
            (["move", id, "--to-person", "nobody", "--yes"], 66),
            (["move", "--device", "00:00:00:00:00:01", "--to-person", "anna", "--yes"], 66),
            (["move", String(repeating: "0", count: 32), "--to-person", "anna", "--yes"], 66),
        ] as [([String], Int32)] {
            let result = try await Tool.run(arguments + ["--state-dir", scratch.state, "--config", settings.path])
            #expect(result.status == status, "\(arguments): \(result.errors)")
        }
        #expect(try await owners() == after)
    }
}
