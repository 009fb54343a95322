import BlueZCentral
import GATTClient
import Glibc
import HealthDevices
import HealthReadings
import Logging
import Resident

/// Finds, pairs and reads one meter as the gateway does, and says when what was done. Times are CLOCK_MONOTONIC in
/// seconds, like the lab's.
public enum ReadCourse {
    /// Runs the course with the meter of an address and prints one line of JSON.
    public static func run(
        _ address: DeviceAddress, journal: any FrameJournal, memory: any DeviceMemory, pairings: any PairingMemory
    ) async throws {
        let logger = Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() }
        let radio = TimedRadio(BlueZRadio(adapter: nil, logger: logger))
        let manager = DevicesManager(
            radio: radio, journal: journal, memory: memory, pairings: pairings, logger: logger)
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
                + #""records": \#(summary.received), "resident_kb": \#(Resident.most())}"#)
    }

    static func monotonic() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}

/// Lets any device be paired that asks for nothing.
private struct YesAgent: PairingAgent {
    func passkey(shownBy device: Advertisement) async throws -> UInt32 { throw Asked() }
    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }

    private struct Asked: Error {}
}
