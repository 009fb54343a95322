import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Testing

@testable import LocalAPI

/// Entering, correcting and withdrawing readings over the local API.
@Suite("Entries over the local API", .timeLimit(.minutes(5))) struct EntryRouteTests {
    private static func body(
        _ value: String = "\"5.60\"", time: String = "2026-11-20T06:30:00Z", _ more: String = ""
    ) -> String {
        #"{"kind":"glucose","value":\#(value),"unit":"mmol/L","time":"\#(time)"\#(more)}"#
    }

    @Test("an entry is created once, corrected and withdrawn")
    func course() async throws {
        let house = try await Household(2)
        let token = try await house.token(.write, 0)
        func send(_ path: String, _ method: HTTPMethod, _ body: String?) async throws -> APIBench.Answer {
            try await house.api.send("/api/v1/readings" + path, method, token: token, body: body)
        }
        let first = try await send("", .POST, Self.body())
        #expect(first.status == 201 && first.text.hasPrefix(#"{"outcome":"added","reading":{"id":"#), "\(first.text)")
        #expect(first.text.contains(#""glucose":{"value":5.60,"unit":"mmol/L"}"#))
        #expect(first.text.contains("\"person\":\"\(house.people[0])\""))
        let again = try await send("", .POST, Self.body())
        #expect(again.status == 200 && again.text.hasPrefix(#"{"outcome":"present""#))
        let id = try #require((first.object["reading"] as? [String: any Sendable])?["id"] as? String)
        let corrected = try await send("/" + id, .PATCH, #"{"value":6.5,"note":"typed wrong"}"#)
        #expect(corrected.status == 200 && corrected.text.contains("\"corrects\":\"\(id)\""), "\(corrected.text)")
        let next = try #require((corrected.object["reading"] as? [String: any Sendable])?["id"] as? String)
        let withdrawn = try await send("/" + next, .DELETE, nil)
        #expect(withdrawn.status == 200 && withdrawn.text.contains(#""excluded":"withdrawn""#))
        #expect(withdrawn.text.hasPrefix(#"{"outcome":"withdrawn""#), "\(withdrawn.text)")
        // A request whose answer was lost, and a reading that had been corrected: nothing changes.
        for former in [next, id] {
            let twice = try await send("/" + former, .DELETE, nil)
            #expect(twice.status == 200 && twice.text.hasPrefix(#"{"outcome":"present""#), "\(twice.text)")
        }
        #expect(try await send("/" + next, .PATCH, #"{"value":7}"#).code == "entry_withdrawn")
        try await house.stop()
    }

    @Test("what is unusual has to be confirmed; what is impossible or malformed is refused")
    func refused() async throws {
        let house = try await Household(1)
        let token = try await house.token(.write, 0)
        func send(_ body: String) async throws -> APIBench.Answer {
            try await house.api.send("/api/v1/readings", .POST, token: token, body: body)
        }
        let unusual = try await send(Self.body("100"))
        #expect(unusual.status == 422 && unusual.code == "unusual_entry")
        #expect(try await send(Self.body("100", time: "2026-11-20T06:30:00Z", #","confirm":true"#)).status == 201)
        for body in [
            Self.body("-5.6"), Self.body("\"NaN\""), Self.body("true"), Self.body("[5.6]"), Self.body("1e300"),
            Self.body("5.6", time: "2199-01-01T00:00:00Z"), Self.body("5.6", time: "yesterday"),
            Self.body("5.6", time: "2026-11-20T06:30:00Z", #","note":5"#),
            Self.body("5.6", time: "2026-11-20T06:30:00Z", #","at":"now""#),
            #"{"kind":"glucose","value":5.6,"unit":"mmol/L"}"#, #"{"kind":"glucose"}"#, "{}", "[]", "{",
        ] {
            let answer = try await send(body)
            #expect(answer.status == 400, "\(body): \(answer.text)")
        }
        #expect(try await send(Self.body("5.6") + String(repeating: " ", count: 1 << 20)).status == 413)
        try await house.stop()
    }

    @Test("a client enters for its own person, an owner for anybody, and nobody changes another's readings")
    func people() async throws {
        let house = try await Household(2)
        let hers = try await house.token(.write, 0)
        let household = try await house.token(.write, nil)
        let owner = try await house.token(.owner, nil)
        func send(_ person: String, _ token: String) async throws -> APIBench.Answer {
            try await house.api.send(
                "/api/v1/readings", .POST, token: token,
                body: Self.body("5.6", time: "2026-11-20T06:30:00Z", ",\"person\":\"\(person)\""))
        }
        #expect(try await send(house.people[1], hers).code == "other_person")
        #expect(try await send(house.people[0], hers).status == 201)
        let current = try await house.api.gateway.store.currentUser().clientUserID
        let other = house.people.first { $0 != current } ?? ""
        #expect(try await send(other, household).code == "other_person")
        // Nor by asking for the other's page.
        let asking = try await house.api.send(
            "/api/v1/readings?person=\(other)", .POST, token: household,
            body: Self.body("5.6", time: "2026-11-20T06:30:00Z"))
        #expect(asking.code == "other_person")
        #expect(try await send("nobody", owner).code == "no_such_user")
        let his = try await send(house.people[1], owner)
        #expect(his.status == 201)
        let id = try #require((his.object["reading"] as? [String: any Sendable])?["id"] as? String)
        for method in [HTTPMethod.PATCH, .DELETE] {
            let answer = try await house.api.send(
                "/api/v1/readings/" + id, method, token: hers, body: method == .PATCH ? #"{"value":7}"# : nil)
            #expect(answer.code == "no_such_reading")
        }
        let others = try await house.api.send(
            "/api/v1/readings?person=\(other)", .POST, token: owner,
            body: Self.body("5.9", time: "2026-11-20T07:30:00Z"))
        let entered = try #require((others.object["reading"] as? [String: any Sendable])?["id"] as? String)
        for method in [HTTPMethod.PATCH, .DELETE] {
            let answer = try await house.api.send(
                "/api/v1/readings/\(entered)?person=\(other)", method, token: household,
                body: method == .PATCH ? #"{"value":7}"# : nil)
            #expect(answer.code == "other_person", "\(answer.object)")
        }
        let reader = try await house.token(.read, 0)
        #expect(try await send(house.people[0], reader).code == "scope_too_small")
        try await house.stop()
    }

    @Test("what a device measured is neither corrected nor withdrawn")
    func measured() async throws {
        let bench = try await APIBench(tls: false)
        let token = try await bench.token()
        let id = try #require(try await bench.gateway.store.query(.init(limit: 1)).readings.first?.id)
        #expect(try await bench.send("/api/v1/readings/\(id)", .DELETE, token: token).code == "not_entered_by_hand")
        bench.isLocked = true
        let locked = try await bench.send("/api/v1/readings", .POST, token: token, body: Self.body())
        #expect(locked.status == 423)
        try await bench.stop()
    }
}
