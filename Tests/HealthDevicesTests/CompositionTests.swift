import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Synchronization
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

    private static func weight(minute: UInt8? = nil, user: UInt8? = nil) -> (uuid: BluetoothUUID, octets: [UInt8]) {
        let weight = WeightMeasurement(rawWeight: 15_000, timeStamp: minute.map { time($0) }, userID: user)
        return (0x2A9D, weight.encoded)
    }

    private static func fat(
        _ fat: UInt16, minute: UInt8? = nil, user: UInt8? = nil, weight: UInt16? = nil
    ) -> (uuid: BluetoothUUID, octets: [UInt8]) {
        let fields = weight.map { [BodyCompositionMeasurement.Field.weight: $0] } ?? [:]
        let composition = BodyCompositionMeasurement(
            rawBodyFat: fat, timeStamp: minute.map { time($0) }, userID: user, fields: fields)
        return (0x2A9C, composition.encoded)
    }

    private func scale(sending weighings: [(uuid: BluetoothUUID, octets: [UInt8])]) -> EmulatedDevice.Behaviour {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Scale"
        behaviour.more = [(0x2A9C, 0x181B), (0x2A9D, 0x181D)]
        behaviour.weighings = weighings
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

    @Test("a scale that is left while it sends is left behind a weighing, not within one", arguments: [true, false])
    func left(isWeight: Bool) async throws {
        let bench = Bench(
            isWeight
                ? scale(sending: [Self.weight(minute: 15, user: 2), Self.fat(225)]) : scale([Self.first, Self.second]))
        let summary = try await bench.reader.read(bench.device, allRecords: false, until: { true }) { _ in }
        #expect(summary == ContactSummary(isComplete: true, received: isWeight ? 2 : 1))
        #expect(found(bench.store.records) == [one(225, minute: 15, user: 2)])
        #expect(isWeight || bench.store.frames.map(\.payload).contains(Self.second))
        #expect(bench.device.waited == UnpromptedTransfer.company)
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
        // Each packet, and what they are together, once.
        #expect(try await store.statistics().frames == 3)
        try store.close()
    }

    @Test(
        "a composition without a time has time and user of its weight, whichever comes first; read twice, still one",
        arguments: [true, false], [1, 4])
    func weighings(startsWithWeight: Bool, burst: Int) async throws {
        let pairs = [
            (Self.weight(minute: 15, user: 2), Self.fat(225)), (Self.weight(minute: 20, user: 1), Self.fat(300)),
        ]
        var behaviour = scale(sending: pairs.flatMap { startsWithWeight ? [$0.0, $0.1] : [$0.1, $0.0] })
        behaviour.burst = burst
        let bench = Bench(behaviour)
        for _ in 0..<2 {
            #expect(try await bench.read() == ContactSummary(isComplete: true, received: 4))
        }
        #expect(found(bench.store.records) == [one(225, minute: 15, user: 2), one(300, minute: 20, user: 1)])
        #expect(bench.store.readingCount == 4)
        // It is stored as it came, and what it is with its weight beside it.
        #expect(bench.store.frames.contains { $0.format == .bodyCompositionPart && $0.payload == Self.fat(225).octets })
    }

    @Test("two packets without time or user have those of their weight, too", arguments: [true, false])
    func packetsOfWeighing(startsWithWeight: Bool) async throws {
        let packets = [
            BodyCompositionMeasurement(rawBodyFat: 225, fields: [.basalMetabolism: 7000], goesOn: true),
            BodyCompositionMeasurement(rawBodyFat: 225, fields: [.impedance: 5000], goesOn: true),
        ].map { (uuid: BodyCompositionMeasurement.uuid, octets: $0.encoded) }
        let weight = [Self.weight(minute: 15, user: 2)]
        let bench = Bench(scale(sending: startsWithWeight ? weight + packets : packets + weight))
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(found(bench.store.records) == [one(225, minute: 15, user: 2)] && bench.store.readingCount == 2)
    }

    @Test("a composition stays as it came where its weight has nothing to tell, contradicts it, or may be another's")
    func otherWeighings() async throws {
        let (early, late) = (Self.weight(minute: 15, user: 2), Self.weight(minute: 20, user: 1))
        let cases: [([(uuid: BluetoothUUID, octets: [UInt8])], Set<Found>)] = [
            ([Self.weight(), Self.fat(225)], [one(225)]), ([Self.fat(225), Self.weight()], [one(225)]),
            ([Self.fat(225)], [one(225)]),
            // Two in front of their weights: whose is whose?
            ([Self.fat(225), Self.fat(300), early, late], [one(225), one(300)]),
            ([Self.fat(225), Self.fat(300), early, Self.fat(310), late], [one(225), one(300), one(310)]),
            // One more than there are weights.
            ([early, Self.fat(225), Self.fat(300)], [one(225), one(300)]),
            // One less: a weighing in socks stands in front of those of a scale that sends the composition first, or behind
            // those of one that sends the weight first.
            ([early, Self.fat(225), late], [one(225)]),
            ([early, Self.fat(225), late, Self.fat(300), early], [one(225), one(300)]),
            // Two weights: in socks there is no composition, and a scale may send all that it keeps of one kind first.
            ([early, late, Self.fat(225)], [one(225)]), ([Self.fat(225), early, late], [one(225)]),
            ([early, late, Self.fat(225), Self.fat(300)], [one(225), one(300)]),
            ([early, Self.fat(225), late, early, Self.fat(300)], [one(225), one(300)]),
            (
                [Self.fat(225), early, Self.fat(300), late, early, Self.fat(310), late],
                [one(225), one(300), one(310)]
            ),
            // Another user's, another time's, another weight's.
            ([early, Self.fat(225, user: 3)], [one(225, user: 3)]),
            ([Self.fat(225, minute: 16), early], [one(225, minute: 16)]),
            ([early, Self.fat(225, weight: 15_001)], [one(225)]),
            // The pairs may be others then.
            ([early, Self.fat(225), late, Self.fat(300, user: 3)], [one(225), one(300, user: 3)]),
            // A composition that comes again is one composition.
            ([Self.fat(225), Self.fat(225), early], [one(225, minute: 15, user: 2)]),
            ([early, Self.fat(225, user: 2)], [one(225, minute: 15, user: 2)]),
            // Its identity is made of its own time and of the user that it says.
            ([early, Self.fat(225, minute: 15)], [one(225, minute: 15)]),
            ([Self.fat(225, minute: 15, weight: 15_000), early], [one(225, minute: 15)]),
        ]
        for (sent, expected) in cases {
            let bench = Bench(scale(sending: sent))
            #expect(try await bench.read() == ContactSummary(isComplete: true, received: sent.count))
            #expect(found(bench.store.records) == expected, "\(sent)")
        }
    }

    @Test(
        "promise 7: a composition takes the user of its weight, but no time by a clock that was never set",
        arguments: [(2000, 1), (2015, 1), (2026, 12)] as [(UInt16, UInt8)])
    func unsetClock(year: UInt16, month: UInt8) async throws {
        let time = DateTime(year: year, month: month, day: 1, hour: 0, minute: 3, second: 0)
        let weight = WeightMeasurement(rawWeight: 15_000, timeStamp: time, userID: 2)
        // Received on 18 November 2026.
        let bench = Bench(scale(sending: [(0x2A9D, weight.encoded), Self.fat(225)]))
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(found(bench.store.records) == [one(225, user: 2)])
        // A clock that was read is compared, whatever it shows.
        var joiner = CompositionJoiner(hasWeights: true)
        let reception = Instant(seconds: 1_795_000_000)
        for (uuid, octets) in [(BluetoothUUID(0x2A9D), weight.encoded), (BluetoothUUID(0x2A9C), Self.fat(225).octets)] {
            let taken = joiner.take(CharacteristicValue(uuid: uuid, octets: octets, receivedAt: reception))
            #expect(taken.whole.isEmpty)
        }
        let whole = joiner.finish(clockIsKnown: true).map(\.measurement)
        #expect(whole == [BodyCompositionMeasurement(rawBodyFat: 225, timeStamp: time, userID: 2)])
    }

    @Test("a weight that comes again is one weight", arguments: [true, false])
    func repeatedWeight(startsWithWeight: Bool) async throws {
        let weight = Self.weight(minute: 15, user: 2)
        let weights = [weight, weight]
        let bench = Bench(scale(sending: startsWithWeight ? weights + [Self.fat(225)] : [Self.fat(225)] + weights))
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(found(bench.store.records) == [one(225, minute: 15, user: 2)] && bench.store.readingCount == 2)
    }

    @Test("a composition that was stored before it got its weight's time is no other one when its contact is replayed")
    func storedBefore() async throws {
        let start = try #require(Instant(rfc3339: "2026-10-30T06:16:00Z"))
        let store = try await ReadingStore.open(
            directory: FileManager.default.temporaryDirectory
                .appending(path: "composition-\(ProcessInfo.processInfo.globallyUniqueString)").path,
            decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin", now: { start })
        func frame(_ format: FrameFormat, _ payload: [UInt8]) -> Frame {
            Frame(format: format, payload: payload, receivedAt: start, ordinal: 0)
        }
        let weight = frame(FrameFormat(characteristic: 0x2A9D), Self.weight(minute: 15, user: 2).octets)
        let alone = frame(FrameFormat(characteristic: 0x2A9C), Self.composition(225))
        let part = frame(.bodyCompositionPart, Self.composition(225))
        let whole = frame(FrameFormat(characteristic: 0x2A9C), Self.composition(225, minute: 15, user: 2))
        for frames in [[weight, alone], [weight, part, whole], [weight, part, whole]] {
            let contact = try await store.beginContact(
                with: DeviceDescription(address: .device(1), model: "generic_body_composition"), at: start, clock: nil,
                batteryPercent: nil)
            _ = try await store.append(frames, of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 2))
            #expect(try await store.query(ReadingQuery()).readings.count == 2)
        }
        let readings = try await store.query(ReadingQuery()).readings.filter { $0.kind == .bodyComposition }
        #expect(found(readings.map(\.record)) == [one(225, minute: 15, user: 2)])
        // It keeps the time that destinations have it under.
        #expect(readings.map(\.time.basis) == [.reception] && readings.map(\.time.instant) == [start])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("promise 1: where the contact breaks in front of the weight, the composition is a reading of its own")
    func brokenContact() async throws {
        var behaviour = scale(sending: [Self.fat(225), Self.weight(minute: 15, user: 2)])
        behaviour.cutAfter = 1
        let bench = Bench(behaviour)
        #expect(try await bench.read().received == 1)
        #expect(found(bench.store.records) == [one(225)])
    }

    @Test(
        "promise 1: a composition whose second packet, or weight, power takes away is read when the store opens again",
        arguments: [true, false])
    func interrupted(hasPackets: Bool) async throws {
        let now = try #require(Instant(rfc3339: "2026-11-22T00:00:00Z"))
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "composition-\(ProcessInfo.processInfo.globallyUniqueString)").path
        func open() async throws -> ReadingStore {
            try await ReadingStore.open(
                directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear",
                timeZone: "Europe/Berlin", now: { now })
        }
        var store = try await open()
        let behaviour =
            hasPackets
            ? scale([Self.first, Self.second]) : scale(sending: [Self.fat(225), Self.weight(minute: 15, user: 2)])
        let reader = MeterReader(journal: EndingJournal(store, after: 1), memory: store)
        await #expect(throws: EndingJournal.Ended.self) {
            try await reader.read(EmulatedDevice(behaviour, log: EventLog()))
        }
        #expect(try await store.query(ReadingQuery()).readings.isEmpty)
        try store.close()
        store = try await open()
        let readings = try await store.query(ReadingQuery()).readings
        #expect(found(readings.map(\.record)) == [hasPackets ? one(225, minute: 15, user: 2) : one(225)])
        #expect(readings.map(\.time.basis) == [hasPackets ? .assumedZone : .reception])
        #expect(try await store.statistics().pendingFrames == 0)
        #expect(try await store.verify().isEmpty)
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

/// A journal that ends after so many commits, as when power goes.
private final class EndingJournal: FrameJournal {
    struct Ended: Error {}

    private let store: ReadingStore
    private let left: Mutex<Int>

    init(_ store: ReadingStore, after commits: Int) {
        self.store = store
        left = Mutex(commits)
    }

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        let isOn = left.withLock { left in
            left -= 1
            return left >= 0
        }
        guard isOn else { throw Ended() }
        return try await store.append(frames, of: contact)
    }

    func keep(_ growing: Frame, of contact: Contact) async throws { try await store.keep(growing, of: contact) }
}
