import EmulatedRadio
import Foundation
import GATTClient
import GatewayCommands
import HealthReadings
import LogLines
import NIOHTTP1
import ReadingStore
import TestSupport
import Testing

@Suite("Pairing a meter from the page", .timeLimit(.minutes(5))) struct PairingRouteTests {
    @Test("the meter is found, its digits are asked for and typed, and the bond is proven")
    func passkey() async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+00001808", pairing: .passkey(13_137))
        let bench = try await APIBench(tls: false, meters: [meter], captures: [])
        let csrf = try #require(try await bench.send("/api/v1/session").object["csrf_token"] as? String)
        let headers = [("X-CSRF-Token", csrf)]
        let scan = try await bench.send("/api/v1/scan", .POST, headers: headers, body: #"{"seconds":2}"#)
        #expect(scan.text.contains("C0:00:00:00:18:08"))

        let body = #"{"address":"C0:00:00:00:18:08"}"#
        let begun = try await bench.send("/api/v1/pairings", .POST, headers: headers, body: body)
        #expect(begun.status == 202)
        let path = "/api/v1/pairings/" + (try #require(begun.object["id"] as? String))
        #expect(try await bench.send("/api/v1/pairings", .POST, headers: headers, body: body).status == 409)
        let asked = try await eventually { try await bench.send(path).object["state"] as? String == "question" }
        #expect(asked)
        let question = try await bench.send(path).object["question"] as? [String: any Sendable]
        #expect(question?["kind"] as? String == "passkey" && question?["digits"] is NSNull)
        for wrong in [#"{"passkey":"12345"}"#, #"{"confirmed":true}"#, "{}"] {
            let answer = try await bench.send(path + "/answer", .POST, headers: headers, body: wrong)
            #expect([400, 409].contains(answer.status))
        }
        let typed = try await bench.send(path + "/answer", .POST, headers: headers, body: #"{"passkey":"013 137"}"#)
        #expect(typed.status == 204)
        let done = try await eventually { try await bench.send(path).object["state"] as? String == "done" }
        #expect(done)
        #expect(try await bench.send(path).object["proven"] as? Bool == true && meter.isBonded)
        #expect(!bench.log.text.contains("13137"))
        try await bench.stop()
    }

    @Test(
        "the model that a person reads on the label goes with the pairing; what it cannot be is refused as by the command"
    )
    func model() async throws {
        let monitor = EmulatedMeter("C0:00:00:00:18:10", name: "BLESmart_0000021A28FF", services: [0x1810])
        let bench = try await APIBench(tls: false, meters: [monitor], captures: [])
        let csrf = try #require(try await bench.send("/api/v1/session").object["csrf_token"] as? String)
        let headers = [("X-CSRF-Token", csrf)]
        let models = try #require(
            try await bench.send("/api/v1/models").object["models"] as? [[String: any Sendable]])
        #expect(
            models.contains { $0["id"] as? String == "omron_hem7143t1" && $0["certainty"] as? String == "verified" })
        #expect(models.allSatisfy { $0["id"] as? String != "omron_blesmart" })
        func pair(_ model: String) async throws -> [String: any Sendable] {
            let begun = try await bench.send(
                "/api/v1/pairings", .POST, headers: headers,
                body: #"{"address":"C0:00:00:00:18:10","model":"\#(model)"}"#)
            #expect(begun.status == 202)
            let path = "/api/v1/pairings/" + (try #require(begun.object["id"] as? String))
            let isOver = try await eventually {
                ["done", "failed"].contains(try await bench.send(path).object["state"] as? String)
            }
            #expect(isOver)
            return try await bench.send(path).object
        }
        let refused = try await pair("accuchek_guide")
        #expect((refused["error"] as? [String: any Sendable])?["code"] as? String == "model_not_chosen")
        #expect(!monitor.isBonded)
        let paired = try await pair("omron_hem7143t1")
        #expect(paired["state"] as? String == "done" && monitor.isBonded, "\(paired)")
        let devices = try await bench.gateway.store.devices()
        #expect(devices.map(\.description.model) == ["omron_hem7143t1"])
        // A model under another name would be left out in silence.
        for member in [#""model":7"#, #""model_id":"omron_hem7143t1""#] {
            let wrong = try await bench.send(
                "/api/v1/pairings", .POST, headers: headers, body: "{\"address\":\"C0:00:00:00:18:10\",\(member)}")
            #expect(wrong.status == 400, "\(member)")
        }
        try await bench.stop()
    }

    @Test("a pairing that is stopped asks nothing more, and the next one may begin")
    func stopped() async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+00001808", pairing: .passkey(1))
        let bench = try await APIBench(tls: false, meters: [meter], captures: [])
        let csrf = try #require(try await bench.send("/api/v1/session").object["csrf_token"] as? String)
        let headers = [("X-CSRF-Token", csrf)]
        let body = #"{"address":"C0:00:00:00:18:08"}"#
        let begun = try await bench.send("/api/v1/pairings", .POST, headers: headers, body: body)
        let path = "/api/v1/pairings/" + (try #require(begun.object["id"] as? String))
        let asked = try await eventually { try await bench.send(path).object["state"] as? String == "question" }
        #expect(asked)
        #expect(try await bench.send(path, .DELETE, headers: headers).status == 204)
        let failed = try await eventually { try await bench.send(path).object["state"] as? String == "failed" }
        #expect(failed && !meter.isBonded)
        #expect(try await bench.send("/api/v1/pairings", .POST, headers: headers, body: body).status == 202)
        for stray in ["nobody", "..", "%00"] {
            #expect(try await bench.send("/api/v1/pairings/\(stray)").status == 404)
        }
        for address in ["", "x", "C0:00", "C0:00:00:00:18:08; rm -rf /"] {
            let answer = try await bench.send(
                "/api/v1/pairings", .POST, headers: headers, body: #"{"address":"\#(address)"}"#)
            #expect(answer.status == 400)
        }
        try await bench.stop()
    }
}
