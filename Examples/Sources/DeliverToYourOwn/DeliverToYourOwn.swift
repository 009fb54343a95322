// Delivers the readings of captures to a place of its own: DeliverToYourOwn DIRECTORY CAPTURE... [--erase]

import Foundation
import HCICapture
import HealthDevices
import HealthReadings
import ReadingDelivery
import ReadingStore

/// A table in memory that stands for yours. It takes what is delivered, and gives up what is taken back.
actor Table: Destination {
    nonisolated let name = "table"
    nonisolated let kind = "example"
    nonisolated let rules = DestinationRules(
        kinds: [.glucose, .bloodPressure, .weight], hasUniqueSeconds: false, needsSource: false, canRetract: true)
    private(set) var rows: [ReadingID: String] = [:]

    /// A part may come again if its answer was lost: a row is replaced by its id, never added twice.
    func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        part.items.map { item in
            // What this table can never take is refused alone, with the reason; the rest of the part is delivered.
            guard item.reading.device.address != nil else { return Outcome(item.id, .refused("no device address")) }
            rows[item.reading.id] = "\(item.timestamp) \(part.target.provider) \(part.target.resource.rawValue)"
            return Outcome(item.id, .delivered)
        }
        // If your place cannot be reached, throw a `DeliveryFailure(.destination, …)`: the worker waits and tries again.
    }

    /// Readings that were excluded, replaced or erased after their delivery. One that is not here counts as taken back.
    func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        for item in items { rows[item.reading] = nil }
        return Dictionary(uniqueKeysWithValues: items.map { ($0.key, .delivered) })
    }
}

@main
enum DeliverToYourOwn {
    static func main() async {
        let erases = CommandLine.arguments.contains("--erase")
        let arguments = CommandLine.arguments.dropFirst().filter { $0 != "--erase" }
        guard let directory = arguments.first, arguments.count > 1 else { fail("give a directory and captures") }
        do {
            let store = try await ReadingStore.open(
                directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear",
                timeZone: "Europe/Berlin")
            let reader = MeterReader(journal: store, memory: store)
            for try await meter in try ReplayCentral(paths: Array(arguments.dropFirst())).peripherals() {
                try await reader.read(meter)
            }
            let table = Table()
            let worker = OutboxWorker(store: store, destination: table)
            // One pass. A program that goes on running calls `worker.run()`, which delivers whatever is stored.
            let report = await worker.syncOnce()
            print("\(report.delivered) delivered, \(report.refused) refused, \(await table.rows.count) rows")
            if let failure = report.failure { fail("\(failure)") }

            if erases {
                // Each destination is asked to take back the person's readings.
                try await store.eraseUser(store.currentUser().key, retracts: true)
                let erased = await worker.syncOnce()
                print("\(erased.retracted) taken back, \(await table.rows.count) rows")
            }
            try store.close()
        } catch {
            fail("\(error)")
        }
    }

    static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("DeliverToYourOwn: \(message)\n".utf8))
        exit(1)
    }
}
