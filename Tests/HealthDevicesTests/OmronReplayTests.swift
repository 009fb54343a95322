import GATTClient
import HealthReadings
import Testing

@testable import HCICapture
@testable import HealthDevices

/// A recorded session with an Omron monitor brings the records that the session brought.
@Suite struct OmronReplayTests {
    @Test(
        "a capture of a session is replayed request by request, without the monitor's key",
        arguments: ["omron_hem7322t", "omron_hem7143t1", "omron_hem7380t1"])
    func replay(model: String) async throws {
        let log = EventLog()
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: [7])
        let key = [UInt8](repeating: 0x5A, count: 16)
        behaviour.key = key
        let recorder = SessionRecorder(EmulatedOmron(behaviour, log: log))
        let live = RecordingStore(log)
        try await MeterReader(journal: live, memory: live, model: model, secrets: Secrets([.device(7): key])).read(
            recorder)
        #expect(live.readingCount == 7)

        let replayed = RecordingStore(EventLog())
        let reader = MeterReader(journal: replayed, memory: replayed, model: model)
        let summaries = try await recorder.replay { try await reader.read($0) }
        #expect(summaries.first == ContactSummary(isComplete: true, announced: 7, received: 7))
        func records(_ store: RecordingStore) -> [[UInt8]] {
            store.frames.filter { $0.format == .omronRecord }.map(\.payload)
        }
        #expect(Array(records(replayed).prefix(7)) == records(live) && replayed.readingCount == 7)
    }
}
