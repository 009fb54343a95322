import Foundation
import Testing

/// `add`, `correct` and `withdraw`, as a person or a script runs them.
@Suite("Readings that are entered by hand") struct EntryCommandTests {
    static let person = [
        "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
    ]

    private func run(_ arguments: [String], _ scratch: Scratch) async throws -> Tool.Result {
        try await Tool.run(arguments + ["--state-dir", scratch.state], environment: Self.person)
    }

    private func readings(_ scratch: Scratch) async throws -> [Document] {
        try await Document(run(["query", "--json"], scratch).output).elements("readings")
    }

    @Test("each kind is stored as it was typed, and the same entry twice is one reading", arguments: [false, true])
    func add(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        let gateway =
            throughSocket
            ? try Tool.Running(
                ["run", "--state-dir", scratch.state],
                environment: Self.person.merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 }, in: scratch.url)
            : nil
        if let gateway { #expect(await gateway.wait { $0.errorText.contains("Page at ") }) }
        let entries = [
            [
                "glucose", "5.60", "mmol/L", "--at", "2026-11-20T07:30", "--meal", "fasting", "--note",
                "before breakfast",
            ],
            ["blood_pressure", "128/82", "mmHg", "--pulse", "64", "--at", "2026-11-20T07:31"],
            ["weight", "70.5", "kg", "--at", "2026-11-20T07:32"],
            ["temperature", "36.8", "C", "--at", "2026-11-20T07:33"],
            ["spo2", "97", "%", "--at", "2026-11-20T07:34:05+01:00"],
        ]
        for outcome in ["added", "present"] {
            for entry in entries {
                let result = try await run(["add"] + entry + ["--json"], scratch)
                #expect(result.status == 0, "\(entry): \(result.errors)")
                #expect(try Document(result.output)["outcome"]?.plain == outcome)
                #expect(result.lines.count == 1)
            }
        }
        let stored = try await readings(scratch)
        #expect(stored.count == 5)
        let glucose = try #require(stored.first { $0["kind"]?.plain == "glucose" })
        #expect(glucose["glucose"]?["value"]?.plain == "5.60")
        #expect(
            glucose["entry"]?["note"]?.plain == "before breakfast" && glucose["entry"]?["corrects"]?.plain == "null")
        #expect(glucose["time"]?.plain == "2026-11-20T06:30:00Z" && glucose["provider"]?.plain == "manual")
        gateway?.process.terminate()
        if let gateway { #expect(await gateway.finish().status == 0) }
    }

    @Test("what cannot be a reading ends with 65, a command that is wrong with 64, and nobody's reading with 66")
    func refused() async throws {
        let scratch = try Scratch()
        for (arguments, status) in [
            (["glucose", "NaN", "mmol/L"], 65), (["glucose", "-5.6", "mmol/L", "--yes"], 65),
            (["glucose", "0", "mmol/L"], 65),
            (["glucose", "5.6", "kg"], 65), (["blood_pressure", "82/128", "mmHg", "--yes"], 65),
            (["weight", "70", "kg", "--at", "2199-01-01T00:00:00Z", "--yes"], 65), (["steps", "60", "count"], 64),
            (["glucose", "5.6"], 64), (["weight", "70", "kg", "--meal", "fasting"], 64),
            (["weight", "70", "kg", "--person", "nobody"], 66),
        ] as [([String], Int32)] {
            let result = try await run(["add"] + arguments, scratch)
            #expect(result.status == status, "\(arguments): \(result.errors)")
            #expect(result.output.isEmpty)
        }
        #expect(try await readings(scratch).isEmpty)
    }

    @Test("a note that begins like a negative number is kept as it was typed")
    func note() async throws {
        let scratch = try Scratch()
        let entry = ["add", "weight", "70.5", "kg", "--at", "2026-11-20T07:32", "--note", "-2 since Monday"]
        let result = try await run(entry, scratch)
        #expect(result.status == 0, "\(result.errors)")
        #expect(try await readings(scratch).first?["entry"]?["note"]?.plain == "-2 since Monday")
    }

    @Test("an unusual value is refused where nobody can confirm it, and stored with --yes")
    func unusual() async throws {
        let scratch = try Scratch()
        for (value, excluded) in [("5.6", nil), ("5600", "implausible")] as [(String, String?)] {
            let entry = ["add", "glucose", value, "mg/dL", "--at", "2026-11-20T07:\(value.count + 10)", "--json"]
            let refused = try await run(entry, scratch)
            #expect(refused.status == 65)
            #expect(refused.errors.contains("unusual_entry") && refused.errors.contains("expected 20 to 600 mg/dL"))
            let stored = try await run(entry + ["--yes"], scratch)
            #expect(stored.status == 0, "\(stored.errors)")
            #expect(stored.output.contains(excluded.map { "\"excluded\":\"\($0)\"" } ?? "\"excluded\":null"))
        }
        // Another value for the same time may be a slip of the finger.
        let second = ["add", "glucose", "101", "mg/dL", "--at", "2026-11-20T07:13"]
        #expect(try await run(second, scratch).status == 65)
        #expect(try await run(second + ["--yes"], scratch).status == 0)
        #expect(try await readings(scratch).count == 3)
    }

    @Test("an entry is corrected and withdrawn; what a device measured is not")
    func change() async throws {
        let scratch = try Scratch()
        let added = try await run(["add", "weight", "70.5", "kg", "--at", "2026-11-20T07:30", "--json"], scratch)
        let id = try #require(try Document(added.output)["reading"]?["id"]?.plain)
        let corrected = try await run(["correct", id, "71.5", "--note", "with shoes", "--json"], scratch)
        #expect(corrected.status == 0, "\(corrected.errors)")
        let document = try Document(corrected.output)
        #expect(document["outcome"]?.plain == "corrected")
        #expect(document["reading"]?["entry"]?["note"]?.plain == "with shoes")
        #expect(document["reading"]?["entry"]?["corrects"]?.plain == id)
        let next = try #require(document["reading"]?["id"]?.plain)
        // The corrected value goes on counting, so withdrawing the former entry changes nothing.
        let former = try await run(["withdraw", id], scratch)
        #expect(former.status == 0 && former.errors.contains("nothing has changed"), "\(former.errors)")
        for (entry, outcome) in [(id, "present"), (next, "withdrawn"), (next, "present")] {
            let withdrawn = try await run(["withdraw", entry, "--json"], scratch)
            let document = try Document(withdrawn.output)
            #expect(withdrawn.status == 0 && document["outcome"]?.plain == outcome, "\(withdrawn.output)")
            #expect(document["reading"]?["excluded"]?.plain == "withdrawn")
        }
        #expect(try await run(["correct", next, "72"], scratch).status == 65)
        let again = try await run(["add", "weight", "70.5", "kg", "--at", "2026-11-20T07:30", "--json"], scratch)
        #expect(try Document(again.output)["outcome"]?.plain == "added")
        #expect(try await run(["correct", id], scratch).status == 64)
        #expect(try await run(["withdraw", String(repeating: "0", count: 32)], scratch).status == 66)
        #expect(try await run(["withdraw", "x"], scratch).status == 64)
        #expect(try await run(["replay", Tool.fixture("cuff-three.btsnoop")], scratch).status == 0)
        let measured = try #require(
            try await readings(scratch).first { $0["entry"] == nil }?["id"]?.plain)
        for command in [["withdraw", measured], ["correct", measured, "120/80"]] {
            let refused = try await run(command + ["--json"], scratch)
            #expect(refused.status == 65 && refused.errors.contains("not_entered_by_hand"))
        }
        #expect(try await run(["store", "verify"], scratch).status == 0)
    }

    @Test("readings are left out of figures with a reason and taken back in; what is wrong ends with 64, 65 and 66")
    func figures() async throws {
        let scratch = try Scratch()
        #expect(try await run(["replay", Tool.fixture("cuff-three.btsnoop")], scratch).status == 0)
        let ids = try await readings(scratch).compactMap { $0["id"]?.plain }
        let left = try await run(
            ["figures", "leave-out", ids[0], ids[1], "--reason", "cuff slipped", "--json"], scratch)
        #expect(left.status == 0, "\(left.errors)")
        let file = scratch.url.appending(path: "figures.json")
        try left.output.write(to: file, atomically: true, encoding: .utf8)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["figures", file.path])
        #expect(check.status == 0, "\(check.output)\(check.errors)")
        #expect(try Document(left.output)["changed"]?.plain == "2")
        let shown = try await run(["query", "--format", "csv"], scratch)
        #expect(shown.lines[0].hasSuffix(",left_out,left_out_reason,sensor_source"))
        #expect(shown.lines.count { $0.hasSuffix(",true,cuff slipped,") } == 2)
        #expect(try await run(["query"], scratch).output.contains("[in no figure: cuff slipped]"))
        let report = try await run(["report", "bp", "--period", "3650d", "--format", "json"], scratch)
        #expect(report.output.contains("{\"reason\":\"by_person\",\"readings\":2}"), "\(report.output)")
        #expect(
            try await run(["figures", "include"] + ids, scratch).errors.contains("of \(ids.count) were as asked before")
        )
        #expect(try await !run(["query", "--json"], scratch).output.contains("left_out"))
        for (arguments, status) in [
            (["leave-out"], 64), (["leave-out", "x"], 64), (["include", String(repeating: "0", count: 32)], 66),
            (["leave-out", ids[0], "--reason", String(repeating: "a", count: 201)], 65),
        ] as [([String], Int32)] {
            #expect(try await run(["figures"] + arguments, scratch).status == status, "\(arguments)")
        }
        #expect(try await run(["store", "verify"], scratch).status == 0)
    }
}
