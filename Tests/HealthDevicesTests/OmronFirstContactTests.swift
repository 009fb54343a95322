import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronFirstContactTests {
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

    @Test("at the first contact every slot is looked at, whatever the index says", arguments: [6, 0, 1])
    func wrongCursor(cursor: Int) async throws {
        let monitor = try monitor("omron_hem7143t1", [20]) { $0.cursors = [cursor] }
        #expect(try await read(monitor).received == 20)
        #expect(store.readingCount == 20)
    }
}
