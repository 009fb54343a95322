import EmulatedRadio
import GATTClient
import HealthReadings
import TestSupport
import Testing

@testable import GatewayCommands

/// `watch` of what devices send while somebody looks.
@Suite struct LiveTests {
    private func strap() -> EmulatedMeter {
        let strap = EmulatedMeter(
            "C0:00:00:00:18:0D", name: "Strap", records: nil, needsBond: false, services: [0x180D], serial: "S")
        strap.beat([[0x16, 72, 0, 4], [0x06, 73], [0x04, 0]])
        strap.hold(after: 3)
        return strap
    }

    @Test(
        "a strap's heart rates come while somebody looks, of the kinds that were asked for, and nothing is stored",
        .timeLimit(.minutes(2)), arguments: GatewayBench.Way.allCases)
    func heartRates(_ way: GatewayBench.Way) async throws {
        let strap = strap()
        let bench = try await GatewayBench(way, [strap])
        try await bench.run(.device(.pair(PairOperation(address: "C0:00:00:00:18:0D", seconds: 60))))
        let output = Collected()
        let watching = Task {
            try await bench.run(.device(.watch(types: ["heart_rate", "hrv"], window: 30)), output: output)
        }
        try #require(await eventually { output.data.count == 3 })
        #expect(output.data[0].contains(#""kind":"heart_rate""#) && output.data[0].contains(#""rr_ms":[1000.00]"#))
        #expect(output.data[0].contains(#""id":null"#) && output.data[0].contains(#""model":"generic_heart_rate""#))
        #expect(output.data[2].contains(#""excluded":"no_value""#))
        watching.cancel()
        _ = try? await watching.value
        #expect(await eventually { !strap.isConnected })
        #expect(strap.events.contains(.stopped(0x2A37)))
        #expect(try await bench.lines(.device(.list))[0].contains(#""readings":0"#))
        try await bench.stop()
    }

    @Test("what a device sends that is recorded is shown too, and kept", .timeLimit(.minutes(2)))
    func recorded() async throws {
        let strap = strap()
        let bench = try await GatewayBench(.inProcess, [strap])
        let output = Collected()
        let watching = Task {
            try await bench.run(.device(.watch(types: ["heart_rate"], window: 30)), output: output)
        }
        #expect(await eventually { bench.gateway.recorded.hasListeners })
        let recording = Task {
            try await bench.run(.device(.record(RecordOperation(addresses: ["C0:00:00:00:18:0D"]))))
        }
        try #require(await eventually { output.data.count == 3 })
        #expect(output.data.allSatisfy { $0.contains(#""id":null"#) })
        recording.cancel()
        _ = try? await recording.value
        try #require(await eventually { output.data.count == 4 }, "\(output.data)")
        #expect(output.data[3].contains(#""series":[{"#), "\(output.data)")
        watching.cancel()
        _ = try? await watching.value
        try await bench.stop()
    }

    @Test("who asks for glucose leaves the strap alone")
    func otherKinds() async throws {
        let strap = strap()
        let bench = try await GatewayBench(.inProcess, [strap])
        try await bench.run(.device(.pair(PairOperation(address: "C0:00:00:00:18:0D", seconds: 60))))
        let before = strap.events.count
        let watching = Task { try await bench.run(.device(.watch(types: ["glucose"])), output: Collected()) }
        try await Task.sleep(for: .milliseconds(300))
        watching.cancel()
        _ = try? await watching.value
        #expect(!strap.events[before...].contains(.started(0x2A37)))
        try await bench.stop()
    }
}
