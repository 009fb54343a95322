// Reads meters and keeps nothing on disk: EmbedWithoutStore TIMEZONE [CAPTURE...]
//
// With captures it reads the meters that were recorded, without captures those that come into range.

import BlueZCentral
import Foundation
import GATTClient
import HCICapture
import HealthDevices
import HealthReadings
import Logging

@main
enum EmbedWithoutStore {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        guard let zone = arguments.first.flatMap(ZoneRules.named) else {
            fail("give the time zone of the meters' user, such as Europe/Berlin")
        }
        var logger = Logger(label: "embedder")
        logger.logLevel = .error
        let journal = MemoryJournal(timeZone: zone)
        let reader = MeterReader(journal: journal, memory: journal, logger: logger)
        do {
            let captures = Array(arguments.dropFirst())
            // A capture and a radio are both a `Central`: the rest of the program cannot tell them apart.
            let central: any Central =
                try captures.isEmpty ? BlueZRadio(logger: logger) : ReplayCentral(paths: captures)
            for try await meter in central.peripherals() {
                guard !captures.isEmpty || meter.advertisement.isPaired else { continue }
                try await reader.read(meter) { event in report(event) }
            }
        } catch {
            fail("\(error)")
        }
        let delivered = journal.readings.filter { $0.excluded == nil }
        print("\(journal.readings.count) readings in memory, \(delivered.count) of them to be used")
    }

    static func report(_ event: TransferEvent) {
        switch event {
        case .began(let contact): print("reading \(contact.device.name ?? "a meter")")
        case .progress: break
        case .stored(let outcomes):
            let new = outcomes.count { if case .new = $0 { true } else { false } }
            print("  \(outcomes.count) frames, \(new) new readings")
        case .ended(let summary): print(summary.isComplete ? "  complete" : "  cut: \(summary.error ?? "gaps")")
        }
    }

    static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("EmbedWithoutStore: \(message)\n".utf8))
        exit(1)
    }
}
