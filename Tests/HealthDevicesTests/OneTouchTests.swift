import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OneTouchTests {
    private let log = EventLog()
    private let store: RecordingStore

    init() { store = RecordingStore(log) }

    private func meter(
        _ numbers: ClosedRange<UInt16>? = 1...5, _ adjust: (inout EmulatedOneTouch.Behaviour) -> Void = { _ in }
    ) -> EmulatedOneTouch {
        var behaviour = EmulatedOneTouch.Behaviour()
        behaviour.records = (numbers.map(Array.init) ?? []).map { ($0, 840_000_000 + UInt32($0) * 60, 90 + $0, 0) }
        adjust(&behaviour)
        return EmulatedOneTouch(behaviour, log: log)
    }

    @discardableResult private func read(_ meter: EmulatedOneTouch, all: Bool = false) async throws -> ContactSummary {
        meter.forgetQuestions()
        return try await MeterReader(journal: store, memory: store).read(meter, allRecords: all)
    }

    /// A record's number, time and value.
    private struct Content: Hashable {
        var number: UInt16?
        var time: WallTime?
        var value: Quantity?
    }

    /// What a meter has.
    private func contents(of meter: EmulatedOneTouch) -> Set<Content> {
        var contents: Set<Content> = []
        for record in meter.behaviour.records {
            let value = Quantity(ExactDecimal(significand: Int64(record.value)), .milligramsPerDecilitre)
            contents.insert(Content(number: record.number, time: OneTouch.wallTime(record.time), value: value))
        }
        return contents
    }

    /// What is stored.
    private var stored: Set<Content> {
        var contents: Set<Content> = []
        for record in store.records {
            guard case .glucose(let glucose) = record.value else { continue }
            contents.insert(Content(number: record.sequence, time: record.baseTime, value: glucose.concentration))
        }
        return contents
    }

    // MARK: Octets

    @Test("messages are framed and checked as published: the clock's question has the checksum 716D for 05 02 03")
    func framing() throws {
        #expect(OneTouchFrame.checksum([0x05, 0x02, 0x03]) == 0x716D)
        #expect(OneTouchFrame.checksum(Array("123456789".utf8)[...]) == 0x29B1)
        let octets = OneTouchFrame(payload: OneTouchQuestion.time.payload).encoded
        #expect(octets.prefix(8) == [0x01, 0x02, 0x09, 0x00, 0x03, 0x20, 0x02, 0x03])
        #expect(try OneTouchFrame(decoding: octets).payload == [0x20, 0x02])
    }

    @Test("decode(encode(x)) == x, and no changed octet is accepted")
    func roundTrip() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            let payload = (0..<Int.random(in: 0...40, using: &generator)).map { _ in UInt8.random(in: 0...255) }
            var octets = OneTouchFrame(payload: payload).encoded
            #expect(try OneTouchFrame(decoding: octets).payload == payload)
            octets[Int.random(in: 0..<octets.count, using: &generator)] ^= 1 << UInt8.random(in: 0...7)
            #expect(throws: MalformedFrame.self) { try OneTouchFrame(decoding: octets) }
        }
        for length in 0..<8 {
            #expect(throws: MalformedFrame.self) {
                try OneTouchFrame(decoding: [UInt8](repeating: 1, count: length))
            }
        }
    }

    private func record(_ value: UInt16, control: UInt8 = 0, time: UInt32 = 840_000_000) throws -> Record {
        let octets: [UInt8] =
            [0x06] + (0..<4).map { UInt8(truncatingIfNeeded: time >> (8 * UInt32($0))) }
            + [UInt8(truncatingIfNeeded: value), UInt8(truncatingIfNeeded: value >> 8), control, 0, 0, 0, 0]
        let decoded = OneTouchRecord.decode([7, 1] + OneTouchFrame(payload: octets).encoded)
        guard case .record(let record) = decoded else { throw QuirkDecodingTests.NotARecord(decoded: decoded) }
        return record
    }

    @Test("a record has its number, its local time and mg/dL; what is no patient's value says so")
    func records() throws {
        let plain = try record(95)
        #expect(plain.sequence == 263 && plain.exclusion == nil)
        #expect(plain.baseTime == WallTime(secondsSinceEpoch: 840_000_000 + 946_684_799))
        guard case .glucose(let value) = plain.value else {
            Issue.record("\(plain.value)")
            return
        }
        #expect(value.concentration == Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre))
        #expect(try record(0).exclusion == .noValue && record(95, control: 1).exclusion == .controlSolution)
        #expect(try record(2000).exclusion == .implausible && record(95, time: 0).baseTime == nil)
    }

    @Test(
        "HI and LO come as a number beyond what the meter measures, as Tidepool reads them: they are no number",
        arguments: [
            (1, .resultTooLow), (19, .resultTooLow), (20, []), (600, []), (601, .resultTooHigh), (1023, .resultTooHigh),
            (1500, .resultTooHigh),
        ] as [(UInt16, ReadingStatus)])
    func beyond(value: UInt16, status: ReadingStatus) throws {
        let record = try record(value)
        #expect(record.status == status && record.exclusion == (status.isEmpty ? nil : Exclusion.notANumber))
        // A control solution has no HI or LO of a person.
        let control = try self.record(value, control: 1)
        #expect(control.status.isEmpty && control.exclusion == .controlSolution)
    }

    @Test("octets that are no record are refused", arguments: [0, 1, 2, 9, 20])
    func malformed(length: Int) {
        guard case .malformed = OneTouchRecord.decode([UInt8](repeating: 1, count: length)) else {
            Issue.record("\(length) octets are no record")
            return
        }
    }

    // MARK: Conversations

    @Test("promise 1 and 2: records are read by number, each durable before the next, and once")
    func reading() async throws {
        let meter = meter()
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(meter.asked == [1, 2, 3, 4, 5] && store.readingCount == 5)
        #expect(log.breachOfPromise1 == nil)
        #expect(store.contacts[0].device.model == "onetouch_verio" && store.contacts[0].device.serial == "OT-1")
        #expect(store.contacts[0].device.provider == "onetouch_ble")
        #expect(store.clocks.map(\.deviceTime) == [WallTime(secondsSinceEpoch: 848_000_000 + 946_684_799)])
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [5] && store.readingCount == 5)
        meter.change { $0.records.append((6, 840_001_000, 111, 0)) }
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 1, received: 1))
        #expect(meter.asked == [5, 6] && store.readingCount == 6)
        #expect(try await read(meter, all: true).received == 6)
        #expect(store.readingCount == 6 && log.breachOfPromise1 == nil)
    }

    @Test("a meter without records, and one whose oldest have gone, are read to the end")
    func rotated() async throws {
        #expect(try await read(meter(nil)) == ContactSummary(isComplete: true, announced: 0, received: 0))
        let rotated = meter(100...110)
        #expect(try await read(rotated).received == 11)
        rotated.change { $0.records = $0.records.filter { $0.number > 112 } + [(113, 840_100_000, 99, 0)] }
        #expect(try await read(rotated).received == 1)
        #expect(store.readingCount == 12 && store.epoch == 0)
    }

    @Test("a meter whose first record has the number 0 is read to the end", arguments: [0, 4] as [UInt16])
    func fromZero(newest: UInt16) async throws {
        let meter = meter(0...newest)
        let count = Int(newest) + 1
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: count, received: count))
        #expect(meter.asked == Array(0...newest) && store.readingCount == count)
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [newest] && store.readingCount == count && store.epoch == 0)
    }

    @Test("a meter that begins its numbers anew begins an epoch", arguments: [2, 5] as [UInt16])
    func restarted(newest: UInt16) async throws {
        let meter = meter()
        try await read(meter)
        meter.change { $0.records = (1...newest).map { ($0, 841_000_000 + UInt32($0) * 60, 100 + $0, 0) } }
        #expect(try await read(meter).received == Int(newest))
        #expect(store.epoch == 1 && store.readingCount == 5 + Int(newest))
    }

    @Test("promise 3: a transfer that is cut is kept, and all is read again")
    func cut() async throws {
        let meter = meter { $0.cutAfter = 3 }
        let first = try await read(meter)
        #expect(first.error == "transfer_interrupted" && first.received == 3 && store.readingCount == 3)
        meter.change { $0.cutAfter = nil }
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(store.readingCount == 5 && log.breachOfPromise1 == nil)
    }

    @Test("an answer that is lost or damaged is asked for again; messages sent twice are one")
    func faults() async throws {
        let meter = meter {
            $0.silences = 2
            $0.damages = [2: 2, 4: 1]
            $0.copies = 2
        }
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(store.readingCount == 5 && meter.waited == .seconds(20))
        #expect(stored == contents(of: meter))
    }

    @Test("an answer that comes when it was asked for again is no other record's, and the last number is proven")
    func late() async throws {
        let meter = meter { $0.delays = [2: .seconds(11)] }
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(stored == contents(of: meter) && meter.waited == .seconds(11))
        #expect(meter.asked == [1, 2, 2, 3, 4, 5, 5])
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [5] && store.readingCount == 5)
    }

    @Test("an earlier record that is sent once more is not the one that was asked for")
    func sentAgain() async throws {
        let meter = meter { $0.resends = [3: 1, 5: 2] }
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(stored == contents(of: meter) && meter.waited == .zero)
    }

    @Test("records that are equal in all but their number are all kept")
    func equal() async throws {
        let meter = meter { behaviour in
            for place in 1...3 {
                behaviour.records[place].time = 0
                behaviour.records[place].value = 95
            }
        }
        #expect(try await read(meter) == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(stored == contents(of: meter) && store.readingCount == 5)
        #expect(meter.waited == .seconds(2))
    }

    @Test("of a meter that sends an earlier record whatever it is asked, nothing wrong is stored")
    func stuck() async throws {
        let meter = meter { $0.stuckAt = 2 }
        let summary = try await read(meter)
        #expect(summary.error == "timeout" && summary.received == 2)
        #expect(stored.isSubset(of: contents(of: meter)) && store.readingCount == 2)
        meter.change { $0.stuckAt = nil }
        #expect(try await read(meter).isComplete)
        #expect(stored == contents(of: meter))
    }

    @Test("promise 5: an answer that stays damaged is kept, stops no transfer, and is read again next time")
    func damaged() async throws {
        let meter = meter { $0.damages = [3: 3] }
        let summary = try await read(meter)
        #expect(summary == ContactSummary(isComplete: false, announced: 5, received: 5))
        #expect(store.readingCount == 4 && store.frames.count == 5)
        #expect(try await read(meter).isComplete)
        #expect(store.readingCount == 5)
    }

    @Test("promise 4: a silent meter is given 30 s, and its refusals have names")
    func refusals() async throws {
        let silent = meter { $0.silences = 100 }
        #expect(try await read(silent).error == "timeout")
        #expect(silent.waited == .seconds(30))
        for (code, name): (UInt8, String) in [
            (7, "onetouch_not_allowed"), (8, "onetouch_not_supported"), (9, "onetouch_not_understood"),
            (42, "onetouch_refused"),
        ] { #expect(try await read(meter { $0.refuses = code }).error == name) }
        #expect(try await read(meter { $0.claims = (3, 9) }).error == "onetouch_numbers")
        #expect(store.readingCount == 0 && log.breachOfPromise1 == nil)
    }

    // MARK: Numbers without a record

    @Test(
        "promise 3: a refused number stops nothing that is newer, and is asked for once more",
        arguments: [8, 9, 42, 3] as [UInt8])
    func refusedRecord(code: UInt8) async throws {
        let meter = meter(1...6) { $0.refusesRecords = [3: code] }
        let summary = try await read(meter)
        #expect(!summary.isComplete && summary.error == nil && summary.received == 5)
        // Below the lowest there is none.
        #expect(meter.asked == [1, 2, 3, 4, 5, 6, 0] && log.breachOfPromise1 == nil)
        // Somebody measures before each contact. The number was asked for twice then, and all that is new has come.
        meter.change { $0.records.append((7, 840_001_000, 111, 0)) }
        #expect(try await read(meter).isComplete)
        #expect(stored == contents(of: meter).filter { $0.number != 3 })
        meter.change { $0.records.append((8, 840_002_000, 112, 0)) }
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [7, 8])
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [8] && store.readingCount == 7)
        // It may have been refused for a while only: asked for all, the meter shows it.
        meter.change { $0.refusesRecords = [:] }
        #expect(try await read(meter, all: true).isComplete)
        #expect(stored == contents(of: meter) && store.epoch == 0)
    }

    @Test("a new number that is refused is asked for once more, though an old one is known to be refused")
    func refusedNewRecord() async throws {
        let meter = meter(1...6) { $0.refusesRecords = [3: 8, 7: 8] }
        #expect(try await !read(meter).isComplete)
        meter.change {
            $0.records.append((7, 840_001_000, 111, 0))
            $0.records.append((8, 840_002_000, 112, 0))
        }
        #expect(try await !read(meter).isComplete)
        // An old one that comes only now shows that another may have been lost on the way.
        meter.change {
            $0.refusesRecords = [7: 8]
            $0.records.append((9, 840_003_000, 113, 0))
        }
        #expect(try await !read(meter).isComplete)
        #expect(try await read(meter).isComplete)
        #expect(stored == contents(of: meter).filter { $0.number != 7 })
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [9])
    }

    @Test("a refusal that is sent twice, or late, is none of the next record", arguments: [0, 11])
    func refusedTwice(delay: Int) async throws {
        let meter = meter {
            $0.refusesRecords = [3: 8]
            $0.copies = 2
            if delay > 0 { $0.delays = [3: .seconds(delay)] }
        }
        let summary = try await read(meter)
        #expect(!summary.isComplete && summary.error == nil && summary.received == 4)
        #expect(stored == contents(of: meter).filter { $0.number != 3 })
    }

    @Test("a number that is refused where ours was the last has everything read, and nothing is missing")
    func refusedLast() async throws {
        let meter = meter()
        try await read(meter)
        meter.change {
            $0.refusesRecords = [5: 8]
            $0.records.append((6, 840_001_000, 111, 0))
        }
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [5, 1, 2, 3, 4, 5, 6, 0])
        #expect(stored == contents(of: meter) && store.epoch == 0)
        #expect(try await read(meter).isComplete)
        #expect(meter.asked == [6])
    }

    @Test("records that a count leaves out, as it does numbers without a value, are read below the lowest")
    func countWithoutHoles() async throws {
        // The meter counts six of nine numbers.
        let meter = meter(1...9) { behaviour in
            behaviour.records.removeAll { [4, 5, 8].contains($0.number) }
        }
        #expect(try await !read(meter).isComplete)
        #expect(meter.asked == [4, 5, 6, 7, 8, 9, 3, 2, 1])
        #expect(stored == contents(of: meter) && log.breachOfPromise1 == nil)
        #expect(try await read(meter).isComplete)

        let other = OneTouchTests()
        let zero = other.meter {
            $0.records[2].value = 0
            $0.claims = (5, 4)
        }
        #expect(try await other.read(zero).isComplete)
        #expect(zero.asked == [2, 3, 4, 5, 1] && other.store.readingCount == 5)
    }

    @Test("below the lowest number the search ends at refusals, a silence, and what was taken already")
    func nothingBelow() async throws {
        let refusing = meter(100...105) { $0.refusesRecords = [103: 8] }
        try await read(refusing)
        #expect(refusing.asked == [100, 101, 102, 103, 104, 105, 99, 98, 97] && store.readingCount == 5)
        let silent = OneTouchTests()
        let quiet = silent.meter(100...105) {
            $0.refusesRecords = [103: 8]
            $0.unreadable = [99]
        }
        let summary = try await silent.read(quiet)
        #expect(summary.error == nil && quiet.asked.suffix(4) == [105, 99, 99, 99])
        // A meter that keeps its records in a ring may answer with the one that stands there.
        let ringing = OneTouchTests()
        let ring = ringing.meter(100...105) { behaviour in
            behaviour.records.removeAll { $0.number == 103 }
            behaviour.claims = (105, 6)
            behaviour.ring = 6
        }
        try await ringing.read(ring)
        #expect(ringing.stored == ringing.contents(of: ring))
    }

    @Test("a record of which the meter says nothing is passed over once; a meter that is silent has gone")
    func unreadable() async throws {
        let meter = meter { $0.unreadable = [3] }
        let summary = try await read(meter)
        #expect(!summary.isComplete && summary.error == nil && summary.received == 4)
        // The last is proven, as a question was repeated.
        #expect(meter.waited == .seconds(30) && meter.asked == [1, 2, 3, 3, 3, 4, 5, 5, 0])
        #expect(stored == contents(of: meter).filter { $0.number != 3 })
        #expect(try await read(meter).isComplete)
        let other = OneTouchTests()
        let gone = other.meter { $0.unreadable = [3, 4] }
        let failed = try await other.read(gone)
        #expect(failed.error == "timeout" && failed.received == 2 && other.store.readingCount == 2)
    }

    @Test("a meter that permits nothing, or shows no record at all, is named")
    func showsNothing() async throws {
        let forbidden = meter { $0.refusesRecords = [3: 7] }
        #expect(try await read(forbidden).error == "onetouch_not_allowed")
        let none = OneTouchTests()
        let refusing = none.meter { $0.refusesRecords = [1: 8, 2: 8, 3: 8, 4: 8, 5: 9] }
        #expect(try await none.read(refusing).error == "onetouch_not_understood")
        #expect(refusing.asked == [1, 2, 3, 4, 5] && none.store.readingCount == 0)
    }

    @Test("a device of that name without the service fails by name, or is what its services make it")
    func impostor() async throws {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "OneTouch AB12"
        let bare = EmulatedDevice(behaviour, log: log)
        let reader = MeterReader(journal: store, memory: store)
        #expect(try await reader.read(bare).error == "nothing_to_read")
        behaviour.glucose = EmulatedGlucoseMemory(glucoseRecords(1...2))
        #expect(try await reader.read(EmulatedDevice(behaviour, log: log)).received == 2)
        #expect(store.contacts.map(\.device.model) == [nil, "generic_glucose"])
    }
}
