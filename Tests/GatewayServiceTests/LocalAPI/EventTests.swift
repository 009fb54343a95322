import EmulatedRadio
import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

@Suite("The stream of events", .timeLimit(.minutes(5))) struct EventTests {
    private static func change(_ number: Int64) -> ChangePosition {
        ChangePosition(feed: "0123456789ab", number: number)
    }

    /// The numbers in the ring of what a stream gets that has had a change, and is at a place in the ring; `nil`: it reads the
    /// store.
    private static func news(
        _ hub: APIEventHub, after ring: UInt64, behind number: Int64, erasures: Int = 0
    ) -> [UInt64]? {
        hub.news(after: EventPlace(change: change(number), ring: ring), erasures: erasures)?.events.map(\.number)
    }

    private static func content(_ number: Int64) -> APIEventHub.Content {
        APIEventHub.Content("reading", kind: .glucose, to: .household, .object(["n": .integer(number)]))
    }

    @Test("the ring knows which changes it has; whoever has less reads the store")
    func ring() {
        let hub = APIEventHub()
        for number in 1...10 { hub.post("sync", .object(["n": .integer(Int64(number))])) }
        #expect(Self.news(hub, after: 7, behind: 4) == [8, 9, 10])
        #expect(hub.news(after: EventPlace(change: Self.change(4), ring: 7), erasures: 0)?.position == 10)
        #expect(hub.covers(Self.change(4), erasures: 0), "no change is behind what nobody has posted")
        hub.resume(at: Self.change(5))
        #expect(!hub.covers(Self.change(4), erasures: 0) && hub.covers(Self.change(5), erasures: 0))
        hub.post([(6, Self.content(6)), (9, Self.content(9))], upTo: Self.change(9))
        #expect(
            hub.place(of: 6) == 11 && hub.place(of: 7) == 11 && hub.place(of: 10) == nil
                && hub.covers(Self.change(5), erasures: 0))
        for _ in 0..<(APIEventHub.capacity - 2) { hub.post("sync", .null) }
        #expect(hub.covers(Self.change(5), erasures: 0) && Self.news(hub, after: 0, behind: 5)?.first == 11)
        hub.post("sync", .null)
        #expect(!hub.covers(Self.change(5), erasures: 0) && hub.covers(Self.change(6), erasures: 0))
        // What was erased is not in the ring, whatever the ring still had.
        #expect(!hub.covers(Self.change(9), erasures: 1))
        hub.forget(erasures: 1)
        #expect(hub.covers(Self.change(9), erasures: 1) && !hub.covers(Self.change(6), erasures: 1))
        #expect(Self.news(hub, after: 0, behind: 9, erasures: 1)?.first == 13)
    }

    @Test("a change that has left the ring leaves no gap: until the ring has all that follows, it gives nothing")
    func gap() {
        let hub = APIEventHub()
        hub.resume(at: Self.change(0))
        // So many as the ring holds: nothing has left it.
        let last = Int64(APIEventHub.capacity)
        hub.post((1...last).map { ($0, Self.content($0)) }, upTo: Self.change(last))
        #expect(Self.news(hub, after: 0, behind: 0)?.count == APIEventHub.capacity)
        // They come while a stream has been told that the ring has all, and has not read it yet.
        hub.post((1...2).map { (last + $0, Self.content(last + $0)) }, upTo: Self.change(last + 2))
        for seen in Int64(0)..<2 {
            #expect(Self.news(hub, after: UInt64(seen), behind: seen) == nil, "change \(seen + 1) is not there")
        }
        #expect(Self.news(hub, after: 2, behind: 2)?.first == 3)
        // Read from the store meanwhile, they are not missing, wherever the stream was in the ring.
        #expect(Self.news(hub, after: 0, behind: 2)?.first == 3)
        // Nor does an erasure leave one.
        #expect(Self.news(hub, after: 2, behind: 2, erasures: 1) == nil)
        hub.forget(erasures: 1)
        #expect(Self.news(hub, after: 2, behind: 2, erasures: 1) == nil)
        #expect(Self.news(hub, after: 2, behind: last + 2, erasures: 1)?.isEmpty == true)
    }

    @Test("the id of an earlier version, of another store or of nobody is answered with resync")
    func strays() async throws {
        let bench = try await APIBench(tls: false)
        let newest = try await bench.gateway.store.newestChange()
        for stray in [
            "k3xa9-7", "7", "\(newest.feed)", "\(newest.feed)-\(newest.number + 1)", "0123456789ab-1",
            "\(newest.feed)--1",
            "\(newest.feed)-1-0-1", "\(newest.feed)-1-xyz-1", String(repeating: "0", count: 72),
        ] {
            let text = try await bench.events(last: stray) { $0.contains("\n\n") }
            #expect(text.hasPrefix("event: resync"), "\(stray)")
        }
        try await bench.stop()
    }

    private static func ids(_ text: String) -> [String] {
        text.matches(of: /id: (\S+)\nevent: reading/).map { String($0.1) }
    }

    @Test(
        "a cursor outlives the gateway: every reading stored while it was down comes once, in order, then what comes live",
        arguments: [nil, "white_bear"] as [String?])
    func restart(person: String?) async throws {
        let first = try await APIBench(tls: false, captures: [], settings: ["user.client_user_id": "white_bear"])
        func token(_ bench: APIBench) async throws -> String {
            try await bench.token(for: #require(AccessGrant(person == nil ? .owner : .read, person: person)))
        }
        let fresh = try await token(first)
        @Sendable func replay(_ bench: APIBench, _ name: String) async throws {
            _ = try await CaptureReplay([APIBench.fixture(name)]).run(with: bench.gateway.reader())
        }
        let before = try await first.events(token: fresh) {
            try await replay(first, "two-meters")
        } until: {
            Self.ids($0).count >= 4
        }
        let last = Self.ids(before)[2]
        try await first.stop(keeping: true)

        // While no server ran, another program put readings into the store.
        let state = StateDirectory(flag: first.directory.appendingPathComponent("state").path, environment: [:])
        let gateway = try await Gateway.open(
            first.gateway.settings, state: state, radio: { _, _ in EmulatedRadio([], adapter: .emulated) })
        _ = try await CaptureReplay([APIBench.fixture("glucose-first-delivery")]).run(with: gateway.reader())
        let stored = try await gateway.store.query(ReadingQuery(limit: 10_000)).readings.count
        try await gateway.close()

        let second = try await APIBench(
            tls: false, captures: [], settings: ["user.client_user_id": "white_bear"], in: first.directory)
        let rest = try await second.events(token: fresh, last: last) { Self.ids($0).count >= stored - 3 }
        let ids = Self.ids(before)[..<3] + Self.ids(rest)
        #expect(!rest.contains("resync"))
        #expect(Set(ids).count == ids.count)
        let readings = (before + rest).matches(of: /data: \{"id":"([0-9a-f]{32})"/).map { String($0.1) }
        #expect(Set(readings).count == stored)
        #expect(rest.contains("\"last_updated\":\"20") && rest.contains("\"revision\":"))
        // Live goes on behind it, without a second time.
        let live = try await second.events(token: fresh, last: ids.last) {
            try await replay(second, "cuff-three")
        } until: {
            Self.ids($0).count >= 1
        }
        #expect(Set(ids).isDisjoint(with: Self.ids(live)) && !live.contains("resync"))
        try await second.stop()
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

    @Test(
        "a stream that is lost before its first event misses nothing: it has an id from the beginning, behind a resync too",
        arguments: [nil, "white_bear"] as [String?], [nil, "other-7"] as [String?])
    func early(person: String?, last: String?) async throws {
        let bench = try await APIBench(tls: false, captures: [], settings: ["user.client_user_id": "white_bear"])
        let token = try await bench.token(for: #require(AccessGrant(person == nil ? .owner : .read, person: person)))
        let first = try await bench.events(token: token, last: last) {
            $0.contains("id: ") || $0.contains("still here")
        }
        #expect(first.contains("event: resync") == (last != nil))
        let id = try #require(first.firstMatch(of: /id: (\S+)\n\n/).map { String($0.1) }, "\(first)")
        // Nobody listens any more while they come.
        _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: bench.gateway.reader())
        let stored = Set(try await bench.gateway.store.query(ReadingQuery(limit: 1000)).readings.map(\.id.description))
        let rest = try await bench.events(token: token, last: id) { Self.ids($0).count >= stored.count }
        let readings = rest.matches(of: /data: \{"id":"([0-9a-f]{32})"/).map { String($0.1) }
        #expect(Set(readings) == stored && readings.count == stored.count && !rest.contains("resync"))
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
            shown.append(try await listen(after: "0") {})
            for text in shown {
                #expect(text.contains("\"body_composition\":{\"value\":20.0"), "\(text)")
                #expect(text.contains("\"weight\":{") == granted, "\(text)")
                #expect(text.contains("\"fat_free_mass\":{") == granted, "\(text)")
            }
        }
        try await bench.stop()
    }

    @Test("nor does the answer to a change of one, left out of figures or, where it was imported, withdrawn")
    func weightOfChanged() async throws {
        let bench = try await APIBench(tls: false, captures: [], settings: ["user.client_user_id": "white_bear"])
        let store = bench.gateway.store
        let token = try await bench.token()
        let user = try await store.currentUser().key
        func sample(at seconds: Int64) -> ImportedSample {
            func quantity(_ number: Int64, _ unit: MeasurementUnit) -> Quantity {
                Quantity(ExactDecimal(significand: number), unit)
            }
            return ImportedSample(
                person: "white_bear", provider: "generic_scale",
                value: .vital(
                    VitalValue(
                        kind: .bodyComposition,
                        [
                            .init(.bodyFat, quantity(20, .percent)), .init(.fatFreeMass, quantity(56, .kilograms)),
                            .init(.weight, quantity(70, .kilograms)),
                        ])),
                time: ImportedTime(Instant(seconds: seconds), utcOffsetMinutes: 60))
        }
        let (left, withdrawn) = (sample(at: 1_795_000_000), sample(at: 1_795_000_600))
        #expect(try await store.add([left, withdrawn]).count == 2)
        for granted in [true, false] {
            try await store.setConsent(.weight, granted: granted, of: user)
            var shown: [String] = []
            for isLeftOut in [true, false] {
                let body = "{\"ids\":[\"\(left.id)\"],\"left_out\":\(isLeftOut)}"
                shown.append(
                    try await bench.send("/api/v1/readings/figures", .POST, token: token, body: body).text)
            }
            shown.append(try await bench.send("/api/v1/readings/\(withdrawn.id)", .DELETE, token: token).text)
            for text in shown {
                #expect(text.contains("\"body_composition\":{\"value\":20"), "\(text)")
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
