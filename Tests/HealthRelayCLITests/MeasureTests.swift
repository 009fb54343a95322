import EmulatedRadio
import Foundation
import GATTClient
import TestSupport
import Testing

/// `measure` as a person and a script give it, through the control socket of a gateway.
@Suite(.timeLimit(.minutes(5))) struct MeasureTests {
    private static let address = "C0:00:00:00:18:51"
    private static let start: [UInt8] = [0xF1, 0x01]
    private static let stop: [UInt8] = [0xF1, 0x02]
    private static let pressures = [20, 90, 150, 170, 130, 90, 60].map { [0, UInt8($0), 0, 0, 0, 0, 0] }
    private static let result: [UInt8] = [0x14, 121, 0, 79, 0, 93, 0, 64, 0, 0, 0]
    private static let failure: [UInt8] = [0x14, 0xFF, 0x07, 2, 0, 0, 0, 0, 0, 2, 0]

    /// A bonded cuff.
    private static func cuff(_ values: [[UInt8]] = pressures + [result]) -> EmulatedMeter {
        let cuff = EmulatedMeter(address, name: "QardioARM 2", records: nil, services: [0x1810], serial: "Q1")
        cuff.measureWhenTold(values, every: .milliseconds(800))
        cuff.bondAlready()
        return cuff
    }

    @Test("measure starts the cuff once, shows its pressure, and prints one document: the stored reading")
    func measure() async throws {
        let cuff = Self.cuff()
        let gateway = try await HostedGateway([cuff])
        let measured = try await gateway.run("measure", Self.address, "--yes", "--json")
        #expect(measured.status == 0 && measured.lines.count == 1, "\(measured.errors)")
        #expect(cuff.written == [Self.start] && !cuff.isConnected)
        let reading = try Document(measured.lines[0])
        #expect(reading["kind"]?.plain == "blood_pressure" && reading["time_basis"]?.plain == "reception")
        #expect(reading["excluded"]?.text == "null" && reading["blood_pressure"]?["systolic"]?["value"]?.text == "121")
        #expect(measured.errors.contains(#""pressure":{"device":"QardioARM 2","value":20,"unit":"mmHg"}"#))
        let document = gateway.scratch.url.appendingPathComponent("measured.json")
        try Data(measured.output.utf8).write(to: document)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["measure", document.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
        // Stored as any reading, and alone: no pressure of the cuff is one.
        let stored = try await Document(gateway.run("query", "--json").output).elements("readings")
        #expect(stored.count == 1 && stored.first?["id"]?.text == reading["id"]?.text)
        try await gateway.stop()
    }

    @Test("without a terminal or --yes nothing inflates: 64; what cannot be measured says so")
    func refused() async throws {
        let cuff = Self.cuff()
        let gateway = try await HostedGateway([cuff, DeviceCommandTests.meter()])
        let unconfirmed = try await gateway.run("measure", Self.address, "--json")
        #expect(unconfirmed.status == 64 && unconfirmed.errors.contains("not_confirmed"), "\(unconfirmed.errors)")
        #expect(try await gateway.run("measure", "nonsense", "--yes").status == 64)
        let tooLong = try await gateway.run("measure", Self.address, "--yes", "--wait", "1h")
        #expect(tooLong.status == 64, "\(tooLong.errors)")
        let stranger = try await gateway.run("measure", "C0:00:00:00:99:99", "--yes", "--json")
        #expect(stranger.status == 78 && stranger.errors.contains("not_paired"), "\(stranger.errors)")
        #expect(try await gateway.run("pair", DeviceCommandTests.address, "--passkey", "012345").status == 0)
        let meter = try await gateway.run("measure", DeviceCommandTests.address, "--yes", "--json")
        #expect(meter.status == 69 && meter.errors.contains("cannot_measure"), "\(meter.errors)")
        #expect(cuff.written.isEmpty)
        try await gateway.stop()
    }

    @Test("at a terminal it says what will happen and asks; anything but yes is no")
    func asked() async throws {
        for (answer, status) in [("y\n", Int32(0)), ("\n", 64)] {
            let cuff = Self.cuff()
            let gateway = try await HostedGateway([cuff])
            let session = try TerminalSession(
                ["measure", Self.address, "--state-dir", gateway.scratch.state], in: gateway.scratch.url)
            #expect(await session.expect("Inflate the cuff? [y/N]"))
            #expect(cuff.written.isEmpty && session.errorText.contains("will inflate around your arm"))
            session.type(answer)
            #expect(await session.finish() == status, "\(session.errorText)")
            #expect(cuff.written == (status == 0 ? [Self.start] : []))
            #expect(session.outputText.contains("blood pressure 121/79 mmHg, pulse 64") == (status == 0))
            try await gateway.stop()
        }
    }

    @Test(
        "a client that is stopped, or that disappears, lets the air out of the cuff",
        arguments: [SIGINT, SIGTERM, SIGKILL])
    func stopped(_ signal: Int32) async throws {
        let cuff = Self.cuff(Self.pressures)
        let gateway = try await HostedGateway([cuff])
        let measuring = try gateway.start("measure", Self.address, "--yes", "--json")
        #expect(await measuring.wait { $0.errorText.contains(#""pressure":"#) })
        measuring.kill(signal)
        let result = await measuring.finish()
        #expect(
            signal == SIGKILL || result.status == 75 && result.errors.contains("let the air out"), "\(result.errors)")
        #expect(await eventually { cuff.written == [Self.start, Self.stop] && !cuff.isConnected })
        #expect(result.lines.isEmpty)
        try await gateway.stop()
    }

    @Test("a gateway that stops lets the air out of the cuff")
    func gatewayStops() async throws {
        let cuff = Self.cuff(Self.pressures)
        let gateway = try await HostedGateway([cuff])
        let measuring = try gateway.start("measure", Self.address, "--yes", "--json")
        #expect(await measuring.wait { $0.errorText.contains(#""pressure":"#) })
        try await gateway.stop()
        #expect(cuff.written == [Self.start, Self.stop])
        #expect(await measuring.finish().status == 75)
    }

    @Test("a failure at the cuff is 75 with its name, and nothing is started again")
    func failure() async throws {
        let cuff = Self.cuff(Self.pressures.prefix(2) + [Self.failure])
        let gateway = try await HostedGateway([cuff])
        let failed = try await gateway.run("measure", Self.address, "--yes", "--json")
        #expect(failed.status == 75 && failed.errors.contains("qardio_cuff_too_loose"), "\(failed.errors)")
        #expect(failed.lines.isEmpty && cuff.written == [Self.start, Self.stop])
        #expect(try await Document(gateway.run("query", "--json").output).elements("readings").isEmpty)
        try await gateway.stop()
    }

    @Test("no other command starts a cuff, nor does a gateway that runs: read says what to do instead")
    func nothingElse() async throws {
        let cuff = Self.cuff()
        let gateway = try await HostedGateway([cuff])
        for arguments in [
            ["scan", "--for", "0.5"], ["pair", Self.address], ["devices"], ["devices", "probe", Self.address],
            ["devices", "set-clock", Self.address], ["query"], ["doctor"], ["sync"],
        ] {
            _ = try await Tool.run(arguments + ["--json", "--state-dir", gateway.scratch.state])
        }
        for arguments in [["read"], ["read", Self.address], ["read", Self.address, "--all-records"]] {
            let read = try await Tool.run(arguments + ["--json", "--state-dir", gateway.scratch.state])
            #expect(
                read.status == 69 && read.errors.contains("nothing_to_read")
                    && read.errors.contains("healthrelay measure"),
                "\(read.errors)")
        }
        for stream in [["watch"], ["monitor"]] {
            let running = try Tool.Running(
                stream + ["--json", "--state-dir", gateway.scratch.state], environment: [:], in: gateway.scratch.url)
            try await Task.sleep(for: .milliseconds(500))
            cuff.sleep()
            cuff.wake()
            try await Task.sleep(for: .milliseconds(500))
            running.kill(SIGTERM)
            _ = await running.finish()
        }
        _ = try await gateway.run("unpair", Self.address)
        #expect(cuff.written.isEmpty && !cuff.events.contains(.started(0x2A35)))
        try await gateway.stop()
    }
}
