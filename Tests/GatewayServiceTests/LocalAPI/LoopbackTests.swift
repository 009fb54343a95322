import Foundation
import HTTPTypes
import LocalAccess
import LogLines
import Logging
import NIOHTTP1
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

/// What an address proves on loopback: nothing. Other users of the machine and everybody behind a reverse proxy come
/// from there.
@Suite("Callers on loopback", .timeLimit(.minutes(5))) struct LoopbackTests {
    private static let session = ["http.local": "session"]

    @Test("another user of the machine reads nothing without a session; health and metrics are open")
    func strangers() async throws {
        let bench = try await APIBench(tls: false, settings: Self.session)
        for path in AccessTests.closed where path != "/metrics" {
            let answer = try await bench.send(path)
            #expect(answer.status == 401 && answer.code == "unauthorized", "\(path): \(answer.status)")
            #expect(!answer.text.contains("glucose") && answer.text.contains("healthrelay page"))
        }
        let session = try await bench.send("/api/v1/session")
        #expect(session.object["signed_in"] as? Bool == false && session.object["csrf_token"] is NSNull)
        for path in ["/metrics", "/health", "/", "/page.js", "/api/v1/openapi.json"] {
            #expect(try await bench.send(path).status == 200, "\(path)")
        }
        // Not even many requests of theirs keep others out.
        for _ in 0..<80 { #expect(try await bench.send("/health").status == 200) }
        try await bench.stop()
    }

    @Test("`http.local: trusted` lets every caller on loopback read, as before")
    func trusted() async throws {
        let bench = try await APIBench(tls: false, settings: ["http.local": "trusted"])
        #expect(try await bench.send("/api/v1/readings").text.contains("glucose"))
        let session = try await bench.send("/api/v1/session")
        #expect(session.object["trusted"] as? Bool == true && session.object["signed_in"] as? Bool == true)
        try await bench.stop()
    }

    @Test("nobody is trusted who comes beyond plain loopback, whatever `http.local` says")
    func trustedIsPlain() async throws {
        let bench = try await APIBench(tls: true, settings: ["http.local": "trusted"])
        #expect(try await bench.send("/api/v1/readings").status == 401)
        #expect(try await bench.send("/metrics").status == 401)
        try await bench.stop()
    }

    @Test(
        "what a reverse proxy has forwarded is refused, unless the proxy is trusted",
        arguments: [
            ("X-Forwarded-For", "203.0.113.9"), ("x-forwarded-host", "health.example"), ("X-Forwarded-Proto", "https"),
            ("X-Real-IP", "203.0.113.9"), ("Forwarded", "for=203.0.113.9"), ("Via", "1.1 proxy"),
        ])
    func forwarded(_ name: String, _ value: String) async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let token = try await bench.token()
        for path in ["/", "/health", "/metrics", "/api/v1/session", "/api/v1/readings"] {
            let answer = try await bench.send(path, token: token, headers: [(name, value)])
            #expect(answer.status == 403 && answer.code == "proxy_not_trusted", "\(path): \(answer.status)")
        }
        await bench.door.audit.flush()
        #expect(try await bench.door.audit.newest(10).first { $0.event == "forbidden" }?.count == 5)
        try await bench.stop()
    }

    @Test("behind a trusted proxy nobody is on this machine, and each client has its own limit")
    func trustedProxy() async throws {
        let bench = try await APIBench(
            tls: false, captures: [], settings: ["http.local": "trusted", "http.trusted_proxies": "127.0.0.0/8,::1"])
        // Not even without a field: a proxy need not add one.
        #expect(try await bench.send("/api/v1/readings").status == 401)
        #expect(try await bench.send("/metrics").status == 401)
        func from(_ client: String) async throws -> Int {
            try await bench.send("/health", headers: [("X-Forwarded-For", client), ("Via", "1.1 nginx")]).status
        }
        for _ in 0..<60 { #expect(try await from("203.0.113.9") == 200) }
        #expect(try await from("203.0.113.9") == 429)
        // What a client has written in front of what the proxy appends is not believed.
        #expect(try await from("198.51.100.1, 203.0.113.9") == 429)
        #expect(try await from("203.0.113.10") == 200)
        let token = try await bench.token()
        let read = try await bench.send(
            "/api/v1/readings", token: token, headers: [("X-Forwarded-For", "203.0.113.9")])
        #expect(read.status == 200)
        // The browser speaks TLS with the proxy: its cookie is for TLS alone.
        let link = bench.door.pageLink(now: Date())
        let signedIn = try await bench.send(
            "/api/v1/session", .POST, headers: [("X-Forwarded-For", "203.0.113.11"), ("X-Forwarded-Proto", "https")],
            body: #"{"link":"\#(link.url.suffix(32))"}"#)
        #expect(signedIn.status == 201)
        #expect(signedIn.headers["set-cookie"].first?.hasPrefix("__Host-healthrelay=") == true)
        try await bench.stop()
    }

    @Test(
        "the client is the last address that is no proxy's; fields that contradict each other name nobody",
        arguments: [
            (["X-Forwarded-For": "203.0.113.9"], "203.0.113.9"),
            (["X-Forwarded-For": "1.1.1.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (["X-Real-IP": "203.0.113.9:1234"], "203.0.113.9"),
            (["Forwarded": #"for="[2001:DB8::1]:80";proto=https"#], "2001:db8::1"),
            (["Forwarded": "for=1.1.1.1, for=203.0.113.9"], "203.0.113.9"), (["Forwarded": "for=_hidden"], nil),
            (["X-Forwarded-For": "1.1.1.1", "X-Real-IP": "203.0.113.9"], nil),
            (["X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9"], "203.0.113.9"),
            // The proxy's comma is one letter with the Arabic sign that the client has written in front of it.
            (["Forwarded": "for=1.1.1.1;x=\u{600}, for=203.0.113.9"], nil),
            (["X-Forwarded-For": "1.1.1.1\u{600}, 203.0.113.9"], nil),
            (["X-Forwarded-For": "nonsense"], nil), (["X-Forwarded-For": ""], nil), ([:], nil),
        ])
    func client(_ fields: [String: String], _ expected: String?) throws {
        var headers = HTTPFields()
        for (name, value) in fields { headers[try #require(HTTPField.Name(name))] = value }
        let proxies = ["10.0.0.0/8"].compactMap(AddressRange.init)
        #expect(ProxyMiddleware.client(in: headers, trusted: proxies) == expected)
    }

    @Test("ranges of addresses")
    func ranges() throws {
        let cases: [(String, [String], [String])] = [
            ("10.0.0.0/8", ["10.0.0.1", "10.255.255.255", "::ffff:10.1.2.3"], ["11.0.0.1", "::a00:1", "x", ""]),
            ("192.0.2.7", ["192.0.2.7"], ["192.0.2.8"]), ("2001:db8::/33", ["2001:db8:7fff::1"], ["2001:db8:8000::1"]),
            ("fe80::1", ["fe80::1%eth0"], ["fe80::2"]), ("0.0.0.0/0", ["8.8.8.8"], ["2001:db8::1"]),
        ]
        for (text, inside, outside) in cases {
            let range = try #require(AddressRange(text))
            for address in inside { #expect(range.contains(address), "\(address) in \(text)") }
            for address in outside { #expect(!range.contains(address), "\(address) in \(text)") }
        }
        for text in ["", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "1/2/3", "localhost"] {
            #expect(AddressRange(text) == nil, "\(text)")
        }
        #expect(throws: Problem.self) {
            try AccessPoint(
                Settings(environment: [:], flags: ["http.trusted_proxies": "proxy.example"]),
                directory: NSTemporaryDirectory(), logger: .init(label: "quiet"))
        }
    }

    @Test(
        "a link lets one browser in once; its cookie alone opens nothing, and it can be listed, signed out and put out")
    func link() async throws {
        let bench = try await APIBench(tls: false, settings: Self.session)
        let output = Collected()
        try await bench.gateway.run(OperationRequest(.page, json: true), output: output)
        let link = try #require(output.data.first?.object)
        let parts = try #require(link["url"] as? String).split(separator: "#")
        #expect(parts.count == 2 && parts[0] == bench.address + "/" && parts[1].count == 32)
        func redeem(_ code: some StringProtocol) async throws -> APIBench.Answer {
            try await bench.send("/api/v1/session", .POST, body: #"{"link":"\#(code)","name":"Firefox"}"#)
        }
        #expect(try await redeem(String(repeating: "0", count: 32)).code == "page_link_expired")
        let answer = try await redeem(parts[1])
        #expect(answer.status == 201)
        let again = try await redeem(parts[1])
        #expect(again.status == 400 && again.text.contains("healthrelay page"))

        let cookie = try #require(answer.headers["set-cookie"].first)
        #expect(cookie.hasPrefix("healthrelay-\(bench.port)=") && !cookie.contains("Secure"))
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] { #expect(cookie.contains(part)) }
        // Another user's server on another port is sent the cookie, and has nothing of it.
        let half = [("Cookie", String(cookie.prefix { $0 != ";" }))]
        for path in ["/api/v1/readings", "/api/v1/gateway", "/api/v1/events"] {
            #expect(try await bench.send(path, headers: half).status == 401)
        }
        #expect(try await bench.send("/api/v1/session", headers: half).object["csrf_token"] is NSNull)
        let key = try #require(answer.object["key"] as? String)
        let own = half + [("X-Session-Key", key)]
        #expect(try await bench.send("/api/v1/readings", headers: own).text.contains("glucose"))
        #expect(try await bench.send("/api/v1/session", headers: own).object["signed_in"] as? Bool == true)

        let client = try #require(try await bench.door.clients.clients().first)
        #expect(client.name == "Firefox" && client.kind == .page && client.isWelcome(at: Date()))
        let csrf = try #require(answer.object["csrf_token"] as? String)
        #expect(try await bench.send("/api/v1/session", .DELETE, headers: own + [("X-CSRF-Token", csrf)]).status == 204)
        #expect(try await bench.send("/api/v1/readings", headers: own).status == 401)
        let events = try await bench.door.audit.newest(100).map(\.event)
        for event in ["sign_in", "sign_in_refused", "sign_out"] { #expect(events.contains(event), "\(event)") }
        #expect(!bench.log.text.contains(parts[1]) && !bench.log.text.contains(key))
        try await bench.stop()
    }

    @Test("a program on this machine is paired as one elsewhere is, over plain HTTP and without a fingerprint")
    func program() async throws {
        let bench = try await APIBench(tls: false, settings: Self.session)
        let output = Collected()
        try await bench.gateway.run(OperationRequest(.client(.invite(.init())), json: true), output: output)
        let invitation = try #require(output.data.first?.object)
        #expect(invitation["certificateFingerprint"] is NSNull && invitation["host"] as? String == "127.0.0.1")
        #expect(invitation["port"] as? Int == bench.port)
        let code = try #require(invitation["code"] as? String)
        let paired = try await bench.send(
            "/api/v1/pair", .POST, body: #"{"code":"\#(code)","clientName":"Prometheus"}"#)
        let token = try #require(paired.object["token"] as? String)
        for path in ["/api/v1/readings", "/api/v1/status", "/metrics"] {
            #expect(try await bench.send(path, token: token).status == 200)
        }
        try await bench.stop()
    }
}
