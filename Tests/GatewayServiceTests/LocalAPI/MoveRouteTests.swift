import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Testing

@testable import LocalAPI

@Suite("Moving readings over the local API", .timeLimit(.minutes(5))) struct MoveRouteTests {
    @Test("an owner moves readings; the one person's clients see them go, the other's see them come, live and later")
    func course() async throws {
        let house = try await Household(2)
        let owner = try await house.token(.owner, nil)
        let (hers, his) = (try await house.token(.read, 0), try await house.token(.read, 1))
        let mine = try await house.glucose(0)
        _ = try await house.glucose(0)
        @Sendable func move(_ body: String, _ token: String) async throws -> APIBench.Answer {
            try await house.api.send("/api/v1/readings/move", .POST, token: token, body: body)
        }
        let body = "{\"ids\":[\"\(mine)\"],\"to_person\":\"\(house.people[1])\"}"
        #expect(try await move(body, house.token(.write, nil)).code == "scope_too_small")
        #expect(try await move(body, hers).code == "scope_too_small")
        let live = try await house.api.events(token: hers) {
            let answer = try await move(body, owner)
            #expect(answer.status == 200 && answer.object["moved"] as? Int == 1, "\(answer.text)")
        } until: {
            $0.contains("event: left")
        }
        #expect(live.contains("{\"id\":\"\(mine)\",\"kind\":\"glucose\",") && !live.contains("event: reading"))
        // Whoever comes back later is told the same, and is not shown it any more.
        let later = try await house.api.events(token: hers, last: "0") { $0.contains("event: left") }
        #expect(later.components(separatedBy: mine.description).count == 2, "\(later)")
        let gained = try await house.api.events(token: his, last: "0") { $0.contains("event: reading") }
        #expect(gained.contains(mine.description) && gained.contains("\"person\":\"\(house.people[1])\""))
        let everybody = try await house.api.events(token: owner, last: "0") {
            $0.components(separatedBy: "event: reading").count > 2
        }
        #expect(!everybody.contains("event: left") && everybody.contains("\"revision\":2"))
        #expect(try await house.get("/api/v1/readings/\(mine)", hers).status == 404)
        #expect(try await house.get("/api/v1/readings/\(mine)", his).status == 200)
        try await house.stop()
    }

    @Test("what is malformed or unknown moves nothing")
    func refused() async throws {
        let house = try await Household(2)
        let owner = try await house.token(.owner, nil)
        let mine = try await house.glucose(0)
        let to = "\"to_person\":\"\(house.people[1])\""
        for (body, status, code) in [
            ("{}", 400, "bad_request"), ("{\"ids\":[],\(to)}", 400, "bad_request"),
            ("{\"ids\":[\"x\"],\(to)}", 400, "bad_request"), ("{\"ids\":[7],\(to)}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"]}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"slot\":1,\(to)}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"to_person\":\"nobody\"}", 404, "no_such_user"),
            ("{\"ids\":[\"\(mine)\",\"00000000000000000000000000000000\"],\(to)}", 404, "no_such_reading"),
            ("{\"device\":\"00:00:00:00:00:01\",\(to)}", 404, "no_such_device"),
            ("{\"device\":\"\(Household.cuff)\",\"slot\":256,\(to)}", 400, "bad_request"),
            ("{\"device\":\"\(Household.cuff)\",\"from\":\"then\",\(to)}", 400, "bad_request"),
        ] as [(String, Int, String)] {
            let answer = try await house.api.send("/api/v1/readings/move", .POST, token: owner, body: body)
            #expect(answer.status == status && answer.code == code, "\(body): \(answer.text)")
        }
        #expect(try await house.api.gateway.store.reading(mine)?.person == house.people[0])
        try await house.stop()
    }
}
