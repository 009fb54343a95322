import Foundation
import LocalAccess
import LogLines
import NIOHTTP1
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("Claiming over HTTP", .timeLimit(.minutes(3))) struct SetupRouteTests {
    private func bench(tls: Bool = true) async throws -> APIBench {
        let bench = try await APIBench(tls: tls, captures: [], settings: ["http.local": "session"])
        bench.door.isClaimed = false
        return bench
    }

    private func token(_ bench: APIBench) async throws -> String {
        String(try #require(try await bench.door.setupLink().url.split(separator: "#").last))
    }

    private func claim(_ bench: APIBench, _ token: String, headers: [(String, String)] = []) async throws
        -> APIBench.Answer
    {
        try await bench.send(
            "/setup/claim", .POST, headers: headers, body: #"{"token":"\#(token)","name":"<b>mine</b>"}"#)
    }

    @Test(
        "until somebody has claimed the gateway, every route but the set-up's and /health is refused",
        arguments: [true, false])
    func closed(_ tls: Bool) async throws {
        let bench = try await bench(tls: tls)
        let (other, _) = try await bench.door.clients.admit(
            "x", as: .client, for: .owner, now: Date(), expiresAt: Date() + 600)
        for route in bench.routes {
            let parts = route.split(separator: " ").map(String.init)
            guard !parts[1].hasPrefix("/setup"), parts[1] != "/health", parts[1] != "/" else { continue }
            let answer = try await bench.send(
                parts[1].replacing(#/\{[a-z]+\}/#, with: "x"), HTTPMethod(rawValue: parts[0]), token: other.text,
                body: parts[0] == "GET" ? nil : "{}")
            #expect(answer.status == 403 && answer.code == "not_claimed", "\(route): \(answer.status)")
        }
        for path in [
            "/setupx", "/setup%2F..%2Fapi%2Fv1%2Freadings", "//setup", "/healthx", "/setup/../api/v1/readings",
        ] {
            let answer = try await bench.send(path, token: other.text)
            #expect(
                [403, 404].contains(answer.status) && !answer.text.contains("readings\":"), "\(path): \(answer.status)")
        }
        for path in [
            "/setup", "/setup/setup.js", "/setup/setup.css", "/setup/languages.js", "/setup/lang/ar.json", "/health",
        ] {
            #expect(try await bench.send(path).status == 200, "\(path)")
        }
        #expect(try await bench.send("/setup/state").text == #"{"claimed":false,"scope":null}"#)
        try await bench.stop()
    }

    @Test("a link lets one browser claim: it is an owner's from then on, and a replay opens nothing")
    func course() async throws {
        let bench = try await bench()
        let token = try await token(bench)
        try await SchemaCheck.expect(try await bench.send("/setup/state").text, follows: "setup_state")
        let elsewhere = try await claim(bench, token, headers: [("Sec-Fetch-Site", "cross-site")])
        #expect(elsewhere.code == "cross_site")
        #expect(try await claim(bench, "0123456789abcdef0123456789abcdef").code == "setup_token_invalid")
        let answer = try await claim(bench, token)
        #expect(answer.status == 201, "\(answer.text)")
        try await SchemaCheck.expect(answer.text, follows: "setup_claim")
        let cookie = try #require(answer.headers["set-cookie"].first)
        #expect(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Secure"))
        let key = try #require(answer.object["key"] as? String)
        let session: [(String, String)] = [
            ("Cookie", String(cookie.prefix { $0 != ";" })), ("X-Session-Key", key),
        ]
        let stand = try await bench.send("/api/v1/session", headers: session)
        #expect(stand.object["scope"] as? String == "owner")
        #expect(try await bench.send("/setup/state", headers: session).text == #"{"claimed":true,"scope":"owner"}"#)
        try await SchemaCheck.expect(
            try await bench.send("/setup/state", headers: session).text, follows: "setup_state")
        let steps = try await bench.send("/api/v1/setup", headers: session)
        try await SchemaCheck.expect(steps.text, follows: "setup_steps")
        #expect(try await bench.send("/api/v1/settings", headers: session).status == 200)
        #expect(try await bench.send("/api/v1/settings").status == 401)
        let replay = try await claim(bench, token)
        #expect(replay.status == 409 && replay.code == "already_claimed")
        let clients = try await bench.door.clients.clients()
        #expect(clients.count == 1 && clients[0].name == "<b>mine</b>")
        await bench.door.audit.flush()
        let events = try await bench.door.audit.newest(100).map(\.event)
        #expect(events.contains("claimed") && events.contains("claim_refused"), "\(events)")
        #expect(!bench.log.text.contains(token))
        try await bench.stop()
    }

    @Test("of two browsers that claim at once one becomes the owner")
    func race() async throws {
        let bench = try await bench()
        let token = try await token(bench)
        let answers = try await withThrowingTaskGroup(of: APIBench.Answer.self) { group in
            for _ in 0..<8 { group.addTask { try await claim(bench, token) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.filter { $0.status == 201 }.count == 1)
        #expect(answers.filter { $0.status == 409 && $0.code == "already_claimed" }.count == 7)
        #expect(try await bench.door.clients.clients().count == 1)
        try await bench.stop()
    }

    @Test("guesses are limited, and keep nobody out who has the right token")
    func guesses() async throws {
        let bench = try await bench()
        let token = try await token(bench)
        var codes: Set<String> = []
        for number in 0..<14 { codes.insert(try await claim(bench, "guess-\(number)").code ?? "") }
        #expect(codes == ["setup_token_invalid", "too_many_guesses"])
        #expect(try await claim(bench, token).status == 201)
        try await bench.stop()
    }
}
