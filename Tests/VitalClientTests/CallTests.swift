import HealthReadings
import LogLines
import ScriptedServer
import Testing

@testable import VitalClient

@Suite("Users and sources")
struct CallTests {
    private static let user = """
        {"user_id":"00000000-0000-4000-8000-000000000001","team_id":"t","client_user_id":"white bear/1","created_on":"2026-01-01T00:00:00+00:00",
        "connected_sources":[{"provider":{"name":"A","slug":"accuchek_ble","logo":""},"created_on":"x"}],"new":{"a":[1]}}
        """

    @Test("a user is created with what the server needs and nothing else")
    func createUser() async throws {
        try await ScriptedServer.with({ _ in .json(200, Self.user) }) { server in
            let user = try await client(of: server).createUser(clientUserID: "white bear/1", fallbackTimeZone: "UTC")
            #expect(
                user.userID == "00000000-0000-4000-8000-000000000001" && user.isNew
                    && user.connectedProviders == ["accuchek_ble"])
            let request = try #require(server.requests.first)
            #expect(request.method == "POST" && request.path == "/v2/user")
            let body = #"{"client_user_id":"white bear/1","fallback_time_zone":"UTC"}"#
            #expect(String(decoding: request.body, as: UTF8.self) == body)
            #expect(request.headers["content-encoding"] == nil)
        }
    }

    @Test("a duplicate's 400 names the user that exists: it is adopted")
    func adoptUser() async throws {
        let refusal = """
            {"detail":{"error_type":"INVALID_REQUEST","error_message":"Client user id already exists.",
            "user_id":"00000000-0000-4000-8000-000000000007","created_on":"2026-01-01T00:00:00+00:00"}}
            """
        try await ScriptedServer.with({ _ in .json(400, refusal) }) { server in
            let user = try await client(of: server).createUser(clientUserID: "bear")
            #expect(user == VitalUser(userID: "00000000-0000-4000-8000-000000000007", clientUserID: "bear"))
        }
    }

    @Test("a duplicate's 400 without an id is looked up by ours, percent-encoded")
    func adoptUserByResolving() async throws {
        let refusal = #"{"detail":{"error_message":"Client user id already exists."}}"#
        try await ScriptedServer.with({ $0.method == "GET" ? .json(200, Self.user) : .json(400, refusal) }) { server in
            let user = try await client(of: server).createUser(clientUserID: "white bear/1")
            #expect(user.userID == "00000000-0000-4000-8000-000000000001" && !user.isNew)
            #expect(server.requests.last?.path == "/v2/user/resolve/white%20bear%2F1")
        }
    }

    @Test(
        "an answer about another user, or without a UUID, is no user: readings would go to a stranger",
        arguments: [
            (200, #"{"user_id":"00000000-0000-4000-8000-000000000001","client_user_id":"mallory"}"#),
            (200, #"{"user_id":"../carl","client_user_id":"carl"}"#), (200, #"{"user_id":"","client_user_id":"carl"}"#),
            (400, #"{"detail":{"error_message":"exists","user_id":"u"}}"#),
        ])
    func otherUser(status: Int, answer: String) async throws {
        try await ScriptedServer.with({ _ in .json(status, answer) }) { server in
            let created = await failure { _ = try await client(of: server).createUser(clientUserID: "carl") }
            #expect(created?.kind == .unexpectedAnswer)
            guard status == 200 else { return }
            let resolved = await failure { _ = try await client(of: server).resolveUser(clientUserID: "carl") }
            #expect(resolved?.kind == .unexpectedAnswer)
        }
    }

    @Test("another 400 is no user")
    func refusedUser() async throws {
        let refusal = #"{"detail":[{"loc":["body","client_user_id"],"msg":"too long","type":"value_error"}]}"#
        try await ScriptedServer.with({ _ in .json(422, refusal) }) { server in
            let error = await failure { _ = try await client(of: server).createUser(clientUserID: "bear") }
            #expect(error?.kind == .validationFailed && error?.serverSaid == "body.client_user_id: too long")
            #expect(error?.code == "validation_failed" && error?.isRetryable == false)
        }
    }

    @Test("an id made of dots stays in its place in the path")
    func dots() async throws {
        try await ScriptedServer.with({ _ in .json(404, #"{"detail":"User not found"}"#) }) { server in
            let error = await failure { _ = try await client(of: server).user("..") }
            #expect(error?.kind == .notFound && error?.route == "GET /v2/user/{user_id}")
            #expect(server.requests.first?.path == "/v2/user/%2E%2E")
        }
    }

    @Test("sources come with their status: connected, error with details, paused, and one nobody has heard of")
    func sources() async throws {
        let answer = """
            {"providers":[{"name":"A","slug":"accuchek_ble","logo":"","created_on":"2026-01-02T03:04:05+00:00","status":"connected"},
            {"name":"O","slug":"omron_ble","logo":null,"status":"error","error_details":{"error_type":"TOKEN_REFRESH_FAILED",
            "error_message":"gone","errored_at":"2026-01-02T03:04:05Z"}},
            {"name":"B","slug":"beurer_ble","status":"paused"},{"slug":"manual","status":"dormant"},{"slug":"contour_ble"},{"slug":"onetouch_ble","status":null}]}
            """
        try await ScriptedServer.with({ _ in .json(200, answer) }) { server in
            let sources = try await client(of: server).connectedSources(of: "u-1")
            #expect(
                sources.map(\.status) == [
                    .connected, .error, .paused, .unknown("dormant"), .unknown("no status"), .unknown("no status"),
                ])
            #expect(sources[0].connectedAt == Instant(rfc3339: "2026-01-02T03:04:05Z"))
            #expect(sources[1].errorDetails?.type == "TOKEN_REFRESH_FAILED")
            #expect(server.requests.first?.path == "/v2/user/providers/u-1")
        }
    }

    @Test("connecting a source: 200 is new, 409 is success as well")
    func connect() async throws {
        try await ScriptedServer.with({ request in
            request.path.hasSuffix("omron_ble")
                ? .json(409, #"{"detail":"Provider already connected"}"#) : .json(200, #"{"success":true}"#)
        }) { server in
            let api = try client(of: server)
            #expect(try await api.connectManualSource("accuchek_ble", for: "u-1"))
            #expect(try await !api.connectManualSource("omron_ble", for: "u-1"))
            #expect(server.requests.map(\.path).first == "/v2/link/provider/manual/accuchek_ble")
            #expect(server.requests.first.map { String(decoding: $0.body, as: UTF8.self) } == #"{"user_id":"u-1"}"#)
        }
    }

    @Test("deleting a source: what is not there need not be deleted")
    func delete() async throws {
        try await ScriptedServer.with({ request in
            request.path.hasSuffix("omron_ble") ? .json(404, "{}") : .json(200, #"{"success":true}"#)
        }) { server in
            let api = try client(of: server)
            #expect(try await api.deleteSource("accuchek_ble", of: "u-1"))
            #expect(try await !api.deleteSource("omron_ble", of: "u-1"))
            #expect(server.requests.map(\.method) == ["DELETE", "DELETE"])
        }
    }

    @Test("times of providers that tell the person's clock alone are floating, whatever stands behind them")
    func floatingTimes() async throws {
        func group(_ provider: String, _ time: String) -> String {
            let datum = #"{"timestamp":"\#(time)","timezone_offset":null,"value":5.5,"unit":"mmol/L"}"#
            return #""\#(provider)":[{"source":{"provider":"\#(provider)","type":"automatic"},"data":[\#(datum)]}]"#
        }
        let groups = [
            group("abbott_libreview", "2023-09-27T07:48:00+00:00"), group("dexcom_v3", "2023-09-27T07:48:00+00:00"),
            group("freestyle_libre", "2023-09-27T07:48:00"),
        ]
        let answer = #"{"groups":{\#(groups.joined(separator: ","))},"next_cursor":null}"#
        let unzoned = #"{"groups":{\#(group("dexcom_v3", "2023-09-27T07:48:00"))},"next_cursor":null}"#
        try await ScriptedServer.with({ .json(200, $0.path.contains("/u-2/") ? unzoned : answer) }) { server in
            let api = try client(of: server)
            let page = try await api.samplePage(of: "glucose", for: "u-1", in: noon...noon)
            #expect(page.groups.map(\.provider) == ["abbott_libreview", "dexcom_v3", "freestyle_libre"])
            let samples = page.groups.flatMap(\.samples)
            #expect(samples.map(\.isFloating) == [true, false, true])
            #expect(samples.allSatisfy { $0.timestamp.description == "2023-09-27T07:48:00Z" })
            let error = await failure { _ = try await api.samplePage(of: "glucose", for: "u-2", in: noon...noon) }
            #expect(error?.kind == .unexpectedAnswer)
        }
    }

    @Test("sign-in tokens are exchanged at the service's own host for them; at another server's they are at the API's")
    func tokenHosts() throws {
        for region in VitalRegion.allCases {
            let live = "https://auth.\(region.rawValue).junction.com"
            let sandbox = "https://auth.sandbox.\(region.rawValue).junction.com"
            #expect(VitalServer(environment: .production, region: region).authBaseURL == live)
            #expect(VitalServer(environment: .sandbox, region: region).authBaseURL == sandbox)
            for (environment, auth) in [(VitalEnvironment.production, live), (.sandbox, sandbox)] {
                let base = VitalServer(environment: environment, region: region).baseURL
                let named = try VitalServer(baseURL: base + "/")
                #expect(named.authBaseURL == auth)
            }
        }
        #expect(VitalServer(environment: .local, region: .eu).authBaseURL == "http://localhost:8000")
        for (former, auth) in [
            ("https://api.tryvital.io", "https://auth.us.junction.com"),
            ("https://api.eu.tryvital.io", "https://auth.eu.junction.com"),
            ("https://api.sandbox.tryvital.io", "https://auth.sandbox.us.junction.com"),
            ("https://api.sandbox.eu.tryvital.io", "https://auth.sandbox.eu.junction.com"),
        ] {
            let server = try VitalServer(baseURL: former)
            #expect(server.authBaseURL == auth && server.baseURL == former)
            let own = try VitalServer(baseURL: former, authBaseURL: "https://h")
            #expect(own.authBaseURL == "https://h")
        }
        for other in [
            "https://vital.example.org", "http://api.us.junction.com", "https://api.us.junction.com:8443",
            "https://api.us.junction.com/v", "https://api.us.junction.com.example.org", "https://api.us.tryvital.io",
        ] {
            let server = try VitalServer(baseURL: other)
            #expect(server.authBaseURL == other)
        }
    }

    @Test("servers: every environment and region, and which texts are no base URL")
    func servers() throws {
        #expect(VitalServer(environment: .production, region: .us).baseURL == "https://api.us.junction.com")
        #expect(VitalServer(environment: .production, region: .eu).baseURL == "https://api.eu.junction.com")
        #expect(VitalServer(environment: .sandbox, region: .us).baseURL == "https://api.sandbox.us.junction.com")
        #expect(VitalServer(environment: .sandbox, region: .eu).baseURL == "https://api.sandbox.eu.junction.com")
        #expect(VitalServer(environment: .local, region: .eu).baseURL == "http://localhost:8000")
        #expect(try VitalServer(baseURL: "http://127.0.0.1:1/v/").baseURL == "http://127.0.0.1:1/v")
        #expect(try VitalServer(baseURL: "http://10.0.0.9:80").isExposed)
        #expect(try !VitalServer(baseURL: "http://[::1]:80").isExposed)
        #expect(try !VitalServer(baseURL: "https://example.org").isExposed)
        for text in [
            "", "example.org", "ftp://a", "https://", "https://u:secretword@h", "https://h/?a=1", "https://h#f",
        ] {
            let error = #expect(throws: InvalidBaseURL.self) { try VitalServer(baseURL: text) }
            #expect(error?.description.contains("secretword") == false)
        }
    }

    @Test("a link is made with what brings the browser back; its token shows nowhere")
    func link() async throws {
        let answer =
            #"{"link_token":"lt_secretword","link_web_url":"https://link.example.org/?token=lt_1","expires_at":"x"}"#
        try await ScriptedServer.with({ _ in .json(200, answer) }) { server in
            let log = LogLines()
            let api = try client(of: server, log: log)
            let link = try await api.createLink(to: "oura", for: "u-1", redirectURL: "http://127.0.0.1:5/a")
            #expect(link.webURL == "https://link.example.org/?token=lt_1")
            #expect(!"\(link)".contains("secretword") && !log.text.contains("lt_"))
            // A page of somebody's own needs it.
            #expect(link.token.revealed() == "lt_secretword" && !"\(link.token)".contains("secretword"))
            let request = try #require(server.requests.first)
            #expect(request.method == "POST" && request.path == "/v2/link/token")
            let body =
                #"{"user_id":"u-1","provider":"oura","redirect_url":"http://127.0.0.1:5/a","#
                + #""on_error":"redirect","on_close":"redirect"}"#
            #expect(String(decoding: request.body, as: UTF8.self) == body)
            _ = try await api.createLink(to: nil, for: "u-1")
            #expect(server.requests.last.map { String(decoding: $0.body, as: UTF8.self) } == #"{"user_id":"u-1"}"#)
        }
    }

    @Test(
        "what is no web address is no link",
        arguments: ["javascript:alert(1)", "https://a b", "", "https://a\\u001b[2J", "file:///etc/passwd"])
    func noLink(_ url: String) async throws {
        try await ScriptedServer.with({ _ in .json(200, #"{"link_token":"t","link_web_url":"\#(url)"}"#) }) { server in
            let error = await failure { _ = try await client(of: server).createLink(to: "oura", for: "u-1") }
            #expect(error?.kind == .unexpectedAnswer && error?.route == "POST /v2/link/token")
        }
    }

    @Test("deleting a user: one who is not there need not be deleted; any other answer is an error")
    func deleteUser() async throws {
        try await ScriptedServer.with({ request in
            switch request.path {
            case "/v2/user/u-1": .json(200, #"{"success":true}"#)
            case "/v2/user/u-2": .json(404, #"{"detail":"User not found"}"#)
            default: .json(500, "{}")
            }
        }) { server in
            let api = try client(of: server)
            #expect(try await api.deleteUser("u-1"))
            #expect(try await !api.deleteUser("u-2"))
            #expect(await failure { try await api.deleteUser("u-3") }?.kind == .serverError)
            #expect(server.requests.allSatisfy { $0.method == "DELETE" })
        }
    }
}
