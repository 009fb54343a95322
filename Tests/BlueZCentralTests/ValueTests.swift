import GATTClient
import HealthReadings
import LibDBus
import TestBus
import Testing

@testable import BlueZCentral

@Suite("Values", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct ValueTests {
    private static func values(_ peripheral: any Peripheral, _ count: Int) async throws -> [CharacteristicValue] {
        var values: [CharacteristicValue] = []
        while values.count < count, case .values(let burst) = try await peripheral.nextValues(within: .seconds(600)) {
            values += burst
        }
        return values
    }

    @Test("Characteristics have their services, and their value handles from the declarations' in the paths")
    func findsCharacteristics() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        try await bench.daemon.add(
            meter.path + "/service001b/char00ff",
            ["org.bluez.GattCharacteristic1": ["UUID": .uint32(9), "Service": .objectPath("/nowhere")]])
        try await bench.daemon.add(
            meter.path + "/service001b/nonsense",
            ["org.bluez.GattCharacteristic1": ["UUID": .string("00002a18-0000-1000-8000-00805f9b34fb")]])
        try await bench.daemon.add(
            meter.path + "/service001b/char0100",
            [
                "org.bluez.GattCharacteristic1": [
                    "UUID": .string("af9df7a3-e595-11e3-96b4-0002a5d5c51b"), "Handle": .uint16(0x0142),
                    "Service": .bool(true),
                ]
            ])
        let (peripheral, _) = try await bench.connect()
        let found = try await peripheral.characteristics()
        #expect(found.map(\.valueHandle) == [0x1D, 0x20, 0x23, 0x26, 0x142])
        #expect(found.map(\.uuid).prefix(4) == [0x2A18, 0x2A34, 0x2A51, 0x2A52])
        #expect(found.map(\.service) == [0x1808, 0x1808, 0x1808, 0x1808, nil])
        await peripheral.disconnect()
    }

    @Test("The battery level that the daemon keeps to itself is offered as a characteristic")
    func offersTheBattery() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        try await bench.daemon.add(meter.path, ["org.bluez.Battery1": ["Percentage": .byte(87)]])
        let (peripheral, characteristics) = try await bench.connect()
        let battery = try #require(characteristics[0x2A19])
        #expect(battery.service == 0x180F)
        #expect(try await peripheral.read(battery).octets == [87])
        await bench.daemon.on("Properties.Get") { _, _ in [.variant(.string("full"))] }
        await #expect(
            performing: { _ = try await peripheral.read(battery) },
            throws: { error in
                if case RadioError.other("unexpected_reply", _) = error { true } else { false }
            })
        await peripheral.disconnect()
    }

    @Test("Values of all characteristics that notify come in the order of the wire, and with their octets")
    func keepsTheOrder() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        for number: UInt16 in [0x2A18, 0x2A34, 0x2A52] {
            try await peripheral.startNotifying(try #require(characteristics[number]))
        }
        let paths = [meter.measurement, meter.context, meter.controlPoint]
        let before = Instant.systemClock
        for number in 0..<300 {
            try await bench.daemon.notify(paths[number % 3], [UInt8(number % 256), UInt8(number / 256)])
        }
        let values = try await Self.values(peripheral, 300)
        let octets = (0..<300).map { number in [UInt8(number % 256), UInt8(number / 256)] }
        let kinds: [BluetoothUUID] = [0x2A18, 0x2A34, 0x2A52]
        let uuids = (0..<300).map { number in kinds[number % 3] }
        #expect(values.map(\.octets) == octets)
        #expect(values.map(\.uuid) == uuids)
        #expect(values.allSatisfy { before <= $0.receivedAt && $0.receivedAt <= .systemClock })
        #expect(try await peripheral.nextValues(within: .milliseconds(10)) == .silence)
        await peripheral.disconnect()
    }

    @Test("Two meters at the same time: the end of one's link costs the other no value (dbus-daemon's path_namespace)")
    func keepsTwoApart() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let other = DeviceAddress(bits: 0xC000_0000_1809, kind: .random)
        _ = try await bench.addMeter(other.description)
        let (first, _) = try await bench.connect(other)
        let (second, characteristics) = try await bench.connect()
        let measurement = try #require(characteristics[0x2A18])
        try await first.startNotifying(measurement)
        try await second.startNotifying(measurement)
        await first.disconnect()
        // The rules of the first are taken off the bus by now, or will be among these.
        for octet in 0..<200 as Range<UInt8> {
            try await bench.daemon.notify(meter.measurement, [octet])
            try await Task.sleep(for: .milliseconds(1))
        }
        let octets = (0..<200 as Range<UInt8>).map { [$0] }
        #expect(try await Self.values(second, 200).map(\.octets) == octets)
        await second.disconnect()
    }

    @Test("Equal values are as many as came")
    func keepsEqualValues() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
        for _ in 0..<50 { try await bench.daemon.notify(meter.measurement, [1, 2, 3]) }
        #expect(try await Self.values(peripheral, 50).count == 50)
        await peripheral.disconnect()
    }

    @Test("What comes before StartNotify is answered is kept")
    func keepsEarlyValues() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        await bench.daemon.on("GattCharacteristic1.StartNotify") { daemon, call in
            try await daemon.notify(call.path, [1])
            try await daemon.notify(call.path, [2])
            return []
        }
        try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
        try await bench.daemon.notify(meter.measurement, [3])
        #expect(try await Self.values(peripheral, 3).map(\.octets) == [[1], [2], [3]])
        await peripheral.disconnect()
    }

    @Test("Reading is no notification: neither of what does not notify, nor, in its place among them, of what does")
    func passesOverEchoes() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let measurement = try #require(characteristics[0x2A18])
        try await peripheral.startNotifying(measurement)
        try await bench.daemon.change(
            meter.feature, "org.bluez.GattCharacteristic1", ["Value": .bytes([0x7B, 0x04])])
        #expect(try await peripheral.read(try #require(characteristics[0x2A51])).octets == [0x7B, 0x04])
        for octet in [1, 7] as [UInt8] { try await bench.daemon.notify(meter.measurement, [octet]) }
        // The last value is 7, which the read tells once more; a notification of 7 before it stays.
        #expect(try await peripheral.read(measurement).octets == [7])
        try await bench.daemon.notify(meter.measurement, [8])
        #expect(try await Self.values(peripheral, 3).map(\.octets) == [[1], [7], [8]])
        #expect(try await peripheral.nextValues(within: .milliseconds(10)) == .silence)
        await peripheral.disconnect()
    }

    @Test("The link's end is told after every value that came before it, and nothing of ours stays subscribed")
    func tellsTheEndLast() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
        for octet in 0..<100 as Range<UInt8> { try await bench.daemon.notify(meter.measurement, [octet]) }
        try await bench.daemon.linkDown(meter.path)
        let octets = (0..<100 as Range<UInt8>).map { [$0] }
        #expect(try await Self.values(peripheral, 100).map(\.octets) == octets)
        #expect(try await peripheral.nextValues(within: .seconds(600)) == .disconnected)
        #expect(try await peripheral.nextValues(within: .seconds(600)) == .disconnected)
        #expect(await bench.daemon.count("char001c GattCharacteristic1.StopNotify") == 1)
        await peripheral.disconnect()
        #expect(await bench.daemon.count("char001c GattCharacteristic1.StopNotify") == 1)
    }

    @Test("Values that came with the link's end don't wait until the service has stopped their notifications")
    func valuesBeforeStopping() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
        let gate = Gate()
        await bench.daemon.on("GattCharacteristic1.StopNotify") { daemon, call in
            await gate.wait()
            return try await daemon.behave("GattCharacteristic1.StopNotify", call)
        }
        try await bench.daemon.notify(meter.measurement, [1])
        try await bench.daemon.linkDown(meter.path)
        // By its answer both are there, so that they are taken together.
        _ = try await peripheral.read(try #require(characteristics[0x2A51]))
        #expect(try await Self.values(peripheral, 1).map(\.octets) == [[1]])
        #expect(await bench.daemon.count("char001c GattCharacteristic1.StopNotify") == 0)
        gate.open()
        #expect(try await peripheral.nextValues(within: .seconds(600)) == .disconnected)
        #expect(await bench.daemon.count("char001c GattCharacteristic1.StopNotify") == 1)
        await peripheral.disconnect()
    }

    @Test("A service that is killed is told after every value that came before, as lost")
    func tellsTheLossLast() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let measurement = try #require(characteristics[0x2A18])
        try await peripheral.startNotifying(measurement)
        for octet in 0..<10 as Range<UInt8> { try await bench.daemon.notify(meter.measurement, [octet]) }
        try await bench.daemon.connection.flush()
        await bench.daemon.stop()
        #expect(try await Self.values(peripheral, 10).count == 10)
        await #expect(throws: RadioError.lost) { _ = try await peripheral.nextValues(within: .seconds(600)) }
        await #expect(throws: RadioError.lost) { _ = try await peripheral.read(measurement) }
        await peripheral.disconnect()
    }

    @Test("A bus that goes away is told after every value that came before, as lost")
    func tellsTheLossOfTheBus() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
        try await bench.daemon.notify(meter.measurement, [1])
        #expect(try await Self.values(peripheral, 1).count == 1)
        bench.bus.stop()
        await #expect(throws: RadioError.lost) { _ = try await peripheral.nextValues(within: .seconds(600)) }
        await peripheral.disconnect()
    }

    @Test("Notifications stop before the disconnect, also where the link was cut or the reader never stopped them")
    func stopsNotifying() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let measurement = try #require(characteristics[0x2A18])
        try await peripheral.startNotifying(measurement)
        try await peripheral.startNotifying(try #require(characteristics[0x2A52]))
        try await peripheral.stopNotifying(measurement)
        try await peripheral.stopNotifying(measurement)
        await peripheral.disconnect()
        let log = await bench.daemon.log.filter { $0.hasSuffix("StopNotify") || $0.hasSuffix("Device1.Disconnect") }
        #expect(
            log == [
                "char001c GattCharacteristic1.StopNotify", "char0025 GattCharacteristic1.StopNotify",
                "dev_C0_00_00_00_18_08 Device1.Disconnect",
            ])
        let (again, _) = try await bench.connect()
        try await again.startNotifying(measurement)
        try await bench.daemon.linkDown(meter.path)
        await again.disconnect()
        #expect(await bench.daemon.count("char001c GattCharacteristic1.StopNotify") == 2)
    }

    @Test("Where notifications are kept, the link ends first; the daemon is to forget them all the same")
    func disconnectsFirst() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let measurement = try #require(characteristics[0x2A18])
        await peripheral.keepNotifying()
        try await peripheral.startNotifying(measurement)
        await peripheral.disconnect()
        let log = await bench.daemon.log.filter { $0.hasSuffix("StopNotify") || $0.hasSuffix("Device1.Disconnect") }
        #expect(
            log == [
                "dev_C0_00_00_00_18_08 Device1.Disconnect", "char001c GattCharacteristic1.StopNotify",
            ])
        // It hangs up by itself.
        let (again, _) = try await bench.connect()
        await again.keepNotifying()
        try await again.startNotifying(measurement)
        try await bench.daemon.linkDown(meter.path)
        #expect(try await again.nextValues(within: .seconds(600)) == .disconnected)
        #expect(await bench.daemon.count("char001c GattCharacteristic1.StopNotify") == 2)
        await again.disconnect()
        // What was kept once is not kept by the next connection.
        let (third, _) = try await bench.connect()
        try await third.startNotifying(measurement)
        await third.disconnect()
        #expect(await bench.daemon.log.last == "dev_C0_00_00_00_18_08 Device1.Disconnect")
    }

    @Test("Values that came before StopNotify was answered can still be taken")
    func keepsLateValues() async throws {
        let bench = try await Bench()
        let (peripheral, characteristics): (any Peripheral, [UInt16: Characteristic])
        _ = try await bench.addMeter()
        (peripheral, characteristics) = try await bench.connect()
        let measurement = try #require(characteristics[0x2A18])
        try await peripheral.startNotifying(measurement)
        await bench.daemon.on("GattCharacteristic1.StopNotify") { daemon, call in
            try await daemon.notify(call.path, [9])
            return []
        }
        try await peripheral.stopNotifying(measurement)
        guard case .values(let values) = try await peripheral.nextValues(within: .zero) else {
            Issue.record("nothing was kept")
            return
        }
        #expect(values.map(\.octets) == [[9]])
        #expect(try await peripheral.nextValues(within: .zero) == .silence)
        await peripheral.disconnect()
    }

    @Test("Signals that are no values are passed over")
    func passesOverRubbish() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
        let daemon = bench.daemon
        let interface = "org.bluez.GattCharacteristic1"
        for value: DBusValue in [
            .string("text"), .uint32(1), .array([.int16(1)], of: "n"), .variant(.variant(.bytes([5]))),
        ] {
            try await daemon.change(meter.measurement, interface, ["Value": value, "Notifying": .byte(2)])
        }
        try await daemon.change(meter.measurement, interface, [:], invalidated: ["Value"])
        try await daemon.changeDevice(meter.path, ["Connected": .string("no"), "ServicesResolved": .uint16(0)])
        try await daemon.emit(meter.measurement, "org.freedesktop.DBus.Properties", "PropertiesChanged", [])
        try await daemon.emit(
            meter.measurement, "org.freedesktop.DBus.Properties", "PropertiesChanged",
            [.string(interface), .bytes([1])])
        try await daemon.notify(meter.context, [6])
        try await daemon.notify(meter.measurement, [])
        try await daemon.notify(meter.measurement, [7])
        #expect(try await Self.values(peripheral, 2).map(\.octets) == [[], [7]])
        await peripheral.disconnect()
    }

    @Test("What is written and how is what the daemon is asked")
    func writes() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let controlPoint = try #require(characteristics[0x2A52])
        let written = Notes<[DBusValue]>()
        await bench.daemon.on("GattCharacteristic1.WriteValue") { _, call in
            written.add(call.arguments)
            return []
        }
        try await peripheral.write([1, 1], to: controlPoint, expectingResponse: true)
        try await peripheral.write([], to: controlPoint, expectingResponse: false)
        #expect(written.all.map { $0.first?.byteValues } == [[1, 1], []])
        #expect(written.all.map { $0.last?.stringKeyed?["type"]?.stringValue } == ["request", "command"])
        let elsewhere = Characteristic(uuid: 0x2A35, service: 0x1810, valueHandle: 0x99)
        await #expect(throws: GATTError.noSuchCharacteristic(0x2A35)) { _ = try await peripheral.read(elsewhere) }
        await peripheral.disconnect()
        await #expect(throws: GATTError.disconnected) { _ = try await peripheral.read(controlPoint) }
    }

    @Test(
        "The daemon's errors are the attribute protocol's",
        arguments: [
            (EmulatedDaemon.error("NotPermitted", "Read not permitted"), GATTError.attribute(0x02)),
            (EmulatedDaemon.error("NotPermitted", "Write not permitted"), .attribute(0x03)),
            (EmulatedDaemon.error("NotPermitted", "Not paired"), .attribute(0x05)),
            (EmulatedDaemon.error("NotPermitted", "what now"), .attribute(0x02)),
            (EmulatedDaemon.error("NotAuthorized", "Operation Not Authorized"), .attribute(0x08)),
            (EmulatedDaemon.error("NotSupported", "Operation is not supported"), .attribute(0x06)),
            (EmulatedDaemon.error("InvalidArguments", "Invalid offset"), .attribute(0x07)),
            (EmulatedDaemon.error("InvalidArguments", "Invalid Length"), .attribute(0x0D)),
            (EmulatedDaemon.error("Failed", "Operation failed with ATT error: 0x80"), .attribute(0x80)),
            (EmulatedDaemon.error("Failed", "Operation failed with ATT error: 0xfd"), .attribute(0xFD)),
        ])
    func namesErrors(_ error: DBusError, _ expected: GATTError) async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        await bench.daemon.on("GattCharacteristic1.ReadValue") { _, _ in throw error }
        let feature = try #require(characteristics[0x2A51])
        await #expect(throws: expected) { _ = try await peripheral.read(feature) }
        await peripheral.disconnect()
    }

    @Test("A device that says 'insufficient authentication' over a bond has forgotten it")
    func namesAForgottenBond() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter(
            Bench.meter.description, ["Bonded": .bool(true), "Paired": .bool(true)])
        let (peripheral, characteristics) = try await bench.connect()
        await bench.daemon.on("GattCharacteristic1.StartNotify") { _, _ in
            throw EmulatedDaemon.error("NotPermitted", "Not paired")
        }
        let measurement = try #require(characteristics[0x2A18])
        await #expect(throws: RadioError.forgottenByDevice(Bench.meter)) {
            try await peripheral.startNotifying(measurement)
        }
        await peripheral.disconnect()
    }

    @Test("Right after connecting, what was not even sent is asked again; later it is the device's answer")
    func asksAgainEarly() async throws {
        let bench = try await Bench()
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let calls = Counter()
        await bench.daemon.on("GattCharacteristic1.ReadValue") { _, _ in
            switch calls.next() {
            case 1: throw EmulatedDaemon.error("Failed", "Operation failed with ATT error: 0x0e")
            case 2: throw EmulatedDaemon.error("Failed", "Not connected")
            case 3: throw EmulatedDaemon.error("InProgress", "In Progress")
            default: return [.bytes([4])]
            }
        }
        let feature = try #require(characteristics[0x2A51])
        #expect(try await peripheral.read(feature).octets == [4])
        await bench.daemon.on("GattCharacteristic1.ReadValue") { _, _ in
            throw EmulatedDaemon.error("Failed", "Not connected")
        }
        try await bench.daemon.linkDown(meter.path)
        await #expect(throws: GATTError.disconnected) { _ = try await peripheral.read(feature) }
        await peripheral.disconnect()
    }

    @Test("What a lost link cuts off is told as that, also where the daemon says so later than it answers")
    func tellsALostLink() async throws {
        var limits = RadioLimits.test
        limits.farewell = .seconds(60)
        let bench = try await Bench(limits: limits)
        let meter = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let daemon = bench.daemon
        await daemon.on("GattCharacteristic1.WriteValue") { _, _ in
            Task {
                try await Task.sleep(for: .milliseconds(300))
                try await daemon.linkDown(meter.path)
            }
            throw EmulatedDaemon.error("Failed", "Operation failed with ATT error: 0x0e")
        }
        // Later than a link is new, when such an answer would be asked for again.
        try await Task.sleep(for: .seconds(3.1))
        let control = try #require(characteristics[0x2A52])
        await #expect(throws: GATTError.disconnected) {
            try await peripheral.write([1, 1], to: control, expectingResponse: true)
        }
        await peripheral.disconnect()
    }

    @Test("An unlikely error over a link that stays is the device's own")
    func keepsAnUnlikelyError() async throws {
        var limits = RadioLimits.test
        limits.farewell = .milliseconds(100)
        let bench = try await Bench(limits: limits)
        _ = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        await bench.daemon.on("GattCharacteristic1.WriteValue") { _, _ in
            throw EmulatedDaemon.error("Failed", "Operation failed with ATT error: 0x0e")
        }
        let control = try #require(characteristics[0x2A52])
        await #expect(throws: GATTError.attribute(0x0E)) {
            try await peripheral.write([1, 1], to: control, expectingResponse: true)
        }
        await peripheral.disconnect()
    }

    @Test("A device that does not answer is told as timed out")
    func timesOut() async throws {
        var limits = RadioLimits.test
        limits.transaction = .milliseconds(200)
        let bench = try await Bench(limits: limits)
        _ = try await bench.addMeter()
        let (peripheral, characteristics) = try await bench.connect()
        let gate = Gate()
        await bench.daemon.on("GattCharacteristic1.ReadValue") { _, _ in
            await gate.wait()
            return []
        }
        let feature = try #require(characteristics[0x2A51])
        await #expect(throws: GATTError.timedOut) { _ = try await peripheral.read(feature) }
        gate.open()
        await peripheral.disconnect()
    }

    @Test("Waiting for values ends with the task that waits")
    func endsWithTheTask() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let (peripheral, _) = try await bench.connect()
        let waiting = Task { try await peripheral.nextValues(within: .seconds(600)) }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        await peripheral.disconnect()
    }
}
