import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// When a contact has brought everything that an Omron monitor has, and what may vouch for that.
@Suite struct OmronWholenessTests {
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

    @Test("a monitor that was read as another model is read whole once its model is known")
    func correctedModel() async throws {
        // Thirty slots; the other model has fourteen of the same length at the same place.
        let monitor = try monitor("omron_hem716bt2", [50])
        try await read(monitor, as: "omron_hem7140t1")
        #expect(try await read(monitor).isComplete)
        #expect(Set(store.records.compactMap(\.baseTime)).count == 30)
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
