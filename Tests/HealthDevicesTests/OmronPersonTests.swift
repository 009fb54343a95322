import Foundation
import GATTClient
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// A monitor whose owner says at first that it is another model.
@Suite struct OmronPersonTests {
    private let directory = FileManager.default.temporaryDirectory
        .appending(path: "people-\(ProcessInfo.processInfo.globallyUniqueString)").path
    private static let key = [UInt8](repeating: 0x5A, count: 16)

    @Test("what was read as another person's counts no more when the model is put right, and is stored as whose it is")
    func wrongPerson() async throws {
        // The other model has one user, whose slots reach into those of this one's second.
        var behaviour = try EmulatedOmron.Behaviour.memory("omron_hem7155t", records: [60, 50])
        (behaviour.key, behaviour.longestRead) = (Self.key, 16)
        let monitor = EmulatedOmron(behaviour, log: EventLog())
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
        func read(as model: String) async throws -> (counting: [Reading], superseded: Int) {
            try await MeterReader(
                journal: store, memory: store, model: model, secrets: Secrets([.device(7): Self.key])
            ).read(monitor)
            let readings = try await store.query(ReadingQuery()).readings
            return (
                readings.filter { $0.excluded == nil }, readings.count { $0.excluded == .superseded }
            )
        }
        let wrong = try await read(as: "omron_hem7157t")
        #expect(wrong.counting.count == 100 && wrong.counting.allSatisfy { $0.record.userSlot == 1 })
        let right = try await read(as: "omron_hem7155t")
        #expect(right.counting.count { $0.record.userSlot == 1 } == 60)
        #expect(right.counting.count { $0.record.userSlot == 2 } == 50 && right.superseded == 40)
        #expect(try await store.verify().isEmpty)
        // Put wrong again: what counts follows the model.
        let again = try await read(as: "omron_hem7157t")
        #expect(again.counting.count == 100 && again.counting.allSatisfy { $0.record.userSlot == 1 })
        #expect(try await store.verify().isEmpty)
        try store.close()
        try FileManager.default.removeItem(atPath: directory)
    }
}
