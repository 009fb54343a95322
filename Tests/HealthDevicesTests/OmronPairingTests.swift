import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// Pairing as a model that no name tells, and the key that some of these models want.
@Suite struct OmronPairingTests {
    private let log = EventLog()
    private let store: RecordingStore
    private let secrets = Secrets([:])
    private let address = DeviceAddress.device(7)

    init() { store = RecordingStore(log) }

    private func monitor(
        _ model: String = "omron_hem7322t", _ adjust: (inout EmulatedOmron.Behaviour) -> Void = { _ in }
    ) throws -> EmulatedOmron {
        var behaviour = try EmulatedOmron.Behaviour.memory(model, records: [3])
        (behaviour.isPairing, behaviour.isBonded) = (true, false)
        adjust(&behaviour)
        return EmulatedOmron(behaviour, log: log)
    }

    private func manager(_ monitor: EmulatedOmron) -> DevicesManager {
        DevicesManager(
            radio: OmronRadio(monitor: monitor), journal: store, memory: store, pairings: store, secrets: secrets)
    }

    @discardableResult private func pair(
        _ manager: DevicesManager, as model: String?, repair: Bool = false
    ) async throws -> PairedDevice {
        try await manager.pair(
            address, within: .seconds(1), repair: repair, model: model, agent: TestAgent()
        ) { _ in }
    }

    @Test("a key is made, kept before the monitor has it, and opens the memory from then on")
    func pairing() async throws {
        let monitor = try monitor { $0.refusesKey = 2 }
        let manager = manager(monitor)
        let device = try await pair(manager, as: "omron_hem7322t")
        #expect(device.isPaired && device.model?.id == "omron_hem7322t")
        let key = try #require(secrets.all[address])
        #expect(key.count == 16 && monitor.behaviour.key == key && monitor.sessions == (1, 1))
        monitor.change { $0.isPairing = false }
        #expect(try await manager.read(address) { _ in }.received == 3)
        #expect(store.contacts[0].device.model == "omron_hem7322t")
        // What is known of bonds is looked at anew, and the model stays.
        try await manager.reconcilePairings()
        #expect(try await store.model(of: address) == "omron_hem7322t")
        #expect(try await manager.unpair(address))
        #expect(secrets.all.isEmpty)
    }

    @Test("a monitor that takes no key is named, and is given the same key the next time")
    func refused() async throws {
        let monitor = try monitor { $0.isPairing = false }
        let manager = manager(monitor)
        let error = await #expect(throws: ContactFailure.self) { try await pair(manager, as: "omron_hem7322t") }
        #expect(error?.code == "omron_key_not_taken")
        let key = try #require(secrets.all[address])
        // It is bonded by now; the person holds its button and tries again.
        monitor.change { $0.isPairing = true }
        try await pair(manager, as: "omron_hem7322t", repair: true)
        #expect(monitor.behaviour.key == key && secrets.all[address] == key)
    }

    @Test("a monitor that is paired already becomes a model that is said, and is given a key where that wants one")
    func later() async throws {
        let monitor = try monitor { $0.isBonded = true }
        let manager = manager(monitor)
        try await pair(manager, as: nil)
        #expect(try await store.model(of: address) == "omron_blesmart")
        #expect(secrets.all.isEmpty)
        let device = try await pair(manager, as: "omron_hem7322t")
        #expect(device.model?.id == "omron_hem7322t" && device.wasPaired)
        #expect(monitor.behaviour.key == secrets.all[address] && monitor.behaviour.key != nil)
        #expect(try await store.model(of: address) == "omron_hem7322t")
        #expect(try await manager.read(address) { _ in }.received == 3)
    }

    @Test(
        "a model without a key needs none, and is read on the connection on which it was paired",
        arguments: ["omron_hem7143t1", "omron_hem7380t1"])
    func withoutKey(model: String) async throws {
        let monitor = try monitor(model)
        let manager = manager(monitor)
        #expect(try await pair(manager, as: model).model?.id == model)
        #expect(secrets.all.isEmpty && monitor.sessions == (1, 1) && store.readingCount == 3)
        #expect(store.contacts.count == 1 && store.contacts[0].device.model == model)
        // What is new from then on.
        let summary = try await manager.read(address) { _ in }
        #expect(summary.isComplete && summary.error == nil && store.readingCount == 3)
    }

    @Test("a monitor whose address was typed without its type is read on the connection on which it was paired, too")
    func addressType() async throws {
        let monitor = try monitor("omron_hem7380t1")
        let manager = manager(monitor)
        let typed = DeviceAddress(bits: address.bits, kind: .public)
        let device = try await manager.pair(
            typed, within: .seconds(1), model: "omron_hem7380t1", agent: TestAgent())
        #expect(device.address == address && monitor.sessions == (1, 1) && store.readingCount == 3)
        // Paired anew, it is the model that it was said to be.
        #expect(try await manager.unpair(typed))
        let memory = monitor.memory
        monitor.change { $0.measure(2, user: 0, of: memory) }
        let again = try await manager.pair(typed, within: .seconds(1), agent: TestAgent())
        #expect(again.model?.id == "omron_hem7380t1" && store.readingCount == 5)
    }

    @Test(
        "a monitor that ends each connection but that of its pairing is paired and read, and not proven",
        arguments: [true, false])
    func endsLaterLinks(seemsToForget: Bool) async throws {
        let monitor = try monitor("omron_hem7386t1") { ($0.endsLaterLinks, $0.seemsToForget) = (true, seemsToForget) }
        let manager = manager(monitor)
        let device = try await pair(manager, as: "omron_hem7386t1")
        #expect(device.isPaired && !device.isProven && store.readingCount == 3)
        #expect(store.pairing(address) == .paired)
        await #expect(throws: (any Error).self) { try await manager.read(address, within: .zero) { _ in } }
        // Paired once more, it shows what it has measured since.
        let memory = monitor.memory
        monitor.change { $0.measure(2, user: 0, of: memory) }
        try await pair(manager, as: "omron_hem7386t1", repair: true)
        #expect(store.readingCount == 5)
    }

    @Test(
        "without a store, the next reading returns what a monitor showed as it was paired, also if it shows nothing more",
        arguments: [false, true])
    func toldWithoutStore(endsLaterLinks: Bool) async throws {
        let monitor = try monitor("omron_hem7380t1") { $0.endsLaterLinks = endsLaterLinks }
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        let manager = DevicesManager(radio: OmronRadio(monitor: monitor), keepingIn: journal, secrets: secrets)
        try await pair(manager, as: "omron_hem7380t1")
        #expect(journal.readings.count == 3)
        let read = try await manager.readings(of: address, within: .zero)
        #expect(read.readings == journal.readings)
        #expect((read.failure != nil) == endsLaterLinks)
        if endsLaterLinks {
            await #expect(throws: (any Error).self) { try await manager.readings(of: address, within: .zero) }
        } else {
            #expect(try await manager.readings(of: address, within: .zero).readings.isEmpty)
        }
    }

    @Test("a reader of a find pairs it as the model that a person says, one of its choices, and reads it")
    func readerOfChoice() async throws {
        let monitor = try monitor("omron_hem7380t1")
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        let manager = DevicesManager(radio: OmronRadio(monitor: monitor), keepingIn: journal)
        let (catalogue, advertisement) = (Catalogue(), monitor.advertisement)
        let found = FoundDevice(
            advertisement: advertisement, model: catalogue.model(for: advertisement),
            choices: catalogue.choices(for: advertisement))
        let choice = try #require(found.choices.first { $0.id == "omron_hem7380t1" })
        let reader = try #require(manager.reader(for: found))
        #expect(reader.model?.id == "omron_blesmart")
        let (device, paired) = try await reader.pair(within: .seconds(1), model: choice.id, agent: TestAgent())
        #expect(device.model == choice && paired.model == choice)
        let read = try await paired.read(within: .zero)
        #expect(read.readings.count == 3 && read.readings == journal.readings)
    }

    @Test(
        "a monitor that is given a key stays as it is where the manager has no place for the key",
        arguments: [(false, false), (true, false), (true, true)])
    func noPlaceForKey(isBonded: Bool, repairs: Bool) async throws {
        let monitor = try monitor { $0.isBonded = isBonded }
        let manager = DevicesManager(
            radio: OmronRadio(monitor: monitor), journal: store, memory: store, pairings: store)
        let error = await #expect(throws: ContactFailure.self) {
            try await pair(manager, as: "omron_hem7322t", repair: repairs)
        }
        #expect(error?.code == "no_place_for_secrets" && error?.hint != nil)
        #expect(monitor.behaviour.isBonded == isBonded && monitor.sessions == (0, 0))
        #expect(store.pairing(address) == nil)
    }

    @Test("a monitor that cannot be read as it is paired is paired all the same")
    func unreadAtPairing() async throws {
        let monitor = try monitor("omron_hem7380t1") { $0.cutAfterReads = 1 }
        let manager = manager(monitor)
        #expect(try await pair(manager, as: "omron_hem7380t1").isPaired)
        #expect(store.readingCount == 0)
        monitor.change { $0.cutAfterReads = nil }
        #expect(try await manager.read(address) { _ in }.received == 3)
    }

    @Test(
        "a model that has no memory of its own, or that the device cannot be, is refused by name",
        arguments: [
            ("accuchek_guide", "BLESmart_0000021A28FF", "model_not_chosen"),
            ("omron_hem0000t", "BLESmart_0000021A28FF", "model_not_chosen"),
            ("omron_hem7322t", "meter+1", "model_not_credible"),
            ("omron_hem7322t", "BM57", "model_not_credible"),
        ])
    func incredible(model: String, name: String, code: String) async throws {
        let monitor = try monitor { $0.name = name }
        let manager = manager(monitor)
        let error = await #expect(throws: ContactFailure.self) { try await pair(manager, as: model) }
        #expect(error?.code == code && !monitor.behaviour.isBonded)
    }

    @Test("a monitor that does not offer what the model has is refused by name")
    func wrongStack() async throws {
        let monitor = try monitor("omron_hem7143t1")
        let manager = manager(monitor)
        let error = await #expect(throws: ContactFailure.self) { try await pair(manager, as: "omron_hem7322t") }
        #expect(error?.code == "omron_wrong_model" && monitor.sessions == (0, 0))
    }

    // MARK: In a store

    /// A measurement by the standard protocol, and as it stands in the first user's memory.
    private static func forms(of sample: OmronSample, user: UInt8?) throws -> [Frame] {
        let standard = BloodPressureMeasurement(
            unit: .millimetresOfMercury, systolic: MedFloat16(rawValue: sample.systolic),
            diastolic: MedFloat16(rawValue: UInt16(sample.diastolic)), meanArterialPressure: MedFloat16(rawValue: 97),
            timeStamp: DateTime(try #require(sample.time)), pulseRate: MedFloat16(rawValue: UInt16(sample.pulse)),
            userID: user, measurementStatus: 1
        ).encoded
        let received = try #require(Instant(rfc3339: "2026-11-21T10:00:00Z"))
        return [
            Frame(
                format: FrameFormat(characteristic: 0x2A35), payload: standard, receivedAt: received, ordinal: 0),
            Frame(
                format: .omronRecord, payload: [0x02, 0xAC] + sample.octets(14, .highFirst), receivedAt: received,
                ordinal: 0),
        ]
    }

    @Test(
        "in a store, a measurement that comes by both protocols is one reading with one id", arguments: [true, false])
    func twoProtocols(standardFirst: Bool) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "omron-\(ProcessInfo.processInfo.globallyUniqueString)").path
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
        let frames = try Self.forms(of: OmronSample(), user: 1)
        var ids: Set<ReadingID> = []
        // The clock is compared anew in the second contact, so that the two are placed minutes apart.
        for (turn, frame) in ((standardFirst ? frames : frames.reversed()) + frames).enumerated() {
            let start = try #require(Instant(rfc3339: "2026-11-21T09:5\(turn):00Z"))
            let shown = try #require(WallTime(turn == 0 ? "2026-11-21T10:50:00" : "2026-11-21T10:57:30"))
            let contact = try await store.beginContact(
                with: DeviceDescription(address: address, model: "omron_hem7322t", provider: "omron_ble"), at: start,
                clock: ClockReading(deviceTime: shown, readAt: start), batteryPercent: nil)
            for outcome in try await store.append([frame], of: contact) {
                switch outcome {
                case .new(let reading), .revised(let reading): ids.insert(reading.id)
                case .repeated(let id): ids.insert(id)
                default: Issue.record("\(outcome)")
                }
            }
            try await store.endContact(contact, ContactSummary(isComplete: turn == 1, announced: 4, received: 1))
        }
        #expect(ids.count == 1)
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.count == 1)
        guard case .bloodPressure(let value)? = readings.first?.record.value else {
            Issue.record("\(readings)")
            return
        }
        #expect(value.meanArterial.number.number == ExactDecimal(significand: 97))
        #expect(readings.first?.record.status == .bodyMovement)
        // What a contact before has come to is told to the next.
        let contact = try await store.beginContact(
            with: DeviceDescription(address: address, model: "omron_hem7322t", provider: "omron_ble"),
            at: try #require(Instant(rfc3339: "2026-11-21T10:30:00Z")), clock: nil, batteryPercent: nil)
        let previous = try #require(try await store.previousSummary(before: contact))
        #expect(!previous.isComplete && previous.announced == 4 && previous.received == 1)
        try store.close()
    }

    @Test(
        "promise 2: a measurement that was pruned does not come back by the other protocol, and another one comes",
        arguments: [true, false], [1, nil] as [UInt8?])
    func prunedForm(standardFirst: Bool, user: UInt8?) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "omron-\(ProcessInfo.processInfo.globallyUniqueString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let now = try #require(Instant(rfc3339: "2026-11-21T12:00:00Z"))
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin",
            now: { now })
        let start = try #require(Instant(rfc3339: "2026-11-21T09:50:00Z"))
        func read(_ frame: Frame) async throws -> [FrameOutcome] {
            let contact = try await store.beginContact(
                with: DeviceDescription(address: address, model: "omron_hem7322t", provider: "omron_ble"), at: start,
                clock: nil, batteryPercent: nil)
            let outcomes = try await store.append([frame], of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
            return outcomes
        }
        func order(_ frames: [Frame]) -> [Frame] { standardFirst ? frames : frames.reversed() }
        let forms = order(try Self.forms(of: OmronSample(), user: user))
        guard case .new(let reading)? = try await read(forms[0]).first else {
            Issue.record("nothing came")
            return
        }
        for group in try await store.groupsWaiting() {
            let items = try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10)
            try await store.acknowledge(items.map(\.id), at: now)
        }
        #expect(try await store.prune(olderThan: .zero).readings == 1)
        for form in forms.reversed() { #expect(try await read(form) == [.repeated(reading.id)]) }
        #expect(try await store.query(ReadingQuery()).readings.isEmpty)
        #expect(try await store.groupsWaiting().isEmpty)
        // Another measurement of the same second.
        var other = OmronSample()
        other.pulse += 1
        let others = order(try Self.forms(of: other, user: user))
        let came = try await read(others[1])
        #expect(came.contains { if case .new = $0 { true } else { false } })
        #expect(try await store.verify().isEmpty)
        try store.close()
    }
}

/// A radio with one Omron monitor near it.
struct OmronRadio: Radio {
    let monitor: EmulatedOmron
    private var address: DeviceAddress { .device(7) }

    init(monitor: EmulatedOmron) { self.monitor = monitor }

    func adapterStates() -> AsyncStream<AdapterState> { AsyncStream { $0.finish() } }
    func advertisements() -> AsyncThrowingStream<Advertisement, any Error> { AsyncThrowingStream { $0.finish() } }
    func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> { AsyncThrowingStream { $0.finish() } }
    func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        AsyncThrowingStream { $0.finish() }
    }
    func connectionChanges(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<ConnectionChange, any Error> {
        AsyncThrowingStream { $0.finish() }
    }
    func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral { monitor }
    func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond {
        monitor.wasPaired()
        return Bond(address: self.address, name: monitor.behaviour.name)
    }
    func unpair(_ address: DeviceAddress) async throws -> Bool {
        defer { monitor.change { $0.isBonded = false } }
        return monitor.behaviour.isBonded
    }
    func bonds() async throws -> [Bond] {
        monitor.behaviour.isBonded ? [Bond(address: address, name: monitor.behaviour.name)] : []
    }
}
