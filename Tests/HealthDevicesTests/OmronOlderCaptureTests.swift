import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronOlderCaptureTests {
    private let log = EventLog()
    private let store: RecordingStore
    private static let key = [UInt8](repeating: 0x5A, count: 16)

    init() { store = RecordingStore(log) }

    private func monitor(
        _ model: String, _ records: [Int], _ adjust: (inout EmulatedOmron.Behaviour) throws -> Void = { _ in }
    ) throws -> EmulatedOmron {
        let memory = try #require(Catalogue()[model]?.omronMemory)
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: records)
        (behaviour.key, behaviour.longestRead) = (Self.key, memory.longestRead)
        try adjust(&behaviour)
        return EmulatedOmron(behaviour, log: log)
    }

    @discardableResult private func read(
        _ monitor: EmulatedOmron, as model: String? = nil
    ) async throws -> ContactSummary {
        try await MeterReader(
            journal: store, memory: store, model: model ?? monitor.behaviour.model,
            secrets: Secrets([.device(7): Self.key])
        ).read(monitor)
    }

    @Test("an older capture that is replayed does not vouch for what a cut contact has left out")
    func olderCapture() async throws {
        let monitor = try monitor("omron_hem7143t1", [6])
        let before = try self.monitor("omron_hem7143t1", [6])
        try await read(monitor)
        let memory = monitor.memory
        monitor.change {
            $0.measure(16, user: 0, of: memory, since: 6)
            $0.cutAfterReads = 3
        }
        #expect(try await read(monitor).error == "transfer_interrupted")
        // The capture of the first contact, as `replay` reads it.
        #expect(try await read(before).isComplete)
        monitor.change { $0.cutAfterReads = nil }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 22)
    }
}
