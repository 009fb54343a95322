import AMQPLink
import AsyncHTTPClient
import Crypto
import DeliveryFixture
import FleetAuthority
import FleetCollector
import FleetDelivery
import FleetDocuments
import FleetStore
import Foundation
import HealthReadings
import MQTTLink
import NIOCore
import NIOHTTP1
import SwiftASN1
import TestFleetEngine
import TestRabbitMQ
import TestSupport
import Testing
import X509

@testable import MQTTDestinations
@testable import ReadingDelivery

@Suite(
    "Enrolled gateways at RabbitMQ", .timeLimit(.minutes(5)), .serialized,
    .enabled(if: TestRabbitMQ.isInstalled, "RabbitMQ is not installed"))
struct EnrolledFleetTests {
    private func destination(_ fixture: Fixture, _ engine: TestFleetEngine, _ credentials: TestCredentials)
        -> FleetDestination
    {
        FleetDestination(
            name: "fleet", store: fixture.store,
            place: FleetPlace(
                hosts: [
                    MQTTBroker(
                        host: "127.0.0.1", port: UInt16(engine.node.mqttPort),
                        tls: MQTTCertificates(authorities: engine.folder + "/ca.pem"))
                ], credentials: credentials),
            sender: FleetSender(
                version: "1.0", uptime: { 7 }, now: { Instant(seconds: Fixture.start + 100_000_000) }),
            pace: FleetPace(silence: .milliseconds(200), patience: .seconds(3)), logger: Fixture.quiet)
    }

    private func failure(_ broker: AMQPBroker) async -> String {
        let connection = AMQPConnection(to: broker)
        do {
            try await connection.open()
            await connection.close()
            return "connected"
        } catch { return "\(error)" }
    }

    @Test("delivered over TLS to a collector with a certificate; refused by name once revoked, and nothing is lost")
    func life() async throws {
        let (engine, stranger) = (try await TestFleetEngine(), try AuthorityFolder())
        let gateway = try Fixture.gateway()
        // The collector checks the broker, and is known by its certificate.
        #expect(await failure(engine.broker()) == "connected")
        #expect(await failure(engine.broker(authority: stranger.certificate)).contains("SSL"))
        #expect(await failure(engine.broker("127.1")).contains("hostname"))

        let store = try SQLiteCentralStore(directory: engine.folder + "/central")
        try await store.prepare()
        var plan = QueueReader.Plan(brokers: [engine.broker()])
        plan.groupSize = 1
        let reader = QueueReader(plan, desk: DocumentDesk(store: store, logger: Fixture.quiet), logger: Fixture.quiet)
        let reading = Task { try await reader.run() }
        try await until { reader.isConnected }

        try await Fixture.with { fixture in
            let first = try await engine.enrol(gateway, as: "first")
            let credentials = TestCredentials(first)
            let destination = destination(fixture, engine, credentials)
            let worker = fixture.worker(destination)
            try await fixture.read(5)
            let running = Task { try await worker.run() }
            try await until { try await fixture.count("delivered") == 5 }
            #expect(try await store.gateways().map(\.stored) == [5])
            #expect(credentials.wasAccepted.contains(first))
            let findings = await destination.test()
            #expect(findings.allSatisfy { $0.isGood != false }, "\(findings)")

            // Revoked: the broker closes the connection, and lets the certificate in no more.
            #expect(try await engine.desk.revoke(gateway) == 1)
            #expect(try await engine.desk.settle(engine.users) == [])
            try await until { await worker.status.connectionFailure?.code == "authentication_failed" }
            try await fixture.read(3, from: 6)
            try await until { try await fixture.count("waiting") == 3 }
            #expect(try await fixture.count("delivered") == 5)

            // The broker doesn't know that the certificate was revoked, and would let it in beside another one.
            await #expect {
                try await engine.enrol(gateway, as: "early", readmits: true)
            } throws: { error in
                (error as? AuthorityError)?.code == "revoked_certificate_good"
            }
            #expect(try await engine.users.holder(of: gateway.description) == .nobody)

            // Nobody else has its key: with another certificate it delivers what has waited.
            let second = try await engine.enrol(
                gateway, as: "second", readmits: true, oldCertificatesAreHarmless: true)
            credentials.replace(with: second)
            await worker.forgetFailures()
            try await until { try await fixture.count("delivered") == 8 }
            #expect(try await store.gateways().map(\.stored) == [8])
            running.cancel()
            try await running.value
        }
        reading.cancel()
        _ = try? await reading.value
        await store.close()
    }

    @Test("a new certificate that no broker takes leaves the one before in use, and one that is taken is told")
    func renewal() async throws {
        let (engine, stranger) = (try await TestFleetEngine(), try AuthorityFolder())
        let gateway = try Fixture.gateway()
        let good = try await engine.enrol(gateway, as: "good")
        let bad = FleetIdentity(
            gateway: gateway,
            files: try stranger.client(gateway, trusting: engine.folder + "/ca.pem"))
        try await Fixture.with { fixture in
            let credentials = TestCredentials(bad, good)
            let destination = destination(fixture, engine, credentials)
            #expect(await destination.proveIdentity() == false)
            #expect(credentials.wasRefused == [bad])
            let findings = await destination.test()
            #expect(findings.first { $0.name == "address" }?.isGood == true, "\(findings)")
            #expect(credentials.wasRefused.count >= 2 && credentials.wasAccepted.isEmpty)
            credentials.replace(with: good, bad)
            #expect(await destination.proveIdentity() == true)
            #expect(credentials.wasAccepted == [good])
        }
    }
}

/// An authority that the engine knows nothing of.
private final class AuthorityFolder: Sendable {
    let folder: String
    private let authority: Authority

    init() throws {
        folder = FileManager.default.temporaryDirectory.path + "/stranger-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        authority = try Authority.make(in: folder, at: .systemClock)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    var certificate: String { folder + "/ca.pem" }

    func client(_ gateway: GatewayID, trusting authorities: String) throws -> FleetIdentity.Files {
        let key = P256.Signing.PrivateKey()
        let certificate = try authority.serverCertificate(
            names: [gateway.description], .init(key.publicKey), isClient: true, at: .systemClock)
        try TestFleetEngine.write(key.pemRepresentation, folder + "/gw.key")
        try TestFleetEngine.write(try certificate.serializeAsPEM().pemString, folder + "/gw.pem")
        return FleetIdentity.Files(
            authorities: authorities, certificate: folder + "/gw.pem", privateKey: folder + "/gw.key")
    }
}
