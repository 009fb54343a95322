import Foundation
import Testing

@testable import VitalSandbox

@Suite("Body summaries")
struct BodySummaryTests {
    private static func body(_ lists: [String: String] = [:], zones: String = #"[["2026-11-20","Europe/Berlin"]]"#)
        -> String
    {
        let names = [
            "body_mass", "body_fat_percentage", "body_mass_index", "waist_circumference", "lean_body_mass",
        ]
        let members = names.map { #""\#($0)":\#(lists[$0] ?? "[]")"# } + [#""time_zones":\#(zones)"#]
        return #"{"stage":"daily","provider":"manual","time_zone":"Europe/Berlin","is_final_chunk":true,"#
            + #""data":{\#(members.joined(separator: ","))}}"#
    }

    private static func item(_ value: String, _ unit: String, at: String = "2026-11-20T12:30:00Z") -> String {
        Bodies.quantity(value, unit, "scale", at: at)
    }

    private static let whole = [
        "body_mass": "[\(item("70.500", "kg"))]", "body_fat_percentage": "[\(item("22.5", "%"))]",
        "body_mass_index": "[\(item("23.0", "index"))]", "waist_circumference": "[\(item("82", "centimeter"))]",
        "lean_body_mass": "[\(item("54.638", "kg"))]",
    ]

    @Test("its samples are kept, counted and read back by their names; the same key replaces")
    func kept() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["manual"])
            for _ in 0..<2 {
                let posted = try await probe.send("POST", "/v2/summary/body/\(id)", Self.body(Self.whole))
                #expect(posted.status == 200, "\(posted.text)")
            }
            let samples = try await probe.samples()
            #expect(
                samples.compactMap { $0["resource"] as? String } == [
                    "body_mass", "body_fat_percentage", "body_mass_index", "waist_circumference", "lean_body_mass",
                ])
            #expect(samples.allSatisfy { $0["revisions"] as? Int == 0 && $0["type"] as? String == "scale" })
            let posts = try await probe.posts()
            #expect(posts.map { $0["resource"] as? String } == ["body", "body"])
            #expect(posts.map { $0["inserted"] as? Int } == [5, 0] && posts.map { $0["unchanged"] as? Int } == [0, 5])
            for (name, value, unit) in [
                ("body_weight", "70.500", "kg"), ("body_fat", "22.5", "%"), ("body_mass_index", "23.0", "index"),
                ("waist_circumference", "82", "centimeter"), ("lean_body_mass", "54.638", "kg"),
            ] {
                let back = try await probe.send("GET", "/v2/timeseries/\(id)/\(name)/grouped?start_date=2026-11-20")
                #expect(back.text.contains(#""value":\#(value),"unit":"\#(unit)","type":"scale""#), "\(back.text)")
            }
            let heavier = [
                "body_mass": "[\(Self.item("71", "kg")),\(Self.item("72", "kg", at: "2026-11-20T12:30:01Z"))]"
            ]
            #expect(try await probe.send("POST", "/v2/summary/body/\(id)", Self.body(heavier)).status == 200)
            #expect(try await probe.samples().compactMap { $0["revisions"] as? Int } == [1, 0, 0, 0, 0, 0])
            #expect(try await probe.send("GET", "/sandbox/summaries").text.contains("waist_circumference"))
        }
    }

    @Test("it survives a restart of the server")
    func durable() async throws {
        try await withFolder { folder in
            var configuration = SandboxConfiguration()
            configuration.storage = .directory(folder)
            try await withSandbox(configuration) { probe in
                let id = try await probe.user(sources: ["manual"])
                #expect(
                    try await probe.send("POST", "/v2/summary/body/\(id)", Self.body(Self.whole)).status == 200)
            }
            try await withSandbox(configuration) { probe in
                let samples = try await probe.samples()
                #expect(samples.count == 5)
            }
        }
    }

    @Test(
        "a wrong body is 422 with place and type, and keeps nothing",
        arguments: [
            (#""waist_circumference":[],"#, "", "body.data.waist_circumference|missing"),
            (#""waist_circumference":[]"#, #""waist_circumference":null"#, "body.data.waist_circumference|list_type"),
            (#""unit":"kg""#, #""unit":"lb""#, "body.data.body_mass.0.unit|literal_error"),
            (#""type":"scale""#, #""type":"shelf""#, "body.data.body_mass.0.type|enum"),
            (
                #"[["2026-11-20","Europe/Berlin"]]"#, #"{"2026-11-20":"Europe/Berlin"}"#,
                "body.data.time_zones|list_type"
            ),
            (#"["2026-11-20","Europe/Berlin"]"#, #"["2026-11-20"]"#, "body.data.time_zones.0|tuple_type"),
            (
                #"["2026-11-20","Europe/Berlin"]"#, #"["20 Nov","Europe/Berlin"]"#,
                "body.data.time_zones.0.0|date_from_datetime_parsing"
            ),
            (
                #"["2026-11-20","Europe/Berlin"]"#, #"["2026-11-20","Mars/Olympus"]"#,
                "body.data.time_zones.0.1|value_error"
            ),
            (#","time_zones":[["2026-11-20","Europe/Berlin"]]"#, "", "body.data.time_zones|missing"),
        ])
    func wrong(old: String, new: String, finding: String) async throws {
        let right = Self.body(["body_mass": "[\(Self.item("70.5", "kg"))]"])
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["manual"])
            let body = right.replacingOccurrences(of: old, with: new)
            #expect(body != right)
            let answer = try await probe.send("POST", "/v2/summary/body/\(id)", body)
            #expect(answer.status == 422 && answer.findings == [finding], "\(answer.text)")
            #expect(try await probe.samples().isEmpty)
        }
    }

    @Test("without a connected source nothing is kept")
    func unconnected() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            let answer = try await probe.send("POST", "/v2/summary/body/\(id)", Self.body(Self.whole))
            #expect(answer.status == 400 && answer.errorType == "SOURCE_NOT_CONNECTED")
            #expect(try await probe.samples().isEmpty)
        }
    }
}
