import EncodedSensor
import Foundation
import FreeStyleLibre
import HealthReadings
import TestSupport
import Testing

/// The same memories read by Tests/LibreReference/libre1.py, which shares no code with us.
@Suite("The independent reference")
struct ReferenceTests {
    private static let hasPython = Reference.python != nil
    private static let why: Comment = "python3 is not installed: no memories are compared with the reference"

    private func fields(_ line: String) throws -> (LibreMemory, SensorUID?, PatchInformation?) {
        let words = line.split(separator: " ").map { $0 == "-" ? nil : hex($0) }
        return (
            try LibreMemory(try #require(words.first ?? nil)), try words[1].map { try SensorUID(printed: $0) },
            words[2].map { PatchInformation($0) }
        )
    }

    @Test("memories the reference makes are read as it reads them", .enabled(if: hasPython, why))
    func theirs() throws {
        let seed = Int.random(in: 0...1_000_000)
        let lines = try Reference.run(["random", "\(seed)", "1500"])
        #expect(lines.count == 1500)
        for (number, line) in lines.enumerated() {
            let parts = line.split(separator: "\t").map(String.init)
            let (memory, uid, patch) = try fields(parts[0])
            let ours = summary(memory, uid: uid, patchInformation: patch).text
            guard ours == parts[1] else {
                Issue.record("seed \(seed), line \(number): we read \(ours), the reference \(parts[1])")
                return
            }
        }
    }

    @Test("memories that are encoded here are read by the reference as by us", .enabled(if: hasPython, why))
    func ours() throws {
        var generator = SeededGenerator(seed: .random(in: .min ... .max))
        var lines: [String] = []
        for _ in 0..<600 {
            var sensor = EncodedSensor(age: UInt16(generator.number(0...65535)))
            sensor.state = SensorState(rawValue: UInt8(generator.number(0...6)))
            sensor.calibration = generator.calibration()
            sensor.hasAdvancedEarly = Bool.random(using: &generator)
            sensor.trendLag = generator.number(0...1)
            let noise = generator
            sensor.rule = { _, minute in
                var noise = noise
                for _ in 0...(minute % 5) { _ = noise.next() }
                return noise.record()
            }
            let text = sensor.memory.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            let isNamed = Bool.random(using: &generator)
            lines.append(text + (isNamed ? " E007A00000C0FFEE DF0000010102" : " - -"))
        }
        let theirs = try Reference.run(["decode"], input: lines.joined(separator: "\n") + "\n")
        #expect(theirs.count == lines.count)
        for (line, expected) in zip(lines, theirs) {
            let (memory, uid, patch) = try fields(line)
            guard summary(memory, uid: uid, patchInformation: patch).text == expected else {
                Issue.record(
                    "we read \(line) as \(summary(memory, uid: uid, patchInformation: patch).text), not \(expected)")
                return
            }
        }
    }

    private static let fixtures: [String] =
        ((try? FileManager.default.contentsOfDirectory(atPath: repository.path + "/Fixtures/libre")) ?? [])
        .filter { $0.hasSuffix(".hex") }.sorted()

    @Test("the recorded memories are read as the reference wrote down", arguments: fixtures)
    func fixture(_ name: String) throws {
        let folder = repository.appending(path: "Fixtures/libre")
        let dump = [UInt8](try Data(contentsOf: folder.appending(path: name)))
        let sidecar = folder.appending(path: name.replacing(".hex", with: ".expected.json"))
        let expected = try #require(
            try JSONSerialization.jsonObject(with: try Data(contentsOf: sidecar)) as? [String: Any])
        let uid = try SensorUID(printed: hex(try #require(expected["uid"] as? String)))
        let patch = PatchInformation(hex(try #require(expected["patch_info"] as? String)))
        let ours = summary(try MemoryDump.memory(dump), uid: uid, patchInformation: patch).text
        let read = try #require(try JSONSerialization.jsonObject(with: Data(ours.utf8)) as? NSDictionary)
        let wanted = expected.filter { ["sensor", "readings"].contains($0.key) } as NSDictionary
        #expect(read == wanted)
    }

    @Test("the fixtures are what the reference describes", .enabled(if: hasPython, why))
    func fixturesAreTheirs() throws {
        #expect(Self.fixtures.count >= 6)
        _ = try Reference.run(["fixtures", repository.path + "/Fixtures/libre", "--check"])
    }
}
