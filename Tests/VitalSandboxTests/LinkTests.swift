import Foundation
import Testing

@testable import VitalSandbox

@Suite("Links")
struct LinkTests {
    /// What curl sees of a page: status, where it is sent, and the page.
    private struct Page {
        var status: Int
        var location: String?
        var text: String

        init(_ arguments: String) async throws {
            let output = String(
                decoding: try await shell("curl -s -m 60 -w '\\n%{http_code} %{redirect_url}' \(arguments)"),
                as: UTF8.self)
            let lines = output.split(separator: "\n", omittingEmptySubsequences: false)
            let last = lines.last?.split(separator: " ", omittingEmptySubsequences: false) ?? []
            status = Int(last.first ?? "") ?? 0
            location = last.count > 1 && !last[1].isEmpty ? String(last[1]) : nil
            text = lines.dropLast().joined(separator: "\n")
        }
    }

    private func token(_ probe: Probe, _ user: String, _ more: String = "") async throws -> (token: String, url: String)
    {
        let answer = try await probe.send("POST", "/v2/link/token", #"{"user_id":"\#(user)"\#(more)}"#)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(Set(answer.json.keys) == ["link_token", "link_web_url"])
        let token = try #require(answer.json["link_token"] as? String)
        let url = try #require(answer.json["link_web_url"] as? String)
        #expect(url == "\(probe.address.baseURL)/link?token=\(token)")
        return (token, url)
    }

    private func press(_ probe: Probe, _ token: String, _ decision: String, _ more: String = "") async throws -> Page {
        try await Page("-d token=\(token) -d decision=\(decision) \(more) \(probe.address.baseURL)/link")
    }

    private func status(_ probe: Probe, _ user: String, _ slug: String) async throws -> String? {
        let listed = try await probe.send("GET", "/v2/user/providers/\(user)").json["providers"] as? [[String: Any]]
        return listed?.first { $0["slug"] as? String == slug }?["status"] as? String
    }

    private let redirect =
        #","redirect_url":"http://127.0.0.1:9/back?a=b#end","on_close":"redirect","on_error":"redirect""#

    @Test("the page connects the source once and sends the browser back; a second use says that it was used")
    func connect() async throws {
        try await withSandbox { probe in
            let user = try await probe.user()
            let (token, url) = try await token(probe, user, #","provider":"omron_ble""# + redirect)
            let page = try await Page("'\(url)'")
            #expect(page.status == 200 && page.text.contains("Connect <b>Omron</b>"))
            #expect(page.text.contains("value=\"refuse\"") && !page.text.contains("<script"))
            #expect(try await status(probe, user, "omron_ble") == nil)

            let pressed = try await press(probe, token, "connect")
            #expect(pressed.status == 303)
            #expect(pressed.location == "http://127.0.0.1:9/back?a=b&state=success&provider=omron_ble#end")
            #expect(try await status(probe, user, "omron_ble") == "connected")

            for again in [try await press(probe, token, "connect"), try await Page("'\(url)'")] {
                #expect(
                    again.status == 303 && again.location?.contains("state=error&error_type=token_consumed&") == true)
            }
        }
    }

    @Test(
        "refused: nothing is connected and the browser is sent back only where on_close says so; the token still holds")
    func refuse() async throws {
        try await withSandbox { probe in
            let user = try await probe.user()
            let (first, _) = try await token(probe, user, #","provider":"oura""# + redirect)
            let back = try await press(probe, first, "refuse").location
            #expect(back?.contains("state=error&error_type=user_cancelled&error=The%20person") == true)
            #expect(back?.hasSuffix("&provider=oura#end") == true)
            let (second, _) = try await token(
                probe, user, #","provider":"oura","redirect_url":"https://example.org/back""#)
            let stayed = try await press(probe, second, "refuse")
            #expect(stayed.status == 200 && stayed.location == nil && stayed.text.contains("may close"))
            #expect(try await status(probe, user, "oura") == nil)
            #expect(try await press(probe, second, "connect").location?.contains("state=success") == true)
            #expect(try await status(probe, user, "oura") == "connected")
        }
    }

    @Test("without a provider the person chooses among those offered; without a redirect the page says it")
    func choice() async throws {
        try await withSandbox { probe in
            let user = try await probe.user()
            let (token, url) = try await token(probe, user, #","filter_on_providers":["fitbit","manual"]"#)
            let page = try await Page("'\(url)'").text
            #expect(page.contains("value=\"fitbit\"") && page.contains("value=\"manual\"") && !page.contains("oura"))
            for wrong in ["", "-d provider=oura", "-d 'provider=<b>'"] {
                #expect(try await press(probe, token, "connect", wrong).status == 422)
            }
            let done = try await press(probe, token, "connect", "-d provider=fitbit")
            #expect(done.status == 200 && done.text.contains("Fitbit is connected"))
            #expect(try await press(probe, token, "connect", "-d provider=fitbit").status == 410)
            #expect(try await status(probe, user, "fitbit") == "connected")
        }
    }

    @Test("connected again, a source in error works again")
    func repair() async throws {
        try await withSandbox { probe in
            let user = try await probe.user(sources: ["omron_ble"])
            _ = try await probe.send(
                "POST", "/sandbox/users/\(user)/sources/omron_ble/status", #"{"status":"error"}"#)
            let (token, _) = try await token(probe, user, #","provider":"omron_ble""#)
            #expect(try await press(probe, token, "connect").status == 200)
            #expect(try await status(probe, user, "omron_ble") == "connected")
        }
    }

    @Test("a token expires, goes with its user, and cannot be guessed")
    func life() async throws {
        var configuration = SandboxConfiguration()
        configuration.linkLifetime = 0
        try await withSandbox(configuration) { probe in
            let user = try await probe.user()
            let (token, url) = try await token(probe, user, #","provider":"oura""# + redirect)
            #expect(try await press(probe, token, "connect").location?.contains("error_type=token_expired") == true)
            #expect(try await Page("'\(url)'").status == 303)
            #expect(try await status(probe, user, "oura") == nil)
            _ = try await probe.send("DELETE", "/v2/user/\(user)")
            #expect(try await Page("'\(url)'").status == 404)
            #expect(try await press(probe, "lt_0", "connect").status == 404)
            #expect(try await Page("'\(probe.address.baseURL)/link'").status == 404)
        }
    }

    @Test(
        "what a link token cannot be made of is 422, with every finding",
        arguments: [
            ("{}", ["body.user_id|missing"]), (#"{"user_id":"7"}"#, ["body.user_id|uuid_parsing"]),
            (#"{"user_id":"U","provider":"nonsense"}"#, ["body.provider|enum"]),
            (
                #"{"user_id":"U","redirect_url":"nonsense","on_close":"stay","on_error":1}"#,
                ["body.redirect_url|url_parsing", "body.on_error|literal_error", "body.on_close|literal_error"]
            ),
            (#"{"user_id":"U","redirect_url":"javascript:alert(1)"}"#, ["body.redirect_url|url_scheme"]),
            (#"{"user_id":"U","redirect_url":"http:///path"}"#, ["body.redirect_url|url_scheme"]),
            (#"{"user_id":"U","redirect_url":"http://h/a\r\nSet-Cookie: a"}"#, ["body.redirect_url|url_parsing"]),
            (#"{"user_id":"U","filter_on_providers":["oura","x"]}"#, ["body.filter_on_providers.1|enum"]),
            (#"{"user_id":"U","filter_on_providers":"oura"}"#, ["body.filter_on_providers|list_type"]),
        ])
    func validation(_ body: String, _ findings: [String]) async throws {
        try await withSandbox { probe in
            let text = body.replacing("\"U\"", with: "\"\(try await probe.user())\"")
            let answer = try await probe.send("POST", "/v2/link/token", text)
            #expect(answer.status == 422 && answer.findings == findings, "\(answer.text)")
        }
    }

    @Test("an app's own scheme may be sent to; an unknown user is 404, and asking needs the key")
    func others() async throws {
        try await withSandbox { probe in
            _ = try await token(probe, try await probe.user(), #","redirect_url":"myapp://callback""#)
            let stranger = #"{"user_id":"\#(UUID().uuidString)"}"#
            #expect(try await probe.send("POST", "/v2/link/token", stranger).status == 404)
            var probe = probe
            probe.key = nil
            #expect(try await probe.send("POST", "/v2/link/token", stranger).status == 401)
        }
    }

    @Test("form fields: the first of each name, plus signs and percent-encoding, and never a trap")
    func form() {
        let fields = FormFields("a=1&a=2&b=x+y%26z&c&=d&e=%zz&%61b=%C3%A4")
        #expect(fields["a"] == "1" && fields["b"] == "x y&z" && fields["c"] == "" && fields[""] == "d")
        #expect(fields["e"] == "%zz" && fields["ab"] == "ä" && fields["nothing"] == nil)
    }
}
