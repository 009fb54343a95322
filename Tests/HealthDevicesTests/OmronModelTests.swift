import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronModelTests {
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

    @Test("a monitor that was read as another model is read whole once its model is known")
    func correctedModel() async throws {
        // Thirty slots; the other model has fourteen of the same length at the same place.
        let monitor = try monitor("omron_hem716bt2", [50])
        try await read(monitor, as: "omron_hem7140t1")
        #expect(try await read(monitor).isComplete)
        #expect(Set(store.records.compactMap(\.baseTime)).count == 30)
    }
}
