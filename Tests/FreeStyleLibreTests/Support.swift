import EncodedSensor
import Foundation
import FreeStyleLibre
import HealthReadings
import TestSupport
import Testing

extension SeededGenerator {
    mutating func octets(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
    }

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

    /// A record of any bits.
    mutating func record() -> RawRecord { RawRecord(bits: next()) }

    /// A calibration of any bits.
    mutating func calibration() -> FactoryCalibration {
        FactoryCalibration(
            i1: number(0...7), i2: number(0...1023), i3: number(-255...255), i4: number(0...16383),
            i5: number(0...4095) * 4, i6: number(0...4095) * 4)
    }
}

/// Runs a property with a seed of its own each time; a failure shows seed and round.
func forAll(_ times: Int, _ property: (inout SeededGenerator) throws -> Bool) rethrows {
    let seed = UInt64.random(in: .min ... .max)
    var generator = SeededGenerator(seed: seed)
    for round in 0..<trials(times) where try !property(&generator) {
        Issue.record("the property does not hold: seed \(seed), round \(round)")
        return
    }
}

/// Octets written as in documents.
func hex(_ text: some StringProtocol) -> [UInt8] {
    let digits = Array(text.utf8.filter { $0 > 0x20 })
    return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
        UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
    }
}

extension EncodedSensor {
    /// The memory it encodes.
    var decoded: LibreMemory { get throws { try LibreMemory(memory) } }
}

/// What a memory says, in the form the reference prints.
func summary(_ memory: LibreMemory, uid: SensorUID?, patchInformation: PatchInformation?) -> JSONValue {
    .object([
        "sensor": memory.document(uid: uid, patchInformation: patchInformation),
        "readings": .array(memory.records.map(summary)),
    ])
}

private func summary(_ record: Record) -> JSONValue {
    guard let facts = record.sensor, case .glucose(let value) = record.value else { return nil }
    return .object([
        "source": .string(facts.source.name), "minute": .integer(Int64(facts.minute)),
        "raw": .object([
            "glucose": .integer(Int64(facts.glucose)), "temperature": .integer(Int64(facts.temperature)),
            "adjustment": .integer(Int64(facts.adjustment)), "quality": .integer(Int64(facts.quality)),
            "flags": .integer(Int64(facts.flags)), "error": .bool(facts.hasError),
        ]),
        "calibration": .string(facts.calibration.name), "glucose": value.concentration?.document ?? nil,
        "excluded": .optional(record.exclusion?.rawValue),
    ])
}

/// The repository's folder, found from this file or, in a package that borrows these tests, from its own.
let repository: URL = {
    var folder = URL(filePath: #filePath).resolvingSymlinksInPath()
    while folder.pathComponents.count > 1, !FileManager.default.fileExists(atPath: folder.path + "/Fixtures") {
        folder.deleteLastPathComponent()
    }
    return folder
}()

/// The second, independent implementation.
enum Reference {
    static let python = ["/usr/bin/", "/usr/local/bin/", "/bin/"].map { $0 + "python3" }
        .first(where: FileManager.default.isExecutableFile)

    /// What the reference prints for this input, by lines.
    static func run(_ arguments: [String], input: String = "") throws -> [String] {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: try #require(python))
        process.arguments = [repository.path + "/Tests/LibreReference/libre1.py"] + arguments
        process.environment = ["PYTHONDONTWRITEBYTECODE": "1"]
        let file = FileManager.default.temporaryDirectory.appending(path: "libre-\(UUID().uuidString)")
        try Data(input.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        process.standardInput = try FileHandle(forReadingFrom: file)
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

/// A power of a number above 0.
func power(_ base: Double, _ exponent: Double) -> Double { pow(base, exponent) }
