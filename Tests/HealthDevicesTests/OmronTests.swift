import GATTClient
import HealthReadings
import Synchronization
import Testing

@testable import HealthDevices

/// Conversations with Omron monitors by their own protocol.
@Suite struct OmronTests {
    private let log = EventLog()
    private let store: RecordingStore
    private static let key = [UInt8](repeating: 0x5A, count: 16)
    /// One model of each stack, order and length.
    private static let models = [
        "omron_hem7322t", "omron_hem7361t", "omron_hem7143t1", "omron_hem7380t1", "omron_hem7155tmw3",
    ]

    init() { store = RecordingStore(log) }

    private func monitor(
        _ model: String = "omron_hem7322t", _ records: [Int] = [5, 3],
        _ adjust: (inout EmulatedOmron.Behaviour) throws -> Void = { _ in }
    ) throws -> EmulatedOmron {
        let memory = try #require(Catalogue()[model]?.omronMemory)
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: Array(records.prefix(memory.users.count)))
        behaviour.key = Self.key
        behaviour.longestRead = memory.longestRead
        try adjust(&behaviour)
        return EmulatedOmron(behaviour, log: log)
    }

    @discardableResult private func read(
        _ monitor: EmulatedOmron, as model: String? = nil, all: Bool = false,
        secrets: (any DeviceSecrets)? = Secrets([.device(7): key])
    ) async throws -> ContactSummary {
        try await MeterReader(
            journal: store, memory: store, model: model ?? monitor.behaviour.model, secrets: secrets
        ).read(monitor, allRecords: all)
    }

    /// What the journal was given as records.
    private var records: [Frame] { store.frames.filter { $0.format == .omronRecord } }

    // MARK: Reading

    @Test(
        "promise 1 and 2: a memory is read, each message durable before the next request, and once", arguments: models)
    func reading(model: String) async throws {
        let monitor = try monitor(model)
        let users = monitor.memory.users.count
        let expected = users == 1 ? 5 : 8
        #expect(
            try await read(monitor) == ContactSummary(isComplete: true, announced: expected, received: expected))
        #expect(store.readingCount == expected && log.breachOfPromise1 == nil)
        #expect(store.records.allSatisfy { $0.exclusion == nil && $0.sequence == nil && $0.baseTime != nil })
        #expect(Set(store.records.map(\.userSlot)) == (users == 1 ? [1] : [1, 2]))
        #expect(store.contacts[0].device.model == model && store.contacts[0].device.provider == "omron_ble")
        #expect(monitor.sessions == (1, 1) && monitor.writesToMemory == 0)
        log.clear()
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == expected && log.breachOfPromise1 == nil)
    }

    @Test(
        "a monitor whose bond is enough is not told to stop, and may hang up itself; one with a key is told",
        arguments: models)
    func farewell(model: String) async throws {
        let monitor = try monitor(model)
        let hasKey = monitor.memory.stack == .key
        for hangsUp in [false, true] {
            log.clear()
            monitor.change { $0.hangsUp = hangsUp }
            let before = monitor.waited
            #expect(try await read(monitor).error == nil)
            let isLeft = log.events.contains(.keep)
            let isStopped = log.events.contains { if case .stop = $0 { true } else { false } }
            #expect(isLeft == !hasKey && isStopped == hasKey)
            #expect(log.events.last == .disconnect && log.breachOfPromise1 == nil)
            let isWaitedFor = !hasKey && !hangsUp
            let farewell = isWaitedFor ? OmronLink.patienceForHangUp : .zero
            #expect(monitor.waited - before == OmronLink.pause + farewell)
        }
    }

    @Test("one new record is read in six requests, or in seven of one record each, whoever's it is", arguments: models)
    func oneNew(model: String) async throws {
        let monitor = try monitor(model, [40, 20])
        let reader = MeterReader(journal: store, memory: store, model: model, secrets: Secrets([.device(7): Self.key]))
        try await reader.read(monitor)
        let memory = monitor.memory
        let most = memory.slotsARead == 1 ? 7 : 6
        for (user, number) in [40, 20].prefix(memory.users.count).enumerated() {
            monitor.change { $0.measure(1, user: user, of: memory, since: number) }
            let before = store.readingCount
            #expect(try await reader.read(monitor).isComplete)
            #expect(store.readingCount == before + 1)
            #expect(monitor.requests <= most, "\(monitor.requests)")
        }
        #expect(monitor.requests >= 5)
        // Another process knows as much.
        monitor.change { $0.measure(1, user: 0, of: memory, since: 41) }
        let before = store.readingCount
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == before + 1 && monitor.requests <= most)
    }

    @Test("a user who has measured nothing is asked for the newest record, and no more")
    func nothingNew() async throws {
        let monitor = try monitor("omron_hem7361t", [40, 20])
        let reader = MeterReader(
            journal: store, memory: store, model: "omron_hem7361t", secrets: Secrets([.device(7): Self.key]))
        try await reader.read(monitor)
        // The index, the clock, and a block for each user.
        #expect(try await reader.read(monitor).isComplete && monitor.reads.count == 4)
        #expect(try await reader.read(monitor, allRecords: true).received == 60)
        // A contact that was cut makes everything be read again.
        monitor.change { $0.cutAfterReads = 1 }
        #expect(try await !reader.read(monitor).isComplete)
        monitor.change { $0.cutAfterReads = nil }
        #expect(try await reader.read(monitor).received == 60 && monitor.reads.count > 60)
        let another = OmronTests()
        let small = try another.monitor("omron_hem7143t1", [20])
        let other = MeterReader(journal: another.store, memory: another.store, model: "omron_hem7143t1")
        try await other.read(small)
        try await other.read(small)
        #expect(small.reads.count == 3)
    }

    @Test(
        "rings that are full, wrapped and just wrapped are read whole, each slot once", arguments: [29, 30, 31, 47, 60])
    func rings(count: Int) async throws {
        let monitor = try monitor("omron_hem7143t1", [count])
        #expect(try await read(monitor).received == min(count, 30))
        #expect(store.readingCount == min(count, 30))
        let memory = monitor.memory
        monitor.change { $0.measure(7, user: 0, of: memory, since: count) }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == min(count, 30) + 7 && monitor.reads.count <= 6)
    }

    @Test("promise 2: of a ring that is shorter than its model's no record is missed once it has come round")
    func shorterRing() async throws {
        let monitor = try monitor("omron_hem6231t", [88])
        #expect(try await read(monitor).received == 88)
        let known = monitor.memory
        let shorter = OmronMemory(
            known.stack, known.layout.order, octets: known.layout.length, users: known.users, count: 90,
            settings: known.settings, clock: known.clock, longestRead: known.longestRead,
            isAtWrist: known.isAtWrist, known.certainty)
        monitor.change { $0.measure(5, user: 0, of: shorter, since: 88) }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 93)
    }

    @Test("a full memory of two users is asked for in as many requests as it has blocks")
    func full() async throws {
        let monitor = try monitor("omron_hem7322t", [100, 100])
        #expect(try await read(monitor).received == 200)
        // The index, the clock, and 25 blocks for each user.
        #expect(monitor.reads.count == 52 && monitor.requests == 54)
    }

    @Test("of a user who has recorded nothing the first slots are looked at; all records means every slot")
    func emptyUsers() async throws {
        let monitor = try monitor("omron_hem7322t", [3])
        #expect(try await read(monitor).received == 3 && monitor.reads.count == 29)
        #expect(monitor.reads.last?.address == 0x0824)
        #expect(try await read(monitor, all: true).received == 3)
        #expect(monitor.reads.count == 53 && store.readingCount == 3)
        let empty = try self.monitor("omron_hem7140t1", [])
        #expect(try await read(empty) == ContactSummary(isComplete: true, announced: 0, received: 0))
    }

    @Test("promise 2: the second user of a model whose index is laid out otherwise than its row says is read too")
    func misplacedIndex() async throws {
        let monitor = try monitor("omron_hem7380t1", [40, 0]) { $0.cursorWords = [0, 4] }
        #expect(try await read(monitor).received == 40)
        let memory = monitor.memory
        // Only the second user measures: the index of this row says that there are none.
        monitor.change { $0.measure(2, user: 1, of: memory) }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 42 && store.records.filter { $0.userSlot == 2 }.count == 2)
    }

    @Test(
        "promise 2: the second user of an X4 Smart is read though the first user's running number looks like a position"
    )
    func runningNumber() async throws {
        // As owners' monitors say it (hass-omron pull request 170): the fifth word is how often the first user has measured.
        let monitor = try monitor("omron_hem7155tmw3", [12, 40]) { $0.otherWords = [4: 12] }
        #expect(try await read(monitor).received == 52)
        let memory = monitor.memory
        monitor.change { $0.measure(2, user: 1, of: memory) }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 54 && store.records.filter { $0.userSlot == 2 }.count == 42)
    }

    @Test("an index that points elsewhere costs time, and no record")
    func wrongIndex() async throws {
        let monitor = try monitor("omron_hem7143t1", [9]) { $0.cursors = [25] }
        #expect(try await read(monitor).received == 9 && store.readingCount == 9)
        monitor.change { $0.cursors = [99] }
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 9)
        let refusing = try self.monitor("omron_hem7143t1", [9]) { $0.refuses = [0x0260: 0xE3] }
        #expect(try await read(refusing).received == 9)
    }

    @Test("a contact that was cut is followed by one that reads everything")
    func cut() async throws {
        let monitor = try monitor("omron_hem7322t", [40, 20]) { $0.cutAfterReads = 5 }
        let first = try await read(monitor)
        #expect(first.error == "transfer_interrupted" && !first.isComplete && first.received == 12)
        #expect(store.readingCount == 12 && log.breachOfPromise1 == nil && monitor.sessions.ended == 0)
        monitor.change { $0.cutAfterReads = nil }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 60, received: 60))
        #expect(store.readingCount == 60)
    }

    @Test("a contact by the standard service does not count as one that read the memory")
    func afterStandard() async throws {
        let monitor = try monitor("omron_hem7322t", [9]) { $0.standard = [pressureRecord(1)] }
        try await read(monitor, as: "omron_blesmart")
        #expect(store.readingCount == 1 && monitor.reads.isEmpty)
        #expect(try await read(monitor).received == 9)
        #expect(store.readingCount == 10)
        // Never both in one session: what the standard service sends may be deleted.
        #expect(store.frames.count { $0.format == FrameFormat(characteristic: 0x2A35) } == 1)
    }

    // MARK: Faults

    @Test(
        "pieces in any order, late answers, lost pieces and damaged answers cost time, and no record",
        arguments: [true, false])
    func faults(sendsLateAnswers: Bool) async throws {
        let monitor = try monitor("omron_hem7322t", [9, 6]) {
            $0.channels = [3, 1, 0, 2]
            $0.losesPieces = [2, 9, 15]
            $0.damages = [0x0824: 2, 0x0260: 1]
            $0.sendsLateAnswers = sendsLateAnswers
        }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 15, received: 15))
        #expect(store.readingCount == 15)
        // The log cannot tell which of two answers the pieces of a mixed one were of.
        if !sendsLateAnswers { #expect(log.breachOfPromise1 == nil) }
    }

    @Test("a monitor that is silent is asked five times, and the session is ended")
    func silent() async throws {
        let monitor = try monitor("omron_hem7143t1") { $0.silences = 4 }
        #expect(try await read(monitor).isComplete)
        #expect(monitor.waited == .seconds(12) + OmronLink.pause + OmronLink.patienceForHangUp)
        monitor.change { $0.silences = 100 }
        let summary = try await read(monitor)
        #expect(summary.error == "timeout" && !summary.isComplete)
        #expect(log.breachOfPromise1 == nil)
    }

    @Test("a block that stays damaged is kept as it came, stops nothing, and is read again")
    func damaged() async throws {
        let monitor = try monitor("omron_hem7143t1", [9]) { $0.damages = [0x02E8 + 14: 5] }
        let summary = try await read(monitor)
        #expect(!summary.isComplete && summary.error == nil && store.readingCount == 5)
        #expect(try await read(monitor).isComplete)
        #expect(store.readingCount == 9)
    }

    @Test("a monitor that refuses more than one record at a time is asked for one")
    func oneAtATime() async throws {
        let monitor = try monitor("omron_hem7380t1", [7, 2]) { $0.longestRead = 16 }
        #expect(try await read(monitor).received == 9 && store.readingCount == 9)
        // What it refuses to show has no records.
        let refusing = try self.monitor("omron_hem7322t", [3]) { $0.refuses = [0x02AC: 0xE7] }
        _ = refusing
        let blank = try self.monitor("omron_hem7322t", [4]) { $0.refuses = [UInt16(0x02AC + 96 * 14): 0xE7] }
        #expect(try await read(blank).isComplete)
    }

    @Test("a record that is refused is asked for once more, and ends nothing; a slot that is blank ends the reading")
    func refusedRecords() async throws {
        func address(_ slot: Int) -> UInt16 { UInt16(0x0098 + slot * 16) }
        let once = try monitor("omron_hem7361t", [9]) { $0.refusals = [address(4): 1, address(8): 1] }
        #expect(try await read(once).received == 9 && store.readingCount == 9)
        let other = OmronTests()
        let never = try other.monitor("omron_hem7361t", [9]) {
            ($0.refuses[address(4)], $0.refuses[address(99)]) = (0xE3, 0xE7)
        }
        // A record that is there and isn't shown is missing; the next contact asks for everything again.
        #expect(try await !other.read(never).isComplete)
        #expect(other.store.readingCount == 8)
        // The last slot was never written: it is asked for once.
        #expect(never.reads.filter { $0.address == address(4) }.count == 2)
        #expect(never.reads.filter { $0.address == address(99) }.count == 1)
        never.change { $0.refuses = [:] }
        #expect(try await other.read(never).isComplete && other.store.readingCount == 9)
        let blocks = OmronTests()
        let block = try blocks.monitor("omron_hem7322t", [40]) { $0.refusals = [UInt16(0x02AC + 28 * 14): 1] }
        #expect(try await blocks.read(block).received == 40)
    }

    @Test("a record that is half written, or whose date cannot be, is kept and named; the others are read")
    func malformed() async throws {
        let monitor = try monitor("omron_hem7322t", [9]) {
            $0.slots[0][8] = ($0.slots[0][8] ?? []).prefix(6) + [UInt8](repeating: 0xFF, count: 8)
            var impossible = OmronSample()
            impossible.month = 14
            $0.slots[0][4] = impossible.octets(14, .highFirst)
        }
        #expect(try await read(monitor) == ContactSummary(isComplete: true, announced: 9, received: 9))
        #expect(store.readingCount == 7 && records.count == 9)
        let memory = monitor.memory
        monitor.change {
            $0.slots[0][8] = EmulatedOmron.Behaviour.sample(8, user: 0).octets(14, .highFirst)
            $0.measure(1, user: 0, of: memory, since: 9)
        }
        try await read(monitor)
        #expect(store.readingCount == 9)
    }

    @Test("a monitor of one model under another's name makes no reading, and the mistake is named")
    func wrongModel() async throws {
        // The same service and channels, another order and length.
        let monitor = try monitor("omron_hem7361t", [60, 60]) { $0.longestRead = 0x38 }
        let summary = try await read(monitor, as: "omron_hem7322t")
        #expect(summary.error == "omron_wrong_model" && store.readingCount == 0 && !records.isEmpty)
        #expect(monitor.sessions == (1, 1))
        // Another stack: nothing of the own protocol is there, and nothing is guessed.
        let other = try self.monitor("omron_hem7143t1") { $0.standard = [pressureRecord(1)] }
        #expect(try await read(other, as: "omron_hem7322t").received == 1)
        #expect(other.reads.isEmpty)
    }

    @Test("a battery that reads 0 says nothing; another level is one", arguments: [0, 40] as [UInt8])
    func battery(level: UInt8) async throws {
        let monitor = try monitor { $0.battery = level }
        try await read(monitor)
        #expect(store.batteries == [level == 0 ? nil : level])
    }

    // MARK: The key

    @Test("another key, and none, are named; nothing is read")
    func keys() async throws {
        let monitor = try monitor()
        let other = try await read(monitor, secrets: Secrets([.device(7): [UInt8](repeating: 1, count: 16)]))
        #expect(other.error == "omron_key_refused" && monitor.requests == 0)
        let none = try await read(monitor, secrets: Secrets([:]))
        #expect(none.error == "omron_key_missing")
        let broken = try await read(monitor, secrets: Secrets([.device(7): [1]]))
        #expect(broken.error == "omron_key_missing" && store.readingCount == 0)
        #expect(log.breachOfPromise1 == nil)
    }

    @Test("a monitor stores the key once its link is encrypted, and not outside its pairing mode")
    func storing() async throws {
        let monitor = try monitor("omron_hem7322t") {
            ($0.key, $0.isPairing, $0.refusesKey) = (nil, true, 3)
        }
        _ = try await monitor.connect()
        let link = try #require(
            OmronLink(monitor, try await monitor.characteristics(), stack: .key))
        let key = OmronKey.random()
        try await link.store(key)
        #expect(monitor.behaviour.key == key.octets && monitor.sessions == (1, 1))
        monitor.change { $0.isPairing = false }
        let error = await #expect(throws: TransferError.self) { try await link.store(.random()) }
        #expect(error?.code == "omron_key_not_taken" && monitor.behaviour.key == key.octets)
    }

    @Test("whatever goes wrong, nothing is written but requests that read, and keys")
    func onlyReads() async throws {
        let monitor = try monitor("omron_hem7322t", [60, 20]) {
            $0.losesPieces = [3, 17, 40]
            $0.refuses = [0x0260: 0xE3]
        }
        let before = monitor.behaviour
        try await read(monitor)
        try await read(monitor, all: true)
        #expect(monitor.writesToMemory == 0)
        #expect(monitor.behaviour.slots == before.slots && monitor.behaviour.cursors == before.cursors)
        for octets in log.requests where octets.count == 8 {
            let kind = try OmronFrame(decoding: octets).kind
            #expect([0x0000, 0x0100, 0x0F00].contains(kind))
        }
        #expect(log.requests.allSatisfy { $0.count == 8 || $0.count == 17 && $0[0] == 1 })
    }

    // MARK: The clock, and two protocols

    @Test("the clock in the memory is compared with the gateway's")
    func clock() async throws {
        let monitor = try monitor("omron_hem7322t") { $0.clock = [UInt8](hex: "08c8091912122c1b855d") }
        try await read(monitor)
        #expect(store.clocks.map(\.deviceTime) == [WallTime("2025-09-18T18:27:44")])
    }

    @Test(
        "a record by the standard service and by the memory is one reading, in either order", arguments: [true, false])
    func twoProtocols(standardFirst: Bool) async throws {
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        let sample = EmulatedOmron.Behaviour.sample(0, user: 0)
        // The same measurement, with its mean and another bit of its status.
        let standard: [UInt8] =
            [0x1E, UInt8(sample.systolic), 0, sample.diastolic, 0, 97, 0, 0xEA, 0x07, UInt8(sample.month)]
            + [
                UInt8(sample.day), UInt8(sample.hour), UInt8(sample.minute), UInt8(sample.second), sample.pulse, 0, 1,
                0, 0,
            ]
        let monitor = try monitor("omron_hem7143t1", [3]) { $0.standard = [standard] }
        func read(own: Bool) async throws {
            // Without its own service the monitor is read by the standard one, as the same model.
            let device: any Peripheral = own ? monitor : StandardOnly(monitor)
            try await MeterReader(journal: journal, memory: journal, model: "omron_hem7143t1").read(device)
        }
        try await read(own: !standardFirst)
        try await read(own: standardFirst)
        #expect(journal.readings.count == 3)
        try await read(own: true)
        try await read(own: false)
        #expect(journal.readings.count == 3)
        let reading = try #require(journal.readings.first { $0.record.baseTime == sample.time })
        guard case .bloodPressure(let value) = reading.record.value else {
            Issue.record("\(reading.record.value)")
            return
        }
        #expect(value.meanArterial.number.number == ExactDecimal(significand: 97))
        #expect(reading.record.userSlot == 1 && Set(journal.readings.map(\.id)).count == 3)
    }

    // MARK: Which model it is

    @Test("a model that a person has said stays, whatever the monitor's name makes of it")
    func chosenModel() async throws {
        let monitor = try monitor("omron_hem7322t")
        let device = DeviceDescription(address: .device(7), model: "omron_hem7322t", name: monitor.behaviour.name)
        try await store.admit(device, as: .paired)
        let reader = MeterReader(
            journal: store, memory: store, pairings: store, secrets: Secrets([.device(7): Self.key]))
        #expect(try await reader.read(monitor).received == 8)
        #expect(store.contacts[0].device.model == "omron_hem7322t")
        let catalogue = Catalogue()
        #expect(catalogue.model(catalogue["beurer_bm"], knownAs: "omron_hem7322t")?.id == "beurer_bm")
        #expect(catalogue.model(catalogue["omron_smart"], knownAs: "beurer_bm")?.id == "omron_smart")
        #expect(catalogue.model(nil, knownAs: "omron_hem7322t")?.id == "omron_hem7322t")
    }
}

/// Secrets in memory.
final class Secrets: DeviceSecrets {
    private let state: Mutex<[DeviceAddress: [UInt8]]>

    init(_ secrets: [DeviceAddress: [UInt8]]) { state = Mutex(secrets) }

    var all: [DeviceAddress: [UInt8]] { state.withLock { $0 } }

    func secret(of device: DeviceAddress) async throws -> [UInt8]? { state.withLock { $0[device] } }

    func keep(_ secret: [UInt8]?, of device: DeviceAddress) async throws { state.withLock { $0[device] = secret } }
}

/// A monitor whose own service is not found.
private struct StandardOnly: Peripheral {
    let monitor: EmulatedOmron

    init(_ monitor: EmulatedOmron) { self.monitor = monitor }

    var advertisement: Advertisement { monitor.advertisement }
    func connect() async throws -> Instant { try await monitor.connect() }
    func characteristics() async throws -> [Characteristic] {
        try await monitor.characteristics().filter { $0.service == 0x1810 }
    }
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        try await monitor.read(characteristic)
    }
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        try await monitor.write(octets, to: characteristic, expectingResponse: expectingResponse)
    }
    func startNotifying(_ characteristic: Characteristic) async throws {
        try await monitor.startNotifying(characteristic)
    }
    func stopNotifying(_ characteristic: Characteristic) async throws {
        try await monitor.stopNotifying(characteristic)
    }
    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        try await monitor.nextValues(within: timeout)
    }
    func disconnect() async { await monitor.disconnect() }
}
