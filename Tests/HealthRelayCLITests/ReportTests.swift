import Foundation
import Testing

/// `report`, as a person or a script runs it.
@Suite("Reports", .timeLimit(.minutes(10))) struct ReportCommandTests {
    private static let person = [
        "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
    ]

    private static func run(
        _ arguments: [String], _ scratch: Scratch, zone: String = "UTC", environment: [String: String] = [:]
    ) async throws -> Tool.Result {
        try await Tool.run(
            arguments + ["--state-dir", scratch.state],
            environment: person.merging(["TZ": zone]) { $1 }.merging(environment) { $1 })
    }

    /// A store with the recorded meters in it.
    private static func replayed() async throws -> Scratch {
        let scratch = try Scratch()
        for capture in ["two-meters", "cuff-three", "glucose-oddities", "omron-memory"] {
            #expect(try await run(["replay", Tool.fixture(capture + ".btsnoop")], scratch).status == 0)
        }
        return scratch
    }

    private static func check(_ schema: String, _ document: String, _ scratch: Scratch) async throws {
        let file = scratch.url.appendingPathComponent("\(UUID().uuidString).json")
        try Data(document.utf8).write(to: file)
        let result = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", [schema, file.path])
        #expect(result.status == 0, "\(schema): \(result.output.suffix(600)) \(document.prefix(300))")
    }

    private static let period = ["--from", "2026-11-01", "--to", "2026-11-21"]

    @Test("every report in every form: the JSON by its schema, the same bytes whichever zone the host is in")
    func forms() async throws {
        let scratch = try await Self.replayed()
        for kind in ["bp", "glucose", "sensor", "weight"] {
            let json = try await Self.run(["report", kind, "--format", "json"] + Self.period, scratch)
            #expect(json.status == 0, "\(json.errors)")
            try await Self.check("report_\(kind)", json.output, scratch)
            let html = try await Self.run(["report", kind] + Self.period, scratch)
            #expect(html.status == 0 && html.output.hasPrefix("<!DOCTYPE html>"), "\(html.errors)")
            #expect(html.output.contains("Shows what meters measured; no advice."))
            let elsewhere = try await Self.run(["report", kind] + Self.period, scratch, zone: "Asia/Tokyo")
            func withoutClock(_ text: String) -> String { text.replacing(/\d\d:\d\d/, with: "") }
            #expect(withoutClock(elsewhere.output) == withoutClock(html.output))
            let csv = try await Self.run(["report", kind, "--format", "csv"] + Self.period, scratch)
            #expect(csv.status == 0 && csv.output.hasPrefix("id,time,local_date,"))
            let svg = try await Self.run(
                ["report", kind, "--format", "svg", "--paper", "letter"] + Self.period, scratch)
            #expect(svg.status == 0 && svg.output.contains("Page 1 of "))
        }
        let empty = try await Self.run(["report", "weight"] + Self.period, scratch)
        #expect(empty.errors.contains("nothing was measured from 2026-11-01 to 2026-11-21"))
        #expect(empty.output.contains("No weight was measured in this period."))
    }

    @Test("a report through the socket of a running gateway is the one that is made here")
    func throughSocket() async throws {
        let scratch = try await Self.replayed()
        let arguments = ["report", "bp", "--format", "csv"] + Self.period
        let here = try await Self.run(arguments, scratch)
        let gateway = try Tool.Running(
            ["run", "--state-dir", scratch.state],
            environment: Self.person.merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 }, in: scratch.url)
        #expect(await gateway.wait { $0.errorText.contains("Page at ") })
        let there = try await Self.run(arguments, scratch)
        #expect(there.status == 0 && there.output == here.output && here.output.utf8.count > 500, "\(there.errors)")
        gateway.kill(SIGTERM)
        _ = await gateway.finish()
    }

    @Test("a PDF has pages with text, by its own program; a file is whole or not there")
    func pdf() async throws {
        let scratch = try await Self.replayed()
        let file = scratch.url.appendingPathComponent("report.pdf").path
        let arguments = ["report", "bp", "--format", "pdf", "--out", file] + Self.period
        let result = try await Self.run(arguments, scratch)
        #expect(result.status == 0 && result.output.isEmpty, "\(result.errors)")
        let octets = try Data(contentsOf: URL(fileURLWithPath: file))
        #expect(octets.starts(with: Data("%PDF-".utf8)) && octets.suffix(8).contains(Data("%%EOF".utf8)))
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        // A second one takes its place.
        #expect(try await Self.run(arguments, scratch).status == 0)
        #expect(!FileManager.default.fileExists(atPath: file + ".part"))
        let nowhere = try await Self.run(
            ["report", "bp", "--format", "pdf", "--out", scratch.url.path + "/none/report.pdf"] + Self.period, scratch)
        #expect(nowhere.status == 73 && nowhere.errors.contains("cannot create"))
    }

    @Test("--out writes into devices and pipes, follows links, and replaces nothing that is no file")
    func places() async throws {
        let scratch = try await Self.replayed()
        let folder = scratch.url.path
        func write(_ path: String) async throws -> Tool.Result {
            try await Self.run(["report", "bp", "--format", "csv", "--out", path] + Self.period, scratch)
        }
        func kind(_ path: String) throws -> FileAttributeType? {
            try FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
        }
        #expect(try await write(folder + "/plain.csv").status == 0)
        let expected = try Data(contentsOf: URL(fileURLWithPath: folder + "/plain.csv"))
        #expect(!expected.isEmpty)
        // Copies of the machine's devices: what would replace one harms nothing here.
        for device in ["/dev/null", "/dev/full"] {
            let link = folder + "/" + device.dropFirst(5)
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: device)
            let result = try await write(link)
            #expect(device == "/dev/full" ? result.status == 74 : result.status == 0, "\(device): \(result.errors)")
            #expect(try kind(link) == .typeSymbolicLink && kind(device) == .typeCharacterSpecial)
        }
        let pipe = folder + "/pipe"
        #expect(mkfifo(pipe, 0o600) == 0)
        async let read = Tool.other("cat", [pipe])
        #expect(try await write(pipe).status == 0)
        let received = try await read
        #expect(Data(received.output.utf8) == expected)
        #expect(access(pipe, F_OK) == 0 && !FileManager.default.fileExists(atPath: pipe + ".part"))
        // Links lead to what is written, there or not yet.
        try FileManager.default.createDirectory(atPath: folder + "/there", withIntermediateDirectories: true)
        for (link, target) in [("a.csv", "there/a.csv"), ("b.csv", folder + "/there/b.csv")] {
            if link == "a.csv" { try Data("old".utf8).write(to: URL(fileURLWithPath: folder + "/there/a.csv")) }
            try FileManager.default.createSymbolicLink(atPath: folder + "/" + link, withDestinationPath: target)
            #expect(try await write(folder + "/" + link).status == 0)
            #expect(try kind(folder + "/" + link) == .typeSymbolicLink)
            #expect(try Data(contentsOf: URL(fileURLWithPath: folder + "/there/" + link)) == expected)
        }
        try FileManager.default.createSymbolicLink(atPath: folder + "/loop", withDestinationPath: "loop")
        for path in ["/loop", "/there"] {
            let refused = try await write(folder + path)
            #expect(refused.status == 73 && refused.errors.contains("cannot create"), "\(path): \(refused.errors)")
        }
    }

    @Test("what can't be meant is refused with what was expected")
    func refused() async throws {
        let scratch = try Scratch()
        let cases: [([String], Int32, String)] = [
            (["bp", "--person", "nobody"], 66, "knows no user nobody"),
            (["bp", "--from", "2026-02-30"], 64, "expected a date"),
            (["bp", "--from", "2026-11-21", "--to", "2026-11-20"], 64, "is later than --to"),
            (["bp", "--period", "2w"], 64, "days from 1d"),
            (["bp", "--period", "7d", "--from", "2026-11-20"], 64, "exclude each other"),
            (["bp", "--to", "9000-01-01"], 64, "is in the future"),
            (["bp", "--from", "1990-01-01", "--to", "2026-11-20"], 64, "at most 3660 days"),
            (["bp", "--line", "85/135"], 64, "such as 135/85"),
            (["bp", "--line", "80-150"], 64, "such as 135/85"),
            (["glucose", "--line", "135/85"], 64, "such as 80-150"),
            (["sensor", "--line", "9-4"], 64, "such as 80-150"),
            (["weight", "--line", "72.5"], 64, "such as '72.5 kg'"), (["weight", "--line", "80-150"], 64, "72.5 kg"),
            (["bp", "--unit", "bar"], 64, "mmHg or kPa"),
            (["glucose", "--ranges", "180-70"], 64, "standard"),
            (["bp", "--format", "docx"], 64, "docx"),
        ]
        for (arguments, status, words) in cases {
            let result = try await Self.run(["report"] + arguments, scratch)
            #expect(result.status == status && result.errors.contains(words), "\(arguments): \(result.errors)")
            #expect(result.output.isEmpty)
        }
    }

    @Test("LibreView's table is read again with the same values and times")
    func libreView() async throws {
        let scratch = try await Self.replayed()
        let table = try await Self.run(["query", "--format", "libreview", "--limit", "10000"], scratch)
        #expect(table.status == 0 && table.lines.first?.hasPrefix("Glucose Data,Generated on,") == true)
        #expect(table.lines.dropFirst().first?.split(separator: ",", omittingEmptySubsequences: false).count == 19)
        #expect(table.errors.contains("libreview: readings left out: "))
        let file = scratch.url.appendingPathComponent("table.csv")
        try Data(table.output.utf8).write(to: file)
        let other = try Scratch()
        let imported = try await Self.run(["import", file.path, "--date-order", "dmy"], other)
        #expect(imported.status == 0, "\(imported.errors)")
        let again = try await Self.run(["query", "--format", "libreview", "--limit", "10000"], other)
        func values(_ lines: [String]) -> [String] {
            // A device's name may have commas.
            lines.dropFirst(2).compactMap {
                $0.firstMatch(of: /[0-9]{2}-[0-9]{2}-[0-9]{4} .*/).map { String($0.output) }
            }
        }
        #expect(values(again.lines).sorted() == values(table.lines).sorted() && table.lines.count > 4)
    }

    @Test("a person's settings say unit, ranges, line and paper; the command line overrides them")
    func settings() async throws {
        let scratch = try await Self.replayed()
        let file = scratch.url.appendingPathComponent("config.yaml")
        try """
        user: {client_user_id: white_bear, time_zone: Europe/Berlin}
        users:
          - client_user_id: white_bear
            reports: {language: de, glucose_unit: mmol/L, glucose_ranges: 4.4-8.3, pressure_line: 130/80, glucose_line: 4.5-8.0, weight_line: 72.5 kg, paper: letter, morning: "05:00-11:00"}
        """.write(to: file, atomically: true, encoding: .utf8)
        let config = ["--config", file.path]
        let glucose = try await Self.run(["report", "glucose", "--json"] + Self.period + config, scratch)
        #expect(glucose.output.contains(#""unit":"mmol/L","ranges":{"preset":null"#), "\(glucose.errors)")
        #expect(glucose.output.contains(#""mmol/L":{"very_low":null,"lowest":4.4,"highest":8.3,"very_high":null}"#))
        let pressure = try await Self.run(["report", "bp", "--json"] + Self.period + config, scratch)
        #expect(pressure.output.contains(#""line":{"systolic":130,"diastolic":80,"#))
        let lined = try await Self.run(["report", "glucose", "--json"] + Self.period + config, scratch)
        #expect(lined.output.contains(#""line":{"low":4.5,"high":8.0,"unit":"mmol/L"}"#), "\(lined.errors)")
        let weight = try await Self.run(["report", "weight", "--json"] + Self.period + config, scratch)
        #expect(weight.output.contains(#""line":{"weight":72.5,"unit":"kg"}"#), "\(weight.errors)")
        let page = try await Self.run(["report", "bp", "--line", "135/85"] + Self.period + config, scratch)
        #expect(page.output.contains("size:letter") && page.output.contains("135/85 mmHg"))
        #expect(page.output.contains("<html lang=\"de\"") && page.output.contains("Morgen: 05:00 bis 11:00"))
        let english = try await Self.run(["report", "bp", "--language", "en"] + Self.period + config, scratch)
        #expect(english.output.contains("Morning: 05:00 to 11:00"))
        let shown = try await Self.run(["config", "show", "--json"] + config, scratch)
        try await Self.check("config_show", shown.output, scratch)
        #expect(shown.output.contains(#""glucose_ranges":"4.4-8.3""#))
    }
}
