import Foundation
import HealthFigures
import HealthReadings
import Testing

@testable import ReadingFormats

/// What holds for any reading in the formats of single readings and of days.
@Suite("Open mHealth, Terra and ROOK: any reading")
struct SharedPropertyTests {
    private typealias Written = Formatted<[JSONValue]>

    /// A reading's documents in one of the formats; nil where it can't be written.
    private func write(_ format: ReadingFormat, _ reading: Reading, zone: String = "Europe/Berlin") throws -> Written? {
        let context = try Samples.context(zone: zone)
        do {
            switch format {
            case .openMHealth: return try OpenMHealth.dataPoints(of: reading, in: context)
            case .rook: return try RookEvents.documents(of: reading, in: context, clientUUID: "c0ffee")
            default:
                guard let time = reading.time.instant else { return nil }
                var body = TerraBody(LocalDay(of: time, in: context.zone), in: context)
                let omissions = try body.add(reading)
                return Formatted([body.document], omissions: omissions)
            }
        } catch {
            return nil
        }
    }

    private static let formats: [ReadingFormat] = [.openMHealth, .terra, .rook]

    @Test("the documents are JSON, the same each time", arguments: formats)
    func parses(format: ReadingFormat) throws {
        var generated = GeneratedReadings(seed: 21)
        var count = 0
        for _ in 0..<500 {
            let reading = generated.reading()
            guard let written = try write(format, reading) else { continue }
            count += 1
            #expect(try write(format, reading) == written)
            for document in written.document {
                #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(document.text.utf8)) }
            }
            #expect(!written.document.isEmpty)
        }
        #expect(count > 200)
    }

    @Test("nothing that is excluded or has no time is written", arguments: formats)
    func refuses(format: ReadingFormat) throws {
        var generated = GeneratedReadings(seed: 22)
        for _ in 0..<300 {
            let reading = generated.reading()
            guard reading.excluded != nil || reading.time.instant == nil else { continue }
            #expect(try write(format, reading) == nil)
        }
    }

    @Test("ids and instants are those of the reading in any zone", arguments: [ReadingFormat.openMHealth, .rook])
    func zones(format: ReadingFormat) throws {
        var generated = GeneratedReadings(seed: 23)
        for _ in 0..<200 {
            let reading = generated.reading()
            let here = try write(format, reading)
            let there = try write(format, reading, zone: "America/St_Johns")
            func withoutTimes(_ written: Written?) -> [String] {
                (written?.document ?? []).map { $0.text.replacing(/\d{4}-\d\d-\d\dT[^"]*/, with: "") }
            }
            func instants(_ written: Written?) -> [Instant?] {
                (written?.document ?? []).flatMap { document in
                    document.text.matches(of: /\d{4}-\d\d-\d\dT[^"]*/).map { Instant(rfc3339: $0.0) }
                }
            }
            #expect(withoutTimes(here) == withoutTimes(there))
            #expect(instants(here) == instants(there))
            #expect(!instants(here).contains(nil))
        }
    }

    @Test("what is left out is named once", arguments: formats)
    func omissions(format: ReadingFormat) throws {
        var generated = GeneratedReadings(seed: 24)
        for _ in 0..<300 {
            guard let written = try write(format, generated.reading()) else { continue }
            #expect(Set(written.omissions.map(\.part)).count == written.omissions.count)
        }
    }
}
