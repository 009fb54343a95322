import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization
import TestSupport
import Testing

@testable import HealthDevices

@Suite struct O2RingTests {
    private let question: [UInt8] = [0xAA, 0x17, 0xE8, 0, 0, 0, 0, 0x1B]

    /// `98 66`: saturation and pulse.
    private static func numbers(_ value: SaturationAndPulse?) -> String? {
        guard let value, let saturation = value.saturation.number.number, let pulse = value.pulseRate.number.number
        else { return nil }
        return "\(saturation) \(pulse)"
    }

    private static func numbers(_ reading: LiveReading) -> String? {
        guard case .vital(let vital) = reading.record.value, let saturation = vital[.saturation]?.number.number,
            let pulse = vital[.pulse]?.number.number
        else { return nil }
        return "\(saturation) \(pulse)"
    }

    private func read(_ payload: [UInt8], status: UInt8 = 0) -> String? {
        var reader = OximeterStreamReader(.o2ring)
        return Self.numbers(reader.take(O2RingAnswer(status: status, payload: payload).encoded))
    }

    // MARK: Frames

    @Test("questions and answers have the octets that several projects have published")
    func published() throws {
        #expect(O2RingQuestion.values.octets == question)
        let size = try O2RingAnswer(decoding: [UInt8](hex: "5500ff00000400e80800006f"))
        #expect(size == O2RingAnswer(payload: [0xE8, 0x08, 0, 0]))
        let refusal = try O2RingAnswer(decoding: [UInt8](hex: "5509f60000000018"))
        #expect(refusal.status == 9 && refusal.payload.isEmpty)
    }

    @Test("values that an owner of an O2Ring has logged are read, those without a finger are none")
    func logged() {
        #expect(read([UInt8](hex: "624200000000006100920a0100")) == "98 66")
        #expect(read([UInt8](hex: "ffffff00000000600005000000")) == nil)
        #expect(read([UInt8](hex: "ffffff00000000620100000000")) == nil)
    }

    @Test("an oximeter that isn't worn, calibrates or refuses shows no number, and neither do 0, 127 and 255")
    func noValue() {
        #expect(read(EmulatedO2Ring.payload(98, 66)) == "98 66")
        #expect(read(EmulatedO2Ring.payload(98, 66, worn: 0)) == nil)
        // It counts down once it was taken off.
        #expect(read(EmulatedO2Ring.payload(98, 66, worn: 0xA0)) == nil)
        for saturation: UInt8 in [0, 101, 127, 255] { #expect(read(EmulatedO2Ring.payload(saturation, 66)) == nil) }
        for pulse: UInt16 in [0, 255, 256, 322, 65_535] { #expect(read(EmulatedO2Ring.payload(98, pulse)) == nil) }
        #expect(read(EmulatedO2Ring.payload(98, 66), status: 1) == nil)
        // Older firmware has no alarms; less than that is another answer.
        #expect(read(Array(EmulatedO2Ring.payload(98, 66).prefix(12))) == "98 66")
        #expect(read(Array(EmulatedO2Ring.payload(98, 66).prefix(11))) == nil)
    }

    @Test("every answer is what its octets say, and none with a changed bit is an answer or brings a value")
    func changedBits() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let payload = (0..<Int.random(in: 0...56, using: &generator)).map { _ in UInt8.random(in: 0...255) }
            let answer = O2RingAnswer(status: .random(in: 0...255), block: .random(in: 0...65_535), payload: payload)
            #expect(try O2RingAnswer(decoding: answer.encoded) == answer)
            var changed = answer.encoded
            let place = Int.random(in: 0..<(changed.count * 8), using: &generator)
            changed[place / 8] ^= 1 << UInt8(place % 8)
            #expect(throws: MalformedFrame.self) { try O2RingAnswer(decoding: changed) }
            #expect(throws: MalformedFrame.self) { try O2RingAnswer(decoding: answer.encoded.dropLast()) }
        }
        let whole = O2RingAnswer(payload: EmulatedO2Ring.payload(98, 66)).encoded
        for place in 0..<(whole.count * 8) {
            var changed = whole
            changed[place / 8] ^= 1 << UInt8(place % 8)
            var reader = OximeterStreamReader(.o2ring)
            #expect(reader.take(changed) == nil && reader.answers == 0)
        }
    }

    @Test("answers are found in any pieces, between octets that belong to none and behind one that lost a piece")
    func pieces() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<100 {
            let values = (0..<5).map { _ in
                (UInt8.random(in: 70...100, using: &generator), UInt16.random(in: 40...200, using: &generator))
            }
            var octets: [UInt8] = []
            for (saturation, pulse) in values {
                octets += (0..<Int.random(in: 0...9, using: &generator)).map { _ in UInt8.random(in: 0...0x54) }
                octets += O2RingAnswer(payload: EmulatedO2Ring.payload(saturation, pulse)).encoded
            }
            var (reader, found) = (OximeterStreamReader(.o2ring), [String]())
            while !octets.isEmpty {
                // Less than an answer, so that each piece ends one at most.
                let count = min(octets.count, Int.random(in: 1...20, using: &generator))
                if let value = Self.numbers(reader.take(Array(octets.prefix(count)))) { found.append(value) }
                octets.removeFirst(count)
            }
            let expected = values.map { "\($0.0) \($0.1)" }
            #expect(found == expected)
            #expect(reader.answers == 5)
        }
        let first = O2RingAnswer(payload: EmulatedO2Ring.payload(91, 60)).encoded
        let second = O2RingAnswer(payload: EmulatedO2Ring.payload(92, 61)).encoded
        var reader = OximeterStreamReader(.o2ring)
        #expect(reader.take(Array(first.prefix(20))) == nil)
        #expect(Self.numbers(reader.take(second)) == "92 61")
    }

    // MARK: A connection

    private func course(_ ring: EmulatedO2Ring) throws -> LiveCourse {
        let model = try #require(Catalogue().model(for: ring.advertisement))
        return LiveCourse(
            ring, DeviceDescription(address: .device(11), model: model.id), LivePace(), stream: model.oximeterStream)
    }

    /// Connects and follows it.
    private func follow(_ ring: EmulatedO2Ring) async throws -> (end: LiveCourse.End, readings: [LiveReading]) {
        let told = Mutex<[LiveReading]>([])
        _ = try await ring.connect()
        var course = try course(ring)
        let end = try await course.run(try await ring.characteristics()) { one in told.withLock { $0.append(one) } }
        return (end, told.withLock(\.self))
    }

    @Test("an oximeter is asked about once a second, for its values and nothing else, and each value is told")
    func live() async throws {
        let log = EventLog()
        let ring = EmulatedO2Ring(log: log) {
            $0.values = { EmulatedO2Ring.payload(90 + UInt8($0 % 10), 60 + UInt16($0)) }
            $0.cutAfterQuestions = 20
        }
        let (end, readings) = try await follow(ring)
        #expect(end == .gone)
        let expected = (0..<20).map { "\(90 + $0 % 10) \(60 + $0)" }
        #expect(readings.compactMap { Self.numbers($0) } == expected)
        #expect(readings.allSatisfy { $0.kind == .spo2 && $0.record.exclusion == nil })
        #expect(log.requests == [[UInt8]](repeating: question, count: 21))
        let pauses = zip(ring.askedAt, ring.askedAt.dropFirst()).map { $1 - $0 }
        #expect(pauses.allSatisfy { (1_000_000...1_200_000).contains($0) }, "\(pauses)")
        #expect(log.events.contains(.stop(Viatom.answers)))
    }

    @Test(
        "a question is written as the oximeter says that it takes it: without a response if it may be",
        arguments: [
            nil, .writeWithoutResponse, .write, [.write, .writeWithoutResponse], [.write, .notify],
        ] as [CharacteristicProperties?])
    func writing(properties: CharacteristicProperties?) async throws {
        let ring = EmulatedO2Ring(log: EventLog()) {
            $0.properties = properties
            $0.cutAfterQuestions = 3
        }
        #expect(try await follow(ring).readings.count == 3)
    }

    @Test("an answer that is lost, damaged or late ends nothing; thirty questions without one do")
    func silence() async throws {
        let faulty = EmulatedO2Ring(log: EventLog()) {
            $0.ignores = { (3..<12).contains($0) }
            $0.damages = [14, 15]
            $0.cutAfterQuestions = 20
        }
        #expect(try await follow(faulty).readings.count == 20 - 9 - 2)
        let late = EmulatedO2Ring(log: EventLog()) {
            $0.delay = 1_400_000
            $0.cutAfterQuestions = 20
        }
        #expect(try await follow(late).readings.count >= 9)
        let silent = EmulatedO2Ring(log: EventLog()) { $0.ignores = { $0 > 4 } }
        let (end, readings) = try await follow(silent)
        #expect(end == .gone && readings.count == 5)
        #expect(silent.askedAt.count == 5 + LiveCourse.mostUnanswered)
        let refusing = EmulatedO2Ring(log: EventLog()) { $0.status = 1 }
        #expect(try await follow(refusing).readings.isEmpty)
        #expect(refusing.askedAt.count == LiveCourse.mostUnanswered)
        // Octets that are no answer are none.
        let mumbling = EmulatedO2Ring(log: EventLog()) { $0.damages = Set(0..<100) }
        #expect(try await follow(mumbling).readings.isEmpty)
        #expect(mumbling.askedAt.count == LiveCourse.mostUnanswered)
    }

    @Test("an oximeter that isn't worn for five minutes is left; one that is put on meanwhile is followed")
    func unworn() async throws {
        let lying = EmulatedO2Ring(log: EventLog()) {
            $0.values = { _ in EmulatedO2Ring.payload(255, 65_535, worn: 0) }
        }
        let (end, readings) = try await follow(lying)
        #expect(end == .unworn && readings.isEmpty && lying.askedAt.count == LiveCourse.mostUnworn)
        #expect(lying.log.events.contains(.stop(Viatom.answers)))
        let putOn = EmulatedO2Ring(log: EventLog()) {
            $0.values = { $0 == 290 ? EmulatedO2Ring.payload(97, 70) : EmulatedO2Ring.payload(0, 0, worn: 0) }
        }
        #expect(try await follow(putOn).readings.count == 1)
        #expect(putOn.askedAt.count == 291 + LiveCourse.mostUnworn)
        // One that calibrates is worn.
        let calibrating = EmulatedO2Ring(log: EventLog()) {
            $0.values = { _ in EmulatedO2Ring.payload(0, 0) }
            $0.cutAfterQuestions = 400
        }
        #expect(try await follow(calibrating).end == .gone && calibrating.askedAt.count == 401)
    }

    @Test("a device with the name and without the characteristics is asked nothing")
    func impostor() async throws {
        let ring = EmulatedO2Ring(log: EventLog()) { $0.canBeAsked = false }
        await #expect(throws: TransferError.self) { try await follow(ring) }
        #expect(ring.log.requests.isEmpty && !ring.log.events.contains(.start(Viatom.answers)))
    }

    // MARK: The manager

    private func bench(_ adjust: (inout EmulatedO2Ring.Behaviour) -> Void = { _ in }) -> (
        ring: EmulatedO2Ring, radio: LoneRadio, clock: ManualClock, manager: DevicesManager, store: RecordingStore
    ) {
        let (ring, clock, store) = (EmulatedO2Ring(log: EventLog(), adjust), ManualClock(), RecordingStore(EventLog()))
        let radio = LoneRadio(ring)
        let manager = DevicesManager(radio: radio, journal: store, memory: store, pairings: store, clock: clock)
        return (ring, radio, clock, manager, store)
    }

    @Test("an oximeter is paired without a bond and without a question, is live, and is asked for what it has recorded")
    func pairing() async throws {
        let (ring, _, _, manager, store) = bench()
        let address = ring.behaviour.address
        #expect(try await manager.liveDevices().isEmpty)
        let device = try await manager.pair(address, within: .seconds(1), agent: TestAgent())
        #expect(device.isPaired && device.isProven && device.model?.id == "viatom_o2ring")
        #expect(try await manager.liveDevices() == [address])
        #expect(ring.log.requests.isEmpty && store.frames.isEmpty)
        #expect(try await manager.devicesWithRecords([address]) == [address])
        let summary = ContactSummary(isComplete: true, announced: 0, received: 0)
        #expect(try await manager.read(address) { _ in } == summary)
        #expect(ring.commands == [0x14] && store.readingCount == 0)
        let impostor = bench { $0.hasService = false }
        let error = await #expect(throws: ContactFailure.self) {
            try await impostor.manager.pair(impostor.ring.behaviour.address, within: .seconds(1), agent: TestAgent())
        }
        #expect(error?.code == "model_not_credible")
    }

    @Test("an oximeter that leaves is followed again when it is heard again, and released when nobody looks any more")
    func reconnect() async throws {
        let (ring, radio, _, manager, store) = bench { $0.cutAfterQuestions = 3 }
        var count = 0
        for try await reading in manager.live([ring.behaviour.address]) {
            #expect(Self.numbers(reading) == "98 66")
            count += 1
            if count % 3 == 0 {
                try await eventually("it has gone") { !ring.isConnected }
                radio.hear()
            }
            if count == 7 { break }
        }
        #expect(ring.connections == 3)
        try await eventually("it is released") { !ring.isConnected }
        #expect(store.frames.isEmpty, "nothing is stored")
    }

    @Test("an oximeter that isn't worn is left alone for a while, also if it is heard, and then looked at again")
    func rest() async throws {
        let (ring, radio, clock, manager, _) = bench {
            $0.values = { $0 < 300 ? EmulatedO2Ring.payload(255, 65_535, worn: 0) : EmulatedO2Ring.payload(97, 71) }
        }
        let told = Task { () -> String? in
            for try await reading in manager.live([ring.behaviour.address]) { return Self.numbers(reading) }
            return nil
        }
        try await eventually("it rests") { clock.sleeps == [LiveCourse.restUnworn] }
        #expect(!ring.isConnected && ring.connections == 1)
        radio.hear()
        clock.advance(by: LiveCourse.restUnworn - .seconds(1))
        try await settle()
        #expect(ring.connections == 1)
        clock.advance(by: .seconds(1))
        #expect(try await told.value == "97 71")
        #expect(ring.connections == 2)
    }

    // MARK: The catalogue

    @Test("the family is known by its names; an O2Ring S, which has another protocol, is none of it")
    func names() {
        func model(_ name: String) -> String? {
            Catalogue().model(for: Advertisement(address: nil, name: name, seenAt: Instant(seconds: 0)))?.id
        }
        for name in ["O2Ring 4512", "O2Ring"] { #expect(model(name) == "viatom_o2ring") }
        for name in ["Checkme O2", "O2 1234", "KidsO2 0001", "SleepU 1234", "SleepO2 1234", "WearO2 1234"] {
            #expect(model(name) == "viatom_checkme_o2", "\(name)")
        }
        for name in ["O2M 1234", "BabyO2 1234", "BabyO2N 1234", "Oxylink 1250", "OxyRing 1234", "OxyU 1234"] {
            #expect(model(name) == "viatom_o2_max", "\(name)")
        }
        for name in [
            "O2Ring S 0541", "O2Ring SF 0541", "O2RMed S 1", "S8-AW 1234", "T8520_e85a", "SHQO2Pro 1", "O2MP 1234",
            "O2",
            "Checkme 1234",
        ] { #expect(model(name) == nil, "\(name)") }
        let models = Catalogue.ownProtocols.filter { $0.oximeterStream == .o2ring }
        #expect(models.map(\.certainty) == [.fromCode, .fromCode, .fromDocuments])
        #expect(models.allSatisfy { $0.sendsLive && !$0.isLiveOnly && $0.pairing == .none && !$0.consumesRecords })
    }
}

/// A radio near which one device is that makes no bond, and that is heard when a test says so.
private final class LoneRadio: Radio {
    private let ring: EmulatedO2Ring
    private let watchers = Mutex<[AsyncThrowingStream<any Peripheral, any Error>.Continuation]>([])

    init(_ ring: EmulatedO2Ring) { self.ring = ring }

    func hear() { for watcher in watchers.withLock(\.self) { watcher.yield(ring) } }

    func adapterStates() -> AsyncStream<AdapterState> {
        AsyncStream { $0.yield(.ready(Adapter(name: "hci0", address: nil))) }
    }
    func advertisements() -> AsyncThrowingStream<Advertisement, any Error> {
        AsyncThrowingStream { $0.yield(ring.advertisement) }
    }
    func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> { AsyncThrowingStream { $0.yield(ring) } }
    func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        AsyncThrowingStream { stream in
            guard addresses.contains(ring.behaviour.address) else { return }
            watchers.withLock { $0.append(stream) }
            stream.yield(ring)
        }
    }
    func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error> {
        AsyncThrowingStream { _ in }
    }
    func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral { ring }
    func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond {
        throw RadioError.pairing(.rejectedByDevice)
    }
    func unpair(_ address: DeviceAddress) async throws -> Bool { false }
    func bonds() async throws -> [Bond] { [] }
}
