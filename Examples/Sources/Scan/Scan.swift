// Scans for meters near this machine: Scan [SECONDS]

import BlueZCentral
import Foundation
import GATTClient
import HealthDevices
import HealthReadings

@main
enum Scan {
    static func main() async {
        let seconds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 10
        guard let utc = ZoneRules.named("UTC") else { return }
        // A scan stores nothing, so a journal in memory is enough.
        let journal = MemoryJournal(timeZone: utc)
        let radio = BlueZRadio()
        let manager = DevicesManager(radio: radio, journal: journal, memory: journal, pairings: journal)
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await Self.printMeters(manager) }
                group.addTask { try await Task.sleep(for: .seconds(seconds)) }
                // Whichever ends first ends the other: the scan, or the time it was given.
                try await group.next()
                group.cancelAll()
            }
        } catch let error as RadioError {
            fail("\(error); \(error.hint ?? "")")
        } catch {
            fail("\(error)")
        }
        await radio.close()
    }

    static func printMeters(_ manager: DevicesManager) async throws {
        for try await found in manager.search() {
            let meter = found.advertisement
            let signal = meter.rssi.map { "\($0) dBm" } ?? "-"
            print(meter.address?.description ?? "-", meter.name ?? "-", found.model?.name ?? "-", signal)
        }
    }

    static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("Scan: \(message)\n".utf8))
        exit(1)
    }
}
