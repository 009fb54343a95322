import EmulatedRadio
import Foundation
import GATTClient
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// `scan`: what is near, told when it is new or has changed.
@Suite struct ScanTests {
    static let guide = "C0:00:00:00:18:08"
    static func meters() -> [EmulatedMeter] {
        [
            EmulatedMeter(guide, name: "meter+00001808"),
            EmulatedMeter("C0:00:00:00:18:0B", name: "Contour7800H1234"),
            EmulatedMeter("C0:00:00:00:00:99", name: "Somebody's headphones", services: []),
        ]
    }

    @Test("health devices are told once, and the scan ends at its time", arguments: GatewayBench.Way.allCases)
    func finds(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, Self.meters())
        // As long as it takes on a busy machine: what is told is told once, and the end comes by itself.
        var found: [[String: any Sendable]] = []
        for seconds in [0.5, 5, 50] where found.count < 2 {
            found = try await bench.lines(.device(.scan(ScanOperation(seconds: seconds)))).map(\.object)
        }
        #expect(found.count == 2)
        let guide = try #require(found.first { $0["address"] as? String == Self.guide })
        #expect(guide["model"] as? String == "accuchek_guide" && guide["kinds"] as? [String] == ["glucose"])
        #expect(guide["address_type"] as? String == "random" && guide["paired"] as? Bool == false)
        #expect(guide["name"] as? String == "meter+00001808" && guide["rssi"] as? Int == -60)
        #expect(await eventually { bench.radio.discoveries == 0 })
        try await bench.stop()
    }

    @Test("a brand or a model leaves out the others; --all leaves out nothing", arguments: GatewayBench.Way.allCases)
    func filters(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, Self.meters())
        func models(_ scan: ScanOperation, count: Int) async throws -> Set<String> {
            let output = Collected()
            let scanning = Task { try await bench.run(.device(.scan(scan)), output: output) }
            #expect(await eventually { output.data.count == count })
            scanning.cancel()
            _ = await scanning.result
            return Set(output.data.map { $0.object["model"] as? String ?? "none" })
        }
        #expect(try await models(ScanOperation(brand: "contour"), count: 1) == ["contour_next"])
        #expect(try await models(ScanOperation(model: "accuchek_guide"), count: 1) == ["accuchek_guide"])
        #expect(try await models(ScanOperation(all: true), count: 3) == ["accuchek_guide", "contour_next", "none"])
        let problem = try await bench.problem(.device(.scan(ScanOperation(seconds: 0.2, brand: "Nobody"))))
        #expect(problem.code == "unknown_brand" && problem.status == .usage)
        try await bench.stop()
    }

    /// A monitor in its pairing mode; and one that says it is Omron's and nothing else that is known.
    static func monitors() -> [EmulatedMeter] {
        [
            EmulatedMeter(
                "C0:00:00:00:18:10", name: "BLESmart_0000021A28FF", services: [0x1810],
                manufacturerData: [0x020E: [0x01, 0x08, 0x05, 0x00, 0x05]]),
            EmulatedMeter(
                "C0:00:00:00:18:11", name: "X7 Smart", services: [],
                manufacturerData: [0x020E: [0x01, 0x00, 0x05, 0x00, 0x05]]),
        ]
    }

    @Test(
        "a device whose model no name tells says of which brand one has to be chosen, and whether it is to be paired",
        arguments: GatewayBench.Way.allCases)
    func choices(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, Self.meters() + Self.monitors())
        let output = Collected()
        let scan = Task { try await bench.run(.device(.scan(ScanOperation())), output: output) }
        #expect(await eventually { output.data.count == 4 })
        scan.cancel()
        _ = await scan.result
        let found = Dictionary(output.data.map(\.object).map { ($0["name"] as? String ?? "", $0) }) { $1 }
        let cuff = try #require(found["BLESmart_0000021A28FF"])
        #expect(cuff["choose_from"] as? String == "Omron" && cuff["pairing_mode"] as? Bool == true)
        let other = try #require(found["X7 Smart"])
        #expect(other["choose_from"] as? String == "Omron" && other["pairing_mode"] as? Bool == false)
        #expect(other["model"] is NSNull && other["kinds"] as? [String] == ["blood_pressure"])
        let guide = try #require(found["meter+00001808"])
        #expect(guide["choose_from"] is NSNull && guide["pairing_mode"] is NSNull)
        try await bench.stop()
    }

    @Test("people are told once that the label's number is to be named")
    func advice() async throws {
        let bench = try await GatewayBench(.inProcess, Self.monitors())
        let output = Collected()
        let scan = Task { try await bench.run(.device(.scan(ScanOperation())), json: false, output: output) }
        #expect(await eventually { output.data.count == 2 && !output.notes.isEmpty })
        scan.cancel()
        _ = await scan.result
        #expect(output.data.contains { $0.contains("in pairing mode") && $0.contains("pair it with --model") })
        #expect(output.notes.count == 1 && output.notes[0].contains("--model omron_hem"))
        try await bench.stop()
    }

    @Test("a scan that finds nothing is done", arguments: GatewayBench.Way.allCases)
    func nothing(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way)
        #expect(try await bench.lines(.device(.scan(ScanOperation(seconds: 0.1)))).isEmpty)
        try await bench.stop()
    }

    @Test("a device that changes is told again", arguments: GatewayBench.Way.allCases)
    func changes(_ way: GatewayBench.Way) async throws {
        let meters = Self.meters()
        let bench = try await GatewayBench(way, [meters[0]])
        let output = Collected()
        let scan = Task { try await bench.run(.device(.scan(ScanOperation())), output: output) }
        #expect(await eventually { output.data.count == 1 })
        bench.radio.add(meters[1])
        #expect(await eventually { output.data.count == 2 })
        _ = try await bench.radio.pair(meters[1].address, within: .seconds(1), agent: WillingAgent())
        #expect(await eventually { output.data.last?.object["paired"] as? Bool == true })
        scan.cancel()
        _ = await scan.result
        #expect(await eventually { bench.radio.discoveries == 0 })
        try await bench.stop()
    }

    @Test("a command that goes away ends its scan in the gateway")
    func clientGoes() async throws {
        let bench = try await GatewayBench(.controlSocket, Self.meters())
        let output = Collected()
        let scan = Task { try await bench.run(.device(.scan(ScanOperation())), output: output) }
        #expect(await eventually { bench.radio.discoveries == 1 && output.data.count == 2 })
        scan.cancel()
        await #expect(throws: CancellationError.self) { try await scan.value }
        #expect(await eventually { bench.radio.discoveries == 0 })
        try await bench.stop()
    }

    @Test("a gateway that stops ends a scan it does for a command", .timeLimit(.minutes(2)))
    func gatewayStops() async throws {
        let bench = try await GatewayBench(.controlSocket, Self.meters())
        let output = Collected()
        let scan = Task { try await bench.run(.device(.scan(ScanOperation())), output: output) }
        #expect(await eventually { output.data.count == 2 })
        try await bench.stop()
        _ = await scan.result
        #expect(bench.radio.discoveries == 0)
    }

    @Test(
        "a radio that cannot be used is named, with its status and what to do",
        arguments: [
            (RadioError.noBus("no socket"), Problem.ExitStatus.unavailable), (.notPermitted("policy"), .notPermitted),
            (.noService, .unavailable), (.noAdapter("hci7"), .unavailable), (.poweredOff("hci0"), .unavailable),
            (.blocked("hci0", hard: true), .unavailable), (.lost, .tryAgain),
        ])
    func unusable(_ error: RadioError, _ status: Problem.ExitStatus) async throws {
        let bench = try await GatewayBench(.inProcess, adapter: .unusable(error))
        let problem = try await bench.problem(.device(.scan(ScanOperation())))
        #expect(problem.code == error.code && problem.status == status && problem.hint != nil)
    }

    @Test("`bluetooth.adapter: none` leaves the radio alone")
    func leftAlone() async throws {
        let bench = try await GatewayBench(.inProcess, settings: ["bluetooth.adapter": "none"])
        let problem = try await bench.problem(.device(.scan(ScanOperation())))
        #expect(problem.code == "bluetooth_disabled" && problem.status == .configuration)
    }
}

/// Says yes to everything.
struct WillingAgent: PairingAgent {
    func passkey(shownBy device: Advertisement) async throws -> UInt32 { 0 }
    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
}
