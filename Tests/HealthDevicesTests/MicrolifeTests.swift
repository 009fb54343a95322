import Foundation
import GATTClient
import HealthReadings
import Testing

@testable import HCICapture
@testable import HealthDevices

@Suite struct MicrolifeTests {
    private let log = EventLog()
    private let store: RecordingStore

    init() { store = RecordingStore(log) }

    /// The answer of a B3 as its owner has logged it, by its cable: microlife_bp, `notes`.
    private static let logged: [UInt8] =
        [77, 58, 1, 73, 0, 0, 0, 29, 1] + [UInt8](repeating: 0, count: 33)
        + [
            144, 68, 51, 17, 0, 0, 0, 0, 128, 0, 147, 67, 50, 17, 0, 0, 0, 0, 128, 0, 127, 65, 50, 17, 0, 0, 0, 0, 128,
            0, 143, 70, 58, 17, 0, 0, 0, 0, 128, 0, 147, 63, 50, 17, 0, 0, 0, 0, 128, 0, 144, 61, 48, 17, 0, 0, 0, 0,
            128, 0, 144, 61, 52, 17, 0, 0, 0, 0, 128, 0, 130, 55, 51, 17, 0, 0, 0, 0, 128, 0, 131, 61, 42, 17, 0, 0, 0,
            0, 128, 0, 137, 60, 48, 17, 0, 0, 0, 0, 128, 0, 134, 70, 68, 22, 7, 17, 17, 2, 128, 0, 147, 59, 48, 22, 7,
            17, 17, 56, 192, 0, 131, 59, 49, 22, 7, 17, 17, 57, 128, 0, 155, 74, 46, 22, 7, 17, 22, 5, 128, 0, 148, 72,
            45, 22, 7, 17, 22, 7, 128, 0, 141, 69, 44, 22, 7, 17, 22, 9, 128, 0, 145, 74, 46, 22, 7, 17, 22, 23, 128, 0,
            143, 71, 47, 22, 7, 17, 22, 38, 128, 0, 153, 63, 45, 22, 7, 17, 23, 49, 128, 0, 157, 72, 55, 22, 7, 18, 12,
            3, 128, 0, 158, 70, 55, 22, 7, 18, 12, 4, 128, 0, 148, 70, 60, 22, 7, 18, 12, 7, 0, 0, 153, 83, 56, 22, 7,
            18, 12, 51, 128, 0, 119, 61, 54, 22, 7, 18, 12, 56, 128, 0, 140, 72, 65, 22, 7, 18, 13, 24, 0, 0, 143, 71,
            52, 22, 7, 18, 6, 9, 128, 0, 138, 59, 45, 22, 7, 18, 10, 0, 128, 0, 137, 62, 49, 22, 7, 18, 11, 32, 128, 0,
            121, 68, 47, 22, 7, 18, 21, 30, 128, 0, 35,
        ]

    private static func record(_ number: Int, flags: UInt8 = 0x80) -> [UInt8] {
        [
            UInt8(120 + number % 40), 80, 66, 26, 11, UInt8(1 + number / 1440), UInt8(number / 60 % 24),
            UInt8(number % 60), flags, 0,
        ]
    }

    private func monitor(
        _ records: [Int] = [5, 3], name: String = "B3 BT",
        _ adjust: (inout EmulatedMicrolife.Behaviour) -> Void = { _ in }
    ) -> EmulatedMicrolife {
        var behaviour = EmulatedMicrolife.Behaviour()
        behaviour.records = records.map { (0..<$0).map { Self.record($0) } }
        adjust(&behaviour)
        return EmulatedMicrolife(behaviour, name: name, log: log)
    }

    @discardableResult private func read(_ monitor: EmulatedMicrolife) async throws -> ContactSummary {
        try await MeterReader(journal: store, memory: store).read(monitor)
    }

    private func decoded(_ octets: [UInt8], of user: UInt8 = 1) throws -> Record {
        let decoded = MicrolifeRecord.decode([user, 0] + octets)
        guard case .record(let record) = decoded else { throw QuirkDecodingTests.NotARecord(decoded: decoded) }
        return record
    }

    // MARK: Octets

    @Test("requests are framed as they were logged")
    func requests() throws {
        #expect(MicrolifeRequest.history.frame.encoded == [UInt8](hex: "4DFF0009 00 000000000000 FD 52"))
        #expect(MicrolifeRequest.identity.frame.encoded == [UInt8](hex: "4DFF00020553"))
        #expect(MicrolifeRequest.disconnect.frame.encoded == [UInt8](hex: "4DFF00020452"))
    }

    @Test(
        "the memory that an owner has logged is read: each record, its flags, and no time where the clock was not set")
    func loggedMemory() throws {
        let frame = try MicrolifeFrame(decoding: Self.logged)
        #expect(frame.encoded == Self.logged)
        let history = try MicrolifeHistory(frame)
        #expect(history.user == 1 && history.records.count == 29 && !history.isMeasuring)
        let records = try history.payloads.map { payload -> Record in
            guard case .record(let record) = MicrolifeRecord.decode(payload) else { throw GATTError.timedOut }
            return record
        }
        #expect(records.allSatisfy { $0.exclusion == nil && $0.userSlot == 1 && $0.occurrence == 0 })
        #expect(records.prefix(10).allSatisfy { $0.baseTime == nil })
        #expect(records.dropFirst(10).allSatisfy { $0.baseTime != nil })
        func values(_ record: Record) -> [Int64] {
            guard case .bloodPressure(let value) = record.value else { return [] }
            return [value.systolic, value.diastolic, value.pulse].compactMap { $0?.number.number?.significand }
        }
        #expect(values(records[10]) == [134, 70, 68] && records[10].baseTime == WallTime("2022-07-17T17:02:00"))
        #expect(records[10].status == [] && records[11].status == .irregularPulse)
        #expect(values(records[11]) == [147, 59, 48] && records[11].baseTime == WallTime("2022-07-17T17:56:00"))
        #expect(values(records[21]) == [148, 70, 60] && records[21].status == .cuffTooLoose)
        #expect(records.count { $0.status == .cuffTooLoose } == 2)
    }

    @Test("decode(encode(x)) == x, and no message with a changed bit is accepted")
    func roundTrip() throws {
        for place in 0..<(Self.logged.count * 8) {
            var octets = Self.logged
            octets[place / 8] ^= 1 << UInt8(place % 8)
            // The side is who sends it; each bit of it is in the sum too.
            #expect(throws: MalformedFrame.self) { try MicrolifeFrame(decoding: octets) }
        }
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let data = (0..<Int.random(in: 0...300, using: &generator)).map { _ in UInt8.random(in: 0...255) }
            let frame = MicrolifeFrame(.monitor, UInt8.random(in: 0...255), data)
            #expect(try MicrolifeFrame(decoding: frame.encoded) == frame)
        }
        for length in 0..<6 {
            #expect(throws: MalformedFrame.self) {
                try MicrolifeFrame(decoding: [UInt8](repeating: 0x4D, count: length))
            }
        }
    }

    @Test("octets that are no record are refused, and kept", arguments: [0, 1, 2, 11, 13, 30])
    func malformed(length: Int) {
        guard case .malformed = MicrolifeRecord.decode([UInt8](repeating: 99, count: length)) else {
            Issue.record("\(length) octets are no record")
            return
        }
    }

    @Test("a date that cannot be is malformed, a slot without a record is nothing, a guest is user 3")
    func oddRecords() throws {
        for parts: [UInt8] in [[26, 13, 1, 7, 0], [26, 2, 30, 7, 0], [26, 11, 20, 24, 0], [26, 11, 20, 7, 60]] {
            guard case .malformed = MicrolifeRecord.decode([1, 0, 120, 80, 66] + parts + [0x80, 0]) else {
                Issue.record("\(parts) is no date")
                continue
            }
        }
        #expect(MicrolifeRecord.decode([1, 0] + [UInt8](repeating: 0xFF, count: 10)) == .nothing)
        #expect(MicrolifeRecord.decode([1, 0] + [UInt8](repeating: 0, count: 10)) == .nothing)
        #expect(try decoded(Self.record(1), of: 3).userSlot == 3)
        #expect(try decoded([10, 80, 66, 26, 11, 20, 7, 30, 0x80, 0]).exclusion == .implausible)
        #expect(try decoded(Self.record(1, flags: 0xA0)).status == .irregularPulse)
        #expect(try decoded(Self.record(1, flags: 0x98)).status == [])
    }

    // MARK: Conversations

    @Test("promise 1 and 2: each user's memory is durable before the next is asked for, and is read once")
    func reading() async throws {
        let monitor = monitor()
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 8, received: 8))
        #expect(store.readingCount == 8 && log.breachOfPromise1 == nil)
        #expect(monitor.requests.map(\.command) == [5, 0, 0, 4] && monitor.requests[2].data.last == 2)
        #expect(Set(store.records.map(\.userSlot)) == [1, 2])
        #expect(store.contacts[0].device.model == "microlife_b3" && store.contacts[0].device.provider == "manual")
        #expect(try await read(monitor).isComplete)
        monitor.change {
            $0.chosen = 2
            $0.records[0].append(Self.record(7))
        }
        #expect(try await read(monitor).received == 9)
        #expect(store.readingCount == 9 && log.breachOfPromise1 == nil)
        #expect(monitor.requests.map(\.data.last) == [nil, 0xFD, 1, nil])
    }

    @Test("a full memory of two users is read in one contact")
    func full() async throws {
        let monitor = monitor([99, 99])
        #expect(try await read(monitor).received == 198 && store.readingCount == 198)
        #expect(try await read(self.monitor([0, 0])) == ContactSummary(isComplete: true, announced: 0, received: 0))
    }

    @Test(
        "equal measurements in one minute, and those without a time, are as many readings as there are, however often")
    func equals() async throws {
        let unset: [UInt8] = [144, 61, 48, 17, 0, 0, 0, 0, 128, 0]
        let monitor = monitor([0]) {
            $0.users = 1
            $0.records[0] = [unset, unset, [144, 61, 52, 17, 0, 0, 0, 0, 128, 0], Self.record(3), Self.record(3)]
        }
        try await read(monitor)
        #expect(store.readingCount == 5)
        try await read(monitor)
        #expect(store.readingCount == 5)
        // One more that is equal to the others; flags do not tell records apart.
        monitor.change { $0.records[0].append(Self.record(3, flags: 0xC0)) }
        try await read(monitor)
        #expect(store.readingCount == 6)
        // The oldest has made room.
        monitor.change { $0.records[0].removeFirst() }
        try await read(monitor)
        #expect(store.readingCount == 6)
        // Nobody knows when those without a time were made.
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        try await MeterReader(journal: journal, memory: journal).read(monitor)
        #expect(journal.readings.count { $0.excluded == .noTime && $0.time.instant == nil } == 2)
        #expect(journal.readings.count { $0.excluded == nil } == 3)
    }

    @Test("a monitor that shows only the user that is chosen at it, says nothing of itself, or has one user, is read")
    func oneUser() async throws {
        let chosenOnly = monitor { $0.showsChosenOnly = true }
        #expect(try await read(chosenOnly) == ContactSummary(isComplete: true, announced: 5, received: 5))
        let silent = monitor([4]) { $0.users = nil }
        #expect(try await read(silent).received == 4)
        #expect(silent.requests.map(\.command) == [5, 5, 5, 0, 4] && silent.waited == .seconds(30))
        let other = monitor([4, 2]) { $0.records = [$0.records[0]] }
        #expect(try await read(other).isComplete)
        #expect(store.readingCount == 5 && log.breachOfPromise1 == nil)
    }

    @Test("a lost piece, a damaged message and a silence cost time, and no record; strays answer nothing")
    func faults() async throws {
        let monitor = monitor {
            $0.losesPieces = [5]
            $0.damages = 1
            $0.silences = 0
            $0.sendsStrays = true
        }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 8, received: 8))
        #expect(store.readingCount == 8 && log.breachOfPromise1 == nil)
        monitor.change { $0.silences = 2 }
        #expect(try await read(monitor).isComplete)
    }

    @Test("a memory that comes twice does not stand for that of the other user")
    func repeated() async throws {
        let monitor = monitor { $0.repeats = 1 }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 8, received: 8))
        #expect(store.readingCount == 8 && Set(store.records.map(\.userSlot)) == [1, 2])
    }

    @Test("promise 5: a message that stays damaged is kept, makes no reading, and is read again next time")
    func damaged() async throws {
        let monitor = monitor { $0.damages = 3 }
        let summary = try await read(monitor)
        #expect(!summary.isComplete && summary.error == nil && store.readingCount == 0)
        #expect(store.frames.count { $0.format == .microlifeMessage } == 2)
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 8)
    }

    @Test("promise 3: a contact that is cut is kept, and everything is read again")
    func cut() async throws {
        let monitor = monitor { $0.cutAfterPieces = 10 }
        let first = try await read(monitor)
        #expect(first.error == "transfer_interrupted" && !first.isComplete)
        #expect(store.readingCount == 5 && log.breachOfPromise1 == nil)
        monitor.change { $0.cutAfterPieces = nil }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 8)
    }

    @Test("promise 4: a silent monitor is given 30 s, and its refusals have names")
    func refusals() async throws {
        let silent = monitor { $0.silences = 100 }
        #expect(try await read(silent).error == "timeout")
        // For what it is, and for its memory.
        #expect(silent.waited == .seconds(60))
        #expect(try await read(monitor { $0.refuses = true }).error == "microlife_refused")
        let measuring = monitor { $0.measuring = Self.record(9) }
        #expect(try await read(measuring).error == "microlife_measuring")
        #expect(store.readingCount == 0 && log.breachOfPromise1 == nil)
        measuring.change { $0.measuring = nil }
        #expect(try await read(measuring).isComplete)
    }

    @Test("requests are written without a response where the monitor takes no others")
    func commands() async throws {
        #expect(try await read(monitor { $0.takesCommandsOnly = true }).received == 8)
    }

    @Test("whatever goes wrong, nothing is written but questions, and the end")
    func onlyQuestions() async throws {
        let monitor = monitor {
            $0.losesPieces = [2, 9]
            $0.damages = 2
            $0.silences = 1
        }
        let before = monitor.behaviour.records
        try await read(monitor)
        #expect(monitor.behaviour.records == before)
        for octets in log.requests {
            let frame = try MicrolifeFrame(decoding: octets)
            #expect([0x00, 0x04, 0x05].contains(frame.command) && frame.side == 0xFF && octets.count <= 20)
        }
    }

    @Test(
        "promise 7: a monitor of the generation before is asked what it is, and nothing that would set its clock",
        arguments: ["A6 BT", "A7 Touch BT", "B6 Connect", "B3 BT"])
    func earlierGeneration(name: String) async throws {
        let monitor = monitor(name: name) { $0.side = .earlierMonitor }
        let summary = try await read(monitor)
        #expect(summary.error == "microlife_generation" && !summary.isComplete && summary.received == 0)
        #expect(ContactFailure(summary)?.hint != nil)
        #expect(monitor.requests.map(\.command) == [5, 4] && monitor.settingsOfClock == 0)
        #expect(store.readingCount == 0 && log.breachOfPromise1 == nil)
        // Of the present generation, a monitor of this name is read.
        let present = self.monitor(name: name)
        #expect(try await read(present).received == 8)
    }

    @Test("promise 7: a monitor that nobody has seen is asked for no memory before it has said what it is")
    func saysNothing() async throws {
        for side in [MicrolifeFrame.Side.monitor, .earlierMonitor] {
            let silent = monitor(name: "B6 Connect") {
                $0.users = nil
                $0.side = side
            }
            #expect(try await read(silent).error == "timeout")
            #expect(silent.requests.allSatisfy { $0.command == 5 } && silent.settingsOfClock == 0)
        }
    }

    @Test("an answer of the generation before is no history of the present one")
    func otherLayout() throws {
        let data: [UInt8] = [0, 0, 1, 1] + [UInt8](repeating: 0, count: 33) + Self.record(1)
        #expect(try MicrolifeHistory(MicrolifeFrame(.monitor, 0, data)).records.count == 1)
        #expect(throws: MalformedFrame.self) { try MicrolifeHistory(MicrolifeFrame(.earlierMonitor, 0, data)) }
    }

    @Test("names of the family are found; a device of such a name without the service is none")
    func names() {
        let catalogue = Catalogue()
        for (name, id) in [
            ("B3 BT", "microlife_b3"), ("BP3GY1-2N", "microlife_bp3gy1"), ("B4 BT", "microlife_b4"),
            ("A6 BT", "microlife_a6"), ("BP3GU1-7B", "microlife_a6"), ("B6 Connect", "microlife_b6"),
        ] {
            let advertisement = Advertisement(address: nil, name: name, seenAt: Instant(seconds: 0))
            #expect(catalogue.model(for: advertisement)?.id == id)
            #expect(catalogue.model(for: advertisement, offering: OfferedServices([])) == nil)
        }
        // Countless lamps and scales have the service.
        let lamp = Advertisement(address: nil, services: [Microlife.service], seenAt: Instant(seconds: 0))
        #expect(catalogue.model(for: lamp) == nil)
    }

    @Test("a capture of a session is replayed request by request")
    func replay() async throws {
        let recorder = SessionRecorder(monitor([30, 2]))
        try await MeterReader(journal: store, memory: store).read(recorder)
        let replayed = RecordingStore(EventLog())
        let reader = MeterReader(journal: replayed, memory: replayed, model: "microlife_b3")
        let summaries = try await recorder.replay { try await reader.read($0) }
        #expect(summaries.first == ContactSummary(isComplete: true, announced: 32, received: 32))
        #expect(replayed.readingCount == 32 && store.readingCount == 32)
    }
}
