import Foundation
import HealthReadings
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("The stream of events", .timeLimit(.minutes(5))) struct EventTests {
    @Test("who was away goes on behind the last event; who was away too long is told so")
    func ring() {
        let hub = APIEventHub()
        for number in 1...10 { hub.post("sync", .object(["n": .integer(Int64(number))])) }
        let news = hub.news(after: 7)
        #expect(news.events.map(\.number) == [8, 9, 10] && news.position == 10 && !news.hasGap)
        #expect(hub.position(after: "\(hub.epoch)-7") == 7)
        for stray in ["x-7", "\(hub.epoch)-99", hub.epoch, "", "\(hub.epoch)--1", "7"] {
            #expect(hub.position(after: stray) == nil, "\(stray)")
        }
        for _ in 0..<APIEventHub.capacity { hub.post("sync", .null) }
        let late = hub.news(after: 10)
        #expect(late.events.count == APIEventHub.capacity && !late.hasGap && late.events.first?.number == 11)
        hub.post("sync", .null)
        #expect(hub.news(after: 10).hasGap && hub.news(after: 10).events.first?.number == 12)
    }

    @Test("readings arrive as they are stored, and again by their id after a break")
    func resume() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        let gateway = bench.gateway
        let text = try await bench.events(token: token) {
            _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: gateway.reader())
        } until: {
            $0.components(separatedBy: "event: reading").count > 5
        }
        let ids = text.matches(of: /id: (\S+)\nevent: reading/).map { String($0.1) }
        #expect(ids.count >= 4 && Set(ids).count == ids.count)
        let rest = try await bench.events(token: token, last: ids[1]) { $0.contains("event: reading") }
        #expect(rest.firstMatch(of: /id: (\S+)/).map { String($0.1) } == ids[2])
        let lost = try await bench.events(token: token, last: "other-7") { $0.contains("event:") }
        #expect(lost.contains("event: resync"))
        try await bench.stop()
    }

    @Test("a reading that nobody consented to is no event")
    func consent() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let gateway = bench.gateway
        try await gateway.store.setConsent(.glucose, granted: false, of: gateway.store.currentUser().key)
        let text = try await bench.events {
            _ = try await CaptureReplay(["two-meters", "glucose-first-delivery"].map(APIBench.fixture)).run(
                with: gateway.reader())
            bench.hub.post("sync", .object(["end": true]))
        } until: {
            $0.contains("\"end\"")
        }
        #expect(text.contains("\"kind\":\"blood_pressure\"") && !text.contains("\"kind\":\"glucose\""))
        try await bench.stop()
    }
}

@Suite("Consent", .timeLimit(.minutes(5))) struct ConsentTests {
    @Test("what is not consented to is held, not delivered, and served to nobody; granting sends it on its way")
    func held() async throws {
        let bench = try await APIBench(tls: false, captures: ["two-meters", "glucose-first-delivery"])
        let store = bench.gateway.store
        let user = try await store.currentUser()
        let before = try await store.groupsWaiting()
        #expect(Set(before.map(\.resource)) == [.glucose, .bloodPressure])
        try await store.setConsent(.glucose, granted: false, of: user.key)

        let after = try await store.groupsWaiting().filter { $0.resource == .glucose }
        #expect(after.allSatisfy { $0.held == .noConsent } && !after.isEmpty)
        #expect(
            after.reduce(0) { $0 + $1.count } == before.filter { $0.resource == .glucose }.reduce(0) { $0 + $1.count })
        for group in before where group.resource == .glucose {
            let batch = try await store.outboxBatch(
                user: group.user, resource: .glucose, provider: group.provider, limit: 100)
            #expect(batch.isEmpty)
        }
        let readings = try await store.query(.init(limit: 1000)).readings
        #expect(
            readings.filter { $0.kind == .glucose && $0.excluded == nil }.allSatisfy {
                $0.deliveries.map(\.hold) == [.noConsent]
            })
        #expect(readings.filter { $0.kind == .bloodPressure }.allSatisfy { $0.deliveries.map(\.hold) != [.noConsent] })

        #expect(try await bench.send("/api/v1/readings?types=glucose").code == "no_consent")
        #expect(try await bench.send("/api/v1/readings?types=glucose").status == 403)
        let all = try await bench.send("/api/v1/readings")
        #expect(all.status == 200 && !all.text.contains("\"kind\":\"glucose\""))
        let glucose = try #require(readings.first { $0.kind == .glucose })
        #expect(try await bench.send("/api/v1/readings/\(glucose.id)").status == 403)
        let token = try await bench.token()
        let body = #"{"startDate":"2026-01-01T00:00:00Z","endDate":"2027-01-01T00:00:00Z","types":["bloodGlucose"]}"#
        #expect(try await bench.send("/api/v1/health/data", .POST, token: token, body: body).status == 403)

        try await store.setConsent(.glucose, granted: true, of: user.key)
        #expect(try await store.groupsWaiting().allSatisfy { $0.held != .noConsent })
        #expect(try await bench.send("/api/v1/readings?types=glucose").status == 200)
        let history = try await store.consentHistory(of: user.key)
        #expect(history.map(\.isGranted) == [true, false] && history.allSatisfy { $0.at != nil })
        try await bench.stop()
    }

    @Test("a composition shows no weight where only compositions are consented to, in an event of before either")
    func weight() async throws {
        let bench = try await APIBench(tls: false, captures: [])
        let store = bench.gateway.store
        let user = try await store.currentUser().key
        let contact = try await store.beginContact(
            with: DeviceDescription(
                address: DeviceAddress(bits: 0xC000_0000_181B, kind: .random), model: nil, provider: "generic_scale"),
            at: Instant(seconds: 1_795_000_000), clock: nil, batteryPercent: nil)
        // 20.0 % of fat, 2026-11-21T08:00:00, 56 kg without it, 70 kg.
        let octets: [UInt8] = [0x42, 0x04, 0xC8, 0x00, 0xEA, 0x07, 11, 21, 8, 0, 0, 0xC0, 0x2B, 0xB0, 0x36]
        func listen(after last: String? = nil, _ body: @escaping @Sendable () async throws -> Void) async throws
            -> String
        {
            try await bench.events(last: last, started: body, until: { $0.contains("\"composition\"") })
        }
        let before = try await listen {
            _ = try await store.append(
                [
                    Frame(
                        format: FrameFormat(rawValue: 0x2A9C), payload: octets,
                        receivedAt: Instant(seconds: 1_795_000_000), ordinal: 0)
                ], of: contact)
        }
        #expect(before.contains("\"weight\":{\"value\":70"))
        let id = try #require(try await store.query(ReadingQuery()).readings.first?.id)
        for granted in [true, false] {
            try await store.setConsent(.weight, granted: granted, of: user)
            var shown = [
                try await bench.send("/api/v1/readings").text, try await bench.send("/api/v1/readings/\(id)").text,
                try await bench.send("/api/v1/readings?latest=true").text,
            ]
            // Whoever was away comes back for it.
            shown.append(try await listen(after: "\(bench.hub.epoch)-0") {})
            for text in shown {
                #expect(text.contains("\"body_composition\":{\"value\":20.0"), "\(text)")
                #expect(text.contains("\"weight\":{") == granted, "\(text)")
                #expect(text.contains("\"fat_free_mass\":{") == granted, "\(text)")
            }
        }
        try await bench.stop()
    }

    @Test("where the standard is `denied`, nothing goes before somebody says so")
    func standard() async throws {
        let bench = try await APIBench(tls: false, settings: ["consent.default": "denied"])
        let store = bench.gateway.store
        #expect(try await store.groupsWaiting().allSatisfy { $0.held == .noConsent })
        #expect(try await bench.send("/api/v1/readings").status == 403)
        let user = try await store.currentUser()
        try await store.setConsent(.bloodPressure, granted: true, of: user.key)
        let groups = try await store.groupsWaiting()
        #expect(groups.contains { $0.resource == .bloodPressure && $0.held != .noConsent })
        #expect(groups.filter { $0.resource == .glucose }.allSatisfy { $0.held == .noConsent })
        try await bench.stop()
    }
}
