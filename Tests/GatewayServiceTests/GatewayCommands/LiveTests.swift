import EmulatedRadio
import GATTClient
import GatewaySettings
import HealthReadings
import ReadingStore
import Synchronization
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

    @Test("a recording ends when its person withdraws their consent", .timeLimit(.minutes(2)))
    func consentWithdrawn() async throws {
        let strap = strap()
        strap.sleep()
        let bench = try await GatewayBench(.inProcess, [strap])
        let output = Collected()
        let recording = Task {
            try await bench.problem(
                .device(.record(RecordOperation(addresses: ["C0:00:00:00:18:0D"]))), output: output)
        }
        try #require(await eventually { !output.notes.isEmpty })
        let store = bench.gateway.store
        let person = try await store.currentUser().key
        try await store.setConsents([.heartRate, .hrv, .spo2], granted: false, of: person)
        strap.wake()
        let problem = try await recording.value
        #expect(problem.code == "no_consent" && problem.status == .notPermitted)
        #expect(!strap.events.contains(.connected))
        try await bench.stop()
    }

    /// Takes nothing once a device is connected.
    private struct FullDisk: OperationOutput {
        func data(_ line: String) async throws { throw Problem("output_failed", .inputOutput, "the disk is full") }
        func note(_ line: String) async throws { if line.hasSuffix(": recording") { try await data(line) } }
    }

    @Test("a recording whose output can't be written goes on, and says so at its end", .timeLimit(.minutes(2)))
    func unwritten() async throws {
        let strap = strap()
        let bench = try await GatewayBench(.inProcess, [strap])
        let recorded = Mutex(0)
        let watching = Task {
            for await _ in bench.gateway.recorded.listen(buffering: 16) { recorded.withLock { $0 += 1 } }
        }
        try #require(await eventually { bench.gateway.recorded.hasListeners })
        let recording = Task {
            let operation = RecordOperation(addresses: ["C0:00:00:00:18:0D"])
            try await bench.gateway.run(OperationRequest(.device(.record(operation)), json: true), output: FullDisk())
        }
        try #require(await eventually { recorded.withLock(\.self) >= 3 })
        recording.cancel()
        let problem = await #expect(throws: Problem.self) { try await recording.value }
        #expect(problem?.code == "output_failed")
        watching.cancel()
        #expect(strap.events.count { $0 == .connected } == 1)
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
