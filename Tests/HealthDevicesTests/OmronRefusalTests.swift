import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronRefusalTests {
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

    @Test("promise 3: records that are refused for a while are read at the next contact")
    func refusedForAWhile() async throws {
        let address = UInt16(0x0098 + 4 * 16)
        let monitor = try monitor("omron_hem7361t", [9]) { $0.refuses[address] = 0xE3 }
        #expect(try await !read(monitor).isComplete, "the slot holds a record, and it was not shown")
        monitor.change { $0.refuses = [:] }
        try await read(monitor)
        #expect(store.readingCount == 9)
    }

    @Test("promise 3: a monitor that shows nothing of its memory is not read whole")
    func refusesEverything() async throws {
        let monitor = try monitor("omron_hem7322t", [40, 20]) { $0.longestRead = 0 }
        let summary = try await read(monitor)
        #expect(!summary.isComplete, "\(summary)")
    }

    @Test("of a full ring, a refused block does not hide what lies behind it")
    func refusedInAFullRing() async throws {
        // The newest is slot 9; 99 … 10 are older. Slot 99 is refused.
        let monitor = try monitor("omron_hem7361t", [110]) { $0.refuses[UInt16(0x0098 + 99 * 16)] = 0xE3 }
        try await read(monitor)
        #expect(store.readingCount == 99)
    }
}
