import EmulatedRadio
import Foundation
import GATTClient
import GatewayCommands
import GatewayService
import GatewaySettings
import HealthReadings
import LogLines
import ReadingStore
import ServiceLifecycle
import TestSupport
import Testing

/// `run` with a radio: reads paired meters as they show up, and lets go of them when it is stopped.
@Suite(.timeLimit(.minutes(3))) struct RunnerTests {
    @Test("a paired meter is read when it shows up, and each reading's way is told")
    func shows() async throws {
        let meter = try await ReadTests.paired()
        meter.sleep()
        let bench = try await RunnerBench([meter])
        #expect(await eventually { bench.lines.contains { $0.contains("hci0 is ready") } })
        meter.wake()
        #expect(await eventually { bench.lines.contains { $0.hasPrefix("read") && $0.hasSuffix("5 new") } })
        #expect(bench.lines.filter { $0.hasPrefix("stored") }.count == 5)
        #expect(bench.lines.contains { $0.hasPrefix("near") && $0.contains("accuchek_guide") })
        try await bench.stop()
    }

    @Test("promise 12: what is told to a log holds no value, address, name or serial number")
    func secrets() async throws {
        let meter = try await ReadTests.paired()
        let forgetful = try await ReadTests.paired("C0:00:00:00:18:0C", name: "Contour9999")
        forgetful.forgetBond()
        let bench = try await RunnerBench([meter, forgetful], showsValues: false)
        #expect(await eventually { bench.lines.contains { $0.hasPrefix("read") } })
        #expect(await eventually { bench.lines.contains { $0.hasPrefix("not read") } })
        try await bench.stop()
        let everything = bench.lines.joined(separator: "\n") + bench.log.text
        for secret in ["C0:00", "00001808", "meter+", "mg/dL", "Contour9999", "18:0C"] {
            #expect(!everything.contains(secret), "\(secret) in \(everything)")
        }
        // Values are two digits, as a port's last may be.
        let words = everything.split { !$0.isLetter && !$0.isNumber }
        for value in ["81", "85"] { #expect(!words.contains { $0 == value }, "\(value) in \(everything)") }
    }

    @Test("without a radio it says so once and goes on; one that comes later is used")
    func noRadio() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await RunnerBench([meter], adapter: .unusable(.noAdapter(nil)))
        #expect(await eventually { !bench.lines.isEmpty })
        #expect(bench.lines.count == 1 && bench.lines[0].contains("there is no Bluetooth adapter"))
        #expect(try await bench.lines(.device(.list)) == [#"{"devices":[]}"#])
        bench.radio.setAdapter(.emulated)
        #expect(await eventually { bench.lines.contains { $0.hasPrefix("read") } })
        try await bench.stop()
    }

    @Test("`bluetooth.adapter: none` leaves the radio alone without a word")
    func leftAlone() async throws {
        let bench = try await RunnerBench(settings: ["bluetooth.adapter": "none"])
        #expect(try await bench.lines(.device(.list)).count == 1)
        try await bench.stop()
        #expect(bench.lines.isEmpty)
    }

    @Test("stopped in the middle of a transfer: what came is stored, notifications stop, the meter is let go")
    func stoppedInTransfer() async throws {
        let meter = try await ReadTests.paired(records: 1...30)
        meter.hold(after: 11)
        let bench = try await RunnerBench([meter])
        #expect(await eventually { bench.lines.filter { $0.hasPrefix("stored") }.count == 10 })
        try await bench.stop()
        #expect(!meter.isConnected && meter.events.last == .disconnected)
        #expect(meter.events.contains(.stopped(0x2A18)) && meter.events.contains(.stopped(0x2A52)))
        let later = try await GatewayBench(.inProcess, settings: ["bluetooth.adapter": "none"], in: bench.directory)
        #expect(try await later.lines(.device(.list))[0].contains(#""readings":10"#))
    }

    @Test("a meter that is paired while it runs is read at once, asked through the control socket")
    func pairs() async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+00001808", pairing: .passkey(3))
        let bench = try await RunnerBench([meter])
        let output = PairTests.typing(3)
        let result = try await bench.lines(PairTests.operation, output: output)
        #expect(result[0].contains(#""proven":true"#) && output.questions.count == 1)
        #expect(await eventually { bench.lines.contains { $0.hasPrefix("read") && $0.hasSuffix("5 new") } })
        #expect(try await bench.lines(ReadTests.read).isEmpty, "there is nothing new any more")
        try await bench.stop()
    }

    @Test("the page shows devices with their latest contact, from the store")
    func page() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await RunnerBench([meter])
        #expect(await eventually { bench.lines.contains { $0.hasPrefix("read") } })
        let url = try #require(URL(string: bench.pageAddress + "api/v1/devices"))
        let answer = try #require(try await Self.get(url))
        let devices = answer.object["devices"] as? [[String: any Sendable]] ?? []
        let device = try #require(devices.first)
        #expect(device["name"] as? String == "meter+00001808" && device["proven"] as? Bool == true)
        let contact = try #require(device["last_contact"] as? [String: any Sendable])
        #expect(contact["complete"] as? Bool == true && contact["error"] is NSNull)
        #expect(contact["received"] as? Int == 5 && contact["ended"] is String)
        try await bench.stop()
    }

    @Test("an open page and a watching command do not keep it from stopping")
    func stopsWithListeners() async throws {
        let bench = try await RunnerBench()
        let watch = Collected()
        let watching = Task { try await bench.lines(.device(.watch(types: [])), output: watch) }
        let url = try #require(URL(string: bench.pageAddress + "api/v1/events"))
        let page = Task { try await Self.get(url) }
        try await Task.sleep(for: .milliseconds(200))
        try await bench.stop()
        _ = await watching.result
        _ = await page.result
    }

    @Test("a gateway that is stopped before its store is open ends at once and in good order")
    func stoppedWhileOpening() async throws {
        // Somebody else has the store. Making one of an earlier version one of this version takes time in the same place.
        let owner = try await GatewayBench(.inProcess, settings: ["bluetooth.adapter": "none"])
        let state = StateDirectory(flag: owner.gateway.store.directory, environment: [:])
        let (begun, begins) = AsyncStream.makeStream(of: Void.self)
        let logger = owner.log.logger()
        let runner = GatewayRunner(
            settings: try Settings(
                environment: [:], flags: GatewayBench.zone, managed: ManagedSettings(stateDirectory: state.path)),
            state: state, showsValues: false, logger: logger,
            connection: {
                begins.yield()
                return nil
            }
        ) { _ in }
        let group = ServiceGroup(services: [runner], logger: logger)
        let running = Task { try await group.run() }
        for await _ in begun { break }
        await group.triggerGracefulShutdown()
        try await running.value
        try await owner.stop()
    }

    static func get(_ url: URL) async throws -> String? {
        try await Task.detached {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["curl", "-s", "-m", "60", url.absoluteString]
            let pipe = Pipe()
            process.standardOutput = pipe
            try process.run()
            while process.isRunning { try await Task.sleep(for: .milliseconds(10)) }
            return String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self)
        }.value
    }
}
