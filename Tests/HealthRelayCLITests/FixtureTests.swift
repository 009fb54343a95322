import Foundation
import Testing

/// Every recorded capture gives the readings written from the specification beside it.
@Suite struct FixtureTests {
    @Test("a replayed capture gives the expected readings", arguments: Tool.captures)
    func expected(_ name: String) async throws {
        var arguments = [
            "replay", Tool.fixture(name + ".btsnoop"), "--dry-run", "--json", "--time-zone", "Europe/Berlin",
        ]
        let handles = Tool.fixture(name + ".handles.json")
        if FileManager.default.fileExists(atPath: handles) { arguments += ["--handles", handles] }
        let expected = try Document(contentsOf: Tool.fixture(name + ".expected.json"))
        // What no name tells a person says.
        if let model = expected.elements("readings").first?["device"]?["model"]?.plain, model.hasPrefix("omron_hem") {
            arguments += ["--model", model]
        }
        let result = try await Tool.run(arguments)
        #expect(result.status == 0, "\(result.errors)")
        // What a device sends again at a later contact is the same reading; nothing is remembered to tell. Readings of one
        // device come in order; two devices that were connected at once are told one after the other.
        var known: Set<String> = []
        let came = try result.lines.map { try Document($0) }.filter { known.insert($0["id"]?.plain ?? "").inserted }
            .map { $0.without("id") }
        // Nobody has stored them.
        #expect(came.allSatisfy { $0["person"] == .text("null") })
        #expect(Self.byDevice(came.map { $0.without("person") }) == Self.byDevice(expected.elements("readings")))
        #expect(
            result.errors.split(separator: "\n").filter { $0.contains(#""message":"malformed: "#) }.count
                == expected.elements("malformed").count)
    }

    private static func byDevice(_ readings: [Document]) -> [String: [String]] {
        Dictionary(grouping: readings, by: { $0["device"]?.text ?? "" }).mapValues { $0.map(\.text) }
    }

    @Test("promise 11: the order in which captures are named changes nothing")
    func anyOrder() async throws {
        let paths = Tool.captures.map { Tool.fixture($0 + ".btsnoop") }
        func stored(_ paths: [String]) async throws -> [String] {
            let scratch = try Scratch()
            let replayed = try await Tool.run(["replay", "--state-dir", scratch.state] + paths)
            #expect(replayed.status == 0, "\(replayed.errors)")
            let found = try await Tool.run([
                "query", "--limit", "10000", "--format", "ndjson", "--state-dir", scratch.state,
            ])
            return found.lines.sorted()
        }
        let expected = try await stored(paths)
        #expect(expected.count > 100)
        #expect(try await stored(paths.reversed()) == expected)
    }

    @Test("everything is stored, whoever reads what is printed; with --json, what else is told is JSON lines")
    func closedOutput() async throws {
        let captures = ["glucose-first-delivery", "cuff-three", "glucose-oddities"].map {
            Tool.fixture($0 + ".btsnoop")
        }
        func readings(_ scratch: Scratch) async throws -> [String] {
            try await Tool.run(["query", "--format", "ndjson", "--state-dir", scratch.state]).lines.sorted()
        }
        let (whole, cut) = (try Scratch(), try Scratch())
        let replayed = try await Tool.run(["replay", "--json", "--state-dir", whole.state] + captures)
        #expect(replayed.status == 0 && replayed.errors.split(separator: "\n").allSatisfy { $0.hasPrefix("{") })
        let shell = try await Tool.other(
            "sh",
            [
                "-c", "{ '\(Tool.executable.path)' \"$@\"; echo \"status $?\" >&2; } | true", "sh", "replay",
                "--state-dir", cut.state,
            ] + captures)
        #expect(shell.errors.contains("status 0"), "\(shell.errors)")
        let (expected, stored) = (try await readings(whole), try await readings(cut))
        #expect(expected.count > 40 && stored == expected)
    }

    @Test("a capture of which nothing says what its values are ends with an error that names the way out")
    func unidentified() async throws {
        let scratch = try Scratch()
        let result = try await Tool.run([
            "replay", Tool.fixture("glucose-bonded-no-discovery.btsnoop"), "--json", "--state-dir", scratch.state,
        ])
        #expect(result.status == 65 && result.errors.contains("capture_unidentified"), "\(result.errors)")
        #expect(result.errors.contains("--handles"))
    }

    /// A capture of a cuff that has a public address and no serial number, which would also tell it, and the same capture recorded
    /// from behind the event of its connection on.
    static func publicCuff(in directory: URL) throws -> (whole: String, late: String) {
        var octets = [UInt8](try Data(contentsOf: URL(fileURLWithPath: Tool.fixture("quirks-bm96.btsnoop"))))
        let event: [UInt8] = [0x3E, 0x13, 0x01, 0x00]
        let begin = try #require(octets.indices.first { octets[$0...].starts(with: event) })
        octets[begin + 7] = 0
        let (whole, late) = (directory.appendingPathComponent("whole"), directory.appendingPathComponent("late"))
        try Data(octets).write(to: whole)
        octets.removeSubrange(16..<(begin + 21))
        try Data(octets).write(to: late)
        return (whole.path, late.path)
    }

    @Test("a device whose address is typed is the one that was read before, also if its address is a public one")
    func typedAddress() async throws {
        let scratch = try Scratch()
        let cuff = try Self.publicCuff(in: scratch.url)
        func replay(_ arguments: String...) async throws -> Set<String> {
            let result = try await Tool.run(
                ["replay", "--model", "beurer_bm96", "--state-dir", scratch.state] + arguments)
            #expect(result.status == 0, "\(result.errors)")
            let stored = try await Tool.run(["query", "--format", "ndjson", "--state-dir", scratch.state])
            return Set(try stored.lines.map { try Document($0)["id"]?.plain ?? "" })
        }
        let stored = try await replay(cuff.whole)
        #expect(stored.count == 2)
        #expect(try await replay(cuff.late, "--address", "C0:00:00:00:18:27") == stored)
    }

    @Test("there are captures to replay")
    func captures() { #expect(Tool.captures.count >= 8) }
}
