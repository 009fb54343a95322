import EmulatedRadio
import GATTClient
import GatewaySettings
import HealthReadings
import ReadingStore
import TestSupport
import Testing

@testable import GatewayCommands

/// `read`: waits for meters, fetches what is new, and prints each new reading.
@Suite struct ReadTests {
    static let read = GatewayCommands.Operation.device(.read(ReadOperation(seconds: 60)))

    /// A meter that is paired with the bench's radio.
    static func paired(
        _ address: String = "C0:00:00:00:18:08", name: String = "meter+00001808", records: ClosedRange<UInt16>? = 1...5
    ) async throws -> EmulatedMeter {
        let meter = EmulatedMeter(address, name: name, records: records, serial: name)
        meter.bondAlready()
        return meter
    }

    @Test(
        "each new reading is printed as it comes, and a second read brings nothing",
        arguments: GatewayBench.Way.allCases)
    func twice(_ way: GatewayBench.Way) async throws {
        let meter = try await Self.paired(records: 1...40)
        let bench = try await GatewayBench(way, [meter])
        let output = Collected()
        let readings = try await bench.lines(Self.read, output: output).map(\.object)
        #expect(readings.compactMap { $0["sequence"] as? Int } == Array(1...40))
        #expect(readings.allSatisfy { $0["id"] is String && $0["kind"] as? String == "glucose" })
        #expect(output.progress.last == TransferProgress(device: "meter+00001808", received: 40, announced: 40))
        #expect(output.notes == ["meter+00001808: 40 new readings"])
        let second = Collected()
        #expect(try await bench.lines(Self.read, output: second).isEmpty)
        #expect(second.notes == ["meter+00001808: nothing new"])
        meter.measure(41...42)
        #expect(try await bench.lines(Self.read).count == 2)
        try await bench.stop()
    }

    @Test("promise 2: --all-records asks for everything, and what is stored stays what it is")
    func allRecords() async throws {
        let meter = try await Self.paired()
        let bench = try await GatewayBench(.inProcess, [meter])
        #expect(try await bench.lines(Self.read).count == 5)
        #expect(try await bench.lines(.device(.read(ReadOperation(allRecords: true, seconds: 60)))).isEmpty)
        #expect(meter.events.filter { $0 == .wrote([1, 1]) }.count == 2)
    }

    @Test("a meter that is away is waited for, and read when it comes", arguments: GatewayBench.Way.allCases)
    func comes(_ way: GatewayBench.Way) async throws {
        let meter = try await Self.paired()
        meter.sleep()
        let bench = try await GatewayBench(way, [meter])
        let problem = try await bench.problem(.device(.read(ReadOperation(seconds: 0.1))))
        #expect(problem.code == "device_not_seen" && problem.status == .tryAgain)
        let output = Collected()
        let reading = Task {
            try await bench.run(.device(.read(ReadOperation(seconds: 60))), output: output)
        }
        try await Task.sleep(for: .milliseconds(50))
        meter.wake()
        try await reading.value
        #expect(output.data.count == 5)
        try await bench.stop()
    }

    @Test("one that is not paired is 78, none that is paired 66", arguments: GatewayBench.Way.allCases)
    func unpaired(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, [EmulatedMeter("C0:00:00:00:18:08", name: "meter+1")])
        let one = try await bench.problem(
            .device(.read(ReadOperation(addresses: ["C0:00:00:00:18:08"], seconds: 0.1))))
        #expect(one.code == "not_paired" && one.status == .configuration)
        let none = try await bench.problem(Self.read)
        #expect(none.code == "nothing_paired" && none.status == .noInput && none.hint?.contains("pair") == true)
        try await bench.stop()
    }

    @Test("several devices: each result is printed, and the worst is how it ends", arguments: GatewayBench.Way.allCases)
    func several(_ way: GatewayBench.Way) async throws {
        let here = try await Self.paired()
        let away = try await Self.paired("C0:00:00:00:18:0B", name: "Contour1")
        away.sleep()
        let forgetful = try await Self.paired("C0:00:00:00:18:0C", name: "Contour2")
        forgetful.forgetBond()
        let bench = try await GatewayBench(way, [here, away, forgetful])
        let output = Collected()
        let problem = try await bench.problem(.device(.read(ReadOperation(seconds: 0.3))), output: output)
        #expect(output.data.count == 5)
        #expect(Set(output.warnings.map(\.code)) == ["device_not_seen", "bond_lost_by_device"])
        #expect(problem.code == "bond_lost_by_device" && problem.status == .notPermitted)
        #expect(problem.message.hasPrefix("2 of 3 devices"))
        #expect(bench.radio.waits == 0, "one watch of the radio serves all")
        try await bench.stop()
    }

    @Test(
        "promise 3: a command stopped in the middle keeps what came, stops notifications and disconnects",
        .timeLimit(.minutes(2)), arguments: GatewayBench.Way.allCases)
    func stopped(_ way: GatewayBench.Way) async throws {
        let meter = try await Self.paired(records: 1...30)
        meter.hold(after: 7)
        let bench = try await GatewayBench(way, [meter])
        let output = Collected()
        let reading = Task { try await bench.run(Self.read, output: output) }
        // The count's answer is one of the seven; the last three are told when it is clear that no context follows.
        #expect(await eventually { output.data.count == 3 })
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        #expect(await eventually { !meter.isConnected })
        #expect(way == .controlSocket || output.data.count == 6)
        let started = meter.events.filter { if case .started = $0 { true } else { false } }.count
        #expect(meter.events.filter { if case .stopped = $0 { true } else { false } }.count == started)
        meter.release()
        #expect(try await bench.lines(Self.read).count == 24, "the rest comes, and only the rest")
        try await bench.stop()
    }

    @Test("a terminal that goes away ends the transfer in good order", .timeLimit(.minutes(2)))
    func outputGoes() async throws {
        struct Gone: Error {}
        let meter = try await Self.paired(records: 1...30)
        let bench = try await GatewayBench(.inProcess, [meter])
        let output = Collected(onData: { line in
            if line.object["sequence"] as? Int == 6 { throw Gone() }
        })
        await #expect(throws: Gone.self) { try await bench.run(Self.read, output: output) }
        #expect(!meter.isConnected && meter.events.last == .disconnected)
        #expect(meter.events.contains(.stopped(0x2A18)))
        #expect(try await bench.lines(Self.read).count >= 20)
    }

    @Test("a link that is cut is 75 and says how much came; what came is kept", arguments: GatewayBench.Way.allCases)
    func cut(_ way: GatewayBench.Way) async throws {
        let meter = try await Self.paired(records: 1...30)
        meter.hold(after: 10)
        let bench = try await GatewayBench(way, [meter])
        let output = Collected()
        let reading = Task { try await bench.problem(Self.read, output: output) }
        #expect(await eventually { output.data.count == 6 })
        meter.cut()
        let problem = try await reading.value
        #expect(problem.code == "transfer_interrupted" && problem.status == .tryAgain)
        #expect(problem.message.contains("9 records"))
        meter.release()
        #expect(try await bench.lines(Self.read).count == 21)
        try await bench.stop()
    }

    @Test("a record and its context are told once, whole", arguments: [false, true])
    func contexts(_ comeFirst: Bool) async throws {
        let meter = try await Self.paired(records: 1...9)
        meter.sendContexts(first: comeFirst)
        let bench = try await GatewayBench(.inProcess, [meter])
        let readings = try await bench.lines(Self.read)
        #expect(readings.map { $0.object["sequence"] as? Int } == Array(1...9))
        #expect(readings.allSatisfy { $0.contains(#""meal":"fasting""#) })
    }

    @Test("for people: a line each, with its value")
    func text() async throws {
        let bench = try await GatewayBench(.inProcess, [try await Self.paired(records: 1...1)])
        let output = Collected()
        try await bench.run(Self.read, json: false, output: output)
        #expect(output.data.count == 1 && output.data[0].contains("glucose 81 mg/dL"))
    }
}
