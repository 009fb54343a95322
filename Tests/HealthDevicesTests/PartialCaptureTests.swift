import Foundation
import GATTClient
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// A replayed capture vouches for a meter's records only if it shows that the meter had no more.
@Suite struct PartialCaptureTests {
    private static let reportAll: [UInt8] = [1, 1]
    private static let countAll: [UInt8] = [4, 1]
    private static let reportLast: [UInt8] = [1, 6]
    private static let reportFrom50: [UInt8] = [1, 3, 1, 50, 0]

    private let log = EventLog()

    /// Gives a store that is gone afterwards, and a reader into it.
    private func withStore(_ body: (ReadingStore, MeterReader) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "partial-captures-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear",
            timeZone: "Europe/Berlin", now: { Instant(seconds: 1_795_400_000) })
        try await body(store, MeterReader(journal: store, memory: store))
        try store.close()
    }

    /// A meter with these records. It has the address that a ``SessionRecorder`` gives its captures, and no name.
    private func meter(
        _ numbers: ClosedRange<UInt16>, _ adjust: (inout EmulatedGlucoseMemory) -> Void = { _ in }
    ) -> EmulatedDevice {
        var memory = EmulatedGlucoseMemory(glucoseRecords(numbers))
        adjust(&memory)
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(7)
        behaviour.name = nil
        behaviour.glucose = memory
        return EmulatedDevice(behaviour, log: log)
    }

    /// Records how another host asks a meter for these, one after the other.
    private func recording(of meter: EmulatedDevice, _ requests: [[UInt8]]) async throws -> SessionRecorder {
        let recorder = SessionRecorder(meter)
        func take() async throws {
            while case .values(let values) = try await recorder.nextValues(within: .seconds(1)) {
                if values.contains(where: { $0.uuid == GlucoseTransfer.controlPoint }) { return }
            }
        }
        _ = try await recorder.connect()
        let characteristics = try await recorder.characteristics()
        for characteristic in characteristics where characteristic.uuid != 0x2A34 {
            try await recorder.startNotifying(characteristic)
        }
        if let controlPoint = characteristics.first(where: { $0.uuid == GlucoseTransfer.controlPoint }) {
            for request in requests {
                try await recorder.write(request, to: controlPoint, expectingResponse: true)
                try await take()
            }
        } else {
            try await take()
        }
        await recorder.disconnect()
        return recorder
    }

    /// How the contacts end that a capture is replayed as.
    private func replayed(_ recorder: SessionRecorder, _ reader: MeterReader) async throws -> [ContactSummary] {
        try await recorder.replay { try await reader.read($0) }
    }

    private func readings(_ store: ReadingStore) async throws -> Int {
        try await store.query(ReadingQuery(limit: 1000)).readings.count
    }

    @Test(
        "a capture of the newest records leaves the older ones to be read, also where the oldest were read before",
        arguments: [false, true])
    func narrowFilter(hasOldest: Bool) async throws {
        let recorder = try await recording(of: meter(1...60), [Self.reportFrom50])
        try await withStore { store, reader in
            if hasOldest { #expect(try await reader.read(meter(1...40)).isComplete) }
            let summaries = try await replayed(recorder, reader)
            #expect(summaries.map(\.received) == [11] && summaries.map(\.isComplete) == [false])
            #expect(try await readings(store) == (hasOldest ? 51 : 11))
            log.clear()
            #expect(try await reader.read(meter(1...60)).isComplete)
            #expect(log.requests == [Self.reportLast, Self.countAll, Self.reportAll])
            #expect(try await readings(store) == 60)
        }
    }

    @Test("a capture of the newest records that is replayed twice confirms nothing")
    func twice() async throws {
        let recorder = try await recording(of: meter(1...60), [Self.reportFrom50])
        try await withStore { store, reader in
            for _ in 0..<2 {
                let isComplete = try await replayed(recorder, reader).map { $0.isComplete }
                #expect(isComplete == [false])
            }
            #expect(try await reader.read(meter(1...60)).isComplete)
            #expect(try await readings(store) == 60)
        }
    }

    @Test("a capture that holds fewer records than the meter counted stays incomplete when it is replayed again")
    func countDiffers() async throws {
        let recorder = try await recording(of: meter(1...60) { $0.loses = [60] }, [Self.countAll, Self.reportAll])
        try await withStore { store, reader in
            for _ in 0..<2 {
                let isComplete = try await replayed(recorder, reader).map { $0.isComplete }
                #expect(isComplete == [false])
            }
            #expect(try await reader.read(meter(1...60)).isComplete)
            #expect(try await readings(store) == 60)
        }
    }

    @Test("a capture that does not show how its records were asked for leaves the others to be read")
    func noControlPoint() async throws {
        let recorder = try await recording(of: meter(50...60) { $0.hasControlPoint = false }, [])
        try await withStore { store, reader in
            let isComplete = try await replayed(recorder, reader).map { $0.isComplete }
            #expect(isComplete == [false])
            #expect(try await reader.read(meter(1...60)).isComplete)
            #expect(try await readings(store) == 60)
        }
    }

    @Test("behind a capture of all records, only what is new is asked for", arguments: [false, true])
    func allRecords(isCounted: Bool) async throws {
        let requests = (isCounted ? [Self.countAll] : []) + [Self.reportAll]
        let recorder = try await recording(of: meter(1...60), requests)
        try await withStore { store, reader in
            let summaries = try await replayed(recorder, reader)
            #expect(summaries.map(\.isComplete) == [true] && summaries.map(\.received) == [60])
            log.clear()
            #expect(try await reader.read(meter(1...60)).isComplete)
            #expect(log.requests == [Self.reportLast])
            #expect(try await readings(store) == 60)
        }
    }
}
