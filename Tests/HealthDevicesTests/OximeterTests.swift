import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

@Suite struct OximeterTests {
    /// The maker's kit (viatomEcho/LepuBle, `PC60FwBleResponse.RtDataParam`): bit 1 of the octet behind the perfusion says
    /// that no finger is there, bit 2 that the pulse is still looked for.
    @Test("a PC-60FW that says that its probe is off has no value", arguments: [0x02, 0x06] as [UInt8])
    func probeOff(status: UInt8) {
        let body: [UInt8] = [0xAA, 0x55, 0x0F, 0x08, 0x01, 98, 57, 0, 68, status, 0xC0]
        var reader = OximeterStreamReader(.pc60fw)
        #expect(reader.take(body + [OximeterStreamReader.checksum(body[...])]) == nil)
    }

    // MARK: Spot checks without a time

    /// 97 % and 72 beats a minute, as an unset clock shows the second.
    private static func unset(_ second: UInt8, _ saturation: UInt8 = 97) -> [UInt8] {
        [0x11, saturation, 0x00, 72, 0x00, 0xDF, 0x07, 1, 1, 0, 0, second]
    }

    /// Without any time stamp.
    private static func unstamped(_ saturation: UInt8 = 97) -> [UInt8] { [0x00, saturation, 0x00, 72, 0x00] }

    /// Without any time stamp, and with the status that it comes from the memory.
    private static func recalled(_ saturation: UInt8 = 97) -> [UInt8] {
        [0x02, saturation, 0x00, 72, 0x00, 0x00, 0x02]
    }

    private static func oximeter(
        _ stored: [[UInt8]], sends unasked: [[UInt8]] = [], burst: Int = 1
    ) -> EmulatedDevice.Behaviour {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Oximeter"
        behaviour.more = [(0x2A5E, 0x1822), (0x2A52, 0x1822)]
        behaviour.spotChecks = (stored: stored, answer: 1)
        behaviour.streams[0x2A5E] = unasked
        behaviour.burst = burst
        return behaviour
    }

    private func newJournal() throws -> MemoryJournal {
        MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
    }

    private func saturation(_ reading: Reading) -> Int64? {
        guard case .vital(let vital) = reading.record.value else { return nil }
        return vital[.saturation]?.number.number?.significand
    }

    @Test(
        "promise 2 and 7: a stored spot check without a usable time is one reading however often it comes, of no time",
        arguments: [1, 8])
    func stored(burst: Int) async throws {
        // Equal values at two seconds of an unset clock are two; so are two that nothing tells apart.
        let memory = [Self.unset(1), Self.unset(2), Self.unstamped(), Self.unstamped(), Self.unset(3, 95)]
        let bench = Bench(Self.oximeter(memory, burst: burst))
        for contact in 0..<3 {
            #expect(try await bench.read().isComplete)
            #expect(bench.store.readingCount == 5, "contact \(contact)")
        }
        bench.device.change { $0.spotChecks = (stored: memory + [Self.unset(4)], answer: 1) }
        try await bench.read()
        #expect(bench.store.readingCount == 6)

        let journal = try newJournal()
        let device = EmulatedDevice(Self.oximeter(memory, burst: burst), log: EventLog())
        for _ in 0..<2 { try await MeterReader(journal: journal, memory: journal).read(device) }
        #expect(journal.readings.count == 5)
        #expect(journal.readings.allSatisfy { $0.excluded == .noTime && $0.time.instant == nil })
        let stamps = Set(journal.readings.compactMap { $0.record.baseTime?.description })
        #expect(stamps == ["2015-01-01T00:00:01", "2015-01-01T00:00:02", "2015-01-01T00:00:03"])
        #expect(journal.readings.allSatisfy { $0.record.deviceTime == nil })
    }

    @Test("what an oximeter measures now has the time of its reception, before it is asked and once it has answered")
    func live() async throws {
        for burst in [1, 8] {
            var behaviour = Self.oximeter([Self.unstamped(96)], sends: [Self.unstamped(98)], burst: burst)
            behaviour.measuresThen = [Self.unstamped(99)]
            let (journal, device) = (try newJournal(), EmulatedDevice(behaviour, log: EventLog()))
            try await MeterReader(journal: journal, memory: journal).read(device)
            #expect(journal.readings.map(saturation) == [98, 96, 99], "\(burst)")
            #expect(journal.readings.map(\.excluded) == [nil, .noTime, nil], "\(burst)")
            #expect(journal.readings.map(\.time.basis) == [.reception, .unknown, .reception], "\(burst)")
        }
    }

    @Test("promise 1: what an oximeter measures that never answers its control point has the time of its reception")
    func neverAnswers() async throws {
        var behaviour = Self.oximeter([])
        behaviour.spotChecks = nil
        behaviour.measuresLater = [Self.unstamped(98)]
        let (journal, device) = (try newJournal(), EmulatedDevice(behaviour, log: EventLog()))
        for _ in 0..<2 {
            device.change { $0.measuresLater = [Self.unstamped(98), Self.recalled(96)] }
            #expect(try await MeterReader(journal: journal, memory: journal).read(device).isComplete)
        }
        // What says that it comes from the memory does, and is one.
        #expect(journal.readings.map(saturation) == [98, 96, 98])
        #expect(journal.readings.map(\.excluded) == [nil, .noTime, nil])
        // One that measures nothing either is waited for as long as one that cannot be asked.
        let idle = EmulatedDevice(behaviour, log: EventLog())
        idle.change { $0.measuresLater = [] }
        #expect(try await MeterReader(journal: journal, memory: journal).read(idle).isComplete)
        #expect(idle.waited == UnpromptedTransfer.measurement)
    }

    @Test(
        "an oximeter that is connected as soon as a finger is in it is waited for until it has measured",
        arguments: ["Oximeter", "Nonin3230_502644"], [true, false])
    func measuring(name: String, canBeAsked: Bool) async throws {
        var behaviour = Self.oximeter([])
        behaviour.name = name
        behaviour.spotChecks = nil
        if !canBeAsked { behaviour.more = [(0x2A5E, 0x1822)] }
        behaviour.measuringTime = .seconds(40)
        behaviour.measuresLater = [Self.unstamped(98)]
        let (journal, device) = (try newJournal(), EmulatedDevice(behaviour, log: EventLog()))
        let summary = try await MeterReader(journal: journal, memory: journal).read(device)
        #expect(summary == ContactSummary(isComplete: true, received: 1))
        #expect(journal.readings.map(saturation) == [98] && journal.readings[0].time.basis == .reception)
    }

    @Test("promise 2: recalled values count among the others, which keep their ids when an old capture is replayed")
    func ordinals() async throws {
        var behaviour = Self.oximeter([Self.unstamped(96)], sends: [Self.unstamped(98)])
        behaviour.measuresThen = [Self.unstamped(99)]
        let bench = Bench(behaviour)
        try await bench.read()
        let formats = [FrameFormat(characteristic: 0x2A5E), .recalledValue]
        let spots = bench.store.frames.filter { formats.contains($0.format) }
        #expect(spots.map(\.ordinal) == [0, 1, 2])
    }

    @Test("promise 2: a value that an earlier version took for one measured just now is known when it is recalled")
    func takenForNewBefore() async throws {
        let start = try #require(Instant(rfc3339: "2026-11-18T11:00:00Z"))
        let store = try await ReadingStore.open(
            directory: FileManager.default.temporaryDirectory
                .appending(path: "oximeter-\(ProcessInfo.processInfo.globallyUniqueString)").path,
            decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin", now: { start })
        for octets in [Self.unstamped(), Self.unset(1, 95)] {
            let before = Frame(
                format: FrameFormat(characteristic: 0x2A5E), payload: octets, receivedAt: start, ordinal: 0)
            let now = Frame(format: .recalledValue, payload: [0, 0x5E, 0x2A] + octets, receivedAt: start, ordinal: 0)
            let count = try await store.query(ReadingQuery()).readings.count
            for frame in [before, now, now] {
                let contact = try await store.beginContact(
                    with: DeviceDescription(address: .device(1), model: "generic_pulse_oximeter"), at: start,
                    clock: nil, batteryPercent: nil)
                _ = try await store.append([frame], of: contact)
                try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
                #expect(try await store.query(ReadingQuery()).readings.count == count + 1)
            }
        }
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    /// Decodes as earlier versions did, for which calibrating and a malfunction were no reasons to exclude a value.
    private struct EarlierDecoder: FrameDecoding {
        func decode(_ frame: Frame, model: String?) -> DecodedFrame {
            guard case .record(var record) = ModelFrameDecoder().decode(frame, model: model) else { return .nothing }
            record.exclusion = nil
            return .record(record)
        }
    }

    /// 2026-11-18T11:00:00Z.
    private static let start = Instant(seconds: 1_794_999_600)

    private static func newDirectory() -> String {
        FileManager.default.temporaryDirectory
            .appending(path: "oximeter-\(ProcessInfo.processInfo.globallyUniqueString)").path
    }

    private func open(
        _ directory: String, _ decoder: any FrameDecoding, at now: Instant = OximeterTests.start
    ) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: decoder, clientUserID: "white_bear", timeZone: "Europe/Berlin",
            now: { now })
    }

    private func take(_ octets: [UInt8], as characteristic: UInt16 = 0x2A5E, _ store: ReadingStore) async throws {
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(1), model: "generic_pulse_oximeter"), at: Self.start, clock: nil,
            batteryPercent: nil)
        let frame = Frame(
            format: FrameFormat(characteristic: characteristic), payload: octets, receivedAt: Self.start, ordinal: 0)
        _ = try await store.append([frame], of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
    }

    /// Decodes as earlier versions did, which kept no doubt, and took a value beyond a health sensor's limits for an error.
    private struct DoubtlessDecoder: FrameDecoding {
        func decode(_ frame: Frame, model: String?) -> DecodedFrame {
            guard case .record(var record) = ModelFrameDecoder().decode(frame, model: model) else { return .nothing }
            record.status = []
            if frame.format == FrameFormat(characteristic: 0x2B8B) { record.exclusion = .errorRecord }
            return .record(record)
        }
    }

    @Test("promise 2: what an earlier version stored without a mark, or excluded, stays, also when it comes again")
    func storedWithoutMark() async throws {
        let directory = Self.newDirectory()
        // 10:30, questionable; a saturation beyond the sensor's limits.
        let doubted: [UInt8] = [0x03, 97, 0, 72, 0, 0xEA, 0x07, 11, 18, 10, 30, 0, 0x00, 0x40]
        let observation = HealthObservation(
            type: 0x2_4BB8, status: 0x4000,
            content: .numeric(.init(unit: 544, number: MedFloat32(rawValue: 88))))
        let beyond = HealthObservationSegment(part: observation.encoded).encoded
        let earlier = try await open(directory, DoubtlessDecoder())
        try await take(doubted, earlier)
        try await take(beyond, as: 0x2B8B, earlier)
        try earlier.close()

        let store = try await open(directory, ModelFrameDecoder())
        #expect(try await store.verify().isEmpty)
        try await take(doubted, store)
        try await take(beyond, as: 0x2B8B, store)
        let before = try await store.query(ReadingQuery()).readings
        #expect(before.count == 2 && before.allSatisfy(\.record.status.isEmpty))
        #expect(before.count { $0.excluded == .errorRecord } == 1 && before.count { $0.excluded == nil } == 1)
        // At 10:40.
        var later = doubted
        later[10] = 40
        try await take(later, store)
        let after = try await store.query(ReadingQuery()).readings
        #expect(after.count == 3 && after.count { $0.record.status == .questionable } == 1)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test(
        "promise 2: what an earlier version delivered without a mark is not delivered again, also if its octets were let go"
    )
    func letGoWithoutMark() async throws {
        let directory = Self.newDirectory()
        // 10:30, questionable; 10:40, calibration ongoing.
        let doubted: [UInt8] = [0x03, 97, 0, 72, 0, 0xEA, 0x07, 11, 18, 10, 30, 0, 0x00, 0x40]
        let calibrating: [UInt8] = [0x03, 95, 0, 70, 0, 0xEA, 0x07, 11, 18, 10, 40, 0, 0x00, 0x10]
        let former: [([UInt8], any FrameDecoding)] = [(doubted, DoubtlessDecoder()), (calibrating, EarlierDecoder())]
        for (octets, decoder) in former {
            let earlier = try await open(directory, decoder)
            try await take(octets, earlier)
            for group in try await earlier.groupsWaiting() {
                let items = try await earlier.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 10)
                try await earlier.acknowledge(items.map(\.id), at: Self.start)
            }
            try earlier.close()
        }
        let store = try await open(directory, ModelFrameDecoder(), at: Self.start.advanced(bySeconds: 86_400))
        #expect(try await store.thin(Retention([.frames: .seconds(3600)])).map(\.frames) == [2])
        try await take(doubted, store)
        try await take(calibrating, store)
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.count == 2 && readings.allSatisfy { $0.record.status.isEmpty && $0.excluded == nil })
        #expect(readings.flatMap { $0.deliveries.map(\.state) } == [.delivered, .delivered])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("promise 2: what an earlier version took though the oximeter calibrated stays, also when it comes again")
    func takenWhileCalibrating() async throws {
        let directory = Self.newDirectory()
        // 10:30, calibration ongoing; 10:40, equipment malfunction.
        let calibrating: [UInt8] = [0x03, 97, 0, 72, 0, 0xEA, 0x07, 11, 18, 10, 30, 0, 0x00, 0x10]
        let faulty: [UInt8] = [0x05, 95, 0, 70, 0, 0xEA, 0x07, 11, 18, 10, 40, 0, 0x02, 0x00, 0x00]
        let earlier = try await open(directory, EarlierDecoder())
        try await take(calibrating, earlier)
        try earlier.close()

        let store = try await open(directory, ModelFrameDecoder())
        #expect(try await store.verify().isEmpty)
        try await take(calibrating, store)
        try await take(faulty, store)
        // The newest first.
        #expect(try await store.query(ReadingQuery()).readings.map(\.excluded) == [.errorRecord, nil])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a spot check that says that it comes from the memory does so though nobody has asked for it")
    func sentUnasked() async throws {
        var behaviour = Self.oximeter([], sends: [Self.recalled(), Self.recalled(96), Self.unstamped(98)])
        behaviour.more = [(0x2A5E, 0x1822)]
        let (journal, device) = (try newJournal(), EmulatedDevice(behaviour, log: EventLog()))
        for _ in 0..<2 { try await MeterReader(journal: journal, memory: journal).read(device) }
        // Each contact brings one that was measured just then, as far as is known.
        #expect(journal.readings.map(saturation) == [97, 96, 98, 98])
        #expect(journal.readings.map(\.excluded) == [.noTime, .noTime, nil, nil])
        // Asked for as well, they are the same.
        device.change { behaviour in
            behaviour.more = [(0x2A5E, 0x1822), (0x2A52, 0x1822)]
            behaviour.streams[0x2A5E] = [Self.recalled()]
            behaviour.spotChecks = (stored: [Self.recalled(), Self.recalled(96)], answer: 1)
        }
        try await MeterReader(journal: journal, memory: journal).read(device)
        #expect(journal.readings.count == 4)
    }

    @Test("a spot check with a time is known by it, whether it comes from the memory or not")
    func timed() async throws {
        let stamped: [UInt8] = [0x03, 97, 0x00, 72, 0x00, 0xEA, 0x07, 11, 17, 8, 0, 1, 0x00, 0x02]
        let (journal, device) = (try newJournal(), EmulatedDevice(Self.oximeter([stamped]), log: EventLog()))
        for _ in 0..<2 { try await MeterReader(journal: journal, memory: journal).read(device) }
        #expect(journal.readings.count == 1 && journal.readings[0].excluded == nil)
        #expect(journal.readings[0].record.occurrence == nil && journal.readings[0].time.basis == .assumedZone)
    }

    @Test(
        "promise 2: a cuff that keeps its memory and whose clock was never set sends nothing new by sending it again",
        arguments: [("BM57", 2, Exclusion.noTime), ("BLESmart_0000", 4, nil)] as [(String, Int, Exclusion?)])
    func unsetCuff(name: String, readings: Int, excluded: Exclusion?) async throws {
        let record: [UInt8] = [0x02, 127, 0, 79, 0, 0xFF, 0x07] + [UInt8](repeating: 0, count: 7)
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = name
        let (journal, device) = (try newJournal(), EmulatedDevice(behaviour, log: EventLog()))
        for _ in 0..<2 {
            // Two equal measurements.
            device.change { $0.cuffRecords = [record, record] }
            try await MeterReader(journal: journal, memory: journal).read(device)
        }
        #expect(journal.readings.count == readings && journal.readings.allSatisfy { $0.excluded == excluded })
        // A cuff without a clock sends each record when it is made.
        device.change { $0.cuffRecords = [[0x00, 127, 0, 79, 0, 0xFF, 0x07]] }
        try await MeterReader(journal: journal, memory: journal).read(device)
        #expect(journal.readings.last?.time.basis == .reception && journal.readings.last?.excluded == nil)
    }

    @Test("octets that are no recalled value are refused", arguments: [0, 1, 2, 3, 7])
    func malformed(length: Int) {
        let payload = Array(([0, 0x5E, 0x2A] + Self.unstamped()).prefix(length))
        let frame = Frame(
            format: .recalledValue, payload: payload, receivedAt: Instant(seconds: 0), ordinal: 0)
        for decoder in [ModelFrameDecoder(), StandardFrameDecoder()] as [any FrameDecoding] {
            guard case .malformed = decoder.decode(frame, model: nil) else {
                Issue.record("\(length) octets are no value")
                return
            }
        }
    }
}
