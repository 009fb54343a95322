import Foundation
import HealthReadings
import ReadingImport
import Testing

/// An export as the benchmark generates it, read here and by Python's own parser.
@Suite("Apple Health beside another reader")
struct DifferentialTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func python(_ script: String, _ arguments: String...) throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-X", "utf8", root.appendingPathComponent(script).path] + arguments
        process.standardOutput = output
        try process.run()
        let octets = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return String(decoding: octets, as: UTF8.self)
    }

    @Test("both find the same readings with the same digits, times and sources")
    func same() throws {
        let file = NSTemporaryDirectory() + "export-\(UUID().uuidString).xml"
        defer { try? FileManager.default.removeItem(atPath: file) }
        _ = try Self.python("Benchmarks/Import/generate.py", file, "3")
        let others = try Self.python("Tests/ReadingImportTests/read_export.py", file).split(separator: "\n").map(
            String.init)
        let reader = try ImportFile(path: file).reader(ImportRules(person: "p", zones: []))
        var ours: [String] = []
        while let item = try reader.next() {
            guard case .sample(let sample) = item else {
                Issue.record("\(item)")
                continue
            }
            ours.append(sample.line)
        }
        #expect(others.count > 1000)
        #expect(ours.sorted() == others.sorted())
    }
}

extension ImportedSample {
    /// The line that the Python reader prints.
    fileprivate var line: String {
        let quantities: [Quantity?] =
            switch value {
            case .glucose(let glucose): [glucose.concentration]
            case .bloodPressure(let pressure): [pressure.systolic, pressure.diastolic]
            case .vital(let vital): [vital.main]
            case .kept: [nil]
            }
        let numbers = quantities.map { quantity -> String in
            guard case .value(let number)? = quantity?.number else { return "none" }
            return number.description
        }
        let unit = quantities[0]?.unit.symbol ?? ""
        let (start, last) = (time.instant.seconds, (end ?? time.instant).seconds)
        return [
            kind.rawValue, "\(start)", "\(last)", source ?? "", numbers.joined(separator: "/"), unit,
            isEntered ? "1" : "0",
        ].joined(separator: "|")
    }
}
