import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronPersonFindings {
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

    @Test("finding: what was read as another person's goes when the model is put right")
    func wrongPerson() async throws {
        // The other model has one user, whose slots reach into those of this one's second.
        let monitor = try monitor("omron_hem7155t", [60, 50])
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        for model in ["omron_hem7157t", "omron_hem7155t"] {
            try await MeterReader(
                journal: journal, memory: journal, model: model, secrets: Secrets([.device(7): Self.key])
            ).read(monitor)
        }
        let delivered = journal.readings.filter { $0.excluded == nil }
        #expect(delivered.count == 110, "\(delivered.count)")
    }
}
