import DeliveryFixture
import FleetAuthority
import FleetCollector
import FleetDelivery
import FleetDocuments
import FleetStore
import HealthReadings
import ReadingStore
import TestFleetEngine
import Testing
import WebDestinations

@testable import ReadingDelivery

/// A gateway that has enrolled, and delivers to a real collector with its certificate.
@Suite("An enrolled gateway and a collector without a broker", .timeLimit(.minutes(3))) struct EnrolledWebTests {
    private func destination(
        _ fixture: Fixture, _ url: String, _ credentials: TestCredentials
    ) throws -> FleetWebDestination {
        FleetWebDestination(
            name: "fleet", store: fixture.store,
            place: FleetWebPlace(servers: [try WebServer(url: url)], credential: .enrolled(credentials)),
            sender: FleetSender(
                version: "1.0", uptime: { 7 }, now: { Instant(seconds: Fixture.start + 100_000_000) }),
            logger: Fixture.quiet)
    }

    private func sync(_ destination: FleetWebDestination, _ fixture: Fixture) async -> SyncReport {
        // A worker of its own: a failure's wait is over when somebody asks.
        await OutboxWorker(store: fixture.store, destination: destination, logger: Fixture.quiet).syncOnce()
    }

    @Test("its certificate delivers, so does the renewed one, and a revoked one delivers nothing on open connections")
    func course() async throws {
        let (bench, stranger) = (try AuthorityBench(), try AuthorityBench())
        try await bench.desk.refreshList()
        let collector = try await RunningCollector.start(
            in: bench.folder + "/collector", bench.collectorSettings())
        let store = try SQLiteCentralStore(directory: bench.folder + "/collector")
        try await Fixture.with { fixture in
            let credentials = TestCredentials()
            let destination = try destination(fixture, collector.url, credentials)
            try await fixture.read(3)
            let early = await sync(destination, fixture)
            #expect(early.failure?.code == "not_enrolled" && early.failure?.needsPerson == true)
            #expect(await destination.test().contains { $0.isGood == false })

            let first = try await bench.identity("gw1")
            credentials.replace(with: first)
            #expect(await sync(destination, fixture) == SyncReport(delivered: 3))
            #expect(Set(credentials.wasAccepted) == [first])
            #expect(await destination.test().allSatisfy { $0.isGood == true })

            let second = try await bench.renewed(first)
            credentials.replace(with: second, first)
            #expect(await destination.proveIdentity())
            #expect(credentials.wasAccepted.last == second)
            try await fixture.read(2, from: 100)
            #expect(await sync(destination, fixture).delivered == 2)
            #expect(try await store.gateways().map(\.gateway) == ["gw1"])

            // A certificate that the collector's authority hasn't signed is the newest: the one before still delivers.
            let foreign = try await stranger.identity("gw1")
            let odd = FleetIdentity(
                gateway: foreign.gateway,
                files: .init(
                    authorities: first.files.authorities, certificate: foreign.files.certificate,
                    privateKey: foreign.files.privateKey))
            credentials.replace(with: odd, second)
            #expect(await destination.proveIdentity() == false)
            try await fixture.read(1, from: 200)
            #expect(await sync(destination, fixture).delivered == 1)
            #expect(!credentials.wasAccepted.contains(odd) && credentials.wasRefused.allSatisfy { $0 == odd })

            credentials.replace(with: second)
            _ = try await bench.desk.revoke(first.gateway)
            try await fixture.read(4, from: 300)
            let revoked = await sync(destination, fixture)
            #expect(revoked.failure?.code == "authentication_failed" && revoked.failure?.needsPerson == true)
            #expect(try await store.newest(of: nil, limit: 100).count == 6)
            let place = try #require(try await fixture.store.destinations().first { $0.name == "fleet" }).key
            #expect(try await fixture.store.groupsWaiting(at: place).map(\.count) == [4])
        }
        await store.close()
        await collector.stop()
    }

    @Test("a certificate that has expired delivers nothing until the gateway has enrolled again under its id")
    func expired() async throws {
        let bench = try AuthorityBench(at: Instant.systemClock.advanced(bySeconds: -10 * 86_400), days: 1)
        let gone = try await bench.identity("gw1")
        bench.advance(10 * 86_400)
        try await bench.desk.refreshList()
        let collector = try await RunningCollector.start(
            in: bench.folder + "/collector", bench.collectorSettings())
        try await Fixture.with { fixture in
            let credentials = TestCredentials()
            credentials.replace(with: gone)
            let destination = try destination(fixture, collector.url, credentials)
            try await fixture.read(3)
            let refused = await sync(destination, fixture)
            // The connection may be cut before the reason is read.
            #expect(["authentication_failed", "no_connection"].contains(refused.failure?.code), "\(refused)")
            #expect(credentials.wasAccepted.isEmpty)
            credentials.replace(with: try await bench.identity("gw1"))
            #expect(await sync(destination, fixture) == SyncReport(delivered: 3))
        }
        await collector.stop()
    }
}
