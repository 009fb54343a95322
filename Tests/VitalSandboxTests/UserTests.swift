import Foundation
import Testing

@testable import VitalSandbox

@Suite("Users and connected sources")
struct UserTests {
    @Test("a user is created, shown, resolved, changed and deleted")
    func life() async throws {
        try await withSandbox { probe in
            let body =
                #"{"client_user_id":"white_bear","fallback_time_zone":"Europe/Berlin","ingestion_start":"2026-01-01"}"#
            let created = try await probe.send("POST", "/v2/user", body)
            #expect(created.status == 200)
            let id = try #require(created.json["user_id"] as? String)
            #expect(UUID(uuidString: id) != nil && id == id.lowercased())
            #expect(UUID(uuidString: created.json["team_id"] as? String ?? "") != nil)
            #expect((created.json["fallback_time_zone"] as? [String: Any])?["id"] as? String == "Europe/Berlin")
            #expect(created.json["ingestion_start"] as? String == "2026-01-01")
            #expect((created.json["connected_sources"] as? [Any])?.isEmpty == true)
            #expect(throws: Never.self) { try Timestamp.parse(created.json["created_on"] as? String ?? "") }

            #expect(try await probe.send("GET", "/v2/user/\(id)").text == created.text)
            #expect(try await probe.send("GET", "/v2/user/\(id.uppercased())").text == created.text)
            #expect(try await probe.send("GET", "/v2/user/resolve/white_bear").text == created.text)

            let changed = try await probe.send(
                "PATCH", "/v2/user/\(id)", #"{"client_user_id":"brown_bear","fallback_time_zone":"UTC"}"#)
            #expect(changed.json["client_user_id"] as? String == "brown_bear")
            #expect((changed.json["fallback_time_zone"] as? [String: Any])?["id"] as? String == "UTC")
            #expect(changed.json["ingestion_start"] as? String == "2026-01-01")
            #expect(try await probe.send("GET", "/v2/user/resolve/white_bear").status == 404)

            #expect(try await probe.send("DELETE", "/v2/user/\(id)").json["success"] as? Bool == true)
            #expect(try await probe.send("DELETE", "/v2/user/\(id)").status == 404)
            #expect(try await probe.send("GET", "/v2/user/\(id)").status == 404)
        }
    }

    @Test("a duplicate is refused with the user to adopt")
    func duplicate() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            let again = try await probe.send("POST", "/v2/user", #"{"client_user_id":"white_bear"}"#)
            #expect(again.status == 400)
            let detail = try #require(again.json["detail"] as? [String: Any])
            #expect(detail["error_type"] as? String == "INVALID_REQUEST")
            #expect(detail["error_message"] as? String == "Client user id already exists.")
            #expect(detail["user_id"] as? String == id)
            #expect(throws: Never.self) { try Timestamp.parse(detail["created_on"] as? String ?? "") }
            _ = try await probe.user("other")
            #expect(try await probe.send("PATCH", "/v2/user/\(id)", #"{"client_user_id":"other"}"#).status == 400)
            #expect(try await probe.send("PATCH", "/v2/user/\(id)", #"{"client_user_id":"white_bear"}"#).status == 200)
        }
    }

    @Test("a client_user_id of any characters is resolved")
    func percentEncoding() async throws {
        try await withSandbox { probe in
            let id = try await probe.user("weißer Bär/1+2%")
            let answer = try await probe.send("GET", "/v2/user/resolve/wei%C3%9Fer%20B%C3%A4r%2F1+2%25")
            #expect(answer.json["user_id"] as? String == id)
            // AsyncHTTPClient does not send such a path as it stands.
            let text = try await rawExchange(
                probe.address.port,
                "GET /v2/user/resolve/%FF HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-vital-api-key: sk_us_sandbox\r\n\r\n"
            )
            #expect(text.hasPrefix("HTTP/1.1 422"), "\(text)")
        }
    }

    @Test(
        "a wrong user body is 422 with place and type",
        arguments: [
            (#"{}"#, "body.client_user_id|missing"), (#"{"client_user_id":5}"#, "body.client_user_id|string_type"),
            (#"{"client_user_id":""}"#, "body.client_user_id|string_too_short"),
            (#"{"client_user_id":null}"#, "body.client_user_id|string_type"), (#"[]"#, "body|model_attributes_type"),
            (#"{"client_user_id":"a","fallback_time_zone":"PST"}"#, "body.fallback_time_zone|value_error"),
            (
                #"{"client_user_id":"a","fallback_birth_date":"1990-02-30"}"#,
                "body.fallback_birth_date|date_from_datetime_parsing"
            ),
            (
                #"{"client_user_id":"a","ingestion_start":"2026-02-01","ingestion_end":"2026-01-01"}"#,
                "body.ingestion_end|value_error"
            ),
        ])
    func invalid(body: String, finding: String) async throws {
        try await withSandbox { probe in
            let answer = try await probe.send("POST", "/v2/user", body)
            #expect(answer.status == 422)
            #expect(answer.findings == [finding])
        }
    }

    @Test("a source is connected once, listed with its status, and removed")
    func sources() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            let link = #"{"user_id":"\#(id)","provider_id":"x","granted_permissions":["glucose"]}"#
            let linked = try await probe.send("POST", "/v2/link/provider/manual/omron_ble", link)
            #expect(linked.status == 200)
            #expect(linked.text == #"{"success":true}"#)
            #expect(try await probe.send("POST", "/v2/link/provider/manual/omron_ble", link).status == 409)

            let listed = try await probe.send("GET", "/v2/user/providers/\(id)")
            let source = try #require((listed.json["providers"] as? [[String: Any]])?.first)
            #expect(source["slug"] as? String == "omron_ble")
            #expect(source["name"] as? String == "Omron")
            #expect(source["status"] as? String == "connected")
            #expect(source["external_user_id"] as? String == "x")
            #expect(source["error_details"] is NSNull)
            let user = try await probe.send("GET", "/v2/user/\(id)")
            #expect((user.json["connected_sources"] as? [Any])?.count == 1)

            #expect(try await probe.send("DELETE", "/v2/user/\(id)/omron_ble").json["success"] as? Bool == true)
            #expect(try await probe.send("DELETE", "/v2/user/\(id)/omron_ble").status == 404)
            #expect(try await probe.send("POST", "/v2/link/provider/manual/omron_ble", link).status == 200)
        }
    }

    @Test("a source needs a known slug and a known user")
    func sourceErrors() async throws {
        try await withSandbox { probe in
            let id = try await probe.user()
            let path = "/v2/link/provider/manual/"
            let body = #"{"user_id":"\#(id)"}"#
            #expect(try await probe.send("POST", path + "fitbit", body).findings == ["path.provider|enum"])
            #expect(try await probe.send("POST", path + "manual", "{}").findings == ["body.user_id|missing"])
            let wrong = try await probe.send("POST", path + "manual", #"{"user_id":"7","granted_permissions":[1]}"#)
            #expect(wrong.findings == ["body.user_id|uuid_parsing", "body.granted_permissions.0|string_type"])
            let stranger = #"{"user_id":"\#(UUID().uuidString)"}"#
            #expect(try await probe.send("POST", path + "manual", stranger).status == 404)
            #expect(try await probe.send("GET", "/v2/user/providers/\(UUID().uuidString)").status == 404)
            #expect(try await probe.send("GET", "/v2/user/nonsense").findings == ["path.user_id|uuid_parsing"])
        }
    }

    @Test(
        "a missing or wrong key is 401, on every path",
        arguments: [nil, "", "nonsense", "sk_us_", "sk_us_x", "xk_us_12345678"] as [String?])
    func keys(key: String?) async throws {
        try await withSandbox { probe in
            var probe = probe
            probe.key = key
            for path in ["/v2/user/resolve/x", "/sandbox/samples", "/nowhere"] {
                let answer = try await probe.send("GET", path)
                #expect(answer.status == 401)
                #expect(answer.errorType == "UNAUTHORIZED")
            }
            #expect(try await probe.send("GET", "/").status == 200)
        }
    }

    @Test("keys shaped like keys are taken, unless keys were named")
    func acceptedKeys() async throws {
        try await withSandbox { probe in
            for key in ["sk_us_abcd", "pk_eu_1234567890", SandboxConfiguration.fixedKey] {
                var probe = probe
                probe.key = key
                let answer = try await probe.send("GET", "/v2/user/resolve/x")
                #expect(answer.status == 404)
            }
        }
        try await withSandbox(.init(apiKeys: ["only this"])) { probe in
            var probe = probe
            let refused = try await probe.send("GET", "/v2/user/resolve/x")
            #expect(refused.status == 401)
            probe.key = "only this"
            let taken = try await probe.send("GET", "/v2/user/resolve/x")
            #expect(taken.status == 404)
        }
    }
}
