import AsyncHTTPClient
import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import TestSupport
import Testing

@testable import GatewayCommands
@testable import LocalAPI

/// Every route, in random order, by clients in every state that a client can be in, on a real server over TLS.
///
/// A run comes again with its seed. The oracle: a client that is not let in gets what is open to everybody and nothing
/// of anybody; nobody ever gets a 5xx; the server is alive afterwards.
@Suite("Every request in every state of a session", .timeLimit(.minutes(5))) struct SessionStateTests {
    @Test("no order of requests lets anybody see what they may not, nor breaks the server", arguments: 1...6)
    func orders(_ seed: Int) async throws {
        // Whoever has sent too much stays refused for the whole run, however long it takes.
        let bench = try await APIBench(
            tls: true, captures: ["two-meters"], programs: RequestRate(window: .seconds(3600)))
        var course = try await Course(bench, seed: UInt64(seed))
        for _ in 0..<90 { try await course.step() }
        let token = try await bench.token()
        #expect(try await bench.send("/api/v1/status", token: token).status == 200)
        try await bench.stop()
    }

    @Test("every route is one that the oracle knows")
    func routes() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let missing = Course.open.subtracting(bench.routes)
        #expect(missing.isEmpty, "\(missing)")
        // Each route that is not open refuses a stranger.
        for route in Set(bench.routes).subtracting(Course.open).sorted() {
            let (method, path) = Course.split(route)
            let answer = try await bench.peek(path, method, body: method == .GET ? nil : "{}")
            #expect([401, 429].contains(answer.status), "\(route): \(answer.status)")
        }
        try await bench.stop()
    }
}

/// One run: what the clients are, and what happens to them.
private struct Course {
    enum State: CaseIterable {
        case stranger, forged, client, page, pageWithoutProof, expired, revoked, signedOut, busy
    }

    /// What anybody may ask for.
    static let open: Set<String> = [
        "GET /", "GET /page.css", "GET /page.js", "GET /words.js", "GET /reports.js",
        "GET /measure.js",
        "GET /figures.js",
        "GET /wall", "GET /wall.css", "GET /wall.js",
        "GET /pairing.js", "GET /lang/de.json", "GET /lang/fr.json", "GET /lang/es.json", "GET /lang/ar.json",
        "GET /api/v1/openapi.json",
        "GET /setup", "GET /setup/setup.css", "GET /setup/setup.js", "GET /setup/steps.js",
        "GET /setup/words.js", "GET /setup/languages.js", "GET /setup/lang/de.json", "GET /setup/lang/fr.json",
        "GET /setup/lang/es.json", "GET /setup/lang/ar.json",
        "GET /setup/state",
        "POST /setup/claim",
        "GET /health", "GET /api/v1/session", "POST /api/v1/session", "POST /api/v1/pair",
    ]
    /// What shows that an answer holds something of a person.
    private static let marks = ["\"sequence\"", "\"systolic\"", "\"mg/dL\"", "bloodPressureSystolic", "C0:00:00"]

    private let bench: APIBench
    private var generator: SeededGenerator
    private var fields: [State: [(String, String)]] = [:]
    private var trail: [String] = []
    private var hasConsent = true

    init(_ bench: APIBench, seed: UInt64) async throws {
        self.bench = bench
        generator = SeededGenerator(seed: seed)
        let clients = bench.door.clients
        fields[.stranger] = []
        fields[.forged] = [("Authorization", "Bearer \(AccessToken().text)")]
        fields[.client] = [("Authorization", "Bearer \(try await bench.token())")]
        fields[.expired] = [("Authorization", "Bearer \(try await bench.token(expiresIn: -1))")]
        let (revoked, client) = try await clients.admit(
            "x", as: .client, for: .owner, now: Date(), expiresAt: Date() + 600)
        _ = try await clients.revoke(client.number, now: Date())
        fields[.revoked] = [("Authorization", "Bearer \(revoked.text)")]
        let (ended, page) = try await clients.admit("x", as: .page, for: .owner, now: Date(), expiresAt: Date() + 600)
        _ = try await clients.revoke(page.number, now: Date())
        fields[.signedOut] = [Self.cookie(ended.text)]
        let busy = try await bench.token()
        for _ in 0..<60 { _ = try await bench.send("/api/v1/status", token: busy) }
        fields[.busy] = [("Authorization", "Bearer \(busy)")]
        try await signIn()
    }

    static func split(_ route: String) -> (HTTPMethod, String) {
        let parts = route.split(separator: " ", maxSplits: 1).map(String.init)
        return (HTTPMethod(rawValue: parts[0]), parts[1].replacing(/\{[^}]*\}/, with: "00000000"))
    }

    private static func cookie(_ token: String) -> (String, String) {
        ("Cookie", "__Host-healthrelay=\(token)")
    }

    private mutating func signIn() async throws {
        let (token, client) = try await bench.door.clients.admit(
            "x", as: .page, for: .owner, now: Date(), expiresAt: Date() + 600)
        fields[.pageWithoutProof] = [Self.cookie(token.text)]
        fields[.page] = [Self.cookie(token.text), ("X-CSRF-Token", bench.door.csrfToken(of: "page-\(client.number)"))]
    }

    mutating func step() async throws {
        if Int.random(in: 0..<8, using: &generator) == 0 { return try await change() }
        guard let state = State.allCases.randomElement(using: &generator),
            let route = bench.routes.sorted().randomElement(using: &generator)
        else { return }
        let (method, path) = Self.split(route)
        let body = method == .GET ? nil : self.body(of: path)
        trail.append("\(state) \(route)")
        let answer = try await bench.peek(path, method, headers: fields[state] ?? [], body: body)
        let isLetIn = [.client, .page, .pageWithoutProof].contains(state)
        let story = Comment(rawValue: "\(answer.status) after \(trail.suffix(8)): \(answer.text.prefix(300))")
        #expect(answer.status < 500, story)
        if !isLetIn {
            if Self.open.contains(route) {
                #expect([200, 201, 400, 403, 409, 413, 415, 429].contains(answer.status), story)
            } else {
                #expect([401, 429].contains(answer.status), story)
            }
        }
        if !isLetIn || !hasConsent {
            // A device's address is no reading, and is shown to whoever is let in.
            let marks = isLetIn ? Self.marks.dropLast() : Self.marks[...]
            let isDocument = route.hasSuffix("openapi.json") || route.hasSuffix(".js")
            #expect(isDocument || !marks.contains { answer.text.contains($0) }, story)
        }
        if state == .pageWithoutProof, method != .GET, !Self.open.contains(route) {
            #expect([401, 403, 429].contains(answer.status), story)
        }
        if state == .page, route == "DELETE /api/v1/session", answer.status == 204 {
            fields[.signedOut] = fields[.page]
            try await signIn()
        }
        // What a pairing began must not hold up the next one.
        if route == "POST /api/v1/pairings", let id = answer.object["id"] as? String {
            _ = try await bench.send("/api/v1/pairings/\(id)", .DELETE, headers: fields[.page] ?? [])
        }
    }

    /// Something happens at the gateway.
    private mutating func change() async throws {
        let (store, door) = (bench.gateway.store, bench.door)
        let what = Int.random(in: 0..<6, using: &generator)
        trail.append("change \(what)")
        switch what {
        case 0: _ = door.desk.invite(for: .owner, now: Date())
        case 1: bench.isLocked.toggle()
        case 2:
            hasConsent.toggle()
            let user = try await store.currentUser().key
            for kind in ReadingKind.allCases { try await store.setConsent(kind, granted: hasConsent, of: user) }
        case 3:
            // Everybody goes, and two come back.
            _ = try await door.clients.revokeAll(now: Date())
            fields[.revoked] = fields[.client]
            fields[.client] = [("Authorization", "Bearer \(try await bench.token())")]
            fields[.busy] = fields[.revoked]
            try await signIn()
        case 4:
            let code = door.desk.invite(for: .owner, now: Date()).code
            let answer = try await bench.send(
                "/api/v1/pair", .POST, body: #"{"code":"\#(code)","clientName":"x"}"#)
            guard let token = answer.object["token"] as? String else { return }
            fields[.client] = [("Authorization", "Bearer \(token)")]
        default: bench.hub.post("sync", .object([:]))
        }
    }

    private mutating func body(of path: String) -> String {
        let bodies = [
            "", "{}", "[]", #"{"seconds":1}"#, #"{"address":"C0:00:00:00:18:08"}"#, #"{"code":"xxxxxxxx"}"#,
            #"{"code":"xxxxxxxx","clientName":"x"}"#, #"{"passkey":"123456"}"#, #"{"confirmed":true}"#,
            #"{"startDate":"2026-01-01T00:00:00Z","endDate":"2027-01-01T00:00:00Z","types":["heartRate"]}"#,
            #"{"startDate":"2026-01-01T00:00:00Z","endDate":"2027-01-01T00:00:00Z","types":["bloodPressureSystolic"]}"#,
        ]
        return bodies.randomElement(using: &generator) ?? ""
    }
}
