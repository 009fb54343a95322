import GATTClient
import HealthDevices
import HealthReadings
import Synchronization
import Testing

/// A device, a store and a reader between them.
struct Bench {
    let log = EventLog()
    let device: EmulatedDevice
    let store: RecordingStore
    let reader: MeterReader
    let reported = Reported()

    final class Reported: Sendable {
        private let state = Mutex<[TransferEvent]>([])
        var events: [TransferEvent] { state.withLock { $0 } }
        func note(_ event: TransferEvent) { state.withLock { $0.append(event) } }

        /// How many readings were new.
        var new: Int { count { if case .new = $0 { true } else { false } } }
        var malformed: Int { count { if case .malformed = $0 { true } else { false } } }

        private func count(_ isIt: (FrameOutcome) -> Bool) -> Int {
            events.reduce(0) { sum, event in
                if case .stored(let outcomes) = event { sum + outcomes.count(where: isIt) } else { sum }
            }
        }
    }

    init(_ behaviour: EmulatedDevice.Behaviour) {
        device = EmulatedDevice(behaviour, log: log)
        store = RecordingStore(log)
        reader = MeterReader(journal: store, memory: store)
    }

    /// A glucose meter with these records.
    init(records: [[UInt8]], burst: Int = 3, _ adjust: (inout EmulatedGlucoseMemory) -> Void = { _ in }) {
        var behaviour = EmulatedDevice.Behaviour()
        var memory = EmulatedGlucoseMemory(records)
        adjust(&memory)
        behaviour.glucose = memory
        behaviour.burst = burst
        self.init(behaviour)
    }

    /// A cuff with these records.
    init(cuff records: [[UInt8]], burst: Int = 1) {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "BLESmart_0000"
        behaviour.cuffRecords = records
        behaviour.burst = burst
        self.init(behaviour)
    }

    /// One contact. Whatever happens, promise 1 is kept.
    @discardableResult
    func read(sourceLocation: SourceLocation = #_sourceLocation) async throws -> ContactSummary {
        log.clear()
        defer {
            let breach = log.breachOfPromise1
            if let breach { Issue.record("promise 1 is broken: \(breach)", sourceLocation: sourceLocation) }
        }
        return try await reader.read(device) { [reported] in reported.note($0) }
    }

    func glucose(_ change: @escaping @Sendable (inout EmulatedGlucoseMemory) -> Void) {
        device.change { behaviour in
            guard var memory = behaviour.glucose else { return }
            change(&memory)
            behaviour.glucose = memory
        }
    }
}

/// A record of 2A35 with a time stamp in the minute after 07:00.
func pressureRecord(_ minute: UInt8, systolic: UInt16 = 127) -> [UInt8] {
    [0x02, UInt8(truncatingIfNeeded: systolic), UInt8(truncatingIfNeeded: systolic >> 8), 79, 0, 0xFF, 0x07]
        + [0xEA, 0x07, 11, 21, 7, minute, 0]
}
