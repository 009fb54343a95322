import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// What is learned of a device before its records, and which services are read.
@Suite struct DeviceFactsTests {
    private let clock = DateTime(year: 2026, month: 11, day: 20, hour: 13, minute: 30, second: 0)

    private func contact(reading readable: [BluetoothUUID: Result<[UInt8], GATTError>]) async throws -> (
        Contact, UInt8?
    ) {
        let bench = Bench(records: glucoseRecords(1...2))
        bench.device.change { $0.readable = readable }
        #expect(try await bench.read().isComplete)
        return (try #require(bench.store.contacts.first), try #require(bench.store.batteries.first))
    }

    @Test("serial, battery and clock are remembered with the contact")
    func everything() async throws {
        let (contact, battery) = try await contact(reading: [
            0x2A25: .success(Array("00001808".utf8) + [0]), 0x2A19: .success([87]),
            0x2A2B: .success(CurrentTime(dateTime: clock).encoded), 0x2A08: .failure(.attribute(0x02)),
        ])
        #expect(contact.device.serial == "00001808")
        #expect(battery == 87)
        #expect(contact.clock?.deviceTime == clock.wallTime)
        #expect(contact.device.model == "accuchek_guide" && contact.device.provider == "accuchek_ble")
    }

    @Test(
        "a device that refuses every read is read",
        arguments: [GATTError.attribute(0x05), .timedOut, .noSuchCharacteristic(0x2A25)])
    func refusals(error: GATTError) async throws {
        let (contact, battery) = try await contact(reading: [
            0x2A25: .failure(error), 0x2A19: .failure(error), 0x2A2B: .failure(error), 0x2A08: .failure(error),
        ])
        #expect(contact.device.serial == nil && battery == nil && contact.clock == nil)
    }

    @Test("a value the radio cannot ask for is one that is not there")
    func unaskable() async throws {
        let bench = Bench(records: glucoseRecords(1...2))
        bench.device.change { $0.unaskable = .other(name: "org.bluez.Error.Failed", message: "x") }
        bench.device.change { $0.readable = [0x2A25: .success([0x31]), 0x2A19: .success([9])] }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.contacts.first?.device.serial == nil && bench.store.batteries == [nil])
    }

    @Test("a device without these services is read")
    func nothing() async throws {
        let (contact, battery) = try await contact(reading: [:])
        #expect(contact.device.serial == nil && battery == nil && contact.clock == nil)
    }

    @Test(
        "promise 7: garbage in a clock is no clock",
        arguments: [
            [], [1, 2], Array(repeating: 0, count: 10), Array(repeating: 0xFF, count: 10),
            [0xEA, 7, 13, 41, 25, 61, 61, 0, 0, 0],
        ])
    func garbageClock(octets: [UInt8]) async throws {
        #expect(try await contact(reading: [0x2A2B: .success(octets)]).0.clock == nil)
        // The other characteristic may know better.
        let both = try await contact(reading: [0x2A2B: .success(octets), 0x2A08: .success(clock.encoded)])
        #expect(both.0.clock?.deviceTime == clock.wallTime)
    }

    @Test("promise 7: no clock is ever written")
    func noClockWritten() async throws {
        let bench = Bench(records: glucoseRecords(1...2))
        bench.device.change { $0.readable = [0x2A2B: .success(CurrentTime(dateTime: .unknown).encoded)] }
        try await bench.read()
        #expect(bench.log.requests == [[4, 1], [1, 1]])
    }

    @Test(
        "a serial number that is no text, or says nothing, is none",
        arguments: [[], [0, 0], [0x20, 0x20], [0x2D], [0xC3, 0x28, 0x31]])
    func badSerial(octets: [UInt8]) async throws {
        #expect(try await contact(reading: [0x2A25: .success(octets)]).0.device.serial == nil)
    }

    @Test(
        "a serial number that other devices are likely to have too is none",
        arguments: [
            "Serial Number", "N/A", "0000000000", "FF-FF-FF", "1", "S1", "12345678", "0123456789", "XX0000-X",
        ])
    func placeholderSerial(text: String) { #expect(DeviceFacts.serial(Array(text.utf8)) == nil) }

    @Test(
        "a serial number that tells devices apart is one",
        arguments: [
            "00001808", "GM1-0042", "OT-1", "CS12", "BP2-7", "7800H1234", "20190407001", "meter+00001808", "1233",
        ])
    func goodSerial(text: String) { #expect(DeviceFacts.serial(Array(text.utf8) + [0]) == text) }

    @Test("a battery level above 100 or of no octets is none", arguments: [[], [101], [255]])
    func badBattery(octets: [UInt8]) async throws {
        #expect(try await contact(reading: [0x2A19: .success(octets)]).1 == nil)
    }

    @Test("a link that goes during these reads is an error before the contact")
    func cut() async throws {
        let bench = Bench(records: glucoseRecords(1...2))
        bench.device.change { $0.readable = [0x2A25: .failure(.disconnected)] }
        await #expect(throws: GATTError.disconnected) { try await bench.read() }
        #expect(bench.store.contacts.isEmpty)
        #expect(bench.log.events.last == .disconnect)
    }

    @Test("a device with neither service is remembered, and said to have nothing to read")
    func neither() async throws {
        let bench = Bench(EmulatedDevice.Behaviour())
        let summary = try await bench.read()
        #expect(summary == ContactSummary(isComplete: false, error: "nothing_to_read", received: 0))
        #expect(bench.log.events == [.connect, .began, .ended(summary), .disconnect])
    }

    private func both() -> Bench {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.glucose = EmulatedGlucoseMemory(glucoseRecords(1...4))
        behaviour.cuffRecords = [pressureRecord(1), pressureRecord(2)]
        return Bench(behaviour)
    }

    @Test("a device with both services is read of both")
    func bothServices() async throws {
        let bench = both()
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 6, received: 6))
        #expect(bench.store.readingCount == 6)
    }

    @Test("a refusal of the one service does not keep the other from being read")
    func oneRefused() async throws {
        let bench = both()
        bench.glucose { $0.refuses = [.all: 8] }
        let summary = try await bench.read()
        #expect(summary.error == "racp_procedure_not_completed" && summary.received == 2 && !summary.isComplete)
        #expect(bench.store.readingCount == 2)
    }

    @Test("the other service is left alone when the store takes no more")
    func otherLeftAlone() async throws {
        let bench = both()
        bench.store.failAppending(after: 0)
        await #expect(throws: RecordingStore.Full.self) { try await bench.read() }
        #expect(!bench.log.events.contains(.start(0x2A35)))
        #expect(bench.device.cuffRecords.count == 2)
    }
}
