import DeliveryFixture
import FleetCollector
import FleetDelivery
import FleetDocuments
import FleetStore
import Foundation
import HealthReadings
import Logging
import ReadingStore
import ScriptedServer
import Synchronization
import TestSupport
import Testing
import WebDestinations

@testable import ReadingDelivery

/// A gateway that delivers to a real collector over HTTPS.
@Suite("A gateway and a collector without a broker", .timeLimit(.minutes(3))) struct FleetWebTests {
    /// A collector's folder with a token for `ward-7`.
    private struct Centre {
        let directory = SampleBatch.folder()
        let store: SQLiteCentralStore
        let token: String

        init(_ gateway: String = "ward-7") async throws {
            store = try SQLiteCentralStore(directory: directory)
            try await store.prepare()
            token = try await GatewayTokens(store: store).make(for: gateway, at: .systemClock)
        }

        /// The gateway's destination at hosts.
        func destination(
            _ fixture: Fixture, _ urls: String..., gateway: String = "ward-7", sealing: SealingKey? = nil,
            steering: any FleetSteering = FleetRefusal()
        ) throws -> FleetWebDestination {
            let servers = try urls.map {
                try WebServer(url: $0, authorities: $0.hasPrefix("https") ? directory + "/tls.pem" : nil)
            }
            var place = FleetWebPlace(
                servers: servers, credential: .token(token), gateway: try GatewayID(gateway), sealing: sealing)
            place.statusInterval = .milliseconds(50)
            return FleetWebDestination(
                name: "fleet", store: fixture.store, place: place,
                sender: FleetSender(
                    version: "1.0", uptime: { 7 }, now: { Instant(seconds: Fixture.start + 100_000_000) },
                    steering: steering), logger: Fixture.quiet)
        }

        /// What the gateway itself would be answered, without the server.
        func desk() -> DocumentDesk { DocumentDesk(store: store, logger: Fixture.quiet) }

        func count() async throws -> Int { try await store.newest(of: nil, limit: 10_000).count }
    }

    private func worker(_ destination: FleetWebDestination, _ fixture: Fixture) -> OutboxWorker {
        var options = OutboxWorker.Options()
        options.backoff = Backoff(first: .milliseconds(50), longest: .milliseconds(200), jitter: { 1 })
        return OutboxWorker(store: fixture.store, destination: destination, options: options, logger: Fixture.quiet)
    }

    private func key(_ fixture: Fixture) async throws -> DestinationKey {
        try #require(try await fixture.store.destinations().first { $0.name == "fleet" }).key
    }

    @Test("a batch's answer delivers its readings, also after the collector was stopped and started again")
    func course() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let first = try await RunningCollector.start(in: centre.directory)
            try await fixture.read(250)
            let destination = try centre.destination(fixture, "https://localhost:1", first.url)
            let worker = worker(destination, fixture)
            #expect(await worker.syncOnce() == SyncReport(delivered: 250))
            #expect(try await centre.count() == 250)
            #expect(await destination.test().contains { $0.isGood == false && $0.name == "address" })
            await first.stop()
            try await fixture.read(5, from: 1000)
            let lost = await worker.syncOnce()
            #expect(lost.delivered == 0 && lost.failure?.code == "no_connection")
            let second = try await RunningCollector.start(in: centre.directory, port: first.port)
            // The failure's wait is over when somebody asks.
            let again = self.worker(destination, fixture)
            #expect(await again.syncOnce() == SyncReport(delivered: 5))
            #expect(try await centre.count() == 255)
            #expect(await (try centre.destination(fixture, second.url)).test().allSatisfy { $0.isGood == true })
            await second.stop()
        }
        await centre.store.close()
    }

    @Test("readings of somebody whom nobody has named are delivered, and the centre has them without a person")
    func unnamed() async throws {
        let centre = try await Centre()
        try await Fixture.with(user: "") { fixture in
            let collector = try await RunningCollector.start(in: centre.directory)
            try await fixture.read(3)
            let worker = worker(try centre.destination(fixture, collector.url), fixture)
            #expect(await worker.syncOnce() == SyncReport(delivered: 3))
            let kept = try await centre.store.newest(of: nil, limit: 10)
            #expect(kept.count == 3 && kept.allSatisfy { $0.person == nil })
            #expect(kept.allSatisfy { $0.body?.contains(#""person":null"#) == true })
            await collector.stop()
        }
        await centre.store.close()
    }

    @Test("a token that was withdrawn, and another gateway's token, hold delivery until a person has acted")
    func credentials() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let collector = try await RunningCollector.start(in: centre.directory)
            try await fixture.read(3)
            let other = worker(try centre.destination(fixture, collector.url, gateway: "ward-8"), fixture)
            let foreign = await other.syncOnce()
            #expect(foreign.failure?.code == "forbidden" && foreign.failure?.needsPerson == true)
            #expect(try await centre.count() == 0)
            _ = try await centre.store.removeTokens(of: "ward-7")
            let revoked = await worker(try centre.destination(fixture, collector.url), fixture).syncOnce()
            #expect(revoked.failure?.code == "authentication_failed" && revoked.failure?.needsPerson == true)
            #expect(revoked.failure?.serverSaid?.contains(centre.token) != true)
            #expect(try await fixture.store.groupsWaiting(at: try await key(fixture)).map(\.count) == [3])
            await collector.stop()
        }
        await centre.store.close()
    }

    @Test("a gateway that was restored under a lower number raises it, and corrects and withdraws what the centre has")
    func lowerNumber() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let collector = try await RunningCollector.start(in: centre.directory)
            try await fixture.read(2)
            let readings = try await fixture.store.query(ReadingQuery(limit: 10)).readings
            // The clock was ahead for a while, before the state was put back from a backup.
            let ahead: Int64 = 4_000_000_000_000
            let batch = FleetBatch(
                gateway: try GatewayID("ward-7"), number: ahead, sentAt: .systemClock,
                readings: readings.map { FleetReading($0, revision: ahead, person: "somebody_else") })
            _ = try await centre.desk().keep(Array(batch.document.text.utf8), from: batch.gateway)
            let worker = worker(try centre.destination(fixture, collector.url), fixture)
            #expect(await worker.syncOnce() == SyncReport(delivered: 2))
            let kept = try await centre.store.newest(of: nil, limit: 10)
            #expect(kept.count == 2 && kept.allSatisfy { $0.revision > ahead && $0.person != "somebody_else" })
            // Another process knows nothing of the number, and the centre has been ahead once more.
            let retraction = FleetBatch(
                gateway: batch.gateway, number: ahead + 1000, sentAt: .systemClock,
                readings: readings.map { FleetReading($0, revision: ahead + 1000, person: "somebody_else") })
            _ = try await centre.desk().keep(Array(retraction.document.text.utf8), from: batch.gateway)
            try await fixture.read(1, isFailed: true)
            let next = self.worker(try centre.destination(fixture, collector.url), fixture)
            #expect(await next.syncOnce().retracted == 1)
            #expect(try await centre.store.newest(of: nil, limit: 10).filter(\.isRetracted).count == 1)
            await collector.stop()
        }
        await centre.store.close()
    }

    @Test("a connection that is cut after the commit doubles nothing, at that host or the next")
    func cut() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let collector = try await RunningCollector.start(in: centre.directory)
            let desk = centre.desk()
            try await ScriptedServer.with { request in
                _ = try? await desk.keep(request.body, from: GatewayID("ward-7"))
                return .cut
            } body: { cutting in
                try await fixture.read(150)
                let alone = worker(try centre.destination(fixture, cutting.baseURL), fixture)
                #expect(await alone.syncOnce().failure?.code == "no_connection")
                #expect(try await centre.count() > 0)
                let both = worker(try centre.destination(fixture, cutting.baseURL, collector.url), fixture)
                #expect(await both.syncOnce().delivered == 150)
            }
            #expect(try await centre.count() == 150)
            #expect(try await centre.store.gateways().map(\.stored) == [150])
            await collector.stop()
        }
        await centre.store.close()
    }

    @Test("receipts that were lost come with the answer to hello, and nothing is sent again")
    func lostReceipts() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let desk = centre.desk()
            let posts = Mutex(0)
            try await ScriptedServer.with { request in
                guard let gateway = try? GatewayID("ward-7") else { return .cut }
                switch request.path {
                case "/v1/readings":
                    posts.withLock { $0 += 1 }
                    _ = try? await desk.keep(request.body, from: gateway)
                    return .cut
                case "/v1/hello":
                    guard let answer = try? await desk.note(request.body, .hello, from: gateway) else { return .cut }
                    return .json(200, answer.document.text)
                default: return .json(204, "")
                }
            } body: { server in
                try await fixture.read(3)
                let destination = try centre.destination(fixture, server.baseURL)
                _ = await worker(destination, fixture).syncOnce()
                #expect(posts.withLock(\.self) >= 1)
                #expect(try await centre.count() == 3)
                let sent = posts.withLock(\.self)
                // The answers of a collector alone, without a worker that would send again.
                let run = Task {
                    let context = DestinationContext(store: fixture.store, place: try await key(fixture), wakes: {})
                    try await destination.run(context)
                }
                let receipt = await destination.acknowledgements.first { _ in true }
                run.cancel()
                _ = try? await run.value
                #expect(receipt?.ids.count == 3 && receipt?.result == .delivered)
                #expect(posts.withLock(\.self) == sent)
            }
        }
        await centre.store.close()
    }

    @Test("an address that redirects is told with the setting that a fleet has")
    func redirected() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            try await ScriptedServer.with { _ in
                .json(307, "", headers: ["location": "https://centre.example/v1"])
            } body: { server in
                try await fixture.read(1)
                let failure = await worker(try centre.destination(fixture, server.baseURL), fixture).syncOnce().failure
                let words = failure?.message ?? ""
                #expect(failure?.code == "redirected" && words.contains("set `hosts` to") && !words.contains("`url`"))
            }
        }
        await centre.store.close()
    }

    @Test("413 has smaller batches sent, 503 is waited out as the collector asks, a seal that does not open holds all")
    func answers() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let desk = centre.desk()
            let isAway = Mutex(true)
            try await ScriptedServer.with { request in
                if isAway.withLock(\.self) { return .json(503, "{}", headers: ["retry-after": "17"]) }
                guard request.body.count < 20_000 else {
                    return .json(413, #"{"error":{"code":"document_too_large","message":"too large"}}"#)
                }
                guard let receipt = try? await desk.keep(request.body, from: GatewayID("ward-7")) else { return .cut }
                return .json(200, receipt.document.text)
            } body: { server in
                try await fixture.read(100)
                let away = await worker(try centre.destination(fixture, server.baseURL), fixture).syncOnce()
                #expect(away.failure?.code == "server_error" && away.failure?.retryAfter == .seconds(17))
                isAway.withLock { $0 = false }
                let smaller = worker(try centre.destination(fixture, server.baseURL), fixture)
                #expect(await smaller.syncOnce().delivered == 100)
                #expect(server.requests.contains { $0.body.count >= 20_000 })
            }
            #expect(try await centre.count() == 100)
            let collector = try await RunningCollector.start(in: centre.directory)
            try await fixture.read(2, from: 500)
            let sealed = try centre.destination(fixture, collector.url, sealing: OpeningKey().sealingKey)
            let unopened = await worker(sealed, fixture).syncOnce()
            #expect(unopened.failure?.code == "other_key" && unopened.failure?.needsPerson == true)
            #expect(await worker(try centre.destination(fixture, collector.url), fixture).syncOnce().delivered == 2)
            await collector.stop()
        }
        await centre.store.close()
    }

    @Test("settings come with the answers to hello and status, and the collector learns what became of them")
    func configuration() async throws {
        let centre = try await Centre()
        try await Fixture.with { fixture in
            let collector = try await RunningCollector.start(in: centre.directory)
            let steering = NotingSteering()
            let running = worker(try centre.destination(fixture, collector.url, steering: steering), fixture)
            let work = Task { try await running.run() }
            try await until { try await centre.store.gateways().first?.status != nil }
            let desired = try DesiredSettings(yaml: "log.level: debug", path: "f")
            let version = try await desired.keep(for: GatewayID("ward-7"), in: centre.store, at: .systemClock)
            try await until { await steering.taken.last?.version == version }
            try await until {
                guard let text = try await centre.store.gateways().first?.configuration else { return false }
                return try FleetConfigurationState(Array(text.utf8)).applied == version
            }
            #expect(await steering.taken.count == 1)
            work.cancel()
            try await work.value
            await collector.stop()
        }
        await centre.store.close()
    }
}
