import EmulatedRadio
import GATTClient
import GatewaySettings
import HealthDevices
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

    @Test("heart-rate computes an interval from all of its samples, whichever part of the recording is asked for")
    func wholeIntervals() async throws {
        let bench = try await GatewayBench(.inProcess, [])
        let store = bench.gateway.store
        let begin = try #require(Instant(rfc3339: "2026-11-20T12:00:00.5Z"))
        let strap = DeviceDescription(address: DeviceAddress("C0:00:00:00:18:0D"), model: "generic_heart_rate")
        let contact = try await store.beginContact(with: strap, at: begin, clock: nil, batteryPercent: nil)
        let frames = (0..<60).map { minute -> Frame in
            var block = RecordedBlock(characteristic: 0x2A37)
            // Two beats each, of which the first ended a second ago.
            for place in 0..<30 { block.add([0x10, UInt8(60 + minute), 0, 4, 0, 4], atMilliseconds: place * 2000) }
            return Frame(
                format: .heartRateBlock, payload: block.payload,
                receivedAt: begin.advanced(bySeconds: Int64(minute) * 60), ordinal: minute)
        }
        _ = try await store.append(frames, of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 60))
        func figures(to end: String, interval: Int) async throws -> String {
            let operation = HeartRateOperation(
                from: "2026-11-20T12:00:00Z", to: "2026-11-20T\(end)Z", interval: interval, window: 300)
            let lines = try await bench.lines(.heartRate(operation))
            return try #require(lines.first)
        }
        let first = #""rates":[{"time":"2026-11-20T12:00:00Z","mean":74.5,"lowest":60,"highest":89,"samples":900}"#
        for end in ["12:00:00", "12:10:00", "12:30:00", "13:00:00"] {
            let found = try await figures(to: end, interval: 1800)
            #expect(found.contains(first), "\(end): \(found)")
        }
        // The last beat of the window came with the first measurement behind it.
        let window = try await figures(to: "12:00:00", interval: 60)
        #expect(window.contains(#""beats":300,"left_out":0"#), "\(window)")
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
