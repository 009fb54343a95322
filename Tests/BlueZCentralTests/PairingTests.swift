import GATTClient
import HealthReadings
import LibDBus
import Synchronization
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

/// An agent whose answers a test gives, and that notes what it was asked.
struct TestAgent: PairingAgent {
    let asked = Notes<String>()
    var passkey: @Sendable () async throws -> UInt32 = { throw CancellationError() }
    var confirms: @Sendable () async throws -> Bool = { false }
    var allows: @Sendable () async throws -> Bool = { true }

    func passkey(shownBy device: Advertisement) async throws -> UInt32 {
        asked.add("passkey")
        return try await passkey()
    }

    func show(passkey: UInt32, typed: Int, at device: Advertisement) async { asked.add("show \(passkey) \(typed)") }

    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool {
        asked.add("confirm \(digits) \(device.name ?? "")")
        return try await confirms()
    }

    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool {
        asked.add("allow")
        return try await allows()
    }
}

@Suite("Pairing", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct PairingTests {
    /// A bench with a meter that asks as `ask` says before it is paired.
    private static func bench(
        limits: RadioLimits = .test, _ ask: @escaping @Sendable (EmulatedDaemon, DBusMethodCall) async throws -> Void
    ) async throws -> (Bench, Bench.Meter) {
        let bench = try await Bench(limits: limits)
        let meter = try await bench.addMeter()
        await bench.daemon.on("Device1.Pair") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            do {
                try await ask(daemon, call)
            } catch {
                try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
                throw error
            }
            return try await daemon.behave("Device1.Pair", call)
        }
        return (bench, meter)
    }

    private func pair(_ bench: Bench, _ agent: TestAgent) async throws -> Bond {
        try await bench.radio.pair(Bench.meter, within: .seconds(600), agent: agent)
    }

    private static let failed = EmulatedDaemon.error("AuthenticationFailed", "Authentication Failed")

    @Test("A passkey is asked for, and the device is bonded, trusted and left connected; the agent is gone afterwards")
    func pairsByPasskey() async throws {
        let (bench, meter) = try await Self.bench { daemon, call in
            let answer = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
            guard answer == [.uint32(1234)] else { throw Self.failed }
        }
        var agent = TestAgent()
        agent.passkey = { 1234 }
        let bond = try await pair(bench, agent)
        #expect(bond == Bond(address: Bench.meter, name: "meter+1", isTrusted: true, isConnected: true))
        #expect(agent.asked.all == ["passkey"])
        let device = await bench.daemon.objects[meter.path]?["org.bluez.Device1"]
        #expect(device?["Trusted"] == .bool(true))
        #expect(await bench.daemon.agent == nil)
        #expect(await bench.daemon.count("bluez AgentManager1.RegisterAgent") == 1)
        #expect(await bench.daemon.count("bluez AgentManager1.RequestDefaultAgent") == 1)
        #expect(try await bench.radio.bonds() == [bond])
        let peripheral = try await bench.radio.peripheral(bond.address, within: .seconds(600))
        await peripheral.disconnect()
        #expect(try await bench.radio.bonds().map(\.isConnected) == [false])
    }

    @Test("Each thing a device can ask is put to the agent")
    func answersEverything() async throws {
        let answers = Notes<[DBusValue]>()
        let (bench, _) = try await Self.bench { daemon, call in
            let device = DBusValue.objectPath(call.path)
            for (member, arguments) in [
                ("DisplayPasskey", [device, .uint32(7), .uint16(0)]),
                ("DisplayPasskey", [device, .uint32(7), .uint16(2)]),
                ("DisplayPinCode", [device, .string("000815")]), ("RequestConfirmation", [device, .uint32(123_456)]),
                ("RequestAuthorization", [device]),
                ("AuthorizeService", [device, .string("00001808-0000-1000-8000-00805f9b34fb")]),
                ("RequestPinCode", [device]), ("Release", []),
            ] as [(String, [DBusValue])] {
                answers.add(try await daemon.askAgent(member, arguments))
            }
        }
        var agent = TestAgent()
        agent.passkey = { 42 }
        agent.confirms = { true }
        _ = try await pair(bench, agent)
        #expect(answers.all == [[], [], [], [], [], [], [.string("000042")], []])
        try await until { agent.asked.all.count { $0.hasPrefix("show") } == 3 }
        #expect(agent.asked.all.filter { $0.hasPrefix("show") } == ["show 7 0", "show 7 2", "show 815 0"])
        #expect(
            agent.asked.all.filter { !$0.hasPrefix("show") } == ["confirm 123456 meter+1", "allow", "passkey"])
    }

    @Test("Nobody but the service is answered, and for no other device")
    func answersNobodyElse() async throws {
        let other = Notes<String>()
        let (bench, _) = try await Self.bench { daemon, call in
            for path in ["/org/bluez/hci0/dev_00_00_00_00_00_01", "/"] {
                do {
                    _ = try await daemon.askAgent("RequestPasskey", [.objectPath(path)])
                } catch {
                    other.add("\(error)")
                }
            }
            let agent = await daemon.agent
            let stranger = try await DBusConnection.open(.address(strangerAddress.all.first ?? ""))
            do {
                _ = try await stranger.call(
                    agent?.owner ?? "", agent?.path ?? "", "org.bluez.Agent1", "RequestPasskey",
                    [.objectPath(call.path)])
            } catch {
                other.add("\(error)")
            }
            await stranger.close()
        }
        strangerAddress.add(bench.bus.address)
        let agent = TestAgent()
        _ = try await pair(bench, agent)
        #expect(other.all == Array(repeating: "org.bluez.Error.Rejected: Rejected", count: 3))
        #expect(agent.asked.all == ["allow"])
    }

    private let strangerAddress = Notes<String>()

    @Test(
        "A wrong passkey, a refusal, silence and a link that breaks each have their own name, and leave nothing behind")
    func namesFailures() async throws {
        let cases: [(String, Bool, PairingFailure)] = [
            ("AuthenticationFailed", true, .wrongPasskey), ("AuthenticationFailed", false, .rejectedByDevice),
            ("AuthenticationRejected", false, .rejectedByDevice), ("AuthenticationTimeout", true, .timedOut),
            ("AuthenticationCanceled", true, .disconnected),
        ]
        for (name, asks, failure) in cases {
            let (bench, meter) = try await Self.bench { daemon, call in
                if asks { _ = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)]) }
                throw EmulatedDaemon.error(name, name)
            }
            var agent = TestAgent()
            agent.passkey = { 999_999 }
            await #expect(throws: RadioError.pairing(failure), "\(name)") { _ = try await pair(bench, agent) }
            #expect(await bench.daemon.objects[meter.path] == nil)
            #expect(await bench.daemon.agent == nil)
            #expect(await bench.listeners == 0)
        }
    }

    @Test("An agent that throws, or says no, rejects the pairing")
    func rejects() async throws {
        struct Refusal: Error {}
        let ask: @Sendable (EmulatedDaemon, DBusMethodCall) async throws -> Void = { daemon, call in
            do {
                _ = try await daemon.askAgent("RequestConfirmation", [.objectPath(call.path), .uint32(1)])
            } catch {
                guard RemoteError(error)?.name == "org.bluez.Error.Rejected" else { throw error }
                throw EmulatedDaemon.error("AuthenticationFailed", "Authentication Failed")
            }
        }
        var agent = TestAgent()
        let (saysNo, _) = try await Self.bench(ask)
        await #expect(throws: RadioError.pairing(.rejectedHere)) { _ = try await pair(saysNo, agent) }
        agent.confirms = { throw Refusal() }
        let (throwing, _) = try await Self.bench(ask)
        await #expect(throws: RadioError.pairing(.rejectedHere)) { _ = try await pair(throwing, agent) }
    }

    @Test("A passkey that is none is not sent")
    func refusesWhatIsNoPasskey() async throws {
        let (bench, _) = try await Self.bench { daemon, call in
            do {
                _ = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
            } catch {
                throw Self.failed
            }
        }
        var agent = TestAgent()
        agent.passkey = { 1_000_000 }
        await #expect(throws: RadioError.pairing(.rejectedHere)) { _ = try await pair(bench, agent) }
    }

    @Test("A device that nothing is asked of is kept only where that is allowed")
    func asksForJustWorks() async throws {
        let (allowed, _) = try await Self.bench { _, _ in }
        var agent = TestAgent()
        _ = try await pair(allowed, agent)
        #expect(agent.asked.all == ["allow"])

        agent = TestAgent()
        agent.allows = { false }
        let (refused, meter) = try await Self.bench { _, _ in }
        await #expect(throws: RadioError.pairing(.rejectedHere)) { _ = try await pair(refused, agent) }
        #expect(await refused.daemon.objects[meter.path] == nil)
        #expect(await refused.daemon.log.allSatisfy { !$0.contains("Properties.Set") })
    }

    @Test("A person who does not answer is not waited for longer than people take")
    func timesOutPeople() async throws {
        var limits = RadioLimits.test
        limits.person = .milliseconds(100)
        let (bench, meter) = try await Self.bench(limits: limits) { daemon, call in
            do {
                _ = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
            } catch {
                throw EmulatedDaemon.error("AuthenticationCanceled", "Authentication Canceled")
            }
        }
        let ended = Gate()
        var agent = TestAgent()
        agent.passkey = {
            defer { ended.open() }
            try await Task.sleep(for: .seconds(3600))
            return 1
        }
        await #expect(throws: RadioError.pairing(.timedOut)) { _ = try await pair(bench, agent) }
        await ended.wait()
        #expect(await bench.daemon.objects[meter.path] == nil)
    }

    @Test("A pairing that is cancelled ends the question, the pairing, and what it has begun")
    func cancels() async throws {
        let asking = Gate()
        let ended = Gate()
        let (bench, meter) = try await Self.bench { daemon, call in
            _ = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
        }
        var agent = TestAgent()
        agent.passkey = {
            asking.open()
            defer { ended.open() }
            try await Task.sleep(for: .seconds(3600))
            return 1
        }
        let asked = agent
        let pairing = Task { try await pair(bench, asked) }
        await asking.wait()
        pairing.cancel()
        await #expect(throws: CancellationError.self) { _ = try await pairing.value }
        await ended.wait()
        let log = await bench.daemon.log
        #expect(log.contains("dev_C0_00_00_00_18_08 Device1.CancelPairing"))
        #expect(await bench.daemon.objects[meter.path] == nil)
        #expect(await bench.daemon.agent == nil)
    }

    @Test("The daemon's Cancel ends the question")
    func heedsCancel() async throws {
        let asking = Gate()
        let (bench, _) = try await Self.bench { daemon, call in
            async let question = daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
            await asking.wait()
            _ = try await daemon.askAgent("Cancel", [])
            do {
                _ = try await question
            } catch {
                #expect(RemoteError(error)?.name == "org.bluez.Error.Canceled")
            }
            throw EmulatedDaemon.error("AuthenticationCanceled", "Authentication Canceled")
        }
        var agent = TestAgent()
        agent.passkey = {
            asking.open()
            try await Task.sleep(for: .seconds(3600))
            return 1
        }
        await #expect(throws: RadioError.pairing(.disconnected)) { _ = try await pair(bench, agent) }
    }

    @Test("A link that cannot be made is tried again, and then told as not connected")
    func retriesTheLink() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter()
        let calls = Counter()
        await bench.daemon.on("Device1.Pair") { daemon, call in
            if calls.next() < 3 { throw EmulatedDaemon.error("ConnectionAttemptFailed", "Page Timeout") }
            return try await daemon.behave("Device1.Pair", call)
        }
        _ = try await pair(bench, TestAgent())

        var limits = RadioLimits.test
        limits.connectAltogether = .milliseconds(200)
        let away = try await Bench(limits: limits)
        _ = try await away.addMeter()
        await away.daemon.on("Device1.Pair") { _, _ in
            throw EmulatedDaemon.error("ConnectionAttemptFailed", "Page Timeout")
        }
        await #expect(throws: RadioError.notConnected(Bench.meter, "Page Timeout")) {
            _ = try await pair(away, TestAgent())
        }
    }

    @Test("The bond has the identity address, also where that is told in place and later")
    func tellsTheIdentity() async throws {
        let bench = try await Bench()
        let path = try await bench.daemon.addDevice("4A:00:00:00:18:08", name: "cuff")
        await bench.daemon.on("Device1.Pair") { daemon, call in
            _ = try await daemon.behave("Device1.Pair", call)
            Task {
                try await Task.sleep(for: .milliseconds(50))
                try await daemon.changeDevice(path, ["Address": .string("C0:00:00:00:18:10")])
            }
            return []
        }
        let bond = try await bench.radio.pair(
            DeviceAddress(bits: 0x4A00_0000_1808, kind: .random), within: .seconds(600), agent: TestAgent())
        #expect(bond.address == DeviceAddress(bits: 0xC000_0000_1810, kind: .random))
        let peripheral = try await bench.radio.peripheral(bond.address, within: .seconds(600))
        #expect(peripheral.advertisement.address == bond.address)
    }

    @Test("A device that is bonded already is trusted, and not paired anew: that call is never answered")
    func leavesBondsAlone() async throws {
        let bench = try await Bench()
        _ = try await bench.daemon.addDevice(
            "C0:00:00:00:18:08", rssi: nil, ["Bonded": .bool(true), "Paired": .bool(true)])
        let bond = try await pair(bench, TestAgent())
        #expect(bond.isTrusted)
        #expect(await bench.daemon.log.allSatisfy { !$0.hasSuffix("Device1.Pair") })
    }

    @Test("A daemon without the Bonded property is asked for Paired")
    func fallsBackToPaired() async throws {
        let bench = try await Bench()
        let path = try await bench.daemon.addDevice("C0:00:00:00:18:08", ["Paired": .bool(true)])
        try await bench.daemon.changeDevice(path, [:], invalidated: ["Bonded"])
        #expect(try await bench.radio.bonds().map(\.address) == [Bench.meter])
        // Keys of one pairing only are no bond.
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:09", ["Paired": .bool(true), "Bonded": .bool(false)])
        #expect(try await bench.radio.bonds().map(\.address) == [Bench.meter])
    }

    @Test(
        "A bond is found by its address, also where the object's path has the address that the device was first heard with"
    )
    func findsBond() async throws {
        let bench = try await Bench()
        let bonded: EmulatedDaemon.Properties = ["Paired": .bool(true), "Bonded": .bool(true)]
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", bonded)
        let path = try await bench.daemon.addDevice("4A:00:00:00:18:09", bonded)
        try await bench.daemon.changeDevice(path, ["Address": .string("C0:00:00:00:18:09")])
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:0A")
        for bits: UInt64 in [0xC000_0000_1808, 0xC000_0000_1809] {
            for kind in [DeviceAddress.Kind.random, .public] {
                let bond = try await bench.radio.bond(with: DeviceAddress(bits: bits, kind: kind))
                #expect(bond?.address == DeviceAddress(bits: bits, kind: .random))
            }
        }
        // One that was heard only, one whose path has another's address, and one that is not known.
        for bits: UInt64 in [0xC000_0000_180A, 0x4A00_0000_1809, 0xC000_0000_180B] {
            #expect(try await bench.radio.bond(with: DeviceAddress(bits: bits, kind: .random)) == nil)
        }
    }

    @Test("Unpairing removes the device and says whether there was a bond")
    func unpairs() async throws {
        let bench = try await Bench()
        let path = try await bench.daemon.addDevice(
            "C0:00:00:00:18:08", ["Bonded": .bool(true), "Paired": .bool(true)])
        #expect(try await bench.radio.unpair(Bench.meter))
        #expect(await bench.daemon.objects[path] == nil)
        #expect(try await bench.radio.unpair(Bench.meter) == false)
        _ = try await bench.daemon.addDevice("C0:00:00:00:18:08", ["Bonded": .bool(true)])
        await bench.daemon.on("Adapter1.RemoveDevice") { _, _ in
            throw EmulatedDaemon.error("DoesNotExist", "Does Not Exist")
        }
        #expect(try await bench.radio.unpair(Bench.meter))
    }

    @Test("A device that the daemon connects to by itself is removed when its link has ended and stays away")
    func unpairsAfterReconnecting() async throws {
        let bench = try await Bench()
        let path = try await bench.daemon.addDevice(
            "C0:00:00:00:18:08", ["Bonded": .bool(true), "Paired": .bool(true), "Connected": .bool(true)])
        let reconnects = Mutex(2)
        await bench.daemon.on("Device1.Disconnect") { daemon, call in
            let isConnected = reconnects.withLock { reconnects in
                reconnects -= 1
                return reconnects >= 0
            }
            try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
            try await daemon.changeDevice(call.path, ["Connected": .bool(isConnected)])
            return []
        }
        #expect(try await bench.radio.unpair(Bench.meter))
        #expect(await bench.daemon.objects[path] == nil)
        let log = await bench.daemon.log
        #expect(log.count { $0.hasSuffix("Device1.Disconnect") } == 4)
        #expect(log.last?.hasSuffix("Adapter1.RemoveDevice") ?? false)
    }

    @Test("A pairing in the middle of which the service is killed is told as lost")
    func losesTheService() async throws {
        let (bench, _) = try await Self.bench { daemon, _ in await daemon.stop() }
        await #expect(throws: RadioError.lost) { _ = try await pair(bench, TestAgent()) }
    }

    @Test("While a person reads the digits, other links are made")
    func lendsTheRadio() async throws {
        let asking = Gate()
        let answer = Gate()
        let (bench, _) = try await Self.bench { daemon, call in
            _ = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
        }
        let other = DeviceAddress(bits: 0xC000_0000_1809, kind: .random)
        _ = try await bench.addMeter(other.description)
        var agent = TestAgent()
        agent.passkey = {
            asking.open()
            await answer.wait()
            return 1
        }
        let asked = agent
        let pairing = Task { try await pair(bench, asked) }
        await asking.wait()
        let (peripheral, _) = try await bench.connect(other)
        await peripheral.disconnect()
        answer.open()
        _ = try await pairing.value
    }
}
