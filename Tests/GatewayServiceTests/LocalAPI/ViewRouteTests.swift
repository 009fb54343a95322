import GatewayCommands
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Testing

@testable import LocalAPI

@Suite("A person's newest values over the local API", .timeLimit(.minutes(5))) struct ViewRouteTests {
    @Test("the newest value that counts is shown in the person's unit; a newer one that doesn't count is named")
    func newest() async throws {
        let house = try await Household(1)
        let (owner, link) = (try await house.token(.owner, nil), house.secret(try await house.link(0).url))
        let (first, second) = (try await house.glucose(0), try await house.glucose(0))
        let measured = try await house.get("/api/v1/view", owner)
        let rest = #""beyond":null,"pulse":null,"source":"blood","measure":null,"estimate":false,"passed_over":"#
        #expect(measured.text.contains(#""value":"198.7","unit":"mg/dL",\#(rest)null"#), "\(measured.text)")
        #expect(try await house.get("/api/v1/gateway", owner).text.contains(#""units":{"glucose":null,"#))

        let change = #"{"set":{"users.person-0.reports.glucose_unit":"mmol/L"}}"#
        let changed = try await house.api.send("/api/v1/settings", .PATCH, token: owner, body: change)
        #expect(changed.status == 200, "\(changed.text)")
        let body = "{\"ids\":[\"\(second)\"],\"left_out\":true,\"reason\":\"hands not washed\"}"
        #expect(
            try await house.api.send("/api/v1/readings/figures", .POST, token: owner, body: body).status == 200)
        let view = try await house.get("/api/v1/view", owner)
        let time = try #require(try await house.api.gateway.store.reading(second)?.time.instant)
        let (value, newer) = (#""value":"11.0","unit":"mmol/L",\#(rest)"#, #"{"time":"\#(time)","reason":"by_person","#)
        #expect(view.text.contains(value + newer + #""note":"hands not washed"}"#), "\(view.text)")
        // What a person wrote is not for whoever has a link.
        #expect(try await house.get("/api/v1/view", link).text.contains(value + newer + #""note":null}"#))
        #expect(try await house.get("/api/v1/gateway", owner).text.contains(#""units":{"glucose":"mmol/L","#))
        // The reading's own document has what the meter sent.
        #expect(try await house.get("/api/v1/readings/\(first)", owner).text.contains(#""value":198.7,"unit":"mg/dL""#))
        try await house.stop()
    }

    @Test("a sensor of another program is told by its pace, and a variability says which measure it is")
    func imported() async throws {
        let house = try await Household(1)
        let (store, person) = (house.api.gateway.store, house.people[0])
        let token = try await house.token(.owner, nil)
        let begin = try #require(Instant(rfc3339: "2026-11-20T07:00:00Z"))
        func sample(_ value: RecordValue, _ minute: Int64) -> ImportedSample {
            ImportedSample(
                person: person, provider: "apple_health_kit", source: "App", value: value,
                time: ImportedTime(begin.advanced(bySeconds: minute * 60), utcOffsetMinutes: 60))
        }
        let quantity = Quantity(ExactDecimal(significand: 120), .milligramsPerDecilitre)
        func glucose(_ minute: Int64) -> ImportedSample {
            sample(.glucose(GlucoseValue(concentration: quantity)), minute)
        }
        try await store.add((0..<11).map { glucose($0 * 5) })
        #expect(try await house.get("/api/v1/view", token).text.contains(#""source":"blood""#))
        try await store.add([glucose(55)])
        let sensor = try await house.get("/api/v1/view", token)
        #expect(sensor.text.contains(#""value":"120","unit":"mg/dL""#) && sensor.text.contains(#""source":"sensor""#))
        func variability(_ quantities: [(VitalValue.Part, Int64)], _ minute: Int64) -> ImportedSample {
            let measured = quantities.map {
                VitalValue.Measured($0.0, Quantity(ExactDecimal(significand: $0.1), .milliseconds))
            }
            return sample(.vital(VitalValue(kind: .hrv, measured)), minute)
        }
        let rest = #""unit":"ms","beyond":null,"pulse":null,"source":null"#
        try await store.add([variability([(.sdnn, 121)], 60)])
        let watch = try await house.get("/api/v1/view", token)
        #expect(watch.text.contains(#""value":"121",\#(rest),"measure":"sdnn""#), "\(watch.text)")
        try await store.add([variability([(.sdnn, 58), (.rmssd, 42)], 61)])
        let strap = try await house.get("/api/v1/view", token)
        #expect(strap.text.contains(#""value":"42",\#(rest),"measure":"rmssd""#), "\(strap.text)")
        try await house.stop()
    }

    @Test(
        "a link's days begin at midnight, also around a change of clocks",
        arguments: [
            ("2026-03-29T10:00:00Z", 1, "2026-03-28T23:00:00Z"), ("2026-03-30T10:00:00Z", 2, "2026-03-28T23:00:00Z"),
            ("2026-10-25T11:00:00Z", 1, "2026-10-24T22:00:00Z"), ("2026-11-20T12:00:00Z", 1, "2026-11-19T23:00:00Z"),
        ])
    func days(now: String, count: Int, beginning: String) throws {
        let (zone, now) = (try #require(ZoneRules.named("Europe/Berlin")), try #require(Instant(rfc3339: now)))
        #expect(ViewRoutes.beginning(of: count, until: now, in: zone) == Instant(rfc3339: beginning))
    }
}
