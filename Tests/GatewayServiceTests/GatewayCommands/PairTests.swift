import EmulatedRadio
import GATTClient
import LogLines
import ReadingStore
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// `pair` and `unpair`: what a device asks reaches the person, wherever their terminal is.
@Suite struct PairTests {
    static let address = "C0:00:00:00:18:08"
    static let operation = GatewayCommands.Operation.device(.pair(PairOperation(address: address, seconds: 60)))
    static func meter(_ pairing: EmulatedMeter.Pairing = .passkey(12_345)) -> EmulatedMeter {
        EmulatedMeter(address, name: "meter+00001808", pairing: pairing)
    }

    static func typing(_ digits: UInt32) -> Collected {
        Collected { _ in .passkey(try #require(Passkey(digits))) }
    }

    @Test("promise 8: paired means bonded, proven means a bonded reconnect", arguments: GatewayBench.Way.allCases)
    func passkey(_ way: GatewayBench.Way) async throws {
        let meter = Self.meter()
        let bench = try await GatewayBench(way, [meter])
        let output = Self.typing(12_345)
        let result = try await bench.lines(Self.operation, output: output)
        #expect(
            result == [
                #"{"address":"C0:00:00:00:18:08","model":"accuchek_guide","paired":true,"proven":true}"#
            ])
        #expect(output.questions == [.passkey(device: "meter+00001808")])
        #expect(meter.isBonded && meter.events.filter { $0 == .connected }.count == 2 && !meter.isConnected)
        #expect(!meter.events.contains(.started(0x2A18)), "the proof starts no transfer")
        try await bench.stop()
    }

    @Test("a wrong passkey is refused, and that is 77", arguments: GatewayBench.Way.allCases)
    func wrong(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, [Self.meter()])
        let problem = try await bench.problem(Self.operation, output: Self.typing(999_999))
        #expect(problem.code == "wrong_passkey" && problem.status == .notPermitted && problem.hint != nil)
        let devices = try await bench.lines(.device(.list))
        #expect(devices == [#"{"devices":[]}"#])
        try await bench.stop()
    }

    @Test("without a terminal and without a passkey: 64, and how to pass it", arguments: GatewayBench.Way.allCases)
    func noTerminal(_ way: GatewayBench.Way) async throws {
        let meter = Self.meter()
        let bench = try await GatewayBench(way, [meter])
        let problem = try await bench.problem(Self.operation)
        #expect(problem.code == "passkey_needed" && problem.status == .usage)
        #expect(problem.hint?.contains("--passkey-file") == true)
        #expect(!meter.isBonded)
        try await bench.stop()
    }

    @Test("digits are compared by the person, who may say no", arguments: GatewayBench.Way.allCases)
    func comparison(_ way: GatewayBench.Way) async throws {
        for isSame in [true, false] {
            let meter = Self.meter(.comparison(7))
            let bench = try await GatewayBench(way, [meter])
            let output = Collected { question in
                guard case .comparison(let digits, _) = question else { throw question.unanswered }
                return .confirmation(isSame && digits.digits == "000007")
            }
            if isSame {
                #expect(try await bench.lines(Self.operation, output: output).count == 1)
            } else {
                let problem = try await bench.problem(Self.operation, output: output)
                #expect(problem.code == "pairing_rejected" && problem.status == .notPermitted)
            }
            #expect(meter.isBonded == isSame)
            try await bench.stop()
        }
    }

    @Test("digits to be typed at the device are shown")
    func display() async throws {
        let bench = try await GatewayBench(.controlSocket, [Self.meter(.display(42))])
        let output = Collected()
        #expect(try await bench.lines(Self.operation, output: output).count == 1)
        #expect(output.notes.contains("Type 000042 at meter+00001808."))
        try await bench.stop()
    }

    @Test("a device that cannot ask is paired because it was named; not one that is known to show digits")
    func justWorks() async throws {
        let plain = EmulatedMeter("C0:00:00:00:18:0A", name: "TestGlucose")
        let posing = Self.meter(.justWorks)
        let bench = try await GatewayBench(.inProcess, [plain, posing])
        let operation = GatewayCommands.Operation.device(
            .pair(PairOperation(address: "C0:00:00:00:18:0A", seconds: 60)))
        #expect(try await bench.lines(operation).first?.contains(#""proven":true"#) == true)
        let problem = try await bench.problem(Self.operation)
        #expect(problem.code == "confirmation_needed" && problem.status == .usage && !posing.isBonded)
        let output = Collected { _ in .confirmation(true) }
        #expect(try await bench.lines(Self.operation, output: output).count == 1 && posing.isBonded)
    }

    @Test(
        "a meter that sleeps after bonding is paired, unproven, with what to press; its next contact proves it",
        arguments: GatewayBench.Way.allCases)
    func asleep(_ way: GatewayBench.Way) async throws {
        let meter = Self.meter()
        meter.sleepAfterBonding()
        let bench = try await GatewayBench(way, [meter])
        let output = Self.typing(12_345)
        let operation = GatewayCommands.Operation.device(.pair(PairOperation(address: Self.address, seconds: 0.3)))
        let result = try await bench.lines(operation, output: output)
        #expect(result.first?.contains(#""paired":true,"proven":false"#) == true)
        #expect(output.notes.contains { $0.contains("button") })
        meter.wake()
        try await bench.run(.device(.read(ReadOperation(seconds: 60))))
        let devices = try await bench.lines(.device(.list))
        #expect(devices.first?.contains(#""paired":true,"proven":true"#) == true)
        try await bench.stop()
    }

    @Test(
        "each way a pairing fails has its own code and status",
        arguments: [
            (PairingFailure.rejectedByDevice, Problem.ExitStatus.notPermitted), (.timedOut, .tryAgain),
            (.disconnected, .tryAgain), (.forgottenHere, .notPermitted),
        ])
    func failures(_ failure: PairingFailure, _ status: Problem.ExitStatus) async throws {
        let bench = try await GatewayBench(.inProcess, [Self.meter(.fails(failure))])
        let problem = try await bench.problem(Self.operation)
        #expect(problem.code == failure.code && problem.status == status)
    }

    @Test("a device that is not there is waited for, then 75")
    func away() async throws {
        let bench = try await GatewayBench(.inProcess)
        let problem = try await bench.problem(
            .device(.pair(PairOperation(address: Self.address, seconds: 0.1))))
        #expect(problem.code == "device_not_seen" && problem.status == .tryAgain)
    }

    @Test(
        "a bond the meter has forgotten is named, and repaired on request without losing history",
        arguments: GatewayBench.Way.allCases)
    func repair(_ way: GatewayBench.Way) async throws {
        let meter = Self.meter()
        let bench = try await GatewayBench(way, [meter])
        try await bench.run(Self.operation, output: Self.typing(12_345))
        #expect(try await bench.lines(.device(.read(ReadOperation(seconds: 60)))).count == 5)
        meter.forgetBond()
        let problem = try await bench.problem(Self.operation)
        #expect(problem.code == "bond_lost_by_device" && problem.status == .notPermitted)
        #expect(problem.hint?.contains("--repair") == true)
        let repair = GatewayCommands.Operation.device(
            .pair(PairOperation(address: Self.address, seconds: 60, repair: true)))
        #expect(try await bench.lines(repair, output: Self.typing(12_345)).first?.contains(#""proven":true"#) == true)
        meter.measure(6...6)
        #expect(try await bench.lines(.device(.read(ReadOperation(seconds: 60)))).count == 1)
        try await bench.stop()
    }

    @Test("a person who leaves in the middle of the question cancels the pairing", .timeLimit(.minutes(2)))
    func leaves() async throws {
        let meter = Self.meter()
        let bench = try await GatewayBench(.controlSocket, [meter])
        let output = Collected { _ in
            try await Task.sleep(for: .seconds(600))
            return .confirmation(false)
        }
        let pairing = Task { try await bench.run(Self.operation, output: output) }
        #expect(await eventually { output.questions.count == 1 })
        pairing.cancel()
        await #expect(throws: CancellationError.self) { try await pairing.value }
        // The device is free again: another pairing is not kept waiting.
        #expect(try await bench.lines(Self.operation, output: Self.typing(12_345)).count == 1)
        try await bench.stop()
    }

    @Test("a question whose pairing has ended is withdrawn", arguments: GatewayBench.Way.allCases)
    func withdrawn(_ way: GatewayBench.Way) async throws {
        let meter = Self.meter()
        let bench = try await GatewayBench(way, [meter])
        let output = Collected { _ in
            meter.endPairing(.timedOut)
            try await Task.sleep(for: .seconds(600))
            return .confirmation(false)
        }
        let problem = try await bench.problem(Self.operation, output: output)
        #expect(problem.code == "pairing_timed_out" && problem.status == .tryAgain)
        #expect(await eventually { output.withdrawn == 1 })
        try await bench.stop()
    }

    @Test("promise 12: no passkey is in a log, a note or an error", arguments: GatewayBench.Way.allCases)
    func secret(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, [Self.meter(.passkey(918_273))])
        let wrong = Self.typing(918_274)
        let problem = try await bench.problem(Self.operation, output: wrong)
        let right = Self.typing(918_273)
        try await bench.run(Self.operation, output: right)
        try await bench.stop()
        let everything = [wrong.text, right.text, bench.log.text, "\(problem)"].joined()
        #expect(!everything.contains("91827"))
        #expect(!bench.log.text.contains(Self.address) && !bench.log.text.contains("00001808"))
        let passkey = try #require(Passkey(918_273))
        var dumped = ""
        dump(Answer.passkey(passkey), to: &dumped)
        #expect(!(dumped + "\(passkey) \(Answer.passkey(passkey))" + String(reflecting: passkey)).contains("918273"))
    }

    @Test("unpair removes the bond and keeps the readings; one that is not there is 78")
    func unpair() async throws {
        let meter = Self.meter()
        let bench = try await GatewayBench(.controlSocket, [meter])
        try await bench.run(Self.operation, output: Self.typing(12_345))
        try await bench.run(.device(.read(ReadOperation(seconds: 60))))
        let result = try await bench.lines(.device(.unpair(address: Self.address)))
        #expect(result == [#"{"address":"C0:00:00:00:18:08","paired":false}"#] && !meter.isBonded)
        let devices = try await bench.lines(.device(.list))
        #expect(devices.first?.contains(#""paired":false,"proven":false"#) == true)
        #expect(devices.first?.contains(#""readings":5"#) == true)
        let problem = try await bench.problem(.device(.unpair(address: Self.address)))
        #expect(problem.code == "not_paired" && problem.status == .configuration)
        try await bench.stop()
    }

    @Test("an address that is none is 64", arguments: ["", "C0:00", "nonsense", "C0:00:00:00:18:0G"])
    func address(_ text: String) async throws {
        let bench = try await GatewayBench()
        #expect(try await bench.problem(.device(.pair(PairOperation(address: text)))).status == .usage)
    }

    @Test(
        "a passkey is six digits, however they are grouped",
        arguments: [
            ("000000", UInt32?(0)), ("999999", 999_999), (" 012 345\n", 12_345), ("012-345", 12_345), ("12345", nil),
            ("1234567", nil), ("12345x", nil), ("", nil), ("١٢٣٤٥٦", nil), ("+12345", nil),
        ])
    func passkeys(_ text: String, _ number: UInt32?) {
        #expect(Passkey(text)?.number == number)
    }
}
