import DeliveryFixture
import FleetDelivery
import FleetDocuments
import Foundation
import HealthReadings
import MQTTLink
import ReadingStore
import Synchronization
import TestBroker
import TestSupport
import Testing

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite("Delivery into a fleet", .timeLimit(.minutes(3)), .enabled(if: TestBroker.isInstalled, "\(TestBroker.needs)"))
struct FleetTests {
    @Test("the broker's acknowledgement hands readings over, and the centre's receipt delivers them")
    func receipts() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port, TestCentre.isSilent)
            try await fixture.read(250)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            // The broker has acknowledged before the centre has everything.
            try await until { try await fixture.count("handed_over") == 250 && centre.batches.count == 3 }
            #expect(centre.batches.map(\.readings.count) == [100, 100, 50])
            #expect(centre.batches.map(\.number) == centre.batches.map(\.number).sorted())
            #expect(centre.batches.allSatisfy { batch in batch.readings.allSatisfy { $0.revision == batch.number } })
            for batch in centre.batches { try await centre.send(try #require(TestCentre.storesAll(batch))) }
            try await until { try await fixture.count("delivered") == 250 }
            #expect(centre.batches.count == 3)
            guard case .online(let report) = try #require(centre.statuses.first) else {
                Issue.record("the first status is the will")
                return
            }
            #expect(report.version == "1.0" && report.uptimeSeconds == 7)
            running.cancel()
            try await running.value
            try await until { centre.statuses.last == .offline }
        }
    }

    @Test("a gateway that is killed between acknowledgement and receipt takes the receipt after its restart")
    func restart() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port, TestCentre.isSilent)
            try await fixture.read(3)
            let first = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await first.run() }
            try await until { try await fixture.count("handed_over") == 3 && !centre.batches.isEmpty }
            running.cancel()
            try await running.value
            // The next process knows the batch from the store alone, and asks for its receipt.
            let second = fixture.worker(try fixture.fleet(broker.port))
            let again = Task { try await second.run() }
            let batch = try #require(centre.batches.first)
            // The first may have asked, too: a centre answers each time.
            let receipt = try #require(TestCentre.storesAll(batch))
            var answered = 0
            try await until {
                let hellos = centre.hellos
                if hellos.count > answered, hellos.last?.unconfirmed == [batch.number] {
                    answered = hellos.count
                    try await centre.send(receipt)
                }
                return try await fixture.count("delivered") == 3
            }
            #expect(centre.batches.count == 1)
            again.cancel()
            try await again.value
        }
    }

    @Test("a batch without a receipt is sent again with the same ids, and the first receipt still counts")
    func noReceipt() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port, TestCentre.isSilent)
            try await fixture.read(2)
            let destination = try fixture.fleet(
                broker.port, pace: FleetPace(tick: .milliseconds(50), silence: .milliseconds(100)))
            let worker = fixture.worker(destination, receiptTimeout: .milliseconds(300))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("handed_over") == 2 }
            let key = try await fixture.fleetKey()
            try await until { try await fixture.store.warnings(of: key).first?.contains("no receipt has come") == true }
            try await until { centre.batches.count >= 2 }
            let (first, second) = (centre.batches[0], centre.batches[1])
            #expect(Set(first.ids) == Set(second.ids) && first.number < second.number)
            try await centre.send(try #require(TestCentre.storesAll(first)))
            try await until { try await fixture.count("delivered") == 2 }
            try await until { try await fixture.store.warnings(of: key).isEmpty }
            running.cancel()
            try await running.value
        }
    }

    @Test("receipts of other gateways, of unknown batches and of broken documents change nothing")
    func foreignReceipts() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port, TestCentre.isSilent)
            try await fixture.read(1)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("handed_over") == 1 }
            // The broker acknowledges before it has passed the batch on.
            try await until { !centre.batches.isEmpty }
            let batch = try #require(centre.batches.first)
            let gateway = try Fixture.gateway()
            let other = try GatewayID("ward-8")
            try await centre.send(FleetReceipt(gateway: other, batch: batch.number, stored: batch.ids), to: gateway)
            try await centre.send(FleetReceipt(gateway: gateway, batch: batch.number + 1, stored: batch.ids))
            try await centre.send(
                FleetReceipt(gateway: gateway, batch: batch.number, stored: [ReadingID(high: 1, low: 1)]))
            // What is told last is known when what came before it was looked at.
            try await centre.send(
                FleetReceipt(
                    gateway: gateway, batch: batch.number, failure: .init(code: "newer_schema", message: "update me")))
            let key = try await fixture.fleetKey()
            try await until { try await fixture.store.warnings(of: key).first?.contains("update me") == true }
            #expect(try await fixture.count("handed_over") == 1)
            try await centre.send(FleetReceipt(gateway: gateway, batch: batch.number, storedThrough: batch.number))
            try await until { try await fixture.count("delivered") == 1 }
            try await until { try await fixture.store.warnings(of: key).isEmpty }
            running.cancel()
            try await running.value
        }
    }

    @Test("a reading that the centre refuses is set aside with the centre's reason")
    func refused() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port) { batch in
                FleetReceipt(
                    gateway: batch.gateway, batch: batch.number, stored: Array(batch.ids.dropFirst()),
                    refused: batch.ids.prefix(1).map { .init(id: $0, reason: "unknown person") })
            }
            try await fixture.read(3)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("delivered") == 2 }
            try await until { try await fixture.count("refused") == 1 }
            let refused = try await fixture.store.refused(at: try await fixture.fleetKey())
            #expect(refused.map(\.serverSaid) == ["unknown person"])
            #expect(refused.map(\.id) == Array(try #require(centre.batches.first).ids.prefix(1)))
            running.cancel()
            try await running.value
        }
    }

    @Test("readings of a person whose id is too long for a centre are refused and not sent, and a test says so before")
    func longPerson() async throws {
        let broker = try await TestBroker.start()
        // Two bytes each.
        try await Fixture.with(user: String(repeating: "ä", count: 129)) { fixture in
            let centre = try await TestCentre(broker.port)
            try await fixture.read(2)
            let fleet = try fixture.fleet(broker.port)
            let worker = fixture.worker(fleet)
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("refused") == 2 }
            let person = try await fixture.person.clientUserID
            let words = try #require(FleetPacking.refusal(of: person))
            #expect(words.contains("258 bytes"))
            let refused = try await fixture.store.refused(at: try await fixture.fleetKey())
            #expect(refused.map(\.serverSaid) == [words, words])
            #expect(centre.batches.isEmpty)
            let findings = await fleet.test()
            let finding = try #require(findings.last)
            #expect(finding.name == "delivery" && finding.isGood == false && finding.found.contains(words))
            // A destination that gets nothing of them says nothing of them.
            try await fixture.store.setRule(
                DestinationRule(selection: DestinationSelection(people: ["brown_bear"])), of: "fleet")
            let others = await fleet.test()
            #expect(!others.isEmpty && !others.contains { $0.isGood == false })
            running.cancel()
            try await running.value
        }
    }

    /// A centre that can't store one of the readings, as a database that can't hold a value.
    private static func refusing(_ isBad: @escaping @Sendable (FleetReading) -> Bool) -> TestCentre.Answer {
        { batch in
            guard batch.readings.contains(where: isBad) else { return TestCentre.storesAll(batch) }
            return FleetReceipt(
                gateway: batch.gateway, batch: batch.number,
                failure: .init(code: "bad_value", message: "the store refused a value"))
        }
    }

    @Test(
        "one reading that the centre can't store keeps no other away, and is refused by name", arguments: [true, false])
    func badValue(isKept: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(9)
            let readings = try await fixture.store.query(ReadingQuery(limit: 100)).readings
            let bad = try #require(readings.dropFirst(3).first).id
            let centre = try await TestCentre(broker.port, Self.refusing { $0.id == bad })
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = isKept ? Task { try await worker.run() } : nil
            if !isKept { #expect(await worker.syncOnce() == SyncReport(delivered: 8, refused: 1)) }
            try await until { try await fixture.count("delivered") == 8 }
            try await until { try await fixture.count("refused") == 1 }
            let key = try await fixture.fleetKey()
            let refused = try await fixture.store.refused(at: key)
            #expect(refused.map(\.id) == [bad] && refused.map(\.serverSaid) == ["the store refused a value"])
            #expect(centre.batches.contains { $0.readings.map(\.id) == [bad] })
            if isKept { try await until { try await fixture.store.warnings(of: key).isEmpty } }
            running?.cancel()
            try await running?.value
        }
    }

    @Test("a centre that can store nothing refuses no reading, and the warning stays until it is settled")
    func badCentre() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port, Self.refusing { _ in true })
            try await fixture.read(3)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            // All three were alone once.
            try await until { Set(centre.batches.filter { $0.ids.count == 1 }.flatMap(\.ids)).count == 3 }
            let key = try await fixture.fleetKey()
            try await until { try await fixture.store.warnings(of: key).first?.contains("refused a value") == true }
            #expect(try await fixture.count("refused") == 0)
            #expect(try await fixture.count("handed_over") == 3)
            // Another batch of another version: that the next is stored says nothing of it.
            centre.answer { batch in
                FleetReceipt(
                    gateway: batch.gateway, batch: batch.number,
                    failure: .init(code: "newer_schema", message: "update me"))
            }
            try await fixture.read(1, from: 10)
            worker.wake()
            try await until { try await fixture.store.warnings(of: key).first?.contains("update me") == true }
            let open = try #require(centre.batches.last)
            centre.answer(TestCentre.storesAll)
            try await fixture.read(1, from: 20)
            worker.wake()
            try await until { try await fixture.count("delivered") == 1 }
            // It stores one now: the readings that it refused alone are what is wrong.
            try await until { try await fixture.count("refused") == 3 }
            #expect(try await fixture.store.warnings(of: key).first?.contains("update me") == true)
            try await centre.send(try #require(TestCentre.storesAll(open)))
            try await until { try await fixture.store.warnings(of: key).isEmpty }
            running.cancel()
            try await running.value
        }
    }

    @Test("what a person has denied since it was handed over is not sent again when the centre could not store it")
    func denied() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port, TestCentre.isSilent)
            try await fixture.read(4)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("handed_over") == 4 && centre.batches.count == 1 }
            try await fixture.store.setConsent(.glucose, granted: false, of: try await fixture.person.key)
            let batch = try #require(centre.batches.first)
            try await centre.send(
                FleetReceipt(
                    gateway: batch.gateway, batch: batch.number,
                    failure: .init(code: "bad_value", message: "the store refused a value")))
            let key = try await fixture.fleetKey()
            try await until { try await fixture.store.warnings(of: key).first?.contains("refused a value") == true }
            // The gateway says hello again, behind whatever it has sent before.
            try await centre.send(
                FleetConfiguration(gateway: batch.gateway, version: 3, settings: ["log.level": .text("debug")]))
            try await until { centre.hellos.count >= 2 }
            #expect(centre.batches.count == 1)
            running.cancel()
            try await running.value
        }
    }

    @Test("a delivery before the connection is kept opens the one that is kept: another would lose receipts")
    func oneConnection() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port)
            try await fixture.read(2)
            let destination = try fixture.fleet(broker.port)
            let worker = fixture.worker(destination)
            await destination.willRun()
            _ = await worker.syncOnce()
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("delivered") == 2 }
            try await fixture.read(1, from: 10)
            try await until { try await fixture.count("delivered") == 3 }
            #expect(centre.hellos.count == 1)
            running.cancel()
            try await running.value
        }
    }

    @Test(
        "what the centre has under a higher number is sent again at once under a higher one", arguments: [true, false])
    func lowerNumber(isKept: Bool) async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let highest = Mutex(Int64(4_000_000_000_000))
            let centre = try await TestCentre(broker.port) { batch in
                let known = highest.withLock(\.self)
                guard batch.number <= known else { return TestCentre.storesAll(batch) }
                return FleetReceipt(
                    gateway: batch.gateway, batch: batch.number, stored: Array(batch.readings.dropLast(2).map(\.id)),
                    highestBatch: known)
            }
            try await fixture.read(5)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = isKept ? Task { try await worker.run() } : nil
            if !isKept { #expect(await worker.syncOnce() == SyncReport(delivered: 5)) }
            try await until { try await fixture.count("delivered") == 5 }
            #expect(centre.batches.map(\.readings.count) == [5, 2])
            #expect(centre.batches.last.map { $0.number > 4_000_000_000_000 } == true)
            highest.withLock { $0 = 5_000_000_000_000 }
            try await fixture.read(1, isFailed: true)
            if isKept { worker.wake() } else { #expect(await worker.syncOnce().retracted == 1) }
            let key = try await fixture.fleetKey()
            try await until { try await fixture.store.retractionCount(at: key) == 0 }
            let retractions = centre.batches.filter { !$0.retracted.isEmpty }
            #expect(retractions.map { $0.number > 5_000_000_000_000 } == [false, true])
            running?.cancel()
            try await running?.value
        }
    }

    @Test("a host that is down is left out, and one that dies is followed by the next")
    func hosts() async throws {
        let (first, second) = (try await TestBroker.start(), try await TestBroker.start())
        try await Fixture.with { fixture in
            let (one, two) = (try await TestCentre(first.port), try await TestCentre(second.port))
            try await fixture.read(1)
            let worker = fixture.worker(try fixture.fleet(try TCPPort.free(), first.port, second.port))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("delivered") == 1 }
            #expect(one.batches.count == 1)
            first.kill()
            try await fixture.read(1, from: 2)
            try await until { try await fixture.count("delivered") == 2 }
            #expect(two.stored.count == 1)
            running.cancel()
            try await running.value
        }
    }

    @Test("a reading that was excluded after its delivery is removed at the centre, after a receipt alone")
    func retraction() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port)
            try await fixture.read(3)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("delivered") == 3 }
            #expect(centre.stored.count == 3)
            try await fixture.read(1, isFailed: true)
            let key = try await fixture.fleetKey()
            worker.wake()
            try await until { centre.stored.count == 2 }
            try await until { try await fixture.store.retractionCount(at: key) == 0 }
            let batch = try #require(centre.batches.last { !$0.retracted.isEmpty })
            #expect(batch.retracted.count == 1 && batch.retracted[0].revision == batch.number)
            // It counts again: the centre gets it under a higher revision.
            try await fixture.read(1, isCorrected: true)
            worker.wake()
            try await until { centre.stored.count == 3 }
            running.cancel()
            try await running.value
        }
    }

    @Test("a sealed batch is opened by the centre, and a broker's acknowledgement is enough where that is chosen")
    func choices() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let opening = OpeningKey()
            let centre = try await TestCentre(broker.port, opening: opening, TestCentre.isSilent)
            let listener = try await Listener(broker, "healthrelay/+/readings")
            try await fixture.read(2)
            let worker = fixture.worker(
                try fixture.fleet(broker.port, waitsForReceipt: false, sealing: opening.sealingKey))
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            try await until { centre.batches.first?.readings.count == 2 && listener.messages.count == 1 }
            #expect(!listener.messages.contains { $0.text.contains("glucose") || $0.text.contains(Fixture.user) })
        }
    }

    @Test("one command waits for its receipt, and nobody who receives is a failure over MQTT 5")
    func oneCommand() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(2)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let lonely = await worker.syncOnce()
            #expect(lonely.delivered == 0)
            #expect(lonely.failure?.code == "nobody_receives")
            let centre = try await TestCentre(broker.port)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            #expect(centre.stored.count == 2)
        }
    }

    @Test("a connection on which no receipt comes is made anew")
    func deafConnection() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            try await fixture.read(1)
            let centre = try await TestCentre(broker.port, TestCentre.isSilent)
            let worker = fixture.worker(
                try fixture.fleet(
                    broker.port, pace: FleetPace(tick: .milliseconds(50), deafness: .milliseconds(200))))
            let running = Task { try await worker.run() }
            try await until { centre.hellos.count >= 3 }
            running.cancel()
            try await running.value
        }
    }

    @Test("a test of several hosts of one cluster doesn't throw its own connection out")
    func severalHosts() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port)
            let findings = await (try fixture.fleet(broker.port, broker.port)).test()
            #expect(findings.filter { $0.name == "address" }.map(\.isGood) == [true, true])
            #expect(findings.first { $0.name == "permission" }?.isGood == true)
            withExtendedLifetime(centre) {}
        }
    }

    @Test("the client's certificate names the gateway, whose topics alone it may use")
    func certificate() async throws {
        let authority = try TestAuthority()
        let issued = try authority.issue("broker", for: ["IP:127.0.0.1"])
        let own = try authority.issue("ward-7")
        let broker = try await TestBroker.start(
            rules: ["pattern readwrite healthrelay/%u/#"],
            lines: authority.lines(issued) + ["require_certificate true", "use_identity_as_username true"])
        try await Fixture.with { fixture in
            let tls = MQTTCertificates(
                authorities: authority.certificate, certificate: own.certificate, privateKey: own.key)
            let findings = await (try fixture.fleet(broker.port, tls: tls)).test()
            #expect(findings.first?.isGood == true)
            #expect(findings.first?.found.contains("lets ward-7 in") == true)
            let strange = await
                (try fixture.fleet(
                    broker.port, tls: MQTTCertificates(authorities: authority.certificate))).test()
            #expect(strange.contains { $0.isGood == false })
        }
    }

    @Test("settings from the centre are handed on once, and the centre is asked again so that its answer proves them")
    func configuration() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let (centre, steering) = (try await TestCentre(broker.port), NotingSteering())
            let worker = fixture.worker(try fixture.fleet(broker.port, steering: steering))
            let running = Task { try await worker.run() }
            try await until { centre.hellos.count == 1 }
            let wanted = FleetConfiguration(
                gateway: try Fixture.gateway(), version: 3, settings: ["log.level": .text("debug")])
            try await centre.send(wanted)
            try await until { centre.hellos.last?.configuration.version == 3 }
            try await until {
                guard case .online(let report) = centre.statuses.last else { return false }
                return report.configuration.applied == 3
            }
            try await centre.send(wanted)
            try await fixture.read(1)
            worker.wake()
            try await until { try await fixture.count("delivered") == 1 }
            #expect(await steering.taken == [wanted])
            #expect(await steering.signs == [.answer, .answer, .receipt])
            #expect(centre.hellos.count == 2)
            running.cancel()
            try await running.value
        }
    }

    @Test("a gateway whose settings nobody may change refuses each setting")
    func refusedConfiguration() async throws {
        let broker = try await TestBroker.start()
        try await Fixture.with { fixture in
            let centre = try await TestCentre(broker.port)
            let worker = fixture.worker(try fixture.fleet(broker.port))
            let running = Task { try await worker.run() }
            try await until { !centre.hellos.isEmpty }
            try await centre.send(
                FleetConfiguration(gateway: Fixture.gateway(), version: 3, settings: ["log.level": .text("info")]))
            try await until {
                guard case .online(let report) = centre.statuses.last else { return false }
                return report.configuration.version == 3 && report.configuration.state == .refused
                    && report.configuration.refused.map(\.key) == ["log.level"]
            }
            running.cancel()
            try await running.value
        }
    }
}
