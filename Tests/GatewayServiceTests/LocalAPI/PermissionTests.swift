import Foundation
import GatewayCommands
import Hummingbird
import LocalAccess
import Logging
import NIOHTTP1
import Testing

@testable import LocalAPI

/// Every scope, with and without a person, against every route of the real router.
@Suite("What each scope may do", .timeLimit(.minutes(5))) struct PermissionTests {
    /// What each route has to state. A route that is added fails the first test until it is listed here.
    static let stated: [String: Permission] = [
        "GET /": .open, "GET /page.css": .open, "GET /page.js": .open, "GET /words.js": .open,
        "GET /reports.js": .open,
        "GET /measure.js": .open, "GET /figures.js": .open, "GET /wall": .open, "GET /wall.css": .open,
        "GET /wall.js": .open,
        "GET /pairing.js": .open,
        "GET /lang/de.json": .open, "GET /lang/fr.json": .open, "GET /lang/es.json": .open, "GET /lang/ar.json": .open,
        "GET /api/v1/openapi.json": .open, "GET /health": .open, "GET /metrics": .metrics,
        "GET /api/v1/session": .open, "POST /api/v1/session": .open, "DELETE /api/v1/session": .read,
        "POST /api/v1/pair": .open, "GET /api/v1/status": .program, "GET /api/v1/health/types": .program,
        "POST /api/v1/health/data": .program, "GET /api/v1/readings": .read, "GET /api/v1/readings/{id}": .read,
        "GET /api/v1/summaries/body": .read, "GET /api/v1/reports/{kind}": .view, "GET /api/v1/view": .view,
        "GET /api/v1/devices": .read, "GET /api/v1/sources": .read, "GET /api/v1/sync": .readHousehold,
        "GET /api/v1/consent": .read, "GET /api/v1/gateway": .read, "GET /api/v1/events": .view,
        "POST /api/v1/readings/move": .owner, "POST /api/v1/readings/figures": .write,
        "POST /api/v1/readings": .write, "PATCH /api/v1/readings/{id}": .write,
        "GET /api/v1/setup": .owner, "POST /api/v1/consent": .owner, "POST /api/v1/destinations/{name}/test": .owner,
        "POST /api/v1/backups": .owner, "POST /api/v1/restart": .owner,
        "POST /api/v1/restore": .owner, "POST /api/v1/restore/pieces": .owner,
        "GET /setup": .open, "GET /setup/setup.css": .open, "GET /setup/setup.js": .open, "GET /setup/steps.js": .open,
        "GET /setup/words.js": .open, "GET /setup/languages.js": .open, "GET /setup/lang/de.json": .open,
        "GET /setup/lang/fr.json": .open, "GET /setup/lang/es.json": .open, "GET /setup/lang/ar.json": .open,
        "GET /setup/state": .open, "POST /setup/claim": .open,
        "GET /api/v1/settings": .owner, "PATCH /api/v1/settings": .owner, "POST /api/v1/settings/reload": .owner,
        "DELETE /api/v1/readings/{id}": .write,
        "POST /api/v1/scan": .write, "GET /api/v1/models": .write, "POST /api/v1/pairings": .write,
        "GET /api/v1/pairings/{id}": .write,
        "POST /api/v1/pairings/{id}/answer": .write, "DELETE /api/v1/pairings/{id}": .write,
    ]

    struct Caller: Sendable, CustomTestStringConvertible {
        var scope: AccessScope
        var hasPerson: Bool
        var isProgram: Bool
        var testDescription: String { "\(isProgram ? "program" : "page") \(scope)\(hasPerson ? " of one person" : "")" }

        static let all: [Caller] = [true, false].flatMap { isProgram in
            AccessScope.allCases.map { Caller(scope: $0, hasPerson: false, isProgram: isProgram) }
                + [.read, .write].map { Caller(scope: $0, hasPerson: true, isProgram: isProgram) }
        }

        /// The refusal that a route has to answer with; `nil`: it lets the caller in.
        func refusal(_ permission: Permission) -> String? {
            switch permission {
            case .open: nil
            case .read, .view: nil
            case .program: isProgram ? nil : "unauthorized"
            case .readHousehold: hasPerson ? "household_only" : nil
            case .write: scope == .read ? "scope_too_small" : nil
            case .metrics, .owner: scope == .owner ? nil : "scope_too_small"
            }
        }
    }

    @Test("every route of the router states its permission, and states what is listed here")
    func statedPermissions() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let server = LocalServer(
            gateway: bench.gateway, door: bench.door, hub: bench.hub, counters: bench.counters, isLocked: { false },
            logger: .init(label: "quiet"))
        let (router, permissions) = server.guarded()
        #expect(Set(router.routes.map(\.description)) == Set(permissions.keys))
        #expect(permissions == Self.stated)
        try await bench.stop()
    }

    @Test("each caller gets into the routes that its scope and person allow, and into no other", arguments: Caller.all)
    func matrix(_ caller: Caller) async throws {
        let house = try await Household(2)
        let bench = house.api
        let grant = try #require(AccessGrant(caller.scope, person: caller.hasPerson ? house.people[0] : nil))
        func admit() async throws -> [(String, String)] {
            let (token, client) = try await bench.door.clients.admit(
                "x", as: caller.isProgram ? .client : .page, for: grant, now: Date(), expiresAt: Date() + 600)
            guard !caller.isProgram else { return [("Authorization", "Bearer \(token.text)")] }
            return [
                ("Cookie", "__Host-healthrelay=\(token.text)"),
                ("X-CSRF-Token", bench.door.csrfToken(of: "page-\(client.number)")),
            ]
        }
        var headers = try await admit()
        let refusals: Set = ["unauthorized", "household_only", "scope_too_small", "other_person"]
        // Signing out comes last.
        let routes = Self.stated.sorted { $0.key > $1.key }.filter { $0.key != "DELETE /api/v1/session" }
        for (place, (route, permission)) in routes.enumerated() {
            // A program may ask sixty times in a minute, and there are more routes than that.
            if place % 40 == 39 { headers = try await admit() }
            let parts = route.split(separator: " ").map(String.init)
            let path = parts[1].replacing("{id}", with: "00000000").replacing("{kind}", with: "bp").replacing(
                "{name}", with: "vital")
            let body = parts[0] == "POST" ? (path.hasSuffix("scan") ? #"{"seconds":1}"# : "{}") : nil
            let answer = try await bench.peek(path, HTTPMethod(rawValue: parts[0]), headers: headers, body: body)
            if let refusal = caller.refusal(permission) {
                #expect(answer.code == refusal, "\(route): \(answer.status) \(answer.text.prefix(200))")
                #expect(answer.status == (refusal == "unauthorized" ? 401 : 403), "\(route)")
            } else {
                #expect(!(answer.code.map(refusals.contains) ?? false), "\(route): \(answer.text.prefix(200))")
                #expect(![401, 403].contains(answer.status), "\(route): \(answer.status) \(answer.text.prefix(200))")
            }
        }
        let session = try await bench.send("/api/v1/session", headers: headers).object
        #expect(session["scope"] as? String == caller.scope.rawValue && session["signed_in"] as? Bool == true)
        #expect(session["person"] as? String == (caller.hasPerson ? house.people[0] : nil))
        let end = try await bench.send("/api/v1/session", .DELETE, headers: headers)
        #expect(end.status == (caller.isProgram ? 409 : 204))
        try await house.stop()
    }
}
