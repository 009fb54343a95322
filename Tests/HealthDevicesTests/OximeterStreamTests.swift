import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization
import Testing

@testable import HealthDevices

@Suite struct OximeterStreamTests {
    private static func values(_ value: SaturationAndPulse?) -> [Int64?]? {
        value.map { [$0.saturation.number.number?.significand, $0.pulseRate.number.number?.significand] }
    }

    private func read(_ stream: OximeterStream, _ pieces: [String]) -> [[Int64?]] {
        var reader = OximeterStreamReader(stream)
        return pieces.compactMap { Self.values(reader.take([UInt8](hex: $0))) }
    }

    @Test("values that owners of a PC-60FW have logged are read, between curves and battery levels")
    func pc60fw() {
        #expect(
            read(
                .pc60fw,
                [
                    "aa550f07025a57d24c45a7", "aa550f08016239004400c0e3", "aa55f0030303f6", "aa550f08015f55005700c0da",
                    "aa550f06210200000045", "aa550f08016358002300c0d7", "aa550f0801614000510 0c05b",
                ]) == [[98, 57], [95, 85], [99, 88], [97, 64]])
        // In any pieces, behind octets that belong to nothing.
        let all = "00aa5511aa550f07025a57d24c45a7aa550f08016239004400c0e3aa550f08015f55005700c0da"
        var reader = OximeterStreamReader(.pc60fw)
        let read = [UInt8](hex: all).compactMap { Self.values(reader.take([$0])) }
        #expect(read == [[98, 57], [95, 85]])
    }

    @Test("no message of a PC-60FW with a changed bit brings another value")
    func flipped() {
        let octets = [UInt8](hex: "aa550f08016239004400c0e3")
        for place in 0..<(octets.count * 8) {
            var changed = octets
            changed[place / 8] ^= 1 << UInt8(place % 8)
            var reader = OximeterStreamReader(.pc60fw)
            #expect(reader.take(changed) == nil)
        }
        #expect(OximeterStreamReader.checksum(Array("123456789".utf8)[...]) == 0xA1)
    }

    @Test("values of a Jumper and of a Berry are read; what is no value is none")
    func others() {
        #expect(read(.jumper, ["81386344", "80112233", "82010203", "81ff7f00", "813863"]) == [[99, 56]])
        // Pulse 72 and 200 (its eighth bit stands elsewhere), saturation 98; none; and one in two pieces.
        #expect(
            read(.berry, ["8000004862", "8000404862", "80007f7f7f", "4880", "00004862"]) == [
                [98, 72], [98, 200], [98, 72],
            ])
        for stream in OximeterStream.allCases {
            var reader = OximeterStreamReader(stream)
            for _ in 0..<2000 { _ = reader.take((0..<Int.random(in: 0...30)).map { _ in UInt8.random(in: 0...255) }) }
        }
    }

    @Test("a Berry's longer packets are read, and nothing in the middle of one is a value")
    func longPackets() {
        // Saturation 98 and 97, pulse 72 and 73, as a mean and now; a curve in which a shorter packet may be seen; a battery
        // of 90 % and 100 packets a second.
        let first = "ffaa10086261484900001415309ca801005a6471"
        let (without, second) = (
            "ffaa91007f7fffff00000000007f0100005a6474", "ffaad20062615a5b00001415309ca80100da64cf"
        )
        #expect(read(.berry, [first, without, second]) == [[98, 72], [98, 90]])
        // No finger, whatever else is said.
        #expect(read(.berry, ["ffaa10026261484900001415309ca801005a646b"]) == [])
        // In any pieces; a changed octet brings no value, and the next packet is found.
        var reader = OximeterStreamReader(.berry)
        let octets = [UInt8](hex: first + without + second)
        #expect(octets.compactMap { Self.values(reader.take([$0])) } == [[98, 72], [98, 90]])
        for place in 2..<20 {
            var changed = [UInt8](hex: first)
            changed[place] ^= 0x01
            var reader = OximeterStreamReader(.berry)
            #expect(reader.take(changed) == nil, "\(place)")
            #expect(Self.values(reader.take([UInt8](hex: second))) == [98, 90], "\(place)")
        }
    }

    @Test("a stream is told about once a second, as a standard oximeter's values are, and nothing is written or stored")
    func live() async throws {
        let log = EventLog()
        let oximeter = StreamingOximeter(
            .berry, [UInt8](hex: "8000004862"), count: 500, apart: 10_000, name: "BerryMed", log: log)
        let model = try #require(Catalogue().model(for: oximeter.advertisement))
        #expect(model.sendsLive && model.isLiveOnly && model.oximeterStream == .berry)
        var course = LiveCourse(
            oximeter, DeviceDescription(address: .device(1), model: model.id), LivePace(), stream: model.oximeterStream)
        let told = Mutex<[LiveReading]>([])
        try await course.run(try await oximeter.characteristics()) { reading in told.withLock { $0.append(reading) } }
        let readings = told.withLock(\.self)
        #expect((5...6).contains(readings.count), "\(readings.count)")
        #expect(readings.allSatisfy { $0.kind == .spo2 && $0.record.exclusion == nil })
        #expect(readings[0].document.text.contains(#""value":98"#))
        #expect(log.requests.isEmpty)
    }

    @Test("an oximeter with a stream has no records: reading it brings nothing and is no failure")
    func noRecords() async throws {
        let store = RecordingStore(EventLog())
        let oximeter = StreamingOximeter(.jumper, [], count: 0, apart: 1, name: "My Oximeter", log: EventLog())
        let summary = try await MeterReader(journal: store, memory: store).read(oximeter)
        #expect(summary == ContactSummary(isComplete: true, received: 0) && store.frames.isEmpty)
    }

    @Test("each stream has a model, found by its name alone")
    func models() {
        for (name, stream) in [
            ("PC-60F_SN010175", OximeterStream.pc60fw), ("OxySmart 1234", .pc60fw), ("My Oximeter", .jumper),
            ("BerryMed", .berry),
        ] {
            let advertisement = Advertisement(address: nil, name: name, seenAt: Instant(seconds: 0))
            #expect(Catalogue().model(for: advertisement)?.oximeterStream == stream)
        }
        // These services are those of countless other devices too.
        for stream in OximeterStream.allCases {
            let stranger = Advertisement(address: nil, services: [stream.service], seenAt: Instant(seconds: 0))
            #expect(Catalogue().model(for: stranger) == nil)
        }
    }
}

/// An oximeter that sends the same octets again and again, and leaves.
private final class StreamingOximeter: Peripheral {
    private let stream: OximeterStream
    private let octets: [UInt8]
    private let apart: Int64
    private let name: String
    private let log: EventLog
    private let left: Mutex<(count: Int, now: Int64)>

    /// - Parameter apart: microseconds from one value to the next.
    init(_ stream: OximeterStream, _ octets: [UInt8], count: Int, apart: Int64, name: String, log: EventLog) {
        (self.stream, self.octets, self.apart, self.name, self.log) = (stream, octets, apart, name, log)
        left = Mutex((count, 1_795_000_000_000_000))
    }

    var advertisement: Advertisement {
        Advertisement(address: .device(1), name: name, seenAt: Instant(seconds: 0))
    }
    func connect() async throws -> Instant { Instant(seconds: 1_795_000_000) }
    func characteristics() async throws -> [Characteristic] {
        [Characteristic(uuid: stream.values, service: stream.service, valueHandle: 3)]
    }
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue { throw GATTError.attribute(2) }
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        log.note(.write(octets))
    }
    func startNotifying(_ characteristic: Characteristic) async throws { log.note(.start(characteristic.uuid)) }
    func stopNotifying(_ characteristic: Characteristic) async throws { log.note(.stop(characteristic.uuid)) }
    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        left.withLock { left in
            guard left.count > 0 else { return .disconnected }
            (left.count, left.now) = (left.count - 1, left.now + apart)
            return .values([
                CharacteristicValue(
                    uuid: stream.values, octets: octets, receivedAt: Instant(microseconds: left.now))
            ])
        }
    }
    func disconnect() async { log.note(.disconnect) }
}
