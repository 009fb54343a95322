import GATTClient
import HealthReadings
import LibDBus
import LogLines
import Logging
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

@Suite("Adapter, service and bus", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct AdapterTests {
    private static let ready = AdapterState.ready(
        Adapter(name: "hci0", address: DeviceAddress(bits: 0xAABB_CC00_0001, kind: .public)))

    @Test("Without a bus, a service or an adapter, each use says which of them is missing")
    func saysWhatIsMissing() async throws {
        let nowhere = BlueZRadio(bus: .address("unix:path=/nowhere/socket"))
        await #expect(
            performing: { _ = try await nowhere.bonds() },
            throws: { error in
                if case RadioError.noBus = error { true } else { false }
            })
        let bus = try await TestBus.start()
        let without = Bench.radio(bus)
        await #expect(throws: RadioError.noService) { _ = try await without.bonds() }
        await #expect(throws: RadioError.noService) { for try await _ in without.advertisements() {} }

        let bench = try await Bench(powered: nil)
        await #expect(throws: RadioError.noAdapter(nil)) { _ = try await bench.radio.bonds() }
        try await bench.daemon.addAdapter()
        let other = Bench.radio(bench.bus, adapter: "hci7")
        await #expect(throws: RadioError.noAdapter("hci7")) { _ = try await other.bonds() }
        #expect(try await bench.radio.bonds() == [])
    }

    @Test("promise 10: a service that begins later is found, and one that begins anew, without a person")
    func findsTheServiceAgain() async throws {
        let bus = try await TestBus.start()
        let radio = Bench.radio(bus)
        var states = radio.adapterStates().makeAsyncIterator()
        #expect(await states.next() == .unusable(.noService))
        let first = try await EmulatedDaemon.start(on: bus)
        #expect(await states.next() == Self.ready)
        await first.stop()
        #expect(await states.next() == .unusable(.noService))
        let second = try await EmulatedDaemon.start(on: bus)
        #expect(await states.next() == Self.ready)
        let path = try await second.addDevice("C0:00:00:00:18:08", ["Bonded": .bool(true), "Paired": .bool(true)])
        #expect(try await radio.bonds().map(\.address) == [Bench.meter])
        _ = path
    }

    @Test("promise 10: a bus that went away is found again, with the service on it")
    func findsTheBusAgain() async throws {
        let folder = try TestBus.makeFolder()
        let first = try await TestBus.start(in: folder)
        let daemon = try await EmulatedDaemon.start(on: first)
        let radio = Bench.radio(first)
        var states = radio.adapterStates().makeAsyncIterator()
        #expect(await states.next() == Self.ready)
        let search = Task { for try await _ in radio.advertisements() {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        first.stop()
        await #expect(throws: RadioError.lost) { try await search.value }
        while let state = await states.next() {
            if case .unusable(.noBus) = state { break }
        }
        let second = try await TestBus.start(in: folder)
        let again = try await EmulatedDaemon.start(on: second)
        while let state = await states.next() {
            if state == Self.ready { break }
        }
        let heard = Task {
            for try await advertisement in radio.advertisements() { return advertisement.address }; return nil
        }
        try await until { await again.count("hci0 Adapter1.StartDiscovery") == 1 }
        _ = try await again.addDevice("C0:00:00:00:18:08")
        #expect(try await heard.value == Bench.meter)
    }

    @Test("promise 10: streams end as lost where the service is killed, and as no adapter where that is pulled out")
    func endsStreams() async throws {
        let bench = try await Bench()
        func begin() async throws -> [Task<Void, any Error>] {
            let radio = bench.radio
            let followed = Gate()
            let tasks = [
                Task { for try await _ in radio.advertisements() {} },
                Task { for try await _ in radio.peripherals([Bench.meter]) {} },
                Task { for try await _ in radio.connectionChanges([Bench.meter]) { followed.open() } },
            ]
            await followed.wait()
            try await until { await bench.listeners == 2 }
            try await until {
                await bench.daemon.objects[EmulatedDaemon.adapter]?["org.bluez.Adapter1"]?["Discovering"] == .bool(true)
            }
            return tasks
        }
        let first = try await begin()
        try await bench.daemon.remove(EmulatedDaemon.adapter)
        for task in first { await #expect(throws: RadioError.noAdapter(nil)) { try await task.value } }
        try await bench.daemon.addAdapter()
        let second = try await begin()
        await bench.daemon.stop()
        for task in second { await #expect(throws: RadioError.lost) { try await task.value } }
        #expect(await bench.listeners == 0)
    }

    @Test("promise 10: an adapter that is pulled out and put back is told, and used again")
    func followsTheAdapter() async throws {
        let bench = try await Bench()
        var states = bench.radio.adapterStates().makeAsyncIterator()
        #expect(await states.next() == Self.ready)
        try await bench.daemon.remove(EmulatedDaemon.adapter)
        #expect(await states.next() == .unusable(.noAdapter(nil)))
        try await bench.daemon.addAdapter()
        #expect(await states.next() == Self.ready)
    }

    @Test("An adapter that is off is switched on once; whoever switches it off afterwards means it")
    func switchesOnOnce() async throws {
        let bench = try await Bench(powered: false)
        #expect(try await bench.radio.bonds() == [])
        #expect(await bench.daemon.count("hci0 Properties.Set") == 1)
        var states = bench.radio.adapterStates().makeAsyncIterator()
        #expect(await states.next() == Self.ready)
        let search = Task { for try await _ in bench.radio.advertisements() {} }
        try await until { await bench.daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        try await bench.daemon.changeAdapter(["Powered": .bool(false), "Discovering": .bool(false)])
        await #expect(throws: RadioError.poweredOff("hci0")) { try await search.value }
        while let state = await states.next() {
            if state == .unusable(.poweredOff("hci0")) { break }
        }
        await #expect(throws: RadioError.poweredOff("hci0")) { _ = try await bench.radio.bonds() }
        #expect(await bench.daemon.count("hci0 Properties.Set") == 1)
        try await bench.daemon.changeAdapter(["Powered": .bool(true)])
        #expect(await states.next() == Self.ready)
    }

    @Test("An adapter that cannot be switched on is named as off, one that is blocked as blocked, by which switch")
    func saysWhyItIsOff() async throws {
        let off = try await Bench(powered: false)
        await off.daemon.on("Properties.Set") { _, _ in throw EmulatedDaemon.error("Failed", "Failed") }
        await #expect(throws: RadioError.poweredOff("hci0")) { _ = try await off.radio.bonds() }

        let soft = try await Bench(powered: false)
        await soft.daemon.on("Properties.Set") { _, _ in
            throw EmulatedDaemon.error("Blocked", "Blocked through rfkill")
        }
        await #expect(throws: RadioError.blocked("hci0", hard: false)) { _ = try await soft.radio.bonds() }

        let told = try await Bench(powered: nil)
        try await told.daemon.addAdapter(powered: false, ["PowerState": .string("off-blocked")])
        await #expect(throws: RadioError.blocked("hci0", hard: false)) { _ = try await told.radio.bonds() }
        #expect(await told.daemon.count("hci0 Properties.Set") == 0)

        let hard = try await Bench(powered: false, rfkill: .emulated(soft: true, hard: true))
        await #expect(throws: RadioError.blocked("hci0", hard: true)) { _ = try await hard.radio.bonds() }
        #expect(await hard.daemon.count("hci0 Properties.Set") == 0)

        let free = try await Bench(powered: false, rfkill: .emulated(soft: false, hard: false))
        #expect(try await free.radio.bonds() == [])
    }

    @Test("A policy that forbids Bluetooth is told as such")
    func tellsForbidden() async throws {
        let bench = try await Bench()
        let calls = Counter()
        await bench.daemon.on("ObjectManager.GetManagedObjects") { _, _ in
            _ = calls.next()
            throw DBusError.remote(name: "org.freedesktop.DBus.Error.AccessDenied", message: "Rejected send message")
        }
        await #expect(throws: RadioError.notPermitted("Rejected send message")) { _ = try await bench.radio.bonds() }
        // It does not pass by itself.
        let count = calls.next()
        try await Task.sleep(for: RadioLimits.test.look * 4)
        #expect(calls.next() == count + 1)
    }

    @Test("The adapter is the one that is named, by name or address, else the first that is on")
    func choosesTheAdapter() async throws {
        let bench = try await Bench(powered: false)
        try await bench.daemon.addAdapter(
            "/org/bluez/hci1", powered: true, ["Address": .string("AA:BB:CC:00:00:02")])
        func name(_ wanted: String?) async throws -> String {
            let radio = Bench.radio(bench.bus, adapter: wanted)
            defer { withExtendedLifetime(radio) {} }
            return try await radio.context.link.usableAdapter().adapter.name
        }
        #expect(try await name(nil) == "hci1")
        #expect(try await name("hci0") == "hci0")
        #expect(try await name("aa:bb:cc:00:00:02") == "hci1")
        #expect(try await name(nil) == "hci0")
    }

    private static let otherAdapter = "/org/bluez/hci1"

    private static func addOtherAdapter(to daemon: EmulatedDaemon) async throws {
        try await daemon.addAdapter(otherAdapter, powered: true, ["Address": .string("AA:BB:CC:00:00:02")])
    }

    @Test("promise 10: the adapter that was used first is used again when it is back, by all who listen")
    func returnsToTheFirst() async throws {
        let bench = try await Bench()
        let (daemon, radio) = (bench.daemon, bench.radio)
        #expect(try await radio.bonds() == [])
        try await Self.addOtherAdapter(to: daemon)
        var states = radio.adapterStates().makeAsyncIterator()
        #expect(await states.next() == Self.ready)
        try await daemon.remove(EmulatedDaemon.adapter)
        while let state = await states.next() {
            if case .ready(let adapter) = state, adapter.name == "hci1" { break }
        }
        #expect(try await radio.bondedElsewhere(among: [Bench.meter]) == [Bench.meter])
        let search = Task { for try await _ in radio.peripherals([Bench.meter]) {} }
        try await until { await daemon.count("hci1 Adapter1.StartDiscovery") == 1 }
        try await daemon.addAdapter()
        await #expect(throws: RadioError.lost) { try await search.value }
        while let state = await states.next() {
            if case .ready(let adapter) = state, adapter.name == "hci0" { break }
        }
        let again = Task { for try await _ in radio.peripherals([Bench.meter]) {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        again.cancel()
        #expect(try await radio.bondedElsewhere(among: [Bench.meter]) == [])
    }

    @Test("Discovery that another listener keeps moves with the adapter that is used")
    func movesDiscovery() async throws {
        let bench = try await Bench()
        let (daemon, link) = (bench.daemon, bench.radio.context.link)
        _ = try await link.usableAdapter()
        try await Self.addOtherAdapter(to: daemon)
        try await until { await link.adapters.count == 2 }
        try await daemon.remove(EmulatedDaemon.adapter)
        try await until { await link.adapters.count == 1 }
        let discovery = bench.radio.context.discovery
        #expect(try await discovery.begin().adapter.name == "hci1")
        try await daemon.addAdapter()
        try await until { await link.adapters.count == 2 }
        #expect(try await discovery.begin().adapter.name == "hci0")
        #expect(await daemon.count("hci1 Adapter1.StopDiscovery") == 1)
        #expect(await daemon.count("hci0 Adapter1.StartDiscovery") == 1)
        await discovery.end()
        await discovery.end()
    }

    @Test("Of several adapters that are on, the first that has bonds is used; which bonds the others have is told")
    func prefersBonds() async throws {
        let bench = try await Bench()
        try await Self.addOtherAdapter(to: bench.daemon)
        func name() async throws -> String {
            let radio = Bench.radio(bench.bus)
            defer { withExtendedLifetime(radio) {} }
            return try await radio.context.link.usableAdapter().adapter.name
        }
        #expect(try await name() == "hci0")
        let bonded: EmulatedDaemon.Properties = ["Bonded": .bool(true), "Paired": .bool(true)]
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", near: Self.otherAdapter, bonded)
        #expect(try await name() == "hci1")
        let elsewhere = DeviceAddress(bits: 0xC000_0000_1809, kind: .random)
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:09", bonded)
        #expect(try await name() == "hci0")
        #expect(try await bench.radio.bonds().map(\.address) == [elsewhere])
        #expect(try await bench.radio.bondedElsewhere(among: [Bench.meter, elsewhere]) == [Bench.meter])
    }

    private static let otherAddress = DeviceAddress(bits: 0xAABB_CC00_0002, kind: .public)

    @Test("promise 10: an adapter with bonds that is off is switched on, and used before one that is on without bonds")
    func prefersBondsToPower() async throws {
        let bench = try await Bench()
        try await bench.daemon.addAdapter(
            Self.otherAdapter, powered: false, ["Address": .string("AA:BB:CC:00:00:02")])
        _ = try await bench.daemon.addDevice(
            "C0:00:00:00:18:08", near: Self.otherAdapter, ["Bonded": .bool(true), "Paired": .bool(true)])
        let link = bench.radio.context.link
        #expect(try await link.usableAdapter().adapter.name == "hci1")
        #expect(await bench.daemon.count("hci1 Properties.Set") == 1)
        #expect(await link.home == Self.otherAddress)
        // Whoever switches it off afterwards means it.
        try await bench.daemon.change(Self.otherAdapter, "org.bluez.Adapter1", ["Powered": .bool(false)])
        try await until { await link.adapters[Self.otherAdapter]?.isPowered == false }
        #expect(try await link.usableAdapter().adapter.name == "hci0")
        #expect(await link.home == Self.otherAddress)
    }

    @Test("promise 10: an adapter with bonds that comes later takes the place of one without, by all who listen")
    func changesToBonds() async throws {
        let bench = try await Bench()
        let (daemon, radio) = (bench.daemon, bench.radio)
        #expect(try await radio.bonds() == [])
        let search = Task { for try await _ in radio.peripherals([Bench.meter]) {} }
        try await until { await daemon.count("hci0 Adapter1.StartDiscovery") == 1 }
        _ = try await daemon.addDevice(
            "C0:00:00:00:18:08", near: Self.otherAdapter, ["Bonded": .bool(true), "Paired": .bool(true)])
        try await Self.addOtherAdapter(to: daemon)
        await #expect(throws: RadioError.lost) { try await search.value }
        #expect(try await radio.bonds().map(\.address) == [Bench.meter])
        #expect(await radio.context.link.home == Self.otherAddress)
        #expect(try await radio.bondedElsewhere(among: [Bench.meter]) == [])
    }

    @Test("promise 10: a service that does not answer at first is looked at again, though nobody asks")
    func looksAgain() async throws {
        let bench = try await Bench()
        let calls = Counter()
        await bench.daemon.on("ObjectManager.GetManagedObjects") { daemon, call in
            if calls.next() < 3 { throw EmulatedDaemon.error("Failed", "Input/output error") }
            return try await daemon.behave("ObjectManager.GetManagedObjects", call)
        }
        var states = bench.radio.adapterStates().makeAsyncIterator()
        #expect(
            await states.next()
                == .unusable(.other(name: "org.bluez.Error.Failed", message: "Input/output error")))
        #expect(await states.next() == Self.ready)
        #expect(calls.next() == 4)
    }

    @Test("A service that did not answer is looked at as soon as it tells of an adapter")
    func looksWhenTold() async throws {
        var limits = RadioLimits.test
        limits.look = .seconds(3600)
        let bench = try await Bench(powered: nil, limits: limits)
        let calls = Counter()
        await bench.daemon.on("ObjectManager.GetManagedObjects") { daemon, call in
            if calls.next() == 1 { throw EmulatedDaemon.error("Failed", "Input/output error") }
            return try await daemon.behave("ObjectManager.GetManagedObjects", call)
        }
        var states = bench.radio.adapterStates().makeAsyncIterator()
        #expect(
            await states.next()
                == .unusable(.other(name: "org.bluez.Error.Failed", message: "Input/output error")))
        try await bench.daemon.addAdapter()
        #expect(await states.next() == Self.ready)
    }

    @Test("An adapter's properties of the wrong type are passed over")
    func passesOverWrongTypes() async throws {
        let bench = try await Bench(powered: nil)
        try await bench.daemon.addAdapter(
            powered: true, ["Address": .uint16(1), "Discovering": .string("yes"), "PowerState": .bool(true)])
        var states = bench.radio.adapterStates().makeAsyncIterator()
        #expect(await states.next() == .ready(Adapter(name: "hci0", address: nil)))
    }

    @Test("promise 12: nothing above debug names an address")
    func keepsAddressesOutOfTheLog() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let feature = try #require(characteristics[0x2A51])
        _ = try await peripheral.read(feature)
        await peripheral.disconnect()
        await bench.daemon.stop()
        var states = bench.radio.adapterStates().makeAsyncIterator()
        while let state = await states.next(), state != .unusable(.noService) {}
        let lines = bench.log.lines(from: .info)
        #expect(!lines.isEmpty)
        #expect(lines.allSatisfy { !$0.contains("C0:00:00") && !$0.contains("C0_00_00") })
    }
}
