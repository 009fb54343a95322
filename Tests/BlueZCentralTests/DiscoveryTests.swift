import GATTClient
import HealthReadings
import LibDBus
import LogLines
import Logging
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

@Suite("Discovery", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct DiscoveryTests {
    @Test("A device is told when it is heard, and again when its name, services, bond or signal by 6 dB has changed")
    func tellsWhatIsNew() async throws {
        let bench = try await Bench()
        var heard = bench.radio.advertisements().makeAsyncIterator()
        let path = try await bench.daemon.addDevice("C0:00:00:00:18:08", name: nil, rssi: -50)
        var advertisement = try await heard.next()
        #expect(advertisement?.address == Bench.meter)
        #expect(advertisement?.name == nil)
        #expect(advertisement?.rssi == -50)
        #expect(advertisement?.services == [0x1808])
        #expect(advertisement?.isPaired == false)

        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-55)])
        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-50)])
        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-56)])
        advertisement = try await heard.next()
        #expect(advertisement?.rssi == -56)
        try await bench.daemon.changeDevice(path, ["Name": .string("meter+1"), "Alias": .string("meter+1")])
        advertisement = try await heard.next()
        #expect(advertisement?.name == "meter+1")
        try await bench.daemon.changeDevice(path, ["UUIDs": .array([], of: "s")])
        advertisement = try await heard.next()
        #expect(advertisement?.services == [])
        try await bench.daemon.changeDevice(path, ["Bonded": .bool(true), "Paired": .bool(true)])
        advertisement = try await heard.next()
        #expect(advertisement?.isPaired == true)
        try await bench.daemon.remove(path)
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", name: "meter+1", rssi: -57)
        advertisement = try await heard.next()
        #expect(advertisement?.rssi == -57)
    }

    @Test("What the maker adds is told as it was heard last")
    func tellsManufacturerData() async throws {
        let bench = try await Bench()
        var heard = bench.radio.advertisements().makeAsyncIterator()
        func data(_ octets: [UInt8]) -> [String: DBusValue] {
            [
                "ManufacturerData": .dictionary(
                    [.uint16(0x020E): .variant(.bytes(octets))], key: "q", value: "v")
            ]
        }
        let path = try await bench.daemon.addDevice("C0:00:00:00:18:08", rssi: -50, data([1, 0, 7, 0, 7]))
        #expect(try await heard.next()?.manufacturerData == [0x020E: [1, 0, 7, 0, 7]])
        try await bench.daemon.changeDevice(path, data([]).merging(["RSSI": .int16(-40)]) { $1 })
        #expect(try await heard.next()?.manufacturerData == [0x020E: []])
        try await bench.daemon.changeDevice(
            path, ["ManufacturerData": .dictionary([.uint16(1): .variant(.string("x"))], key: "q", value: "v")])
        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-50)])
        #expect(try await heard.next()?.manufacturerData == [0x020E: []], "of another type: passed over")
    }

    @Test("What chosen devices say of their services is told when it changes, and nothing of others")
    func tellsServiceData() async throws {
        let bench = try await Bench()
        var heard = bench.radio.advertisements(of: [Bench.meter]).makeAsyncIterator()
        func data(_ octets: [UInt8]) -> [String: DBusValue] {
            [
                "ServiceData": .dictionary(
                    [.string("0000181b-0000-1000-8000-00805f9b34fb"): .variant(.bytes(octets))], key: "s", value: "v")
            ]
        }
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:09", data([9]))
        let path = try await bench.daemon.addDevice("C0:00:00:00:18:08", rssi: nil, data([0]))
        // Until it is heard in this discovery, it is what was said before.
        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-50)].merging(data([1])) { $1 })
        #expect(try await heard.next()?.serviceData == [0x181B: [1]])
        try await bench.daemon.changeDevice(path, ["RSSI": .int16(-70)])
        try await bench.daemon.changeDevice(path, data([1]))
        try await bench.daemon.changeDevice(
            path, ["ServiceData": .dictionary([.string("x"): .variant(.string("y"))], key: "s", value: "v")])
        try await bench.daemon.changeDevice(path, data([2]))
        #expect(try await heard.next()?.serviceData == [0x181B: [2]])
        try await bench.daemon.changeDevice(path, data([3]))
        #expect(try await heard.next()?.serviceData == [0x181B: [3]])
        try await bench.daemon.remove(path)
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", data([3]))
        #expect(try await heard.next()?.serviceData == [0x181B: [3]], "it has come again")
    }

    @Test("A private address that becomes the identity address in place is told as the same object's new address")
    func followsTheAddressProperty() async throws {
        let bench = try await Bench()
        var heard = bench.radio.advertisements().makeAsyncIterator()
        let path = try await bench.daemon.addDevice("4A:11:22:33:44:55")
        #expect(try await heard.next()?.address?.isResolvablePrivate == true)
        try await bench.daemon.changeDevice(
            path, ["Address": .string("00:11:22:33:44:66"), "AddressType": .string("public")])
        let advertisement = try await heard.next()
        #expect(advertisement?.address == DeviceAddress(bits: 0x0011_2233_4466, kind: .public))
    }

    @Test("Properties of the wrong type are passed over, named at debug, and trap nothing")
    func passesOverWrongTypes() async throws {
        let bench = try await Bench()
        var heard = bench.radio.advertisements().makeAsyncIterator()
        _ = try await bench.daemon.addDevice(
            "C0:00:00:00:18:09", name: nil, rssi: nil,
            [
                "Name": .uint32(7), "RSSI": .string("loud"), "UUIDs": .bytes([1, 2]), "Paired": .int16(1),
                "Bonded": .array([], of: "b"), "Connected": .dictionary([:], key: "s", value: "v"),
            ])
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:0B", rssi: nil, ["Address": .int16(3)])
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:0A", rssi: nil, ["RSSI": .int32(70_000)])
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", ["AddressType": .string("quantum")])
        try await bench.daemon.emit("/", "org.freedesktop.DBus.ObjectManager", "InterfacesAdded", [.uint32(4)])
        try await bench.daemon.emit(
            "/org/bluez/hci0/dev_C0_00_00_00_18_08", "org.freedesktop.DBus.Properties", "PropertiesChanged",
            [.string("org.bluez.Device1"), .string("nothing"), .string("of this")])
        try await bench.daemon.emit(
            "/", "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", [.objectPath("/org/bluez/hci0")])
        let advertisement = try await heard.next()
        #expect(advertisement?.address?.bits == Bench.meter.bits)
        #expect(advertisement?.rssi == -50)
        let lines = bench.log.lines().filter { $0.contains("another type") }
        #expect(lines.contains { $0.contains("Device1.RSSI") && $0.contains("found") })
        #expect(bench.log.lines(from: .info).allSatisfy { !$0.contains("C0:00") })
    }

    @Test("Discovery is asked for by transport, once for all who listen, and stopped with the last")
    func countsListeners() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let filters = Filters()
        await daemon.on("Adapter1.SetDiscoveryFilter") { _, call in
            filters.note(call.arguments.first?.stringKeyed)
            return []
        }
        let first = Task { for try await _ in bench.radio.advertisements() {} }
        let second = Task { for try await _ in bench.radio.peripherals([Bench.meter]) {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        try await until { await bench.listeners == 2 }
        first.cancel()
        try await until { await bench.listeners == 1 }
        #expect(await daemon.count("hci0 Adapter1.StopDiscovery") == 0)
        second.cancel()
        try await until { await daemon.count("hci0 Adapter1.StopDiscovery") == 1 }
        #expect(await daemon.count("hci0 Adapter1.StartDiscovery") == 1)
        #expect(filters.last?["Transport"]?.stringValue == "le")
        #expect(filters.last?["UUIDs"] == nil)
    }

    @Test("Discovery stops when the iteration ends by itself")
    func stopsWithTheIteration() async throws {
        let bench = try await Bench()
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08")
        for try await _ in bench.radio.advertisements() { break }
        try await until { await bench.daemon.count("hci0 Adapter1.StopDiscovery") == 1 }
    }

    @Test("A search cancelled while discovery is being started leaves none running")
    func stopsWhereCancelledInTheCall() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let gate = Gate()
        await daemon.on("Adapter1.StartDiscovery") { daemon, call in
            await gate.wait()
            return try await daemon.behave("Adapter1.StartDiscovery", call)
        }
        let search = Task { for try await _ in bench.radio.advertisements() {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        search.cancel()
        gate.open()
        try await until { await daemon.count("hci0 Adapter1.StopDiscovery") == 1 }
        _ = try await search.value
    }

    @Test("Discovery that another program's stop or a reset ended is begun again")
    func beginsAgain() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let search = Task { for try await _ in bench.radio.advertisements() {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        try await until { await bench.radio.context.discovery.isRunning }
        try await daemon.changeAdapter(["Discovering": .bool(false)])
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 2 }
        search.cancel()
    }

    @Test("InProgress at the start of discovery is waited out")
    func waitsOutInProgress() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let calls = Counter()
        await daemon.on("Adapter1.StartDiscovery") { daemon, call in
            if calls.next() < 3 { throw EmulatedDaemon.error("InProgress", "Operation already in progress") }
            return try await daemon.behave("Adapter1.StartDiscovery", call)
        }
        _ = try await daemon.addDevice("C0:00:00:00:18:08")
        for try await advertisement in bench.radio.advertisements() {
            #expect(advertisement.address == Bench.meter)
            break
        }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 3 }
    }

    @Test("InProgress that lasts is waited out while the adapter does not listen, and believed where it does")
    func lastingInProgress() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let calls = Counter()
        await daemon.on("Adapter1.StartDiscovery") { daemon, call in
            if calls.next() < 15 { throw EmulatedDaemon.error("InProgress", "Operation already in progress") }
            return try await daemon.behave("Adapter1.StartDiscovery", call)
        }
        _ = try await daemon.addDevice("C0:00:00:00:18:08")
        for try await _ in bench.radio.advertisements() { break }
        #expect(await daemon.count("hci0 Adapter1.StartDiscovery") == 15)

        await daemon.on("Adapter1.StartDiscovery") { daemon, _ in
            try await daemon.changeAdapter(["Discovering": .bool(true)])
            throw EmulatedDaemon.error("InProgress", "Operation already in progress")
        }
        let search = Task { for try await _ in bench.radio.advertisements() {} }
        try await until { await bench.radio.context.discovery.isRunning }
        search.cancel()
    }

    @Test("Discovery is silent while a link is made, and runs again afterwards")
    func isHeldWhileConnecting() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        _ = try await bench.addMeter()
        let search = Task { for try await _ in bench.radio.advertisements() {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        let (peripheral, _) = try await bench.connect()
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 2 }
        let log = await daemon.log.filter {
            $0.contains("Discovery") && !$0.contains("Filter") || $0.hasSuffix(".Connect")
        }
        #expect(
            log == [
                "hci0 Adapter1.StartDiscovery", "hci0 Adapter1.StopDiscovery", "dev_C0_00_00_00_18_08 Device1.Connect",
                "hci0 Adapter1.StartDiscovery",
            ])
        await peripheral.disconnect()
        search.cancel()
    }

    @Test("Discovery that does not begin again after a connection is tried again until it does")
    func triesUntilItBegins() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let calls = Counter()
        await daemon.on("Adapter1.StartDiscovery") { daemon, call in
            if (2...4).contains(calls.next()) { throw EmulatedDaemon.error("Failed", "Input/output error") }
            return try await daemon.behave("Adapter1.StartDiscovery", call)
        }
        _ = try await bench.addMeter()
        let search = Task { for try await _ in bench.radio.peripherals([Bench.meter]) {} }
        try await until { await bench.radio.context.discovery.isRunning }
        let (peripheral, _) = try await bench.connect()
        try await until { await bench.radio.context.discovery.isRunning }
        #expect(await daemon.count("hci0 Adapter1.StartDiscovery") == 5)
        #expect(bench.log.lines(from: .notice).count { $0.contains("discovery does not begin") } == 1)
        await peripheral.disconnect()
        search.cancel()
        try await until { await bench.listeners == 0 }
    }

    @Test("A device is connected while discovery is still being begun again")
    func connectsMeanwhile() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let (calls, gate) = (Counter(), Gate())
        await daemon.on("Adapter1.StartDiscovery") { daemon, call in
            if calls.next() == 2 { await gate.wait() }
            return try await daemon.behave("Adapter1.StartDiscovery", call)
        }
        _ = try await bench.addMeter()
        let search = Task { for try await _ in bench.radio.advertisements() {} }
        try await until { await bench.radio.context.discovery.isRunning }
        let (peripheral, characteristics) = try await bench.connect()
        #expect(!characteristics.isEmpty)
        // Had connecting waited for it, the call would have timed out, and its answer would count for nothing.
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 2 }
        #expect(await !bench.radio.context.discovery.isRunning)
        gate.open()
        try await until { await bench.radio.context.discovery.isRunning }
        #expect(await daemon.count("hci0 Adapter1.StartDiscovery") == 2)
        await peripheral.disconnect()
        search.cancel()
    }

    @Test("Discovery that has run for long begins anew, loses nobody who is waited for, and ends with its listeners")
    func beginsAnew() async throws {
        var limits = RadioLimits.test
        limits.listening = .milliseconds(50)
        let bench = try await Bench(limits: limits)
        let daemon = bench.daemon
        let heard = Notes<DeviceAddress?>()
        let search = Task {
            for try await peripheral in bench.radio.peripherals([Bench.meter]) {
                heard.add(peripheral.advertisement.address)
            }
        }
        try await until { await daemon.count("hci0 Adapter1.StopDiscovery") >= 3 }
        _ = try await bench.addMeter()
        try await until { !heard.all.isEmpty }
        #expect(heard.all.first == Bench.meter)
        search.cancel()
        try await until { await bench.listeners == 0 }
        try await until { await !bench.radio.context.discovery.isRunning }
        let starts = await daemon.count("hci0 Adapter1.StartDiscovery")
        try await Task.sleep(for: .milliseconds(200))
        #expect(await daemon.count("hci0 Adapter1.StartDiscovery") == starts)
        #expect(await daemon.count("hci0 Adapter1.StopDiscovery") == starts)
    }

    @Test("A device that does not come in time is named, and discovery ends")
    func namesWhoWasNotSeen() async throws {
        let bench = try await Bench()
        let elsewhere = DeviceAddress(bits: 0xC000_0000_FFFF, kind: .random)
        _ = try await bench.addMeter()
        await #expect(throws: RadioError.notSeen(elsewhere, within: .milliseconds(200))) {
            _ = try await bench.radio.peripheral(elsewhere, within: .milliseconds(200))
        }
        try await until { await bench.listeners == 0 }
        try await until {
            let log = await bench.daemon.log
            return log.count { $0.hasSuffix("StartDiscovery") } == log.count { $0.hasSuffix("StopDiscovery") }
        }
    }

    @Test("A hundred changes a second, and a hundred strangers that come and go, lose nothing and leave nothing behind")
    func bearsCrowds() async throws {
        let bench = try await Bench()
        let daemon = bench.daemon
        let search = Task {
            var seen: Set<DeviceAddress> = []
            for try await advertisement in bench.radio.advertisements() {
                if let address = advertisement.address { seen.insert(address) }
                if seen.count == 201 { break }
            }
            return seen.count
        }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        for round in 0..<2 {
            var paths: [String] = []
            for number in 0..<100 {
                paths.append(try await daemon.addDevice("C0:00:00:0\(round):00:\(number < 10 ? "0" : "")\(number)"))
            }
            for rssi in -90 ..< -40 {
                for path in paths { try await daemon.changeDevice(path, ["RSSI": .int16(Int16(rssi))]) }
            }
            for path in paths { try await daemon.remove(path) }
        }
        _ = try await bench.addMeter()
        #expect(try await search.value == 201)
    }
}

extension Bench {
    var listeners: Int { get async { await radio.context.discovery.listeners } }
}
