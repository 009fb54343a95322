import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronSessionTests {
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

    @Test(
        "promise 3: a session that the monitor ends is no memory that was read",
        arguments: ["omron_hem7322t", "omron_hem7361t", "omron_hem7380t1"])
    func endedByTheMonitor(model: String) async throws {
        let monitor = try monitor(model, [40, 20]) { $0.endsSessionAfterReads = 4 }
        let summary = try await read(monitor)
        #expect(!summary.isComplete && summary.error != nil, "\(summary)")
        monitor.change { $0.endsSessionAfterReads = nil }
        try await read(monitor)
        #expect(store.readingCount == 60)
    }
}
