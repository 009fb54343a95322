import EmulatedRadio
import Foundation
import GATTClient
import TestSupport
import Testing

/// `record` and `heart-rate` as a person and a script give them, through the control socket of a gateway.
@Suite(.timeLimit(.minutes(5))) struct RecordTests {
    private static let address = "C0:00:00:00:18:0D"

    private static func strap() -> EmulatedMeter {
        let strap = EmulatedMeter(
            address, name: "Strap", records: nil, needsBond: false, services: [0x180D], serial: "S")
        strap.beat([[0x16, 72, 0, 4], [0x06, 73], [0x04, 0]])
        strap.hold(after: 3)
        return strap
    }

    private func check(_ schema: String, _ lines: [String], _ gateway: HostedGateway) async throws {
        #expect(!lines.isEmpty, "\(schema)")
        let document = gateway.scratch.url.appendingPathComponent("\(schema).lines")
        try Data(lines.joined(separator: "\n").utf8).write(to: document)
        let check = try await Tool.other(
            Tool.root.path + "/Tests/Schemas/check", ["--lines", schema, document.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
    }

    @Test("record keeps what came, also for whoever looks meanwhile; heart-rate computes from it")
    func record() async throws {
        let strap = Self.strap()
        let gateway = try await HostedGateway([strap])
        let watch = try gateway.start("watch", "--types", "heart_rate", "--json")
        let recorded = try await gateway.run("record", Self.address, "--for", "2s", "--json")
        #expect(recorded.status == 0 && recorded.lines.count == 1, "\(recorded.output) \(recorded.errors)")
        try await check("reading", recorded.lines, gateway)
        let reading = try Document(recorded.lines[0])
        #expect(reading["kind"]?.plain == "heart_rate" && reading["excluded"]?.text == "null")
        #expect(reading["heart_rate"]?["value"]?.text == "72.5", "\(recorded.lines[0])")
        #expect(reading.elements("series").map { $0["bpm"]?.text } == ["72", "73", "null"])
        #expect(strap.events.contains(.stopped(0x2A37)) && !strap.isConnected)
        #expect(await watch.wait { $0.outputText.contains(#""value":72.5"#) })
        watch.kill(SIGINT)
        #expect(await watch.finish().status == 0)
        let figures = try await gateway.run("heart-rate", "--interval", "1h", "--json")
        try await check("heart_rate", figures.lines, gateway)
        let rates = try Document(figures.output).elements("devices").first?.elements("rates")
        #expect(rates?.compactMap { $0["samples"]?.text }.reduce(0) { $0 + (Int($1) ?? 0) } == 2)
        #expect(try await gateway.run("heart-rate").output.contains(" bpm  ("))
        let stored = try await Document(gateway.run("query", "--types", "heart_rate", "--json").output).elements(
            "readings")
        #expect(stored.map(\.text) == [reading.text])
        #expect(try await gateway.run("store", "verify").status == 0)
        try await gateway.stop()
    }

    @Test("--interval prints means in place of what is stored")
    func interval() async throws {
        let strap = Self.strap()
        let gateway = try await HostedGateway([strap])
        let recorded = try await gateway.run("record", Self.address, "--for", "2s", "--interval", "1h", "--json")
        #expect(recorded.status == 0, "\(recorded.errors)")
        try await check("record_interval", recorded.lines, gateway)
        #expect(recorded.output.contains(#""interval_seconds":3600,"bpm":72.5,"samples":2"#), "\(recorded.output)")
        try await gateway.stop()
    }

    @Test("SIGTERM ends a recording with 0, and what had come is stored")
    func stopping() async throws {
        let strap = Self.strap()
        let gateway = try await HostedGateway([strap])
        let recording = try gateway.start("record", Self.address, "--json")
        #expect(await eventually { strap.events.contains(.started(0x2A37)) })
        try await Task.sleep(for: .milliseconds(500))
        recording.kill(SIGTERM)
        let ended = await recording.finish()
        #expect(ended.status == 0 && ended.signal == nil, "\(ended.errors)")
        #expect(await eventually { !strap.isConnected })
        let stored = try await gateway.run("query", "--types", "heart_rate", "--json")
        #expect(try Document(stored.output).elements("readings").count == 1, "\(stored.output)")
        try await gateway.stop()
    }

    @Test(
        "without consent nothing is recorded: 77, and the strap is not connected; a wrong address or person is 64 or 66"
    )
    func refused() async throws {
        let strap = Self.strap()
        let gateway = try await HostedGateway([strap])
        #expect(try await gateway.run("consent", "revoke", "heart_rate", "hrv", "spo2").status == 0)
        let refused = try await gateway.run("record", Self.address, "--for", "1s", "--json")
        #expect(refused.status == 77 && refused.errors.contains("no_consent"), "\(refused.errors)")
        #expect(!strap.events.contains(.connected))
        #expect(try await gateway.run("record", "nonsense").status == 64)
        #expect(try await gateway.run("record", Self.address, "--person", "nobody").status == 66)
        #expect(try await gateway.run("record", Self.address, "--hrv-window", "1s").status == 64)
        #expect(try await gateway.run("heart-rate", "--from", "2020-01-01", "--to", "2026-01-01").status == 64)
        #expect(try await gateway.run("heart-rate", "--person", "nobody").status == 66)
        let empty = try await gateway.run("heart-rate", "--json")
        try await check("heart_rate", empty.lines, gateway)
        try await gateway.stop()
    }
}
