import DeliveryFixture
import Foundation
import HealthReadings
import LogLines
import Logging
import MQTTLink
import ReadingFormats
import ReadingStore
import TestBroker
import TestSupport
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite("Delivery over MQTT", .timeLimit(.minutes(3)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct DeliveryTests {
    @Test("each reading is a message that nobody keeps, with its id, person and whole document")
    func readings() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let listener = try await Listener(broker)
            try await fixture.read(20)
            try await fixture.read(3, kind: .bloodPressure, device: 2)
            let worker = fixture.worker(fixture.destination(broker.port), batchLimit: 7)
            #expect(await worker.syncOnce() == SyncReport(delivered: 23))
            #expect(try await fixture.delivered() == 23)
            try await until { listener.ids.count == 23 }
            let stored = try await fixture.store.query(ReadingQuery(limit: 100)).readings
            #expect(Set(listener.ids) == Set(stored.map(\.id.description)))
            let glucose = listener.messages("healthrelay/readings/glucose")
            #expect(
                glucose.count == 20 && glucose.allSatisfy { !$0.isRetained && $0.contentType == "application/json" })
            // Of one device in the order in which they were taken.
            let sequences = glucose.compactMap {
                ($0.document?["reading"] as? [String: Any])?["sequence"] as? Int
            }
            #expect(sequences == Array(1...20))
            var first = try #require(stored.last { $0.kind == .glucose })
            first.deliveries = []
            #expect(
                glucose.first?.text
                    == #"{"id":"\#(first.id)","person":"white_bear","reading":\#(first.document.text)}"#)
            #expect(await worker.syncOnce() == SyncReport())
            #expect(try await kept(broker, "healthrelay/readings/#").isEmpty)
        }
    }

    @Test("a reading whose acknowledgement is lost is published again and counts once")
    func acknowledgementLost() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        try await Fixture.with { fixture in
            let listener = try await Listener(broker, "healthrelay/readings/#")
            try await fixture.read(1)
            let destination = fixture.destination(proxy.port)
            let worker = fixture.worker(destination)
            #expect(await worker.syncOnce().delivered == 1)
            for (number, cut) in [CuttingProxy.Cut.beforeAcknowledgement, .afterAcknowledgement].enumerated() {
                try await fixture.read(1, from: 2 + number)
                proxy.cut(cut)
                let report = await worker.syncOnce()
                if case .beforeAcknowledgement = cut {
                    #expect(report.delivered == 0 && report.failure?.code == "no_connection")
                    #expect(await worker.syncOnce().delivered == 1)
                } else {
                    #expect(report.delivered == 1)
                }
            }
            #expect(proxy.cuts == 2)
            #expect(try await fixture.delivered() == 3)
            try await until { Set(listener.ids).count == 3 }
            #expect(listener.ids.count == 4)
        }
    }

    @Test("connections are cut while readings flow, and nothing is lost")
    func cuts() async throws {
        let broker = try await TestBroker.start()
        let proxy = try CuttingProxy(to: broker.port)
        try await Fixture.with { fixture in
            let listener = try await Listener(broker, "healthrelay/#")
            let worker = fixture.worker(fixture.destination(proxy.port), batchLimit: 10)
            let running = Task { try await worker.run() }
            for round in 0..<12 {
                try await fixture.read(15, from: 1 + round * 15)
                switch round % 4 {
                case 0: proxy.cut(.beforeAcknowledgement)
                case 1: proxy.cut(.afterAcknowledgement)
                case 2: proxy.cutAll()
                default: break
                }
                try await Task.sleep(for: .milliseconds(Int.random(in: 20...400)))
            }
            try await until { try await fixture.delivered() == 180 }
            let stored = try await fixture.store.query(ReadingQuery(limit: 1000)).readings
            try await until { Set(listener.ids) == Set(stored.map(\.id.description)) }
            let state = "healthrelay/devices/\(try await fixture.id())/glucose"
            let newest = try #require(stored.first)
            try await until {
                try await kept(broker, state)[state]?.document?["reading_id"] as? String == newest.id.description
            }
            // What was measured last never went back.
            let times = listener.messages(state).compactMap { $0.document?["measured_at"] as? String }
            #expect(times == times.sorted() && !times.isEmpty)
            running.cancel()
            try await running.value
        }
    }

    @Test("a broker is killed and comes back empty while readings flow, and nothing waits for good")
    func killed() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let worker = fixture.worker(fixture.destination(broker.port), batchLimit: 10)
            let running = Task { try await worker.run() }
            try await fixture.read(30)
            try await until { try await fixture.delivered() == 30 }
            for round in 0..<3 {
                broker.kill()
                try await fixture.read(20, from: 31 + round * 20)
                try await until { await worker.status.failure?.code == "no_connection" }
                try await broker.restart()
                try await until { try await fixture.delivered() == 50 + round * 20 }
            }
            // It keeps again what it had forgotten.
            let naming = try await fixture.naming
            let id = try await fixture.id()
            try await until {
                let kept = try await kept(broker)
                return kept[naming.topics.status]?.text == "online" && kept[naming.topics.gateway] != nil
                    && kept[naming.topics.discovery(of: id)] != nil
                    && kept[naming.topics.state(of: id, .glucose)]?.document?["glucose"] as? Int == 170
            }
            running.cancel()
            try await running.value
            #expect(try await kept(broker)[naming.topics.status]?.text == "offline")
        }
    }

    @Test("failures say what they count for, and whether a person is needed")
    func failures() async throws {
        let authority = try TestAuthority()
        let secured = try await TestBroker.start(
            lines: authority.lines(try authority.issue("broker", for: ["IP:127.0.0.1"])))
        let guarded = try await TestBroker.start(
            users: ["gateway": "right"],
            rules: ["user gateway", "topic readwrite healthrelay/readings/glucose", "topic write healthrelay/status"])
        try await Fixture.with { fixture in
            try await fixture.read(2)
            func report(_ destination: MQTTDestination) async -> DeliveryFailure? {
                await fixture.worker(destination).syncOnce().failure
            }
            let closed = await report(fixture.destination(try TCPPort.free(), "closed"))
            #expect(closed?.code == "no_connection" && closed?.needsPerson == false && closed?.scope == .destination)
            let wrong = await report(fixture.destination(guarded.port, "wrong", user: "gateway", password: "wrong"))
            #expect(
                wrong?.code == "authentication_failed" && wrong?.needsPerson == true && wrong?.scope == .destination)
            let other = try TestAuthority()
            let untrusted = await report(
                fixture.destination(secured.port, "untrusted", tls: MQTTCertificates(authorities: other.certificate)))
            #expect(untrusted?.code == "untrusted_server" && untrusted?.needsPerson == true)

            // The broker's access list lets one kind through.
            try await fixture.read(2, kind: .bloodPressure, device: 2)
            let lines = LogLines()
            let destination = fixture.destination(
                guarded.port, "guarded", user: "gateway", password: "right", logger: lines.logger())
            let mixed = await fixture.worker(destination).syncOnce()
            #expect(mixed.delivered == 2)
            #expect(mixed.failure?.code == "forbidden" && mixed.failure?.needsPerson == true)
            #expect(mixed.failure?.scope == .target)
            #expect(lines.text.contains("not_authorized") && !lines.text.contains("healthrelay/"))
        }
    }

    @Test(
        "what a broker of MQTT 5 says of single messages",
        arguments: [
            (151, "rate_limit_exceeded", DeliveryFailure.Scope.target), (149, "payload_too_large", .tooLarge),
            (131, "refused", .target),
        ] as [(UInt8, String, DeliveryFailure.Scope)])
    func reasons(reason: UInt8, code: String, scope: DeliveryFailure.Scope) async throws {
        var script = ScriptedBroker.Script()
        script.reasons = [reason]
        let broker = try ScriptedBroker(script)
        try await Fixture.with { fixture in
            try await fixture.read(2)
            let report = await fixture.worker(fixture.destination(broker.port)).syncOnce()
            #expect(report.delivered == 0 && report.refused == 0)
            #expect(report.failure?.code == code && report.failure?.scope == scope)
            #expect(report.failure?.needsPerson == false)
        }
    }

    @Test("a broker that refuses one message gets the others")
    func oneRefused() async throws {
        var script = ScriptedBroker.Script()
        // The first messages are the gateway's own.
        script.reasons = [0, 0, 151, 0]
        let broker = try ScriptedBroker(script)
        try await Fixture.with { fixture in
            try await fixture.read(5)
            #expect(await fixture.worker(fixture.destination(broker.port)).syncOnce().delivered == 5)
        }
    }

    @Test("a wrong password is told once and not tried again and again")
    func paused() async throws {
        let broker = try await TestBroker.start(users: ["gateway": "right"])
        try await Fixture.with { fixture in
            try await fixture.read(2)
            let lines = LogLines()
            let destination = fixture.destination(
                broker.port, user: "gateway", password: "wrong-and-secret", logger: lines.logger(from: .trace))
            var options = OutboxWorker.Options()
            options.backoff = Backoff(first: .milliseconds(10), longest: .seconds(600))
            let worker = OutboxWorker(
                store: fixture.store, destination: destination, options: options, logger: lines.logger(from: .trace))
            let events = worker.events()
            let running = Task { try await worker.run() }
            for await event in events {
                if case .paused(let failure) = event {
                    #expect(failure.code == "authentication_failed")
                    break
                }
            }
            try await Task.sleep(for: .seconds(1))
            #expect(broker.log.split(separator: "not authorised").count <= 4)
            #expect(!lines.text.contains("wrong-and-secret") && !lines.text.contains("healthrelay/"))
            running.cancel()
            try await running.value
        }
    }
}
