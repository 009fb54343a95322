import GatewayCommands
import HealthDevices
import HealthReadings
import LocalAccess
import ReadingStore
import Testing

@testable import LocalAPI

/// Summaries of days over the local API.
@Suite("Summaries over the local API", .timeLimit(.minutes(5))) struct SummaryRouteTests {
    private static let path = "/api/v1/summaries/body"

    @Test("a day is one person's: a client gets its own person's, and the household each by name")
    func people() async throws {
        let house = try await Household(2)
        for _ in 0..<3 { _ = try await house.glucose(1) }
        _ = try await house.pressure(slot: 1)
        let hers = try await house.token(.read, 1)
        let household = try await house.token(.read, nil)
        let date = "date=2026-11-20"
        let day = try await house.get("\(Self.path)?\(date)", hers)
        #expect(day.status == 200 && day.text.contains(#""person":"person-1""#), "\(day.text)")
        #expect(day.text.contains(#""glucose":{"count":3"#) && day.text.contains(#""blood_pressure":null"#))
        let named = try await house.get("\(Self.path)?\(date)&person=person-1", household)
        #expect(named.text == day.text)
        let current = try await house.get("\(Self.path)?\(date)", household)
        #expect(current.text.contains(#""person":"person-0""#) && current.text.contains(#""glucose":null"#))
        #expect(try await house.get("\(Self.path)?\(date)&person=person-0", hers).code == "other_person")
        let short = try await house.get("\(Self.path)?\(date)&samples=false", hers)
        #expect(short.text.contains(#""samples":null"#) && !short.text.contains(#""samples":["#))
        let rook = try await house.get("\(Self.path)?\(date)&format=rook", hers)
        #expect(rook.status == 200 && rook.text.contains(#""user_id":"person-1""#), "\(rook.text)")
        #expect(try await house.get("\(Self.path)?date=2020-01-01&format=terra", hers).status == 204)
        for query in ["date=today", "date=2026-02-30", "format=xml", "samples=2", "\(date)&\(date)", "from=\(date)"] {
            let answer = try await house.get("\(Self.path)?\(query)", hers)
            #expect(answer.status == 400 && answer.code == "bad_request", "\(query): \(answer.text)")
        }
        try await house.stop()
    }

    @Test("a recording that goes on over midnight is on both days, each with its own samples")
    func night() async throws {
        let house = try await Household(1)
        let store = house.api.gateway.store
        // 23:59:30 in Berlin.
        let begin = try #require(Instant(rfc3339: "2026-11-19T22:59:30Z"))
        var block = RecordedBlock(characteristic: 0x2A37)
        for second in 0..<60 { block.add([0x00, 72], atMilliseconds: second * 1000) }
        let strap = DeviceDescription(address: Household.meter(7), model: nil, serial: nil, name: "Strap")
        let contact = try await store.beginContact(with: strap, at: begin, clock: nil, batteryPercent: nil)
        _ = try await store.append(
            [Frame(format: .heartRateBlock, payload: block.payload, receivedAt: begin, ordinal: 0)], of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
        let token = try await house.token(.read, 0)
        for (date, count) in [("2026-11-18", nil), ("2026-11-19", 30), ("2026-11-20", 30), ("2026-11-21", nil)] {
            let day = try await house.get("\(Self.path)?date=\(date)&samples=false", token)
            let rates = count.map { #""heart_rate":{"count":\#($0)"# } ?? #""heart_rate":null"#
            #expect(day.text.contains(rates), "\(date): \(day.text)")
        }
        try await house.stop()
    }

    @Test("a kind without consent is in no figure, and no consent at all is said")
    func consent() async throws {
        let house = try await Household(1)
        _ = try await house.pressure(slot: 1)
        let token = try await house.token(.read, 0)
        let store = house.api.gateway.store
        #expect(try await house.get("\(Self.path)?date=2026-11-20", token).text.contains(#""systolic":{"count":1"#))
        try await store.setConsent(.bloodPressure, granted: false, of: house.key(0))
        let day = try await house.get("\(Self.path)?date=2026-11-20", token)
        #expect(day.status == 200 && day.text.contains(#""blood_pressure":null"#), "\(day.text)")
        #expect(day.text.contains(#""heart_rate":null"#))
        for kind in ReadingKind.allCases { try await store.setConsent(kind, granted: false, of: house.key(0)) }
        #expect(try await house.get("\(Self.path)?date=2026-11-20", token).code == "no_consent")
        try await house.stop()
    }
}
