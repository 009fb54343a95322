import GATTClient
import HealthDevices
import HealthReadings
import LibDBus
import TestBus
import TestSupport
import Testing

@testable import BlueZCentral

/// Faults of an adapter and of bonds, from what the service says on the bus to what a manager tells of them.
@Suite("Faults that last", .enabled(if: TestBus.isInstalled), .timeLimit(.minutes(5)))
struct FaultEventTests {
    private static let bonded: EmulatedDaemon.Properties = ["Paired": .bool(true), "Bonded": .bool(true)]

    /// What was told, with a + where a fault begins and a - where it ends.
    private let story = Notes<String>()

    private func manager(_ radio: BlueZRadio) throws -> DevicesManager {
        DevicesManager(
            radio: radio, keepingIn: MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin"))))
    }

    /// Follows a manager's faults while its meters are read by themselves, and while something is done.
    private func following(_ manager: DevicesManager, _ body: () async throws -> Void) async throws {
        let faults = manager.faults()
        let follower = Task { [story] in
            for await fault in faults { story.add((fault.isStanding ? "+" : "-") + fault.failure.code) }
        }
        let schedule = Task { await MeterSchedule(manager).run() }
        defer { follower.cancel() }
        do {
            try await body()
        } catch {
            schedule.cancel()
            throw error
        }
        schedule.cancel()
        await schedule.value
    }

    @Test("a service that stops, an adapter that goes and one that is switched off: each begins and ends once")
    func adapter() async throws {
        let bus = try await TestBus.start()
        let first = try await EmulatedDaemon.start(on: bus)
        try await following(manager(Bench.radio(bus))) {
            try await until { await first.log.contains { $0.contains("GetManagedObjects") } }
            await first.stop()
            try await until { story.all == ["+no_bluetooth_service"] }
            let second = try await EmulatedDaemon.start(on: bus)
            try await until { story.all.last == "-no_bluetooth_service" }
            try await second.remove(EmulatedDaemon.adapter)
            try await until { story.all.last == "+no_adapter" }
            try await second.addAdapter()
            try await until { story.all.last == "-no_adapter" }
            try await second.changeAdapter(["Powered": .bool(false)])
            try await until { story.all.last == "+adapter_powered_off" }
            // What else is said of an adapter that is off changes nothing.
            for _ in 0..<3 { try await second.changeAdapter(["Discovering": .bool(false)]) }
            try await second.changeAdapter(["Powered": .bool(true)])
            try await until { story.all.last == "-adapter_powered_off" }
            #expect(
                story.all == [
                    "+no_bluetooth_service", "-no_bluetooth_service", "+no_adapter", "-no_adapter",
                    "+adapter_powered_off", "-adapter_powered_off",
                ])
            await second.stop()
        }
    }

    @Test("an adapter that rfkill blocks is told as blocked, until it is on")
    func blocked() async throws {
        let bench = try await Bench(powered: false, rfkill: .emulated(soft: true, hard: false))
        await bench.daemon.on("Properties.Set") { _, _ in
            throw EmulatedDaemon.error("Blocked", "Blocked through rfkill")
        }
        try await following(manager(bench.radio)) {
            try await until { story.all == ["+adapter_blocked"] }
            try await bench.daemon.changeAdapter(["Powered": .bool(true)])
            try await until { story.all == ["+adapter_blocked", "-adapter_blocked"] }
        }
    }

    @Test("a bond that the meter has lost is told once, however often its links break, and its end when it is removed")
    func bondLost() async throws {
        let bench = try await Bench()
        _ = try await bench.addMeter(Bench.meter.description, Self.bonded)
        await bench.daemon.on("Device1.Connect") { _, _ in
            throw EmulatedDaemon.error("Failed", "le-connection-key-missing")
        }
        let manager = try manager(bench.radio)
        let faults = manager.faults()
        let follower = Task { [story] in
            for await fault in faults { story.add((fault.isStanding ? "+" : "-") + fault.failure.code) }
        }
        defer { follower.cancel() }
        for _ in 0..<3 {
            await #expect(throws: RadioError.forgottenByDevice(Bench.meter)) {
                _ = try await manager.readings(of: Bench.meter, within: .seconds(600))
            }
        }
        try await until { story.all == ["+bond_lost_by_device"] }
        #expect(manager.standingFaults.map(\.name) == ["peerRemovedPairingInformation"])
        #expect(try await manager.unpair(Bench.meter))
        try await until { story.all == ["+bond_lost_by_device", "-bond_lost_by_device"] }
    }

    @Test("a passkey that the meter refuses is one fault, however often it is typed")
    func passkey() async throws {
        let bench = try await Bench()
        await bench.daemon.on("Device1.Pair") { daemon, call in
            try await daemon.changeDevice(call.path, ["Connected": .bool(true)])
            let answer = try await daemon.askAgent("RequestPasskey", [.objectPath(call.path)])
            guard answer == [.uint32(1234)] else {
                try await daemon.changeDevice(call.path, ["Connected": .bool(false)])
                throw EmulatedDaemon.error("AuthenticationFailed", "Authentication Failed")
            }
            return try await daemon.behave("Device1.Pair", call)
        }
        let manager = try manager(bench.radio)
        var agent = TestAgent()
        agent.passkey = { 4321 }
        for _ in 0..<2 {
            // The service has forgotten the meter after a pairing that failed, and hears it anew.
            _ = try await bench.addMeter()
            await #expect(throws: RadioError.pairing(.wrongPasskey)) {
                _ = try await manager.pair(Bench.meter, within: .seconds(600), agent: agent)
            }
        }
        #expect(manager.standingFaults.map(\.failure.code) == ["wrong_passkey"])
        #expect(manager.standingFaults.map(\.subject) == [.device(Bench.meter)])
    }
}
