import HealthReadings
import LogLines
import OutgoingHTTP
import ScriptedServer
import TestSupport
import Testing

@testable import VitalClient

@Suite("Errors")
struct ErrorTests {
    @Test(
        "every status has its own name, and says whether waiting helps",
        arguments: [
            (400, "validation_failed", false), (401, "authentication_failed", false), (402, "refused", false),
            (403, "forbidden", false), (404, "not_found", false), (405, "refused", false), (408, "timeout", true),
            (409, "conflict", false), (410, "refused", false), (413, "payload_too_large", false),
            (422, "validation_failed", false), (429, "rate_limit_exceeded", true), (451, "refused", false),
            (500, "server_error", true), (502, "server_error", true), (503, "server_error", true),
            (599, "server_error", true), (301, "redirected", true), (307, "redirected", true),
        ])
    func statuses(status: Int, code: String, retryable: Bool) async throws {
        try await ScriptedServer.with({ _ in .json(status, #"{"detail":"so it is"}"#) }) { server in
            let error = await failure { try await client(of: server).post(glucosePost(), for: "u-1") }
            #expect(error?.code == code && error?.isRetryable == retryable && error?.status == status)
            #expect(error?.serverSaid == "so it is")
            #expect(server.requests.count == 1)
        }
    }

    @Test("a missing source is named by the server's error type")
    func sourceNotConnected() async throws {
        let refusal =
            #"{"detail":{"error_type":"SOURCE_NOT_CONNECTED","error_message":"accuchek_ble is not connected"}}"#
        try await ScriptedServer.with({ _ in .json(400, refusal) }) { server in
            let error = await failure { try await client(of: server).post(glucosePost(), for: "u-1") }
            #expect(error?.kind == .sourceNotConnected && error?.serverSaid == "accuchek_ble is not connected")
        }
    }

    @Test("an error's type and words count without a detail around them, too; only a duplicate's detail names a user")
    func flat() async throws {
        let refusal =
            #"{"error_type":"SOURCE_PAUSED","error_message":"it is paused","error_code":400,"user_id":"u-2"}"#
        try await ScriptedServer.with({ _ in .json(400, refusal) }) { server in
            let api = try client(of: server)
            let error = await failure { try await api.post(glucosePost(), for: "u-1") }
            #expect(error?.kind == .sourceNotConnected && error?.serverErrorType == "SOURCE_PAUSED")
            #expect(error?.serverSaid == "it is paused")
            let duplicate = await failure { _ = try await api.createUser(clientUserID: "white_bear") }
            #expect(duplicate?.serverSaid == "it is paused")
        }
    }

    @Test(
        "Retry-After in seconds and as a date; nonsense and what is over are none; a day at most",
        arguments: [("17", 17), ("0", nil), ("99999999", 86_400), ("soon", nil), ("-3", nil), ("1.5", nil)])
    func retryAfter(text: String, seconds: Int?) async throws {
        try await ScriptedServer.with({ _ in .json(429, "{}", headers: ["Retry-After": text]) }) { server in
            let error = await failure { try await client(of: server).post(glucosePost(), for: "u-1") }
            #expect(error?.retryAfter == seconds.map { .seconds($0) })
        }
        #expect(RetryAfter.delay("Sun, 06 Nov 1994 08:49:37 GMT") == nil)
        #expect(RetryAfter.delay("Fri, 31 Dec 9999 23:59:59 GMT") == .seconds(86_400))
        for large in ["99999999999999999999999", "1e300", "1e999", "86401"] {
            #expect(RetryAfter.delay(large) == .seconds(86_400), "\(large)")
        }
        for none in ["inf", "nan", "0x10", "-1", "+5", "1e", "1.5", "1e-5", "soon", "", "٣"] {
            #expect(RetryAfter.delay(none) == nil, "\(none)")
        }
        #expect(RetryAfter.delay("7") == .seconds(7))
    }

    @Test("Retry-After takes the three forms of a date; two digits are the year that is at most 50 years ahead")
    func retryAfterDates() {
        // Sun, 06 Nov 1994 08:48:37 GMT
        let now: Int64 = 784_111_717
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        ] {
            #expect(RetryAfter.delay(text, now: now) == .seconds(60), "\(text)")
        }
        // Half a minute before 2000, and behind it.
        let end: Int64 = 946_684_770
        #expect(RetryAfter.delay("Friday, 31-Dec-99 23:59:50 GMT", now: end) == .seconds(20))
        #expect(RetryAfter.delay("Friday, 31-Dec-99 23:59:50 GMT", now: end + 60) == nil)
        #expect(RetryAfter.delay("Saturday, 01-Jan-00 00:00:10 GMT", now: end) == .seconds(40))
        #expect(RetryAfter.delay("Saturday, 06-Nov-49 08:49:37 GMT", now: end + 60) == .seconds(86_400))
        #expect(RetryAfter.delay("Saturday, 06-Nov-51 08:49:37 GMT", now: end + 60) == nil)
        for none in [
            "Sunday, 06-Nov-1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37", "Sun Nov 32 08:49:37 1994",
            "Sunday, 06-Nox-94 08:49:37 GMT", "Sunday, 06-Nov-+4 08:49:37 GMT", "Sunday, 06--94 08:49:37 GMT",
            "Sun Nov 6 08:49:37 94",
        ] {
            #expect(RetryAfter.delay(none, now: now) == nil, "\(none)")
        }
    }

    @Test("HTML with 200 acknowledges nothing: it is named, with its first words on one line")
    func html() async throws {
        let page =
            "<!DOCTYPE html>\n<html>\u{1B}[31m<title>Sign in to the hotel</title>" + String(repeating: "x", count: 5000)
        try await ScriptedServer.with({ _ in .other(200, page, type: "text/html; charset=utf-8") }) { server in
            let api = try client(of: server)
            for error in [
                await failure { try await api.post(glucosePost(), for: "u-1") },
                await failure { _ = try await api.createUser(clientUserID: "bear") },
                await failure { _ = try await api.connectManualSource("accuchek_ble", for: "u-1") },
            ] {
                #expect(error?.kind == .notJSON && error?.isRetryable == true)
                let said = error?.serverSaid ?? ""
                #expect(said.hasPrefix(#"text/html, beginning "<!DOCTYPE html> <html> [31m<title>Sign in"#))
                #expect(said.count <= 300)
            }
        }
    }

    @Test("a refusal that is no JSON decides nothing about what was sent", arguments: [400, 404, 422])
    func htmlRefusal(status: Int) async throws {
        try await ScriptedServer.with({ _ in .other(status, "<html>nginx</html>", type: "text/html") }) { server in
            let error = await failure { try await client(of: server).post(glucosePost(), for: "u-1") }
            #expect(error?.kind == .notJSON && error?.status == status)
        }
    }

    @Test("an empty answer, null and an object acknowledge", arguments: ["", "null", "{}", #"{"success":true}"#])
    func acknowledgements(text: String) async throws {
        try await ScriptedServer.with({ _ in .json(200, text) }) { server in
            try await client(of: server).post(glucosePost(), for: "u-1")
        }
    }

    @Test("JSON that is not the answer names the key and not its value")
    func unexpected() async throws {
        try await ScriptedServer.with({ _ in .json(200, #"{"user_id":4711,"client_user_id":"x"}"#) }) { server in
            let error = await failure { _ = try await client(of: server).user("u-1") }
            #expect(error?.kind == .unexpectedAnswer && error?.serverSaid == "user_id is no string")
        }
    }

    @Test("no answer in time, an answer octet by octet, a cut connection, half an answer, a huge answer")
    func unreliable() async throws {
        func kind(_ answer: ScriptedAnswer, within call: Duration = .seconds(60)) async throws -> VitalError.Kind? {
            let limits = VitalAPI.Limits(call: call, responseBytes: 10_000)
            return try await ScriptedServer.with({ _ in answer }) { server in
                await failure { try await client(of: server, limits: limits).post(glucosePost(), for: "u-1") }?.kind
            }
        }
        #expect(try await kind(.late(.seconds(30), .ok), within: .milliseconds(700)) == .timeout)
        #expect(try await kind(.drip, within: .milliseconds(700)) == .timeout)
        #expect(try await kind(.cut) == .noConnection)
        #expect(try await kind(.half(200, "{}")) == .noConnection)
        #expect(try await kind(.json(200, #""\#(String(repeating: "x", count: 20_000))""#)) == .answerTooLarge)
    }

    @Test("a port where nobody listens is no connection, at once")
    func refused() async throws {
        let port = try await ScriptedServer.with({ _ in .ok }) { $0.port }
        let api = VitalAPI(
            server: try VitalServer(baseURL: "http://127.0.0.1:\(port)"), credentials: .apiKey(Secret(testKey)))
        let begun = ContinuousClock.now
        let error = await failure { try await api.post(glucosePost(), for: "u-1") }
        #expect(error?.kind == .noConnection)
        #expect(ContinuousClock.now - begun < .seconds(25))
    }

    @Test("a server that speaks no TLS where TLS is meant is not trusted")
    func tls() async throws {
        try await ScriptedServer.with({ _ in .ok }) { server in
            let api = VitalAPI(
                server: try VitalServer(baseURL: "https://127.0.0.1:\(server.port)"),
                credentials: .apiKey(Secret(testKey)))
            #expect(await failure { try await api.post(glucosePost(), for: "u-1") }?.kind == .untrustedServer)
        }
    }

    @Test("a cancelled call ends at once, as cancelled")
    func cancelled() async throws {
        try await ScriptedServer.with({ _ in .late(.seconds(30), .ok) }) { server in
            let api = try client(of: server, limits: .init())
            let task = Task { try await api.post(glucosePost(), for: "u-1") }
            try await Task.sleep(for: .milliseconds(200))
            let begun = ContinuousClock.now
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(ContinuousClock.now - begun < .seconds(25))
        }
    }

    @Test("a redirect is not followed: the key does not reach the other host")
    func redirect() async throws {
        try await ScriptedServer.with({ _ in .ok }) { elsewhere in
            let target = elsewhere.baseURL + "/v2/timeseries/u-1/glucose"
            try await ScriptedServer.with({ _ in .json(307, "{}", headers: ["Location": target]) }) { server in
                let error = await failure { try await client(of: server).post(glucosePost(), for: "u-1") }
                #expect(error?.kind == .redirected)
            }
            #expect(elsewhere.requests.isEmpty)
        }
    }

    @Test("promise 12: no key in any error, description, dump or log, even when the server echoes it")
    func secrets() async throws {
        let log = LogLines()
        var texts: [String] = []
        for answer: ScriptedAnswer in [
            .json(401, #"{"detail":"Invalid key \#(testKey)"}"#), .other(500, "<p>\(testKey)</p>", type: "text/html"),
            .json(422, #"{"detail":[{"loc":["header","\#(testKey)"],"msg":"\#(testKey)!","type":"x"}]}"#),
            .json(400, #"{"detail":{"error_type":"\#(testKey)","error_message":"\#(testKey)"}}"#), .cut, .ok,
        ] {
            try await ScriptedServer.with({ _ in answer }) { server in
                let api = try client(of: server, log: log)
                let error = await failure { try await api.post(glucosePost(), for: "user-4711") }
                var dumped = ""
                dump(api, to: &dumped)
                dump(api.credentials, to: &dumped)
                return [dumped, "\(api)", String(reflecting: api), String(reflecting: api.credentials)]
                    + (error.map { ["\($0)", String(reflecting: $0), $0.summary] } ?? [])
            }.forEach { texts.append($0) }
        }
        #expect(log.lines().count == 6)
        for text in texts + log.lines() { #expect(!text.contains(testKey)) }
        for line in log.lines() { #expect(!line.contains("user-4711") && !line.contains("5.2732")) }
        #expect(VitalCredentials.apiKey(Secret(testKey)).intendedFor?.environment == .sandbox)
        #expect(VitalCredentials.apiKey(Secret(testKey + "\n")) == .apiKey(Secret(testKey)))
    }

    @Test(
        "a port that NIO would trap on is no base URL's, whatever stands around it",
        arguments: [
            "http://127.0.0.1:99999", "http://127.0.0.1:65536", "http://127.0.0.1:", "http://127.0.0.1:/v2",
            "http://127.0.0.1:0", "http://127.0.0.1:-1", "http://[::1]:70000/", "http://[::1]:",
            "https://bear@example.org:65536", "http://localhost:999999999999999999999?x", "http://localhost:8x",
        ])
    func ports(_ text: String) {
        #expect(throws: InvalidBaseURL.self) { try VitalServer(baseURL: text) }
        #expect(throws: InvalidBaseURL.self) { try VitalServer(baseURL: "http://localhost", authBaseURL: text) }
    }

    @Test("ports that can be connected to are taken", arguments: ["http://[::1]:1", "http://h:65535/a:b", "https://h"])
    func usablePorts(_ text: String) throws { #expect(try VitalServer(baseURL: text).baseURL == text) }

    @Test("no answer of any length or content traps the reader of answers")
    func garbage() {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        let seeds = [
            #"{"detail":{"error_type":"A","error_message":"B","user_id":"C"}}"#,
            #"{"detail":[{"loc":[1,"b"],"msg":"m"}]}"#,
            #"{"detail":"text"}"#, "<html>", "[[[[[[", "\u{FEFF}null", "",
        ].map { Array($0.utf8) }
        for _ in 0..<3000 {
            var octets = seeds.randomElement(using: &generator) ?? []
            for _ in 0..<Int.random(in: 0...4, using: &generator) where !octets.isEmpty {
                octets[Int.random(in: octets.indices, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            readVitalAnswer(octets)
        }
        readVitalAnswer([UInt8](repeating: UInt8(ascii: "["), count: 100_000))
    }
}
