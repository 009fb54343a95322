import BlueZCentral
import Foundation
import GATTClient
import GATTProfiles
import HealthDevices
import HealthReadings
import Logging
import ReadingStore
import Synchronization

/// Finds, pairs and reads one meter as the gateway does, into a store of its own, and says when what was done:
/// `read-benchmark ADDRESS DIRECTORY`. Times are CLOCK_MONOTONIC in seconds, like the lab's.
@main
struct ReadBenchmark {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let address = DeviceAddress(arguments[1]) else {
            throw BenchmarkError.usage
        }
        let logger = Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() }
        let store = try await ReadingStore.open(
            directory: arguments[2], decoder: StandardFrameDecoder(), clientUserID: "bench", timeZone: "Asia/Kolkata",
            logger: logger)
        let radio = TimedRadio(BlueZRadio(adapter: nil, logger: logger))
        let manager = DevicesManager(
            radio: radio, journal: store, memory: store, pairings: store, logger: logger)
        for try await found in manager.search(for: manager.brands.flatMap(manager.devices(for:))) {
            if found.advertisement.address?.bits == address.bits { break }
        }
        _ = try await manager.pair(address, agent: YesAgent())
        radio.disconnects.withLock { $0 = [] }
        let begun = monotonic()
        let summary = try await manager.read(address) { _ in }
        let returned = monotonic()
        let disconnecting = radio.disconnects.withLock { $0.reduce(0) { $0 + $1.took } }
        print(
            #"{"begun": \#(begun), "returned": \#(returned), "disconnecting": \#(disconnecting), "#
                + #""records": \#(summary.received), "resident_kb": \#(mostResident())}"#)
        try store.close()
    }

    static func monotonic() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }

    static func mostResident() -> Int {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_maxrss
    }
}
