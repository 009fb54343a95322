import GATTClient
import HealthDevices
import HealthReadings
import LibDBus
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

@Suite("Many meters", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct ManyMetersTests {
    /// A clinic's meters, bonded, on a bus with the limits of a system bus.
    private struct Clinic {
        static let meters: UInt64 = 600

        let bench: Bench
        let paths: [String]
        let addresses: [DeviceAddress]

        init() async throws {
            bench = try await Bench(matchRules: 512, replies: 128)
            addresses = (0..<Self.meters).map { DeviceAddress(bits: 0xC000_0000_0000 + $0, kind: .random) }
            var paths: [String] = []
            for address in addresses { paths.append(try await Self.add(address, to: bench)) }
            self.paths = paths
        }

        @discardableResult
        static func add(_ address: DeviceAddress, to bench: Bench, rssi: Int16? = nil) async throws -> String {
            try await bench.daemon.addDevice(
                address.description, rssi: rssi, ["Paired": .bool(true), "Bonded": .bool(true)])
        }
    }

    @Test("More meters than a connection may have match rules are all watched for, and strangers are not told of")
    func watchesForAll() async throws {
        let clinic = try await Clinic()
        let bench = clinic.bench
        var coming = bench.radio.peripherals(Set(clinic.addresses)).makeAsyncIterator()
        try await until { await bench.daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        let stranger = try await bench.daemon.addDevice("5A:00:00:00:00:01")
        try await bench.daemon.changeDevice(stranger, ["RSSI": .int16(-60)])
        for number in [0, 300, 599] {
            try await bench.daemon.changeDevice(clinic.paths[number], ["RSSI": .int16(-50)])
            #expect(try await coming.next()?.advertisement.address == clinic.addresses[number])
        }
    }

    @Test("One of many meters that the service forgot is told of when it comes again and is heard")
    func tellsOfReturn() async throws {
        let clinic = try await Clinic()
        let (bench, address) = (clinic.bench, clinic.addresses[599])
        var coming = bench.radio.peripherals(Set(clinic.addresses)).makeAsyncIterator()
        try await bench.daemon.changeDevice(clinic.paths[599], ["RSSI": .int16(-50)])
        #expect(try await coming.next()?.advertisement.address == address)
        for _ in 0..<20 {
            // No signal lies between: what the watch hears last decides.
            try await bench.daemon.remove(clinic.paths[599])
            let path = try await Clinic.add(address, to: bench)
            try await bench.daemon.changeDevice(path, ["RSSI": .int16(-50)])
            #expect(try await coming.next()?.advertisement.address == address)
        }
    }

    /// The attributes that the radio finds of a meter, and whether it looked at all objects for them.
    private static func attributes(_ bench: Bench) async throws -> (found: [Characteristic], ofAll: Bool) {
        let meter = try await bench.addMeter()
        try await bench.daemon.add(meter.path, ["org.bluez.Battery1": ["Percentage": .byte(80)]])
        try await bench.daemon.addService(0x180A, of: meter.path, at: 0x30, [0x2A24, 0x2A25])
        // What else bluetoothd shows below a device.
        try await bench.daemon.add(meter.path + "/player0", ["org.bluez.MediaPlayer1": [:]])
        try await bench.daemon.add(
            meter.measurement + "/desc001d",
            ["org.bluez.GattDescriptor1": ["UUID": .string("00002902-0000-1000-8000-00805f9b34fb")]])
        let peripheral = try await bench.radio.peripheral(Bench.meter, within: .seconds(600))
        _ = try await peripheral.connect()
        let before = await bench.daemon.count("/ ObjectManager.GetManagedObjects")
        let found = try await peripheral.characteristics()
        let ofAll = await bench.daemon.count("/ ObjectManager.GetManagedObjects") > before
        await peripheral.disconnect()
        return (found, ofAll)
    }

    @Test("Among many meters one is asked for its own attributes, and they are those that the answer about all has")
    func asksOne() async throws {
        let among = try await Self.attributes(Clinic().bench)
        #expect(!among.ofAll)
        #expect(Set(among.found.map(\.uuid)) == [0x2A19, 0x2A18, 0x2A34, 0x2A51, 0x2A52, 0x2A24, 0x2A25])
        let alone = try await Self.attributes(Bench())
        #expect(alone.ofAll && alone.found == among.found)
    }

    @Test("Where the bus forbids to ask for one meter's attributes, they are taken from the answer about all")
    func forbidden() async throws {
        let clinic = try await Clinic()
        let bench = clinic.bench
        let meter = try await bench.addMeter()
        await bench.daemon.on("Properties.GetAll") { daemon, call in
            guard call.path == meter.path, call.arguments.first?.stringValue == "org.bluez.Battery1" else {
                return try await daemon.behave("Properties.GetAll", call)
            }
            throw DBusError.remote(name: "org.freedesktop.DBus.Error.AccessDenied", message: "Rejected send message")
        }
        let (peripheral, characteristics) = try await bench.connect()
        #expect(Set(characteristics.keys) == [0x2A18, 0x2A34, 0x2A51, 0x2A52])
        await peripheral.disconnect()
    }

    @Test("All meters are waited for at once, and each is read when it is heard")
    func readsAll() async throws {
        let clinic = try await Clinic()
        let (bench, addresses) = (clinic.bench, clinic.addresses)
        let numbers = [0, 300, 599]
        for number in numbers {
            try await bench.daemon.addService(0x180A, of: clinic.paths[number], at: 0x30, [0x2A24])
        }
        let manager = DevicesManager(
            radio: bench.radio, keepingIn: MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin"))))
        let (read, failed) = (Notes<DeviceAddress>(), Notes<String>())
        let reading = Task {
            try await manager.listening(for: Set(addresses), within: .seconds(600)) { manager in
                await withDiscardingTaskGroup { group in
                    for address in addresses {
                        group.addTask {
                            do {
                                _ = try await manager.read(address, within: .seconds(600)) { _ in }
                                read.add(address)
                            } catch {
                                failed.add("\(error)")
                            }
                        }
                    }
                }
            }
        }
        try await until { await bench.daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        for number in numbers {
            try await bench.daemon.changeDevice(clinic.paths[number], ["RSSI": .int16(-50)])
            try await until { read.all.last == addresses[number] || !failed.all.isEmpty }
        }
        #expect(read.all == numbers.map { addresses[$0] })
        #expect(failed.all.isEmpty)
        reading.cancel()
        try await reading.value
        #expect(failed.all.count == addresses.count - numbers.count)
        #expect(Set(failed.all) == ["\(CancellationError())"])
    }

    @Test("Meters that wait for their turn to be connected have none of the match rules of a connection")
    func connectsInTurn() async throws {
        let clinic = try await Clinic()
        let bench = clinic.bench
        let here = clinic.paths.prefix(150)
        for path in here { try await bench.daemon.changeDevice(path, ["RSSI": .int16(-50)]) }
        var heard: [any Peripheral] = []
        for try await peripheral in bench.radio.peripherals(Set(clinic.addresses)) {
            heard.append(peripheral)
            if heard.count == here.count { break }
        }
        let gate = Gate()
        await bench.daemon.on("Device1.Connect") { daemon, call in
            await gate.wait()
            return try await daemon.behave("Device1.Connect", call)
        }
        let failed = Notes<String>()
        let contacts = Task { [heard] in
            await withDiscardingTaskGroup { group in
                for peripheral in heard {
                    group.addTask {
                        do { _ = try await peripheral.connect() } catch { failed.add("\(error)") }
                        await peripheral.disconnect()
                    }
                }
            }
        }
        try await until { await bench.daemon.log.contains { $0.hasSuffix("Device1.Connect") } }
        // The others wait meanwhile.
        try await Task.sleep(for: .milliseconds(300))
        gate.open()
        await contacts.value
        #expect(failed.all.isEmpty)
        #expect(await bench.daemon.log.count { $0.hasSuffix("Device1.Connect") } == here.count)
    }

    @Test("Connections of many meters are followed")
    func followsConnections() async throws {
        let clinic = try await Clinic()
        let bench = clinic.bench
        var changes = bench.radio.connectionChanges(Set(clinic.addresses)).makeAsyncIterator()
        for _ in clinic.addresses { #expect(try await changes.next()?.isConnected == false) }
        try await bench.daemon.linkUp(clinic.paths[599])
        let change = try await changes.next()
        #expect(change?.isConnected == true)
        #expect(change?.address == clinic.addresses[599])
    }
}
