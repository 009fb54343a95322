// Prints the readings in captures of Bluetooth traffic, one JSON document a line:
// ReplayToJSON TIMEZONE CAPTURE... [--model ID]
//
// Devices that don't say which model they are, such as Omron's monitors, are read as the model that you name: an id of
// `healthrelay catalog`.

import Foundation
import GATTClient
import HCICapture
import HealthDevices
import HealthReadings

@main
enum ReplayToJSON {
    static func main() async {
        var arguments = Array(CommandLine.arguments.dropFirst())
        var model: String?
        if let option = arguments.firstIndex(of: "--model") {
            guard option + 1 < arguments.count, Catalogue()[arguments[option + 1]] != nil else {
                fail("give the id of a model behind --model, such as omron_hem7322t")
            }
            model = arguments[option + 1]
            arguments.removeSubrange(option...(option + 1))
        }
        guard let zone = arguments.first.flatMap(ZoneRules.named), arguments.count > 1 else {
            fail("give the time zone of the meters' user, such as Europe/Berlin, and the captures")
        }
        let journal = MemoryJournal(timeZone: zone)
        let reader = MeterReader(journal: journal, memory: journal, model: model)
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
