import Foundation
import Testing

/// `import`, as a person or a script runs it.
@Suite("Readings out of other programs' files", .timeLimit(.minutes(10))) struct ImportCommandTests {
    static let person = [
        "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
        "HEALTHRELAY_SYNC_BACKFILL_DAYS": "90",
    ]

    private static func record(
        _ type: String, _ value: String, _ unit: String, at time: String = "2026-11-20 07:30:00 +0100"
    ) -> String {
        #" <Record type="HKQuantityTypeIdentifier\#(type)" sourceName="Omron Connect" unit="\#(unit)" startDate="\#(time)" endDate="\#(time)" value="\#(value)"/>"#
    }

    private static func export(_ records: [String]) -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE HealthData [\n<!ELEMENT HealthData ANY>\n]>\n<HealthData>\n"
            + records.joined(separator: "\n") + "\n</HealthData>\n"
    }

    /// An export with a reading of each kind, one of which nobody can have, and a record that can be none.
    private static let usual: String = {
        let pressures = [
            record("BloodPressureSystolic", "128", "mmHg"), record("BloodPressureDiastolic", "82", "mmHg"),
        ]
        let time = "startDate=\"2026-11-20 07:30:00 +0100\" endDate=\"2026-11-20 07:30:00 +0100\""
        return export(
            pressures + [
                record("BloodGlucose", "5.60", "mmol&lt;180.1558800000541&gt;/L"),
                record("HeartRate", "72", "count/min"),
                record("OxygenSaturation", "0.97", "%"), record("BodyTemperature", "36.8", "degC"),
                record("BodyMass", "70.5", "kg"), record("BodyMass", "71.5", "kg", at: "2016-11-20 07:30:00 +0100"),
                record("BodyMass", "7000", "kg", at: "2026-11-20 07:31:00 +0100"), record("BodyMass", "70", "stone"),
                record("StepCount", "70", "count"),
                " <Correlation type=\"HKCorrelationTypeIdentifierBloodPressure\" sourceName=\"Omron Connect\" \(time)>",
            ] + pressures + [" </Correlation>"])
    }()

    private func write(_ text: String, _ name: String, _ scratch: Scratch) throws -> String {
        let file = scratch.url.appendingPathComponent(name)
        try text.write(to: file, atomically: true, encoding: .utf8)
        return file.path
    }

    private func run(_ arguments: [String], _ scratch: Scratch) async throws -> Tool.Result {
        try await Tool.run(arguments + ["--state-dir", scratch.state], environment: Self.person)
    }

    private func readings(_ scratch: Scratch) async throws -> [Document] {
        try await Document(run(["query", "--json", "--limit", "10000"], scratch).output).elements("readings")
    }

    private func check(_ schema: String, _ document: String, _ scratch: Scratch) async throws {
        let file = try write(document, "\(UUID().uuidString).json", scratch)
        let result = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", [schema, file])
        #expect(result.status == 0, "\(schema): \(result.output.suffix(600)) \(document.prefix(300))")
    }

    @Test(
        "names that are formulas or turn the text round come back from our own CSV, in either style",
        arguments: [["--csv-style", "comma"], ["--csv-style", "semicolon", "--bom"]])
    func hostileNames(_ style: [String]) async throws {
        let (here, there) = (try Scratch(), try Scratch())
        let names = ["=1+1", "\u{202E}gnip", "-1", "\u{FEFF}=1", "'@a", "plain; \u{200F}name"]
        let rows = names.enumerated().map { place, name in
            "\"\(name)\",S\(place),20-11-2026 07:3\(place),\(place % 2),\(place % 2 == 0 ? "101,": ",101"),,,,,,,,,,,,,"
        }
        let columns =
            "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mg/dL,Scan Glucose mg/dL,a,b,c,d,e,f,g,Notes,"
            + "Strip Glucose mg/dL,Ketone mmol/L,h,i,j"
        let file = try write((["Glucose Data", columns] + rows).joined(separator: "\n"), "Glucose.csv", here)
        let first = try await run(["import", file, "--json"], here)
        #expect(first.status == 0, "\(first.errors)")
        let query = ["query", "--format", "csv", "--limit", "10000"]
        let csv = try await run(query + style, here).output
        #expect(csv.contains("'=1+1") && csv.contains("\u{202E}gnip") && csv.contains("'-1") && csv.contains("scan"))
        #expect(csv.hasPrefix("\u{FEFF}") == style.contains("--bom"))
        let back = try await run(["import", try write(csv, "own.csv", there), "--json"], there)
        #expect(back.status == 0, "\(back.errors)")
        let stored = try Document(back.output).elements("files").compactMap { $0["stored"]?.plain }
        #expect(stored == ["\(names.count)"], "\(back.output)")
        #expect(try await run(query, there).output == run(query, here).output)
    }

    @Test("an export is stored as it was written, here and through the socket, and once", arguments: [false, true])
    func appleHealth(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        let file = try write(Self.usual, "export.xml", scratch)
        let gateway =
            throughSocket
            ? try Tool.Running(
                ["run", "--state-dir", scratch.state],
                environment: Self.person.merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 }, in: scratch.url)
            : nil
        if let gateway { #expect(await gateway.wait { $0.errorText.contains("Page at ") }) }
        var stored: [[Document]] = []
        for (new, old) in [("8", "0"), ("0", "8")] {
            let result = try await run(["import", file, "--json"], scratch)
            // One row was refused.
            #expect(result.status == 65, "\(result.errors)")
            #expect(result.errors.contains("import_rows_refused") && result.errors.contains("'stone'"))
            try await check("import", result.output, scratch)
            let report = try #require(try Document(result.output).elements("files").first)
            #expect(report["stored"]?.plain == new && report["present"]?.plain == old)
            #expect(report["joined"]?.plain == "2" && report["read"]?.plain == "12")
            #expect(report["not_taken"]?["HKQuantityTypeIdentifierStepCount"]?.plain == "1")
            #expect(report["refused"]?["count"]?.plain == "1")
            stored.append(try await readings(scratch))
        }
        #expect(stored[0] == stored[1])
        let kinds = stored[0].compactMap { $0["kind"]?.plain }.sorted()
        #expect(
            kinds == ["blood_pressure", "glucose", "heart_rate", "spo2", "temperature"]
                + Array(repeating: "weight", count: 3))
        let glucose = try #require(stored[0].first { $0["kind"]?.plain == "glucose" })
        #expect(glucose["glucose"]?["value"]?.plain == "5.60" && glucose["glucose"]?["unit"]?.plain == "mmol/L")
        #expect(
            glucose["imported"]?["source"]?.plain == "Omron Connect" && glucose["provider"]?.plain == "apple_health_kit"
        )
        #expect(
            glucose["time"]?.plain == "2026-11-20T06:30:00Z" && glucose["base_time"]?.plain == "2026-11-20T07:30:00")
        let weights = stored[0].filter { $0["kind"]?.plain == "weight" }
        #expect(weights.compactMap { $0["excluded"]?.plain }.sorted() == ["implausible", "null", "null"])
        let old = try #require(weights.first { $0["time"]?.plain.hasPrefix("2016") == true })
        #expect(old.elements("deliveries").compactMap { $0["reason"]?.plain } == ["older_than_backfill"])
        let query = try await run(["query", "--format", "ndjson"], scratch)
        for line in query.lines.prefix(3) { try await check("reading", line, scratch) }
        #expect(try await run(["store", "verify"], scratch).status == 0)
        gateway?.process.terminate()
        if let gateway { #expect(await gateway.finish().status == 0) }
    }

    @Test("a dry run says what would be stored, and stores nothing")
    func dryRun() async throws {
        let scratch = try Scratch()
        let file = try write(Self.usual, "export.xml", scratch)
        let result = try await run(["import", file, "--dry-run", "--json"], scratch)
        #expect(result.status == 65)
        let report = try #require(try Document(result.output).elements("files").first)
        #expect(report["stored"]?.plain == "8" && report["excluded"]?["implausible"]?.plain == "1")
        #expect(!FileManager.default.fileExists(atPath: scratch.state))
    }

    @Test("samples of somebody without a name are not stored: they would be another's once there is one")
    func unnamed() async throws {
        let scratch = try Scratch()
        let file = try write(Self.usual, "export.xml", scratch)
        let result = try await Tool.run(["import", file, "--state-dir", scratch.state])
        #expect(result.status == 78 && result.errors.contains("user create"))
    }

    @Test("kinds and times that are not wanted are left out")
    func leftOut() async throws {
        let scratch = try Scratch()
        let file = try write(Self.usual, "export.xml", scratch)
        let result = try await run(["import", file, "--types", "weight", "--from", "2026-11-20", "--json"], scratch)
        let report = try #require(try Document(result.output).elements("files").first)
        #expect(report["stored"]?.plain == "2" && report["left_out"]?.plain == "6")
        #expect(try await run(["import", file, "--types", "steps"], scratch).status == 64)
        #expect(try await run(["import", file, "--person", "nobody"], scratch).status == 66)
    }

    @Test("of a file that was cut what precedes the cut is stored, and the rest once the whole file is imported")
    func cut() async throws {
        let scratch = try Scratch()
        let weights = (0..<50).map {
            Self.record("BodyMass", "\(50 + $0)", "kg", at: "2026-11-20 07:30:\(10 + $0) +0100")
        }
        let export = Self.export(weights)
        let half = try write(String(export.prefix(export.count / 2)), "half.xml", scratch)
        let result = try await run(["import", half, "--json"], scratch)
        #expect(result.status == 65 && result.errors.contains("import_damaged"))
        let report = try #require(try Document(result.output).elements("files").first)
        #expect(report["damage"]?["found"]?.plain == "the end of the file")
        let first = try await readings(scratch)
        #expect((20..<30).contains(first.count))
        let whole = try write(export, "export.xml", scratch)
        let again = try await run(["import", half, whole], scratch)
        #expect(again.status == 65)
        #expect(try await readings(scratch).count == 50)
    }

    @Test("an import that is killed and run again ends with what one that was not has", arguments: [SIGKILL, SIGINT])
    func killed(_ signal: Int32) async throws {
        let (scratch, other) = (try Scratch(), try Scratch())
        let start = 1_795_000_000
        let weights = (0..<9000).map { number in
            let time = Date(timeIntervalSince1970: Double(start + number)).ISO8601Format().replacing("T", with: " ")
                .replacing("Z", with: " +0000")
            return Self.record("BodyMass", "\(50 + number % 40).\(number % 10)", "kg", at: time)
        }
        let file = try write(Self.export(weights), "export.xml", scratch)
        let running = try Tool.Running(
            ["import", file, "--json", "--state-dir", scratch.state], environment: Self.person, in: scratch.url)
        // It tells how far it has come only after something is stored.
        #expect(await running.wait { $0.errorText.contains("progress") || !$0.process.isRunning })
        running.kill(signal)
        let result = await running.finish()
        // A fast machine may be done before it is killed.
        #expect(result.signal == signal || [0, 75].contains(result.status))
        #expect(try await run(["import", file], scratch).status == 0)
        #expect(try await run(["store", "verify"], scratch).status == 0)
        #expect(try await run(["import", file], other).status == 0)
        let found = try await readings(scratch).map { $0["id"] }
        #expect(found.count == 9000)
        #expect(try await readings(other).map { $0["id"] } == found)
    }

    @Test("our own CSV changes nothing where it comes from, and keeps its ids elsewhere")
    func roundTrip() async throws {
        let (scratch, other) = (try Scratch(), try Scratch())
        let captures = ["two-meters", "glucose-first-delivery"].map { Tool.fixture("\($0).btsnoop") }
        #expect(try await run(["replay"] + captures, scratch).status == 0)
        #expect(try await run(["add", "weight", "70.5", "kg", "--at", "2026-11-20T07:32"], scratch).status == 0)
        let csv = try await run(["query", "--format", "csv", "--limit", "10000"], scratch).output
        let file = try write(csv, "readings.csv", scratch)
        let before = try await readings(scratch)
        let result = try await run(["import", file, "--json"], scratch)
        #expect(result.status == 0, "\(result.errors)")
        let report = try #require(try Document(result.output).elements("files").first)
        #expect(report["format"]?.plain == "csv" && report["stored"]?.plain == "0")
        #expect(try await readings(scratch) == before)
        #expect(try await run(["import", file], other).status == 0)
        let taken = before.filter { $0["excluded"]?.plain == "null" }
        let there = try await readings(other)
        #expect(Set(there.map { $0["id"]?.plain }) == Set(taken.map { $0["id"]?.plain }))
        #expect(there.allSatisfy { $0["imported"]?["utc_offset_minutes"]?.plain == "null" }, "no file told an offset")
        let again = try await run(["query", "--format", "csv", "--limit", "10000"], other).output
        let back = try await run(["import", try write(again, "back.csv", other), "--json"], scratch)
        #expect(back.status == 0, "\(back.errors)")
        #expect(try await readings(scratch) == before)
        #expect(try await run(["store", "verify"], other).status == 0)
        // A row whose value was changed is none of the reading that has its id.
        let changed = csv.replacing(",70.5,kg", with: ",71.5,kg")
        let refused = try await run(["import", try write(changed, "changed.csv", scratch)], scratch)
        #expect(refused.status == 65)
        #expect(try await readings(scratch) == before)
    }

    @Test("LibreView's file is by the person's zone, or the one that is named, and its dates have to be clear")
    func libreView() async throws {
        let scratch = try Scratch()
        let header = "Device,Serial Number,Device Timestamp,Record Type,Historic Glucose mg/dL,Scan Glucose mg/dL"
        let text = "Glucose Data\n\(header)\nFreeStyle LibreLink,A,05-11-2026 07:30,0,101,\n"
        let file = try write(text, "Glucose.csv", scratch)
        let unclear = try await run(["import", file], scratch)
        #expect(unclear.status == 65 && unclear.errors.contains("--date-order"))
        #expect(try await run(["import", file, "--date-order", "dmy"], scratch).status == 0)
        let reading = try #require(try await readings(scratch).first)
        #expect(reading["time"]?.plain == "2026-11-05T06:30:00Z" && reading["time_basis"]?.plain == "assumed_zone")
        #expect(reading["provider"]?.plain == "freestyle_libre_ble")
        #expect(reading["sample_type"]?.plain == "interstitial_fluid")
        // The wall-clock time is the same, and so is the reading.
        let zoned = ["import", file, "--date-order", "dmy", "--time-zone", "America/New_York"]
        #expect(try await run(zoned, scratch).status == 0)
        #expect(try await readings(scratch).count == 1)
        #expect(try await run(["import", file, "--date-order", "dmy", "--time-zone", "Nowhere"], scratch).status != 0)
    }

    @Test("what is no file of another program is refused, and opens nothing else")
    func others() async throws {
        let scratch = try Scratch()
        let secret = try write("secret", "secret", scratch)
        let external = "<!DOCTYPE HealthData [<!ENTITY a SYSTEM \"file://\(secret)\">]><HealthData>&a;</HealthData>"
        for (text, code) in [
            (external, "import_entities"), ("hello\n", "import_format_unknown"), ("", "import_format_unknown"),
            ("PK\u{3}\u{4}", "import_format_unknown"),
        ] {
            let result = try await run(["import", try write(text, "file", scratch), "--json"], scratch)
            #expect(result.status == 65 && result.errors.contains(code))
            #expect(!result.output.contains("secret\"") && !result.errors.contains("\"secret"))
        }
        let missing = try await run(["import", scratch.url.path + "/missing"], scratch)
        #expect(missing.status == 66 && missing.errors.contains("missing"))
        #expect(try await run(["import", scratch.url.path], scratch).status == 66)
    }

    @Test("promise 2: two gateways with the same meters and each other's CSV hold each reading once, in either order")
    func otherGateway() async throws {
        let captures = try FileManager.default.contentsOfDirectory(atPath: Tool.root.path + "/Fixtures")
            .filter { $0.hasSuffix(".btsnoop") && !$0.hasPrefix("glucose-bonded") }.sorted()
            .map { Tool.root.path + "/Fixtures/" + $0 }
        func replay(_ scratch: Scratch) async throws {
            let result = try await run(["replay"] + captures, scratch)
            #expect(result.status == 0 || result.status == 65, "\(result.errors.suffix(600))")
        }
        /// What has to be the same: all but what depends on when and how a reading came.
        func facts(_ scratch: Scratch) async throws -> [String] {
            try await readings(scratch).map { reading in
                [
                    "id", "kind", "device", "provider", "sequence", "base_time", "time_offset_minutes", "time",
                    "person",
                    "glucose", "blood_pressure", "pulse", "sample_type", "sample_location", "status", "excluded",
                ]
                .map { reading[$0]?.plain ?? "null" }.joined(separator: " ")
            }.sorted()
        }
        let (here, there) = (try Scratch(), try Scratch())
        try await replay(here)
        let expected = try await facts(here)
        #expect(expected.count > 50)
        let csv = try write(
            try await run(["query", "--format", "csv", "--limit", "10000"], here).output, "a.csv", here)

        let imported = try await run(["import", csv, "--json"], there)
        #expect(imported.status == 0, "\(imported.errors)")
        let report = try #require(try Document(imported.output).elements("files").first)
        let stored = try #require(Int(report["stored"]?.plain ?? ""))
        #expect(stored > 40)
        try await replay(there)
        #expect(try await facts(there) == expected)
        #expect(try await run(["store", "verify"], there).status == 0)
        for scratch in [here, there] {
            let again = try await run(["import", csv, "--json"], scratch)
            let report = try #require(try Document(again.output).elements("files").first)
            #expect(report["stored"]?.plain == "0" && report["present"]?.plain == "\(stored)", "\(again.errors)")
            #expect(try await facts(scratch) == expected)
        }
    }

    @Test("a row whose pulse or mean pressure was edited is refused, and so is an end that is neither true nor false")
    func editedCells() async throws {
        let (here, there) = (try Scratch(), try Scratch())
        #expect(try await run(["replay", Tool.fixture("cuff-three.btsnoop")], here).status == 0)
        let csv = try await run(["query", "--format", "csv"], here).output
        let header = try #require(csv.split(separator: "\n").first).split(separator: ",").map(String.init)
        func edited(_ column: String, _ text: String) throws -> String {
            let place = try #require(header.firstIndex(of: column))
            var lines = csv.split(separator: "\n").map(String.init)
            var cells = lines[1].split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            cells[place] = text
            lines[1] = cells.joined(separator: ",")
            return try write(lines.joined(separator: "\n") + "\n", "\(column).csv", here)
        }
        for (column, text, field) in [("pulse", "61", "id"), ("entered", "maybe", "entered"), ("meal", "x", "meal")] {
            let result = try await run(["import", try edited(column, text)], here)
            #expect(result.status == 65 && result.errors.contains(field), "\(column): \(result.errors)")
        }
        #expect(try await run(["import", try edited("pulse", "")], here).status == 0)
        #expect(try await run(["import", try edited("mean", "")], there).status == 0)
    }

    @Test("a sensor's estimate and a meal stay what they are in another gateway's CSV")
    func estimates() async throws {
        let (here, there) = (try Scratch(), try Scratch())
        #expect(
            try await run(
                ["add", "glucose", "5.6", "mmol/L", "--at", "2026-11-20T07:30:00Z", "--meal", "fasting", "--yes"], here
            ).status == 0)
        let output = try await run(["query", "--format", "csv", "--limit", "10000"], here).output
        let header = try #require(output.split(separator: "\n").first)
        let sensor = [
            "id": "9f1c0c8e9f1c0c8e9f1c0c8e9f1c0c8e", "kind": "glucose", "time": "2026-11-20T06:30:00Z",
            "time_basis": "corrected", "model": "freestyle_libre", "serial": "3MH0001", "provider": "freestyle_libre",
            "glucose_value": "104", "glucose_unit": "mg/dL", "sample_type": "interstitial_fluid",
            "calibration": "factory_estimate",
        ]
        let row = header.split(separator: ",").map { sensor[String($0)] ?? "" }.joined(separator: ",")
        #expect(try await run(["import", try write(output + row + "\n", "a.csv", here)], there).status == 0)
        let stored = try await readings(there)
        #expect(stored.count == 2 && stored.contains { $0["context"]?["meal"]?.plain == "fasting" })
        #expect(stored.contains { $0["calibration"]?.plain == "factory_estimate" })
        // Once more by the way of the other gateway.
        let again = try await run(["query", "--format", "csv", "--limit", "10000"], there).output
        #expect(again.contains("factory_estimate") && again.contains(",fasting,"))
        #expect(try await run(["import", try write(again, "b.csv", there)], there).status == 0)
    }

    @Test("a reading that is left out of figures stays so at another gateway, unless somebody decides otherwise there")
    func leftOutOfFigures() async throws {
        let (here, there) = (try Scratch(), try Scratch())
        #expect(try await run(["replay", Tool.fixture("cuff-three.btsnoop")], here).status == 0)
        let ids = try await readings(here).compactMap { $0["id"]?.plain }
        #expect(ids.count == 3)
        #expect(
            try await run(["figures", "leave-out", ids[0], "--reason", "slipped, twice"], here).status == 0)
        #expect(try await run(["figures", "leave-out", ids[1]], here).status == 0)
        let csv = try write(
            try await run(["query", "--format", "csv", "--limit", "10000"], here).output, "a.csv", here)
        func reasons(_ scratch: Scratch) async throws -> [String?] {
            let stored = try await readings(scratch)
            return ids.map { id in
                stored.first { $0["id"]?.plain == id }?["left_out"].map { $0["reason"]?.plain ?? "none" }
            }
        }
        func imported(_ file: String, _ scratch: Scratch) async throws -> String? {
            let result = try await run(["import", file, "--json"], scratch)
            #expect(result.status == 0, "\(result.errors)")
            return try Document(result.output).elements("files").first?["left_out_of_figures"]?.plain
        }
        #expect(try await imported(csv, there) == "2")
        #expect(try await reasons(there) == ["slipped, twice", "null", nil])
        // Once more changes nothing, neither there nor here.
        #expect(try await imported(csv, there) == "0")
        #expect(try await imported(csv, here) == "0")
        // What is decided there stands.
        #expect(try await run(["figures", "include", ids[0]], there).status == 0)
        #expect(try await imported(csv, there) == "0")
        #expect(try await reasons(there) == [nil, "null", nil])
        #expect(try await run(["store", "verify"], there).status == 0)
        #expect(try await reasons(here) == ["slipped, twice", "null", nil])
    }

    @Test("promise 1: a memory's equal records are all stored where something was imported before")
    func equalRecords() async throws {
        let (plain, mixed) = (try Scratch(), try Scratch())
        let capture = Tool.fixture("microlife-memory.btsnoop")
        #expect(try await run(["replay", capture], plain).status == 0)
        let file = try write(Self.export([Self.record("BodyMass", "70.5", "kg")]), "export.xml", mixed)
        #expect(try await run(["import", file], mixed).status == 0)
        for _ in 0..<2 {
            #expect(try await run(["replay", capture], mixed).status == 0)
            #expect(try await readings(mixed).count == readings(plain).count + 1)
        }
    }
}
