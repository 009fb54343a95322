import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

@Suite("generic health sensors (1840)")
struct HealthSensorTests {
    /// The part of IEEE 11073-10101 that numbers vital signs. Its type is written out for Swift 6.2.3.
    private static let vitalSigns: UInt32 = 0x2_0000
    private static let saturation = HealthObservation(
        type: vitalSigns + 19384,
        content: .numeric(.init(unit: 544, number: MedFloat32(rawValue: 97))))
    private static let pressure = HealthObservation(
        type: vitalSigns + 18948,
        content: .compound([
            .init(type: vitalSigns + 18949, value: .init(unit: 3872, number: MedFloat32(rawValue: 120))),
            .init(type: vitalSigns + 18950, value: .init(unit: 3872, number: MedFloat32(rawValue: 80))),
        ]))

    private func whole(_ observation: HealthObservation, counter: UInt8 = 0) -> [UInt8] {
        HealthObservationSegment(counter: counter, part: observation.encoded).encoded
    }

    private func bench(
        _ values: [[UInt8]], _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }
    ) -> Bench {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Sensor"
        behaviour.more = [(0x2B8B, 0x1840), (0x2BF4, 0x1840)]
        behaviour.writable = [0x2BF4: nil]
        behaviour.streams[0x2B8B] = values
        adjust(&behaviour)
        return Bench(behaviour)
    }

    @Test("a sensor is told to send once its observations are enabled, and they are kept")
    func observations() async throws {
        let bench = bench([whole(Self.saturation), whole(Self.pressure, counter: 1)])
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(bench.store.contacts.first?.device.model == "generic_health_sensor")
        #expect(Set(bench.store.records.map(\.value.kind)) == [.spo2, .bloodPressure])
        #expect(bench.store.records.allSatisfy { $0.exclusion == nil })
        let events = bench.log.events
        let (enabled, told) = (events.firstIndex(of: .start(0x2B8B)), events.firstIndex(of: .write([1])))
        #expect(try #require(enabled) < #require(told) && events.contains(.start(0x2BF4)))
        #expect(events.contains(.stop(0x2B8B)) && events.contains(.stop(0x2BF4)))
    }

    @Test("an observation in several segments is one record, its segments durable as they came")
    func segmented() async throws {
        let body = Self.pressure.encoded
        let parts = stride(from: 0, to: body.count, by: 12).map { Array(body[$0..<min($0 + 12, body.count)]) }
        let segments = parts.enumerated().map { place, part in
            HealthObservationSegment(
                isFirst: place == 0, isLast: place == parts.count - 1, counter: UInt8(62 + place) & 0x3F, part: part
            ).encoded
        }
        try #require(segments.count == 3)
        let bench = bench(segments + [whole(Self.saturation)])
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(
            Set(bench.store.records.map(\.value.kind)) == [.bloodPressure, .spo2]
                && bench.store.frames.count == 5)
        // A segment that is lost leaves an observation without a record, and the next is read.
        let lossy = self.bench([segments[0], segments[2], whole(Self.saturation)])
        #expect(try await lossy.read() == ContactSummary(isComplete: true, received: 1))
        #expect(lossy.store.records.map(\.value.kind) == [.spo2])
    }

    @Test("a sensor that refuses to be told, or has no control point, is read for what it sends all the same")
    func refused() async throws {
        for adjust in [
            { $0.writable = [:] }, { $0.refusesToNotify = [0x2BF4] }, { $0.more = [(0x2B8B, 0x1840)] },
        ] as [(inout EmulatedDevice.Behaviour) -> Void] {
            let bench = bench([whole(Self.saturation)], adjust)
            #expect(try await bench.read() == ContactSummary(isComplete: true, received: 1))
            #expect(bench.store.records.map(\.value.kind) == [.spo2])
        }
    }

    @Test("another device's control point is never written")
    func others() async throws {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Scale"
        behaviour.more = [(0x2A9D, 0x181D), (0x2BF4, 0x1840)]
        behaviour.writable = [0x2BF4: nil]
        behaviour.streams[0x2A9D] = [[0x00, 0x14, 0x37]]
        let bench = Bench(behaviour)
        #expect(try await bench.read().isComplete)
        #expect(!bench.log.events.contains(.write([1])))
    }

    @Test("the clock of a sensor is its elapsed time")
    func clock() async throws {
        let shown = try #require(WallTime("2026-11-22T08:05:00"))
        let count = UInt64(shown.secondsSinceEpoch - 946_684_800)
        let bench = bench([whole(Self.saturation)]) {
            $0.readable[0x2BF2] = .success(ElapsedTime(flags: 0x20, count: count).encoded + [0, 0])
        }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.contacts.first?.clock?.deviceTime == shown)
    }
}
