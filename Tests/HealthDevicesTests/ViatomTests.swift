import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct ViatomTests {
    private let log = EventLog()
    private let store: RecordingStore

    init() { store = RecordingStore(log) }

    private static func record(
        _ number: Int, time: UInt32? = nil, user: UInt32 = 218_071, isIrregular: Bool = false
    ) -> [UInt8] {
        func little(_ value: UInt32, _ count: Int) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
        }
        var octets = little(time ?? 1_772_000_000 + UInt32(number) * 600, 4) + little(user, 4)
        octets += [UInt8](repeating: 0, count: 5)
        for value in [UInt32(120 + number % 40), 76, 98] { octets += little(value, 2) }
        octets += [64, isIrregular ? 1 : 0]
        return octets + [UInt8](repeating: 0, count: 16)
    }

    private func monitor(
        _ count: Int = 6, _ adjust: (inout EmulatedViatom.Behaviour) -> Void = { _ in }
    ) -> EmulatedViatom {
        var behaviour = EmulatedViatom.Behaviour()
        behaviour.records = (0..<count).map { Self.record($0) }
        adjust(&behaviour)
        return EmulatedViatom(behaviour, log: log)
    }

    @discardableResult private func read(_ monitor: EmulatedViatom) async throws -> ContactSummary {
        try await MeterReader(journal: store, memory: store).read(monitor)
    }

    // MARK: Octets

    @Test("messages are framed and checked as published: the question for a device's information has the checksum BF")
    func framing() throws {
        let frame = ViatomRequest.information.frame(number: 2)
        #expect(frame.encoded == [UInt8](hex: "A5E11E00020000BF"))
        #expect(ViatomFrame.checksum(Array("123456789".utf8)[...]) == 0xF4)
        let open = ViatomRequest.openPressures.frame(number: 1)
        #expect(open.payload.count == 20 && open.payload.starts(with: Array("bp2nibp.list".utf8)))
        #expect(ViatomRequest.octets(from: 0x01_0203).payload == [3, 2, 1, 0])
    }

    @Test("decode(encode(x)) == x, and no message with a changed bit is accepted")
    func roundTrip() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let payload = (0..<Int.random(in: 0...120, using: &generator)).map { _ in UInt8.random(in: 0...255) }
            let frame = ViatomFrame(
                command: .random(in: 0...255), direction: 1, number: .random(in: 0...254), payload: payload)
            #expect(try ViatomFrame(decoding: frame.encoded) == frame)
        }
        let octets = ViatomFrame(command: 0xF3, direction: 1, number: 7, payload: Self.record(1)).encoded
        for place in 0..<(octets.count * 8) {
            var changed = octets
            changed[place / 8] ^= 1 << UInt8(place % 8)
            #expect(throws: MalformedFrame.self) { try ViatomFrame(decoding: changed) }
        }
    }

    @Test("the octets that an owner has logged are read: clock, values and user")
    func logged() throws {
        let information = [UInt8](
            hex: "420001010100000100333231323030313105000022860301ea0703080c1e0302010000"
                + "00000a32353233433030383132000000000000000000000000")
        #expect(ViatomInformation(information)?.time == WallTime("2026-03-08T12:30:03"))
        #expect(ViatomInformation(Array(information.prefix(30))) == nil)
        // The values of the record whose measurement was seen on the screen, with the time and the user of another.
        let record = [UInt8](hex: "66b40f69d7530300 01 00000000 7e004c0062004000") + [UInt8](repeating: 0, count: 16)
        guard case .record(let read) = ViatomPressure.decode([0] + record),
            case .bloodPressure(let value) = read.value
        else {
            Issue.record("the record is not read")
            return
        }
        #expect(
            [value.systolic, value.diastolic, value.meanArterial].map(\.number.number?.significand) == [126, 76, 98])
        #expect(value.pulse?.number.number?.significand == 64 && read.status == [])
        #expect(read.baseTime == WallTime("2025-11-08T21:21:42") && read.userSlot == ViatomPressure.slot(218_071))
        let users: [UInt32] = [218_071, 278_170, 278_176]
        #expect(Set(users.map(ViatomPressure.slot)).count == 3 && ViatomPressure.slot(0) == nil)
    }

    @Test("octets that are no record are refused, empty slots are nothing", arguments: [0, 1, 37, 39])
    func malformed(length: Int) {
        guard case .malformed = ViatomPressure.decode([UInt8](repeating: 9, count: length)) else {
            Issue.record("\(length) octets are no record")
            return
        }
        #expect(ViatomPressure.decode([UInt8](repeating: 0, count: 38)) == .nothing)
        #expect(ViatomPressure.decode([0] + [UInt8](repeating: 0xFF, count: 37)) == .nothing)
    }

    // MARK: Conversations

    @Test("promise 1 and 2: a list is read, each piece durable before the next is asked for, and once")
    func reading() async throws {
        let monitor = monitor()
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 6, received: 6))
        #expect(store.readingCount == 6 && log.breachOfPromise1 == nil)
        #expect(monitor.commands == [0xE1, 0xF2, 0xF3, 0xF3, 0xF3, 0xF4] && !monitor.isOpen)
        #expect(store.contacts[0].device.model == "viatom_lp_bp2w")
        #expect(store.clocks.map(\.deviceTime) == [WallTime("2026-03-08T12:30:03")])
        #expect(try await read(monitor).isComplete)
        monitor.change { $0.records.append(Self.record(9)) }
        #expect(try await read(monitor).received == 7)
        #expect(store.readingCount == 7 && log.breachOfPromise1 == nil)
    }

    @Test("lists of every size are read in pieces of any", arguments: [1, 7, 20, 37, 244, 2000])
    func sizes(piece: Int) async throws {
        for count in [0, 1, 5, 40] where piece > 1 || count < 5 {
            let monitor = monitor(count) { $0.pieceOfList = piece }
            #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: count, received: count))
        }
    }

    @Test("records without a time are as many readings as there are, however often they are read")
    func untimed() async throws {
        let monitor = monitor(0) {
            $0.clock = nil
            $0.records = [
                Self.record(1, time: 0), Self.record(1, time: 0), Self.record(2, time: 0), Self.record(3),
                [UInt8](repeating: 0, count: 37),
            ]
        }
        try await read(monitor)
        try await read(monitor)
        #expect(store.readingCount == 4 && store.clocks.isEmpty)
    }

    @Test("the monitor's clock places its records: their seconds are those of its wall clock")
    func clock() async throws {
        let berlin = try #require(ZoneRules.named("Europe/Berlin"))
        let journal = MemoryJournal(timeZone: berlin)
        // Read at 2026-11-18T13:06:40+01:00; the clock shows an hour and more less than that.
        let monitor = monitor(0) {
            $0.clock = WallTime("2026-11-18T13:00:00")
            $0.records = [Self.record(1, time: UInt32(WallTime("2026-11-18T12:00:00")?.secondsSinceEpoch ?? 0))]
        }
        try await MeterReader(journal: journal, memory: journal).read(monitor)
        let reading = try #require(journal.readings.first)
        #expect(reading.time.basis == .corrected)
        let difference = try #require(reading.time.clock?.correctionSeconds)
        let shown = try #require(reading.record.deviceTime)
        #expect(
            reading.time.instant.map { berlin.wallTime(at: $0).secondsSinceEpoch }
                == shown.secondsSinceEpoch - difference)
    }

    @Test("lost pieces, damaged answers, late ones and curves cost time, and no record")
    func faults() async throws {
        let monitor = monitor(20) {
            $0.losesPieces = [10]
            $0.damages = 1
            $0.delays = [4]
            $0.sendsCurves = true
        }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 20, received: 20))
        #expect(store.readingCount == 20)
        #expect(Set(store.records.map(\.baseTime)).count == 20)
    }

    @Test("a question that is too long for the link is written in pieces")
    func divided() async throws {
        let monitor = monitor { $0.longestWrite = 20 }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 6, received: 6))
        #expect(store.readingCount == 6 && monitor.commands == [0xE1, 0xF2, 0xF3, 0xF3, 0xF3, 0xF4])
    }

    @Test("an answer that comes twice is no answer to the next question")
    func repeated() async throws {
        let monitor = monitor(20) { $0.repeats = [0, 1, 2, 4, 5] }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 20, received: 20))
        #expect(store.readingCount == 20 && Set(store.records.map(\.baseTime)).count == 20)
        #expect(store.records.allSatisfy { $0.userSlot == ViatomPressure.slot(218_071) && $0.exclusion == nil })
    }

    @Test("promise 5: an answer that stays damaged is kept, and the list is read again next time")
    func damaged() async throws {
        let monitor = monitor { $0.damages = 3 }
        let summary = try await read(monitor)
        #expect(!summary.isComplete && summary.error == nil && store.readingCount == 0 && !monitor.isOpen)
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 6)
    }

    @Test("promise 3: a contact that is cut keeps the records that have come, and everything is read again")
    func cut() async throws {
        let monitor = monitor { $0.cutAfterRequests = 4 }
        let first = try await read(monitor)
        #expect(first.error == "transfer_interrupted" && first.received == 5 && store.readingCount == 5)
        #expect(log.breachOfPromise1 == nil)
        monitor.change { $0.cutAfterRequests = nil }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 6)
    }

    @Test("a monitor that measures, refuses, or has less than it says is named, and its list is closed")
    func refusals() async throws {
        let measuring = monitor { $0.isMeasuring = true }
        #expect(try await read(measuring).error == "viatom_measuring")
        #expect(measuring.commands == [0xE1, 0xF2])
        #expect(try await read(monitor { $0.refuses = 0xE1 }).error == "viatom_refused")
        let claiming = monitor { $0.claims = 3 * 37 }
        let summary = try await read(claiming)
        #expect(!summary.isComplete && store.readingCount == 6 && !claiming.isOpen)
        #expect(try await read(monitor { $0.claims = 1 << 20 }).isComplete == false)
        #expect(log.breachOfPromise1 == nil)
    }

    @Test(
        "whatever goes wrong, nothing is written but questions: none that inflates, erases, resets or shows a password")
    func onlyQuestions() async throws {
        try await read(
            monitor {
                $0.losesPieces = [1, 9, 20]
                $0.damages = 1
            })
        for octets in log.requests {
            #expect([0xE1, 0xF2, 0xF3, 0xF4].contains(try ViatomFrame(decoding: octets).command))
        }
    }

    @Test("a capture of a session is replayed request by request")
    func replay() async throws {
        let recorder = SessionRecorder(monitor(30))
        try await MeterReader(journal: store, memory: store).read(recorder)
        let replayed = RecordingStore(EventLog())
        let reader = MeterReader(journal: replayed, memory: replayed, model: "viatom_lp_bp2w")
        let summaries = try await recorder.replay { try await reader.read($0) }
        #expect(summaries.first == ContactSummary(isComplete: true, announced: 30, received: 30))
        #expect(replayed.readingCount == 30 && store.readingCount == 30)
    }

    // MARK: Without a bond

    private func manager(_ monitor: EmulatedViatom) -> DevicesManager {
        DevicesManager(radio: BondlessRadio(monitor: monitor), journal: store, memory: store, pairings: store)
    }

    @Test("an address is typed without its type: a monitor without a bond is known by the one that it is heard with")
    func addressType() async throws {
        let monitor = monitor()
        let (manager, address) = (manager(monitor), monitor.behaviour.address)
        let typed = DeviceAddress(bits: address.bits, kind: address.kind == .public ? .random : .public)
        #expect(try await manager.pair(typed, within: .seconds(1), agent: TestAgent()).address == address)
        #expect(try await manager.reconcilePairings() == [address])
        #expect(try await manager.read(typed) { _ in }.received == 6)
        #expect(try await manager.unpair(typed))
    }

    @Test("a monitor that makes no bond is paired by a person's word, read, and unpaired")
    func withoutBond() async throws {
        let monitor = monitor()
        let (manager, address) = (manager(monitor), monitor.behaviour.address)
        await #expect(throws: RadioError.self) { try await manager.read(address) { _ in } }
        #expect(try await manager.reconcilePairings().isEmpty)
        let device = try await manager.pair(address, within: .seconds(1), agent: TestAgent())
        #expect(device.isPaired && device.isProven && !device.wasPaired && device.model?.id == "viatom_lp_bp2w")
        #expect(monitor.commands.isEmpty, "pairing asks for nothing")
        #expect(try await manager.reconcilePairings() == [address])
        #expect(try await manager.read(address) { _ in }.received == 6)
        #expect(try await manager.pair(address, within: .seconds(1), agent: TestAgent()).wasPaired)
        #expect(try await manager.unpair(address))
        #expect(try await manager.reconcilePairings().isEmpty)
        await #expect(throws: RadioError.self) { try await manager.read(address) { _ in } }
        #expect(try await !manager.unpair(address))
    }

    @Test("a device that only has the name, or changes its address, is not paired")
    func notPaired() async throws {
        let impostor = monitor { $0.hasService = false }
        let error = await #expect(throws: ContactFailure.self) {
            try await manager(impostor).pair(impostor.behaviour.address, within: .seconds(1), agent: TestAgent())
        }
        #expect(error?.code == "model_not_credible")
        let hiding = monitor { $0.address = DeviceAddress(bits: 0x4000_0000_0009, kind: .random) }
        let other = await #expect(throws: ContactFailure.self) {
            try await manager(hiding).pair(hiding.behaviour.address, within: .seconds(1), agent: TestAgent())
        }
        #expect(other?.code == "private_address")
        #expect(try await store.pairings().allSatisfy { !$0.state.isPaired })
    }

    @Test("a schedule reads a monitor without a bond once a person has paired it, and no stranger's")
    func schedule() async throws {
        let monitor = monitor()
        let manager = manager(monitor)
        let stranger = Task { await MeterSchedule(manager).run() }
        try await Task.sleep(for: .milliseconds(100))
        #expect(store.contacts.isEmpty)
        _ = try await manager.pair(monitor.behaviour.address, within: .seconds(1), agent: TestAgent())
        try await eventually("it is read") { store.readingCount == 6 }
        stranger.cancel()
        await stranger.value
    }
}

/// A radio near which one device is that makes no bond.
private struct BondlessRadio: Radio {
    let monitor: EmulatedViatom

    func adapterStates() -> AsyncStream<AdapterState> {
        AsyncStream { $0.yield(.ready(Adapter(name: "hci0", address: nil))) }
    }
    func advertisements() -> AsyncThrowingStream<Advertisement, any Error> {
        AsyncThrowingStream { $0.yield(monitor.advertisement) }
    }
    func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> { AsyncThrowingStream { $0.yield(monitor) } }
    func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        AsyncThrowingStream { stream in if addresses.contains(monitor.behaviour.address) { stream.yield(monitor) } }
    }
    func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error> {
        AsyncThrowingStream { _ in }
    }
    func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral { monitor }
    func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond {
        throw RadioError.pairing(.rejectedByDevice)
    }
    func unpair(_ address: DeviceAddress) async throws -> Bool { false }
    func bonds() async throws -> [Bond] { [] }
}
