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
        do {
            let captures = Array(arguments.dropFirst())
            if captures.isEmpty {
                try await readMeters(into: journal, logger)
            } else {
                // What a capture recorded is read as the meters themselves are.
                let reader = MeterReader(journal: journal, memory: journal, logger: logger)
                for try await meter in try ReplayCentral(paths: captures).peripherals() {
                    try await reader.read(meter) { event in report(event) }
                }
            }
        } catch {
            fail("\(error)")
        }
        let delivered = journal.readings.filter { $0.excluded == nil }
        print("\(journal.readings.count) readings in memory, \(delivered.count) of them to be used")
    }

    /// Reads the paired meters that are near, at the same time.
    static func readMeters(into journal: MemoryJournal, _ logger: Logger) async throws {
        let manager = DevicesManager(radio: BlueZRadio(logger: logger), keepingIn: journal, logger: logger)
        let paired = try await manager.reconcilePairings()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for address in paired {
                group.addTask {
                    do {
                        let read = try await manager.readings(of: address, within: .seconds(30)) { report($0) }
                        print("\(address): \(read.usable.count) new readings", read.failure?.description ?? "")
                    } catch let error as RadioError {
                        print("\(address): \(error)", error.hint ?? "")
                    }
                }
            }
            try await group.waitForAll()
        }
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
