import AsyncHTTPClient
import Foundation
import HealthReadings
import Hummingbird
import LocalAccess
import Logging
import NIOCore
import ReadingStore
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import LocalAPI

/// Every surface through which a reading can leave the gateway, against every event after which it must not.
///
/// Marker values and names go through the real store. After an event the bytes of every answer are searched for them.
/// The surfaces come from the router's own route table and from the cases of ``Operation``: a new one fails the first
/// test, or does not compile, until it is declared here.
@Suite("No surface yields what it must not", .serialized, .timeLimit(.minutes(10)))
struct SilenceMatrixTests {
    /// What yields data no more.
    enum Event: String, CaseIterable {
        case revoked, expired, erased, consentWithdrawn
        /// A client that belongs to another person.
        case otherPerson
    }

    /// A program may ask sixty times in a minute, and there are more routes than that: after so many it is another one.
    static let mostRequests = 25

    /// The declared routes, each with whether it shows readings to a client that may see them.
    static let routes: [String: Bool] = [
        "GET /": false, "GET /page.css": false, "GET /page.js": false, "GET /words.js": false,
        "GET /reports.js": false,
        "GET /measure.js": false, "GET /figures.js": false, "GET /wall": false, "GET /wall.css": false,
        "GET /wall.js": false,
        "GET /pairing.js": false,
        "GET /lang/de.json": false, "GET /lang/fr.json": false, "GET /lang/es.json": false, "GET /lang/ar.json": false,
        "GET /api/v1/openapi.json": false, "GET /health": false, "GET /metrics": false,
        "GET /api/v1/session": false, "POST /api/v1/session": false, "DELETE /api/v1/session": false,
        "POST /api/v1/pair": false, "GET /api/v1/status": false, "GET /api/v1/health/types": false,
        "POST /api/v1/health/data": true, "GET /api/v1/readings": true, "GET /api/v1/readings/{id}": true,
        "GET /api/v1/summaries/body": true, "GET /api/v1/reports/{kind}": true,
        "POST /api/v1/readings/move": false, "POST /api/v1/readings/figures": true,
        "GET /api/v1/setup": false, "POST /api/v1/consent": false, "POST /api/v1/destinations/{name}/test": false,
        "POST /api/v1/backups": false, "POST /api/v1/restart": false,
        "POST /api/v1/restore": false, "POST /api/v1/restore/pieces": false,
        "GET /setup": false, "GET /setup/setup.css": false, "GET /setup/setup.js": false, "GET /setup/steps.js": false,
        "GET /setup/words.js": false, "GET /setup/languages.js": false, "GET /setup/lang/de.json": false,
        "GET /setup/lang/fr.json": false, "GET /setup/lang/es.json": false, "GET /setup/lang/ar.json": false,
        "GET /setup/state": false, "POST /setup/claim": false,
        "GET /api/v1/settings": false, "PATCH /api/v1/settings": false, "POST /api/v1/settings/reload": false,
        "POST /api/v1/readings": false, "PATCH /api/v1/readings/{id}": true, "DELETE /api/v1/readings/{id}": true,
        "GET /api/v1/devices": false, "GET /api/v1/sources": false, "GET /api/v1/sync": false,
        "GET /api/v1/consent": false, "GET /api/v1/gateway": false, "GET /api/v1/events": true,
        "GET /api/v1/view": true,
        "POST /api/v1/scan": false, "GET /api/v1/models": false, "POST /api/v1/pairings": false,
        "GET /api/v1/pairings/{id}": false,
        "POST /api/v1/pairings/{id}/answer": false, "DELETE /api/v1/pairings/{id}": false,
    ]

    @Test("every route there is is declared here, and every one declared is there")
    func declared() async throws {
        let bench = try await Marked()
        let server = LocalServer(
            gateway: bench.api.gateway, door: bench.api.door, hub: bench.api.hub, counters: bench.api.counters,
            isLocked: { false }, logger: .init(label: "quiet"))
        #expect(Set(server.router().routes.map(\.description)) == Set(Self.routes.keys))
        try await bench.stop()
    }

    @Test("who was served by a route that shows readings is erased from the audit log with the person")
    func audited() {
        func paths(_ routes: some Sequence<String>) -> Set<String> {
            Set(routes.compactMap { $0.split(separator: " ").last.map(String.init) })
        }
        let audited = Set(AuditLog.readingRoutes)
        #expect(paths(Self.routes.filter(\.value).keys).isSubset(of: audited))
        #expect(audited.isSubset(of: paths(Self.routes.keys)))
    }

    @Test("the markers are there before anything happens: a route that is declared to show readings shows them")
    func control() async throws {
        let bench = try await Marked()
        var credential = try await bench.program()
        for (place, (route, shows)) in Self.routes.filter({ $0.key != "GET /api/v1/events" }).enumerated() {
            if place % Self.mostRequests == 0 { credential = try await bench.program() }
            let found = try await bench.answer(route, credential).contains(anyOf: Marked.values)
            #expect(found == shows, "\(route)")
        }
        for last in [nil, "0"] {
            let listener = try await bench.listen(try await bench.program(), last: last)
            try await bench.measure(until: [listener])
            #expect(listener.text.contains(anyOf: Marked.values))
            listener.end()
        }
        #expect(try await bench.printed(.query(.init())).contains(anyOf: Marked.values))
        #expect(try await bench.printed(.user(.show)).contains(Marked.person))
        #expect(try await bench.printed(.device(.list)).contains(Marked.device))
        #expect(try await bench.exported().contains(anyOf: Marked.values))
        try await bench.stop()
    }

    @Test(
        "a client that was put out, or whose time is over, gets nothing of anybody from any route",
        arguments: [true, false])
    func put(out isRevoked: Bool) async throws {
        let bench = try await Marked()
        let life: TimeInterval = isRevoked ? 3600 : 8
        let credentials = [try await bench.program(life), try await bench.browser(life)]
        var listeners: [Listener] = []
        for credential in credentials {
            listeners.append(try await bench.listen(credential, last: nil))
            listeners.append(try await bench.listen(credential, last: "0"))
        }
        try await bench.measure(until: listeners)
        if isRevoked {
            _ = try await bench.printed(.client(.revoke(nil)))
        } else {
            try await Task.sleep(for: .seconds(life + 0.5))
        }
        for listener in listeners { listener.forget() }
        try await bench.measure()
        for credential in credentials {
            for route in Self.routes.keys.sorted() {
                let text = try await bench.answer(route, credential)
                #expect(!text.contains(anyOf: Marked.values + Marked.names), "\(route): \(text.prefix(300))")
            }
        }
        try await Task.sleep(for: .seconds(2))
        for listener in listeners {
            #expect(!listener.text.contains(anyOf: Marked.values + Marked.names), "a stream that was open")
        }
        for listener in listeners { listener.end() }
        try await bench.stop()
    }

    @Test("what was erased is yielded by no route, stream or command, not even to those who may read")
    func erased() async throws {
        let bench = try await Marked()
        var credential = try await bench.program()
        let listener = try await bench.listen(credential, last: nil)
        try await bench.measure(until: [listener])
        _ = try await bench.printed(.store(.forget(ForgetOperation(user: Marked.person))))
        try await Task.sleep(for: .seconds(1))
        listener.forget()
        for (place, route) in Self.routes.keys.sorted().enumerated() {
            if place % Self.mostRequests == 0 { credential = try await bench.program() }
            let text = try await bench.answer(route, credential, last: "0")
            #expect(!text.contains(anyOf: Marked.values + [Marked.person]), "\(route): \(text.prefix(300))")
        }
        for operation in Self.operations {
            let text = try await bench.printed(operation)
            #expect(!text.contains(anyOf: Marked.values + [Marked.person]), "\(operation): \(text.prefix(300))")
        }
        #expect(!listener.text.contains(anyOf: Marked.values))
        listener.end()
        #expect(try await !bench.exported().contains(anyOf: Marked.values + [Marked.person]))
        try await bench.stop()
    }

    @Test("what is no longer consented to is served by no route, whoever asks; the owner's own commands show it")
    func consentWithdrawn() async throws {
        let bench = try await Marked()
        var credential = try await bench.program()
        let listener = try await bench.listen(credential, last: nil)
        try await bench.measure(until: [listener])
        _ = try await bench.printed(.consent(.set(kinds: [], granted: false, user: nil)))
        listener.forget()
        try await bench.measure()
        for (place, route) in Self.routes.keys.sorted().enumerated() {
            if place % Self.mostRequests == 0 { credential = try await bench.program() }
            let text = try await bench.answer(route, credential, last: "0")
            // Consent is about readings; whose devices there are is no reading.
            #expect(!text.contains(anyOf: Marked.values), "\(route): \(text.prefix(300))")
        }
        try await Task.sleep(for: .seconds(1))
        #expect(!listener.text.contains(anyOf: Marked.values))
        listener.end()
        #expect(try await bench.printed(.query(.init())).contains(anyOf: Marked.values))
        try await bench.stop()
    }

    @Test("another person's client gets nothing of this person from any route or stream, not by asking for them either")
    func otherPerson() async throws {
        let bench = try await Marked()
        let store = bench.api.gateway.store
        try await store.setPeople([StorePerson(clientUserID: "neighbour", timeZone: "Europe/Berlin", shares: [])])
        let key = try #require(try await store.user("neighbour")).key
        func grant(_ scope: AccessScope) throws -> AccessGrant {
            try #require(AccessGrant(scope, person: "neighbour"))
        }
        let credentials = [
            try await bench.program(for: grant(.read)), try await bench.browser(for: grant(.write)),
        ]
        let owner = try await bench.listen(try await bench.program(), last: nil)
        let ring = "0"
        // No more streams than the test's own program keeps connections.
        var listeners = [try await bench.listen(credentials[0], last: "0")]
        for credential in credentials {
            for last in [nil, ring] { listeners.append(try await bench.listen(credential, last: last)) }
        }
        try await bench.measure(until: [owner])
        #expect(owner.text.contains(anyOf: Marked.values))
        // A word that they may see, behind everything that they may not.
        bench.api.hub.post("sync", to: .person(key), .object(["end": true]))
        #expect(await eventually { listeners.allSatisfy { $0.text.contains("\"end\"") } })
        for (number, first) in credentials.enumerated() {
            var credential = first
            // A browser's session ends with the route that signs it out.
            let routes = Self.routes.keys.sorted { $0.hasPrefix("GET") && !$1.hasPrefix("GET") }
            let inOrder = routes.filter { $0 != "DELETE /api/v1/session" } + ["DELETE /api/v1/session"]
            for (place, route) in inOrder.enumerated() {
                if number == 0, place % Self.mostRequests == 0 {
                    credential = try await bench.program(for: grant(.read))
                }
                let text = try await bench.answer(route, credential, last: ring)
                #expect(!text.contains(anyOf: Marked.values + Marked.names), "\(route): \(text.prefix(300))")
                let shows = [
                    "/api/v1/readings", "/api/v1/summaries", "/api/v1/reports", "/api/v1/view", "/api/v1/health/data",
                ]
                guard shows.contains(where: { route.contains($0) }) else { continue }
                let asked = try await bench.answer(route, credential, query: "?person=" + Marked.person)
                #expect(!asked.contains(anyOf: Marked.values + Marked.names), "\(route): \(asked.prefix(300))")
            }
        }
        for listener in listeners {
            #expect(!listener.text.contains(anyOf: Marked.values + Marked.names), "\(listener.text.prefix(300))")
            listener.end()
        }
        owner.end()
        try await bench.stop()
    }

    /// Operations that show what is stored, for the event that takes it away.
    static let operations: [GatewayCommands.Operation] = [
        .query(.init()), .heartRate(.init()), .summary(.init()), .report(.init(.bp)), .report(.init(.glucose)),
        .metrics(.init(maxAge: 3_153_600_000)), .user(.show),
        .identity(.show),
        .sync(.status),
        .store(.stats),
        .device(.list), .consent(.show(user: nil)), .subscriber(.list),
        .subscriber(.watch(SubscriberWatch(name: "matrix", fromBeginning: true, once: true))),
        .figureLink(.list), .client(.list), .client(.audit(limit: 1000)), .client(.invite(.init())), .page,
    ].filter(isShowing)

    /// Whether an operation shows what is stored. Each case is named, so that a new one does not compile until somebody
    /// has thought about it.
    static func isShowing(_ operation: GatewayCommands.Operation) -> Bool {
        switch operation {
        case .query, .heartRate, .summary, .report, .metrics, .page, .device(.list), .user(.show), .identity,
            .sync(.status),
            .store(.stats),
            .consent(.show),
            .client, .figureLink, .subscriber(.list), .subscriber(.watch):
            true
        // Its file is looked into by itself.
        case .store(.export): false
        // It shows what a phone has, and asks it each time.
        case .healthSync: false
        // It shows accounts, and counts what it fetches; no reading.
        case .cloud: false
        // These ask the server, which has its own copy until it is told.
        case .source(.list), .source(.connect), .source(.revoke), .source(.link), .user(.create), .user(.set): false
        // These print what they change or what is wrong, no reading.
        case .user(.clear), .user(.remove), .store(.verify), .store(.prune), .store(.rotateKey), .store(.trustClock),
            .store(.forget),
            .sync(.now), .importing, .sync(.retry), .sync(.enable), .sync(.disable), .consent(.set), .doctor, .auth,
            .connect,
            .destination, .fleet, .settings, .setupToken, .entry, .subscriber(.remove), .move, .figures, .backup:
            false
        // These show what comes, not what is stored: the stream is looked at by itself.
        case .sync(.watch), .device(.watch), .device(.monitor), .device(.scan), .device(.pair), .device(.unpair),
            .device(.setClock), .device(.read), .device(.measure), .device(.record), .device(.probe), .device(.report),
            .sensor:
            false
        }
    }
}
