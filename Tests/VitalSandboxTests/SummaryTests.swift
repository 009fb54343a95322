import Testing

@testable import VitalSandbox

@Suite("Summaries of other kinds")
struct SummaryTests {
    private static func body(_ data: String) -> String {
        #"{"stage":"daily","provider":"apple_health_kit","time_zone":"UTC","is_final_chunk":true,"data":\#(data)}"#
    }

    private static let night =
        #"{"start_date":"2026-11-20T22:00:00Z","end_date":"2026-11-21T06:00:00Z","sleep_stages":{}}"#
    private static let workout =
        #"{"start_date":"2026-11-20T10:00:00Z","end_date":"2026-11-20T11:00:00Z","sport":"running","calories":1,"distance":2}"#

    @Test("what the published clients send is kept as it came")
    func kept() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["apple_health_kit"])
            let steps = Bodies.quantity("120", "count", "watch", at: "2026-11-20T12:30:00Z")
            for (kind, data) in [
                ("profile", #"{"biological_sex":"female","height":170,"time_zone":"Europe/Berlin"}"#),
                ("activity", #"[{"day_summary":{"calendar_date":"2026-11-20","steps_sum":120},"steps":[\#(steps)]}]"#),
                ("sleep", "[\(Self.night)]"), ("workouts", "[\(Self.workout)]"),
            ] {
                let posted = try await probe.send("POST", "/v2/summary/\(kind)/\(id)", Self.body(data))
                #expect(posted.status == 200, "\(posted.text)")
                #expect(try await probe.send("GET", "/sandbox/summaries").text.contains("\"kind\":\"\(kind)\""))
            }
        }
    }

    @Test(
        "what they don't is refused, with its place",
        arguments: [
            ("profile", "[]", "body.data|model_attributes_type"),
            ("profile", #"{"biological_sex":"x"}"#, "body.data.biological_sex|enum"),
            ("profile", #"{"height":170.5}"#, "body.data.height|int_type"),
            ("profile", #"{"date_of_birth":"1990-01-01"}"#, "body.data.date_of_birth|datetime_parsing"),
            ("activity", "{}", "body.data|list_type"),
            ("activity", #"[{"day_summary":{}}]"#, "body.data.0.day_summary.calendar_date|missing"),
            ("activity", #"[{"steps":[{}]}]"#, "body.data.0.steps.0.value|missing"),
            ("sleep", #"[{"start_date":"2026-11-20T22:00:00Z"}]"#, "body.data.0.end_date|missing"),
            (
                "sleep",
                #"[{"start_date":"2026-11-20T22:00:00Z","end_date":"2026-11-20T22:00:00Z","sleep_stages":[]}]"#,
                "body.data.0.sleep_stages|model_attributes_type"
            ),
            (
                "workouts", #"[{"start_date":"2026-11-20T22:00:00Z","end_date":"2026-11-20T21:00:00Z"}]"#,
                "body.data.0.end_date|value_error"
            ),
            ("workouts", #"[{"sport":""}]"#, "body.data.0.sport|string_too_short"),
            ("meal", "3", "body.data|model_type"),
        ])
    func refused(kind: String, data: String, finding: String) async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["apple_health_kit"])
            let answer = try await probe.send("POST", "/v2/summary/\(kind)/\(id)", Self.body(data))
            #expect(answer.status == 422 && answer.findings.contains(finding), "\(answer.findings)")
            #expect(try await probe.send("GET", "/sandbox/summaries").text == #"{"summaries":[]}"#)
        }
    }

    @Test("days are asked for by a first day")
    func days() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            #expect(try await probe.send("GET", "/v2/summary/body/\(id)?start_date=2026-11-01").text == #"{"body":[]}"#)
            let without = try await probe.send("GET", "/v2/summary/body/\(id)")
            #expect(without.status == 422 && without.findings == ["query.start_date|missing"])
            let odd = try await probe.send("GET", "/v2/summary/body/\(id)?start_date=yesterday")
            #expect(odd.findings == ["query.start_date|date_from_datetime_parsing"])
        }
    }
}
