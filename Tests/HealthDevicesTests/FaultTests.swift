import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Faults that last: told when they begin and when they end.
@Suite struct FaultTests {
    private let bench = RadioBench()
    private let told = Told<DeviceFault>()

    /// Does something while faults are followed; they are in `told` by the order of their changes.
    private func following(_ body: () async throws -> Void) async throws {
        let faults = bench.manager.faults()
        let follower = Task { for await fault in faults { told.note(fault) } }
        try await body()
        follower.cancel()
    }

    /// The codes of what was told, with a + where a fault begins and a - where it ends.
    private var story: [String] { told.events.map { ($0.isStanding ? "+" : "-") + $0.failure.code } }

    private static let ready = AdapterState.ready(Adapter(name: "hci0", address: nil))

    @Test("an adapter's faults begin and end once each, however often the adapter says them")
    func adapter() async throws {
        try await bench.meter(paired: .proven) { $0.isInReach = false }
        try await following {
            let schedule = Task { await MeterSchedule(bench.manager).run() }
            try await eventually("it is watched for") { !bench.radio.watched.isEmpty }
            for state in [
                AdapterState.unusable(.lost), .unusable(.lost), .unusable(.noService), .unusable(.noAdapter(nil)),
                Self.ready,
                .unusable(.poweredOff("hci0")), .unusable(.poweredOff("hci0")), Self.ready, Self.ready,
                .unusable(.blocked("hci0", hard: false)), .unusable(.blocked("hci0", hard: true)), Self.ready,
            ] { bench.radio.setAdapter(state) }
            try await eventually("all is told") { story.count == 10 }
            schedule.cancel()
            await schedule.value
        }
        #expect(
            story == [
                "+bluetooth_lost", "-bluetooth_lost", "+no_bluetooth_service", "-no_bluetooth_service", "+no_adapter",
                "-no_adapter", "+adapter_powered_off", "-adapter_powered_off", "+adapter_blocked", "-adapter_blocked",
            ])
        #expect(told.events.allSatisfy { $0.subject == .radio && $0.began <= $0.ended ?? .systemClock })
        #expect(
            told.events.filter(\.isStanding).map(\.name) == [
                "resetting", "unsupported", "unsupported", "poweredOff", "poweredOff",
            ])
        #expect(bench.manager.standingFaults.isEmpty)
    }

    @Test("without a schedule the first call that cannot use the radio tells of it, and the first that can of its end")
    func calls() async throws {
        try await bench.meter(paired: .proven)
        try await following {
            bench.radio.setAdapter(.unusable(.poweredOff("hci0")))
            for _ in 0..<3 {
                await #expect(throws: RadioError.poweredOff("hci0")) {
                    try await bench.manager.read(.device(1)) { _ in }
                }
            }
            bench.radio.setAdapter(Self.ready)
            try await bench.manager.read(.device(1)) { _ in }
            try await bench.manager.read(.device(1)) { _ in }
            try await eventually("all is told") { story.count == 2 }
        }
        #expect(story == ["+adapter_powered_off", "-adapter_powered_off"])
    }

    @Test("a bond that the meter has lost is told once, and its end when it is paired again")
    func bondLost() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.knowsBond = false }
        try await following {
            for _ in 0..<3 {
                await #expect(throws: RadioError.forgottenByDevice(.device(1))) {
                    try await bench.manager.read(.device(1)) { _ in }
                }
            }
            // A meter that is away says nothing of its bond.
            bench.radio.vanish(meter)
            let away = Task { try await bench.manager.read(.device(1), within: .seconds(1)) { _ in } }
            try await eventually("it is waited for") { bench.clock.sleeps.contains(.seconds(1)) }
            bench.clock.advance(by: .seconds(1))
            await #expect(throws: RadioError.self) { try await away.value }
            bench.radio.appear(meter)
            let paired = try await bench.manager.pair(.device(1), repair: true, agent: TestAgent())
            #expect(paired.isProven)
            try await eventually("all is told") { story.count == 2 }
        }
        #expect(story == ["+bond_lost_by_device", "-bond_lost_by_device"])
        #expect(
            told.events.first?.subject == .device(.device(1))
                && told.events.first?.name == "peerRemovedPairingInformation")
        #expect(told.events.first?.failure.hint?.contains("--repair") == true)
    }

    @Test("a schedule that meets a lost bond again and again tells of it once")
    func bondLostInSchedule() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.knowsBond = false }
        try await following {
            let schedule = Task { await MeterSchedule(bench.manager).run() }
            try await eventually("it is told") { story == ["+bond_lost_by_device"] }
            for _ in 0..<3 {
                bench.radio.vanish(meter)
                bench.clock.advance(by: .seconds(3600))
                bench.radio.appear(meter)
                try await settle()
            }
            #expect(story == ["+bond_lost_by_device"])
            try await bench.manager.unpair(.device(1))
            try await eventually("nobody wants it any more") { story.count == 2 }
            schedule.cancel()
            await schedule.value
        }
        #expect(bench.manager.standingFaults.isEmpty)
    }

    @Test("a passkey that the meter refuses is a fault until it is paired; another refusal takes its place")
    func passkey() async throws {
        try await bench.meter(script: .fails(.wrongPasskey))
        try await following {
            for _ in 0..<2 {
                await #expect(throws: RadioError.pairing(.wrongPasskey)) {
                    try await bench.manager.pair(.device(1), agent: TestAgent())
                }
            }
            bench.radio.script(.fails(.rejectedByDevice), for: .device(1))
            await #expect(throws: RadioError.pairing(.rejectedByDevice)) {
                try await bench.manager.pair(.device(1), agent: TestAgent())
            }
            // That nobody answered in time changes nothing of what is wrong.
            bench.radio.script(.fails(.timedOut), for: .device(1))
            await #expect(throws: RadioError.pairing(.timedOut)) {
                try await bench.manager.pair(.device(1), agent: TestAgent())
            }
            bench.radio.script(.justWorks, for: .device(1))
            _ = try await bench.manager.pair(.device(1), agent: TestAgent())
            try await eventually("all is told") { story.count == 4 }
        }
        #expect(
            story == [
                "+wrong_passkey", "-wrong_passkey", "+pairing_rejected_by_device", "-pairing_rejected_by_device",
            ])
    }

    @Test("what else is done with a device meets its faults too, and tells of each once")
    func everyCall() async throws {
        try await bench.meter(paired: .proven) { $0.knowsBond = false }
        try await following {
            for _ in 0..<2 {
                await #expect(throws: RadioError.forgottenByDevice(.device(1))) {
                    _ = try await bench.manager.setClock(of: .device(1)) { _ in WallTime(secondsSinceEpoch: 0) }
                }
                await #expect(throws: RadioError.forgottenByDevice(.device(1))) {
                    _ = try await bench.manager.probe(.device(1))
                }
                await #expect(throws: RadioError.forgottenByDevice(.device(1))) {
                    try await bench.manager.read(.device(1)) { _ in }
                }
            }
            try await eventually("it is told") { !story.isEmpty }
        }
        #expect(story == ["+bond_lost_by_device"])
    }

    @Test("who comes later gets what stands, and nothing that has passed")
    func standing() async throws {
        try await bench.meter(1, paired: .proven) { $0.knowsBond = false }
        try await bench.meter(2, paired: .proven) { $0.knowsBond = false }
        for number in [1, 2] as [UInt64] {
            await #expect(throws: RadioError.forgottenByDevice(.device(number))) {
                try await bench.manager.read(.device(number)) { _ in }
            }
        }
        try await bench.manager.unpair(.device(1))
        let standing = bench.manager.standingFaults
        #expect(standing.map(\.subject) == [.device(.device(2))])
        var faults = bench.manager.faults().makeAsyncIterator()
        #expect(await faults.next() == standing.first)
    }

    @Test("every fault has a name, and its document every key")
    func names() {
        for code in DeviceFault.names.keys {
            let fault = DeviceFault(
                .device(.device(1)), ContactFailure(code: code, description: "x"), began: Instant(seconds: 1),
                ended: Instant(seconds: 2))
            guard case .object(let members) = fault.document else {
                Issue.record("no object")
                return
            }
            #expect(
                members.map(\.key) == ["subject", "address", "code", "name", "message", "hint", "began_at", "ended_at"])
            #expect(fault.document["ended_at"] == "1970-01-01T00:00:02Z")
        }
    }
}
