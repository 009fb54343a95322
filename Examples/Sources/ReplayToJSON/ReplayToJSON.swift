// Prints the readings in captures of Bluetooth traffic, one JSON document a line: ReplayToJSON TIMEZONE CAPTURE...

import Foundation
import GATTClient
import HCICapture
import HealthDevices
import HealthReadings

@main
enum ReplayToJSON {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        guard let zone = arguments.first.flatMap(ZoneRules.named), arguments.count > 1 else {
            fail("give the time zone of the meters' user, such as Europe/Berlin, and the captures")
        }
        let journal = MemoryJournal(timeZone: zone)
        let reader = MeterReader(journal: journal, memory: journal)
        do {
            let central = try ReplayCentral(paths: Array(arguments.dropFirst()))
            // Each connection in the captures is a meter, which answers as it did when it was recorded.
            for try await meter in central.peripherals() {
                let summary = try await reader.read(meter)
                if let error = summary.error { warn("\(meter.advertisement.name ?? "a meter"): \(error)") }
            }
            for warning in central.warnings { warn("\(warning)") }
        } catch {
            fail("\(error)")
        }
        // A context may come after its record, so readings are printed when all of them are there.
        for reading in journal.readings { print(reading.document.text) }
    }

    static func warn(_ message: String) { FileHandle.standardError.write(Data("ReplayToJSON: \(message)\n".utf8)) }

    static func fail(_ message: String) -> Never {
        warn(message)
        exit(1)
    }
}
