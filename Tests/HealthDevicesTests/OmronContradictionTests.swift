import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// A monitor whose owner has chosen another model, and whose sums hold all the same.
@Suite struct OmronContradictionTests {
    private let log = EventLog()
    private let store: RecordingStore
    private static let key = [UInt8](repeating: 0x5A, count: 16)
    /// 2026-09-20T13:25:08, as the clock of an HEM-7380T1 stood (hass-omron).
    private static let clock = [UInt8](hex: "c6a40100000000001a09140d1908d000")

    init() { store = RecordingStore(log) }

    private func monitor(
        _ model: String, _ records: [Int], _ adjust: (inout EmulatedOmron.Behaviour) throws -> Void = { _ in }
    ) throws -> EmulatedOmron {
        let memory = try #require(Catalogue()[model]?.omronMemory)
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: Array(records.prefix(memory.users.count)))
        (behaviour.key, behaviour.longestRead, behaviour.clock) = (Self.key, memory.longestRead, Self.clock)
        try adjust(&behaviour)
        return EmulatedOmron(behaviour, log: log)
    }

    private func read(_ monitor: EmulatedOmron, as model: String) async throws -> ContactSummary {
        try await MeterReader(
            journal: store, memory: store, model: model, secrets: Secrets([.device(7): Self.key])
        ).read(monitor)
    }

    private var recordFrames: Int { store.frames.count { $0.format == .omronRecord } }

    /// The monitor's model, the one that was chosen, and how often each user has measured.
    private static let exchanged: [(String, String, [Int])] = [
        ("omron_hem7155tk4", "omron_hem7155tmw", [5, 3]), ("omron_hem7155tk4", "omron_hem7155tmw", [90, 70]),
        ("omron_hem7155tk4", "omron_hem7155tmw", [0, 9]), ("omron_hem7155tmw", "omron_hem7155tk4", [5, 3]),
        ("omron_hem7155tmw", "omron_hem7155tk4", [30, 0]), ("omron_hem7155tmw", "omron_hem7155tk4", [90, 70]),
        ("omron_hem7155tmw", "omron_hem7155tk4", [0, 9]), ("omron_hem7361t", "omron_hem7155t", [75, 70]),
        ("omron_hem7361t", "omron_hem7155t", [75]), ("omron_hem7157t", "omron_hem7155t", [61]),
        ("omron_hem7386t1", "omron_hem7376t1", [90, 80]),
    ]

    @Test(
        "a layout that would exchange users is refused, the right one is named, and no record is read",
        arguments: exchanged)
    func exchangedUsers(right: String, wrong: String, records: [Int]) async throws {
        let monitor = try monitor(right, records)
        let summary = try await read(monitor, as: wrong)
        #expect(summary.error == "omron_wrong_model", "\(summary)")
        let words = summary.errorDetail ?? ""
        #expect(words.contains(right) && words.contains("paired as \(wrong)"), "\(words)")
        #expect(store.readingCount == 0 && recordFrames == 0 && !store.frames.isEmpty)
        #expect(monitor.sessions == (1, 1) && monitor.writesToMemory == 0)
        // As what it is, it is read whole.
        let count = monitor.memory.count
        #expect(try await read(monitor, as: right).isComplete)
        #expect(store.readingCount == records.map { min($0, count) }.reduce(0, +))
    }

    private static let models = Catalogue().models.filter { $0.omronMemory != nil }.map(\.id)

    @Test("no monitor is refused as the model that it is, whatever its index says", arguments: models)
    func rightModels(_ model: String) async throws {
        let users = try #require(Catalogue()[model]?.omronMemory)
        let indexes: [[Int?]] = [[nil, nil], [0, 0], [0xFFFF, 0xFFFF], [0x1205, 0x0805]]
        for index in indexes {
            for clock in [nil, Self.clock] {
                for records in [[9, 6], [users.count + 7, 4]] {
                    let store = RecordingStore(log)
                    let monitor = try monitor(model, records) { ($0.cursors, $0.clock) = (index, clock) }
                    let summary = try await MeterReader(
                        journal: store, memory: store, model: model, secrets: Secrets([.device(7): Self.key])
                    ).read(monitor)
                    #expect(summary.error == nil, "\(index) \(records): \(summary)")
                    let wanted = records.prefix(users.users.count).map { min($0, users.count) }.reduce(0, +)
                    #expect(store.readingCount == wanted, "\(index) \(records)")
                }
            }
        }
    }

    @Test("an index that makes sense costs no request more; one that makes none is explained before a record is read")
    func requests() async throws {
        let monitor = try monitor("omron_hem7155tk4", [5, 3])
        #expect(try await read(monitor, as: "omron_hem7155tk4").received == 8)
        let first = monitor.reads.prefix(3).map(\.address)
        #expect(first == [0x0260, 0x028C, 0x02E8 + 2 * 16 as UInt16])
        _ = try await read(monitor, as: "omron_hem7155tmw")
        #expect(monitor.reads.map(\.address).prefix(4) == [0x0010, 0x003C, 0x0260, 0x028C])
    }

    @Test("rings of one beginning whose index fits both lengths cannot be told apart")
    func notKnown() async throws {
        let monitor = try monitor("omron_hem7361t", [40, 30])
        #expect(try await read(monitor, as: "omron_hem7155t").isComplete)
    }
}
