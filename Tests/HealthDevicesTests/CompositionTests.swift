import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

@Suite("body compositions that come in several values") struct CompositionTests {
    /// 30 October 2026, 07:15, slot 2; 22.5 % of fat, then what has room.
    private static let first: [UInt8] = [
        0x7E, 0x10, 0xE1, 0x00, 0xEA, 0x07, 0x0A, 0x1E, 0x07, 0x0F, 0x00, 0x02, 0x58, 0x1B, 0x90, 0x01, 0xE0, 0x15,
        0xF4, 0x2B,
    ]
    /// The same fat, and the rest.
    private static let second: [UInt8] = [
        0x80, 0x1F, 0xE1, 0x00, 0xA0, 0x28, 0xB0, 0x1D, 0x88, 0x13, 0xC6, 0x38, 0xF4, 0x06,
    ]

    private static func time(_ minute: UInt8) -> DateTime {
        DateTime(year: 2026, month: 10, day: 30, hour: 7, minute: minute, second: 0)
    }

    private static func composition(
        _ fat: UInt16, minute: UInt8? = nil, user: UInt8? = nil
    ) -> [UInt8] {
        BodyCompositionMeasurement(rawBodyFat: fat, timeStamp: minute.map { time($0) }, userID: user).encoded
    }

    private func scale(_ compositions: [[UInt8]]) -> EmulatedDevice.Behaviour {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Scale"
        behaviour.more = [(0x2A9C, 0x181B)]
        behaviour.streams[0x2A9C] = compositions
        return behaviour
    }

    /// What is told of a composition.
    private struct Found: Hashable {
        var fat: Quantity?
        var time: WallTime?
        var user: UInt8?
    }

    private func found(_ records: [Record]) -> Set<Found> {
        var found: Set<Found> = []
        for record in records where record.value.kind == .bodyComposition {
            guard case .vital(let value) = record.value else { continue }
            found.insert(Found(fat: value.main, time: record.baseTime, user: record.userSlot))
        }
        return found
    }

    private func one(_ fat: UInt16, minute: UInt8? = nil, user: UInt8? = nil) -> Found {
        Found(
            fat: BodyCompositionMeasurement(rawBodyFat: fat).bodyFat, time: minute.flatMap { Self.time($0).wallTime },
            user: user)
    }

    @Test("two packets are one reading, with the time and the user of the first; read twice, still one")
    func twoPackets() async throws {
        let bench = Bench(scale([Self.first, Self.second]))
        for _ in 0..<2 {
            #expect(try await bench.read() == ContactSummary(isComplete: true, received: 1))
        }
        #expect(bench.store.records.count == 1 && found(bench.store.records) == [one(225, minute: 15, user: 2)])
        guard let record = bench.store.records.first, case .vital(let value) = record.value else {
            Issue.record("there is no composition")
            return
        }
        #expect(record.exclusion == nil)
        #expect(
            value.quantities.map(\.part) == [
                .bodyFat, .basalMetabolism, .musclePercentage, .muscleMass, .fatFreeMass, .softLeanMass, .bodyWaterMass,
                .impedance, .weight, .height,
            ])
        // They are stored as they came, and what they are together beside them.
        #expect(bench.store.frames.count == 6)
        #expect(Array(bench.store.frames.map(\.payload).prefix(2)) == [Self.first, Self.second])
    }

    @Test("in a store the two packets are one reading of 30 October, 07:15, which reads from its frames as it did")
    func stored() async throws {
        let now = try #require(Instant(rfc3339: "2026-11-22T00:00:00Z"))
        let store = try await ReadingStore.open(
            directory: FileManager.default.temporaryDirectory
                .appending(path: "composition-\(ProcessInfo.processInfo.globallyUniqueString)").path,
            decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin", now: { now })
        let device = EmulatedDevice(scale([Self.first, Self.second]), log: EventLog())
        for _ in 0..<2 {
            let summary = try await MeterReader(journal: store, memory: store).read(device)
            #expect(summary.isComplete && summary.received == 1)
        }
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.map(\.kind) == [.bodyComposition] && readings.map(\.record.userSlot) == [2])
        #expect(readings.map(\.time.instant) == [Instant(rfc3339: "2026-10-30T06:15:00Z")])
        #expect(try await store.verify().isEmpty)
        #expect(try await store.redecode().newReadings == 0)
        try store.close()
    }

    @Test("a first packet whose second one does not come is a reading of its own")
    func lostPacket() async throws {
        let bench = Bench(scale([Self.first, Self.composition(300, minute: 20, user: 1)]))
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(found(bench.store.records) == [one(300, minute: 20, user: 1), one(225, minute: 15, user: 2)])
        #expect(bench.store.frames.count == 3)
        // It came when it came.
        #expect(bench.store.frames.last?.receivedAt == bench.store.frames.first?.receivedAt)
    }

    @Test("only packets of one measurement are joined")
    func packets() throws {
        let first = try BodyCompositionMeasurement(decoding: Self.first)
        let second = try BodyCompositionMeasurement(decoding: Self.second)
        let whole = try #require(first.joined(with: second))
        #expect(whole.fields.count == 9 && !whole.goesOn && whole.timeStamp == first.timeStamp)
        #expect(try BodyCompositionMeasurement(decoding: whole.encoded) == whole)
        #expect(first.joined(with: first) == nil && second.joined(with: first) == nil)
        var other = second
        other.rawBodyFat += 1
        #expect(first.joined(with: other) == nil)
        other = second
        other.isImperial = true
        #expect(first.joined(with: other) == nil)
        other = second
        other.fields[.muscleMass] = 1
        #expect(first.joined(with: other) == nil)
    }
}
