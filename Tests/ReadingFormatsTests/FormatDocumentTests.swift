import Foundation
import GATTClient
import HCICapture
import HealthDevices
import HealthFigures
import HealthReadings
import Testing

@testable import ReadingFormats

/// Writes documents for the validators of `Tests/Formats/check`: what the recorded meters sent, and any reading.
///
/// Runs only where `HEALTHRELAY_FORMAT_DOCUMENTS` names a folder, as `Tests/Formats/run` does.
@Suite("documents for outside validators")
struct FormatDocumentTests {
    private static let folder = ProcessInfo.processInfo.environment["HEALTHRELAY_FORMAT_DOCUMENTS"]

    @Test("documents are written", .enabled(if: folder != nil))
    func write() async throws {
        let folder = URL(filePath: try #require(Self.folder))
        let recorded = try await recordedReadings()
        #expect(recorded.values.joined().count > 30)
        var generated = GeneratedReadings(seed: 11)
        let sets =
            recorded.sorted { $0.key < $1.key } + [
                (
                    "recordings",
                    [
                        RecordingFormatTests.recording(), RecordingFormatTests.recording(.spo2, id: 3),
                        RecordingFormatTests.recording(of: RecordingFormatTests.nightSamples, id: 4),
                        RecordingFormatTests.recording(.spo2, of: RecordingFormatTests.nightSamples, id: 5),
                    ]
                ),
                ("every-kind", try Samples.everyKind()),
                ("generated", (0..<400).map { _ in generated.reading() }),
            ]
        for (name, readings) in sets {
            try writeFHIR(readings, name, to: folder)
            try writePoints(readings, name, to: folder)
            try writeDays(readings, name, to: folder)
        }
        for change in [FHIRChange.revised, .retracted] {
            for (name, readings) in sets.suffix(2) { try writeFHIR(readings, name, as: change, to: folder) }
        }
    }

    /// The readings of each recorded capture, with what came before and after it left out.
    private func recordedReadings() async throws -> [String: [Reading]] {
        let fixtures = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fixtures")
        var readings: [String: [Reading]] = [:]
        for file in try FileManager.default.contentsOfDirectory(at: fixtures, includingPropertiesForKeys: nil)
        where file.pathExtension == "btsnoop" {
            let journal = MemoryJournal(timeZone: try Samples.zone())
            let reader = MeterReader(journal: journal, memory: journal)
            for try await meter in try ReplayCentral(paths: [file.path()]).peripherals() {
                try await reader.read(meter)
            }
            readings[file.deletingPathExtension().lastPathComponent] = journal.readings
        }
        return readings
    }

    private func writeFHIR(
        _ readings: [Reading], _ name: String, as change: FHIRChange = .new, to folder: URL
    ) throws {
        for kind in [FHIRBundle.Kind.transaction, .collection] where kind == .transaction || change == .new {
            var bundle = FHIRBundle(kind)
            for reading in readings {
                do {
                    try bundle.add(reading, in: Samples.context(), as: change)
                } catch {
                    continue
                }
            }
            guard bundle.count > 0 else { continue }
            try write(bundle.document, "fhir-\(name)-\(kind.rawValue)-\(change)", to: folder)
        }
    }

    private func writePoints(_ readings: [Reading], _ name: String, to folder: URL) throws {
        let context = try Samples.context()
        func documents(_ write: (Reading) throws -> Formatted<[JSONValue]>) -> [JSONValue] {
            readings.flatMap { (try? write($0).document) ?? [] }
        }
        let lists = [
            ("open_mhealth", documents { try OpenMHealth.dataPoints(of: $0, in: context) }),
            ("ieee1752", documents { try OpenMHealth.dataPoints(of: $0, in: context, header: .ieee1752) }),
            (
                "rook",
                documents { try RookEvents.documents(of: $0, in: context, clientUUID: "c0ffee", documentVersion: 3) }
            ),
        ]
        for (format, list) in lists where !list.isEmpty {
            try write(.array(list), "\(format)-\(name)", to: folder)
        }
    }

    /// A document for each day that has readings, and one for the day after the last.
    private func writeDays(_ readings: [Reading], _ name: String, to folder: URL) throws {
        let context = try Samples.context()
        var bodies: [LocalDay: TerraBody] = [:]
        for reading in readings {
            guard let time = reading.time.instant else { continue }
            let day = LocalDay(of: time, in: context.zone)
            var body = bodies[day] ?? TerraBody(day, in: context)
            do {
                try body.add(reading)
                bodies[day] = body
            } catch {
                continue
            }
        }
        guard let last = bodies.keys.max(by: { $0.start < $1.start }) else { return }
        bodies[last.next] = TerraBody(last.next, in: context)
        for (day, body) in bodies { try write(body.document, "terra-\(name)-\(day)", to: folder) }
    }

    private func write(_ document: JSONValue, _ name: String, to folder: URL) throws {
        try Data(document.text.utf8).write(to: folder.appending(path: name + ".json"))
    }
}
