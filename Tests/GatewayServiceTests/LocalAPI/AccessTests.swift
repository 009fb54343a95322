import Foundation
import LocalAccess
import LogLines
import NIOHTTP1
import Testing

@testable import GatewayCommands

@Suite("Who may use the local API", .timeLimit(.minutes(5))) struct AccessTests {
    static let closed = [
        "/api/v1/readings", "/api/v1/devices", "/api/v1/sources", "/api/v1/sync", "/api/v1/events", "/metrics",
        "/api/v1/status", "/api/v1/health/types", "/api/v1/gateway", "/api/v1/consent",
    ]

    @Test("over TLS nothing of anybody is shown to strangers, and what the page is made of is")
    func strangers() async throws {
        let bench = try await APIBench(tls: true)
        for path in Self.closed {
            let answer = try await bench.send(path)
            #expect(answer.status == 401 && answer.code == "unauthorized", "\(path): \(answer.status)")
            #expect(answer.headers["www-authenticate"].first?.hasPrefix("Bearer") == true)
        }
        for path in [
            "/", "/page.css", "/page.js", "/words.js", "/reports.js", "/measure.js", "/figures.js",
            "/wall",
            "/wall.css", "/wall.js", "/pairing.js", "/lang/de.json", "/lang/ar.json", "/health",
            "/api/v1/openapi.json",
        ] {
            let answer = try await bench.send(path)
            #expect(answer.status == 200, "\(path): \(answer.status)")
            #expect(answer.headers["content-security-policy"].first?.contains("default-src 'none'") == true)
            // With it a browser lets nobody past the warning about a certificate that nobody vouches for.
            #expect(answer.headers["strict-transport-security"].isEmpty)
        }
        try await bench.stop()
    }

    @Test("what the pages are made of comes compressed to a browser that takes gzip, and as it is to others")
    func compressed() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        for path in ["/", "/page.js", "/lang/ar.json", "/setup", "/setup/steps.js", "/api/v1/openapi.json"] {
            let plain = try await bench.send(path, headers: [("Accept-Encoding", "br, gzip;q=0")])
            #expect(plain.headers["content-encoding"].isEmpty, "\(path)")
            let whole = try #require(plain.headers["content-length"].first.flatMap { Int($0) })
            #expect(plain.text.utf8.count == whole)
            // The first asks for it, the second gets what was kept.
            for _ in 0..<2 {
                let packed = try await bench.send(path, headers: [("Accept-Encoding", "gzip, deflate, br")])
                #expect(packed.headers["content-encoding"] == ["gzip"] && packed.headers["vary"] == ["accept-encoding"])
                let size = try #require(packed.headers["content-length"].first.flatMap { Int($0) })
                #expect(2 * size < whole, "\(path): \(size) of \(whole)")
            }
        }
        try await bench.stop()
    }

    @Test("a token that has ended, was revoked, or is another's opens nothing")
    func badTokens() async throws {
        let bench = try await APIBench(tls: true)
        let (good, expired) = (try await bench.token(), try await bench.token(expiresIn: -1))
        let (revoked, client) = try await bench.door.clients.admit(
            "gone", as: .client, for: .owner, now: Date(), expiresAt: Date() + 60)
        _ = try await bench.door.clients.revoke(client.number, now: Date())
        #expect(try await bench.send("/api/v1/status", token: good).status == 200)
        for token in [expired, revoked.text, String(good.dropLast()), good.uppercased(), "", "' OR 1=1 --"] {
            #expect(try await bench.send("/api/v1/status", token: token).status == 401)
            #expect(try await bench.send("/api/v1/readings", token: token).status == 401)
        }
        for field in ["Basic \(good)", "Bearer", "Bearer \(good) \(good)", good] {
            #expect(try await bench.send("/api/v1/status", headers: [("Authorization", field)]).status == 401)
        }
        // A program's token is no browser's session.
        let cookie = [("Cookie", "__Host-healthrelay=\(good)")]
        #expect(try await bench.send("/api/v1/readings", headers: cookie).status == 401)
        try await bench.stop()
    }

    @Test("a pairing code is good once, whoever guesses at it; what was refused is in the audit log")
    func pairing() async throws {
        let bench = try await APIBench(tls: true)
        func pair(_ code: String) async throws -> APIBench.Answer {
            try await bench.send("/api/v1/pair", .POST, body: #"{"code":"\#(code)","clientName":"Mac"}"#)
        }
        #expect(try await pair("anything").code == "not_invited")
        let code = bench.door.desk.invite(for: .owner, now: Date()).code
        #expect(try await pair("wrong").code == "wrong_pairing_code")
        let answer = try await pair(code)
        #expect(answer.status == 200)
        let token = try #require(answer.object["token"] as? String)
        #expect(try await bench.send("/api/v1/status", token: token).status == 200)
        let replayed = try await pair(code)
        #expect(replayed.status == 400 && replayed.code == "not_invited")

        let second = bench.door.desk.invite(for: .owner, now: Date()).code
        for _ in 0..<5 { _ = try await pair("guess") }
        #expect(try await pair("guess").code == "too_many_tries")
        #expect(try await pair(second).status == 200)
        let events = try await bench.door.audit.newest(100).map(\.event)
        #expect(events.filter { $0 == "pair" }.count == 2 && events.filter { $0 == "pair_refused" }.count == 9)
        for line in [bench.log.text] { #expect(!line.contains(code) && !line.contains(token)) }
        try await bench.stop()
    }

    @Test("a request that is refused uses no code up, and is not in the audit log as what it asked for")
    func refusedChanges() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        func signIn(_ more: String) async throws -> APIBench.Answer {
            try await bench.send("/api/v1/session", .POST, body: "{\(more)}")
        }
        let code = bench.door.desk.invite(for: .owner, now: Date()).code
        #expect(try await signIn("\"code\":\"\(code)\",\"name\":5").code == "bad_request")
        #expect(try await signIn("\"code\":\"\(code)\"").status == 201)
        let link = try #require(bench.door.pageLink(now: Date()).url.split(separator: "#").last)
        #expect(try await signIn("\"link\":\"\(link)\",\"name\":[]").code == "bad_request")
        #expect(try await signIn("\"link\":\"\(link)\"").status == 201)

        let token = try await bench.token()
        func consent(_ body: String) async throws -> Int {
            try await bench.send("/api/v1/consent", .POST, token: token, body: body).status
        }
        for body in [
            #"{"granted":true}"#, #"{"kinds":["height"],"granted":true}"#,
            #"{"kinds":["glucose"],"granted":true,"person":"nobody"}"#,
        ] {
            let status = try await consent(body)
            #expect([400, 404].contains(status), "\(body): \(status)")
        }
        func changes() async throws -> Int {
            try await bench.door.audit.newest(100).filter { $0.event == "consent_changed" }.count
        }
        #expect(try await changes() == 0)
        #expect(try await consent(#"{"kinds":["glucose"],"granted":true}"#) == 200)
        #expect(try await changes() == 1)
        try await bench.stop()
    }

    @Test("sixty requests a minute, then 429 with when to come again")
    func rate() async throws {
        let bench = try await APIBench(tls: true)
        let (token, other) = (try await bench.token(), try await bench.token())
        for _ in 0..<60 { #expect(try await bench.send("/api/v1/status", token: token).status == 200) }
        let answer = try await bench.send("/api/v1/status", token: token)
        #expect(answer.status == 429 && answer.code == "rate_limited")
        #expect(answer.headers["retry-after"].first.flatMap(Int.init).map { (1...60).contains($0) } == true)
        #expect(try await bench.send("/api/v1/status", token: other).status == 200)
        try await bench.stop()
    }

    @Test("another host's name is not answered to; addresses are", arguments: [true, false])
    func rebinding(_ tls: Bool) async throws {
        let bench = try await APIBench(tls: tls)
        for host in ["rebound.example", "rebound.example:8480", "127.0.0.1.nip.example"] {
            let answer = try await bench.send("/api/v1/readings", headers: [("Host", host)])
            #expect(answer.status == 421 && !answer.text.contains("glucose"), "\(host)")
        }
        #expect(try await bench.send("/health", headers: [("Host", "localhost")]).status == 200)
        try await bench.stop()
        let named = try await APIBench(tls: tls, captures: [], settings: ["http.names": "Health.Example"])
        #expect(try await named.send("/health", headers: [("Host", "health.example")]).status == 200)
        try await named.stop()
    }

    @Test(
        "where callers on loopback are trusted, a change needs the page's own token, and no other site's page gets one")
    func crossSite() async throws {
        let bench = try await APIBench(tls: false)
        #expect(try await bench.send("/api/v1/readings").status == 200)
        let body = #"{"seconds":1}"#
        #expect(try await bench.send("/api/v1/scan", .POST, body: body).code == "csrf_token_needed")
        let csrf = try #require(try await bench.send("/api/v1/session").object["csrf_token"] as? String)
        let with = { (fields: [(String, String)]) in [("X-CSRF-Token", csrf)] + fields }
        #expect(try await bench.send("/api/v1/scan", .POST, headers: with([]), body: body).status == 200)
        for fields in [[("Sec-Fetch-Site", "cross-site")], [("Sec-Fetch-Site", "same-site")], [("Origin", "null")]] {
            let answer = try await bench.send("/api/v1/scan", .POST, headers: with(fields), body: body)
            #expect(answer.status == 403 && answer.code == "cross_site")
        }
        let wrong = [("X-CSRF-Token", String(csrf.reversed()))]
        #expect(try await bench.send("/api/v1/scan", .POST, headers: wrong, body: body).status == 403)
        #expect(try await bench.send("/api/v1/readings", headers: [("Sec-Fetch-Site", "cross-site")]).status == 403)
        // No other site may read an answer.
        let answer = try await bench.send("/api/v1/readings", headers: [("Origin", "https://other.example")])
        #expect(answer.headers["access-control-allow-origin"].isEmpty)
        // The routes of the Health Sync app want a token everywhere.
        #expect(try await bench.send("/api/v1/status").status == 401)
        try await bench.stop()
    }

    @Test("a browser signs in with a code, keeps a cookie no script can read, and signs out")
    func session() async throws {
        let bench = try await APIBench(tls: true)
        let code = bench.door.desk.invite(for: .owner, now: Date()).code
        let body = #"{"code":"\#(code)","name":"phone"}"#
        let foreign = [("Sec-Fetch-Site", "cross-site")]
        #expect(try await bench.send("/api/v1/session", .POST, headers: foreign, body: body).status == 403)
        let answer = try await bench.send("/api/v1/session", .POST, body: body)
        let cookie = try #require(answer.headers["set-cookie"].first)
        for part in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/", "__Host-"] { #expect(cookie.contains(part)) }
        let csrf = try #require(answer.object["csrf_token"] as? String)
        let key = try #require(answer.object["key"] as? String)
        let half = [("Cookie", String(cookie.prefix { $0 != ";" }))]
        // A host's cookies go to all its ports: alone it opens nothing.
        #expect(try await bench.send("/api/v1/readings", headers: half).status == 401)
        #expect(try await bench.send("/api/v1/readings", headers: [("X-Session-Key", key)]).status == 401)
        let own = half + [("X-Session-Key", key)]
        #expect(try await bench.send("/api/v1/readings", headers: own).status == 200)
        #expect(try await bench.send("/api/v1/status", headers: own).status == 401)
        #expect(try await bench.send("/api/v1/session", .DELETE, headers: own).status == 403)
        #expect(
            try await bench.send("/api/v1/session", .DELETE, headers: own + [("X-CSRF-Token", csrf)]).status == 204)
        #expect(try await bench.send("/api/v1/readings", headers: own).status == 401)
        try await bench.stop()
    }

    @Test("TLS 1.3 alone, with the fingerprint that is printed")
    func transport() async throws {
        let bench = try await APIBench(tls: true)
        let old = try await Shell.run("curl", ["-sk", "-m", "30", "--tls-max", "1.2", bench.address + "/health"])
        #expect(old.status != 0 && old.text.isEmpty)
        let shown = try await Shell.run(
            "sh",
            [
                "-c",
                "openssl s_client -connect 127.0.0.1:\(bench.port) </dev/null 2>/dev/null"
                    + " | openssl x509 -noout -fingerprint -sha256",
            ])
        let fingerprint = shown.text.split(separator: "=").last.map { $0.lowercased().filter(\.isHexDigit) }
        #expect(fingerprint == bench.door.certificates?.certificate.fingerprint)
        try await bench.stop()
    }
}

/// Other programs.
enum Shell {
    static func run(_ name: String, _ arguments: [String]) async throws -> (status: Int32, text: String) {
        try await Task.detached {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = [name] + arguments
            let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            _ = FileManager.default.createFile(atPath: file.path, contents: nil)
            defer { try? FileManager.default.removeItem(at: file) }
            process.standardOutput = try FileHandle(forWritingTo: file)
            process.standardError = FileHandle.nullDevice
            process.standardInput = FileHandle.nullDevice
            try process.run()
            while process.isRunning { try await Task.sleep(for: .milliseconds(10)) }
            return (process.terminationStatus, try String(contentsOf: file, encoding: .utf8))
        }.value
    }
}
