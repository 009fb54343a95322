import EmulatedRadio
import Foundation
import GATTClient
import HealthReadings
import TestSupport
import Testing

/// The commands for meters as a person and a script give them, through the control socket of a gateway.
@Suite(.timeLimit(.minutes(5))) struct DeviceCommandTests {
    static let address = "C0:00:00:00:18:08"
    static func meter(_ pairing: EmulatedMeter.Pairing = .passkey(12_345)) -> EmulatedMeter {
        EmulatedMeter(address, name: "meter+00001808", pairing: pairing)
    }

    @Test("scan prints a line for each meter and ends at its time with 0")
    func scan() async throws {
        let gateway = try await HostedGateway([Self.meter()])
        // As long as it takes on a busy machine.
        var found = try await gateway.run("scan", "--for", "1s", "--json")
        if found.lines.isEmpty { found = try await gateway.run("scan", "--for", "0.5m", "--json") }
        #expect(found.status == 0 && found.lines.count == 1, "\(found.errors)")
        #expect(try Document(found.lines[0])["model"]?.plain == "accuchek_guide")
        let none = try await gateway.run("scan", "--for", "0.2", "--brand", "Contour", "--json")
        #expect(none.status == 0 && none.lines.isEmpty && none.errors.isEmpty)
        let wrong = try await gateway.run("scan", "--brand", "Nobody", "--json")
        #expect(wrong.status == 64 && wrong.errors.contains("unknown_brand"))
        try await gateway.stop()
    }

    @Test(
        "SIGINT and SIGTERM end a stream with 0, and with it what the gateway does for it",
        arguments: [SIGINT, SIGTERM])
    func signals(_ signal: Int32) async throws {
        let gateway = try await HostedGateway([Self.meter()])
        let scan = try gateway.start("scan", "--json")
        #expect(await scan.wait { !$0.outputText.isEmpty && gateway.radio.discoveries > 0 })
        scan.kill(signal)
        let result = await scan.finish()
        #expect(result.status == 0 && result.signal == nil && result.errors.isEmpty, "\(result.errors)")
        #expect(await eventually { gateway.radio.discoveries == 0 })
        try await gateway.stop()
    }

    @Test("a reader that goes away (head) ends the scan quietly")
    func pipe() async throws {
        let gateway = try await HostedGateway([Self.meter(), EmulatedMeter("C0:00:00:00:18:0B", name: "Contour1")])
        let result = try await Tool.other(
            "sh",
            [
                "-c", #"'\#(Tool.executable.path)' scan --json --state-dir '\#(gateway.scratch.state)' | head -n 1"#,
            ])
        #expect(result.status == 0 && result.lines.count == 1 && result.errors.isEmpty, "\(result.errors)")
        #expect(await eventually { gateway.radio.discoveries == 0 })
        try await gateway.stop()
    }

    @Test("the passkey is asked for at the terminal, and once more where it is not six digits")
    func terminal() async throws {
        let meter = Self.meter()
        let gateway = try await HostedGateway([meter])
        let session = try TerminalSession(
            ["pair", Self.address, "--state-dir", gateway.scratch.state], in: gateway.scratch.url)
        #expect(await session.expect("Type the six digits that meter+00001808 shows: "))
        session.type("12345\n")
        #expect(await session.expect("Type the six digits", times: 2))
        session.type("012 345\n")
        #expect(await session.finish() == 0, "\(session.errorText)")
        #expect(meter.isBonded && session.outputText.contains("paired, and the bond holds"))
        try await gateway.stop()
    }

    @Test("digits are compared at the terminal; anything but yes is no")
    func comparison() async throws {
        for (answer, status) in [("y\n", Int32(0)), ("\n", 77)] {
            let meter = Self.meter(.comparison(7))
            let gateway = try await HostedGateway([meter])
            let session = try TerminalSession(
                ["pair", Self.address, "--json", "--state-dir", gateway.scratch.state], in: gateway.scratch.url)
            #expect(await session.expect("Does meter+00001808 show 000007? [y/N] "))
            session.type(answer)
            #expect(await session.finish() == status, "\(session.errorText)")
            #expect(meter.isBonded == (status == 0))
            try await gateway.stop()
        }
    }

    @Test("a person who leaves in the middle of the question cancels the pairing", arguments: [SIGINT, SIGKILL])
    func leaves(_ signal: Int32) async throws {
        let meter = Self.meter()
        let gateway = try await HostedGateway([meter])
        let session = try TerminalSession(
            ["pair", Self.address, "--state-dir", gateway.scratch.state], in: gateway.scratch.url)
        #expect(await session.expect("Type the six digits"))
        kill(session.process.processIdentifier, signal)
        let status = await session.finish()
        #expect(signal == SIGKILL || status == 75, "\(session.errorText)")
        // The meter is free for another, who is not kept waiting.
        let again = try await gateway.run("pair", Self.address, "--passkey", "012345", "--json")
        #expect(again.status == 0 && meter.isBonded, "\(again.errors)")
        try await gateway.stop()
    }

    @Test("a passkey of the command line or of a file, which may be written when the meter shows it")
    func passkeys() async throws {
        let meter = Self.meter()
        let gateway = try await HostedGateway([meter])
        let wrong = try await gateway.run("pair", Self.address, "--passkey", "999998", "--json")
        #expect(wrong.status == 77 && !wrong.errors.contains("999998"))
        #expect(try Document(wrong.errors.split(separator: "\n").last.map(String.init) ?? "")["error"] != nil)
        let file = gateway.scratch.url.appendingPathComponent("passkey")
        try Data().write(to: file)
        let pairing = try gateway.start("pair", Self.address, "--passkey-file", file.path, "--json")
        #expect(await pairing.wait { $0.errorText.contains("Pairing with") })
        try Data(" 012345\n".utf8).write(to: file)
        let result = await pairing.finish()
        #expect(result.status == 0, "\(result.errors)")
        #expect(
            result.lines == [#"{"address":"C0:00:00:00:18:08","model":"accuchek_guide","paired":true,"proven":true}"#])
        #expect(!result.errors.contains("12345"))
        try await gateway.stop()
    }

    @Test("a passkey that is none is 64, or 65 in a file, and is not repeated; a file that is not there 66")
    func badPasskeys() async throws {
        let gateway = try await HostedGateway([Self.meter()])
        for passkey in ["1234567", "12345", "12345x", ""] {
            let result = try await gateway.run("pair", Self.address, "--passkey", passkey, "--json")
            #expect(result.status == 64 && (passkey.isEmpty || !result.errors.contains(passkey)), "\(result.errors)")
        }
        #expect(try await gateway.run("pair", Self.address, "--passkey-file", "/nonexistent").status == 66)
        let file = gateway.scratch.url.appendingPathComponent("passkey")
        try Data("nearly 12345\n".utf8).write(to: file)
        let result = try await gateway.run("pair", Self.address, "--passkey-file", file.path)
        #expect(result.status == 65 && !result.errors.contains("12345"), "\(result.errors)")
        let both = try await gateway.run("pair", Self.address, "--passkey", "000000", "--passkey-file", file.path)
        #expect(both.status == 64)
        let nobody = try await gateway.run("pair", Self.address, "--json")
        #expect(nobody.status == 64 && nobody.errors.contains("passkey_needed"))
        try await gateway.stop()
    }

    @Test("read prints new readings, waits for a meter that is away, then 75; nothing paired is 66")
    func read() async throws {
        let meter = Self.meter()
        let gateway = try await HostedGateway([meter])
        let none = try await gateway.run("read", "--json")
        #expect(none.status == 66 && none.errors.contains("nothing_paired"))
        #expect(try await gateway.run("read", "nonsense").status == 64)
        #expect(try await gateway.run("pair", Self.address, "--passkey", "012345").status == 0)
        // `run` has read what was there; what is measured now comes with this, or has come before it.
        #expect(try await gateway.run("read", "--json").status == 0)
        meter.measure(6...8)
        let new = try await gateway.run("read", "--json")
        #expect(new.status == 0, "\(new.errors)")
        let listed = try await Document(gateway.run("devices", "--json").output).elements("devices")
        #expect(listed.first?["readings"]?.text == "8" && listed.first?["proven"]?.text == "true")
        meter.sleep()
        let away = try await gateway.run("read", Self.address, "--wait", "0.2", "--json")
        #expect(away.status == 75 && away.errors.contains("device_not_seen"))
        try await gateway.stop()
    }

    @Test("monitor and watch go on until they are stopped")
    func streams() async throws {
        let meter = Self.meter()
        let gateway = try await HostedGateway([meter])
        #expect(try await gateway.run("pair", Self.address, "--passkey", "012345").status == 0)
        let monitor = try gateway.start("monitor", "--json")
        let watch = try gateway.start("watch", "--types", "glucose", "--json")
        #expect(await monitor.wait { !$0.outputText.isEmpty })
        #expect(
            await watch.wait {
                meter.measureOther()
                _ = try? await gateway.run("read")
                return !$0.outputText.isEmpty
            })
        #expect(await monitor.wait { $0.outputText.contains(#""connected":true"#) })
        for stream in [monitor, watch] {
            stream.kill(SIGTERM)
            let result = await stream.finish()
            #expect(result.status == 0 && result.signal == nil, "\(result.errors)")
        }
        #expect(try await gateway.run("watch", "--types", "weather").status == 64)
        try await gateway.stop()
    }

    @Test("unpair says what it did, and 78 where there was nothing")
    func unpair() async throws {
        let gateway = try await HostedGateway([Self.meter()])
        #expect(try await gateway.run("pair", Self.address, "--passkey", "012345").status == 0)
        let result = try await gateway.run("unpair", Self.address, "--json")
        #expect(result.status == 0 && result.lines == [#"{"address":"C0:00:00:00:18:08","paired":false}"#])
        let again = try await gateway.run("unpair", Self.address, "--json")
        #expect(again.status == 78 && again.errors.contains("not_paired"))
        try await gateway.stop()
    }

    @Test("every document for meters is valid against its schema")
    func schemas() async throws {
        let meter = Self.meter()
        let gateway = try await HostedGateway([meter, EmulatedMeter("C0:00:00:00:00:99", name: nil, services: [])])
        let documents = gateway.scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        func record(_ schema: String, _ result: Tool.Result) throws {
            #expect(!result.lines.isEmpty, "\(schema): \(result.errors)")
            for (number, line) in result.lines.enumerated() {
                try Data(line.utf8).write(to: documents.appendingPathComponent("\(schema)-\(number).json"))
            }
        }
        try record("scan", try await gateway.run("scan", "--for", "5", "--all", "--json"))
        try record("pair", try await gateway.run("pair", Self.address, "--passkey", "012345", "--json"))
        meter.measure(6...7)
        _ = try await gateway.run("read", "--json")
        try record("devices", try await gateway.run("devices", "--json"))
        try record("devices_probe", try await gateway.run("devices", "probe", Self.address, "--json"))
        meter.giveClock(WallTime(secondsSinceEpoch: 1_780_000_000))
        try record(
            "devices_set_clock", try await gateway.run("devices", "set-clock", Self.address, "--json"))
        try record("doctor", try await gateway.run("doctor", "--json"))
        let monitor = try gateway.start("monitor", "--json")
        #expect(await monitor.wait { !$0.outputText.isEmpty })
        monitor.kill(SIGINT)
        try record("monitor", await monitor.finish())
        try record("unpair", try await gateway.run("unpair", Self.address, "--json"))
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0 && !check.output.contains(": 0 of 0"), "\(check.output.suffix(3000)) \(check.errors)")
        try await gateway.stop()
    }
}

/// The same commands where no gateway runs and no Bluetooth is there.
@Suite struct WithoutBluetoothTests {
    static let environment = [
        "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
    ]

    @Test(
        "a command that needs the radio is 69, with what to do",
        arguments: [
            ["scan"], ["pair", "C0:00:00:00:18:08"], ["unpair", "C0:00:00:00:18:08"], ["read"], ["monitor"],
        ])
    func unavailable(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let result = try await Tool.run(
            arguments + ["--json", "--state-dir", scratch.state], environment: Self.environment)
        #expect(result.status == 69 && result.errors.contains("no_system_bus"), "\(result.errors)")
        #expect(result.output.isEmpty)
    }

    @Test("devices lists what the store knows; doctor says what is missing and makes nothing")
    func rest() async throws {
        let scratch = try Scratch()
        let doctor = try await Tool.run(
            ["doctor", "--json", "--state-dir", scratch.state], environment: Self.environment)
        #expect(doctor.status == 78 && doctor.errors.contains("checks_failed"), "\(doctor.errors)")
        #expect(try Document(doctor.lines[0]).elements("checks").count == 9)
        #expect(!FileManager.default.fileExists(atPath: scratch.state))
        _ = try await Tool.run(
            ["replay", Tool.fixture("cuff-three.btsnoop"), "--state-dir", scratch.state], environment: Self.environment)
        let devices = try await Tool.run(
            ["devices", "--json", "--state-dir", scratch.state], environment: Self.environment)
        #expect(devices.status == 0)
        let device = try #require(try Document(devices.output).elements("devices").first)
        #expect(device["readings"]?.text == "3" && device["paired"]?.text == "false")
    }

    @Test("run says in one line that there is no radio, and goes on")
    func run() async throws {
        let scratch = try Scratch()
        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state],
            environment: Self.environment.merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 }, in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("Bluetooth: ") && $0.errorText.contains("Page at") })
        run.kill(SIGTERM)
        let result = await run.finish()
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.errors.components(separatedBy: "Bluetooth").count == 2, "\(result.errors)")
    }
}
