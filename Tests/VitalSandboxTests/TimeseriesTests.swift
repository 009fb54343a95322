import Foundation
import Testing

@testable import VitalSandbox

@Suite("Time series")
struct TimeseriesTests {
    @Test("a post is kept with the digits sent, logged, and read back")
    func glucose() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let path = "/v2/timeseries/\(id)/glucose"
            let metadata = #","id":"a1","metadata":{"measured_value":"95","measured_unit":"mg/dL"}"#
            let items = [
                Bodies.quantity("5.2730", "mmol/L", "fingerprick", at: "2026-11-20T12:30:00Z", more: metadata),
                Bodies.quantity("7.0", "mmol/L", "manual_scan", at: "2026-07-20T12:30:00+02:00"),
            ]
            let posted = try await probe.send("POST", path, Bodies.envelope(items, more: #","extra":1"#))
            #expect(posted.status == 200)
            #expect(posted.text == #"{"success":true}"#)

            let back = try await probe.send("GET", path + "/grouped?start_date=2026-07-20&end_date=2026-11-20")
            #expect(back.text.contains(#""value":5.2730,"#))
            #expect(back.text.contains(#"{"timestamp":"2026-07-20T10:30:00Z","value":7.0,"#))
            #expect(back.json["next_cursor"] is NSNull)
            let groups = try #require(back.json["groups"] as? [String: [[String: Any]]])
            let sources = try #require(groups["accuchek_ble"]).compactMap { $0["source"] as? [String: Any] }
            #expect(sources.map { $0["type"] as? String } == ["fingerprick", "manual_scan"])
            let offsets = groups["accuchek_ble"]?.compactMap { group in
                (group["data"] as? [[String: Any]])?.first?["timezone_offset"] as? Int
            }
            #expect(offsets == [3600, 7200])

            let kept = try await probe.samples()
            #expect(kept.count == 2)
            let item = try #require(kept[0]["item"] as? [String: Any])
            #expect((item["metadata"] as? [String: String])?["measured_value"] == "95")
            let post = try #require(try await probe.posts().first)
            #expect(post["request_id"] as? String == posted.requestID)
            #expect(post["inserted"] as? Int == 2)
            #expect(post["unknown_fields"] as? [String] == ["extra"])
        }
    }

    @Test(
        "vital signs are kept in their units and read back by the names for reading; another unit is refused",
        arguments: [
            ("blood_oxygen", "blood_oxygen", "97.7", "%"), ("temperature", "body_temperature", "36.60", "°C"),
            ("heartrate", "heartrate", "72", "bpm"), ("heartrate_variability", "hrv", "41.2", "rmssd"),
        ])
    func vitals(written: String, read: String, value: String, unit: String) async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["manual"])
            let path = "/v2/timeseries/\(id)/"
            let item = Bodies.quantity(value, unit, "unknown", at: "2026-11-20T12:30:00Z")
            let posted = try await probe.send("POST", path + written, Bodies.envelope([item], provider: "manual"))
            #expect(posted.status == 200, "\(posted.text)")
            let back = try await probe.send("GET", path + read + "/grouped?start_date=2026-11-20&end_date=2026-11-20")
            #expect(back.text.contains(#""value":\#(value),"unit":"\#(unit)","type":"unknown""#), "\(back.text)")
            let wrong = Bodies.quantity(value, "mmHg", "unknown", at: "2026-11-20T12:31:00Z")
            #expect(
                try await probe.send("POST", path + written, Bodies.envelope([wrong], provider: "manual")).status == 422
            )
            #expect(try await probe.samples().map { $0["resource"] as? String } == [written])
        }
    }

    @Test(
        "names that are for reading only take no posts: 404",
        arguments: [
            "body_temperature", "weight", "body_weight", "body_fat", "body_mass_index", "lean_body_mass", "hrv",
        ])
    func readOnly(name: String) async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["manual"])
            let item = Bodies.quantity("70", "kg", "scale", at: "2026-11-20T12:30:00Z")
            let posted = try await probe.send(
                "POST", "/v2/timeseries/\(id)/\(name)", Bodies.envelope([item], provider: "manual"))
            #expect(posted.status == 404 && posted.text == #"{"detail":"Not Found"}"#)
            #expect(try await probe.samples().isEmpty)
        }
    }

    @Test("pressure is one sample with systolic, diastolic and pulse")
    func pressure() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["omron_ble"])
            let path = "/v2/timeseries/\(id)/blood_pressure"
            let items = [
                Bodies.pressure("127.0", "79.0", "69.0", at: "2026-11-21T06:00:00Z"),
                Bodies.pressure("17.12", "11", nil, at: "2026-11-21T06:05:00Z"),
            ]
            let posted = try await probe.send("POST", path, Bodies.envelope(items, provider: "omron_ble"))
            #expect(posted.status == 200)
            let back = try await probe.send("GET", path + "/grouped?start_date=2026-11-21T06:00:00Z&provider=omron_ble")
            #expect(back.text.contains(#""systolic":127.0,"diastolic":79.0,"unit":"mmHg","type":"cuff""#))
            #expect(back.text.contains(#""systolic":17.12,"diastolic":11,"#))
            #expect(try await probe.samples().count == 2)
        }
    }

    @Test("promise 9: the same key replaces, another type, provider, user or second adds")
    func upsert() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["accuchek_ble", "contour_ble"])
            let other = try await probe.user("other", sources: ["accuchek_ble"])
            let path = "/v2/timeseries/\(id)/glucose"
            for value in ["5.0", "5.0", "6.1", "6.10"] {
                #expect(try await probe.send("POST", path, Bodies.glucose(value)).status == 200)
            }
            #expect(
                try await probe.send("POST", path, Bodies.glucose("6.10", at: "2026-11-20T13:30:00+01:00")).status
                    == 200)
            let kept = try await probe.samples()
            #expect(kept.count == 1)
            #expect(kept[0]["revisions"] as? Int == 3)
            let counts = try await probe.posts().map { post in
                [post["inserted"] as? Int, post["updated"] as? Int, post["unchanged"] as? Int]
            }
            #expect(counts == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0]])

            let scan = Bodies.envelope([Bodies.quantity("5", "mmol/L", "manual_scan", at: "2026-11-20T12:30:00Z")])
            _ = try await probe.send("POST", path, scan)
            _ = try await probe.send("POST", path, Bodies.glucose("5", at: "2026-11-20T12:30:01Z"))
            _ = try await probe.send("POST", path, Bodies.glucose("5", provider: "contour_ble"))
            _ = try await probe.send("POST", "/v2/timeseries/\(other)/glucose", Bodies.glucose("5"))
            #expect(try await probe.samples().count == 5)
        }
    }

    @Test("promise 9: without a connected source nothing is kept")
    func refusals() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            let path = "/v2/timeseries/\(id)/glucose"
            func refusal() async throws -> String? {
                let answer = try await probe.send("POST", path, Bodies.glucose("5"))
                #expect(answer.status == 400)
                return answer.errorType
            }
            #expect(try await refusal() == "SOURCE_NOT_CONNECTED")
            let status = "/sandbox/users/\(id)/sources/accuchek_ble/status"
            #expect(try await probe.send("POST", status, #"{"status":"paused"}"#).status == 404)
            _ = try await probe.send("POST", "/v2/link/provider/manual/accuchek_ble", #"{"user_id":"\#(id)"}"#)
            #expect(try await probe.send("POST", status, #"{"status":"paused"}"#).status == 200)
            #expect(try await refusal() == "SOURCE_PAUSED")
            let failed = #"{"status":"error","error_type":"token_expired","error_message":"why"}"#
            #expect(try await probe.send("POST", status, failed).status == 200)
            #expect(try await refusal() == "SOURCE_ERROR")
            let listed = try await probe.send("GET", "/v2/user/providers/\(id)")
            let details = (listed.json["providers"] as? [[String: Any]])?.first?["error_details"] as? [String: Any]
            #expect(details?["error_type"] as? String == "token_expired")
            #expect(try await probe.send("POST", status, #"{"status":"gone"}"#).findings == ["body.status|enum"])
            #expect(try await probe.samples().isEmpty)
            #expect(try await probe.posts().isEmpty)
            #expect(try await probe.send("POST", status, #"{"status":"connected"}"#).status == 200)
            #expect(try await probe.send("POST", path, Bodies.glucose("5")).status == 200)
            let stranger = "/v2/timeseries/\(UUID().uuidString.lowercased())/glucose"
            #expect(try await probe.send("POST", stranger, Bodies.glucose("5")).status == 404)
            #expect(try await probe.send("GET", stranger + "/grouped?start_date=2026-01-01").status == 404)
            #expect(try await probe.send("DELETE", "/v2/user/\(id)").status == 200)
            #expect(try await probe.samples().isEmpty)
        }
    }

    /// A right body with one thing replaced, and the findings owed.
    static let invalid: [(String, String, [String])] = [
        (#""stage":"daily""#, #""stage":"weekly""#, ["body.stage|enum"]),
        (#""stage":"daily","#, "", ["body.stage|missing"]),
        (#""stage":"daily""#, #""stage":"historical""#, ["body.start_date|missing", "body.end_date|missing"]),
        (
            #""stage":"daily""#,
            #""stage":"historical","start_date":"2026-02-02T00:00:00Z","end_date":"2026-02-01T00:00:00Z""#,
            ["body.end_date|value_error"]
        ),
        (#""provider":"accuchek_ble""#, #""provider":"acme""#, ["body.provider|enum"]),
        (#""time_zone":"Europe/Berlin""#, #""time_zone":"Mars/Olympus""#, ["body.time_zone|value_error"]),
        (#""time_zone":"Europe/Berlin""#, #""time_zone":"GMT+1""#, ["body.time_zone|value_error"]),
        (#""time_zone":"Europe/Berlin","#, "", ["body.time_zone|missing"]),
        (#""is_final_chunk":true"#, #""is_final_chunk":"yes""#, ["body.is_final_chunk|bool_type"]),
        (#""is_final_chunk":true,"#, "", ["body.is_final_chunk|missing"]),
        (#""value":5.5"#, #""value":"5.5""#, ["body.data.0.value|float_type"]),
        (#""value":5.5"#, #""value":NaN"#, ["body.data.0.value|finite_number"]),
        (#""value":5.5"#, #""value":-Infinity"#, ["body.data.0.value|finite_number"]),
        (#""value":5.5"#, #""value":1e999"#, ["body.data.0.value|finite_number"]),
        (#""value":5.5"#, #""value":null"#, ["body.data.0.value|float_type"]),
        (#""value":5.5,"#, "", ["body.data.0.value|missing"]),
        (#""unit":"mmol/L""#, #""unit":"mg/dL""#, ["body.data.0.unit|literal_error"]),
        (#""type":"fingerprick""#, #""type":"toe""#, ["body.data.0.type|enum"]),
        (#""start_date":"2026-11-20T12:30:00Z","#, "", ["body.data.0.start_date|missing"]),
        (
            #""start_date":"2026-11-20T12:30:00Z""#, #""start_date":"2026-11-31T12:30:00Z""#,
            ["body.data.0.start_date|datetime_parsing"]
        ),
        (
            #""start_date":"2026-11-20T12:30:00Z""#, #""start_date":"2026-11-20T12:30:00""#,
            ["body.data.0.start_date|timezone_aware"]
        ),
        (
            #""start_date":"2026-11-20T12:30:00Z""#, #""start_date":1795177800"#,
            ["body.data.0.start_date|string_type"]
        ),
        (
            #""end_date":"2026-11-20T12:30:00Z""#, #""end_date":"2026-11-20T12:29:59Z""#,
            ["body.data.0.end_date|value_error"]
        ),
        (
            #""type":"fingerprick""#, #""type":"fingerprick","metadata":{"a":1}"#,
            ["body.data.0.metadata.a|string_type"]
        ),
        (#""data":["#, #""data":[7,"#, ["body.data.0|model_attributes_type"]),
        (#""data":["#, #""data":{"x":["#, ["body.1|json_invalid"]),
    ]

    @Test("a wrong body is 422 with place and type, and keeps nothing", arguments: invalid.indices)
    func validation(index: Int) async throws {
        let (old, new, findings) = Self.invalid[index]
        let body = Bodies.glucose("5.5").replacingOccurrences(of: old, with: new)
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let answer = try await probe.send("POST", "/v2/timeseries/\(id)/glucose", body)
            #expect(answer.status == 422, "\(body)")
            if findings == ["body.1|json_invalid"] {
                #expect(answer.findings.first?.hasSuffix("|json_invalid") == true)
            } else {
                #expect(answer.findings == findings, "\(body)")
            }
            #expect(try await probe.samples().isEmpty)
        }
    }

    @Test("one wrong item refuses the post whole, and every finding is told")
    func allOrNothing() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let items = ["5.1", "NaN", #""x""#].map {
                Bodies.quantity($0, "mmol/L", "fingerprick", at: "2026-11-20T12:30:00Z")
            }
            let answer = try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.envelope(items))
            #expect(answer.findings == ["body.data.1.value|finite_number", "body.data.2.value|float_type"])
            #expect(try await probe.samples().isEmpty)
        }
    }

    @Test("the parts of a pressure belong to one time and one source")
    func pressureParts() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["omron_ble"])
            let right = Bodies.pressure("120", "80", "60", at: "2026-11-21T06:00:00Z")
            let wrong = right.replacingOccurrences(
                of: #""value":80,"unit":"mmHg","start_date":"2026-11-21T06:00:00Z""#,
                with: #""value":80,"unit":"kPa","start_date":"2026-11-21T05:00:00Z""#)
            let answer = try await probe.send(
                "POST", "/v2/timeseries/\(id)/blood_pressure",
                Bodies.envelope([wrong, #"{"systolic":null}"#], provider: "omron_ble"))
            #expect(
                answer.findings == [
                    "body.data.0.diastolic.unit|literal_error", "body.data.0.diastolic.start_date|value_error",
                    "body.data.1.systolic|model_attributes_type", "body.data.1.diastolic|missing",
                ])
        }
    }

    @Test("historical is kept as such; an empty post is a post")
    func historical() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let dates = #""stage":"historical","start_date":"2026-11-01T00:00:00Z","end_date":"2026-11-20T23:59:59Z""#
            let body = Bodies.glucose("5").replacingOccurrences(of: #""stage":"daily""#, with: dates)
            #expect(try await probe.send("POST", "/v2/timeseries/\(id)/glucose", body).status == 200)
            #expect(try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.envelope([])).status == 200)
            #expect(try await probe.samples().first?["stage"] as? String == "historical")
            let posts = try await probe.posts()
            #expect(posts.map { $0["stage"] as? String } == ["historical", "daily"])
            #expect(posts[0]["start_date"] as? String == "2026-11-01T00:00:00Z")
        }
    }

    @Test("pages by cursor give every sample once, both ends inclusive")
    func paging() async throws {
        var configuration = SandboxConfiguration()
        configuration.pageSize = 7
        try await withSandbox(configuration) { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let items = (0..<50).map { number in
                let type = number % 2 == 0 ? "fingerprick" : "manual_scan"
                let at = "2026-11-20T12:\(10 + number / 2):00Z"
                return Bodies.quantity("\(number)", "mmol/L", type, at: at)
            }
            let path = "/v2/timeseries/\(id)/glucose"
            #expect(try await probe.send("POST", path, Bodies.envelope(items)).status == 200)
            var seen: [Int] = []
            var query = "?start_date=2026-11-20T12:10:00Z&end_date=2026-11-20T12:34:00Z"
            for _ in 0..<10 {
                let page = try await probe.send("GET", path + "/grouped" + query)
                let groups = page.json["groups"] as? [String: [[String: Any]]] ?? [:]
                for group in groups["accuchek_ble"] ?? [] {
                    seen += (group["data"] as? [[String: Any]] ?? []).compactMap { $0["value"] as? Int }
                }
                guard let cursor = page.json["next_cursor"] as? String else { break }
                query = "?start_date=2026-11-20T12:10:00Z&end_date=2026-11-20T12:34:00Z&next_cursor=\(cursor)"
            }
            #expect(seen.sorted() == Array(0..<50))
            let wrong = try await probe.send("GET", path + "/grouped?end_date=tomorrow&cursor=x")
            #expect(
                wrong.findings == [
                    "query.start_date|missing", "query.end_date|datetime_parsing", "query.next_cursor|value_error",
                ])
            let none = try await probe.send("GET", path + "/grouped?start_date=2026-11-20&provider=omron_ble")
            #expect(none.text == #"{"groups":{},"next_cursor":null}"#)
        }
    }

    @Test("a resource not built is 422, an unknown one is 404")
    func resources() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            let listed = try await probe.send("POST", "/v2/timeseries/\(id)/steps", "{}")
            #expect(listed.status == 422)
            #expect(listed.errorType == "RESOURCE_NOT_SUPPORTED")
            #expect(try await probe.send("POST", "/v2/timeseries/\(id)/mood", "{}").status == 404)
            #expect(try await probe.send("POST", "/v2/summary/mood/\(id)", "{}").status == 404)
            let back = "/v2/timeseries/\(id)/temperature/grouped?start_date=2026-11-20"
            #expect(try await probe.send("GET", back).status == 404)
        }
    }
}
