import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Testing

@testable import LocalAPI

@Suite("Leaving readings out of figures over the local API", .timeLimit(.minutes(5))) struct FigureRouteTests {
    private static let path = "/api/v1/readings/figures"

    @Test("a reading is left out and taken back in; its events, its document, its report and its CSV tell so")
    func course() async throws {
        let house = try await Household(2)
        let (writer, reader) = (try await house.token(.write, 0), try await house.token(.read, 0))
        let mine = try await house.glucose(0)
        let body = "{\"ids\":[\"\(mine)\"],\"left_out\":true,\"reason\":\"hands not washed\"}"
        #expect(try await house.api.send(Self.path, .POST, token: reader, body: body).code == "scope_too_small")
        let live = try await house.api.events(token: reader) {
            let answer = try await house.api.send(Self.path, .POST, token: writer, body: body)
            #expect(answer.status == 200 && answer.object["changed"] as? Int == 1, "\(answer.text)")
        } until: {
            $0.contains("event: reading")
        }
        #expect(
            live.contains("\"left_out\":{\"reason\":\"hands not washed\",\"by\":") && live.contains("\"revision\":2"))
        let shown = try await house.get("/api/v1/readings/\(mine)", reader)
        #expect(
            shown.text.contains("\"left_out\":{\"reason\":\"hands not washed\"")
                && shown.text.contains("\"excluded\":null"))
        let report = try await house.get("/api/v1/reports/glucose?format=json&period=3650d", reader)
        #expect(report.text.contains("{\"reason\":\"by_person\",\"readings\":1}"), "\(report.text)")
        #expect(!report.text.contains(mine.description))
        let fragment = try await house.get("/api/v1/reports/glucose?format=fragment&period=3650d", reader)
        #expect(
            fragment.text.contains("1 by a person&#39;s choice") || fragment.text.contains("1 by choice of a person"))
        #expect(fragment.text.contains("data-reading=\"\(mine)\" data-left-out"), "\(fragment.text)")
        #expect(fragment.text.contains("hands not washed"))

        let other = "{\"ids\":[\"\(mine)\"],\"left_out\":true,\"reason\":\"slipped\",\"expected\":\"counted\"}"
        let late = try await house.api.send(Self.path, .POST, token: writer, body: other)
        #expect(late.status == 409 && late.code == "left_out_meanwhile", "\(late.text)")
        #expect(late.text.contains("hands not washed") && late.text.contains("slipped"))
        #expect(try await house.api.gateway.store.reading(mine)?.leftOut?.reason == "hands not washed")

        let back = "{\"ids\":[\"\(mine)\"],\"left_out\":false}"
        #expect(try await house.api.send(Self.path, .POST, token: writer, body: back).object["changed"] as? Int == 1)
        #expect(try await house.api.send(Self.path, .POST, token: writer, body: back).object["changed"] as? Int == 0)
        #expect(try await !house.get("/api/v1/readings/\(mine)", reader).text.contains("left_out"))
        #expect(
            try await house.get("/api/v1/reports/glucose?format=json&period=3650d", reader).text
                .contains(mine.description))
        try await house.stop()
    }

    @Test("what is malformed, unknown or another person's changes nothing")
    func refused() async throws {
        let house = try await Household(2)
        let (mine, other) = (try await house.glucose(0), try await house.glucose(1))
        let writer = try await house.token(.write, 0)
        let long = String(repeating: "a", count: 201)
        for (body, status, code) in [
            ("{}", 400, "bad_request"), ("{\"ids\":[\"\(mine)\"]}", 400, "bad_request"),
            ("{\"ids\":[],\"left_out\":true}", 400, "bad_request"),
            ("{\"ids\":[\"x\"],\"left_out\":true}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"left_out\":\"yes\"}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"left_out\":false,\"reason\":\"x\"}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"left_out\":true,\"expected\":\"x\"}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"left_out\":false,\"expected\":\"counted\"}", 400, "bad_request"),
            ("{\"ids\":[\"\(mine)\"],\"left_out\":true,\"reason\":\"\(long)\"}", 400, "invalid_reason"),
            ("{\"ids\":[\"\(mine)\"],\"left_out\":true,\"reason\":\"a\\nb\"}", 400, "invalid_reason"),
            ("{\"ids\":[\"\(mine)\",\"\(other)\"],\"left_out\":true}", 404, "no_such_reading"),
            ("{\"ids\":[\"00000000000000000000000000000000\"],\"left_out\":true}", 404, "no_such_reading"),
        ] as [(String, Int, String)] {
            let answer = try await house.api.send(Self.path, .POST, token: writer, body: body)
            #expect(answer.status == status && answer.code == code, "\(body): \(answer.text)")
        }
        for id in [mine, other] { #expect(try await house.api.gateway.store.reading(id)?.leftOut == nil) }
        try await house.stop()
    }
}
