import GATTClient
import HealthReadings
import LibDBus
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

@Suite("Links", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct LinkTests {
    private static let bonded: EmulatedDaemon.Properties = ["Bonded": .bool(true), "Paired": .bool(true)]

    @Test("A link is told with its moment, and is gone when disconnect returns")
    func connectsAndDisconnects() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let peripheral = try await bench.radio.peripheral(Bench.meter, within: .seconds(600))
        let before = Instant.systemClock
        let connectedAt = try await peripheral.connect()
        #expect(before <= connectedAt && connectedAt <= .systemClock)
        #expect(peripheral.advertisement.address == Bench.meter)
        #expect(peripheral.advertisement.name == "meter+1")
        await peripheral.disconnect()
        #expect(await bench.daemon.objects[meter.path]?["org.bluez.Device1"]?["Connected"] == .bool(false))
        await peripheral.disconnect()
        #expect(await bench.daemon.log.count { $0.hasSuffix("Device1.Disconnect") } == 1)
    }

    @Test("A meter's match rules are on the bus while it is connected, and off it again afterwards")
    func leavesNoRules() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let connection = try await bench.radio.context.link.service().connection
        func rules() async throws -> Int? {
            try await connection.call(
                "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats",
                "GetConnectionStats", [.string(connection.uniqueName)]
            ).first?.stringKeyed?["MatchRules"]?.intValue
        }
        let before = try #require(try await rules())
        for _ in 0..<3 {
            let (peripheral, characteristics) = try await bench.connect()
            for number: UInt16 in [0x2A18, 0x2A34, 0x2A18] {
                try await peripheral.startNotifying(try #require(characteristics[number]))
            }
            try await until { try await rules() == before + 7 }
            await peripheral.disconnect()
            try await until { try await rules() == before }
        }
    }

    @Test(
        "What passes by itself is tried again",
        arguments: [
            EmulatedDaemon.abortByLocal, EmulatedDaemon.cancelled, EmulatedDaemon.error("Failed", "Disconnected early"),
            EmulatedDaemon.error("InProgress", "Operation already in progress"),
            EmulatedDaemon.error("Failed", "Operation already in progress"),
            EmulatedDaemon.error("Failed", "Input/output error"),
            EmulatedDaemon.error("Failed", "Software caused connection abort"),
        ])
    func triesAgain(_ error: DBusError) async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let calls = Counter()
        await bench.daemon.on("Device1.Connect") { daemon, call in
            if calls.next() < 5 { throw error }
            return try await daemon.behave("Device1.Connect", call)
        }
        let (peripheral, characteristics) = try await bench.connect()
        #expect(calls.next() == 6)
        #expect(characteristics.count == 4)
        await peripheral.disconnect()
    }

    @Test("What does not pass is told in the service's words, at once")
    func tellsWhatDoesNotPass() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        await bench.daemon.on("Device1.Connect") { _, _ in throw EmulatedDaemon.error("Failed", "br-connection-sdp") }
        await #expect(throws: RadioError.notConnected(Bench.meter, "br-connection-sdp")) {
            _ = try await bench.connect()
        }
        #expect(await bench.daemon.log.count { $0.hasSuffix("Device1.Connect") } == 1)
    }

    @Test("Trying again has an end, and leaves nothing half-made")
    func givesUp() async throws {
        var limits = RadioLimits.test
        limits.connectAltogether = .milliseconds(300)
        let bench = try await Bench(limits: limits)
        _ = try await bench.addMeter()
        await bench.daemon.on("Device1.Connect") { _, _ in throw EmulatedDaemon.abortByLocal }
        await #expect(throws: RadioError.notConnected(Bench.meter, "le-connection-abort-by-local")) {
            _ = try await bench.connect()
        }
        #expect(await bench.daemon.log.contains { $0.hasSuffix("Device1.Disconnect") })
    }

    @Test("A connection attempt that hangs is ended by Disconnect")
    func endsWhatHangs() async throws {
        var limits = RadioLimits.test
        limits.connect = .milliseconds(200)
        let bench = try await Bench(limits: limits)
        _ = try await bench.addMeter()
        let gate = Gate()
        await bench.daemon.on("Device1.Connect") { _, _ in
            await gate.wait()
            return []
        }
        await #expect(throws: RadioError.notConnected(Bench.meter, "no answer in time")) {
            _ = try await bench.connect()
        }
        #expect(await bench.daemon.log.contains { $0.hasSuffix("Device1.Disconnect") })
        gate.open()
    }

    @Test("A connection attempt that is cancelled is ended by Disconnect")
    func endsWhatIsCancelled() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let gate = Gate()
        await bench.daemon.on("Device1.Connect") { _, _ in
            await gate.wait()
            return []
        }
        let attempt = Task { _ = try await bench.connect() }
        try await until { await bench.daemon.log.contains { $0.hasSuffix("Device1.Connect") } }
        attempt.cancel()
        await #expect(throws: CancellationError.self) { try await attempt.value }
        #expect(await bench.daemon.log.contains { $0.hasSuffix("Device1.Disconnect") })
        gate.open()
    }

    @Test("Services may be resolved late, early, twice, or before anybody asks")
    func waitsForTheServices() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let daemon = bench.daemon
        await daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            Task {
                try await Task.sleep(for: .milliseconds(50))
                try await daemon.changeDevice(call.path, ["ServicesResolved": .bool(true)])
                try await daemon.changeDevice(call.path, ["ServicesResolved": .bool(true)])
            }
            return []
        }
        let (late, _) = try await bench.connect()
        await late.disconnect()
        await daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["ServicesResolved": .bool(true)])
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            return []
        }
        let (early, _) = try await bench.connect()
        await early.disconnect()
        try await daemon.linkUp(meter.path)
        let (already, characteristics) = try await bench.connect()
        #expect(characteristics.count == 4)
        await already.disconnect()
        #expect(await daemon.log.count { $0.hasSuffix("Device1.Connect") } == 2)
    }

    @Test("A link that breaks while the services are resolved is made again")
    func reconnects() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let calls = Counter()
        await bench.daemon.on("Device1.Connect") { daemon, call in
            if calls.next() < 3 {
                try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
                Task { try await daemon.changeDevice(call.path, ["Connected": .bool(false)]) }
                return []
            }
            return try await daemon.behave("Device1.Connect", call)
        }
        let (peripheral, characteristics) = try await bench.connect()
        // The links before are not taken for the end of this one.
        #expect(try await peripheral.nextValues(within: .milliseconds(1)) == .silence)
        #expect(characteristics.count == 4)
        await peripheral.disconnect()
    }

    @Test("A bonded device whose links break at once, again and again, has forgotten the bond")
    func namesAForgottenBond() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter(Bench.meter.description, Self.bonded)
        await bench.daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
            throw EmulatedDaemon.abortByLocal
        }
        await #expect(throws: RadioError.forgottenByDevice(Bench.meter)) { _ = try await bench.connect() }
        let log = await bench.daemon.log.filter { $0.contains("Device1") }
        #expect(log.count { $0.hasSuffix("Device1.Connect") } == LinkCourse.lossesToForget)
        // So that the kernel does not go on by itself.
        #expect(log.last?.hasSuffix("Device1.Disconnect") ?? false)
    }

    @Test("A bonded device whose links the daemon says were out of reach has not forgotten the bond")
    func doesNotAccuseTheDistant() async throws {
        var limits = RadioLimits.test
        limits.connectAltogether = .seconds(1)
        let bench = try await Bench(limits: limits)
        _ = try await bench.addMeter(Bench.meter.description, Self.bonded)
        await bench.daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
            try await daemon.emit(
                call.path, "org.bluez.Device1", "Disconnected",
                [.string("org.bluez.Reason.Timeout"), .string("Connection timeout")])
            throw EmulatedDaemon.abortByLocal
        }
        await #expect(throws: RadioError.notConnected(Bench.meter, "le-connection-abort-by-local")) {
            _ = try await bench.connect()
        }
        let attempts = await bench.daemon.log.count { $0.hasSuffix("Device1.Connect") }
        #expect(attempts > LinkCourse.lossesToForget)
    }

    @Test(
        "A link that goes before it is encrypted is made again, and says of the bond what the daemon says of it",
        arguments: [
            ("", RadioError.notConnected(Bench.meter, "br-connection-canceled"), LinkCourse.lossesToLeave),
            (
                "org.bluez.Reason.Unknown", RadioError.notConnected(Bench.meter, "br-connection-canceled"),
                LinkCourse.lossesToLeave
            ),
            ("org.bluez.Reason.Remote", RadioError.forgottenByDevice(Bench.meter), LinkCourse.lossesToForget),
            ("org.bluez.Reason.Authentication", RadioError.forgottenByDevice(Bench.meter), 1),
        ])
    func explainsCancelledLinks(_ reason: String, _ expected: RadioError, _ attempts: Int) async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter(Bench.meter.description, Self.bonded)
        await bench.daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            // The answer comes before the news, as from bluetoothd.
            Task {
                try await Task.sleep(for: .milliseconds(20))
                if !reason.isEmpty {
                    try await daemon.emit(
                        call.path, "org.bluez.Device1", "Disconnected", [.string(reason), .string("")])
                }
                try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
            }
            throw EmulatedDaemon.cancelled
        }
        await #expect(throws: expected) { _ = try await bench.connect() }
        #expect(await bench.daemon.log.count { $0.hasSuffix("Device1.Connect") } == attempts)
    }

    @Test("A daemon that says the key is missing is believed at once")
    func believesTheDaemon() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter(Bench.meter.description, Self.bonded)
        await bench.daemon.on("Device1.Connect") { _, _ in
            throw EmulatedDaemon.error("Failed", "le-connection-key-missing")
        }
        await #expect(throws: RadioError.forgottenByDevice(Bench.meter)) { _ = try await bench.connect() }
        await bench.daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
            try await daemon.emit(
                call.path, "org.bluez.Device1", "Disconnected",
                [
                    .string("org.bluez.Reason.Authentication"),
                    .string("Connection terminated due to an authentication failure"),
                ])
            throw EmulatedDaemon.abortByLocal
        }
        await #expect(throws: RadioError.forgottenByDevice(Bench.meter)) { _ = try await bench.connect() }
        _ = meter
    }

    @Test("A device that is not bonded and does the same is only not connected")
    func doesNotAccuseStrangers() async throws {
        var limits = RadioLimits.test
        limits.connectAltogether = .milliseconds(300)
        let bench = try await Bench(limits: limits)
        _ = try await bench.addMeter()
        await bench.daemon.on("Device1.Connect") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
            throw EmulatedDaemon.abortByLocal
        }
        await #expect(throws: RadioError.notConnected(Bench.meter, "le-connection-abort-by-local")) {
            _ = try await bench.connect()
        }
    }

    @Test("A device that the service forgets between two calls is named")
    func bearsVanishing() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let gone = try await bench.radio.peripheral(Bench.meter, within: .seconds(600))
        try await bench.daemon.remove(meter.path)
        await #expect(throws: RadioError.notConnected(Bench.meter, "the service has forgotten it")) {
            _ = try await gone.connect()
        }
        _ = try await bench.addMeter()
        await bench.daemon.on("Device1.Connect") { daemon, call in
            try await daemon.remove(call.path)
            throw DBusError.remote(
                name: "org.freedesktop.DBus.Error.UnknownObject", message: "Method \"Connect\" doesn't exist")
        }
        await #expect(throws: RadioError.notConnected(Bench.meter, "the service has forgotten it")) {
            _ = try await bench.connect()
        }
        await bench.daemon.on("Device1.Connect") { try await $0.behave("Device1.Connect", $1) }
        _ = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let feature = try #require(characteristics[0x2A51])
        try await bench.daemon.remove(meter.path)
        await #expect(throws: GATTError.disconnected) { _ = try await peripheral.read(feature) }
        #expect(try await peripheral.nextValues(within: .seconds(600)) == .disconnected)
        await peripheral.disconnect()
    }

    @Test("A pending connection attempt fails as lost where the service is killed")
    func losesTheService() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let daemon = bench.daemon
        await daemon.on("Device1.Connect") { daemon, _ in
            await daemon.stop()
            return []
        }
        await #expect(throws: RadioError.lost) { _ = try await bench.connect() }
    }

    @Test("An adapter that is switched off while a link is made is told as that")
    func tellsTheAdapter() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        await bench.daemon.on("Device1.Connect") { daemon, _ in
            try await daemon.changeAdapter(["Powered": .bool(false)])
            throw EmulatedDaemon.error("NotReady", "Resource Not Ready")
        }
        await #expect(throws: RadioError.poweredOff("hci0")) { _ = try await bench.connect() }
    }

    @Test("Links are made one after the other")
    func takesTurns() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let other = DeviceAddress(bits: 0xC000_0000_1809, kind: .random)
        _ = try await bench.addMeter(other.description)
        let running = Notes<Int>()
        await bench.daemon.on("Device1.Connect") { daemon, call in
            running.add(1)
            try await Task.sleep(for: .milliseconds(30))
            running.add(-1)
            return try await daemon.behave("Device1.Connect", call)
        }
        async let one = bench.connect()
        async let two = bench.connect(other)
        for (peripheral, _) in try await [one, two] { await peripheral.disconnect() }
        #expect(running.all == [1, -1, 1, -1])
    }
}
