import EmulatedRadio
import Foundation
import GATTClient
import HealthReadings
import TestSupport
import Testing

/// `devices report` as a person and a script give it, through the control socket of a gateway.
@Suite(.timeLimit(.minutes(5))) struct DevicesReportTests {
    private static let address = DeviceCommandTests.address

    /// A gateway with a meter that is paired and was read.
    private static func gateway(_ more: EmulatedMeter...) async throws -> (HostedGateway, EmulatedMeter) {
        let meter = DeviceCommandTests.meter()
        let gateway = try await HostedGateway([meter] + more)
        let paired = try await gateway.run("pair", address, "--passkey", "012345")
        #expect(paired.status == 0, "\(paired.errors)")
        return (gateway, meter)
    }

    @Test("a report has the structure of what was read, nothing of its owner, and can be replayed")
    func report() async throws {
        let (gateway, meter) = try await Self.gateway()
        meter.measure(6...9)
        let file = gateway.scratch.url.appendingPathComponent("report.json")
        let made = try await gateway.run(
            "devices", "report", Self.address, "--yes", "--all-records", "--output", file.path, "--json")
        #expect(made.status == 0 && made.lines.count == 1, "\(made.errors)")
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let text = try String(contentsOf: file, encoding: .utf8)
        let report = try Document(text)
        #expect(report["model"]?.plain == "accuchek_guide" && report["paired"]?.text == "true")
        #expect(report["advertisement"]?["name"]?.plain == "meter+00000000")
        #expect(!text.contains(Self.address) && !text.contains("00001808"))
        for sequence in UInt16(1)...9 { #expect(!text.contains(EmulatedMeter.record(sequence).hexadecimal())) }
        // The owner has seen what is in it.
        #expect(made.errors.contains("model            accuchek_guide"), "\(made.errors)")

        let documents = gateway.scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        try Data(made.output.utf8).write(to: documents.appendingPathComponent("devices_report-0.json"))
        try Data(text.utf8).write(to: documents.appendingPathComponent("device_report-0.json"))
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")

        let stored = try await Document(gateway.run("query", "--json").output).elements("readings")
        let replayed = try await Tool.run(["replay", file.path, "--dry-run", "--json", "--time-zone", "UTC"])
        #expect(replayed.status == 0, "\(replayed.errors)")
        func shape(_ reading: Document) -> String {
            ["kind", "sequence", "sample_type", "sample_location", "status", "excluded"].map { reading[$0]?.text ?? "" }
                .joined(separator: " ")
        }
        #expect(stored.count == 9)
        // The gateway asked for the last record first, to know it again: that record comes twice, and is the same.
        var known: Set<String> = []
        let readings = try replayed.lines.map { try Document($0) }.filter {
            known.insert($0["id"]?.plain ?? "").inserted
        }
        let (shapes, storedShapes) = (readings.map(shape).sorted(), stored.map(shape).sorted())
        #expect(shapes == storedShapes)
        // What is made up becomes no reading.
        let state = gateway.scratch.url.appendingPathComponent("other").path
        for command in [["replay", file.path], ["run", "--replay", file.path]] {
            let refused = try await Tool.run(command + ["--json", "--state-dir", state])
            #expect(refused.status == 64 && refused.errors.contains("report_not_stored"), "\(refused.errors)")
        }
        try await gateway.stop()
    }

    @Test("at a terminal the owner sees the report and is asked; anything but yes writes nothing")
    func asked() async throws {
        for (answer, status) in [("y\n", Int32(0)), ("\n", 64)] {
            let (gateway, _) = try await Self.gateway()
            let file = gateway.scratch.url.appendingPathComponent("report.json")
            let session = try TerminalSession(
                [
                    "devices", "report", Self.address, "--all-records", "--output", file.path, "--state-dir",
                    gateway.scratch.state,
                ], in: gateway.scratch.url)
            #expect(await session.expect("Write it? [y/N]"), "\(session.errorText)")
            #expect(!FileManager.default.fileExists(atPath: file.path))
            #expect(session.errorText.contains("2a18") && !session.errorText.contains("00001808"))
            session.type(answer)
            #expect(await session.finish() == status, "\(session.errorText)")
            #expect(FileManager.default.fileExists(atPath: file.path) == (status == 0))
            try await gateway.stop()
        }
    }

    @Test("what cannot be reported or written says so, and touches no file")
    func refused() async throws {
        let (gateway, meter) = try await Self.gateway()
        let file = gateway.scratch.url.appendingPathComponent("report.json")
        func report(_ address: String, _ more: String...) async throws -> Tool.Result {
            try await Tool.run(
                ["devices", "report", address, "--output", file.path, "--json", "--state-dir", gateway.scratch.state]
                    + more)
        }
        let unconfirmed = try await report(Self.address)
        #expect(unconfirmed.status == 64 && unconfirmed.errors.contains("not_confirmed"), "\(unconfirmed.errors)")
        #expect(try await report("nonsense", "--yes").status == 64)
        let stranger = try await report("C0:00:00:00:99:99", "--yes")
        #expect(stranger.status == 78 && stranger.errors.contains("not_paired"), "\(stranger.errors)")
        meter.sleep()
        let away = try await report(Self.address, "--yes", "--wait", "0.3")
        #expect(away.status == 75 && away.errors.contains("device_not_seen"), "\(away.errors)")
        #expect(!FileManager.default.fileExists(atPath: file.path))
        try Data("mine".utf8).write(to: file)
        let existing = try await report(Self.address, "--yes")
        #expect(existing.status == 73 && existing.errors.contains("report_exists"), "\(existing.errors)")
        #expect(try String(contentsOf: file, encoding: .utf8) == "mine")
        try await gateway.stop()
    }

    @Test("a damaged report is replayed no further: 65, with the place")
    func damaged() async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("report.json")
        try Data(#"{"report":"healthrelay.device_report","version":1}"#.utf8).write(to: file)
        let result = try await Tool.run(["replay", file.path, "--dry-run", "--json"])
        #expect(result.status == 65 && result.errors.contains("device_report_malformed"), "\(result.errors)")
    }
}
