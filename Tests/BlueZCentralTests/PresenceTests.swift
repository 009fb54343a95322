import GATTClient
import HealthReadings
import LibDBus
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

@Suite("Presence", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct PresenceTests {
    @Test("A device comes when it is heard after silence, counted by the time we listen")
    func countsSilence() {
        var presence = Presence()
        func comes(_ seconds: Int, connected: Bool = false, failures: Int = 0) -> Bool {
            presence.isComing("/a", isConnected: connected, at: .seconds(seconds), failures: failures)
        }
        #expect(comes(0))
        #expect(!comes(19))
        #expect(!comes(38))
        #expect(comes(58))
        #expect(!comes(59))
        // A connection attempt that failed.
        #expect(comes(60, failures: 1))
        #expect(!comes(61, failures: 1))
        // A connection of somebody else's.
        #expect(!comes(62, connected: true, failures: 1))
        presence.noteConnection("/a", isConnected: false)
        #expect(comes(63, failures: 1))
        presence.forget("/a")
        #expect(comes(64, failures: 1))
        let connects = presence.isComing("/b", isConnected: true, at: .seconds(64), failures: 0)
        #expect(connects)
    }

    @Test("A device is told as it comes, and again after a disconnect, a failure, or its removal; strangers are not")
    func tellsComing() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let stranger = try await daemon.addDevice("C0:00:00:00:00:01")
        let path = try await daemon.addDevice("C0:00:00:00:18:08", rssi: nil)
        var coming = bench.radio.peripherals([Bench.meter]).makeAsyncIterator()
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        try await daemon.changeDevice(stranger, ["RSSI": .int16(-40)])
        try await daemon.changeDevice(path, ["RSSI": .int16(-40)])
        #expect(try await coming.next()?.advertisement.address == Bench.meter)
        try await daemon.changeDevice(path, ["RSSI": .int16(-41)])
        try await daemon.linkUp(path)
        try await daemon.linkDown(path)
        try await daemon.changeDevice(path, ["RSSI": .int16(-42)])
        #expect(try await coming.next()?.advertisement.rssi == -42)
        try await daemon.remove(path)
        _ = try await daemon.addDevice("C0:00:00:00:18:08", rssi: -43)
        #expect(try await coming.next()?.advertisement.rssi == -43)
        await daemon.on("Device1.Connect") { _, _ in throw EmulatedDaemon.error("Failed", "no") }
        let failing = try await bench.radio.peripheral(Bench.meter, within: .seconds(600))
        await #expect(throws: RadioError.self) { _ = try await failing.connect() }
        let again = try await coming.next()
        #expect(again?.advertisement.address == Bench.meter)
    }

    @Test("A device that connects by itself has come")
    func tellsConnecting() async throws {
        let bench = try await Bench()
        let path = try await bench.daemon.addDevice("C0:00:00:00:18:08", rssi: nil)
        var coming = bench.radio.peripherals([Bench.meter]).makeAsyncIterator()
        try await until { await bench.daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        try await bench.daemon.linkUp(path)
        #expect(try await coming.next()?.advertisement.address == Bench.meter)
    }

    @Test("An address is matched by its bits: who types one does not know its type")
    func matchesBits() async throws {
        let bench = try await Bench()
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", ["AddressType": .string("public")])
        let peripheral = try await bench.radio.peripheral(Bench.meter, within: .seconds(600))
        #expect(peripheral.advertisement.address == DeviceAddress(bits: Bench.meter.bits, kind: .public))
    }

    @Test("Every device is told where nobody names any")
    func tellsEveryone() async throws {
        let bench = try await Bench()
        for number in 0..<5 { _ = try await bench.daemon.addDevice("C0:00:00:00:00:0\(number)") }
        var found: Set<DeviceAddress> = []
        for try await peripheral in bench.radio.peripherals() {
            if let address = peripheral.advertisement.address { found.insert(address) }
            if found.count == 5 { break }
        }
        #expect(found.count == 5)
    }

    @Test("A device whose bond was made while it is watched for is told under its identity address")
    func followsNewBonds() async throws {
        let bench = try await Bench()
        let path = try await bench.daemon.addDevice("4A:00:00:00:18:08", name: "cuff")
        var coming = bench.radio.peripherals([Bench.meter]).makeAsyncIterator()
        try await until { await bench.daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        await bench.daemon.on("Device1.Pair") { daemon, call in
            try await daemon.changeDevice(path, ["Address": .string("C0:00:00:00:18:08")])
            return try await daemon.behave("Device1.Pair", call)
        }
        _ = try await bench.radio.pair(
            DeviceAddress(bits: 0x4A00_0000_1808, kind: .random), within: .seconds(600), agent: TestAgent())
        #expect(try await coming.next()?.advertisement.address == Bench.meter)
    }

    @Test("Connections are told as they stand, then as they change")
    func tellsConnections() async throws {
        let bench = try await Bench()
        let other = DeviceAddress(bits: 0xC000_0000_FFFF, kind: .random)
        let path = try await bench.daemon.addDevice("C0:00:00:00:18:08", rssi: nil, ["Connected": .bool(true)])
        var changes = bench.radio.connectionChanges([Bench.meter, other]).makeAsyncIterator()
        var first: [DeviceAddress: Bool] = [:]
        for _ in 0..<2 {
            let change = try #require(try await changes.next())
            first[change.address] = change.isConnected
        }
        #expect(first == [Bench.meter: true, other: false])
        try await bench.daemon.linkDown(path)
        var change = try await changes.next()
        #expect(change?.isConnected == false)
        #expect(change?.address == Bench.meter)
        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-60)])
        try await bench.daemon.linkUp(path)
        change = try await changes.next()
        #expect(change?.isConnected == true)
        try await bench.daemon.remove(path)
        change = try await changes.next()
        #expect(change?.isConnected == false)
        _ = try await bench.daemon.addDevice(other.description, rssi: nil, ["Connected": .bool(true)])
        change = try await changes.next()
        #expect(change?.address == other)
        #expect(await bench.daemon.count("hci0 Adapter1.StartDiscovery") == 0)
    }
}
