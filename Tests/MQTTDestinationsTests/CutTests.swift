import DeliveryFixture
import HealthReadings
import MQTTLink
import ReadingStore
import Synchronization
import TestBroker
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite("Messages for which a broker ends the connection", .timeLimit(.minutes(3)))
struct CutTests {
    /// For which messages a broker ends the connection, and for how many of them it has.
    private final class Rule: Sendable {
        private let isMeant: @Sendable (String) -> Bool
        private let state: Mutex<(most: Int, count: Int)>

        init(most: Int = .max, _ isMeant: @escaping @Sendable (String) -> Bool) {
            self.isMeant = isMeant
            state = Mutex((most, 0))
        }

        var count: Int { state.withLock { $0.count } }

        /// From now on all are taken.
        func end() { state.withLock { $0.most = 0 } }

        func endsConnection(_ packet: [UInt8]) -> Bool {
            guard isMeant(String(decoding: packet, as: UTF8.self)) else { return false }
            return state.withLock { state in
                guard state.count < state.most else { return false }
                state.count += 1
                return true
            }
        }
    }

    /// A broker of MQTT 3.1.1.
    private static func broker(_ rule: Rule) throws -> ScriptedBroker {
        var script = ScriptedBroker.Script()
        script.connackFive = nil
        script.ends = { rule.endsConnection($0) }
        return try ScriptedBroker(script)
    }

    /// A destination that publishes minutes of heart rate by themselves, and has three connections end behind one.
    private static func destination(
        _ fixture: Fixture, _ broker: ScriptedBroker, steady: Duration = .milliseconds(20)
    ) -> MQTTDestination {
        var pace = MQTTPace()
        (pace.samples, pace.cuts, pace.steady) = (50, 3, steady)
        // A busy machine takes its time.
        pace.soon = .seconds(100)
        let place = MQTTPlace(broker: MQTTBroker(host: "127.0.0.1", port: broker.port), isForHomeAssistant: false)
        return MQTTDestination(
            name: "home", store: fixture.store, place: place, sender: MQTTSender(version: "1.0"), birthDelay: 0...50,
            pace: pace, logger: Fixture.quiet)
    }

    private static func worker(_ fixture: Fixture, _ broker: ScriptedBroker) -> OutboxWorker {
        fixture.worker(destination(fixture, broker))
    }

    private static func refused(_ fixture: Fixture) async throws -> [(sequence: UInt16?, words: String?)] {
        try await fixture.store.query(ReadingQuery(limit: 100)).readings.flatMap { reading in
            reading.deliveries.filter { $0.state.name == "refused" }.map { (reading.record.sequence, $0.state.reason) }
        }
    }

    @Test("a recording behind which each connection ends is refused once others are taken, and can be sent again")
    func one() async throws {
        let rule = Rule { $0.contains("readings/heart_rate") && $0.contains(#""sequence":2,"#) }
        let broker = try Self.broker(rule)
        try await Fixture.with { fixture in
            try await fixture.read(3, kind: .heartRate)
            try await fixture.read(2, device: 2)
            let worker = Self.worker(fixture, broker)
            let report = await worker.syncOnce()
            #expect(report.delivered == 4 && report.refused == 1 && report.failure == nil, "\(report)")
            #expect(rule.count == 3)
            let refused = try await Self.refused(fixture)
            #expect(refused.map(\.sequence) == [2])
            #expect(refused.first?.words?.contains("the broker ends the connection") == true, "\(refused)")
            // Its limit is raised.
            rule.end()
            let waiting = try await fixture.store.retryRefused()
            #expect(waiting == 1)
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
        }
    }

    @Test(
        "large recordings go by themselves, behind what else is in the batch: what is said of one keeps nothing else waiting"
    )
    func order() async throws {
        let broker = try Self.broker(Rule { _ in false })
        try await Fixture.with { fixture in
            let destination = Self.destination(fixture, broker)
            let place = try await fixture.worker(destination).place()
            try await fixture.read(4, kind: .heartRate)
            let (user, provider) = (try await fixture.store.currentUser(), "accuchek_ble")
            var items = try await fixture.store.outboxBatch(
                user: user.key, resource: .heartRate, provider: provider, limit: 10, at: place)
            try #require(items.count == 4)
            // Without samples.
            for index in [1, 3] {
                let rate = Quantity(ExactDecimal(significand: 70), .beatsPerMinute)
                items[index].reading.record.value = .vital(VitalValue(kind: .heartRate, [.init(.heartRate, rate)]))
            }
            let parts = try await destination.parts(
                DeliveryBatch(
                    target: DeliveryTarget(user: user.key, resource: .heartRate, provider: provider), person: user,
                    items: items, range: nil, isLast: true))
            #expect(parts.map { $0.items.map(\.reading.record.sequence) } == [[2, 4], [1], [3]])
            #expect(parts.map(\.isLast) == [false, false, true])
        }
    }

    @Test("groups of which a broker takes nothing wait by themselves, however many there are, and the others go")
    func alone() async throws {
        let rule = Rule { $0.contains("readings/heart_rate") }
        let broker = try Self.broker(rule)
        try await Fixture.with { fixture in
            for (device, provider) in ["beurer_ble", "nonin_ble", "omron_ble", "viatom_ble"].enumerated() {
                try await fixture.read(1, kind: .heartRate, device: UInt64(10 + device), provider: provider)
            }
            try await fixture.read(2, kind: .weight, device: 2, provider: "renpho_ble")
            try await fixture.read(2, device: 3)
            let worker = Self.worker(fixture, broker)
            let report = await worker.syncOnce()
            #expect(report.delivered == 4 && report.refused == 0, "\(report)")
            #expect(report.failure?.code == "server_refuses_all" && report.failure?.needsPerson == true)
            #expect(report.failure?.message.contains("the broker ends the connection") == true)
            rule.end()
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
        }
    }

    @Test("a bad connection refuses nothing: one that ends behind any message, or behind a recording now and then")
    func bad() async throws {
        for rule in [
            // Each message ends it.
            Rule { _ in true },
            // It ends in the middle of what is to show that it holds.
            Rule { $0.contains("readings/heart_rate") || $0.contains("/status/") },
        ] {
            let broker = try Self.broker(rule)
            try await Fixture.with { fixture in
                try await fixture.read(2, kind: .heartRate)
                let worker = Self.worker(fixture, broker)
                for _ in 0..<4 {
                    let report = await worker.syncOnce()
                    #expect(report.delivered == 0 && report.refused == 0, "\(report)")
                    #expect(report.failure?.code == "no_connection" && report.failure?.scope == .destination)
                }
                rule.end()
                #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            }
        }
        let rule = Rule(most: 2) { $0.contains("readings/heart_rate") }
        let broker = try Self.broker(rule)
        try await Fixture.with { fixture in
            try await fixture.read(2, kind: .heartRate)
            let worker = Self.worker(fixture, broker)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            #expect(rule.count == 2)
        }
    }

    @Test("a bad connection refuses nothing: one that ends once more behind the last try")
    func badAtLast() async throws {
        let recordings = Mutex(0)
        let rule = Rule { text in
            if text.contains("readings/heart_rate") {
                recordings.withLock { $0 += 1 }
                return true
            }
            return recordings.withLock { $0 >= 3 }
        }
        let broker = try Self.broker(rule)
        try await Fixture.with { fixture in
            try await fixture.read(1, kind: .heartRate)
            try await fixture.read(1, device: 2)
            let worker = Self.worker(fixture, broker)
            let report = await worker.syncOnce()
            #expect(report.refused == 0 && report.failure?.code == "no_connection", "\(report)")
            rule.end()
            _ = await worker.syncOnce()
            #expect(try await fixture.delivered() == 2)
        }
    }

    @Test("a recording that its person denies while the next try is waited for is not published once more")
    func denied() async throws {
        let published = Mutex(0)
        let rule = Rule(most: 1) { text in
            guard text.contains("readings/heart_rate") else { return false }
            published.withLock { $0 += 1 }
            return true
        }
        let broker = try Self.broker(rule)
        try await Fixture.with { fixture in
            try await fixture.read(1, kind: .heartRate)
            let worker = fixture.worker(Self.destination(fixture, broker, steady: .seconds(2)))
            let pass = Task { await worker.syncOnce() }
            while rule.count == 0 { try await Task.sleep(for: .milliseconds(10)) }
            try await fixture.store.setConsent(.heartRate, granted: false, of: fixture.person.key)
            let report = await pass.value
            #expect(
                report.delivered == 0 && report.refused == 0 && report.failure?.code == "no_connection", "\(report)")
            #expect(await worker.syncOnce().delivered == 0)
            #expect(published.withLock(\.self) == 1)
            try await fixture.store.setConsent(.heartRate, granted: true, of: fixture.person.key)
            #expect(await worker.syncOnce().delivered == 1)
        }
    }
}
