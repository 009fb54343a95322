import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// A program that embeds the library and keeps nothing on disk.
@Suite struct EmbeddingTests {
    private let clock = ManualClock()
    private let radio: EmulatedRadio
    private let journal: MemoryJournal
    private let manager: DevicesManager

    init() throws {
        radio = EmulatedRadio(clock)
        journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")), person: "white_bear")
        manager = DevicesManager(radio: radio, keepingIn: journal, clock: clock)
    }

    @discardableResult private func meter(
        _ number: UInt64 = 1, records: ClosedRange<UInt16> = 1...5, isPaired: Bool = true,
        script: EmulatedRadio.PairingScript = .justWorks, _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }
    ) -> EmulatedDevice {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(number)
        behaviour.name = "meter+\(number)"
        behaviour.glucose = EmulatedGlucoseMemory(glucoseRecords(records))
        behaviour.wantsEncryption = true
        behaviour.isPaired = isPaired
        adjust(&behaviour)
        let device = EmulatedDevice(behaviour, log: EventLog())
        radio.add(device, script)
        return device
    }

    /// The numbers of readings, in their order; a meter sends them in any.
    private func numbers(_ readings: [Reading]) -> [UInt16] { readings.compactMap(\.record.sequence).sorted() }

    @Test("search, pair, read: what Vital's DevicesManager does, with values in hand")
    func wholeWay() async throws {
        meter(isPaired: false, script: .passkey(123_456))
        let brand = try #require(manager.brands.first { $0.name == "Accu-Chek" })
        #expect(!manager.devices(for: brand).isEmpty)
        var found: FoundDevice?
        for try await device in manager.search(for: manager.devices(for: brand)) {
            found = device
            break
        }
        let wanted = try #require(found)
        let reader = try #require(manager.reader(for: wanted))
        #expect(reader.address == .device(1) && reader.model != nil)
        await #expect(throws: RadioError.notBonded(.device(1))) { try await reader.read() }
        await #expect(throws: RadioError.pairing(.wrongPasskey)) { try await reader.pair(agent: Digits(1)) }
        let (device, paired) = try await reader.pair(agent: Digits(123_456))
        #expect(device.isPaired && device.isProven)
        let read = try await paired.read()
        #expect(read.isComplete && read.received == 5 && read.announced == 5)
        #expect(numbers(read.usable) == [1, 2, 3, 4, 5])
        #expect(read.readings == journal.readings && read.readings.allSatisfy { $0.person == "white_bear" })
        #expect(read.device.address == .device(1) && read.device.model != nil)
        for try await change in paired.monitorConnection() {
            #expect(!change.isConnected)
            break
        }
        #expect(try await paired.unpair())
        await #expect(throws: RadioError.notBonded(.device(1))) { try await paired.read() }
        #expect(journal.readings.count == 5)
    }

    @Test("a second reading returns only what is new, and all records if they are asked for")
    func again() async throws {
        let device = meter()
        #expect(try await manager.readings(of: .device(1)).readings.count == 5)
        var read = try await manager.readings(of: .device(1))
        #expect(read.readings.isEmpty && read.revised.isEmpty && read.isComplete)
        device.glucoseRecords { $0 += glucoseRecords(6...7) }
        read = try await manager.readings(of: .device(1))
        #expect(numbers(read.readings) == [6, 7])
        read = try await manager.readings(of: .device(1), allRecords: true)
        #expect(numbers(read.readings) == Array(1...7) && read.received == 7)
        #expect(journal.readings.count == 7)
    }

    @Test("a transfer that is cut returns what came and why not all; the next one brings the rest")
    func cut() async throws {
        let device = meter { $0.cutAfter = 3 }
        let first = try await manager.readings(of: .device(1))
        #expect(first.failure?.code == "transfer_interrupted" && !first.isComplete)
        #expect(first.readings.count == 2 && first.readings == journal.readings)
        device.change { $0.cutAfter = nil }
        let rest = try await manager.readings(of: .device(1))
        #expect(rest.readings.count == 3 && rest.isComplete && rest.received == 5)
        #expect(numbers(first.readings + rest.readings) == [1, 2, 3, 4, 5])
    }

    @Test("a task that is cancelled in the middle gets what came, and the device is let go")
    func cancelled() async throws {
        let device = meter()
        let read = try await Task {
            try await manager.readings(of: .device(1)) { event in
                guard case .stored = event else { return }
                withUnsafeCurrentTask { $0?.cancel() }
            }
        }.value
        #expect(read.failure?.code == "interrupted" && !read.readings.isEmpty)
        #expect(read.readings == journal.readings && !device.isConnected)
        let rest = try await manager.readings(of: .device(1))
        #expect(numbers(read.readings + rest.readings).count == 5 && rest.isComplete)
        #expect(Set(numbers(read.readings + rest.readings)) == [1, 2, 3, 4, 5])
    }

    @Test("one that is cancelled before anything came throws")
    func cancelledBefore() async throws {
        meter { $0.isInReach = false }
        let reading = Task { try await manager.readings(of: .device(1)) }
        try await eventually("it is waited for") { radio.listens == 1 }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
    }

    @Test("two devices are read at once, and each call returns its own; two calls for one share its transfer")
    func several() async throws {
        let first = meter(1, records: 1...3) { $0.isHeld = true }
        let second = meter(2, records: 4...9) { $0.isHeld = true }
        async let one = manager.readings(of: .device(1))
        async let other = manager.readings(of: .device(2))
        try await eventually("both are read") { radio.mostConnected == 2 }
        async let joined = manager.readings(of: .device(1))
        first.change { $0.isHeld = false }
        second.change { $0.isHeld = false }
        #expect(try await numbers(one.readings) == [1, 2, 3])
        #expect(try await numbers(other.readings) == Array(4...9))
        // It may have come when the transfer was over, and found nothing new.
        #expect(try await [[], [1, 2, 3]].contains(numbers(joined.readings)))
        #expect(journal.readings.count == 9)
    }

    @Test("errors are named where nothing came")
    func errors() async throws {
        meter(1) { $0.isInReach = false }
        let away = Task { try await manager.readings(of: .device(1), within: .seconds(5)) }
        try await eventually("it is waited for") { !clock.sleeps.isEmpty }
        clock.advance(by: .seconds(5))
        await #expect(throws: RadioError.notSeen(.device(1), within: .seconds(5))) { try await away.value }
        radio.setAdapter(.unusable(.poweredOff("hci0")))
        await #expect(throws: RadioError.poweredOff("hci0")) { try await manager.readings(of: .device(1)) }
    }

    @Test("a bond that an earlier process made is found")
    func earlierBond() async throws {
        meter(7)
        #expect(try await manager.reconcilePairings() == [.device(7)])
        #expect(try await manager.readings(of: .device(7)).readings.count == 5)
    }

    @Test("a reading that is revised while it is read counts once")
    func revised() async throws {
        let read = ReadingCollector { _ in nil }
        let device = DeviceDescription(address: .device(1))
        read.note(.began(Contact(id: 1, device: device, startedAt: Instant(seconds: 0))))
        meter()
        let all = try await manager.readings(of: .device(1)).readings
        read.note(.stored([.new(all[0]), .revised(all[0]), .revised(all[1]), .revised(all[1]), .repeated(all[2].id)]))
        #expect(read.found?.readings == [all[0]] && read.found?.revised == [all[1]])
    }

    @Test("a transfer that is given up by whoever began it, and begun again, loses nothing of what it had brought")
    func takenOver() async throws {
        meter()
        let all = try await manager.readings(of: .device(1)).readings
        let read = ReadingCollector { _ in nil }
        let contact = Contact(
            id: 1, device: DeviceDescription(address: .device(1)), startedAt: Instant(seconds: 0))
        read.note(.began(contact))
        read.note(.stored([.new(all[0]), .new(all[1]), .revised(all[2])]))
        read.note(.began(contact))
        read.note(.stored([.repeated(all[0].id), .revised(all[1]), .revised(all[2]), .new(all[3])]))
        #expect(read.found?.readings == [all[0], all[1], all[3]] && read.found?.revised == [all[2]])
    }
}

/// Types these digits.
private struct Digits: PairingAgent {
    let digits: UInt32

    init(_ digits: UInt32) { self.digits = digits }

    func passkey(shownBy device: Advertisement) async throws -> UInt32 { digits }
    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
}
